"""Where answers of judges are kept, so that no question is paid for twice.

Only replies that were understood (`ok`) are kept, as JSON text, under a hash of all that they depend on: the question,
the evidence, the model, and the version of the prompt. Nothing here runs code from what it reads.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable

from toolmark.errors import ConfigurationError, InvalidDataError
from toolmark.judge.protocol import Reply, cache_key

__all__ = ["Cache", "MemoryCache", "SqliteCache", "cache_key"]

_LAYOUT = 1
_WAIT = 60.0
"""Seconds to wait for another process that writes."""


@runtime_checkable
class Cache(Protocol):
    """Keeps replies by key. Both methods are called from several threads."""

    def get(self, key: str, /) -> Reply | None:
        """Return the reply under a key, or `None`."""
        ...

    def put(self, key: str, reply: Reply, /) -> None:
        """Keep a reply under a key, in place of one that is there."""
        ...


class MemoryCache:
    """Keeps replies as long as this object lives."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._replies: dict[str, Reply] = {}

    def get(self, key: str, /) -> Reply | None:
        """Return the reply under a key, or `None`."""
        return self._replies.get(key)

    def put(self, key: str, reply: Reply, /) -> None:
        """Keep a reply under a key."""
        self._replies[key] = reply


class SqliteCache:
    """Keeps replies in an SQLite file, for this run and later ones.

    Threads and processes may share a file on one machine; a file on a network drive must not be shared. Opened when
    first used, and made then if it is not there. It holds what judges said, without the prompts.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Keep the path of the file."""
        self.path: Path = Path(path)
        self._lock = threading.Lock()
        self._opened: tuple[int, sqlite3.Connection] | None = None
        self._closer: weakref.finalize[[int, sqlite3.Connection], SqliteCache] | None = None

    def get(self, key: str, /) -> Reply | None:
        """Return the reply under a key, or `None`; an entry that cannot be read counts as none.

        Raises:
            ConfigurationError: The file cannot be opened, or is no cache of toolmark.
        """
        rows = self._run("SELECT reply FROM replies WHERE key = ?", (key,))
        try:
            return Reply.from_json(rows[0][0]) if rows else None
        except InvalidDataError:
            return None

    def put(self, key: str, reply: Reply, /) -> None:
        """Keep a reply under a key, in place of one that is there.

        Raises:
            ConfigurationError: The file cannot be opened or written, or is no cache of toolmark.
        """
        self._run("INSERT OR REPLACE INTO replies (key, reply) VALUES (?, ?)", (key, reply.to_json()))

    def close(self) -> None:
        """Close the file; it is opened again when it is next used."""
        with self._lock:
            if self._closer is not None:
                self._closer()
            self._opened = self._closer = None

    def _run(self, statement: str, values: tuple[str, ...]) -> list[tuple[str, ...]]:
        with self._lock:
            try:
                connection = self._connection()
                with connection:
                    return connection.execute(statement, values).fetchall()
            except (sqlite3.Error, OSError) as error:
                message = f"the cache {str(self.path)!r} cannot be used: {error}; name another file, or remove this one"
                raise ConfigurationError(message) from error

    def _connection(self) -> sqlite3.Connection:
        """Return the connection of this process: one that was opened before a fork belongs to the parent."""
        if self._opened is not None and self._opened[0] == os.getpid():
            return self._opened[1]
        connection = sqlite3.connect(self.path, timeout=_WAIT, check_same_thread=False)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._opened = (os.getpid(), connection)
        self._closer = weakref.finalize(self, _close, *self._opened)  # for those who never close it
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        layout = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE tbl_name != 'replies'").fetchone()[0]
        if layout not in (0, _LAYOUT) or (layout == 0 and tables):
            message = f"the file {str(self.path)!r} is no cache of this version of toolmark; name another file"
            raise ConfigurationError(message)
        # A write ahead log: readers do not wait for writers, and a write does not wait for the disk. Another process
        # may be about to set it, or a file system may not have it: that costs time alone.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        with connection:
            connection.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
            connection.execute(f"PRAGMA user_version={_LAYOUT}")


def _close(process: int, connection: sqlite3.Connection) -> None:
    """Close a connection in the process that opened it; in a fork of that, it is the parent's."""
    if process == os.getpid():
        connection.close()
