"""`toolgrade score` over several files, and large ones: what it prints, writes and exits with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from processes import COMMAND, HEEDS_INTERRUPTS, environment, toolgrade_score
from scale_files import write_lines
from toolgrade.evaluation import read_results

GOOD = {"id": "good", "tools_called": [{"name": "a"}], "expected_tools": [{"name": "a"}]}
BAD = {"id": "bad", "tools_called": [{"name": "b"}], "expected_tools": [{"name": "a"}]}

#: `toolgrade`, interrupted when it is about to say that its third part is done: an outside signal might be too late.
INTERRUPTED_AT_PART_2 = f"""
{HEEDS_INTERRUPTS}
import os, sys
from toolgrade.cli.main import main

def interrupt(event, args):
    if event == "os.rename" and str(args[1]).endswith("000002.json"):
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(interrupt)
main()
"""


def write(path: Path, *cases: object) -> None:
    """A file of cases."""
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))


def test_several_files_are_summed_up(tmp_path: Path) -> None:
    """The sums are printed, and the exit code is that of one file with all cases."""
    write(tmp_path / "a", GOOD, BAD)
    write(tmp_path / "b", GOOD, GOOD)

    done = toolgrade_score("a", "b", folder=tmp_path)

    assert done.err == ""
    assert done.out.splitlines() == [
        "4 cases of 2 files",
        (
            "tool_correctness: mean 0.75 over 4 cases; 3 passed, 1 failed (at 0.5), 0 skipped, 0 errored; "
            "95 % interval of the mean: 0 to 1"
        ),
    ]
    assert done.code == 1
    assert toolgrade_score("a", "b", "--fail-under", "0.75", folder=tmp_path).code == 0
    assert toolgrade_score("a", "b", "--fail-under", "0.76", folder=tmp_path).code == 1


def test_sums_are_written_as_json(tmp_path: Path) -> None:
    """The JSON has the files, the number of cases, and a summary of each metric."""
    write(tmp_path / "a", GOOD, BAD)

    done = toolgrade_score("a", "--no-contents", "--json", "-", folder=tmp_path)

    written = json.loads(done.out)
    assert written["files"] == ["a"]
    assert written["cases"] == 2
    assert written["metrics"][0]["mean"] == 0.5
    assert written["metrics"][0]["passed"] == 1


def test_results_are_written(tmp_path: Path) -> None:
    """`--results` has every case in file order; without contents on request."""
    write(tmp_path / "a", GOOD, BAD)
    write(tmp_path / "b", BAD)

    done = toolgrade_score("b", "a", "--results", "r", "--no-contents", folder=tmp_path)

    assert done.code == 1
    assert [case.name for case in read_results(tmp_path / "r").cases] == ["bad", "good", "bad"]
    again = toolgrade_score("b", "a", "--results", "r", folder=tmp_path)
    assert (again.code, again.err) == (2, "error: r exists; use another file\n")


def test_one_file_is_scored_as_before(tmp_path: Path) -> None:
    """A single file is shown with its cases by default."""
    write(tmp_path / "a", GOOD, BAD)

    assert "bad" in toolgrade_score("a", folder=tmp_path).out
    assert "bad" in toolgrade_score("a", "--processes", "1", folder=tmp_path).out
    assert "bad" not in toolgrade_score("a", "--cluster", "id", folder=tmp_path).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "c"], "error: c:2: $: not JSON"),
        (["a", "nowhere"], "error: cannot read or write nowhere: No such file or directory"),
        (["a", "-"], "error: standard input can be read only once"),
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


@pytest.mark.parametrize(
    "options",
    [["--html", "x.html"], ["--md", "-"], ["--junit", "x.xml"], ["--limit", "5"], ["--baseline", "a"], ["--verbose"]],
    ids=lambda options: options[0],
)
def test_options_for_single_cases_are_refused(tmp_path: Path, options: list[str]) -> None:
    """With sums only, the message says how to see cases; nothing is scored or written."""
    write(tmp_path / "a", GOOD)

    done = toolgrade_score("a", "a", *options, folder=tmp_path)

    assert done.code == 2
    assert f"{options[0]} shows single cases" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_torn_last_line_is_reported(tmp_path: Path) -> None:
    """It is left out with a warning and fails a run with a minimum."""
    (tmp_path / "a").write_text(json.dumps(GOOD) + '\n{"id": "t')
    write(tmp_path / "b", GOOD)

    done = toolgrade_score("a", "b", "--fail-under", "0.5", folder=tmp_path)

    assert "warning: a:2: left out a torn line" in done.err
    assert done.code == 1


@pytest.mark.skipif(os.name != "posix", reason="a signal is sent as POSIX does")
def test_ctrl_c_keeps_finished_parts(tmp_path: Path) -> None:
    """Exit code 130 and a hint how to resume; `--resume` alone completes the run."""
    files = [f"f{number:02}" for number in range(30)]
    for seed, name in enumerate(files):
        write_lines(tmp_path / name, 10, seed)
    command = [sys.executable, "-c", INTERRUPTED_AT_PART_2, "score", *files, "--results", "r", "--processes", "1"]

    child = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, check=False, timeout=60)

    assert (child.returncode, child.stdout) == (130, b"")
    assert child.stderr == b"interrupted; resume with --resume\n"
    assert (tmp_path / "r.parts" / "000001.json").exists()
    assert not (tmp_path / "r").exists()
    done = toolgrade_score(*files, "--results", "r", "--resume", folder=tmp_path)
    assert done.out.startswith("300 cases of 30 files\n")
    assert len(read_results(tmp_path / "r").cases) == 300


def test_names_of_files_are_not_obeyed_by_a_terminal(tmp_path: Path) -> None:
    """What a file is called is data."""
    name = "a\x1b[31m"
    (tmp_path / name).write_text("{no\n")
    write(tmp_path / "b", GOOD)

    done = toolgrade_score(name, "b", folder=tmp_path)

    assert "\x1b" not in done.err + done.out
    assert "a\\x1b[31m:1: $: not JSON" in done.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_pipe_is_read_once(tmp_path: Path) -> None:
    """A single file may be a pipe, and its whole content is scored."""
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, *COMMAND, "score", "pipe", "--json", "-"]
    child = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE)

    (tmp_path / "pipe").write_text(json.dumps(GOOD) + "\n" + json.dumps(BAD) + "\n")  # waits until it is read

    out, _ = child.communicate(timeout=100)
    assert [case["id"] for case in json.loads(out)["cases"]] == ["good", "bad"]
