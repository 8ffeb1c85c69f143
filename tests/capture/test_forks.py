"""Recorders in processes that fork while other threads record, as servers do."""

import multiprocessing
import os
import re
import threading
from collections import Counter
from pathlib import Path

import pytest

from toolgrade import observe, read_cases
from toolgrade.capture import ForkSafeLock, JsonlSink, record

SOURCES = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


@observe(tool=True)
def get_weather(city: str) -> str:
    """A tool."""
    return f"It rains in {city}."


@observe
def agent(city: str) -> str:
    """An agent with one call."""
    return get_weather(city)


def test_children_record_their_own_runs(tmp_path: Path) -> None:
    """Eight threads record into one file while the process forks: no child hangs, and each run is written once."""
    file, over = tmp_path / "runs.jsonl", threading.Event()
    counts: Counter[str] = Counter()

    def serve(thread: int) -> None:
        while not over.is_set():
            agent(f"thread {thread}")
            counts[f"thread {thread}"] += 1

    def fork(number: int) -> "multiprocessing.process.BaseProcess":
        process = multiprocessing.get_context("fork").Process(target=agent, args=(f"child {number}",))
        process.start()
        return process

    with JsonlSink(file) as sink, record(sink=sink, process_wide=True):
        threads = [threading.Thread(target=serve, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        children = [fork(number) for number in range(25)]
        for child in children:
            child.join(timeout=10)
            if child.is_alive():
                child.kill()
        over.set()
        for thread in threads:
            thread.join()

    assert [child.exitcode for child in children] == [0] * 25
    written = Counter(case.input for case in read_cases(file))
    assert written == {**counts, **{f"child {number}": 1 for number in range(25)}}


def test_an_open_run_is_the_parents() -> None:
    """A run in which the process forks ends in both; only the parent has it, the child has what it began itself."""
    read, write = os.pipe()

    @observe
    def forking_agent(question: str) -> bool:
        get_weather(question)
        return os.fork() == 0

    with record() as recorder:
        is_child = forking_agent("Paris")
        if is_child:
            agent("Rome")
            os.write(write, repr([run.input for run in recorder.runs]).encode())
            os._exit(0)

    os.close(write)
    with os.fdopen(read) as stream:
        assert stream.read() == "['Rome']"
    assert [(run.input, len(run.calls)) for run in recorder.runs] == [("Paris", 1)]


def test_a_lock_that_another_thread_holds_is_free_in_the_child() -> None:
    """The thread that holds it does not exist there."""
    lock, is_held, is_over = ForkSafeLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            is_over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    child = multiprocessing.get_context("fork").Process(target=lock.__enter__)
    child.start()
    child.join(timeout=30)
    is_over.set()
    thread.join()

    assert child.exitcode == 0


def test_every_lock_is_fork_safe() -> None:
    """A plain lock of `threading` may stay locked in a child for ever; test doubles are no part of a server."""
    sources = [*SOURCES.glob("src/toolgrade/**/*.py"), *SOURCES.glob("adapters/*/src/**/*.py")]
    plain = {
        path.relative_to(SOURCES).as_posix()
        for path in sources
        if "testing" not in path.parts and re.search(r"\b(RLock|Lock|Condition)\(\)", path.read_text(encoding="utf-8"))
    }

    assert plain == {"src/toolgrade/_internal/locks.py", "src/toolgrade/evaluation/session.py"}  # the latter: asyncio
