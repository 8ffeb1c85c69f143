"""Scenarios S20, S28-S34: many runs, and people in the loop."""

from typing import Any

from langchain_core.tools import tool
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
