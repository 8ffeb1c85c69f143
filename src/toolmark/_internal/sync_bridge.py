"""How does a synchronous caller wait for something asynchronous? Also where an event loop already runs."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, and return what it returns.

    Where a loop runs in this thread, as in a notebook, the coroutine gets a thread and a loop of its own, in a copy of
    the caller's context: a loop that runs cannot be waited for from inside.
    """
    return _in_a_thread(coroutine) if _is_running() else asyncio.run(coroutine)


def run_interruptible(coroutine: Coroutine[Any, Any, T]) -> T:
    """Do what `run_sync` does, so that Ctrl-C is met between two steps of the coroutine.

    The first Ctrl-C cancels it, and raises `KeyboardInterrupt` when it has ended; a second one does not wait for that.
    Where someone else has a say in what Ctrl-C does, or this is not the main thread, it is as in `run_sync`.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or _is_running() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return run_sync(coroutine)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)  # as asyncio.run does, for code that asks for it
    task = loop.create_task(coroutine)
    stops = 0

    def stop(_number: int, _frame: object) -> None:
        nonlocal stops
        stops += 1
        if stops > 1 or task.done():
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(task.cancel)

    before = signal.signal(signal.SIGINT, stop)
    try:
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError:
            if stops:
                raise KeyboardInterrupt from None
            raise
        finally:
            _end(loop, stops)
    finally:
        signal.signal(signal.SIGINT, before)


def _end(loop: asyncio.AbstractEventLoop, stops: int) -> None:
    """Close a loop: wait for what is left, as `asyncio.run` does, but not for threads after Ctrl-C, nor after two."""
    try:
        if stops < 2:  # noqa: PLR2004 - the second means at once
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(_all(left))
            loop.run_until_complete(loop.shutdown_asyncgens())
        if not stops:
            loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        loop.set_exception_handler(lambda _loop, _told: None)  # that tasks were left behind is no news
        loop.close()


async def _all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def _is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _in_a_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread and a loop of its own; Ctrl-C cancels it, and a second one leaves it behind."""
    outcome: list[T] = []
    raised: list[BaseException] = []
    going: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    ended = threading.Event()  # of a thread, `join` holds after one interrupt that it has ended

    async def told() -> T:
        task = asyncio.current_task()
        if task is not None:
            going.append((asyncio.get_running_loop(), task))
        return await coroutine

    def run() -> None:
        try:
            outcome.append(asyncio.run(told()))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            raised.append(error)
        finally:
            ended.set()

    threading.Thread(target=copy_context().run, args=(run,), name="toolmark", daemon=True).start()
    try:
        ended.wait()
    except BaseException:
        for loop, task in going:
            with suppress(RuntimeError):  # it has ended meanwhile
                loop.call_soon_threadsafe(task.cancel)
        ended.wait()
        raise
    if raised:
        raise raised[0]
    return outcome[0]
