"""Scenarios S18, S39, S40, S42-S44, S46, S51, S52: agents in agents, structured output, loops by hand, hosted tools."""

# ruff: noqa: ARG001, ARG002, ARG005 - tools, models and sinks need not use all that they are given

import asyncio
import sys
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from lc_agents import (
    add,
    asks,
    called,
    make_agent,
    memory,
    scripted,
    slow,
    summaries,
    summary,
    thread,
)
from lc_versions import FEATURES, scenario
from pydantic import BaseModel

from toolgrade_langchain import ToolCallRecorder, run_from_messages

HI = {"messages": [("user", "hi")]}


class Ans(BaseModel):
    """A structured answer."""

    value: int


def recorded(agent: Any, inputs: Any = HI) -> ToolCallRecorder:
    """The recorder after one run."""
    recorder = ToolCallRecorder()
    agent.invoke(inputs, {"callbacks": [recorder]})
    assert not recorder.warnings
    assert not recorder.run.warnings
    return recorder


@scenario("S18")
def test_tool_that_calls_a_tool() -> None:
    """A tool that a tool calls is its child, by code, with the value it returned."""

    @tool
    def outer(x: int) -> str:
        """Call another tool."""
        return str(add.invoke({"a": x}))

    recorder = recorded(make_agent(scripted(asks(("outer", {"x": 3}, "c1")), "final"), [outer]))

    child = called("add", {"a": 3}, None, 5, origin="code")
    assert summaries(recorder.run.calls) == [called("outer", {"x": 3}, "c1", "5", children=[child])]


@scenario("S40")
def test_hosted_tool() -> None:
    """A tool that the provider ran is a hosted call with its result; the texts before and after it are the answer."""
    results = [{"type": "web_search_result", "url": "https://example.org", "title": "Cats"}]
    content = [
        {"type": "text", "text": "Searching "},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "cats"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": results},
        {"type": "text", "text": "Cats."},
    ]
    message = AIMessage(content=content, response_metadata={"model_provider": "anthropic"})

    run = recorded(make_agent(scripted(message), [add])).run

    assert summaries(run.calls) == [called("web_search", {"query": "cats"}, "s1", results, type="hosted")]
    assert run.actual_output == "Searching Cats."


def loop(execute: Any) -> Any:
    """An agent written by hand: one model call, one tool, one more model call."""
    model = scripted(asks(("add", {"a": 1}, "c1")), "three").bind_tools([add])

    def body(question: str) -> str:
        messages: list[Any] = [HumanMessage(question)]
        answer = model.invoke(messages)
        (call,) = answer.tool_calls
        messages += [answer, ToolMessage(str(execute(call["args"])), tool_call_id=call["id"])]
        return model.invoke(messages).content

    return RunnableLambda(body)


@scenario("S42")
def test_loop_by_hand() -> None:
    """In a hand-written loop, a tool called with mere arguments answers the model's call."""
    run = recorded(loop(add.invoke), "q").run

    assert summaries(run.calls) == [called("add", {"a": 1}, "c1", 3, model_output="3")]
    assert (run.input, run.actual_output) == ("q", "three")


@scenario("S43")
def test_loop_by_hand_with_a_function() -> None:
    """A function called outside the framework was not executed; its output is what the model received."""
    run = recorded(loop(lambda args: add.func(**args)), "q").run

    assert summaries(run.calls) == [called("add", {"a": 1}, "c1", "3", executed=False)]


@scenario("S44")
def test_recorder_on_the_model_only() -> None:
    """A recorder on the model alone sees each request as a run, and says that it cannot see more."""
    recorder = ToolCallRecorder()
    model = scripted(asks(("add", {"a": 1}, "c1")), "three").bind_tools([add]).with_config(callbacks=[recorder])
    answer = model.invoke([HumanMessage("q")])
    model.invoke([HumanMessage("q"), answer, ToolMessage("3", tool_call_id="c1")])

    first, second = recorder.runs

    assert summaries(first.calls) == [called("add", {"a": 1}, "c1", status="not_executed", executed=False)]
    assert "not to the agent" in first.warnings[0]
    assert (second.calls, second.actual_output) == ([], "three")


@scenario("S46")
def test_model_inside_a_tool() -> None:
    """Calls that a helper model inside a tool dreams of are not the agent's."""
    helper = scripted(asks(("phantom", {"y": 1}, "hx"), text="summary"))

    @tool
    def summarize(x: str) -> str:
        """Summarise."""
        return str(helper.invoke([HumanMessage(x)]).content)

    run = recorded(make_agent(scripted(asks(("summarize", {"x": "long"}, "c1")), "final"), [summarize])).run

    assert [call.name for call in run.calls] == ["summarize"]
    (child,) = run.calls[0].execution.children
    assert summary(child) == called("phantom", {"y": 1}, "hx", status="not_executed", executed=False)


@scenario("S51")
def test_opaque_root() -> None:
    """A remote agent exposes only input and output; the messages after the last question are the run."""
    call = {"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
    old = {"name": "add", "args": {"a": 7}, "id": "c0", "type": "tool_call"}
    messages = [
        {"type": "human", "content": "earlier"},
        {"type": "ai", "content": "", "tool_calls": [old]},
        {"type": "tool", "content": "9", "tool_call_id": "c0"},
        {"type": "ai", "content": "nine"},
        {"type": "human", "content": "hi"},
        {"type": "ai", "content": "", "tool_calls": [call]},
        {"type": "tool", "content": "3", "tool_call_id": "c1", "name": "add"},
        {"type": "ai", "content": "three"},
    ]

    run = recorded(RunnableLambda(lambda _: {"messages": messages})).run

    assert summaries(run.calls) == [called("add", {"a": 1}, "c1", "3", executed=False)]
    assert (run.input, run.actual_output) == ("hi", "three")


@scenario("S52")
def test_cached_node() -> None:
    """A node answered from the graph's cache emits no event; the output is what the model received."""
    from langgraph.cache.memory import InMemoryCache
    from langgraph.graph import END
    from langgraph.prebuilt import ToolNode
    from langgraph.types import CachePolicy

    model = scripted(asks(("add", {"a": 1}, "c1")), "three").bind_tools([add])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([add]), cache_policy=CachePolicy(key_func=lambda state: b"same"))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    agent = graph.compile(cache=InMemoryCache())
    recorder = ToolCallRecorder()

    for _ in range(2):
        agent.invoke(HI, {"callbacks": [recorder]})

    first, second = recorder.runs
    assert summaries(first.calls) == [called("add", {"a": 1}, "c1", "3")]
    assert summaries(second.calls) == [called("add", {"a": 1}, "c1", "3", executed=False)]


@scenario("N7", needs="middleware")
def test_return_to_a_supervisor() -> None:
    """The messages that `langgraph-supervisor` makes up when an agent returns control are not a call."""

    def back(state: MessagesState) -> dict[str, Any]:
        marked = {"__is_handoff_back": True}
        call = {"name": "transfer_back_to_supervisor", "args": {}, "id": "b1"}
        done = ToolMessage("done", name=call["name"], tool_call_id="b1", response_metadata=marked)
        return {"messages": [AIMessage("Back", tool_calls=[call], name="alice", response_metadata=marked), done]}

    graph = StateGraph(MessagesState)
    graph.add_node("alice", make_agent(scripted(asks(("add", {"a": 1}, "c1")), "alice done"), [add], name="alice"))
    graph.add_node("back", back)
    graph.add_edge(START, "alice")
    graph.add_edge("alice", "back")

    recorder = recorded(graph.compile())

    assert summaries(recorder.run.calls) == [called("add", {"a": 1}, "c1", "3")]
    state = {"messages": [HumanMessage("hi"), *back({"messages": []})["messages"]]}
    assert run_from_messages(state["messages"]).calls == []


# Agents that middleware runs

HOOKS = ["before_agent", "before_model", "after_model", "after_agent"]
ADDITION = called("add", {"a": 1}, "c1", "3")
CHECK = [called("slow", {"x": 2}, "c1", "slow 2")]
"""What a guard calls, with the id of the agent's own call."""


def guard(*, tools: Any = (slow,), call: Any = ("slow", {"x": 2}, "c1")) -> Any:
    """An agent that checks what another one does."""
    return make_agent(scripted(asks(call), "fine"), list(tools))


def guarded(place: str, checks: Any, *, is_async: bool = False) -> list[Any]:
    """Middleware that runs a guard in a hook, or before, after or on both sides of a model or a tool."""
    from langchain.agents.middleware import AgentMiddleware

    where, _, when = place.partition(" ")

    def hook(_self: Any, state: Any, runtime: Any) -> None:
        checks.invoke(HI)

    def wrap(_self: Any, request: Any, handler: Any) -> Any:
        result = None if when == "before" else handler(request)
        checks.invoke(HI)
        return result if when == "after" else handler(request)

    async def a_hook(_self: Any, state: Any, runtime: Any) -> None:
        await checks.ainvoke(HI)

    async def a_wrap(_self: Any, request: Any, handler: Any) -> Any:
        result = None if when == "before" else await handler(request)
        await checks.ainvoke(HI)
        return result if when == "after" else await handler(request)

    methods = (a_hook, a_wrap) if is_async else (hook, wrap)
    name = f"a{where}" if is_async else where
    return [type("Guarded", (AgentMiddleware,), {name: methods[where.startswith("wrap")]})()]


WRAPPED = [f"wrap_{what} {when}" for what in ("model_call", "tool_call") for when in ("before", "after")]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("place", [*HOOKS, *WRAPPED, "wrap_tool_call around"])
def test_agent_of_middleware(place: str, *, is_async: bool) -> None:
    """What an agent calls that middleware runs is not called by the agent around, whatever the ids: it is a run."""
    feature = FEATURES["middleware" if place in HOOKS else "marked_agents"]
    if not feature.is_due():
        pytest.skip(feature.why)
    if is_async and sys.version_info < (3, 11):
        pytest.skip("what asynchronous code begins has no callbacks before Python 3.11")
    middleware = guarded(place, guard(), is_async=is_async)
    agent = make_agent(scripted(asks(("add", {"a": 1}, "c1")), "final"), [add], middleware=middleware)

    recorder = ToolCallRecorder()
    config = {"callbacks": [recorder]}
    asyncio.run(agent.ainvoke(HI, config)) if is_async else agent.invoke(HI, config)

    attempts = {"attempts": 2} if place.endswith("around") else {}
    (run,) = recorder.runs
    assert (summaries(run.calls), run.warnings) == ([ADDITION | attempts], [])
    assert (run.input, run.actual_output, run.usage["total_tokens"]) == ("hi", "final", 30)
    inner = recorder.inner_runs
    assert len(inner) == (2 if place in ("before_model", "after_model") or "model_call" in place else 1)
    assert [summaries(one.calls) for one in inner] == [CHECK] * len(inner)
    assert {(one.input, one.actual_output, one.status.value) for one in inner} == {("hi", "fine", "ok")}
    assert [one.run_id for one in recorder.pop()] == [run.run_id]
    assert recorder.inner_runs == []


@scenario("guard of an agent in a tool", needs="marked_agents")
def test_guard_of_an_agent_in_a_tool() -> None:
    """The guard of an agent that a tool runs is a run; the calls of that agent are children of the tool's call."""
    inner = make_agent(
        scripted(asks(("add", {"a": 1}, "c1")), "done"), [add], middleware=guarded("wrap_tool_call before", guard())
    )

    @tool
    def delegate(task: str) -> str:
        """Delegate."""
        return inner.invoke({"messages": [("user", task)]})["messages"][-1].content

    recorder = recorded(make_agent(scripted(asks(("delegate", {"task": "t"}, "c1")), "final"), [delegate]))

    assert summaries(recorder.run.calls) == [called("delegate", {"task": "t"}, "c1", "done", children=[ADDITION])]
    assert [summaries(run.calls) for run in recorder.inner_runs] == [CHECK]


@scenario("guard that asks a person", needs="marked_agents")
def test_guard_that_asks_a_person() -> None:
    """A guard that waits suspends the agent, and goes on as the same run."""

    @tool
    def allowed(what: str) -> str:
        """Ask a person."""
        return str(interrupt(what))

    checks = guard(tools=[allowed], call=("allowed", {"what": "add"}, "c1"))
    middleware = guarded("wrap_tool_call before", checks)
    agent = make_agent(
        scripted(asks(("add", {"a": 1}, "c1")), "final"), [add], middleware=middleware, checkpointer=memory()
    )
    recorder = ToolCallRecorder()
    agent.invoke(HI, thread("T", recorder))
    waiting = [[call.execution.status.value for call in run.calls] for run in (recorder.run, *recorder.inner_runs)]
    agent.invoke(Command(resume="yes"), thread("T", recorder))

    assert waiting == [["pending"], ["pending"]]
    assert summaries(recorder.run.calls) == [ADDITION]
    assert [summaries(run.calls) for run in recorder.inner_runs] == [
        [called("allowed", {"what": "add"}, "c1", "yes", attempts=2)]
    ]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("place", [*HOOKS, "wrap_tool_call before", "wrap_tool_call after"])
def test_model_of_middleware(place: str, *, is_async: bool) -> None:
    """What a model asks for that middleware shows something is no call of the agent, and no step of it."""
    feature = FEATURES["middleware" if place in HOOKS else "marked_agents"]
    if not feature.is_due():
        pytest.skip(feature.why)
    checks = scripted(asks(("slow", {"x": 2}, "c1"))).bind_tools([slow]) | RunnableLambda(lambda _: None)
    middleware = guarded(place, RunnableLambda(lambda _: [HumanMessage("fine?")]) | checks, is_async=is_async)
    script = [asks(("add", {"a": 1}, "c1")), asks(("add", {"a": 1}, "c1")), "final"]
    agent, recorder = make_agent(scripted(*script), [add], middleware=middleware), ToolCallRecorder()
    config = {"callbacks": [recorder]}
    asyncio.run(agent.ainvoke(HI, config)) if is_async else agent.invoke(HI, config)

    (run,) = recorder.runs
    assert (summaries(run.calls), run.warnings, run.input) == ([ADDITION, ADDITION], [], "hi")
    assert [call.execution.step for call in run.calls] == [0, 1]
    assert {offered.name for offered in run.available_tools or ()} <= {"add"}  # on Python 3.10, async agents show none


@scenario("model of a hook", needs="middleware")
def test_model_of_a_hook_in_place_of_the_agents_own() -> None:
    """The message of a model that a hook returns is one of the agent."""
    from langchain.agents.middleware import AgentMiddleware, hook_config

    model = scripted(asks(("add", {"a": 1}, "c1")))

    class Planner(AgentMiddleware):
        @hook_config(can_jump_to=["tools"])
        def before_model(self, state: Any, runtime: Any) -> Any:
            is_first = len(state["messages"]) == 1
            return {"messages": [model.invoke("plan")], "jump_to": "tools"} if is_first else None

    run = recorded(make_agent(scripted("", "final"), [add], middleware=[Planner()])).run

    assert (summaries(run.calls), run.actual_output, run.usage["total_tokens"]) == ([ADDITION], "final", 30)


@scenario("guard that is a model", needs="wrap_tool_call")
def test_model_of_middleware_with_an_equal_id() -> None:
    """A model that middleware calls, and that uses the same id for another tool, does not take over the call."""
    from langchain.agents.middleware import wrap_tool_call

    model = scripted(asks(("slow", {"x": 2}, "c1")), "fine").bind_tools([slow])

    @wrap_tool_call
    def check(request: Any, handler: Any) -> Any:
        slow.invoke(model.invoke("hi").tool_calls[0])
        return handler(request)

    recorder = recorded(make_agent(scripted(asks(("add", {"a": 1}, "c1")), "final"), [add], middleware=[check]))

    assert summaries(recorder.run.calls) == [ADDITION, *CHECK]


def test_agents_of_a_graph_are_no_middleware() -> None:
    """Agents in the nodes of a graph are agents of the run, also where the nodes have the names of an agent's own."""
    graph = StateGraph(MessagesState)
    for name in ("model", "tools"):
        graph.add_node(name, lambda _: {"messages": guard().invoke(HI)["messages"][1:]})
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")

    recorder = recorded(graph.compile())

    assert (summaries(recorder.run.calls), recorder.inner_runs) == (CHECK * 2, [])
