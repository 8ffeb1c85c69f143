"""Bridges between synchronous and asynchronous code, with Ctrl-C and in threads; a value for each event loop."""

from __future__ import annotations

import asyncio
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from toolgrade._internal.locks import ForkSafeLock
from toolgrade.errors import ConfigurationError

T = TypeVar("T")

GRACE: Final = 3.0
"""Seconds in which a cancelled task may clean up. It is not waited for any longer, since it may never end."""


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result.

    If an event loop runs in this thread, as in a notebook, the coroutine gets its own thread and loop, in a copy
    of the caller's context: code inside a running loop cannot wait for that loop.
    """
    return _run_in_thread(coroutine) if _is_loop_running() else _run_in_loop(coroutine)


def run_interruptible(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `run_sync` does, but Ctrl-C takes effect only where the coroutine awaits.

    The first Ctrl-C cancels the coroutine, and raises `KeyboardInterrupt` when it has ended; a second one raises at
    once. Outside of the main thread, inside a running event loop, or if the program handles Ctrl-C itself, this is
    `run_sync`.

    `asyncio.run` is not enough: it turns Ctrl-C into a cancellation only from Python 3.11 on, whereas in 3.10
    `KeyboardInterrupt` is raised wherever the code is. And in all versions it then waits for the executor's threads.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    program_has_handler = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    if not in_main_thread or program_has_handler or _is_loop_running():
        return run_sync(coroutine)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)  # as asyncio.run does, for code that calls asyncio.get_event_loop
    task = loop.create_task(coroutine)
    interrupt_count = 0

    def interrupt(_number: int, _frame: object) -> None:
        nonlocal interrupt_count
        interrupt_count += 1
        if interrupt_count > 1 or task.done():
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(task.cancel)

    previous_handler = signal.signal(signal.SIGINT, interrupt)
    try:
        try:
            return _result(loop, task)
        except asyncio.CancelledError:
            if interrupt_count:
                raise KeyboardInterrupt from None
            raise
        finally:
            _close(loop, interrupt_count)
    finally:
        signal.signal(signal.SIGINT, previous_handler)


def _run_in_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does, but do not wait for what never ends."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)  # for code that calls asyncio.get_event_loop
    try:
        return _result(loop, loop.create_task(coroutine))
    finally:
        _close(loop)


def _result(loop: asyncio.AbstractEventLoop, task: asyncio.Task[T]) -> T:
    """Run a loop until a task is done; `sys.exit` in another task, such as a tool's, does not stop the loop."""
    while True:
        try:
            return loop.run_until_complete(task)
        except SystemExit:  # a loop raises it at once, and then in whichever task awaits that task
            if task.done():
                raise


def _close(loop: asyncio.AbstractEventLoop, interrupt_count: int = 0) -> None:
    """Close a loop; its tasks have a moment to end, or none after a second Ctrl-C, and its threads are not awaited."""
    try:
        if interrupt_count < 2:  # noqa: PLR2004 - a second Ctrl-C stops all waiting
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks, timeout=GRACE))
            loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.set_exception_handler(lambda _loop, _context: None)  # abandoned tasks are not worth a log line
        loop.close()


def _is_loop_running() -> bool:
    return is_in_asyncio() or is_in_trio()


def is_in_asyncio() -> bool:
    """Return whether this code runs inside an event loop of asyncio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_in_trio() -> bool:
    """Return whether this code runs inside `trio.run`."""
    trio = sys.modules.get("trio")
    try:
        return trio is not None and trio.lowlevel.current_task() is not None
    except (RuntimeError, AttributeError):  # outside of it, or another package of this name
        return False


def require_asyncio(name: str) -> None:
    """Raise `ConfigurationError` inside `trio.run`."""
    if is_in_trio():
        remedy = "call evaluate, measure or assert_test, or run it under asyncio, which is a backend of anyio"
        raise ConfigurationError(f"{name} must be awaited in an asyncio event loop, got trio; {remedy}")


def is_async(function: Callable[..., object]) -> bool:
    """Return whether calling this function, method, `partial` or object gives an awaitable or an async generator."""
    while isinstance(function, partial):
        function = function.func
    called: object = function if inspect.isroutine(function) else type(function).__call__
    return inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)


async def call(function: Callable[..., object], *arguments: object) -> tuple[object, Exception | SystemExit | None]:
    """Call a function, in a thread if it is not async, and await what it returns; return the result or the exception.

    An exception is returned because a coroutine cannot raise a `StopIteration`.
    """
    try:
        if is_async(function):
            result, error = function(*arguments), None
        else:
            result, error = await call_in_thread(function, *arguments)
        return (await result if inspect.isawaitable(result) else result), error
    except (Exception, SystemExit) as raised:  # noqa: BLE001 - see above
        return None, raised


async def call_in_thread(
    function: Callable[..., object], *arguments: object
) -> tuple[object, Exception | SystemExit | None]:
    """Call a function in a new thread, in a copy of this context; return its result or the exception.

    Unlike `asyncio.to_thread`, any number run at the same time, and the program ends without those that were cancelled.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[object, Exception | SystemExit | None]] = loop.create_future()

    def settle(result: object, error: BaseException | None) -> None:
        if future.done():  # cancelled
            return
        if error is None or isinstance(error, (Exception, SystemExit)):
            future.set_result((result, error))
        else:
            future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = function(*arguments)
        except BaseException as raised:  # noqa: BLE001 - raised again where it is awaited
            error = raised
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=copy_context().run, args=(run,), name="toolgrade", daemon=True).start()
    return await future


def _run_in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in its own thread and loop; Ctrl-C cancels it, and a second one abandons it."""
    # After an interrupt, `Thread.join` reports a thread as ended that still runs; a future does not.
    future: Future[T] = Future()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def run_task() -> T:
        task = asyncio.current_task()
        if task is not None:
            running.append((asyncio.get_running_loop(), task))
        return await coroutine

    def run_thread() -> None:
        try:
            future.set_result(_run_in_loop(run_task()))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            future.set_exception(error)

    threading.Thread(target=copy_context().run, args=(run_thread,), name="toolgrade", daemon=True).start()
    try:
        wait([future])
    except BaseException:
        for loop, task in running:
            with suppress(RuntimeError):  # the loop is closed already
                loop.call_soon_threadsafe(task.cancel)
        # Wait until the coroutine has cleaned up; a second Ctrl-C ends this wait, and leaves the thread behind.
        wait([future])
        raise
    return future.result()


class PerLoop(Generic[T]):
    """Creates one value for each event loop, and drops it with the loop."""

    def __init__(self, create: Callable[[], T]) -> None:
        """Store how to create a value."""
        self._create = create
        self._lock = ForkSafeLock()
        self._values = WeakKeyDictionary[asyncio.AbstractEventLoop, T]()

    def get(self) -> T:
        """Return the value of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._values:
                for closed in [other for other in self._values if other.is_closed()]:  # a value may refer to its loop
                    del self._values[closed]
                self._values[loop] = self._create()
            return self._values[loop]

    def pop(self) -> T | None:
        """Remove the value of the running loop, and return it."""
        with self._lock:
            return self._values.pop(asyncio.get_running_loop(), None)
