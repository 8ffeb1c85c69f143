"""Scenarios S18, S39, S40, S42-S44, S46, S51, S52: agents in agents, structured output, loops by hand, hosted tools."""

# ruff: noqa: ARG005 - tools, models and sinks need not use all that they are given

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from lc_agents import (
    add,
    asks,
    called,
    make_agent,
    scripted,
    summaries,
    summary,
)
from lc_versions import scenario
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

    def back(state: MessagesState) -> dict[str, Any]:  # noqa: ARG001
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
