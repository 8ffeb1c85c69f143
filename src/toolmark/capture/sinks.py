"""Where recorded runs go: into memory, or into a file of JSON Lines that `toolmark score` reads.

A sink takes runs that have ended. Which runs are under way is the recorder's business: it may keep them in a
`MemoryStore`, which never drops what is not finished. Sinks raise what goes wrong; it is the recorder that keeps it
from the agent.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Hashable
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from toolmark._internal.markers import CANCEL_MARK
from toolmark.cases import Run
from toolmark.errors import ConfigurationError, ToolmarkWarning
from toolmark.redact import DEFAULT, Redactor

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

LIMIT = 10_000
"""Runs that are kept in memory where nothing else is asked for."""

_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class Sink(Protocol):
    """Anything that takes runs that have ended."""

    def write(self, run: Run) -> None:
        """Take a run. May be called from several threads at once, and may raise."""


class MemoryStore(Generic[T]):
    """Items by key, of which the oldest finished ones are dropped where more than `limit` are finished.

    Items that are not finished are never dropped, and do not crowd out finished ones. That items were dropped is said
    once, as a `ToolmarkWarning`, and counted in `dropped`. Thread-safe.

    Args:
        limit: Most finished items to keep; `None` for as many as come.

    Raises:
        ConfigurationError: `limit` is no whole number from 1.
    """

    def __init__(self, limit: int | None = LIMIT) -> None:
        if limit is not None and (type(limit) is not int or limit < 1):
            message = f"limit must be a whole number from 1, or None for no limit; got {limit!r}"
            raise ConfigurationError(message)
        self.limit = limit
        self.dropped: int = 0
        self._open: dict[Hashable, T] = {}
        self._finished: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, key: Hashable, item: T) -> None:
        """Keep an item that is not finished; one of the same key is replaced, finished or not."""
        with self._lock:
            self._finished.pop(key, None)
            self._open[key] = item

    def get(self, key: Hashable) -> T | None:
        """Return the item of this key, finished or not; `None` if there is none, or no longer."""
        with self._lock:
            return self._open.get(key, self._finished.get(key))

    def finish(self, key: Hashable) -> None:
        """Say that an item is finished; from now on it may be dropped. A key that is not under way is passed over."""
        with self._lock:
            if key not in self._open:
                return
            self._finished[key] = self._open.pop(key)
            too_many = self.limit is not None and len(self._finished) > self.limit
            if too_many:
                self._finished.popitem(last=False)
                self.dropped += 1
            first = too_many and self.dropped == 1
        if first:
            message = (
                f"{self.limit} finished runs are kept in memory, and from here on the oldest are dropped; take them "
                "out in time with pop(), raise limit=, or write them to a file with JsonlSink"
            )
            warnings.warn(message, ToolmarkWarning, stacklevel=3)

    def finished(self) -> list[T]:
        """Return the finished items, in the order in which they were finished."""
        with self._lock:
            return list(self._finished.values())

    def pop(self) -> list[T]:
        """Take the finished items out, and return them in the order in which they were finished."""
        with self._lock:
            taken, self._finished = self._finished, OrderedDict()
        return list(taken.values())

    def __len__(self) -> int:
        """Return how many items are kept, finished or not."""
        with self._lock:
            return len(self._open) + len(self._finished)


class MemorySink:
    """Keeps the last runs in memory, as they are: scoring in memory sees the real values, so nothing is redacted.

    Args:
        limit: Most runs to keep; beyond it the oldest are dropped, and a `ToolmarkWarning` says so once. `None` for as
            many as come.

    Raises:
        ConfigurationError: `limit` is no whole number from 1.
    """

    def __init__(self, limit: int | None = LIMIT) -> None:
        self._store: MemoryStore[Run] = MemoryStore(limit)

    @property
    def runs(self) -> list[Run]:
        """The runs kept, oldest first."""
        return self._store.finished()

    @property
    def dropped(self) -> int:
        """How many runs were dropped."""
        return self._store.dropped

    def write(self, run: Run) -> None:
        """Keep a run."""
        key = object()
        self._store.add(key, run)
        self._store.finish(key)

    def pop(self) -> list[Run]:
        """Take the runs out, oldest first."""
        return self._store.pop()

    def __len__(self) -> int:
        """Return how many runs are kept."""
        return len(self._store)


class JsonlSink:
    """Appends each run to a file as one line: a test case as `read_cases` and `toolmark score` read it, redacted.

    The file is opened at the first write, for appending, so nothing appears where nothing was recorded. A line is
    written by a single call to the operating system: threads and processes may share a file on a local disk, and of a
    process that is killed at most the last line is torn. Whoever writes next ends such a line with a mark of its own
    (`CANCELLED`), so that it takes no other line with it, and readers leave it out with a warning.

    `close` may be called at any time; writing after it opens the file again.

    Args:
        path: The file; its folder must exist.
        redactor: Takes secrets out of what is written; `redact.OFF` writes everything as it is.
        fsync: Wait after each line until it is on the disk, so that it survives even a failing machine.
    """

    def __init__(self, path: str | os.PathLike[str], *, redactor: Redactor = DEFAULT, fsync: bool = False) -> None:
        self.path: str = os.fspath(path)
        self.redactor = redactor
        self.fsync = fsync
        self._lock = threading.Lock()
        self._file: int | None = None
        self._closer: weakref.finalize[[int], JsonlSink] | None = None

    def write(self, run: Run) -> None:
        """Append a run.

        Raises:
            OSError: The file cannot be opened or written; what was written of the line is left out by readers.
        """
        line = self.redactor.model(run.to_test_case()).to_json().encode() + b"\n"
        with self._lock:
            file = self._opened()
            data = line if _ends_in_newline(file) else CANCEL_MARK + b"\n" + line
            written = os.write(file, data)
            if written < len(data):
                message = f"{self.path}: only {written} of {len(data)} bytes could be written; is the disk full?"
                raise OSError(message)
            if self.fsync:
                os.fsync(file)

    def close(self) -> None:
        """Close the file, if it is open."""
        with self._lock:
            if self._closer is not None:
                self._closer()
            self._file = self._closer = None

    def __enter__(self) -> Self:
        """Return this sink."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def _opened(self) -> int:
        if self._file is None:
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY, 0o666)
            self._closer = weakref.finalize(self, os.close, self._file)
        return self._file


def _ends_in_newline(file: int) -> bool:
    """Return whether the next line can follow at once: the file is empty, or its last line is whole."""
    size = os.fstat(file).st_size
    if not size:
        return True
    if hasattr(os, "pread"):  # leaves the position alone, which a forked process shares
        return os.pread(file, 1, size - 1) == b"\n"
    os.lseek(file, size - 1, os.SEEK_SET)
    return os.read(file, 1) == b"\n"
