"""Consistency of docs/validity.md with the benchmark's results; toolmark's own rows are reproducible."""

from __future__ import annotations

import json
import os
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from processes import ROOT, run_python
from toolmark.cli.validate import validate

PAGE = ROOT / "docs" / "validity.md"
BENCHMARK = ROOT / "benchmarks" / "validity"
SHARED = Path(os.environ.get("TOOLMARK_SHARED") or ROOT.parent / "shared")
RUNS = SHARED / "data" / "tau-airline" / "runs.jsonl"

needs_benchmark = pytest.mark.skipif(
    not BENCHMARK.is_dir(), reason="the benchmarks are not here, as in an unpacked source distribution"
)
needs_runs = pytest.mark.skipif(
    not RUNS.is_file(),
    reason="the recorded airline runs are not here; set TOOLMARK_SHARED to the folder of shared data",
)


@pytest.fixture(scope="module")
def table() -> ModuleType:
    """What the benchmark writes its table with."""
    spec = spec_from_file_location("validity_table", BENCHMARK / "table.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """What the benchmark measured when it was last written."""
    values: dict[str, Any] = json.loads((BENCHMARK / "results.json").read_text(encoding="utf-8"))
    return values


def rows(results: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """All rows, by the heading and the name."""
    return {(group["name"], row["name"]): row for group in results["groups"] for row in group["rows"]}


@needs_benchmark
def test_the_table_is_the_benchmarks(table: ModuleType, results: dict[str, Any]) -> None:
    """Letter by letter."""
    assert table.section_of(PAGE) == table.markdown(results)


@needs_benchmark
@needs_runs
def test_own_rows_are_reproducible(results: dict[str, Any]) -> None:
    """Each row that needs no other library equals the one in the table, and none is missing."""
    done = run_python(["-m", "validity", "--own", "--json", f"--data={RUNS}"], ROOT / "benchmarks")
    assert done.code == 0, done.err
    again, before = rows(json.loads(done.out)), rows(results)
    others = {"DeepEval", "agentevals", "ragas", "Google ADK"}

    assert again.keys() == {key for key in before if key[0] not in others}
    assert len(again) > 20
    for key, row in again.items():
        assert row.keys() == before[key].keys()
        for name, value in row.items():
            expected = before[key][name]
            assert value == (pytest.approx(expected, abs=1e-9) if isinstance(value, (float, list)) else expected), key


@needs_benchmark
def test_every_library_has_rows_or_a_reason(results: dict[str, Any]) -> None:
    """Each has rows over all runs, or a reason for its absence."""
    groups = {group["name"]: group for group in results["groups"]}

    for name in ("DeepEval", "agentevals", "ragas", "Google ADK"):
        assert groups[name]["rows"] or groups[name]["absent"]
        assert all(row["scored"] == results["about"]["cases"] for row in groups[name]["rows"])


@needs_benchmark
def test_absent_library_has_its_reason(table: ModuleType, results: dict[str, Any]) -> None:
    """The reason replaces its rows."""
    text = table.markdown({**results, "groups": [{"name": "Other", "rows": [], "absent": "not to be had"}]})

    assert "| absent: not to be had |" in text


@needs_benchmark
def test_the_figures_in_words_are_those_of_the_table(results: dict[str, Any]) -> None:
    """Every number that the page draws a conclusion from is one of the table, rounded."""
    page = PAGE.read_text(encoding="utf-8")
    words = page[page.index("## What it shows") : page.index("## What it does not show")]
    figures = {
        f"{row[name]:.2f}"
        for row in rows(results).values()
        for name in ("auc", "auc where expected", "balanced")
        if row[name] is not None
    }
    named = set(re.findall(r"\b0\.\d\d\b", words))

    assert len(named) > 5
    assert named <= figures


@needs_benchmark
def test_pins_are_exact_and_name_no_address() -> None:
    """One version for each line, with the matching environments."""
    pin = re.compile(r"[a-z0-9][a-z0-9._-]*(\[[a-z0-9,-]+\])?==[^\s;@]+( ; .*)?")
    pins = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in BENCHMARK.glob("pins/*.txt")}

    assert pins.keys() == {"agentevals", "deepeval", "google_adk", "ragas"}
    assert [line for lines in pins.values() for line in lines if not pin.fullmatch(line)] == []


def test_the_options_of_the_page_exist() -> None:
    """Every option that it names, of the commands that it shows."""
    page = PAGE.read_text(encoding="utf-8")
    options = {name for param in validate.params for name in param.opts}
    label = next(param for param in validate.params if param.name == "label")

    assert set(re.findall(r"--[a-z][a-z-]+", page)) <= options
    assert isinstance(label, click.Option)
    assert label.required


@needs_runs
def test_the_command_of_the_page_runs(tmp_path: Path) -> None:
    """As it stands, on a file of that name."""
    page = PAGE.read_text(encoding="utf-8")
    ((command,),) = [re.findall(r"^toolmark (validate .*)$", page, re.MULTILINE)]
    (tmp_path / "runs.jsonl").write_bytes(RUNS.read_bytes())
    done = run_python(["-m", "toolmark.cli", *command.split()], tmp_path)

    assert (done.code, done.err) == (0, "")
    assert "runs.jsonl: 100 cases; by metadata.reward 31 good (from 1), 69 bad" in done.out
