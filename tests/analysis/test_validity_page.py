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
def test_absent_library_has_its_reason(table: ModuleType, results: dict[str, Any]) -> None:
    """The reason stands below the table."""
    about = {**results["about"], "absent": {"Other": "not to be had"}}

    assert "Other is absent: not to be had" in table.section({**results, "about": about}, "scores")


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


@needs_benchmark
def test_conversation_in_the_neutral_form() -> None:
    """Calls with their turn and answer, what the agent said, and how the run ended."""
    runs = loaded("runs")
    record = {
        "id": "run",
        "query": "Book it.",
        "expected_tools": [{"name": "book", "args": {"seat": 1}}],
        "metadata": {"task_id": 3, "reward": 1.0, "required_texts": ["1A"]},
        "agent_trajectory": [
            {"role": "user", "content": "Book it."},
            {"role": "assistant", "content": "Which seat?"},
            {"role": "user", "content": "Any."},
            *call_messages("book", '{"seat": 0}', "Error: no such seat"),
            *call_messages("get_seat", "{}", "1A"),
            *call_messages("book", '{"seat": 1}', "booked"),
            {"role": "assistant", "content": "You have 1A."},
            {"role": "user", "content": "Thanks. ###STOP###"},
        ],
    }
    run = runs._from_conversation(record)
    case, bare = runs.case_of(run), runs.case_of(run, texts=False, failures=False)
    failed = [call.execution is not None and call.execution.status == "error" for call in case.tools_called]

    assert [call["turn"] for call in run["called"]] == [2, 2, 2]
    assert [call["changes_state"] for call in run["called"]] == [True, False, True]
    assert failed == [True, False, False]
    assert (case.agent_texts, case.actual_output) == (["Which seat?", "You have 1A."], "You have 1A.")
    assert (case.required_texts, case.ended, case.ends) == (["1A"], True, "ok")
    assert (bare.agent_texts, bare.required_texts, bare.ends) == (None, [], None)
    assert all(call.execution is None for call in bare.tools_called)
    named = runs.case_of(run, prefix="acme_")
    assert [[call.name for call in calls] for calls in (named.tools_called, named.expected_tools)] == [
        [f"acme_{call.name}" for call in calls] for calls in (case.tools_called, case.expected_tools)
    ]
    assert runs.peer_case(run, prepared=True) == {
        "called": [["book", {"seat": 1}]],
        "expected": [["book", {"seat": 1}]],
    }
    assert len(runs.peer_case(run, prepared=False)["called"]) == 3
    record["agent_trajectory"].pop()
    assert runs.case_of(runs._from_conversation(record)).ended is False


@needs_benchmark
def test_sparse_runs(tmp_path: Path) -> None:
    """Files of one name are two data sets; a case states no turns if calls have none, and no end if none is known."""
    runs = loaded("runs")
    run = {"id": 1, "task": "a", "reward": 1, "called": [{"name": "f"}], "expected": [{"name": "f", "turn": 1}]}
    paths = [tmp_path / folder / "sparse.jsonl" for folder in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(json.dumps(run) + "\n", encoding="utf-8")
    case = runs.case_of(run)

    assert runs.data_sets(ROOT, paths) == {"sparse": [run], "sparse'": [run]}
    assert (case.expected_tools[0].turn, case.ended, case.ends, case.agent_texts) == (None, None, None, None)
    assert runs.peer_case(run, prepared=True) == {"called": [["f", {}]], "expected": [["f", {}]]}


def call_messages(name: str, arguments: str, output: str) -> list[dict[str, Any]]:
    """Return the messages of one call and its answer."""
    call_id = f"{name} {arguments}"
    function = {"name": name, "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": output},
    ]


@needs_benchmark
def test_pins_are_exact_and_name_no_address() -> None:
    """One version for each line, with the matching environments."""
    pin = re.compile(r"[a-z0-9][a-z0-9._-]*(\[[a-z0-9,-]+\])?==[^\s;@]+( ; .*)?")
    pins = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in BENCHMARK.glob("pins/*.txt")}

    assert pins.keys() == {"agentevals", "deepeval", "google_adk", "ragas"}
    assert [line for lines in pins.values() for line in lines if not pin.fullmatch(line)] == []


@needs_runs
def test_the_command_of_the_page_runs(tmp_path: Path) -> None:
    """As it stands, on a file of that name."""
    page = PAGE.read_text(encoding="utf-8")
    command = re.findall(r"^toolgrade (validate .*)$", page, re.MULTILINE)[0]
    (tmp_path / "runs.jsonl").write_bytes(RUNS.read_bytes())
    done = run_python(["-m", "toolgrade.cli", *command.split()], tmp_path)

    assert (done.code, done.err) == (0, "")
    assert "100 cases by metadata.reward: 31 good, 69 bad" in done.out
