"""`toolgrade annotate`: where annotations stand, and how they are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_runner import RUNNER
from toolgrade.cli.main import main

EXPECTED = [{"name": "b"}]


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, which is the root of the repository."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    return tmp_path


def write(name: str, *values: object) -> None:
    """Write a file of JSON Lines."""
    Path(name).write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")


def annotations(*options: str) -> list[str]:
    """Score `runs.jsonl`, and return the annotations of the results."""
    Path("results.jsonl").unlink(missing_ok=True)
    RUNNER.invoke(main, ["score", "runs.jsonl", "--results", "results.jsonl"])
    result = RUNNER.invoke(main, ["annotate", "results.jsonl", *options])
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


@pytest.mark.parametrize(
    ("run", "golden"),
    [
        ({"id": "x"}, {"id": "x", "input": "q"}),
        ({"name": "x"}, {"id": "x", "input": "q"}),
        ({"id": "18"}, {"id": 18, "input": "q"}),
        ({"id": "other", "input": "q"}, {"input": "q"}),
        ({"id": "other", "input": "q"}, {"query": "q"}),
    ],
)
def test_the_line_is_that_of_the_golden(run: dict[str, str], golden: dict[str, str]) -> None:
    """It is found by id, name or input."""
    write("runs.jsonl", {**run, "tools_called": [], "expected_tools": EXPECTED})
    write("goldens.jsonl", {"id": "first", "input": "?"}, golden)

    (line,) = annotations("--lines-of", "goldens.jsonl")
    assert line.endswith(",file=goldens.jsonl,line=2::tool_correctness: e1 b: not called")


def test_a_case_without_a_golden_is_at_its_own_line(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are relative to the root of the repository; without any file there is no place."""
    inner = workspace / "a, b"
    inner.mkdir()
    monkeypatch.chdir(inner)
    write("runs.jsonl", {"tools_called": []}, {"tools_called": [], "expected_tools": EXPECTED})

    assert annotations("--lines-of", "runs.jsonl")[-1] == (
        "::error title=toolgrade%3A line 2,file=a%2C b/runs.jsonl,line=2::tool_correctness: e1 b: not called"
    )
    assert ",file=" not in annotations()[-1]


def test_errors_are_annotated_and_passes_are_not() -> None:
    """Of several cases as many as the limit; the others are counted."""
    write(
        "runs.jsonl",
        {"id": "fine", "tools_called": EXPECTED, "expected_tools": EXPECTED},
        {"id": "error", "tools_called": []},
        *({"id": f"{number}", "tools_called": [], "expected_tools": EXPECTED} for number in range(12)),
    )
    lines = annotations()

    assert "title=toolgrade%3A error::tool_correctness: " in lines[0]
    assert len(lines) == 11
    assert lines[-1] == "::notice title=toolgrade::3 more cases did not pass; the report has them."
    assert len(annotations("--limit", "20")) == 13


def test_a_file_that_cannot_be_read_is_an_error() -> None:
    """As in every command."""
    result = RUNNER.invoke(main, ["annotate", "nosuch.json"])
    assert (result.exit_code, result.stdout) == (2, "")
