"""A large file is scored part by part, and what comes out does not depend on who does it."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scale_files import StoppedError, after_parts, case, metrics, stop, without_start
from toolgrade import evaluate, read_cases
from toolgrade.cli.main import main
from toolgrade.report.text.breakdown import breakdowns, warning_kinds
from toolgrade.scale import detect, partition
from toolgrade.scale.files import report_file
from toolgrade.scale.run import in_order
from toolgrade.scale.score_part import trim_entries

RUNNER = CliRunner()


def write(
    path: Path, number: int, *, ends: bytes = b"\n", last: bytes = b"\n", begin: bytes = b"", warned: bool = False
) -> Path:
    """A file of cases with blank lines, duplicate ids, one huge line, and sometimes warnings."""
    rng = random.Random(number)
    lines: list[bytes] = []
    for index in range(number):
        plain = case(index % max(1, number - 3), rng)
        if index == number // 2:
            plain["input"] = "long " * 5000
        if warned and rng.random() < 0.5:
            plain["run"] = {"calls": [], "warnings": [f"warning {rng.randrange(3)}"]}
        lines.append(json.dumps(plain).encode())
        if rng.random() < 0.1:
            lines.append(b" ")
    path.write_bytes(begin + ends.join(lines) + last)
    return path


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is large, and has parts of some hundred bytes."""
    monkeypatch.setattr(detect, "LARGE_BYTES", 1)
    monkeypatch.setattr(partition, "_MIN_BYTES", 700)


def run(*arguments: str) -> tuple[int, str, str]:
    """Code, output and errors of a command in this process."""
    result = RUNNER.invoke(main, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output, result.stderr if result.stderr_bytes is not None else ""


FILES = {
    "plain": {},
    "carriage returns": {"ends": b"\r\n", "last": b"\r\n"},
    "no last line end": {"last": b""},
    "torn": {"last": b'\n{"id": "t'},
    "bad lines": {"last": b'\nno\n[]\n{"tools_called": 3}\n'},
    "warnings": {"warned": True},
    "mark at the start, blank lines at the end": {"begin": b"\xef\xbb\xbf", "last": b"\n\n\n"},
}


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("number", [2, 60], ids=["few lines", "many lines"])
@pytest.mark.parametrize("form", list(FILES))
def test_score_does_not_depend_on_parts_and_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, number: int
) -> None:
    """Output, exit code and files are the same from one process, several, and the code for small files."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a", number, **FILES[form])  # type: ignore[arg-type]
    options = (
        "--metric",
        "tool-correctness",
        "--metric",
        "tool-efficiency",
        "--max-calls",
        "2",
        "--details",
        "2",
        "--limit",
        "2",
    )

    outputs = [
        run("score", "a", *options, "--processes", processes, "--results", f"r{processes}") for processes in ("1", "3")
    ]
    page = [run("score", "a", "--processes", processes, "--md", "-") for processes in ("1", "3")]
    monkeypatch.setattr(detect, "LARGE_BYTES", 1 << 40)
    outputs.append(run("score", "a", *options))
    page.append(run("score", "a", "--md", "-"))

    assert outputs[0] == outputs[1] == outputs[2]
    assert page[0] == page[1] == page[2]
    assert outputs[0][0] == (2 if form == "bad lines" else 1)
    assert ("worst first" in outputs[0][1]) == (form != "bad lines")
    if form != "bad lines":
        assert without_start(tmp_path / "r1") == without_start(tmp_path / "r3")


@pytest.mark.parametrize("full", [0, 2])
def test_a_report_by_parts_is_that_of_evaluate(tmp_path: Path, full: int) -> None:
    """In full it is equal; otherwise summaries, names of warned cases and the worst results are."""
    path = write(tmp_path / "a", 50, warned=True)
    whole = evaluate(read_cases(path), metrics(), show_progress=False)

    report = report_file(str(path), metrics(), full=full, part_bytes=900, processes=1)

    assert report.summaries == whole.summaries
    assert report.metrics == whole.metrics
    assert (report == whole) == (full == 0)
    assert len(report.cases) == 50
    with_calls = sum(entry.case.tools_called is not None for entry in report.cases)
    assert (with_calls == 50) == (full == 0)


def test_a_report_is_resumed(tmp_path: Path) -> None:
    """Finished parts are read again from their results, and the report is the same."""
    path = write(tmp_path / "a", 50, warned=True)
    options: dict[str, Any] = {"full": 0, "part_bytes": 900, "processes": 1}
    whole = report_file(str(path), metrics(), results=str(tmp_path / "whole"), **options)
    begun = {**options, "results": str(tmp_path / "r")}
    with pytest.raises(StoppedError):
        report_file(str(path), metrics(), progress=after_parts(3, stop), **begun)
    assert len(list((tmp_path / "r.parts").glob("*.jsonl"))) >= 3

    resumed = report_file(str(path), metrics(), resume=True, **begun)

    assert [entry.to_dict() for entry in resumed.cases] == [entry.to_dict() for entry in whole.cases]
    assert without_start(tmp_path / "r") == without_start(tmp_path / "whole")


def test_only_the_worst_results_are_in_full(tmp_path: Path) -> None:
    """Of the others a report needs scores, and the first name beside each warning."""
    report = evaluate(read_cases(write(tmp_path / "a", 300, warned=True)), metrics(), show_progress=False)
    cases = report.cases

    short = trim_entries(cases, 3)

    assert [entry.index for entry in short] == [entry.index for entry in cases]
    in_full = [entry for entry in short if entry in cases]
    assert 3 <= len(in_full) <= 12
    lowest = sorted(entry.results[0].score for entry in cases if entry.results[0].score is not None)[:3]
    assert [entry.results[0].score for entry in in_full if entry.results[0].score is not None][:1] == lowest[:1]
    assert len({id(entry.case) for entry in short}) < 30
    warned, expected = (
        [(kind.title, kind.cases[0].name, len(kind.cases)) for kind in warning_kinds(one)]
        for one in (replace(report, cases=tuple(short)), report)
    )
    assert warned == expected
    by_tool, complete = (
        [table.columns, *((line.tool, line.cases, line.amounts) for line in table.lines if line.cases)]
        for table in (breakdowns(one)[0] for one in (replace(report, cases=tuple(short)), report))
    )
    assert by_tool == complete
    assert len(complete) > 1


def test_outcomes_come_in_the_order_of_the_parts() -> None:
    """Whoever finishes first, also beside parts of an earlier run."""
    parts = [partition.Part(number=number, file=0, kind="lines", start=0, end=1) for number in range(4)]
    finished = iter([(parts[3], "d"), (parts[0], "a"), (parts[2], "c")])

    assert list(in_order(parts, finished, {1: "b"})) == list(zip(parts, "abcd", strict=True))
