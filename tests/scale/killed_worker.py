"""A program that scores files and is killed before a chosen disk operation.

Called with a folder, it scores there once for each step that it can be killed before, in children of its own, and
prints how many there were.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

from scale_files import metrics
from toolgrade.scale import score_files

EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.listdir")
"""Audit events of disk operations; Python raises them beforehand."""


def score(folder: Path, name: str, *, resume: bool = False, processes: int = 1) -> None:
    """Score the two files of a folder."""
    files = [folder / "a", folder / "b"]
    score_files(files, metrics(), results=folder / name, resume=resume, processes=processes, part_bytes=900)


def kill_before(step: int, name: str) -> None:
    """End this process before the step of this number that has to do with these results."""
    left = itertools.count(step - 1, -1)

    def hook(event: str, values: tuple[Any, ...]) -> None:
        if event in EVENTS and any(name in str(value) for value in values[:2]) and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main(folder: Path) -> None:
    """Run in a child for each step, until one is not killed."""
    for step in itertools.count(1):
        child = os.fork()
        if child == 0:
            kill_before(step, f"results-{step}.")
            score(folder, f"results-{step}.")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.stdout.write(f"{step - 1} {os.waitstatus_to_exitcode(status)}\n")
            return


if __name__ == "__main__":
    if sys.argv[2:] == []:
        main(Path(sys.argv[1]))
    else:
        score(Path(sys.argv[1]), sys.argv[2], resume=True, processes=int(sys.argv[3]))
