"""`--github` of `score` and `report`: where annotations stand, and how they are written."""

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


def printed(*command: str) -> list[str]:
    """Return the annotations that a command prints, `score` by default."""
    result = RUNNER.invoke(main, [*(command or ("score", "runs.jsonl")), "--github"])
    assert result.exit_code == 1
    return [line for line in result.stdout.splitlines() if line.startswith("::")]


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
    RUNNER.invoke(main, ["score", "runs.jsonl", "--results", "results.jsonl"])

    (line,) = printed("report", "results.jsonl", "--lines-of", "goldens.jsonl")
    assert line.endswith(",file=goldens.jsonl,line=2::tool_correctness: e1 b: not called")


def test_score_annotates_its_goldens() -> None:
    """With --goldens the line is that of the golden, not that of the run."""
    write("runs.jsonl", {"id": "x", "tools_called": []})
    write("goldens.jsonl", {"id": "first", "input": "?"}, {"id": "x", "input": "q", "expected_tools": EXPECTED})

    (line,) = printed("score", "runs.jsonl", "--goldens", "goldens.jsonl")
    assert line == "::error title=toolgrade%3A x,file=goldens.jsonl,line=2::tool_correctness: e1 b: not called"


def test_a_case_without_a_golden_is_at_its_own_line(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are relative to the root of the repository; without any file there is no place."""
    inner = workspace / "a, b"
    inner.mkdir()
    monkeypatch.chdir(inner)
    write("runs.jsonl", {"tools_called": []}, {"tools_called": [], "expected_tools": EXPECTED})

    assert printed()[-1] == (
        "::error title=toolgrade%3A line 2,file=a%2C b/runs.jsonl,line=2::tool_correctness: e1 b: not called"
    )
    RUNNER.invoke(main, ["score", "runs.jsonl", "--results", "results.jsonl"])
    assert ",file=" not in printed("report", "results.jsonl")[-1]


def test_errors_are_annotated_and_passes_are_not() -> None:
    """Ten cases, as GitHub shows; the others are counted."""
    write(
        "runs.jsonl",
        {"id": "fine", "tools_called": EXPECTED, "expected_tools": EXPECTED},
        {"id": "error", "tools_called": []},
        *({"id": f"{number}", "tools_called": [], "expected_tools": EXPECTED} for number in range(12)),
    )
    lines = printed()

    assert "title=toolgrade%3A error,file=runs.jsonl,line=2::tool_correctness: " in lines[0]
    assert len(lines) == 11
    assert lines[-1] == "::notice title=toolgrade::3 more cases did not pass; the report has them."


def test_what_cannot_be_annotated_is_refused() -> None:
    """A file of lines that does not exist, and another text on standard output."""
    write("runs.jsonl", {"tools_called": []})
    RUNNER.invoke(main, ["score", "runs.jsonl", "--results", "results.jsonl"])

    missing = RUNNER.invoke(main, ["report", "results.jsonl", "--github", "--lines-of", "nosuch.jsonl"])
    assert (missing.exit_code, missing.stdout) == (2, "")
    both = RUNNER.invoke(main, ["report", "results.jsonl", "--github", "--json", "-"])
    assert "only one report can be written to standard output" in both.stderr


def test_an_unnamed_run_has_no_line_in_goldens() -> None:
    """A line of the runs that cannot be read is at this line of the runs, and at none of the goldens."""
    Path("runs.jsonl").write_text('{"tools_called": [}\n{"id": "x", "tools_called": []}\n', encoding="utf-8")
    write("goldens.jsonl", {"id": "y", "input": "?"}, {"id": "x", "input": "q", "expected_tools": []})

    assert printed()[0].startswith("::error title=toolgrade%3A line 1,file=runs.jsonl,line=1::")
    assert printed("score", "runs.jsonl", "--goldens", "goldens.jsonl")[0].startswith(
        "::error title=toolgrade%3A line 1::"
    )


TESTS = """
class TestIt:
    def test_a(self): ...
    async def test_b(self): ...
def test_a(): ...
"""


@pytest.mark.parametrize(
    ("test", "place"),
    [
        ("evals/t.py::test_a", "file=evals/t.py,line=5"),
        ("evals/t.py::test_a[x::y]", "file=evals/t.py,line=5"),
        ("evals/t.py::TestIt::test_a", "file=evals/t.py,line=3"),
        ("evals/t.py::TestIt::test_b[1]", "file=evals/t.py,line=4"),
        ("evals/t.py::TestIt::test_inherited", "file=evals/t.py,line=2"),
        ("evals/t.md::t.md", "file=evals/t.md"),
    ],
)
@pytest.mark.parametrize("folder", [".", "evals"])
def test_a_test_is_at_its_definition(monkeypatch: pytest.MonkeyPatch, test: str, place: str, folder: str) -> None:
    """By its id, which begins at the folder of pytest's settings; the title has the id as it is."""
    Path("evals").mkdir()
    Path("evals/t.py").write_text(TESTS, encoding="utf-8")
    Path("evals/t.md").write_text(">>> 1\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    write("runs.jsonl", {"name": test, "tools_called": [], "expected_tools": EXPECTED})
    RUNNER.invoke(main, ["score", "runs.jsonl", "--results", "results.jsonl"])

    (line,) = printed("report", "results.jsonl")
    title = f"toolgrade: {test}".replace(":", "%3A")
    assert line == f"::error title={title},{place}::tool_correctness: e1 b: not called"
