"""The progress bar: on a terminal, and nowhere else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from processes import environment, run_python
from toolgrade.report.terminal.progress import ProgressBar

pty = pytest.importorskip("pty", reason="this platform has no pseudo-terminals")

PROGRAM = """
import asyncio, sys, time
from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate, evaluate_async

driver, show = sys.argv[1], {"default": None, "yes": True, "no": False}[sys.argv[2]]

class Slow(ToolCorrectnessMetric):
    def _compute(self, case):
        time.sleep(0.06)  # the bar is drawn ten times a second
        return super()._compute(case)

cases = [LLMTestCase(tools_called=[ToolCall(name="a")], expected_tools=[ToolCall(name="a")])] * 7
if driver == "evaluate":
    report = evaluate(cases, [Slow()], show_progress=show)
else:
    report = asyncio.run(evaluate_async(cases, [Slow()], show_progress=show))
print(report.summaries[0].passed)
"""

drivers = pytest.mark.parametrize("driver", ["evaluate", "evaluate_async"])


def on_a_terminal(folder: Path, *arguments: str, program: str = PROGRAM) -> tuple[str, str]:
    """Run the program with standard error on a pseudo-terminal; return its standard output and the screen."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        cwd=folder,
        env=environment(TERM="xterm-256color", COLUMNS="80"),
        stdout=subprocess.PIPE,
        stderr=slave,
    ) as process:
        os.close(slave)
        screen = b""
        try:
            while chunk := os.read(master, 65536):
                screen += chunk
        except OSError:  # how Linux says that the other end was closed
            pass
        finally:
            os.close(master)
        assert process.stdout is not None
        out = process.stdout.read().decode()
    assert process.returncode == 0, screen
    return out, screen.decode()


@drivers
def test_a_terminal_shows_the_bar(tmp_path: Path, driver: str) -> None:
    """It counts cases on standard error, leaves standard output alone, and clears its line at the end."""
    out, screen = on_a_terminal(tmp_path, driver, "default")

    assert out == "7\n"
    assert "scoring" in screen
    assert "7/7" in screen
    assert screen.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))


@drivers
def test_a_pipe_shows_no_bar(tmp_path: Path, driver: str) -> None:
    """Log files stay clean."""
    done = run_python(["-c", PROGRAM, driver, "default"], tmp_path)

    assert done == (0, "7\n", "")


def test_the_bar_can_be_switched_off(tmp_path: Path) -> None:
    """`show_progress=False` applies on a terminal too."""
    assert on_a_terminal(tmp_path, "evaluate", "no") == ("7\n", "")


def test_forced_progress_in_a_pipe_is_plain(tmp_path: Path) -> None:
    """`show_progress=True` prints without escape sequences in a pipe."""
    done = run_python(["-c", PROGRAM, "evaluate", "yes"], tmp_path)

    assert done.code == 0
    assert done.out == "7\n"
    assert "\x1b" not in done.err


IN_PARTS = """
import sys
from toolgrade.cli.main import main
from toolgrade.evaluation import files
from toolgrade.report.terminal import progress

progress._SECONDS = 0  # every movement is drawn
files.PART_BYTES = int(sys.argv[1])
sys.argv = ["toolgrade", "score", "runs.jsonl", "-q", *sys.argv[2:]]
main()
"""


@pytest.mark.parametrize(("part", "processes"), [(10_000, "2"), (10**9, "1")])
def test_a_file_on_a_terminal_shows_its_bytes_and_cases(tmp_path: Path, part: int, processes: str) -> None:
    """From none to all, by one process or several, and again when nothing is left to measure."""
    (tmp_path / "runs.jsonl").write_text('{"tools_called": [], "expected_tools": []}\n' * 1000)
    options = ["--processes", processes, "--results", "r", "--resume"]

    for _ in range(2):
        out, screen = on_a_terminal(tmp_path, str(part), *options, program=IN_PARTS)

        assert "1,000 cases" in out
        states = re.findall(r"([\d.]+)/43\.0 kB ([\d,]+) cases", re.sub(r"\x1b\[[\d;?]*\w", "", screen))
        assert (states[0], states[-1]) == (("0.0", "0"), ("43.0", "1,000"))
        assert len({*states}) == (6 if part < 43_000 else 2)


def test_resumed_work_is_not_speed() -> None:
    """What was done before the first call does not shorten the estimate."""
    bar = ProgressBar("scoring")
    bar.show(900, 1000)
    assert bar.tasks[0].speed is None
    bar.show(910, 1000)
    bar.show(920, 1000)

    assert bar.tasks[0].completed == 920
    assert bar.tasks[0].percentage == 92
    assert sum(sample.completed for sample in bar.tasks[0]._progress) == 20
