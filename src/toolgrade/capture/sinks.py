"""Sinks for finished runs: the protocol, and a file of JSON Lines that `toolgrade score` reads.

A sink raises what goes wrong; the recorder does not pass it on to the agent.
"""

from __future__ import annotations

import os
import time
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from toolgrade._internal.json import CANCEL_MARK
from toolgrade._internal.locks import ForkSafeLock
from toolgrade.cases import Run
from toolgrade.redact import DEFAULT, Redactor

if TYPE_CHECKING:
    from typing_extensions import Self

_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class Sink(Protocol):
    """Receives finished runs.

    Example:
        >>> from toolgrade import Run, observe
        >>> from toolgrade.capture import record
        >>> class PrintSink:  # a class with this method is a sink; it needs no base class
        ...     def write(self, run: Run) -> None:
        ...         print(run.input, "->", run.actual_output)
        >>> agent = observe(lambda question: "It is sunny.")
        >>> with record(sink=PrintSink()):
        ...     answer = agent("What is the weather in Paris?")
        What is the weather in Paris? -> It is sunny.
    """

    def write(self, run: Run) -> None:
        """Store a run. May be called from several threads at once, and may raise."""


class JsonlSink:
    """Appends each run to a file as one line: a redacted test case that `read_cases` and `toolgrade score` read.

    The file is opened for appending at the first write, so without runs there is no file. Each line is written by a
    single system call, so threads and processes may share a file on a local disk, and a process that is killed leaves
    at most a torn last line. The next writer ends a torn line with the control character *cancel*, so that it affects
    no other line, and readers leave it out with a warning.

    `close` may be called at any time; a later write opens the file again.

    Args:
        path: The file; its folder must exist.
        redactor: Removes secrets from what is written; `redact.OFF` writes everything.
        fsync: Wait after each line until it is on the disk, so that it survives a system crash.

    Example:
        >>> from toolgrade import observe, read_cases
        >>> from toolgrade.capture import JsonlSink, record
        >>> agent = observe(lambda question: "It is sunny.")
        >>> with JsonlSink("runs.jsonl") as sink, record(sink=sink):
        ...     answers = [agent(f"What is the weather in {city}?") for city in ("Paris", "Rome")]
        >>> [case.input for case in read_cases("runs.jsonl")]
        ['What is the weather in Paris?', 'What is the weather in Rome?']
    """

    def __init__(self, path: str | os.PathLike[str], *, redactor: Redactor = DEFAULT, fsync: bool = False) -> None:
        self.path: str = os.fspath(path)
        self.redactor = redactor
        self.fsync = fsync
        self._lock = ForkSafeLock()
        self._file: int | None = None
        self._closer: weakref.finalize[[int], JsonlSink] | None = None

    def write(self, run: Run) -> None:
        """Append a run.

        Raises:
            OSError: The file cannot be opened or written; readers leave out a line that was written only in part.
        """
        line = self.redactor.model(run.to_test_case(id=run.run_id)).to_json().encode() + b"\n"
        with self._lock:
            if self._file is None:
                self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY, 0o666)
                self._closer = weakref.finalize(self, os.close, self._file)
            # A process that was killed may have left half a line, also after this file was opened.
            data = line if _ends_in_newline(self._file) else CANCEL_MARK + b"\n" + line
            # One system call: lines of other processes cannot come in between.
            written = os.write(self._file, data)
            if written < len(data):
                message = f"{self.path}: only {written} of {len(data)} bytes could be written; is the disk full?"
                raise OSError(message)
            if self.fsync:
                os.fsync(self._file)

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


def _ends_in_newline(file: int) -> bool:
    """Return whether a file is empty or its last line is complete."""
    # The pages of a line that another process is writing appear one by one; a torn line stays as it is.
    for seconds in _PATIENCE:
        time.sleep(seconds)
        size = os.fstat(file).st_size
        if not size or _byte_at(file, size - 1) == b"\n":
            return True
    return False


_PATIENCE = (0, 0.001, 0.002, 0.004, 0.008)
"""Seconds before each look at the end of a file."""


def _byte_at(file: int, place: int) -> bytes:
    if hasattr(os, "pread"):  # leaves the file position alone, which a forked process shares
        return os.pread(file, 1, place)
    os.lseek(file, place, os.SEEK_SET)
    return os.read(file, 1)
