"""Consistency of the pages about validity with the benchmark's results; toolgrade's own rows are reproducible."""

from __future__ import annotations

import json
import os
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from processes import ROOT, run_python

PAGE = ROOT / "docs" / "validity.md"
BENCHMARK = ROOT / "benchmarks" / "validity"
TABLES = BENCHMARK / "README.md"
SHARED = Path(os.environ.get("TOOLGRADE_SHARED") or ROOT.parent / "shared")
RUNS = SHARED / "data" / "tau-airline" / "runs.jsonl"

needs_benchmark = pytest.mark.skipif(
    not BENCHMARK.is_dir(), reason="the benchmarks are not here, as in an unpacked source distribution"
)
needs_runs = pytest.mark.skipif(
    not RUNS.is_file(),
    reason="the recorded airline runs are not here; set TOOLGRADE_SHARED to the folder of shared data",
)


def loaded(name: str) -> ModuleType:
    """Return a module of the benchmark."""
    spec = spec_from_file_location(f"validity_{name}", BENCHMARK / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def table() -> ModuleType:
    """Return what the benchmark writes its tables with."""
    return loaded("table")


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """Return what the benchmark measured when it was last written."""
    values: dict[str, Any] = json.loads((BENCHMARK / "results.json").read_text(encoding="utf-8"))
    return values


@needs_benchmark
def test_the_tables_are_the_benchmarks(table: ModuleType, results: dict[str, Any]) -> None:
    """Letter by letter, and the file of the results has one line for each row."""
    for name in table.SECTIONS:
        assert table.section_of(TABLES, table.begin_of(name)) == table.section(results, name)
    assert (BENCHMARK / "results.json").read_text(encoding="utf-8") == table.json_text(results)


@needs_benchmark
def test_columns_of_other_libraries_are_their_best(table: ModuleType, results: dict[str, Any]) -> None:
    """No mode of another library has a higher mean than a column of the page, neither raw nor prepared."""
    others = {True: [0.0], False: [0.0]}
    columns = {True: [0.0], False: [0.0]}
    for name, kind in results["kinds"].items():
        if kind != "toolgrade":
            prepared = kind.endswith(", prepared")
            others[prepared].append(table.mean_of(results, name))
            if name in table.COLUMNS:
                columns[prepared].append(table.mean_of(results, name))

    assert len(others[True]) > 20
    assert [max(columns[prepared]) for prepared in (True, False)] == [
        max(others[prepared]) for prepared in (True, False)
    ]


@pytest.mark.any_version
@needs_benchmark
@needs_runs
def test_own_rows_are_reproducible(results: dict[str, Any]) -> None:
    """The AUCs of the airline runs that need no other library equal those of the table, and none is missing."""
    options = ["--own", "--json", "--resamples=2", f"--data={RUNS}"]
    done = run_python(["-m", "validity", *options], ROOT / "benchmarks")
    assert done.code == 0, done.err
    again, before = (one["data"]["tau-airline"]["rows"] for one in (json.loads(done.out), results))
    own = [name for name, kind in results["kinds"].items() if kind == "toolgrade"]

    assert list(again) == own
    assert len(own) >= 8
    for name in own:
        auc, _, _, scored = again[name]
        assert [auc, scored] == [before[name][0], before[name][3]], name


@needs_benchmark
def test_every_library_has_rows_or_a_reason(results: dict[str, Any]) -> None:
    """Each has a score of every run, raw and prepared, or a reason for its absence."""
    for name in ("DeepEval", "agentevals", "ragas", "Google ADK"):
        if name in results["about"]["absent"]:
            continue
        for kind in (name, f"{name}, prepared"):
            rows = [row for row, of_kind in results["kinds"].items() if of_kind == kind]
            assert len(rows) >= 3
            for one in results["data"].values():
                assert all(one["rows"][row][-1] == one["runs"] for row in rows)


@needs_benchmark
def test_constants_are_not_fitted(results: dict[str, Any]) -> None:
    """Half or double of any constant moves the mean AUC by less than 0.01."""
    mean = results["constants mean"]

    assert len(results["constants"]) >= 4
    for name, (_, half, double) in results["constants"].items():
        assert abs(half - mean) < 0.01, name
        assert abs(double - mean) < 0.01, name


@needs_benchmark
def test_the_figures_in_words_are_those_of_the_results(table: ModuleType, results: dict[str, Any]) -> None:
    """Every number that the page draws a conclusion from is one of the results, rounded."""
    tables = TABLES.read_text(encoding="utf-8")
    words = tables[tables.index("## What it shows") :]
    measured = [0.5, *(value for one in results["data"].values() for row in one["rows"].values() for value in row[:3])]
    measured += [table.mean_of(results, name) for name in results["kinds"]]
    figures = {f"{value:.{digits}f}" for value in measured if value is not None for digits in (1, 2, 3)}
    named = set(re.findall(r"\b0\.\d+\b", words))

    assert len(named) > 5
    assert named <= figures


@needs_benchmark
def test_the_shares_to_choose_by_are_those_of_the_results(results: dict[str, Any]) -> None:
    """Every share with its interval, as percents."""
    page = PAGE.read_text(encoding="utf-8")
    table = page[page.index("## Choose by what you have") : page.index("What this says:")]
    shares = [share for one in results["data"].values() for gate in one["gates"].values() for share in gate]
    measured = {"{:.0f} ({:.0f} to {:.0f})".format(*(100 * value for value in share)) for share in shares}
    named = re.findall(r"\b\d+ \(\d+ to \d+\)", table)

    assert len(named) > 40
    assert set(named) <= measured


@needs_runs
def test_the_command_of_the_page_runs(tmp_path: Path) -> None:
    """As it stands, on a file of that name."""
    page = PAGE.read_text(encoding="utf-8")
    command = re.findall(r"^toolgrade (validate .*)$", page, re.MULTILINE)[0]
    (tmp_path / "runs.jsonl").write_bytes(RUNS.read_bytes())
    done = run_python(["-m", "toolgrade.cli", *command.split()], tmp_path)

    assert (done.code, done.err) == (0, "")
    assert "100 cases by metadata.reward: 31 good, 69 bad" in done.out
