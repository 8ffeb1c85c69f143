"""Starting a program: as a new process of its own, or quickly as a copy of a process that has loaded its modules.

Both begin a process group, so that a signal can reach the program alone or all processes that it started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

STARTER = """
import importlib, json, os, signal, sys
modules, *sys.argv[1:] = sys.argv[1:]
for name in modules.split(","):
    importlib.import_module(name)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Python only prints an interrupt in the hooks of a fork
for line in sys.stdin:
    program, words, folder, errors = json.loads(line)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        sys.argv[1:] = words
        break
    try:
        os.setpgid(child, child)  # whoever is first
    except OSError:
        pass
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs this in the background ignores it
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
exec(compile(program, "<program>", "exec"))
"""
"""Loads modules and becomes the program, in a copy of itself for each line of input."""

Text = tuple[str, Sequence[str]]
"""The text of a program, and its arguments."""


class Starter:
    """A process that has loaded modules and starts programs as its copies, one at a time."""

    def __init__(self, modules: str, settings: Mapping[str, str], errors: Path) -> None:
        """Start the process; programs write their errors to a file."""
        self._errors = errors
        self._process = subprocess.Popen(
            [sys.executable, "-c", STARTER, modules],
            env=settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the programs
        )

    def start(self, program: Text, folder: Path) -> Copy:
        """Start a program in a folder."""
        text, words = program
        self._write([text, list(words), str(folder), str(self._errors)])
        return Copy(int(self.read()), self)

    def _write(self, request: list[object]) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def read(self) -> str:
        """Return the next line of output."""
        return "" if self._process.stdout is None else self._process.stdout.readline()

    def errors(self) -> bytes:
        """Return what the last program wrote to standard error."""
        return self._errors.read_bytes() if self._errors.exists() else b""

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class Copy:
    """A program that runs as a copy; it has what is used of `subprocess.Popen`."""

    def __init__(self, pid: int, starter: Starter) -> None:
        """Store the process id, and who waits for its end."""
        self.pid = pid
        self.returncode = 0
        self._starter = starter

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program alone."""
        os.kill(self.pid, number)

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:  # noqa: ARG002 - as `Popen` has it
        """Wait for the end; return nothing and the errors."""
        self.returncode = int(self._starter.read())
        return b"", self._starter.errors()


def start_new(
    program: Text, folder: Path, settings: Mapping[str, str], before: Callable[[], None] | None
) -> subprocess.Popen[bytes]:
    """Start a program as a process of its own; `before` runs in it before all."""
    text, words = program
    return subprocess.Popen(
        [sys.executable, "-c", text, *words],
        cwd=folder,
        env=settings,
        preexec_fn=before,  # noqa: PLW1509 - it calls the system alone
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def wait_for_groups(groups: set[int], seconds: float = 60) -> bool:
    """Wait until no process of these groups runs; return whether that was so in time."""
    until = time.monotonic() + seconds
    while any(_group(place) in groups for place in Path("/proc").glob("[0-9]*/stat")):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    groups.clear()
    return True


def _group(place: Path) -> int:
    """Return the group of a process that runs; 0 for one that has ended."""
    try:
        state, _, group = place.read_text().rpartition(")")[2].split()[:3]
    except OSError:
        return 0
    return 0 if state == "Z" else int(group)
