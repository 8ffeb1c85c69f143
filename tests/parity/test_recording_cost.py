"""The benchmark of recorders runs, and prints its table; the figures themselves need an idle machine."""

from __future__ import annotations

import pytest

from parity.players import is_complete
from processes import ROOT, run_python

BENCHMARK = ROOT / "benchmarks" / "recording.py"


@pytest.mark.skipif(not (BENCHMARK.exists() and is_complete()), reason="it needs the benchmarks and the frameworks")
def test_the_benchmark_of_recorders_prints_a_table() -> None:
    """One line for the framework that is measured, with times, ratios and memory."""
    counts = ["--rounds=1", "--at-once=2", "--memory-runs=4"]
    done = run_python([str(BENCHMARK), "--only", "OpenAI Agents", *counts], ROOT)

    assert done.code == 0, done.err
    *_, heads, _, line = done.out.strip().splitlines()
    assert (
        heads == "| framework | one run | recorded | ratio | 2 at once | recorded | ratio | memory a run | recorded |"
    )
    assert line.startswith("| OpenAI Agents (")
    assert line.count(" ms | ") == 4
