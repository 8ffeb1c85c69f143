"""Branches of one program that ask models and call tools at the same time, with equal ids and equal tool names.

The tool keeps what it received and returned; every recorded call must agree with it.
"""

# ruff: noqa: ARG002 - steps need not use the events that start them

import asyncio
import contextlib
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from li_agents import agent, asks, llm
from li_versions import WORKFLOWS_2
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)

from toolgrade import ToolCall
from toolgrade.cases import Run
from toolgrade_llama_index import record

BRANCHES = 3


class Shop:
    """A tool whose results are all different, and a barrier at which branches wait until all models have answered."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []
        self.failures: set[str] = set()
        self.answered = 0
        self.all_answered = asyncio.Event()
        self.tool = FunctionTool.from_defaults(fn=self.look, async_fn=self.alook, name="look", description="Look.")

    def look(self, item: str) -> str:
        """Look at an item."""
        result = f"{item} #{len(self.log)}"
        self.log.append((item, result))
        if item in self.failures:
            self.failures.remove(item)
            raise ValueError(result)
        return result

    async def alook(self, item: str) -> str:
        """Look at an item."""
        return self.look(item)

    async def ask(self, number: int, *items: str) -> list[Any]:
        """Ask a model, which requests a look at `item <number>`, always under the same id."""
        model = llm(asks(*(("look", {"item": item}, "c1") for item in items or (f"item {number}",))))
        response = await model.achat_with_tools([self.tool], user_msg="look")
        self.answered += 1
        if self.answered == BRANCHES:
            self.all_answered.set()
        return list(model.get_tool_calls_from_response(response))

    async def act(self, selections: list[Any], suffix: str = "") -> None:
        """Run what a model requested, perhaps with edited arguments."""
        for selection in selections:
            item = selection.tool_kwargs["item"] + suffix
            try:
                await self.tool.acall(item=item)
            except ValueError:
                await self.tool.acall(item=item)

    async def branch(self, number: int, suffix: str = "") -> None:
        """Ask, wait until the others have asked, and act in the opposite order of asking."""
        selections = await self.ask(number)
        await self.all_answered.wait()
        await asyncio.sleep(0.01 * (BRANCHES - number))
        await self.act(selections, suffix)


def check(run: Run, shop: Shop, suffix: str = "", calls: list[ToolCall] | None = None) -> None:
    """Compare a run with what the tool received and returned."""
    calls = run.calls if calls is None else calls
    assert sorted((call.arguments["item"], str(call.output)) for call in calls) == sorted(shop.log)
    for call in calls:
        assert call.execution is not None
        assert (call.id, call.execution.status.value, call.execution.attempts) == ("c1", "ok", 1)
        assert call.execution.origin.value == "model"
        requested = call.execution.requested_parameters or call.arguments
        assert call.arguments["item"] == requested["item"] + suffix
    assert not run.warnings


def run_in_loop(program: Any) -> tuple[Run, Shop]:
    """Record one run of a program."""

    async def go() -> tuple[Run, Shop]:
        shop = Shop()
        with record() as rec:
            await program(shop, rec)
        assert not rec.warnings
        (run,) = rec.runs
        return run, shop

    return asyncio.run(go())


class Item(Event):
    """One item for one branch."""

    number: int


class Chosen(Event):
    """What a model requested."""

    number: int
    selections: list[Any]


class Looked(Event):
    """A branch has ended."""

    number: int


class Workers(Workflow):
    """Branches in a step with several workers."""

    def __init__(self, shop: Shop, suffix: str) -> None:
        super().__init__(timeout=20)
        self.shop = shop
        self.suffix = suffix

    @step
    async def divide(self, ctx: Context, ev: StartEvent) -> Item | None:
        """Start the branches."""
        for number in range(BRANCHES):
            ctx.send_event(Item(number=number))
        return None

    @step(num_workers=BRANCHES)
    async def look(self, ev: Item) -> Looked:
        """Ask and act."""
        await self.shop.branch(ev.number, self.suffix)
        return Looked(number=ev.number)

    @step
    async def join(self, ctx: Context, ev: Looked) -> StopEvent | None:
        """Wait for all."""
        return None if ctx.collect_events(ev, [Looked] * BRANCHES) is None else StopEvent(result="done")


class Relay(Workers):
    """Branches that ask in one step and act in another, which receives the request in an event."""

    @step(num_workers=BRANCHES)
    async def look(self, ev: Item) -> Chosen:
        """Ask."""
        return Chosen(number=ev.number, selections=await self.shop.ask(ev.number))

    @step(num_workers=BRANCHES)
    async def act(self, ev: Chosen) -> Looked:
        """Act."""
        await self.shop.all_answered.wait()
        await asyncio.sleep(0.01 * (BRANCHES - ev.number))
        await self.shop.act(ev.selections, self.suffix)
        return Looked(number=ev.number)


class Gathered(Workers):
    """Branches gathered in one step."""

    @step
    async def divide(self, ctx: Context, ev: StartEvent) -> Looked | None:
        """Run the branches."""
        await asyncio.gather(*(self.shop.branch(number, self.suffix) for number in range(BRANCHES)))
        for number in range(BRANCHES):
            ctx.send_event(Looked(number=number))
        return None

    look = None


@pytest.mark.parametrize("suffix", ["", " (new)"], ids=["as_requested", "edited"])
@pytest.mark.parametrize("kind", [Workers, Relay, Gathered])
def test_branches_of_a_workflow(kind: Any, suffix: str) -> None:
    """Each branch has the results of its own calls, also if the program edits their arguments."""

    async def program(shop: Shop, _: Any) -> None:
        await kind(shop, suffix).run(query="q")

    run, shop = run_in_loop(program)

    check(run, shop, suffix)


@pytest.mark.parametrize("suffix", ["", " (new)"], ids=["as_requested", "edited"])
def test_branches_of_a_loop(suffix: str) -> None:
    """The same in a program without a workflow."""

    async def program(shop: Shop, rec: Any) -> None:
        with rec.single_run("q"):
            await asyncio.gather(*(shop.branch(number, suffix) for number in range(BRANCHES)))

    run, shop = run_in_loop(program)

    check(run, shop, suffix)


@pytest.mark.parametrize("way", ["gather", "one_by_one"])
def test_models_first_and_tools_later(way: str) -> None:
    """Several models are asked before the first tool runs, and one task runs all tools."""

    async def program(shop: Shop, rec: Any) -> None:
        with rec.single_run("q"):
            if way == "gather":
                choices = await asyncio.gather(*(shop.ask(number) for number in range(BRANCHES)))
            else:
                choices = [await shop.ask(number) for number in range(BRANCHES)]
            for selections in choices:
                await shop.act(selections)

    run, shop = run_in_loop(program)

    check(run, shop)


def test_one_model_and_tools_in_tasks() -> None:
    """One message requests several calls, and each runs in a task of its own, next to another branch."""

    async def side(shop: Shop, name: str) -> None:
        selections = await shop.ask(0, f"{name} a", f"{name} b")
        await asyncio.sleep(0.02)
        await asyncio.gather(*(shop.act([selection]) for selection in reversed(selections)))

    async def program(shop: Shop, rec: Any) -> None:
        with rec.single_run("q"):
            await asyncio.gather(side(shop, "left"), side(shop, "right"))

    run, shop = run_in_loop(program)

    check(run, shop)


def test_branches_in_threads() -> None:
    """Branches in threads, each with a copy of the context."""

    def branch(shop: Shop, number: int, barrier: Any) -> None:
        model = llm(asks(("look", {"item": f"item {number}"}, "c1")))
        response = model.chat_with_tools([shop.tool], user_msg="look")
        barrier.wait(timeout=5)
        for selection in model.get_tool_calls_from_response(response):
            shop.tool.call(item=selection.tool_kwargs["item"] + "!")

    async def program(shop: Shop, rec: Any) -> None:
        barrier = threading.Barrier(BRANCHES)
        with rec.single_run("q"), ThreadPoolExecutor(BRANCHES) as pool:
            futures = [
                pool.submit(contextvars.copy_context().run, branch, shop, number, barrier) for number in range(BRANCHES)
            ]
            for future in futures:
                future.result()

    run, shop = run_in_loop(program)

    check(run, shop, "!")


def test_branches_inside_a_tool() -> None:
    """The calls of branches inside a tool are children of its call, each with its own result."""

    async def program(shop: Shop, _: Any) -> None:
        async def look_around(where: str) -> str:
            """Look at everything."""
            await asyncio.gather(*(shop.branch(number, "?") for number in range(BRANCHES)))
            return where

        await agent(asks(("look_around", {"where": "here"}, "c1")), "done", tools=[look_around]).run(user_msg="hi")

    run, shop = run_in_loop(program)

    (call,) = run.calls
    assert call.execution is not None
    check(run, shop, "?", call.execution.children)


def test_attempts_are_those_of_a_branch() -> None:
    """A tool that fails once in each branch is run again: two attempts of each call."""

    async def program(shop: Shop, _: Any) -> None:
        shop.failures = {f"item {number}" for number in range(BRANCHES)}
        await Gathered(shop, "").run(query="q")

    run, shop = run_in_loop(program)

    assert len(shop.log) == 2 * BRANCHES
    assert [call.execution.attempts for call in run.calls if call.execution] == [2] * BRANCHES
    assert {str(call.output) for call in run.calls} <= {result for _, result in shop.log}
    assert {call.arguments["item"] for call in run.calls} == {item for item, _ in shop.log}


def test_further_executions_are_made_by_code() -> None:
    """A tool that a branch runs again after a success is a call by code, not a call of another branch."""

    async def twice(shop: Shop, number: int) -> None:
        selections = await shop.ask(number)
        await shop.all_answered.wait()
        await shop.act(selections)
        await asyncio.sleep(0.02)
        await shop.act(selections)

    async def program(shop: Shop, rec: Any) -> None:
        with rec.single_run("q"):
            await asyncio.gather(*(twice(shop, number) for number in range(BRANCHES)))

    run, shop = run_in_loop(program)

    origins = sorted((call.arguments["item"], call.execution.origin.value) for call in run.calls if call.execution)
    assert origins == sorted((f"item {number}", origin) for number in range(BRANCHES) for origin in ("code", "model"))
    assert sorted((call.arguments["item"], str(call.output)) for call in run.calls) == sorted(shop.log)


class Asking(Relay):
    """Branches whose tools wait for a person."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop, "")

        async def look(ctx: Context, item: str) -> str:
            """Ask a person."""
            answer = await ctx.wait_for_event(
                HumanResponseEvent,
                waiter_event=InputRequiredEvent(prefix=item),
                waiter_id=item,
                requirements={"item": item},
            )
            shop.log.append((item, answer.response))
            return str(answer.response)

        shop.tool = FunctionTool.from_defaults(async_fn=look, name="look", description="Look.")

    @step(num_workers=BRANCHES)
    async def act(self, ctx: Context, ev: Chosen) -> Looked:
        """Act."""
        await self.shop.all_answered.wait()
        for selection in ev.selections:
            await self.shop.tool.acall(ctx=ctx, **selection.tool_kwargs)
        return Looked(number=ev.number)


@pytest.mark.skipif(not WORKFLOWS_2, reason="before workflows 2, a tool that waits is not suspended")
@pytest.mark.parametrize("answered", [0, 1, BRANCHES])
def test_branches_that_wait_for_a_person(answered: int) -> None:
    """Calls that wait are pending; those that were answered have their own answers, and two attempts."""

    async def program(shop: Shop, _: Any) -> None:
        handler = Asking(shop).run(query="q")
        waiting: list[str] = []
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                waiting.append(event.get("prefix"))
            if len(waiting) == BRANCHES and isinstance(event, InputRequiredEvent):
                for item in waiting[:answered]:
                    handler.ctx.send_event(HumanResponseEvent(response=f"yes to {item}", item=item))
                if answered < BRANCHES:
                    await asyncio.sleep(0.2)
                    await handler.cancel_run()
                    break
        with contextlib.nullcontext() if answered == BRANCHES else contextlib.suppress(Exception):
            await handler

    run, shop = run_in_loop(program)

    assert len(shop.log) == answered
    outcomes = [(call.execution.status.value, call.execution.attempts) for call in run.calls if call.execution]
    assert sorted(outcomes) == [("ok", 2)] * answered + [("pending", 1)] * (BRANCHES - answered)
    results = [(call.arguments["item"], call.output) for call in run.calls if call.output is not None]
    assert sorted(results) == sorted(shop.log)
    assert run.status.value == ("ok" if answered == BRANCHES else "interrupted")
