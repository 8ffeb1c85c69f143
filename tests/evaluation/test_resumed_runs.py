"""Files with interrupted runs that a later line has again, resumed: one case, for every reader and any division."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from command_runner import RUNNER
from scale_files import metrics
from toolgrade import Run, RunStatus, ToolCall, evaluate, read_cases
from toolgrade.capture import JsonlSink, RunBuilder
from toolgrade.cases import AnyCase
from toolgrade.cli.main import main
from toolgrade.errors import ToolgradeWarning
from toolgrade.evaluation import files, read_results

IDS = ("run-1", 'é"\\run\n', "", None)
"""Ids of runs, also such that JSON text can spell in several ways."""


def line(run_id: str | None, status: str, number: int, *, camel: bool = False, ascii: bool = True) -> str:
    """Return the line of a case, with the status spelled in other places, too."""
    run: dict[str, Any] = {"status": status, "metadata": {"status": "interrupted", "run_id": "run-1"}}
    if run_id is not None:
        run["runId" if camel else "run_id"] = run_id
    calls = [{"name": "interrupted", "output": number}]
    case = {"id": f"c{number}", "input": '"interrupted"', "tools_called": calls, "expected_tools": calls, "run": run}
    return json.dumps(case, ensure_ascii=ascii)


def remaining(runs: list[tuple[str | None, str]]) -> list[str]:
    """Return the ids of the cases that count, by the rule itself: no later run has the id of an interrupted one."""
    return [
        f"c{place}"
        for place, (run_id, status) in enumerate(runs)
        if status != "interrupted" or run_id is None or run_id not in [later for later, _ in runs[place + 1 :]]
    ]


def read_quietly(path: Path) -> list[AnyCase]:
    """Return the cases of a file, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ToolgradeWarning)
        return list(read_cases(path))


def ids_of(paths: Path | list[Path], **options: Any) -> list[str | None]:
    """Return the ids of the cases of a report of files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ToolgradeWarning)
        return [case.case.id for case in evaluate(paths, metrics(), **options).cases]


run_lists = st.lists(
    st.tuples(st.sampled_from(IDS), st.sampled_from([status.value for status in RunStatus])), min_size=1, max_size=12
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(runs=run_lists, styles=st.integers(0, 3), part_bytes=st.integers(1, 900), share=st.floats(0, 1))
def test_every_reader_leaves_out_the_same_runs(
    tmp_path: Path, runs: list[tuple[str | None, str]], styles: int, part_bytes: int, share: float
) -> None:
    """Lists, compressed lines, one array, byte ranges and several files have the cases that the rule names."""
    lines = [
        line(run_id, status, number, camel=bool(styles & 1), ascii=bool(styles & 2))
        for number, (run_id, status) in enumerate(runs)
    ]
    text = "\n".join(lines) + "\n"
    plain, packed, array = tmp_path / "runs.jsonl", tmp_path / "runs.jsonl.gz", tmp_path / "runs.json"
    plain.write_text(text, encoding="utf-8")
    packed.write_bytes(gzip.compress(text.encode()))
    array.write_text(f"[{','.join(lines)}]", encoding="utf-8")
    ids = remaining(runs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "PART_BYTES", part_bytes)
        patch.setattr(files, "WORTH_A_PROCESS", 1)
        for path in (plain, packed, array):
            assert [case.id for case in read_quietly(path)] == ids
            assert ids_of(path, processes=1) == ids
    cut = round(share * len(lines))
    halves = [tmp_path / name for name, part in (("a", lines[:cut]), ("b", lines[cut:])) if part]
    for path, part in zip(halves, filter(None, (lines[:cut], lines[cut:])), strict=True):
        path.write_text("\n".join(part), encoding="utf-8")
    assert ids_of(halves, processes=1) == ids


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(runs=run_lists, begun=st.integers(1, 12), part_bytes=st.integers(1, 900))
def test_a_file_that_has_grown_is_resumed(
    tmp_path: Path, runs: list[tuple[str | None, str]], begun: int, part_bytes: int
) -> None:
    """A run that was scored as interrupted, and was resumed since, counts once in the file of results, too."""
    path, results = tmp_path / "runs.jsonl", tmp_path / "results.jsonl"
    results.unlink(missing_ok=True)
    lines = [line(run_id, status, number) for number, (run_id, status) in enumerate(runs)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "PART_BYTES", part_bytes)
        patch.setattr(files, "WORTH_A_PROCESS", 1)
        path.write_text("\n".join(lines[:begun]) + "\n", encoding="utf-8")
        ids_of(path, results=results, processes=1)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        ids = ids_of(path, results=results, resume=True, processes=1)

    assert ids == remaining(runs)
    assert [case.case.id for case in read_results(results).cases] == ids


def test_they_are_counted_by_file(tmp_path: Path) -> None:
    """In one warning a file."""
    path, other = tmp_path / "runs.jsonl", tmp_path / "other.jsonl"
    lines = [line(f"r{place}", "interrupted" if place % 3 == 0 else "ok", place) for place in range(30)]
    path.write_text("\n".join(lines), encoding="utf-8")
    lines = [line(f"r{place}", "ok", 30 + place) for place in range(0, 30, 3)]
    other.write_text("\n".join([*lines, line("never", "interrupted", 99)]), encoding="utf-8")

    with pytest.warns(ToolgradeWarning) as caught:
        report = evaluate([path, other], metrics())

    assert len(report.cases) == 31
    assert [str(one.message).rpartition("/")[2] for one in caught] == [
        "runs.jsonl: left out 10 interrupted runs: a later line has the same run, resumed"
    ]


def test_a_torn_later_line_replaces_nothing(tmp_path: Path) -> None:
    """Only a line that can be read replaces an earlier one."""
    path = tmp_path / "runs.jsonl"
    path.write_text(line("r", "interrupted", 0) + "\n" + line("r", "ok", 1)[:-1], encoding="utf-8")

    assert [case.id for case in read_quietly(path)] == ["c0"]
    assert ids_of(path) == ["c0", None]


def test_a_resumed_run_of_a_sink_is_one_case(tmp_path: Path) -> None:
    """A run that a sink wrote twice is scored once by the command line, with a warning."""
    path = tmp_path / "runs.jsonl"
    builder = RunBuilder(run_id="r1")
    builder.started("Refund order 7.")
    builder.model_asked([])
    builder.ended(status=RunStatus.INTERRUPTED)
    with JsonlSink(path) as sink:
        sink.write(builder.build())
        sink.write(Run(run_id="r2", calls=[ToolCall(name="refund")]))
        builder.resumed()
        builder.ended("Done.")
        sink.write(builder.build())

    with pytest.warns(ToolgradeWarning, match="left out 1 interrupted run:"):
        cases = read_cases(path)

    assert [(case.id, case.actual_output) for case in cases] == [("r2", None), ("r1", "Done.")]
    result = RUNNER.invoke(main, ["score", str(path), "--metric", "tool-correctness"])
    assert "left out 1 interrupted run: a later line has the same run, resumed" in result.stderr
    assert "2 not measured" in result.stdout  # both cases have no expectations
