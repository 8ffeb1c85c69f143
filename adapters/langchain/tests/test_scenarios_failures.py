"""Scenarios S08, S10, S22, S35, S47, S50: what became of calls that did not simply go well."""

# ruff: noqa: ARG001 - tools, models and sinks need not use all that they are given

import asyncio
import contextlib
import time
from typing import Any

import pytest
from langchain_core.tools import ToolException, tool
from langgraph.prebuilt import ToolNode
from lc_agents import (
    add,
    asks,
    called,
    failing_twice,
    make_agent,
    react_agent,
    scripted,
    slow,
    summaries,
    summary,
)
from lc_versions import scenario

from toolgrade_langchain import ToolCallRecorder

HI = {"messages": [("user", "hi")]}


def recorded(agent: Any, raises: type[BaseException] | None = None) -> ToolCallRecorder:
    """The recorder after one run, which may raise."""
    recorder = ToolCallRecorder()
    if raises is None:
        agent.invoke(HI, {"callbacks": [recorder]})
    else:
        with pytest.raises(raises):
            agent.invoke(HI, {"callbacks": [recorder]})
    assert not recorder.warnings
    return recorder


@scenario("S10")
def test_error_that_the_tool_handles() -> None:
    """A tool that returns its own error failed."""

    def t(x: int) -> str:
        """Fail."""
        raise ToolException(f"bad {x}")

    failing = tool(t)
    failing.handle_tool_error = True

    recorder = recorded(make_agent(scripted(asks(("t", {"x": 1}, "c1")), "final"), [failing]))

    assert summaries(recorder.run.calls) == [
        called("t", {"x": 1}, "c1", status="error", error="bad 1", model_output="bad 1")
    ]


@scenario("S22")
def test_parallel_calls_of_an_async_run_that_fails() -> None:
    """A sync tool that ends after its run is completed later and does not create a run."""

    @tool
    async def aslow(x: int) -> str:
        """Wait."""
        await asyncio.sleep(5)
        return "never"

    @tool
    def sync_slow(x: int) -> str:
        """Be slow in a thread."""
        time.sleep(0.15)
        return f"slow {x}"

    @tool
    async def aboom(x: int) -> str:
        """Fail."""
        await asyncio.sleep(0.02)
        raise ValueError("boom")

    script = asks(("aslow", {"x": 1}, "c1"), ("sync_slow", {"x": 2}, "c2"), ("aboom", {"x": 3}, "c3"))
    agent = react_agent(scripted(script, "final"), ToolNode([aslow, sync_slow, aboom], handle_tool_errors=False))
    recorder = ToolCallRecorder()

    async def run() -> list[str]:
        with pytest.raises(ValueError, match="boom"):
            await agent.ainvoke(HI, {"callbacks": [recorder]})
        at_once = [call.execution.status.value for call in recorder.run.calls]
        await asyncio.sleep(0.25)
        return at_once

    at_once = asyncio.run(run())

    assert at_once[0] == "cancelled"
    assert at_once[1] in ("cancelled", "not_executed")
    assert at_once[2] == "error"
    assert len(recorder.runs) == 1
    assert [call.execution.status.value for call in recorder.run.calls] == ["cancelled", "ok", "error"]
    assert recorder.run.calls[1].output == "slow 2"
    assert recorder.run.status.value == "error"


@scenario("S35", needs="retry")
def test_retries() -> None:
    """Executions of one request are attempts of one call, whose outcome is the last one's."""
    from langchain.agents.middleware import ToolRetryMiddleware

    retry = ToolRetryMiddleware(max_retries=3, initial_delay=0.0, jitter=False)

    recorder = recorded(
        make_agent(scripted(asks(("flaky", {"x": 1}, "c1")), "final"), [failing_twice()], middleware=[retry])
    )

    assert summaries(recorder.run.calls) == [called("flaky", {"x": 1}, "c1", "ok 1", attempts=3)]


@scenario("S47")
def test_stream_that_is_closed() -> None:
    """Calls that were asked for before the consumer went away were not executed, and the run was stopped."""
    calls = asks(("slow", {"x": 1}, "c1"), ("slow", {"x": 2}, "c2"), ("add", {"a": 1}, "c3"))
    recorder = ToolCallRecorder()
    stream = make_agent(scripted(calls, "final"), [slow, add]).stream(
        HI, {"callbacks": [recorder]}, stream_mode="updates"
    )

    next(stream)
    stream.close()

    assert [call.execution.status.value for call in recorder.run.calls] == ["not_executed"] * 3
    assert (recorder.run.status.value, recorder.run.error) == ("stopped", "GeneratorExit")
    assert recorder.run.actual_output is None


@scenario("S50")
def test_readable_and_unreadable_arguments() -> None:
    """Of two calls in one message, the readable one runs, and the unreadable one is recorded."""
    script = asks(("slow", {"x": 2}, "c2"), invalid=[("slow", "{x: ", "c1", "bad json")])

    recorder = recorded(make_agent(scripted(script, "final"), [slow]))

    first, second = recorder.run.calls
    assert summary(first) == called("slow", {"x": 2}, "c2", "slow 2")
    assert (second.id, second.execution.status.value) == ("c1", "invalid_arguments")
    assert not second.execution.executed
    assert second.output is None


def test_steps_that_run_out() -> None:
    """A run that reaches its step limit is stopped, however the framework reports the limit."""
    agent = react_agent(scripted(*[asks(("add", {"a": 1}, "c1"))] * 9), [add])
    recorder = ToolCallRecorder()

    with contextlib.suppress(RecursionError):
        agent.invoke(HI, {"callbacks": [recorder], "recursion_limit": 4})

    assert recorder.run.status.value == "stopped"
    assert recorder.run.error
    assert recorder.run.actual_output is None
    assert summary(recorder.run.calls[0]) == called("add", {"a": 1}, "c1", "3")
