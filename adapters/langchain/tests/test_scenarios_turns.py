"""Scenarios S20, S28-S34: many runs, and people in the loop."""

import asyncio
import sys
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from lc_agents import (
    add,
    asks,
    called,
    make_agent,
    memory,
    react_agent,
    scripted,
    slow,
    summaries,
    thread,
)
from lc_versions import scenario

from toolgrade_langchain import ToolCallRecorder

HI = {"messages": [("user", "hi")]}


def reviewed() -> Any:
    """An agent whose calls of `slow` a person decides on."""
    from langchain.agents.middleware import HumanInTheLoopMiddleware

    script = [asks(("slow", {"x": 1}, "c1"), ("add", {"a": 1}, "c2")), "final"]
    middleware = [HumanInTheLoopMiddleware(interrupt_on={"slow": True})]
    return make_agent(scripted(*script), [slow, add], checkpointer=memory(), middleware=middleware)


def decided(*decisions: dict[str, Any]) -> ToolCallRecorder:
    """The recorder after a run that a person decided on."""
    recorder = ToolCallRecorder()
    agent = reviewed()
    agent.invoke(HI, thread("T", recorder))
    if decisions:
        agent.invoke(Command(resume={"decisions": list(decisions)}), thread("T", recorder))
    assert len(recorder.runs) == 1
    assert not recorder.run.warnings
    return recorder


ADDITION = called("add", {"a": 1}, "c2", "3")


@scenario("S28", needs="middleware")
def test_waiting_for_a_person() -> None:
    """While a person decides, all calls of the message are pending and the run is interrupted."""
    run = decided().run

    assert summaries(run.calls) == [
        called("slow", {"x": 1}, "c1", status="pending", executed=False),
        called("add", {"a": 1}, "c2", status="pending", executed=False),
    ]
    assert (run.status.value, run.actual_output) == ("interrupted", None)


@scenario("S29", needs="middleware")
def test_approved() -> None:
    """An approved call runs, in the run that waited for it."""
    run = decided({"type": "approve"}).run

    assert summaries(run.calls) == [called("slow", {"x": 1}, "c1", "slow 1"), ADDITION]
    assert (run.status.value, run.actual_output) == ("ok", "final")


@scenario("S30", needs="middleware")
def test_edited() -> None:
    """An edited call has the arguments it ran with; the requested ones are stored separately."""
    edited = {"name": "slow", "args": {"x": 2}}

    run = decided({"type": "edit", "edited_action": edited}).run

    first, second = summaries(run.calls)
    first.pop("model_output", None)
    assert [first, second] == [called("slow", {"x": 2}, "c1", "slow 2", requested={"x": 1}), ADDITION]


@scenario("S31", needs="middleware")
def test_rejected() -> None:
    """A rejected call was not executed, and its error is the person's reply."""
    run = decided({"type": "reject", "message": "no!"}).run

    first, second = run.calls
    assert (first.execution.status.value, first.execution.executed, first.output) == ("rejected", False, None)
    assert "no!" in first.execution.error
    assert summaries([second]) == [ADDITION]


@scenario("S32", needs="respond")
def test_answered_by_a_person() -> None:
    """A call that a person answers has their words as its output, and was not executed."""
    run = decided({"type": "respond", "message": "pretend"}).run

    assert summaries(run.calls) == [called("slow", {"x": 1}, "c1", "pretend", executed=False), ADDITION]


@scenario("S33")
def test_interrupted_inside_a_tool() -> None:
    """A tool that asks a person is run again with the answer: another attempt of one call."""

    @tool
    def ask(q: str) -> str:
        """Ask a person."""
        return f"human said {interrupt(q)}"

    recorder = ToolCallRecorder()
    script = [asks(("ask", {"q": "colour?"}, "c1"), ("add", {"a": 1}, "c2")), "final"]
    agent = make_agent(scripted(*script), [ask, add], checkpointer=memory())
    agent.invoke(HI, thread("T", recorder))
    before = recorder.run
    agent.invoke(Command(resume="blue"), thread("T", recorder))

    assert [call.execution.status.value for call in before.calls] == ["pending", "ok"]
    assert before.status.value == "interrupted"
    assert len(recorder.runs) == 1
    assert summaries(recorder.run.calls) == [
        called("ask", {"q": "colour?"}, "c1", "human said blue", attempts=2),
        ADDITION,
    ]
    assert (recorder.run.status.value, recorder.run.actual_output) == ("ok", "final")


@scenario("S34")
def test_interrupted_before_the_tools() -> None:
    """A graph that stops before its tools emits no event; the run is interrupted and resumed in place."""
    recorder = ToolCallRecorder()
    script = [asks(("add", {"a": 1}, "c1")), "final"]
    agent = react_agent(scripted(*script), [add], checkpointer=memory(), interrupt_before=["tools"])
    agent.invoke(HI, thread("T", recorder))
    before = recorder.run
    agent.invoke(None, thread("T", recorder))

    assert summaries(before.calls) == [called("add", {"a": 1}, "c1", status="pending", executed=False)]
    assert before.status.value == "interrupted"
    assert len(recorder.runs) == 1
    assert summaries(recorder.run.calls) == [called("add", {"a": 1}, "c1", "3")]
    assert (recorder.run.input, recorder.run.actual_output) == ("hi", "final")
    (conversation,) = recorder.conversations()
    assert [turn.role for turn in conversation.turns] == ["user", "assistant"]


# A history beside the question

EARLIER = [
    HumanMessage("Is it warm?"),
    asks(("slow", {"x": 3}, "c1")),
    ToolMessage("slow 3", tool_call_id="c1"),
    AIMessage("It is."),
]


class Chat(TypedDict, total=False):
    """A state with names of its own."""

    past: list[Any]
    request: str
    tone: str
    reply: str


def worded(template: str = "{request}") -> Any:
    """A chain of a prompt with a history and a model."""
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("past"), ("human", template)])
    return prompt | scripted("It is not.")


def ask_agent(state: Chat) -> dict[str, Any]:
    """Run an agent on the history and the question; return the new history."""
    agent = make_agent(scripted(asks(("add", {"a": 1}, "c1")), "It is not."), [add])
    return {"past": agent.invoke({"messages": [*state["past"], HumanMessage(state["request"])]})["messages"]}


def one_node(function: Any, **options: Any) -> Any:
    """A graph of one node."""
    graph = StateGraph(Chat)
    graph.add_node("node", function)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    return graph.compile(**options)


ASKED = {"past": EARLIER, "request": "And cold?"}
TEXT = worded() | StrOutputParser()
CHATS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "one text": (RunnablePassthrough.assign(reply=TEXT), ASKED, "And cold?"),
    "a message": (RunnablePassthrough.assign(reply=worded()), ASKED, "And cold?"),
    "two texts": (RunnablePassthrough.assign(reply=TEXT), {"tone": "dry", **ASKED}, "And cold?"),
    "inside a prompt": (RunnablePassthrough.assign(reply=worded("Say: {request}")), ASKED, "And cold?"),
    "two texts inside a prompt": (worded("{tone}: {request}"), {"tone": "dry", **ASKED}, "dry: And cold?"),
    "usual names": (
        RunnablePassthrough.assign(answer=TEXT),
        {"question": "Why?", "tone": "dry", **ASKED},
        "Why?",
    ),
    "messages beside the answer": (
        RunnablePassthrough.assign(answer=RunnableLambda(lambda state: state["messages"]) | scripted("It is not.")),
        {"messages": [*EARLIER, HumanMessage("And cold?")]},
        "And cold?",
    ),
    "a graph": (one_node(lambda state: {"reply": TEXT.invoke(state)}), ASKED, "And cold?"),
    "a graph with two texts": (
        one_node(lambda state: {"reply": TEXT.invoke(state)}),
        {"tone": "dry", **ASKED},
        "And cold?",
    ),
}


@pytest.mark.parametrize("mode", ["invoke", "stream", "ainvoke"])
@pytest.mark.parametrize("name", CHATS)
def test_a_history_is_not_of_this_turn(name: str, mode: str) -> None:
    """Question, answer and calls are those of this turn, also of a chain whose input is a stream."""
    if mode == "ainvoke" and name == "a graph with two texts" and sys.version_info < (3, 11):
        pytest.skip(
            "before Python 3.11, the model of an asynchronous node has no callbacks, so none shows the question"
        )
    recorder = ToolCallRecorder()
    chain, state, question = CHATS[name]
    config = {"callbacks": [recorder]}
    if mode == "ainvoke":
        asyncio.run(chain.ainvoke(state, config))
    else:
        list(chain.stream(state, config)) if mode == "stream" else chain.invoke(state, config)

    run = recorder.run
    assert (run.input, run.actual_output, run.calls, run.warnings) == (question, "It is not.", [], [])


def test_a_history_that_an_agent_continues() -> None:
    """The history that comes back contains this turn's answer and calls."""
    recorder = ToolCallRecorder()

    one_node(ask_agent).invoke(ASKED, {"callbacks": [recorder]})

    assert (recorder.run.input, recorder.run.actual_output) == ("And cold?", "It is not.")
    assert summaries(recorder.run.calls) == [ADDITION | {"id": "c1"}]


def test_a_history_that_the_thread_remembers() -> None:
    """A checkpointer returns the history of the first turn with the answer of the second one."""
    recorder = ToolCallRecorder()
    graph = one_node(lambda state: {"reply": TEXT.invoke(state)}, checkpointer=memory())
    graph.invoke(ASKED, thread("T", recorder))
    graph.invoke({"request": "And wet?"}, thread("T", recorder))

    assert [(run.input, run.actual_output) for run in recorder.runs] == [
        ("And cold?", "It is not."),
        ("And wet?", "It is not."),
    ]
