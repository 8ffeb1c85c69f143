"""What a process leaves behind that was stopped while it wrote: at most one torn line, which costs no other."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import toolgrade
from toolgrade._internal.json import CANCEL_MARK
from toolgrade.capture.sinks import JsonlSink
from toolgrade.cases import Run
from toolgrade.errors import DataFileError, ToolgradeWarning
from toolgrade.inputs import read_cases
from victims import SINK_WRITER

SECRET = "hunter2"
TORN = "a torn line"


def ids(path: Path) -> list[str | None]:
    """The ids of all cases that a file holds; warnings are errors here."""
    return [case.id for case in read_cases(path)]


def writer(path: Path, name: str, amount: int, size: int) -> subprocess.Popen[str]:
    """Start a process that appends runs of this size and prints the number of each written run."""
    environment = {**os.environ, "PYTHONPATH": str(Path(toolgrade.__file__).resolve().parents[1])}
    command = [sys.executable, "-c", SINK_WRITER, str(path), name, str(amount), str(size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_processes_share_a_file(tmp_path: Path) -> None:
    """Lines of several processes do not run into each other."""
    path = tmp_path / "runs.jsonl"
    writers = [writer(path, name, 30, 20_000) for name in "abc"]
    for process in writers:
        process.communicate()

    assert [process.returncode for process in writers] == [0, 0, 0]
    assert sorted(map(str, ids(path))) == sorted(f"{name}-{number}" for name in "abc" for number in range(30))


@pytest.mark.parametrize("seed", range(5))
def test_a_killed_process_tears_at_most_its_last_line(tmp_path: Path, seed: int) -> None:
    """All announced lines are readable, and a process that continues the file loses nothing."""
    path, generator = tmp_path / "runs.jsonl", random.Random(seed)
    for name in "ab":
        process = writer(path, name, 10_000, generator.choice([10, 1_000, 100_000]))
        assert process.stdout is not None
        announced = [process.stdout.readline() for _ in range(generator.randint(1, 30))]
        process.kill()
        process.communicate()

        torn, ids = counted(path)

        own = [identifier for identifier in ids if identifier.startswith(name)]
        assert own == [f"{name}-{number}" for number in range(len(own))]
        assert len(own) >= len(announced)
        assert torn <= "ab".index(name) + 1
        assert SECRET not in path.read_text(errors="replace")


def counted(path: Path) -> tuple[int, list[str]]:
    """How many torn lines a file has, and the ids of its cases."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ids = [str(case.id) for case in read_cases(path)]
    assert all(TORN in str(warning.message) for warning in caught)
    return len(caught), ids


WHOLE = b'{"id": "a", "tools_called": []}\n'


@pytest.mark.parametrize("cut", [1, 2, 9, 20, len(WHOLE) - 2])
def test_a_torn_last_line_is_left_out(tmp_path: Path, cut: int) -> None:
    """Wherever it was cut off, also within a letter; the warning names file and line."""
    path = tmp_path / "runs.jsonl"
    for torn in (WHOLE[:cut], '{"id": "é'.encode()[:-1]):
        path.write_bytes(WHOLE + b"\n" + torn)

        with pytest.warns(ToolgradeWarning, match=r"runs\.jsonl:3: left out a torn line") as caught:
            assert ids(path) == ["a"]

        assert caught[0].filename == __file__


@pytest.mark.parametrize("torn", [b"{", b'{"id": "b", "in', '{"id": "é'.encode()[:-1]])
def test_the_next_line_does_not_fall_into_a_torn_one(tmp_path: Path, torn: bytes) -> None:
    """A sink ends an unfinished line with a mark, so that it differs from a bad line."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(WHOLE + torn)
    with JsonlSink(path) as sink:
        sink.write(Run(run_id="run-1"))
        sink.write(Run(run_id="run-2"))

    assert path.read_bytes().startswith(WHOLE + torn + CANCEL_MARK + b"\n{")
    with pytest.warns(ToolgradeWarning, match=r"runs\.jsonl:2: left out a torn line"):
        assert ids(path) == ["a", "run-1", "run-2"]


def test_only_the_newline_was_missing(tmp_path: Path) -> None:
    """A line that is whole is a case, whether or not a newline or a mark follows it; a mark alone is a blank line."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(WHOLE[:-1])
    assert ids(path) == ["a"]
    with JsonlSink(path) as sink:
        sink.write(Run(run_id="run-1"))
    with path.open("ab") as file:
        file.write(CANCEL_MARK + b"\n" + WHOLE)

    assert ids(path) == ["a", "run-1", "a"]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (WHOLE + b'{"id": "b"\n' + WHOLE, [2]),
        (WHOLE + b'{"id": "b"\n', [2]),
        (WHOLE + b"hello", [2]),
        (WHOLE + b"}", [2]),
        (WHOLE + b'{"unknown": 1}', [2]),
        (WHOLE + b'{"id": "\xe9"}', [2]),
        (WHOLE + b'{"tools_called": [{"name": "a", "output": NaN}]}', [2]),
        (b'{"id": "b', [1]),
        (b"hello\n" + WHOLE + b'{"id": "b', [1, 3]),
        (WHOLE + b'{"id"' + CANCEL_MARK + b"\nhello\n", [2, 3]),
    ],
    ids=range(10),
)
def test_other_bad_lines_are_errors(tmp_path: Path, data: bytes, lines: list[int]) -> None:
    """Only what can be the beginning of a whole line is torn; and a file without any whole line holds nothing."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(data)

    with pytest.raises(DataFileError) as caught:
        read_cases(path)

    assert [problem.line for problem in caught.value.problems] == lines
