"""Runs that wait for a person, and are left, resumed, cancelled, or run out of time."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from li_agents import add, agent, asks, llm, outcome, search, summaries
from li_versions import WORKFLOWS_2
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ToolCall, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    JsonPickleSerializer,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)

from toolgrade.capture import joined
from toolgrade.cases import Run
from toolgrade.testing import HandOff
from toolgrade_llama_index import ToolCallRecorder, record

pytestmark = pytest.mark.skipif(not WORKFLOWS_2, reason="before workflows 2, a tool that waits is not suspended")


async def danger(ctx: Context, target: str) -> str:
    """Ask a person first."""
    answer = await ctx.wait_for_event(
        HumanResponseEvent, waiter_id=f"ask {target}", waiter_event=InputRequiredEvent(prefix=target)
    )
    return f"{target}: {answer.response}"


async def leave(workflow: Any, question: str = "hi", **options: Any) -> Any:
    """Run until a person is asked; return the saved state."""
    handler = workflow.run(user_msg=question, **options)
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            break
    await asyncio.sleep(0.1)
    state = handler.ctx.to_dict()
    await handler.cancel_run()
    await settle(handler)
    return state


async def resume(workflow: Any, state: Any, response: str, **options: Any) -> None:
    """Continue a saved state, and answer."""
    handler = workflow.run(ctx=Context.from_dict(workflow, state), **options)
    await asyncio.sleep(0.1)
    handler.ctx.send_event(HumanResponseEvent(response=response))
    await settle(handler)


async def settle(handler: Any) -> BaseException | None:
    """Wait for the end of a run; return its error."""
    try:
        await asyncio.wait_for(handler, 5)
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever ends the agent is returned
        return error
    return None


def waiting_agent(*, calls: Sequence[tuple[str, str]]) -> Any:
    """An agent that asks about each target in another run, always with the same question."""
    steps = [asks(("danger", {"target": target}, call_id)) for target, call_id in calls]
    return agent(*steps, *(["done"] * len(calls)), tools=[danger, add])


def test_states_that_do_not_differ() -> None:
    """Where the waiting calls are equal, the choice is a warning of each run that may be meant."""

    async def go() -> ToolCallRecorder:
        with record() as rec:
            workflow = waiting_agent(calls=[("db", "c1"), ("db", "c1")])
            states = [await leave(workflow) for _ in range(2)]
            await resume(workflow, states[0], "yes")
        return rec

    rec = asyncio.run(go())

    assert [len(run.warnings) for run in rec.runs] == [1, 1]
    assert all("fits 2 waiting runs" in run.warnings[0] for run in rec.runs)


def test_state_of_an_unrecorded_run() -> None:
    """A state that no recorded run waits for is a run of its own, also next to one that waits with other calls."""

    async def go() -> ToolCallRecorder:
        workflow = waiting_agent(calls=[("db", "c1"), ("web", "c1")])
        state = await leave(workflow)
        with record() as rec:
            await leave(workflow)
            await resume(workflow, state, "yes")
        return rec

    rec = asyncio.run(go())

    first, second = rec.runs
    assert summaries(first.tools_called) == [("danger", {"target": "web"}, "c1", "pending")]
    assert summaries(second.tools_called) == [("danger", {"target": "db"}, "c1", "db: yes")]
    assert "continues an earlier one" in second.warnings[0]


async def confirm(ctx: Context, target: str) -> str:
    """Ask a person about this target only."""
    answer = await ctx.wait_for_event(
        HumanResponseEvent,
        waiter_id=target,
        waiter_event=InputRequiredEvent(prefix=target),
        requirements={"target": target},
    )
    return f"{target}: {answer.response}"


TWO = asks(("confirm", {"target": "web"}, "c2"), ("confirm", {"target": "db"}, "c1"))


def alone(*script: Any) -> Any:
    """One agent."""
    return agent(*script, tools=[confirm, search], name="solo")


def handed_over(*script: Any) -> Any:
    """Two agents, of which the second asks."""
    first = agent([HandOff("second", "h1")], tools=[search], name="first")
    return AgentWorkflow(agents=[first, agent(*script, tools=[confirm, search], name="second")], root_agent="first")


async def go_on(build: Any, state: Any, *targets: str) -> Run:
    """Load a state in a new agent and a new recorder, and answer these questions; leave it if others are open."""
    with record() as rec:
        workflow = build(asks(("search", {"q": "x"}, "c3")), "done")
        handler = workflow.run(ctx=Context.from_dict(workflow, state, serializer=JsonPickleSerializer()))
        await asyncio.sleep(0.1)
        for target in targets:
            handler.ctx.send_event(HumanResponseEvent(response="yes", target=target))
        if len(targets) < 2:
            await asyncio.sleep(0.1)
            await handler.cancel_run()
        await settle(handler)
    return rec.last_run


@pytest.mark.parametrize(("build", "name"), [(alone, "solo"), (handed_over, "second")])
def test_a_run_that_goes_on_elsewhere(build: Any, name: str) -> None:
    """Each run from a saved state has its question, conversation and agent, and the calls of one message as a step."""

    async def go() -> list[Run]:
        memory = ChatMemoryBuffer.from_defaults(token_limit=10_000, chat_store_key="support-7")
        history = [ChatMessage(content="before"), ChatMessage(role=MessageRole.ASSISTANT, content="yes?")]
        with record() as rec:
            handler = build(TWO).run(user_msg="delete it", memory=memory, chat_history=history)
            questions = (event async for event in handler.stream_events() if isinstance(event, InputRequiredEvent))
            for _ in range(2):
                await anext(questions)
            await asyncio.sleep(0.1)
            state = handler.ctx.to_dict(serializer=JsonPickleSerializer())
            await handler.cancel_run()
            await settle(handler)
        ends = [await go_on(build, state, *targets) for targets in (("db", "web"), ("web", "db"), ("db",))]
        return [rec.last_run, *ends]

    first, *whole, partial = asyncio.run(go())

    for run in whole:
        assert (run.input, run.conversation_id, run.actual_output) == ("delete it", "support-7", "done")
        assert [(call.id, outcome(call), steps(call)) for call in run.calls] == [
            ("c2", "web: yes", (name, 0)),
            ("c1", "db: yes", (name, 0)),
            ("c3", "found x", (name, 1)),
        ]
    assert partial.status.value == "interrupted"
    assert [(call.id, outcome(call)) for call in partial.calls] == [("c2", "pending"), ("c1", "db: yes")]
    both = joined(first, whole[0])
    assert both is not None
    assert [call.id for call in both.tools_called] == ["c2", "c1", "c3"]


def steps(call: Any) -> tuple[str | None, int | None]:
    """The agent and the step of a call."""
    return call.execution.agent, call.execution.step


def asks_another() -> Any:
    """An agent with an agent in a tool, which asks a person."""
    inner = agent(asks(("danger", {"target": "db"}, "i1")), "inner done", tools=[danger], name="inner")

    async def ask_inner(ctx: Context, question: str) -> str:
        """Ask the other agent, and pass on its question."""
        handler = inner.run(user_msg=question)
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                ctx.write_event_to_stream(event)
        return str(await handler)

    return agent(asks(("ask_inner", {"question": "q"}, "o1")), "done", tools=[ask_inner], timeout=1)


@pytest.mark.parametrize("way", ["cancelled", "time"])
def test_an_agent_in_a_tool_that_waits(way: str) -> None:
    """The tool around an agent that waits does not wait itself, so a run that ends meanwhile was stopped."""

    async def go() -> ToolCallRecorder:
        with record() as rec:
            handler = asks_another().run(user_msg="hi")
            if way == "cancelled":
                await asyncio.sleep(0.3)
                await handler.cancel_run()
            await settle(handler)
            await asyncio.sleep(0.2)
        return rec

    run = asyncio.run(go()).runs[0]

    assert run.status.value == "stopped"
    assert run.error
    assert summaries(run.tools_called) == [("ask_inner", {"question": "q"}, "o1", "cancelled")]


def test_time_runs_out_while_a_call_waits() -> None:
    """A run that reached its time limit while it waited was stopped, and does not wait any more."""

    async def go() -> ToolCallRecorder:
        with record() as rec:
            workflow = agent(asks(("danger", {"target": "db"}, "c1")), "done", tools=[danger], timeout=0.4)
            await settle(workflow.run(user_msg="hi"))
        return rec

    run = asyncio.run(go()).last_run

    assert run.status.value == "stopped"
    assert "timed out" in (run.error or "")
    assert summaries(run.tools_called) == [("danger", {"target": "db"}, "c1", "pending")]


class Chosen(Event):
    """What a model requested."""

    calls: list[Any]


class Act(Workflow):
    """Asks a model in one step; in the next, runs the calls one after the other, then a tool by itself."""

    tools = {function.__name__: FunctionTool.from_defaults(function) for function in (add, search, danger)}  # noqa: RUF012

    @step
    async def ask(self, ev: StartEvent) -> Chosen:
        """Ask."""
        model = llm(asks(("add", {"a": 1, "b": 2}, "c1"), ("danger", {"target": "db"}, "c1")))
        response = await model.achat_with_tools(list(self.tools.values()), user_msg=ev.get("user_msg"))
        calls = model.get_tool_calls_from_response(response)
        return Chosen(calls=[[call.tool_name, call.tool_kwargs] for call in calls])

    @step
    async def act(self, ctx: Context, ev: Chosen) -> StopEvent:
        """Act."""
        await self.tools["search"].acall(q="x")
        for name, arguments in ev.calls:
            more = {"ctx": ctx} if name == "danger" else {}
            await self.tools[name].acall(**arguments, **more)
        await self.tools["danger"].acall(target="web", ctx=ctx)
        return StopEvent(result="done")


@pytest.mark.parametrize("way", ["same_handler", "saved_state"])
def test_a_step_that_begins_again(way: str) -> None:
    """A step that waits runs its earlier calls again; each is one call with several attempts, by code or not."""

    async def go() -> ToolCallRecorder:
        with record() as rec:
            workflow = Act(timeout=10)
            if way == "saved_state":
                state = await leave(workflow)
                handler = workflow.run(ctx=Context.from_dict(workflow, state))
                await asyncio.sleep(0.1)
                handler.ctx.send_event(HumanResponseEvent(response="yes"))
            else:
                handler = workflow.run(user_msg="hi")
            async for event in handler.stream_events():
                if isinstance(event, InputRequiredEvent):
                    handler.ctx.send_event(HumanResponseEvent(response="yes"))
            assert await settle(handler) is None
        return rec

    (run,) = asyncio.run(go()).runs

    assert summaries(run.tools_called) == [
        ("add", {"a": 1, "b": 2}, "c1", 3),
        ("danger", {"target": "db"}, "c1", "db: yes"),
        ("search", {"q": "x"}, None, "found x"),
        ("danger", {"target": "web"}, None, "web: yes"),
    ]
    executions = [call.execution for call in run.calls if call.execution]
    assert [execution.origin.value for execution in executions] == ["model", "model", "code", "code"]
    assert executions[0].attempts > 1
    assert executions[0].attempts == executions[2].attempts
    assert run.status.value == "ok"


class Approving(FunctionAgent):
    """Asks a person about some calls before their tools run."""

    @step
    async def call_tool(self, ctx: Context, ev: ToolCall) -> ToolCallResult:
        """Ask first."""
        if ev.tool_name == "search":
            await ctx.wait_for_event(
                HumanResponseEvent, waiter_id=ev.tool_id, waiter_event=InputRequiredEvent(prefix=ev.tool_name)
            )
        return await super().call_tool(ctx, ev)


@pytest.mark.parametrize("way", ["same_handler", "left", "saved_state"])
def test_a_step_that_waits_before_its_tool(way: str) -> None:
    """A call whose tool has not begun is pending too, and a resumed state continues its run."""
    model = llm(asks(("add", {"a": 1, "b": 2}, "c0")), asks(("search", {"q": "x"}, "c1")), "done")
    workflow = Approving(name="A", description="a", tools=[add, search], llm=model)

    async def go() -> ToolCallRecorder:
        with record() as rec:
            handler = workflow.run(user_msg="hi")
            async for event in handler.stream_events():
                if isinstance(event, InputRequiredEvent):
                    break
            if way != "same_handler":
                state = handler.ctx.to_dict(serializer=JsonPickleSerializer())
                await handler.cancel_run()
                await settle(handler)
                assert rec.last_run.status.value == "interrupted"
                assert summaries(rec.last_run.calls)[1] == ("search", {"q": "x"}, "c1", "pending")
            if way == "saved_state":
                handler = workflow.run(ctx=Context.from_dict(workflow, state, serializer=JsonPickleSerializer()))
            if way != "left":
                handler.ctx.send_event(HumanResponseEvent(response="yes"))
                assert await settle(handler) is None
        return rec

    (run,) = asyncio.run(go()).runs

    result = "pending" if way == "left" else "found x"
    assert summaries(run.calls) == [("add", {"a": 1, "b": 2}, "c0", 3), ("search", {"q": "x"}, "c1", result)]
    assert (run.status.value, run.warnings) == ("interrupted" if way == "left" else "ok", [])
