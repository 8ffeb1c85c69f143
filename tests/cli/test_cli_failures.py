"""Failures that no command expects: an error in toolgrade, and a standard output that cannot be written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from command_runner import RUNNER
from processes import COMMAND
from toolgrade.cli.main import main

CASE = b'{"id": "a", "tools_called": [{"name": "look"}], "expected_tools": [{"name": "look"}]}\n'


def test_error_in_toolgrade_is_one_line_and_exit_code_70(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the type, the text and the place, and asks for a report; a traceback is not shown."""

    def callback() -> None:
        raise KeyError("a\n::error::b")

    monkeypatch.setattr("toolgrade.cli.main._load_command", lambda name: click.Command(name, callback=callback))
    done = RUNNER.invoke(main, ["lint"])

    assert done.exit_code == 70
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("this is an error in toolgrade ")
    assert "KeyError: " in line
    assert "(test_cli_failures.py, line " in line
    assert line.endswith("; please report it, with this line and the command")


def test_interrupt_outside_of_the_command_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback is not shown."""

    def interrupted(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(click.Group, "main", interrupted)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 130


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("arguments", ["--help", "score runs.jsonl --json -"])
def test_full_standard_output_is_an_error_of_one_line(arguments: str, tmp_path: Path) -> None:
    """What was printed is lost, so the exit code is not that of the scores."""
    (tmp_path / "runs.jsonl").write_bytes(CASE)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, *COMMAND, *arguments.split()],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 2
    assert done.stderr == "error: cannot write standard output: No space left on device\n"


def test_reader_of_a_pipe_that_ends_early_is_not_an_error(tmp_path: Path) -> None:
    """The command ends in silence, as other programs in a pipe do."""
    (tmp_path / "runs.jsonl").write_bytes(CASE)
    command = [sys.executable, *COMMAND, "score", "runs.jsonl"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""

    assert process.returncode == 1
