"""Where recorders listen: many at once, in threads, and in a server whose requests know nothing of its startup."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from li_agents import add, agent, asks, summaries
from llama_index.core.instrumentation import get_dispatcher

from toolgrade_llama_index import ToolCallRecorder, record, run_case
from toolgrade_llama_index._listening import RecorderListener

ADDED = asks(("add", {"a": 1, "b": 2}, "c1"))
ONE_CALL = [("add", {"a": 1, "b": 2}, "c1", 3)]


async def run_agent(question: str = "hi") -> str:
    """Run an agent that adds."""
    return str(await agent(ADDED, "3", tools=[add]).run(user_msg=question))


def handlers() -> tuple[list[Any], list[Any]]:
    """The handlers of LlamaIndex."""
    root = get_dispatcher()
    return list(root.span_handlers), list(root.event_handlers)


def test_threads_that_enter_and_leave() -> None:
    """Recorders that are entered and left by threads at the same time all keep listening, and leave nothing behind."""
    before = handlers()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    deaf: list[int] = []

    def work() -> None:
        for _ in range(500):
            with record():
                if not any("_SpanHandler" in type(handler).__name__ for handler in get_dispatcher().span_handlers):
                    deaf.append(1)

    try:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)

    assert not deaf
    assert handlers() == before


def test_one_pair_of_handlers() -> None:
    """Any number of recorders adds one pair of handlers, so that each span costs the same."""
    before = handlers()

    with contextlib.ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(record())
        during = handlers()

    assert [len(after) - len(earlier) for after, earlier in zip(during, before, strict=True)] == [1, 1]
    assert handlers() == before


def test_cost_of_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Concurrent `run_case` cost in proportion to their number: no recorder receives the spans of another one."""
    begin = RecorderListener.__init__
    received = 0

    def counting(self: RecorderListener, entered: Callable[..., None], *others: Any, **options: Any) -> None:
        def count(*span: Any) -> None:
            nonlocal received
            received += 1
            entered(*span)

        begin(self, count, *others, **options)

    async def spans_of_each(count: int) -> float:
        before = received
        cases = await asyncio.gather(*(run_case(agent(ADDED, "3", tools=[add]), f"{n}") for n in range(count)))
        assert all(summaries(case.tools_called or []) == ONE_CALL for case in cases)
        return (received - before) / count

    monkeypatch.setattr(RecorderListener, "__init__", counting)
    alone, many = asyncio.run(spans_of_each(1)), asyncio.run(spans_of_each(40))

    assert alone == many > 0


def test_one_recorder_in_several_tasks() -> None:
    """A recorder that several tasks enter, each inside of another one, leaves each task as it was."""

    async def one(shared: ToolCallRecorder, number: int) -> list[str]:
        with record() as own:
            with shared:
                await asyncio.sleep(0.01 * number)
                await run_agent("shared")
            await run_agent("own")
        return [run.input or "" for run in own.runs]

    async def go() -> tuple[ToolCallRecorder, list[list[str]]]:
        shared = record()
        return shared, await asyncio.gather(*(one(shared, number) for number in range(3)))

    shared, own = asyncio.run(go())

    assert [run.input for run in shared.runs] == ["shared"] * 3
    assert own == [["own"]] * 3
