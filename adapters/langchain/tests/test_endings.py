"""How runs end, and recorders that are attached twice or cannot deliver."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command
from lc_agents import add, asks, called, make_agent, memory, react_agent, scripted, slow, summaries, thread
from lc_versions import scenario

from toolgrade.cases import Run
from toolgrade_langchain import ToolCallRecorder

HI = {"messages": [("user", "hi")]}
SCRIPT = [asks(("add", {"a": 1}, "c1")), "final"]


@scenario("E1", needs="middleware")
def test_edited_to_another_tool() -> None:
    """A call that a person replaces by one of another tool has the name and the arguments that ran, with a warning."""
    from langchain.agents.middleware import HumanInTheLoopMiddleware

    recorder = ToolCallRecorder()
    middleware = [HumanInTheLoopMiddleware(interrupt_on={"slow": True})]
    model = scripted(asks(("slow", {"x": 1}, "c1")), "final")
    agent = make_agent(model, [slow, add], checkpointer=memory(), middleware=middleware)
    agent.invoke(HI, thread("T", recorder))
    edit = {"type": "edit", "edited_action": {"name": "add", "args": {"a": 1}}}
    agent.invoke(Command(resume={"decisions": [edit]}), thread("T", recorder))

    (run,) = recorder.runs
    (only,) = summaries(run.calls)
    only.pop("model_output", None)
    assert only == called("add", {"a": 1}, "c1", "3", requested={"x": 1})
    assert run.warnings == ["the model requested 'slow' (id 'c1'), and 'add' was executed in its place"]


@scenario("E2", needs="middleware")
def test_limit_of_model_calls() -> None:
    """A limit that ends the run early stops it; the text of the limit is not an answer."""
    from langchain.agents.middleware import ModelCallLimitMiddleware

    recorder = ToolCallRecorder()
    limit = ModelCallLimitMiddleware(run_limit=1, exit_behavior="end")
    make_agent(scripted(*SCRIPT), [add], middleware=[limit]).invoke(HI, {"callbacks": [recorder]})

    run = recorder.run
    assert summaries(run.calls) == [called("add", {"a": 1}, "c1", "3")]
    assert (run.status.value, run.actual_output) == ("stopped", None)
    assert "limit" in str(run.error)


def test_tool_that_a_timeout_of_a_step_ends() -> None:
    """It was cancelled, and the calls beside it ended."""

    @tool
    async def wait(x: int) -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return f"never {x}"

    agent = make_agent(scripted(asks(("add", {"a": 1}, "c1"), ("wait", {"x": 1}, "c2")), "final"), [add, wait])
    agent.step_timeout = 0.2
    recorder = ToolCallRecorder()
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(agent.ainvoke(HI, {"callbacks": [recorder]}))

    first, second = recorder.run.calls
    assert summaries([first]) == [called("add", {"a": 1}, "c1", "3")]
    assert (second.execution.status.value, second.execution.executed) == ("cancelled", True)
    assert "object at" not in str(second.execution.error)
    assert recorder.run.status.value == "stopped"


def test_timeout_of_a_step() -> None:
    """A step that takes too long stops the run; a tool that raises the same exception makes it fail."""

    def sleep(state: MessagesState) -> dict[str, Any]:  # noqa: ARG001
        time.sleep(0.2)
        return {}

    graph = StateGraph(MessagesState)
    graph.add_node("sleep", sleep)
    graph.add_edge(START, "sleep")
    compiled = graph.compile()
    compiled.step_timeout = 0.02
    recorder = ToolCallRecorder()
    with pytest.raises(TimeoutError):
        compiled.invoke(HI, {"callbacks": [recorder]})
    assert recorder.run.status.value == "stopped"

    @tool
    def remote(x: int) -> str:
        """Wait for too long."""
        raise TimeoutError(x)

    tools = ToolNode([remote], handle_tool_errors=False)
    with pytest.raises(TimeoutError):
        react_agent(scripted(asks(("remote", {"x": 1}, "c1"))), tools).invoke(HI, {"callbacks": [recorder]})
    assert recorder.run.status.value == "error"


def test_open_run() -> None:
    """A run that is read before it ended does not claim to have answered."""
    recorder = ToolCallRecorder()
    before: list[Run] = []

    @tool
    def look(x: int) -> str:
        """Read the run from inside."""
        before.append(recorder.run)
        return str(x)

    make_agent(scripted(asks(("look", {"x": 1}, "c1")), "final"), [look]).invoke(HI, {"callbacks": [recorder]})

    (run,) = before
    assert (run.status.value, run.actual_output) == ("stopped", None)
    assert run.warnings == ["the run had not ended when it was read"]
    assert (recorder.run.status.value, recorder.run.warnings) == ("ok", [])
