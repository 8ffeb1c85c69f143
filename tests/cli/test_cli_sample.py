"""`toolgrade sample` and `toolgrade extrapolate`: what they print, write and exit with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from processes import COMMAND, Finished, run_python, toolgrade_score
from toolgrade import read_cases

GOOD = {"tools_called": [{"name": "a"}], "expected_tools": [{"name": "a"}], "metadata": {"task": "easy"}}
BAD = {"tools_called": [{"name": "b"}], "expected_tools": [{"name": "a"}], "metadata": {"task": "\x1b[2J"}}


def toolgrade(*arguments: str, folder: Path) -> Finished:
    """Runs a command in a folder."""
    return run_python([*COMMAND, *arguments], folder)


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """A folder with two files: ninety good cases, ten bad ones."""
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(GOOD) + "\n" for _ in range(90)))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(BAD) + "\n" for _ in range(10)))
    return tmp_path


def test_from_all_cases_to_a_few_and_back(days: Path) -> None:
    """A sample is drawn, scored by any command, and extrapolated; the population's share is in the interval."""
    drawn = toolgrade("sample", "a.jsonl", "b.jsonl", "--size", "40", "--seed", "3", "--out", "s.jsonl", folder=days)
    scored = toolgrade_score("s.jsonl", "--results", "r.jsonl", "-q", folder=days)
    done = toolgrade("extrapolate", "r.jsonl", folder=days)
    written = json.loads(toolgrade("extrapolate", "r.jsonl", "--json", "-", "--confidence", "0.8", folder=days).out)

    assert drawn == (0, "40 of 100 cases drawn into s.jsonl\n", "")
    assert len(read_cases(days / "s.jsonl")) == 40
    assert scored.code == 1
    assert (done.code, done.err) == (0, "")
    first, second = done.out.splitlines()
    assert first.startswith("tool_correctness: mean 0.")
    assert first.endswith("of 100 cases, estimated from 40; 40 scored, 0 skipped, 0 errored")
    assert second == "In parentheses: 95 % intervals."
    (metric,) = written["metrics"]
    assert (metric["population"], metric["drawn"], metric["confidence"]) == (100, 40, 0.8)
    assert metric["rate_interval"][0] < metric["rate"] < metric["rate_interval"][1]


def test_strata_are_listed(days: Path) -> None:
    """One line each, escaped for the terminal."""
    drawn = toolgrade("sample", "a.jsonl", "b.jsonl", "--size", "9", "--by", "metadata.task", "--out", "s", folder=days)

    assert drawn.out.splitlines() == ["9 of 100 cases drawn into s", '  "\\u001b[2J": 5 of 10', '  "easy": 4 of 90']


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.jsonl", "nowhere", "--size", "3"], "error: cannot read or write nowhere: No such file or directory"),
        (["a.jsonl", "--size", "0"], "Invalid value for '--size'"),
        (["a.jsonl", "--size", "3", "--by", "metadata.x"], "error: no case has 'metadata.x', the stratum"),
        (["a.jsonl", "a.jsonl", "--size", "3"], "error: a.jsonl and a.jsonl are one file"),
        (["bad", "--size", "3"], "error: bad:1: $: not JSON"),
        (["bad", "--size", "3"], "1 problem; nothing was drawn"),
    ],
)
def test_wrong_input_exits_with_2(days: Path, arguments: list[str], message: str) -> None:
    """Each mistake is described, and nothing is written."""
    (days / "bad").write_text("{no\n")

    done = toolgrade("sample", *arguments, "--out", "s.jsonl", folder=days)

    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert not (days / "s.jsonl").exists()


def test_results_of_no_sample_exit_with_2(days: Path) -> None:
    """Results without contents, or of cases outside a sample, cannot be extrapolated."""
    toolgrade_score("b.jsonl", "--results", "r.jsonl", folder=days)

    done = toolgrade("extrapolate", "r.jsonl", folder=days)

    assert done.code == 2
    assert "error: line 1: $.metadata.toolgrade_sample: the case has no origin" in done.err


def test_missing_target_folder_is_reported(days: Path) -> None:
    """The sample cannot be written."""
    done = toolgrade("sample", "a.jsonl", "--size", "3", "--out", "no/s.jsonl", folder=days)

    assert done.code == 2
    assert done.err == "error: cannot write no/s.jsonl: there is no folder no\n"
