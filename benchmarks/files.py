"""The command line on a large file: wall clock, processor time and peak memory, against `json.loads` of its lines.

    python benchmarks/files.py [--cases 5000] [--data runs.jsonl]

The file is made of the recorded airline runs, repeated with ids of their own, in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

SHARED = Path(os.environ.get("TOOLGRADE_SHARED", Path(__file__).resolve().parents[2] / "shared"))
COMMANDS = {
    "score --processes 1": ("score", "runs", "--processes", "1"),
    "score --processes 2": ("score", "runs", "--processes", "2"),
    "score --results": ("score", "runs", "--results", "results", "--processes", "2"),
    "convert": ("convert", "conversations", "--to", "cases"),
}


class Cost(NamedTuple):
    """What a program took: seconds on the clock and of all its processes, and MB of the largest of them."""

    wall: float
    cpu: float
    peak: float


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=5000, help="lines of the files")
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "tau-airline" / "runs.jsonl")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, options.data, options.cases)
        size = (folder / "runs").stat().st_size / 1e6
        print(f"{options.cases} cases, {size:.0f} MB; load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")
        program = "import json\nfor line in open('runs', 'rb'): json.loads(line)"
        parsing = cost(folder, [sys.executable, "-c", program])
        print(f"{'json.loads of the lines':28} {parsing.wall:6.2f} s {parsing.cpu:6.2f} s cpu")
        for title, arguments in COMMANDS.items():
            (folder / "results").unlink(missing_ok=True)
            took = cost(folder, [sys.executable, "-m", "toolgrade.cli", *arguments])
            print(
                f"{title:28} {took.wall:6.2f} s {took.cpu:6.2f} s cpu "
                f"{took.cpu / parsing.cpu:6.1f} x json.loads {took.peak:6.0f} MB"
            )


def write(folder: Path, data: Path, cases: int) -> None:
    """Write the runs as records for `score`, and as conversations for `convert`."""
    records = [json.loads(line) for line in data.read_bytes().splitlines()]
    with (folder / "runs").open("w") as runs, (folder / "conversations").open("w") as conversations:
        for number in range(cases):
            record = records[number % len(records)]
            runs.write(json.dumps({**record, "id": f"run {number}"}) + "\n")
            conversation = {"id": f"run {number}", "messages": record["agent_trajectory"]}
            conversations.write(json.dumps(conversation) + "\n")


def cost(folder: Path, command: list[str]) -> Cost:
    """Run a program in a folder; it must end with 0, or with 1 for cases that fail."""
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.execv(command[0], command)  # noqa: S606 - our own program
    _, status, usage = os.wait4(child, 0)  # with all processes that it started
    if os.waitstatus_to_exitcode(status) not in {0, 1}:
        raise SystemExit(f"{' '.join(command)} failed")
    return Cost(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
