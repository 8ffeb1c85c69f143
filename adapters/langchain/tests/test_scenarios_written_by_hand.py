"""Nodes, middleware and messages that people write by hand: refusals and failures, copies, forms of providers."""

# ruff: noqa: ARG001, ARG005 - nodes and hooks need not use all that they are given

from __future__ import annotations

import json
import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
    messages_to_dict,
)
from langchain_core.runnables import chain
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command
from lc_agents import add, asks, called, make_agent, memory, scripted, slow, summaries, thread
from lc_versions import FEATURES, scenario

from toolgrade.formats import read
from toolgrade_langchain import ToolCallRecorder, run_from_messages

HI = {"messages": [HumanMessage("hi")]}
ASKS = asks(("add", {"a": 1}, "c1"))
TWO = asks(("add", {"a": 1}, "c1"), ("slow", {"x": 2}, "c2"))


def by_hand(model: Any, tools: Any, state: Any = MessagesState, key: str = "messages", **options: Any) -> Any:
    """A graph of a node for a model and one for tools."""
    graph = StateGraph(state)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if calls_of(state[key][-1]) else END)
    graph.add_edge("tools", "model")
    return graph.compile(**options)


def calls_of(message: Any) -> list[Any]:
    """The calls of a message in either form."""
    if isinstance(message, dict):
        return list(message.get("tool_calls") or [])
    return list(getattr(message, "tool_calls", []))


def observed(*script: Any, make: Any = lambda message: message) -> Any:
    """A node that calls a model, and returns its message or what is made of that."""
    model = scripted(*script)
    return lambda state: {"messages": [make(model.invoke(state["messages"]))]}


def statuses(calls: Any) -> list[str]:
    """The statuses of calls."""
    return [call.execution.status.value for call in calls]


# Failures and refusals

ANSWERS = {
    "no such order": "error",
    "Error: permission denied for write on /etc": "error",
    "the user table was not found": "error",
    "User rejected the tool call for `add` with id c1": "rejected",
    "User rejected the tool call for `add` with reason: too dear": "rejected",
    "The operator declined to run `add`.": "rejected",
    "Policy denied tool call `add`.": "rejected",
    "Tool call was not approved by a reviewer": "rejected",
    "Tool call limit exceeded. Do not make additional tool calls.": "rejected",
    "The tool call `add` was blocked because it was classified as risky. The tool was not executed.": "rejected",
    "Execution stopped before this tool call could run because another one exceeded the limit.": "rejected",
}


@pytest.mark.parametrize("in_graph", [True, False])
@pytest.mark.parametrize("text", ANSWERS)
def test_failed_answer_of_a_node_written_by_hand(text: str, *, in_graph: bool) -> None:
    """A failure is an error, unless the text says that somebody refused; messages alone say the same."""
    answer = ToolMessage(text, tool_call_id="c1", name="add", status="error")
    recorder = ToolCallRecorder()
    graph = by_hand(observed(ASKS, "final"), lambda state: {"messages": [answer]}) if in_graph else make_loop(answer)
    messages = graph.invoke(HI, {"callbacks": [recorder]})["messages"]

    live, read_again, dumped = recorder.run, run_from_messages(messages), read(messages_to_dict(messages)).run
    assert [statuses(run.calls) for run in (live, read_again, dumped)] == [[ANSWERS[text]]] * 3
    assert (live.calls[0].execution.error, live.warnings) == (text, [])


def make_loop(answer: ToolMessage) -> Any:
    """A function that calls a model and answers its call itself."""
    from langchain_core.runnables import RunnableLambda

    model = scripted(ASKS, "final")

    def loop(state: Any) -> dict[str, Any]:
        messages = [*state["messages"], model.invoke(state["messages"]), answer]
        return {"messages": [*messages, model.invoke(messages)]}

    return RunnableLambda(loop)


def test_node_that_runs_one_call_and_fails_the_other() -> None:
    """What ran, and what only failed, are told apart by the tool's own run."""

    def tools(state: Any) -> dict[str, Any]:
        first, _second = state["messages"][-1].tool_calls
        return {"messages": [add.invoke(first), ToolMessage("no", tool_call_id="c2", status="error")]}

    recorder = ToolCallRecorder()
    by_hand(observed(TWO, "final"), tools).invoke(HI, {"callbacks": [recorder]})

    assert [(call.execution.status.value, call.execution.executed) for call in recorder.run.calls] == [
        ("ok", True),
        ("error", False),
    ]


@scenario("refused by middleware", needs="marked_agents")
def test_middleware_that_refuses_in_its_own_words() -> None:
    """In an agent, every tool that runs is observed, so one that did not run was refused."""
    from langchain.agents.middleware import wrap_tool_call

    @wrap_tool_call
    def refuse(request: Any, handler: Any) -> Any:
        return ToolMessage("nope", tool_call_id=request.tool_call["id"], status="error")

    recorder = ToolCallRecorder()
    make_agent(scripted(ASKS, "final"), [add], middleware=[refuse]).invoke(HI, {"callbacks": [recorder]})

    assert statuses(recorder.run.calls) == ["rejected"]


@scenario("refused with a reason", needs="middleware")
def test_person_who_refuses_in_their_own_words() -> None:
    """Older versions of LangChain show the words of a person alone."""
    from langchain.agents.middleware import HumanInTheLoopMiddleware

    recorder = ToolCallRecorder()
    middleware = [HumanInTheLoopMiddleware(interrupt_on={"add": True})]
    agent = make_agent(scripted(ASKS, "final"), [add], middleware=middleware, checkpointer=memory())
    agent.invoke(HI, thread("T", recorder))
    agent.invoke(Command(resume={"decisions": [{"type": "reject", "message": "later"}]}), thread("T", recorder))

    assert statuses(recorder.run.calls) == ["rejected"]


# Messages that replace others


def changed(message: Any, **fields: Any) -> AIMessage:
    """A message with the calls of another one, and arguments of its own."""
    return AIMessage("checked", tool_calls=[{**call, "args": {"a": 5}} for call in message.tool_calls], **fields)


REPLACED = called("add", {"a": 5}, "c1", "7", requested={"a": 1})
HOOKS: dict[str, Any] = {
    "same id": lambda last: [changed(last, id=last.id)],
    "removed": lambda last: [RemoveMessage(id=last.id), changed(last, id="new")],
    "removed, without an id": lambda last: [RemoveMessage(id=last.id), changed(last)],
    "all removed": lambda last: [RemoveMessage(id="__remove_all__"), HumanMessage("hi"), changed(last, id="new")],
}


@pytest.mark.parametrize("name", HOOKS)
def test_message_that_a_hook_replaces(name: str) -> None:
    """A message that stands in place of the model's asks for the same calls."""
    if not FEATURES["middleware"].is_due():
        pytest.skip(FEATURES["middleware"].why)
    from langchain.agents.middleware import after_model

    @after_model
    def check(state: Any, runtime: Any) -> dict[str, Any] | None:
        last = state["messages"][-1]
        return {"messages": HOOKS[name](last)} if last.tool_calls else None

    recorder = ToolCallRecorder()
    make_agent(scripted(ASKS, "final"), [add], middleware=[check]).invoke(HI, {"callbacks": [recorder]})

    assert (summaries(recorder.run.calls), recorder.run.warnings) == ([REPLACED], [])


@pytest.mark.parametrize("fields", [{}, {"id": "new"}])
def test_message_that_a_node_replaces(fields: dict[str, Any]) -> None:
    """A node that returns a message of its own in place of the model's asks for the same calls."""
    recorder = ToolCallRecorder()
    graph = by_hand(observed(ASKS, "final", make=lambda message: changed(message, **fields)), ToolNode([add]))

    graph.invoke(HI, {"callbacks": [recorder]})

    assert (summaries(recorder.run.calls), recorder.run.warnings) == ([REPLACED], [])


@pytest.mark.parametrize("fields", [{}, {"id": "new"}])
def test_message_with_other_ids_of_calls(fields: dict[str, Any]) -> None:
    """Some providers accept ids of their own form only, so a node writes others."""

    def shorten(message: Any) -> AIMessage:
        return AIMessage(message.content, tool_calls=[{**call, "id": "s1"} for call in message.tool_calls], **fields)

    recorder = ToolCallRecorder()
    by_hand(observed(ASKS, "final", make=shorten), ToolNode([add])).invoke(HI, {"callbacks": [recorder]})

    assert summaries(recorder.run.calls) == [called("add", {"a": 1}, "s1", "3")]
    assert (recorder.run.usage or {})["total_tokens"] == 30


def test_copy_without_an_id_in_a_plain_list() -> None:
    """A node may copy the model's message into a list that nothing merges."""

    class Plain(TypedDict):
        messages: list[Any]

    model = scripted(ASKS, "final")

    def ask(state: Any) -> dict[str, Any]:
        message = model.invoke(state["messages"])
        return {"messages": [*state["messages"], AIMessage(message.content, tool_calls=message.tool_calls)]}

    def run(state: Any) -> dict[str, Any]:
        results = [add.invoke(call) for call in state["messages"][-1].tool_calls]
        return {"messages": [*state["messages"], *results]}

    recorder = ToolCallRecorder()
    by_hand(ask, run, Plain).invoke(HI, {"callbacks": [recorder]})

    assert summaries(recorder.run.calls) == [called("add", {"a": 1}, "c1", "3")]


# Messages in the form of a provider


class Added(TypedDict):
    """A list that is added to, of messages as they are."""

    messages: Annotated[list[Any], operator.add]


class Kept(TypedDict):
    """A list that each node returns as a whole."""

    messages: list[Any]


class Named(TypedDict):
    """A list with a name of its own."""

    chat: Annotated[list[Any], operator.add]


def user(text: str) -> dict[str, Any]:
    """A message of the user."""
    return {"role": "user", "content": text}


def request(a: int, **content: Any) -> dict[str, Any]:
    """A request; its id is the same each time."""
    function = {"name": "add", "arguments": json.dumps({"a": a})}
    return {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}], **content}


def role(message: Any) -> str:
    """The role of a message in either form."""
    roles = {"human": "user", "ai": "assistant"}
    return str(message["role"] if isinstance(message, dict) else roles.get(message.type, message.type))


def unobserved(state: Any, key: str) -> Any:
    """Ask once in each turn, as a client of a provider does; the content may be missing."""
    if role(state[key][-1]) == "tool":
        return {"role": "assistant", "content": "final"}
    return request(1, **({"content": None} if key == "messages" else {}))


def answer(state: Any, key: str, *, fails: bool) -> Any:
    """Run the calls of the last message, and answer in the form of a provider."""
    (call,) = calls_of(state[key][-1])
    arguments = call["args"] if "args" in call else json.loads(call["function"]["arguments"])
    return FAILED if fails else {"role": "tool", "tool_call_id": "c1", "content": str(add.func(**arguments))}


FAILED = {"role": "tool", "tool_call_id": "c1", "content": "no", "status": "error"}
READS_STATUS = convert_to_messages([FAILED])[0].status == "error"  # older versions lose it


@pytest.mark.parametrize("fails", [False, True] if READS_STATUS else [False])
@pytest.mark.parametrize("history", ["thread", "input"])
@pytest.mark.parametrize("state", [MessagesState, Added, Kept, Named])
def test_messages_of_a_provider(state: Any, history: str, *, fails: bool) -> None:
    """They ask for their calls in each turn, also with equal ids, arguments and results."""
    key = "chat" if state is Named else "messages"

    def updated(values: Any, message: Any) -> dict[str, Any]:
        return {key: [*values[key], message] if state is Kept else [message]}

    graph = by_hand(
        lambda values: updated(values, unobserved(values, key)),
        lambda values: updated(values, answer(values, key, fails=fails)),
        state,
        key,
        checkpointer=memory() if history == "thread" else None,
    )
    recorder = ToolCallRecorder()
    messages: list[Any] = []
    for question in ("one", "two", "three"):
        has_all = history == "input" or state is Kept
        inputs = {key: [*messages, user(question)] if has_all else [user(question)]}
        messages = graph.invoke(inputs, thread("T", recorder))[key]

    status = {"status": "error", "error": "no", "model_output": "no"} if fails else {}
    expected = called("add", {"a": 1}, "c1", None if fails else "3", executed=False, **status)
    assert [summaries(run.calls) for run in recorder.runs] == [[expected]] * 3
    assert [(run.input, run.actual_output) for run in recorder.runs] == [
        (question, "final") for question in ("one", "two", "three")
    ]


def test_history_of_a_provider_with_an_equal_answer() -> None:
    """An answer that is equal to that of an earlier turn is the answer of this turn."""
    graph = by_hand(lambda state: {"messages": [{"role": "assistant", "content": "fine"}]}, ToolNode([add]))
    recorder = ToolCallRecorder()
    earlier = [user("one"), {"role": "assistant", "content": "fine"}]

    graph.invoke({"messages": [*earlier, user("two")]}, {"callbacks": [recorder]})

    assert (recorder.run.input, recorder.run.actual_output) == ("two", "fine")


def test_history_in_a_tuple() -> None:
    """Two messages in a tuple are a history, and not a role with a text."""
    recorder = ToolCallRecorder()

    chain(lambda _: "fine").invoke({"messages": (HumanMessage("one"), HumanMessage("two"))}, {"callbacks": [recorder]})

    assert (recorder.run.input, recorder.run.actual_output, recorder.run.warnings) == ("two", "fine", [])


@pytest.mark.parametrize("is_raw", [True, False])
@pytest.mark.parametrize("history", ["thread", "input"])
def test_input_that_asks(history: str, *, is_raw: bool) -> None:
    """The calls at the end of an input are asked for by a model, and run in this run."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([add, slow]))
    graph.add_edge(START, "tools")
    compiled = graph.compile(checkpointer=memory() if history == "thread" else None)
    recorder = ToolCallRecorder()
    messages: list[Any] = []
    for _ in range(2):
        new = [user("hi"), request(1, content="") if is_raw else ASKS.model_copy(update={"id": None})]
        inputs = new if history == "thread" else [*messages, *new]
        messages = compiled.invoke({"messages": inputs}, thread("T", recorder))["messages"]

    assert [summaries(run.calls) for run in recorder.runs] == [[called("add", {"a": 1}, "c1", "3")]] * 2


def test_input_with_an_answer() -> None:
    """Of an input whose calls have a result, only the others are asked for."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([add, slow]))
    graph.add_node("filter", lambda state: {})
    graph.add_edge(START, "tools")
    recorder = ToolCallRecorder()
    inputs = [HumanMessage("hi"), TWO, ToolMessage("3", tool_call_id="c1")]

    graph.compile().invoke({"messages": inputs}, {"callbacks": [recorder]})

    assert {call.id for call in recorder.run.calls if call.execution.origin.value == "model"} == {"c2"}


@scenario("asked by a hook", needs="middleware")
def test_call_that_a_hook_asks_for_in_each_turn() -> None:
    """A message that a hook puts into the state is new in each turn, although equal to that of the turn before."""
    from langchain.agents.middleware import before_model

    @before_model(can_jump_to=["tools"])
    def ask(state: Any, runtime: Any) -> dict[str, Any] | None:
        is_first = state["messages"][-1].type == "human"
        return {"messages": [asks(("add", {"a": 1}, "c1"))], "jump_to": "tools"} if is_first else None

    recorder = ToolCallRecorder()
    agent = make_agent(scripted("final"), [add], middleware=[ask], checkpointer=memory())
    for _ in range(2):
        agent.invoke({"messages": [user("hi")]}, thread("T", recorder))

    assert [summaries(run.calls) for run in recorder.runs] == [[called("add", {"a": 1}, "c1", "3")]] * 2
