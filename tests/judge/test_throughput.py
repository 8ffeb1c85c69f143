"""A judged evaluation takes little more than the time that the endpoint needs; benchmarks/judging.py has figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from processes import environment

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "judging.py"


@pytest.mark.skipif(not BENCHMARK.exists(), reason="the benchmarks are not part of the distribution")
def test_waiting_is_most_of_the_time() -> None:
    """Sixty conversations of three units with eight parallel requests take at most four times the ideal time.

    On a machine that has nothing else to do it is 1.2 times, on a busy one up to 3. If requests waited for each other,
    it would be 8 times.
    """
    pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--cases", "60", "--units", "3", "--concurrency", "8"],
        env=environment(),
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )

    at_once, requests, _ideal, _took, ratio = done.stdout.splitlines()[-1].split()
    assert (at_once, requests) == ("8", "540")
    assert float(ratio) < 4
