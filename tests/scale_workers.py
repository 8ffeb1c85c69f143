"""What the processes of the tests do; they import it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


class UnsendableError(Exception):
    """An exception that no pipe can carry."""

    def __init__(self, one: object, two: object) -> None:
        super().__init__(one)
        self.two = lambda: two


def double(number: int) -> tuple[int, int]:
    """Return the doubled number and the process id."""
    return 2 * number, os.getpid()


def slower_first(number: int) -> int:
    """Take longer for even numbers."""
    time.sleep(0.02 * (number % 2 == 0))
    return number


def fail(number: int) -> int:
    """Fails at 3."""
    if number == 3:
        raise ValueError("three")
    return number


def fail_badly(_number: int) -> int:
    """Fails with something that cannot be sent."""
    raise UnsendableError("odd", 1)


def die(number: int) -> int:
    """Is killed at 3, as a system does that has no memory left."""
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def linger(folder: str) -> None:
    """Record the process id, then work for long, as Python code that an interrupt reaches."""
    (Path(folder) / str(os.getpid())).touch()
    for _ in range(1000):
        time.sleep(0.1)


def is_alive(pid: str) -> bool:
    """Whether a process runs; one that has ended and waits to be asked does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
