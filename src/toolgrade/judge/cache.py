"""Caches of judge replies, so that no question is paid for twice.

Only replies with a verdict are cached, as JSON text, under a hash of everything they depend on: the question, the
evidence, the model, and the version of the prompt. Reading a cache never executes code from it.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

from toolgrade._internal.json import canonical_json
from toolgrade._internal.locks import ForkSafeLock
from toolgrade._internal.options import require
from toolgrade.errors import ConfigurationError, InvalidDataError
from toolgrade.judge.protocol import Prompt, Reply

_LAYOUT = 1
_LOCK_SECONDS = 60.0
"""Seconds to wait for another process that writes."""


def cache_key(prompt: Prompt, identity: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hexadecimal, of everything that a reply depends on: `prompt.content` and the model."""
    whole = {
        "prompt": {"name": prompt.name, "version": prompt.version, "content": prompt.content},
        "schema": prompt.reply_schema,
        "model": dict(identity),
    }
    return hashlib.sha256(canonical_json(whole).encode("ascii")).hexdigest()


@runtime_checkable
class Cache(Protocol):
    """A store of replies by key, for `Judge(..., cache=...)`. Both methods are called from several threads.

    Example:
        >>> import asyncio
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.testing import sample_prompt
        >>> class MyCache(dict):  # which has get
        ...     def put(self, key, reply):
        ...         self[key] = reply
        >>> reply = '{"evidence": ["c1"], "reasoning": "The user asked for it.", "verdict": "yes"}'
        >>> judge = Judge(lambda messages: reply, cache=MyCache(), identity={"model": "my-model"})
        >>> [asyncio.run(judge.ask(sample_prompt())).cached for _ in range(2)]
        [False, True]
    """

    def get(self, key: str, /) -> Reply | None:
        """Return the reply under a key, or `None`."""
        ...

    def put(self, key: str, reply: Reply, /) -> None:
        """Store a reply under a key, replacing an earlier one."""
        ...


class MemoryCache:
    """A cache that lives as long as this object.

    Example:
        >>> import asyncio
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.judge.cache import MemoryCache
        >>> from toolgrade.testing import sample_prompt
        >>> reply = '{"evidence": ["c1"], "reasoning": "The user asked for it.", "verdict": "yes"}'
        >>> judge = Judge(lambda messages: reply, cache=MemoryCache())
        >>> [asyncio.run(judge.ask(sample_prompt())).cached for _ in range(2)]
        [False, True]
    """

    def __init__(self) -> None:
        """Create an empty cache."""
        self._replies: dict[str, Reply] = {}

    def get(self, key: str, /) -> Reply | None:
        """Return the reply under a key, or `None`."""
        return self._replies.get(key)

    def put(self, key: str, reply: Reply, /) -> None:
        """Store a reply under a key."""
        self._replies[key] = reply


class PendingBatch(NamedTuple):
    """A batch at the provider whose answers are not in the cache yet.

    `file_id` is the id of its uploaded requests, `batch_id` is `None` until the provider has confirmed it, and `keys`
    are those of its requests.
    """

    file_id: str
    batch_id: str | None
    keys: frozenset[str]


class SqliteCache:
    """A cache in an SQLite file, for this run and later ones.

    Threads and processes may share a file on one machine; do not share a file on a network drive. The file is opened,
    and created if missing, on first use. It holds replies without their prompts, and the ids of batches whose
    answers are due.

    Example:
        >>> import asyncio
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.judge.cache import SqliteCache
        >>> from toolgrade.testing import sample_prompt
        >>> reply = '{"evidence": ["c1"], "reasoning": "The user asked for it.", "verdict": "yes"}'
        >>> for run in ("first", "second"):
        ...     judge = Judge(
        ...         lambda messages: reply, cache=SqliteCache("verdicts.sqlite"), identity={"model": "my-model"}
        ...     )
        ...     print(run, asyncio.run(judge.ask(sample_prompt())).cached)
        first False
        second True
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Store the path; nothing is opened yet."""
        self.path: Path = Path(path)
        self._lock = ForkSafeLock()
        self._opened: tuple[int, sqlite3.Connection] | None = None
        self._closer: weakref.finalize[[int, sqlite3.Connection], SqliteCache] | None = None

    def get(self, key: str, /) -> Reply | None:
        """Return the reply under a key, or `None`; an unreadable entry counts as missing.

        Raises:
            ConfigurationError: The file cannot be opened, or is not a cache of toolgrade.
        """
        rows = self._execute("SELECT reply FROM replies WHERE key = ?", (key,))
        with suppress(InvalidDataError):
            return Reply.from_json(rows[0][0]) if rows else None
        return None

    def put(self, key: str, reply: Reply, /) -> None:
        """Store a reply under a key, replacing an earlier one.

        Raises:
            ConfigurationError: The file cannot be opened or written, or is not a cache of toolgrade.
        """
        self._execute("INSERT OR REPLACE INTO replies (key, reply) VALUES (?, ?)", (key, reply.to_json()))

    def batches(self) -> list[PendingBatch]:
        """Return the batches that were submitted and not collected; raises as `get` does."""
        rows = self._execute("SELECT file_id, batch_id, keys FROM batches", ())
        return [PendingBatch(row[0], row[1] or None, frozenset(row[2].split())) for row in rows]

    def put_batch(self, batch: PendingBatch) -> None:
        """Store a batch, replacing an earlier state of it; raises as `put` does."""
        values = (batch.file_id, batch.batch_id or "", " ".join(batch.keys))
        self._execute("INSERT OR REPLACE INTO batches (file_id, batch_id, keys) VALUES (?, ?, ?)", values)

    def remove_batch(self, batch: PendingBatch) -> None:
        """Forget a batch; raises as `put` does."""
        self._execute("DELETE FROM batches WHERE file_id = ?", (batch.file_id,))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._closer is not None:
                self._closer()
            self._opened = self._closer = None

    def _execute(self, statement: str, values: tuple[str, ...]) -> list[tuple[str, ...]]:
        with self._lock:
            try:
                connection = self._connection()
                with connection:
                    return connection.execute(statement, values).fetchall()
            except (sqlite3.Error, OSError) as error:
                message = f"the cache {str(self.path)!r} cannot be used: {error}; name another file or remove this one"
                raise ConfigurationError(message) from error

    def _connection(self) -> sqlite3.Connection:
        """Return the connection of this process: one opened before a fork belongs to the parent."""
        if self._opened is not None and self._opened[0] == os.getpid():
            return self._opened[1]
        connection = sqlite3.connect(self.path, timeout=_LOCK_SECONDS, check_same_thread=False)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._opened = (os.getpid(), connection)
        self._closer = weakref.finalize(self, _close, *self._opened)  # closes the file of an object nobody closed
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Check that the file is empty or a cache of this version, and create the tables."""
        layout = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE tbl_name NOT IN ('replies', 'batches')"
        ).fetchone()[0]
        if layout not in (0, _LAYOUT) or (layout == 0 and tables):
            message = f"the file {str(self.path)!r} is not a cache of this version of toolgrade; name another file"
            raise ConfigurationError(message)
        # With a write-ahead log readers do not wait for writers, and a write does not wait for the disk. It fails where
        # another process sets it at this moment or the file system lacks it: the cache is then slower, not wrong.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        with connection:
            connection.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS batches (file_id TEXT PRIMARY KEY, batch_id TEXT, keys TEXT)"
            )
            connection.execute(f"PRAGMA user_version={_LAYOUT}")


def open_cache(cache: object) -> Cache | None:
    """Return the cache that an option `cache=` describes.

    Raises:
        ConfigurationError: The option is not a cache.
    """
    if cache is None or isinstance(cache, Cache):
        return cache
    if cache == "memory":
        return MemoryCache()
    is_path = isinstance(cache, (str, os.PathLike))
    require(is_path, "cache must be 'memory', a path, None or an object with get and put", cache)
    return SqliteCache(cast("str | os.PathLike[str]", cache))


def _close(process: int, connection: sqlite3.Connection) -> None:
    """Close a connection in the process that opened it; in a fork it still belongs to the parent."""
    if process == os.getpid():
        connection.close()
