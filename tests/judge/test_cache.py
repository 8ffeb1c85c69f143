"""The cache on disk: shared by threads and processes, and never a reason to run what it holds."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from toolgrade import ConfigurationError
from toolgrade.judge import Message, Prompt, Reply
from toolgrade.judge.cache import SqliteCache, cache_key


def write(path: str, start: int) -> None:
    """Keep a hundred replies, and read each back."""
    cache = SqliteCache(path)
    for number in range(start, start + 100):
        cache.put(str(number), Reply(text=str(number)))
        assert cache.get(str(number)) == Reply(text=str(number))
    cache.close()


def test_replies_come_back_whole(tmp_path: Path) -> None:
    """Every field, and texts that are not plain; an unknown key is none."""
    cache = SqliteCache(tmp_path / "c.db")
    reply = Reply(text="é \u202e \x00", usage={"input_tokens": 3}, model="m", request_id="r", attempts=2)
    cache.put("k", reply)
    cache.put("k", Reply(text="x"))
    cache.put("k", reply)

    assert SqliteCache(tmp_path / "c.db").get("k") == reply
    assert cache.get("other") is None


def test_processes_and_threads_share_a_file(tmp_path: Path) -> None:
    """Four processes and four threads write at the same time, and nothing is lost."""
    path = str(tmp_path / "c.db")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=write, args=(path, 1000 * i)) for i in range(1, 3)]
    threads = [threading.Thread(target=write, args=(path, 100 * i)) for i in range(4)]
    for worker in (*processes, *threads):
        worker.start()
    for worker in (*processes, *threads):
        worker.join(60)

    assert [process.exitcode for process in processes] == [0, 0]
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("SELECT count(*) FROM replies").fetchone() == (600,)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_after_a_fork_the_child_opens_the_file_anew(tmp_path: Path) -> None:
    """A connection that a parent opened is not used by its children."""
    cache = SqliteCache(tmp_path / "c.db")
    cache.put("k", Reply(text="x"))
    opened = cache._opened
    cache._opened = (-1, opened[1]) if opened else None  # as a child finds it

    assert cache.get("k") == Reply(text="x")
    assert cache._opened is not None
    assert cache._opened[0] == os.getpid()


@pytest.mark.parametrize(
    "content", ["this is no database, but a text that is long enough " * 20, "other tables", "newer"]
)
def test_another_file_is_left_alone(tmp_path: Path, content: str) -> None:
    """A file that is not a cache, or of a later version, is an error that names it, and stays unchanged."""
    path = tmp_path / "c.db"
    if content in {"other tables", "newer"}:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(
                "CREATE TABLE users (name TEXT)" if content == "other tables" else "PRAGMA user_version=9"
            )
        connection.close()
    else:
        path.write_text(content)
    before = path.read_bytes()

    with pytest.raises(ConfigurationError, match=r"c\.db"):
        SqliteCache(path).put("k", Reply(text="x"))
    assert path.read_bytes() == before


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(ConfigurationError, match="nowhere"):
        SqliteCache(tmp_path / "nowhere" / "c.db").get("k")


def test_an_entry_that_cannot_be_read_counts_as_none(tmp_path: Path) -> None:
    """Its question is sent again and the entry replaced."""
    cache = SqliteCache(tmp_path / "c.db")
    cache.put("k", Reply(text="x"))
    with closing(sqlite3.connect(tmp_path / "c.db")) as connection, connection:
        connection.execute("UPDATE replies SET reply = '{broken'")
    connection.close()

    assert cache.get("k") is None
    cache.put("k", Reply(text="y"))
    assert cache.get("k") == Reply(text="y")


def prompt(**changed: object) -> Prompt:
    """A prompt."""
    fields: dict[str, object] = {
        "name": "arguments",
        "version": "1",
        "messages": (Message(role="user", content="x"),),
        "reply_schema": {"type": "object", "properties": {}},
        "ids": ("c1",),
        "content": {"evidence": {"a": 1, "b": 2}, "sample": 0},
        **changed,
    }
    return Prompt.model_validate(fields)


def test_keys_depend_on_the_question() -> None:
    """Wording, evidence, sample, schema and model change the key; messages and key order do not."""
    model = {"model": "m", "temperature": 0}
    key = cache_key(prompt(), model)
    same = [
        cache_key(prompt(messages=(Message(role="user", content="another marker"),)), model),
        cache_key(prompt(content={"sample": 0, "evidence": {"b": 2, "a": 1}}), {"temperature": 0, "model": "m"}),
    ]
    others = [
        cache_key(prompt(name="tool_selection"), model),
        cache_key(prompt(version="2"), model),
        cache_key(prompt(content={"evidence": {"a": 1, "b": 2}, "sample": 1}), model),
        cache_key(prompt(reply_schema={"type": "object"}), model),
        cache_key(prompt(), {"model": "m"}),
    ]

    assert set(same) == {key}
    assert len({key, *others}) == 6
    assert len(key) == 64
