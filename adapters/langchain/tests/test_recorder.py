"""The recorder itself: it never disturbs, loses nothing silently, and gives memory back."""

# ruff: noqa: ARG001 - tools, models and sinks need not use all that they are given

import asyncio
import copy
import threading
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from lc_agents import add, asks, called, make_agent, memory, react_agent, scripted, summaries, thread

from recorder_blocks import ListSink
from toolgrade.cases import Run
from toolgrade_langchain import ToolCallRecorder
from toolgrade_langchain._run_tree import CallbackTree
from toolgrade_langchain._watcher import CallbackWatcher

HI = {"messages": [("user", "hi")]}
SCRIPT = [asks(("add", {"a": 1}, "c1")), "final"]
ADDITION = called("add", {"a": 1}, "c1", "3")


def agent(**options: Any) -> Any:
    """An agent with one call."""
    return make_agent(scripted(*SCRIPT), [add], **options)


# Faults

STARTS = ["chain_started", "model_started", "tool_started"]
ENDS = ["chain_ended", "model_ended", "tool_ended"]


@pytest.mark.parametrize("method", [*STARTS, *ENDS])
def test_a_fault_in_the_recorder_never_reaches_the_agent(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception inside the recorder leaves the agent alone and becomes a warning; no other run comes of it."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(CallbackWatcher, method, fail)
    recorder = ToolCallRecorder()

    result = agent().invoke(HI, {"callbacks": [recorder]})

    assert result["messages"][-1].content == "final"
    assert len(recorder.runs) == 1
    warnings = [*recorder.warnings, *recorder.run.warnings]
    assert any("RuntimeError: planted" in text for text in warnings)


def test_fault_before_a_run_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault at the very beginning is a recorder warning; later events do not start new runs."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(CallbackTree, "recording_of_root", fail)
    recorder = ToolCallRecorder()

    agent().invoke(HI, {"callbacks": [recorder]})

    assert recorder.runs == []
    assert recorder.warnings == [
        "the recorder failed in on_chain_start, so something may be missing: RuntimeError: planted"
    ]


def test_a_fault_at_the_end_still_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose end could not be read can be taken out like any other."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(CallbackTree, "end_recording", fail)
    recorder = ToolCallRecorder()

    agent().invoke(HI, {"callbacks": [recorder]})

    (run,) = recorder.pop()
    assert "on_chain_end" in run.warnings[0]


class Hostile:
    """An object whose `repr` raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_values_that_cannot_be_captured() -> None:
    """A value whose `repr` raises is captured as far as possible, with a warning."""

    @tool(response_format="content_and_artifact")
    def odd(x: int) -> tuple[str, Hostile]:
        """Return an odd artifact."""
        return "text", Hostile()

    recorder = ToolCallRecorder()

    odd.invoke({"type": "tool_call", "name": "odd", "args": {"x": 1}, "id": "c1"}, {"callbacks": [recorder]})

    assert recorder.run.calls[0].output == "text"
    assert any("artifact of 'odd'" in text for text in recorder.run.warnings)


# Stored runs and their release


def test_what_the_configuration_says() -> None:
    """Tags and metadata are those of the user, without the framework's own."""
    recorder = ToolCallRecorder()
    agent().invoke(HI, {"callbacks": [recorder], "tags": ["smoke"], "metadata": {"k": 1}})

    case = recorder.test_case()

    assert case.tags == ["smoke"]
    assert case.metadata["k"] == 1
    assert not [key for key in case.metadata if key.startswith(("langgraph", "ls_", "lc_"))]


def test_nothing_of_a_run_is_left_after_pop() -> None:
    """After `pop`, the recorder holds no node, thread or message of the run."""
    recorder = ToolCallRecorder()
    shared = agent(checkpointer=memory())
    for number in range(3):
        shared.invoke(HI, thread(str(number), recorder))
    scripted("final").invoke([HumanMessage("hi")], {"callbacks": [recorder]})

    runs = recorder.pop()

    tree = recorder._tree
    assert len(runs) == 4
    assert (len(recorder._recordings), tree._nodes, tree._threads, tree._models) == (0, {}, {}, {})
    assert not tree._finished


def test_unfinished_run_stays() -> None:
    """`pop` during a run leaves it in place and shows its progress."""
    recorder = ToolCallRecorder()
    stream = agent().stream(HI, {"callbacks": [recorder]}, stream_mode="updates")
    next(stream)

    popped, (open_run,) = recorder.pop(), recorder.runs
    list(stream)

    assert popped == []
    assert [call.execution.status.value for call in open_run.calls] == ["pending"]
    assert [summaries(run.calls) for run in recorder.pop()] == [[ADDITION]]


def test_late_events_after_pop_make_no_run() -> None:
    """A tool that ends after `pop`, or starts another tool then, does not create a new run."""
    go_on, done = threading.Event(), threading.Event()

    @tool
    def late(x: int) -> str:
        """End after the run."""
        go_on.wait(5)
        add.invoke({"a": x})
        done.set()
        return "late"

    @tool
    async def aboom(x: int) -> str:
        """Fail."""
        raise ValueError("boom")

    from langgraph.prebuilt import ToolNode

    script = asks(("late", {"x": 1}, "c1"), ("aboom", {"x": 2}, "c2"))
    failing = react_agent(scripted(script), ToolNode([late, aboom], handle_tool_errors=False))
    recorder = ToolCallRecorder()

    async def run() -> list[Run]:
        with pytest.raises(ValueError, match="boom"):
            await failing.ainvoke(HI, {"callbacks": [recorder]})
        popped = recorder.pop()
        go_on.set()
        await asyncio.to_thread(done.wait, 5)
        await asyncio.sleep(0.02)
        return popped

    (run_,) = asyncio.run(run())

    assert run_.status.value == "error"
    assert recorder.runs == []
    assert recorder.warnings == []


def test_the_oldest_finished_runs_go_first() -> None:
    """When the limit is exceeded, the runs that ended first are dropped, with a warning."""
    recorder = ToolCallRecorder(limit=2)
    waiting = agent().stream(HI, {"callbacks": [recorder], "run_name": "open"}, stream_mode="updates")
    next(waiting)

    for number in range(3):
        scripted("final").invoke([HumanMessage(str(number))], {"callbacks": [recorder]})

    assert [run.input for run in recorder.runs] == ["hi", "2"]
    assert len(recorder.warnings) == 1
    assert "more than 2 runs" in recorder.warnings[0]
    waiting.close()


def test_an_interrupted_run_comes_to_the_sink_again() -> None:
    """An interrupted run is written, stored, and written again under the same id when it is complete."""
    sink = ListSink()
    recorder = ToolCallRecorder(sink=sink)
    waiting = react_agent(scripted(*SCRIPT), [add], checkpointer=memory(), interrupt_before=["tools"])

    waiting.invoke(HI, thread("T", recorder))
    runs = recorder.runs
    waiting.invoke(None, thread("T", recorder))

    assert [run.status.value for run in sink.runs] == ["interrupted", "ok"]
    assert sink.runs[0].run_id == sink.runs[1].run_id
    assert len(runs) == 1
    assert recorder.runs == []


def test_a_copied_configuration_reports_to_the_same_recorder() -> None:
    """Copying a configuration, deep or not, does not copy the recorder in it."""
    recorder = ToolCallRecorder()

    agent().invoke(HI, copy.deepcopy({"callbacks": [recorder]}))

    assert copy.copy(recorder) is recorder
    assert len(recorder.runs) == 1
