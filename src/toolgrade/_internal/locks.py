"""Locks that do not stay locked in a forked process."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Final
from weakref import WeakSet


class ForkSafeLock:
    """A reentrant lock that is free in a forked process, whichever thread of its parent held it.

    `os.fork` copies only the thread that calls it, so a plain lock that another thread holds at that time stays locked
    in the child. The value that the lock protects may be half-changed there.

    Example:
        >>> from toolgrade.capture import ForkSafeLock
        >>> lock, runs = ForkSafeLock(), []
        >>> with lock:
        ...     runs.append("first")
    """

    def __init__(self) -> None:
        """Start unlocked."""
        self._lock = threading.RLock()
        _all.add(self)

    def __enter__(self) -> None:
        """Wait until no other thread holds the lock, and hold it."""
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Free the lock."""
        self._lock.release()

    def renew(self) -> None:
        """Free the lock in a forked process."""
        self._lock = threading.RLock()


_all: Final[WeakSet[ForkSafeLock]] = WeakSet()


def _renew_all() -> None:
    for lock in _all:
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
