"""Waiting for something asynchronous: with and without a loop, and what Ctrl-C does meanwhile."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from toolgrade._internal.sync_bridge import run_interruptible, run_sync

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C as in a terminal: where tests run in the background, a shell has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    """What Ctrl-C does: it wakes the main thread, whichever this is."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_returns_and_raises_as_the_coroutine() -> None:
    """Afterwards the Ctrl-C handler is the previous one."""

    async def answers() -> int:
        await asyncio.sleep(0)
        return 3

    async def fails() -> int:
        raise ValueError("no")

    before = signal.getsignal(signal.SIGINT)
    assert run_interruptible(answers()) == 3
    with pytest.raises(ValueError, match="no"):
        run_interruptible(fails())
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_lets_it_end_first() -> None:
    """It is cancelled between two steps and may clean up; then the interrupt is raised."""
    events: list[str] = []

    async def goes() -> None:
        interrupt()
        events.append("not in the middle")
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.001)
            events.append("tidied up")

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(goes())
    assert events == ["not in the middle", "tidied up"]


def test_a_second_one_waits_for_nothing() -> None:
    """Neither for the coroutine nor for a thread that it waits for."""
    end = threading.Event()

    async def stubborn() -> None:
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, end.wait, 60)
        loop.call_later(0.01, interrupt)
        loop.call_later(0.02, interrupt)
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(stubborn())
    end.set()


def test_a_cancellation_of_its_own_is_none_of_the_user() -> None:
    """It is passed on unchanged."""

    async def gives_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_interruptible(gives_up())


def test_custom_interrupt_handlers_stay() -> None:
    """A program that handles Ctrl-C itself still does."""
    heard: list[int] = []

    async def goes() -> str:
        interrupt()
        await asyncio.sleep(0)
        return "done"

    before = signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))
    try:
        assert run_interruptible(goes()) == "done"
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


def test_in_a_notebook_it_is_cancelled_too() -> None:
    """If a loop is running, the coroutine runs in a separate thread, which ends with it."""
    ended: list[str] = []

    async def goes() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(threading.current_thread().name)

    async def cell() -> None:
        threading.Timer(0.05, interrupt).start()
        run_sync(goes())

    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell())
    finally:
        loop.close()
    assert ended == ["toolgrade"]


def test_other_threads_wait_as_ever() -> None:
    """Signals are none of theirs."""
    results: list[int] = []

    async def answers() -> int:
        return 3

    thread = threading.Thread(target=lambda: results.append(run_interruptible(answers())))
    thread.start()
    thread.join()
    assert results == [3]
