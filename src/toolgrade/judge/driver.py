"""Drivers of judging flows: one awaits the judge, the other serves synchronous code.

A flow is a generator without I/O: it yields an `Ask`, receives the results, and returns a value. The synchronous driver
also works where an event loop is running, as in a notebook: it then uses a loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from toolgrade._internal.sync_bridge import run_sync
from toolgrade.errors import JudgeOutcome
from toolgrade.judge.judge import Judge, PromptResult
from toolgrade.judge.protocol import Prompt

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """Independent prompts for a judge, to be asked in parallel (`at_once`) or one after the other."""

    judge: Judge
    prompts: tuple[Prompt, ...]
    at_once: bool = True


Flow: TypeAlias = Generator[Ask, "tuple[PromptResult, ...]", T]
"""Yields prompts to ask, receives their results in the same order, returns a value."""


async def a_drive(flow: Flow[T]) -> T:
    """Return the value of a flow, awaiting the judge."""
    try:
        ask = next(flow)
        while True:
            ask = flow.send(await _results(ask))
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        flow.close()


def drive(flow: Flow[T]) -> T:
    """Return the value of a flow, blocking until the judge has answered; works inside a running event loop too."""
    return run_sync(a_drive(flow))


async def _results(ask: Ask) -> tuple[PromptResult, ...]:
    """Return the results of all prompts; after a fatal one, prompts that were not sent yet are aborted."""
    abort = asyncio.Event()

    async def result_of(prompt: Prompt) -> PromptResult:
        result = await ask.judge.ask(prompt, abort)
        if result.outcome is JudgeOutcome.FATAL:
            abort.set()
        return result

    if not (ask.at_once or ask.judge.is_batched):
        return tuple([await result_of(prompt) for prompt in ask.prompts])
    tasks = [asyncio.ensure_future(result_of(prompt)) for prompt in ask.prompts]
    try:
        return tuple(await asyncio.gather(*tasks))
    except BaseException:
        # `gather` leaves the other tasks running: end them before the error leaves the loop.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
