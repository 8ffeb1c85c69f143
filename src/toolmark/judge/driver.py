"""Who asks? Two drivers for one flow: one awaits, the other is for code that cannot.

A flow is a generator without input or output: it yields what to ask (`Ask`), is handed the answers, returns a value.

The synchronous driver may be called where an event loop runs already, as in a notebook: it then uses a loop in a thread
of its own, and leaves the running one alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from toolmark._internal.sync_bridge import run_sync
from toolmark.errors import JudgeOutcome
from toolmark.judge.outcome import Answered, Stop
from toolmark.judge.protocol import Prompt

T = TypeVar("T")


class Asked(Protocol):
    """Whoever answers prompts: a `Judge`."""

    async def ask(self, prompt: Prompt, stop: Stop, /) -> Answered:
        """Return the answer to one prompt."""
        ...


@dataclass(frozen=True, slots=True)
class Ask:
    """Prompts to be asked.

    Attributes:
        judge: Who is asked.
        prompts: What; none depends on the answer to another.
        at_once: Ask them at the same time, else one after the other.
    """

    judge: Asked
    prompts: tuple[Prompt, ...]
    at_once: bool = True


Flow: TypeAlias = Generator[Ask, "tuple[Answered, ...]", T]
"""Yields what to ask, is handed the answers in the same order, returns its result."""


async def a_drive(flow: Flow[T]) -> T:
    """Return what a flow returns, awaiting the answers."""
    try:
        ask = next(flow)
        while True:
            try:
                answers = await _answers(ask)
            except Exception as error:  # noqa: BLE001 - the flow decides what becomes of it
                ask = flow.throw(error)
            else:
                ask = flow.send(answers)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        flow.close()


def drive(flow: Flow[T]) -> T:
    """Return what a flow returns, waiting for the answers; works inside and outside of a running event loop."""
    try:
        ask = next(flow)
        while True:
            try:
                answers = run_sync(_answers(ask))
            except Exception as error:  # noqa: BLE001 - as above
                ask = flow.throw(error)
            else:
                ask = flow.send(answers)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        flow.close()


async def _answers(ask: Ask) -> tuple[Answered, ...]:
    """Return the answers; after one that is fatal, what was not asked yet is not asked any more."""
    stop = Stop()

    async def one(prompt: Prompt) -> Answered:
        answered = await ask.judge.ask(prompt, stop)
        if answered.outcome is JudgeOutcome.FATAL:
            stop.fatal = True
        return answered

    if not ask.at_once:
        return tuple([await one(prompt) for prompt in ask.prompts])
    tasks = [asyncio.ensure_future(one(prompt)) for prompt in ask.prompts]
    try:
        return tuple(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def in_thread(function: Callable[[], T]) -> T:
    """Return what a function returns that may take long, run in a thread of its own, with this context.

    A thread each, and not the loop's pool, which has few; and a daemon, so that one that hangs keeps nothing alive.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def settle(value: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value: T | None = None
        problem: BaseException | None = None
        try:
            value = context.run(function)
        except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
            problem = error
        if isinstance(problem, StopIteration):  # a future cannot carry it
            problem = RuntimeError(f"the judge raised {problem!r}")
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            loop.call_soon_threadsafe(settle, value, problem)

    threading.Thread(target=run, name="toolmark-judge-function", daemon=True).start()
    return await done
