"""Scenarios S06, S13-S16, S36-S38, S48, S49: which calls, with which arguments and outputs."""

# ruff: noqa: ARG001 - tools, models and sinks need not use all that they are given

from typing import Annotated, Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.prebuilt import ToolNode
from langgraph.types import Command
from lc_agents import (
    PARALLEL,
    InjectedState,
    add,
    asks,
    called,
    make_agent,
    parallel_script,
    react_agent,
    scripted,
    slow,
    summaries,
)
from lc_versions import scenario

from toolgrade_langchain import ToolCallRecorder

HI = {"messages": [("user", "hi")]}


def recorded(agent: Any, inputs: Any = HI) -> ToolCallRecorder:
    """The recorder after one run."""
    recorder = ToolCallRecorder()
    agent.invoke(inputs, {"callbacks": [recorder]})
    assert not recorder.warnings
    assert not recorder.run.warnings
    return recorder


@scenario("S06")
def test_one_node_for_all_calls() -> None:
    """An agent whose calls run in one node's thread pool gives what one with a node for each call gives."""
    recorder = recorded(react_agent(scripted(*parallel_script()), ToolNode([slow, add]), version="v1"))

    assert summaries(recorder.run.calls) == PARALLEL


@scenario("S13")
def test_injected_arguments_are_left_out() -> None:
    """A state and a call id that the framework injects are not arguments, on any version."""

    @tool
    def st(x: int, state: Annotated[dict, InjectedState], call: Annotated[str, InjectedToolCallId]) -> str:
        """Look at the state."""
        return f"{x} {len(state['messages'])} {call}"

    recorder = recorded(make_agent(scripted(asks(("st", {"x": 1}, "c1")), "final"), [st]))

    assert summaries(recorder.run.calls) == [called("st", {"x": 1}, "c1", "1 2 c1")]


@scenario("S14")
def test_artifact() -> None:
    """An artifact that a tool returns is stored separately from its content."""

    @tool(response_format="content_and_artifact")
    def o(x: int) -> tuple[str, dict[str, Any]]:
        """Return two things."""
        return "text", {"df": [x]}

    recorder = recorded(make_agent(scripted(asks(("o", {"x": 1}, "c1")), "final"), [o]))

    assert summaries(recorder.run.calls) == [called("o", {"x": 1}, "c1", "text", artifact={"df": [1]})]


@scenario("S15")
def test_blocks() -> None:
    """Content blocks are stored as returned, although tracers receive another form of them."""
    blocks = [
        {"type": "text", "text": "a picture"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    ]

    @tool
    def picture(x: int) -> list[dict[str, Any]]:
        """Return blocks."""
        return blocks

    recorder = recorded(make_agent(scripted(asks(("picture", {"x": 1}, "c1")), "final"), [picture]))

    assert summaries(recorder.run.calls) == [called("picture", {"x": 1}, "c1", blocks)]


@scenario("S16")
def test_command() -> None:
    """The output of a tool that returns a command is its message in it."""

    @tool
    def cmd(x: int, call: Annotated[str, InjectedToolCallId]) -> Command:
        """Return a command."""
        return Command(update={"messages": [ToolMessage(f"cmd {x}", tool_call_id=call)]})

    recorder = recorded(make_agent(scripted(asks(("cmd", {"x": 1}, "c1")), "final"), [cmd]))

    assert summaries(recorder.run.calls) == [called("cmd", {"x": 1}, "c1", "cmd 1")]
    assert not recorder.run.handoffs


@scenario("S36", needs="wrap_tool_call")
def test_answered_from_a_cache() -> None:
    """A call that middleware answers has an output, and was not executed."""
    from langchain.agents.middleware import wrap_tool_call

    @wrap_tool_call
    def cached(request: Any, handler: Any) -> ToolMessage:
        return ToolMessage("cached!", tool_call_id=request.tool_call["id"], name=request.tool_call["name"])

    recorder = recorded(make_agent(scripted(asks(("add", {"a": 1}, "c1")), "final"), [add], middleware=[cached]))

    assert summaries(recorder.run.calls) == [called("add", {"a": 1}, "c1", "cached!", executed=False)]


@scenario("S37", needs="wrap_tool_call")
def test_arguments_rewritten() -> None:
    """Arguments rewritten by middleware are the call's arguments; the requested ones are stored separately."""
    from langchain.agents.middleware import wrap_tool_call

    @wrap_tool_call
    def rewrite(request: Any, handler: Any) -> Any:
        rewritten = {**request.tool_call, "args": {"a": 40}}
        if hasattr(request, "override"):
            return handler(request.override(tool_call=rewritten))
        request.tool_call = rewritten
        return handler(request)

    recorder = recorded(make_agent(scripted(asks(("add", {"a": 1}, "c1")), "final"), [add], middleware=[rewrite]))

    assert summaries(recorder.run.calls) == [called("add", {"a": 40}, "c1", "42", requested={"a": 1})]


@scenario("S38", needs="limit_continue")
def test_blocked_by_a_limit() -> None:
    """A call that a limit refuses was rejected, and not executed."""
    from langchain.agents.middleware import ToolCallLimitMiddleware

    recorder = recorded(
        make_agent(
            scripted(asks(("add", {"a": 1}, "c1"), ("add", {"a": 2}, "c2")), "final"),
            [add],
            middleware=[ToolCallLimitMiddleware(run_limit=1)],
        )
    )

    first, second = recorder.run.calls
    assert summaries([first]) == [called("add", {"a": 1}, "c1", "3")]
    assert (second.input_parameters, second.output, second.execution.status.value) == ({"a": 2}, None, "rejected")
    assert not second.execution.executed
    assert second.execution.error


@scenario("S48")
def test_returned_directly() -> None:
    """What a tool returns directly is the answer of the run."""

    @tool(return_direct=True)
    def direct(x: int) -> str:
        """Answer."""
        return f"direct {x}"

    recorder = recorded(make_agent(scripted(asks(("direct", {"x": 1}, "c1")), "final"), [direct]))

    assert summaries(recorder.run.calls) == [called("direct", {"x": 1}, "c1", "direct 1")]
    assert recorder.run.actual_output == "direct 1"


@scenario("S49")
def test_a_tool_alone() -> None:
    """A tool that a program calls directly is a call by code."""
    recorder = ToolCallRecorder()

    add.invoke({"type": "tool_call", "name": "add", "args": {"a": 5}, "id": "z1"}, {"callbacks": [recorder]})

    assert summaries(recorder.run.calls) == [called("add", {"a": 5}, "z1", "7", origin="code")]
