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
from scale_files import body, metrics, without_start
from toolgrade import Run, RunStatus, ToolCall, evaluate, read_cases
from toolgrade.capture import JsonlSink, RunBuilder
from toolgrade.cases import AnyCase
from toolgrade.cli.main import main
from toolgrade.errors import ToolgradeWarning
from toolgrade.scale import score_files
from toolgrade.scale.files import report_file
from toolgrade.scale.partition import divide_files
from toolgrade.scale.run import survey

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


run_lists = st.lists(
    st.tuples(st.sampled_from(IDS), st.sampled_from([status.value for status in RunStatus])), min_size=1, max_size=12
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(runs=run_lists, styles=st.integers(0, 3), part_bytes=st.integers(1, 900))
def test_every_reader_leaves_out_the_same_runs(
    tmp_path: Path, runs: list[tuple[str | None, str]], styles: int, part_bytes: int
) -> None:
    """Lists, compressed lines, one array and byte ranges have the cases that the rule names."""
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

    for path in (plain, packed, array):
        assert [case.id for case in read_quietly(path)] == ids
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ToolgradeWarning)
            assert score_files([path], metrics(), processes=1, part_bytes=part_bytes).cases == len(ids)
            report = report_file(path, metrics(), full=0, processes=1)
        assert [case.case.id for case in report.cases] == ids


def write_runs(path: Path, number: int) -> int:
    """Write runs of which every third was interrupted, its end far away, and one that never resumed."""
    lines = [line(f"r{place}", "interrupted" if place % 3 == 0 else "ok", place) for place in range(number)]
    lines += [line(f"r{place}", "ok", number + place) for place in range(0, number, 3)]
    lines.append(line("never", "interrupted", 2 * number))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return number + 1


@pytest.mark.parametrize(("processes", "part_bytes"), [(1, 300), (2, 2_000), (3, 10**6)])
def test_results_do_not_depend_on_parts_and_processes(tmp_path: Path, processes: int, part_bytes: int) -> None:
    """The results have the bytes of one part, and those of evaluating the cases of the file at once."""
    path = tmp_path / "runs.jsonl"
    cases = write_runs(path, 30)
    left_out = "runs.jsonl: left out 10 interrupted runs: a later line has the same run, resumed"
    with pytest.warns(ToolgradeWarning, match=left_out):
        alone = score_files([path], metrics(), results=tmp_path / "alone", processes=1)
    with pytest.warns(ToolgradeWarning, match=left_out) as caught:
        totals = score_files([path], metrics(), results=tmp_path / "parts", processes=processes, part_bytes=part_bytes)
    assert len(caught) == 1
    assert totals == alone
    assert totals.cases == cases
    assert without_start(tmp_path / "parts") == without_start(tmp_path / "alone")
    with pytest.warns(ToolgradeWarning, match=left_out):
        evaluate(read_cases(path), metrics(), results=tmp_path / "whole", show_progress=False)
    assert body(tmp_path / "parts") == body(tmp_path / "whole")


def test_the_status_is_found_at_the_edge_of_two_pieces(tmp_path: Path) -> None:
    """The byte search of a part finds a status of which each piece that is read has one half."""
    path = tmp_path / "runs.jsonl"
    first, second = line("r", "interrupted", 0), line("r", "ok", 1)
    for shift in range(-20, 2):
        place = first.rindex('"interrupted"', 0, first.index('"metadata"'))
        before = '{"input": "%s"}\n' % ("x" * ((1 << 20) - place + shift - len('{"input": ""}\n')))
        path.write_text(f"{before}{first}\n{second}\n", encoding="utf-8")
        (part,) = survey([str(path)], list(divide_files([str(path)], 1 << 30)), 1)
        assert part.replaced == (2,)


def test_a_file_without_interrupted_runs_is_not_searched_again(tmp_path: Path) -> None:
    """Its parts say nothing about replaced lines, so they are those of a file without runs."""
    path = tmp_path / "runs.jsonl"
    path.write_text('{"id": "a", "tools_called": [], "expected_tools": [], "run": {"run_id": "r"}}\n')
    (part,) = survey([str(path)], list(divide_files([str(path)], 1 << 30)), 1)
    assert part.replaced is None
    assert "replaced" not in part.to_dict()


def test_several_files_are_separate(tmp_path: Path) -> None:
    """A run of another file replaces nothing."""
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text(line("r", "interrupted", 0) + "\n", encoding="utf-8")
    second.write_text(line("r", "ok", 1) + "\n", encoding="utf-8")
    assert score_files([first, second], metrics(), processes=1).cases == 2


def test_a_broken_later_line_is_an_error_and_a_torn_one_replaces_nothing(tmp_path: Path) -> None:
    """Only a line that can be read replaces an earlier one."""
    path = tmp_path / "runs.jsonl"
    torn = line("r", "ok", 1)[:-1]
    path.write_text(line("r", "interrupted", 0) + "\n" + torn, encoding="utf-8")
    assert [case.id for case in read_quietly(path)] == ["c0"]
    with pytest.warns(ToolgradeWarning, match="a torn line"):
        assert score_files([path], metrics(), processes=1).cases == 1


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
    assert "2 errors of tool_correctness: MissingFieldError" in result.stdout  # both cases have no expectations
