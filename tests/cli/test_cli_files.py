"""`toolgrade score` over several files, pipes and large files: what it prints, writes and exits with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from processes import toolgrade_score
from toolgrade.evaluation import read_results

GOOD = {"id": "good", "tools_called": [{"name": "a"}], "expected_tools": [{"name": "a"}]}
BAD = {"id": "bad", "tools_called": [{"name": "b"}], "expected_tools": [{"name": "a"}]}


def write(path: Path, *cases: object) -> None:
    """A file of cases."""
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))


def test_several_files_are_one_report(tmp_path: Path) -> None:
    """Their cases are shown and written in the order of the files, and the exit code is that of one file."""
    write(tmp_path / "a", GOOD, BAD)
    write(tmp_path / "b", GOOD, GOOD)

    done = toolgrade_score("b", "a", "--results", "r", "--no-contents", folder=tmp_path)

    assert (done.code, done.err) == (1, "failed: 1 of 4 cases failed\n")
    assert done.out.startswith("2 files: 4 cases\n Failed: 1 of 4 cases failed.\n")
    assert " bad (trial 1)       0  FAILED" in done.out  # cases of one id are trials
    assert [case.name for case in read_results(tmp_path / "r").cases] == ["good", "good", "good", "bad"]
    assert b"tools_called" not in (tmp_path / "r").read_bytes()
    again = toolgrade_score("b", "a", "--results", "r", folder=tmp_path)
    assert (again.code, "r already exists" in again.err) == (2, True)
    assert toolgrade_score("a", "b", "--pass-rate", "0.5", folder=tmp_path).code == 0
    assert toolgrade_score("a", "b", "--pass-rate", "0.51", folder=tmp_path).code == 1


def test_cases_of_a_cluster_are_trials(tmp_path: Path) -> None:
    """With the numbers of their repetitions in the names, and the share of clusters that always pass."""
    write(tmp_path / "a", {**GOOD, "metadata": {"task": 1}}, {**BAD, "metadata": {"task": 1}})

    done = toolgrade_score("a", "--cluster", "metadata.task", "--json", "-", folder=tmp_path)

    report = json.loads(done.out)
    assert report["trials"] == 2
    assert [case["trial"] for case in report["cases"]] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "c", "--reject-bad-lines"], "error: c:2: $: not JSON"),
        (["a", "nowhere"], "error: cannot read nowhere: No such file or directory"),
        (["-", "-"], "error: - and - are one file"),
        (["a", "a"], "error: a and a are one file"),
        (["a", "--processes", "0"], "Invalid value for '--processes'"),
        (["a", "--cluster", "metadata.x"], "error: no case has 'metadata.x', the cluster"),
    ],
)
def test_wrong_input_exits_with_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    """Each mistake is described, and nothing is written."""
    write(tmp_path / "a", GOOD)
    (tmp_path / "c").write_text(json.dumps(GOOD) + "\nno\n")

    done = toolgrade_score(*arguments, "--results", "r", folder=tmp_path)

    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c"]


def test_names_of_files_are_not_obeyed_by_a_terminal(tmp_path: Path) -> None:
    """What a file is called is data."""
    name = "a\x1b[31m"
    (tmp_path / name).write_text("{no\n")
    write(tmp_path / "b", GOOD)

    done = toolgrade_score(name, "b", folder=tmp_path)

    assert "\x1b" not in done.err + done.out
    assert "a\\x1b[31m:1: $: not JSON" in done.err
