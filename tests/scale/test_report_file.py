"""A large file is scored and converted part by part, and what comes out does not depend on who does it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from processes import environment
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


def messages(number: int) -> dict[str, Any]:
    """A recorded conversation."""
    call = {"id": "c", "type": "function", "function": {"name": f"tool {number % 5}", "arguments": "{}"}}
    answer = {"role": "tool", "tool_call_id": "c" if number % 4 else "d", "content": "3"}
    talk = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": None, "tool_calls": [call]}, answer]
    about = {} if number % 3 else {"id": f"x{number % 7}", "expected_tools": [{"name": "tool 1"}]}
    return {**about, "messages": talk}


TALKS = {
    "plain": (b"\n", b"\n"),
    "carriage returns": (b"\r\n", b"\r\n"),
    "no last line end": (b"\n", b""),
    "blank lines": (b"\n\n \n", b"\n"),
    "bad lines": (b"\n", b'\nno\n{"messages": [{"role": "x"}]}\n{"tools_called": []}\n'),
    "a trace": (b"\n", b'\n{"resourceSpans": []}\n'),
}


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("unit", ["cases", "turns", "conversations"])
@pytest.mark.parametrize("form", list(TALKS))
def test_convert_does_not_depend_on_parts_and_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, unit: str
) -> None:
    """Files, messages and exit codes are the same from one process, several, and the code for small files."""
    monkeypatch.chdir(tmp_path)
    ends, last = TALKS[form]
    texts = [json.dumps(messages(number)).encode() for number in range(40)]
    texts.insert(20, json.dumps({**messages(1), "id": "long " * 3000}).encode())
    (tmp_path / "log").write_bytes(b"\xef\xbb\xbf" + ends.join(texts) + last)

    outputs: list[tuple[int, str, str]] = []
    for size, processes in ((1, "1"), (1, "3"), (1 << 40, "1")):
        monkeypatch.setattr(detect, "LARGE_BYTES", size)
        outputs.append(run("convert", "log", "--to", "cases", "--as", unit, "--processes", processes))
        target = tmp_path / "cases"
        if target.exists():
            target.rename(tmp_path / f"cases {len(outputs)}")
    files = [(tmp_path / f"cases {number}") for number in (1, 2, 3)]

    assert outputs[0] == outputs[1] == outputs[2]
    assert outputs[0][0] == (0 if files[0].exists() else 2)
    assert [path.exists() for path in files] == [form not in {"bad lines", "a trace"}] * 3
    if files[0].exists():
        assert files[0].read_bytes() == files[1].read_bytes() == files[2].read_bytes()
    assert not list(tmp_path.glob(".*"))


PEAK = """
import pathlib, runpy, sys
sys.argv = ["toolgrade", "convert", sys.argv[1], "--to", sys.argv[2], "--processes", "1"]
try:
    runpy.run_module("toolgrade.cli", run_name="__main__")
except SystemExit as stop:
    assert not stop.code, stop.code
status = pathlib.Path("/proc/self/status").read_text()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from Linux")
def test_convert_takes_the_same_memory_for_any_file(tmp_path: Path) -> None:
    """Four times the lines do not need more; a text that nothing keeps makes the lines long."""
    line = json.dumps({**messages(1), "ignored": "long " * 4000}).encode() + b"\n"
    peaks: list[int] = []
    for number in (900, 3600):
        (tmp_path / "log").write_bytes(line * number)
        command = [sys.executable, "-c", PEAK, str(tmp_path / "log"), str(tmp_path / f"cases{number}")]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True, timeout=120)
        peaks.append(int(done.stdout))

    assert peaks[1] < peaks[0] * 1.15
    assert (tmp_path / "cases3600").read_bytes().count(b"\n") == 3600
