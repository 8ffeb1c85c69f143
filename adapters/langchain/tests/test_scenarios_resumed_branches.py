"""Runs of several agents that go on: parallel branches and sub-agents that wait for a person with equal calls."""

# ruff: noqa: ARG002 - middleware need not use all that it receives

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from lc_agents import ScriptedModel, add, asks, called, make_agent, memory, scripted, slow, summaries, thread
from lc_versions import FEATURES, scenario

from toolgrade.cases import Run
from toolgrade_langchain import ToolCallRecorder

HI = {"messages": [("user", "hi")]}
ROUNDS = [asks(("pay", {"x": 1}, "c1")), asks(("pay", {"x": 1}, "c1")), "done"]


@tool
def pay(x: int) -> str:
    """Pay, when a person allows it."""
    return f"paid {x}: {interrupt(x)}"


def branches(agents: dict[str, Any], **options: Any) -> Any:
    """Return a graph of agents that run at the same time."""
    graph = StateGraph(MessagesState)
    for name, agent in agents.items():
        graph.add_node(name, agent)
        graph.add_edge(START, name)
    return graph.compile(**options)


def waiting(graph: Any, name: str = "T") -> dict[str, str]:
    """Return the ids of the interruptions of a thread by node."""
    return {task.name: task.interrupts[0].id for task in graph.get_state(thread(name)).tasks}


def outputs(run: Run) -> dict[str | None, list[object]]:
    """Return what the calls of each agent returned."""
    by_agent: dict[str | None, list[object]] = {}
    for call in run.calls:
        by_agent.setdefault(call.execution and call.execution.agent, []).append(call.output)
    return by_agent


@scenario("R1-False", "R1-True", needs="middleware")
def test_branch_that_asks_again_before_the_other_goes_on(variant: str) -> None:
    """Of two branches that wait with equal calls, in a tool or not, one asks again before the other pays."""
    from langchain.agents.middleware import AgentMiddleware

    question_is_out = asyncio.Event()

    class Waits(AgentMiddleware):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            if resumes:
                await question_is_out.wait()
            return await handler(request)

    class Asks(AgentMiddleware):
        async def aafter_model(self, state: Any, runtime: Any) -> None:
            if resumes:
                question_is_out.set()

    agents = {
        "first": make_agent(scripted(*ROUNDS), [pay], name="first", middleware=[Asks()]),
        "second": make_agent(scripted(*ROUNDS), [pay], name="second", middleware=[Waits()]),
    }
    is_nested = variant == "True"
    graph = branches(agents, checkpointer=None if is_nested else memory())
    if is_nested:

        @tool
        async def ask(q: str) -> str:
            """Ask two agents."""
            return str((await graph.ainvoke({"messages": [("user", q)]}))["messages"][-1].content)

        outer = make_agent(scripted(asks(("ask", {"q": "?"}, "c1")), "final"), [ask], checkpointer=memory())
    else:
        outer = graph
    recorder = ToolCallRecorder()
    resumes = False

    async def play() -> None:
        nonlocal resumes
        await outer.ainvoke(HI, thread("T", recorder))
        for _ in range(2):
            resumes = True
            state = await outer.aget_state(thread("T"), subgraphs=True)
            answers = {item.id: f"answer {item.id}" for item in state.interrupts}
            await outer.ainvoke(Command(resume=answers), thread("T", recorder))

    asyncio.run(play())

    (run,) = recorder.runs
    calls = run.calls[0].execution.children if is_nested else run.calls  # type: ignore[union-attr]
    paid: dict[Any, list[str]] = {}
    for call in calls:
        assert call.execution is not None
        assert call.execution.status.value == "ok", summaries(calls)
        paid.setdefault(call.execution.agent, []).append(str(call.output))
    assert {agent: len(set(texts)) for agent, texts in paid.items()} == {"first": 2, "second": 2}
    assert run.warnings == []


@scenario("R2", needs="middleware")
def test_branches_that_go_on_under_another_recorder() -> None:
    """Branches that wait with equal ids go on in another process: each has its own call."""
    graph = branches(
        {name: make_agent(scripted(*ROUNDS[1:]), [pay], name=name) for name in ("a", "b", "c")}, checkpointer=memory()
    )
    graph.invoke(HI, thread("T", ToolCallRecorder()))
    recorder = ToolCallRecorder()
    graph.invoke(Command(resume={key: node for node, key in waiting(graph).items()}), thread("T", recorder))

    (run,) = recorder.runs
    assert outputs(run) == {name: [f"paid 1: {name}"] for name in ("a", "b", "c")}


@scenario("R3", needs="middleware")
def test_edited_to_another_tool_inside_a_tool() -> None:
    """A person replaces the call of a sub-agent: it has the name and the arguments that ran, with a warning."""
    from langchain.agents.middleware import HumanInTheLoopMiddleware

    middleware = [HumanInTheLoopMiddleware(interrupt_on={"slow": True})]
    inner = make_agent(scripted(asks(("slow", {"x": 1}, "c1")), "inner"), [slow, add], middleware=middleware)

    @tool
    def ask(q: str) -> str:
        """Ask an agent."""
        return str(inner.invoke({"messages": [("user", q)]})["messages"][-1].content)

    recorder = ToolCallRecorder()
    agent = make_agent(scripted(asks(("ask", {"q": "?"}, "c1")), "final"), [ask], checkpointer=memory())
    agent.invoke(HI, thread("T", recorder))
    edit = {"type": "edit", "edited_action": {"name": "add", "args": {"a": 1}}}
    agent.invoke(Command(resume={"decisions": [edit]}), thread("T", recorder))

    (run,) = recorder.runs
    (child,) = summaries(run.calls)[0]["children"]
    child.pop("model_output", None)
    assert child == called("add", {"a": 1}, "c1", "3", requested={"x": 1})
    assert run.warnings == ["the model requested 'slow' (id 'c1'), and 'add' was executed in its place"]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("place", ["top", "tool"])
def test_equal_messages_in_the_form_of_the_provider(place: str, *, asynchronous: bool) -> None:
    """A node asks for the same call in each round, without ids of messages, and a person answers in between."""
    if place == "tool" and not FEATURES["middleware"].is_due():
        return
    message = {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": json.dumps({"x": 1})}}
        ],
    }
    steps = iter([message, message, message, {"role": "assistant", "content": "end"}])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda _: {"messages": [next(steps)]})
    graph.add_node("tools", ToolNode([pay]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    agent = graph.compile(checkpointer=memory() if place == "top" else None)
    if place == "tool":
        inner = agent

        @tool
        def ask(q: str) -> str:
            """Ask an agent."""
            return str(inner.invoke({"messages": [("user", q)]})["messages"][-1].content)

        agent = make_agent(
            ScriptedModel(script=[asks(("ask", {"q": "?"}, "c0")), "final"]), [ask], checkpointer=memory()
        )
    recorder = ToolCallRecorder()
    for inputs in (HI, *(Command(resume=f"r{number}") for number in range(3))):
        if asynchronous:
            asyncio.run(agent.ainvoke(inputs, thread("T", recorder)))
        else:
            agent.invoke(inputs, thread("T", recorder))

    (run,) = recorder.runs
    calls = run.calls if place == "top" else run.calls[0].execution.children  # type: ignore[union-attr]
    assert [(call.id, call.output) for call in calls] == [("c1", f"paid 1: r{number}") for number in range(3)]
    assert run.warnings == []
