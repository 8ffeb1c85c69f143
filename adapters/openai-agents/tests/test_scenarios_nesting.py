"""Scenarios 10, 12, 14-17, 27, 28: agents as tools, runs in guardrails, hand-offs, approvals, repeated ids."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agents import (
    Agent,
    AgentHooks,
    RunHooks,
    Runner,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    function_tool,
    handoff,
)
from agents.extensions.handoff_filters import remove_all_tools
from oa_agents import (
    LIVE,
    add,
    boom,
    called,
    make_agent,
    play,
    run_or_stream,
    scenario,
    slow,
    summaries,
    summary,
)
from oa_versions import ENFORCES_IDS, VERSION

from toolgrade import Run
from toolgrade.testing import AskFor
from toolgrade_openai_agents import record, run_from_result


def _sub(call_id: str = "in1") -> Agent[Any]:
    requests = [AskFor("add", {"a": 5, "b": 5}, call_id)]
    return make_agent(requests, "sub done", tools=[add, boom], name="Sub")


@scenario("12b", LIVE)
def test_run_inside_a_guardrail(mode: str) -> None:
    """A run that a guardrail begins is neither a call of the run nor its newest run."""
    from agents import GuardrailFunctionOutput, input_guardrail

    @input_guardrail
    async def check(_context: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
        await Runner.run(_sub(), "is this fine?")
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    agent = make_agent([AskFor("add", {"a": 1, "b": 1}, "c1")], "done", tools=[add], input_guardrails=[check])

    async def go() -> tuple[list[Run], list[Run]]:
        with record() as recorder:
            await run_or_stream(mode, agent, "hi")
        return recorder.runs, recorder.inner_runs

    runs, inner = asyncio.run(go())

    assert [summaries(run.calls) for run in runs] == [[called("add", {"a": 1, "b": 1}, "c1", {"sum": 2})]]
    assert [run.input for run in inner] == ["is this fine?"]


def _asking(*names: str) -> type:
    """A class of hooks, each of which asks another agent."""

    async def ask(*_args: Any) -> None:
        await Runner.run(_sub(), "hook")

    return type("Asking", (), dict.fromkeys(names, ask))


class _Hooks(_asking("on_tool_start", "on_tool_end", "on_llm_end"), RunHooks[Any]):  # type: ignore[misc]
    """Hooks of a run."""


class _OwnHooks(_asking("on_tool_start", "on_tool_end"), AgentHooks[Any]):  # type: ignore[misc]
    """Hooks of an agent."""


@scenario("12c", LIVE)
def test_runs_inside_hooks_and_guardrails_of_a_tool(mode: str) -> None:
    """Hooks and guardrails run while a tool does; the runs that they begin are not calls of the tool."""

    async def check(_data: Any) -> ToolGuardrailFunctionOutput:
        await Runner.run(_sub(), "guardrail")
        return ToolGuardrailFunctionOutput.allow()

    @function_tool
    async def delegate(n: int) -> str:
        await Runner.run(_sub(), "tool")
        return f"delegated {n}"

    delegate.tool_input_guardrails = [ToolInputGuardrail(check)]
    delegate.tool_output_guardrails = [ToolOutputGuardrail(check)]
    agent = make_agent([AskFor("delegate", {"n": 1}, "d1")], "done", tools=[delegate], hooks=_OwnHooks())

    async def go() -> tuple[list[Run], list[Run]]:
        with record() as recorder:
            await run_or_stream(mode, agent, "hi", hooks=_Hooks())
        return recorder.runs, recorder.inner_runs

    [run], inner = asyncio.run(go())

    [call] = run.calls
    assert summary(call) == called("delegate", {"n": 1}, "d1", "delegated 1")
    assert call.execution
    assert [child.id for child in call.execution.children] == ["in1"]
    assert sorted(str(run.input) for run in inner) == ["guardrail"] * 2 + ["hook"] * 6
    assert all([call.name for call in run.calls] == ["add"] for run in inner)
    assert "on_tool_start" not in vars(agent.hooks)


def _handing_over(**options: Any) -> Agent[Any]:
    other = make_agent([AskFor("add", {"a": 9, "b": 9}, "b1")], "bye", tools=[add], name="B")
    first = [AskFor("add", {"a": 1, "b": 1}, "a1")]
    return make_agent(first, [AskFor("transfer_to_b", {}, "h1")], tools=[add], handoffs=[handoff(other, **options)])


HANDED_OVER = [
    called("add", {"a": 1, "b": 1}, "a1", {"sum": 2}),
    called("add", {"a": 9, "b": 9}, "b1", {"sum": 18}, agent="B"),
]


@scenario("14")
def test_handing_over_without_the_tools(mode: str) -> None:
    """A filter that takes the calls out of the history does not take them out of the run."""
    calls = play(mode, _handing_over(input_filter=remove_all_tools)).calls

    if mode == "result" and VERSION < (0, 8):  # what the first call returned is gone from the result
        assert [(call.name, call.id) for call in calls] == [("add", "a1"), ("add", "b1")]
        return
    assert [fields | {"agent": "A"} | one for fields, one in zip(summaries(calls), HANDED_OVER, strict=True)] == [
        {"agent": "A"} | one for one in HANDED_OVER
    ]


@scenario("15")
def test_two_hand_overs_at_once(mode: str) -> None:
    """Of two hand-overs in one message the second is refused; neither is a called tool."""
    other, third = make_agent("bye", name="B"), make_agent("bye", name="C")
    requests = [
        AskFor("transfer_to_b", {}, "h1"),
        AskFor("transfer_to_c", {}, "h2"),
        AskFor("add", {"a": 1, "b": 1}, "a1"),
    ]

    run = play(mode, make_agent(requests, tools=[add], handoffs=[other, third])).run

    assert summaries(run.tools_called) == [called("add", {"a": 1, "b": 1}, "a1", {"sum": 2})]
    first, second, _ = run.select_calls(handoffs=True)
    assert (first.execution and first.execution.status.value) == "ok"
    assert (second.execution and second.execution.status.value) == "rejected"
    assert (second.execution and second.execution.error) == "Multiple handoffs detected, ignoring this one."
    assert [(handoff.call, handoff.to_agent) for handoff in run.handoffs] == [(0, "B")]
    assert run.failed_handoffs == [1]


def _danger() -> Any:
    @function_tool(needs_approval=True)
    async def danger(n: int) -> str:
        """A tool that needs approval."""
        return f"danger{n}"

    return danger


def _careful(tools: list[Any]) -> Agent[Any]:
    requests = [
        AskFor("danger", {"n": 1}, "c1"),
        AskFor("danger", {"n": 2}, "c2"),
        AskFor("add", {"a": 1, "b": 1}, "c3"),
    ]
    return make_agent(requests, "done", tools=tools)


PAUSED = [
    called("danger", {"n": 1}, "c1", status="pending"),
    called("danger", {"n": 2}, "c2", status="pending"),
    called("add", {"a": 1, "b": 1}, "c3", {"sum": 2}),
]
DECIDED = [
    called("danger", {"n": 1}, "c1", "danger1"),
    called("danger", {"n": 2}, "c2", status="rejected", error="Tool execution was not approved."),
    called("add", {"a": 1, "b": 1}, "c3", {"sum": 2}),
]


async def _decide(result: Any, agent: Agent[Any], *, stored: bool) -> Any:
    from agents import RunState

    state = result.to_state()
    if stored:
        state = await RunState.from_json(agent, json.loads(json.dumps(state.to_json())))
    for item in state.get_interruptions():
        if item.raw_item.call_id == "c2":
            state.reject(item)
        else:
            state.approve(item)
    return state


@pytest.mark.parametrize("stored", [False, True], ids=["kept", "stored"])
@scenario("16", needs="approvals")
def test_approvals(mode: str, stored: bool) -> None:
    """A run that waits for approval stays one run when it resumes: each call once, with its final status."""
    agent = _careful([_danger(), add])

    async def go() -> tuple[Run, Run, int]:
        with record() as recorder:
            result: Any = await run_or_stream(mode, agent, "hi")
            before = run_from_result(result) if mode == "result" else recorder.last_run
            result = await run_or_stream(mode, agent, await _decide(result, agent, stored=stored))
        after = run_from_result(result) if mode == "result" else recorder.last_run
        return before, after, len(recorder.runs)

    before, after, runs = asyncio.run(go())

    assert summaries(before.tools_called) == PAUSED
    assert (before.status.value, before.actual_output) == ("interrupted", None)
    assert summaries(after.tools_called) == DECIDED
    assert (after.status.value, after.actual_output, after.input) == ("ok", "done", "hi")
    assert runs == 1


@scenario("16b", LIVE, needs="approvals")
def test_approvals_of_a_run_that_was_not_recorded(mode: str) -> None:
    """A run that resumes one of another process has the calls of both."""
    agent = _careful([_danger(), add])

    async def go() -> Run:
        state = await _decide(await Runner.run(agent, "hi"), agent, stored=True)
        with record() as recorder:
            await run_or_stream(mode, agent, state)
        return recorder.last_run

    run = asyncio.run(go())

    assert summaries(run.tools_called) == DECIDED
    assert (run.status.value, run.input) == ("ok", "hi")


@pytest.mark.parametrize("stored", [False, True], ids=["kept", "stored"])
@scenario("17", LIVE, needs="approvals")
def test_approvals_inside_a_tool(mode: str, stored: bool) -> None:
    """A call that waits inside an agent tool leaves the tool's call pending as well."""
    sub = make_agent([AskFor("danger", {"n": 1}, "in1")], "sub done", tools=[_danger()], name="Sub")
    agent = make_agent([AskFor("ask", {"input": "q"}, "o1")], "done", tools=[sub.as_tool("ask", "Ask.")])

    async def go() -> tuple[Run, Run, int]:
        with record() as recorder:
            result = await run_or_stream(mode, agent, "hi")
            before = recorder.last_run
            await run_or_stream(mode, agent, await _decide(result, agent, stored=stored))
        return before, recorder.last_run, len(recorder.runs)

    before, after, runs = asyncio.run(go())

    waiting = called("danger", {"n": 1}, "in1", status="pending", agent="Sub")
    assert summaries(before.select_calls(nested=True)) == [
        called("ask", {"input": "q"}, "o1", status="pending"),
        waiting,
    ]
    assert before.status.value == "interrupted"
    assert summaries(after.select_calls(nested=True)) == [
        called("ask", {"input": "q"}, "o1", "sub done"),
        called("danger", {"n": 1}, "in1", "danger1", agent="Sub"),
    ]
    assert runs == 1


@scenario("27b")
@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
def test_calls_that_come_again_word_for_word(mode: str, apart: bool) -> None:
    """Same id, same words: releases that enforce ids run it once, and it counts once; others run it twice."""
    call = AskFor("add", {"a": 1, "b": 2}, "c1")
    agent = make_agent(*([[call], [call]] if apart else [[call, call]]), "done", tools=[add])

    with record() as recorder:
        result = asyncio.run(run_or_stream(mode, agent, "hi"))
    run = run_from_result(result) if mode == "result" else recorder.last_run

    once = [called("add", {"a": 1, "b": 2}, "c1", {"sum": 3})]
    assert summaries(run.calls) == once * (1 if ENFORCES_IDS else 2)
    assert any("came twice" in warning for warning in run.warnings) == ENFORCES_IDS


@scenario("28", ())
def test_stream_that_is_cancelled(mode: str) -> None:  # noqa: ARG001
    """A stream that is cancelled while a tool runs was stopped; the call was given up."""
    agent = make_agent([AskFor("slow", {"d": 1.0}, "c1")], "never", tools=[slow])

    async def go() -> Run:
        with record() as recorder:
            result = Runner.run_streamed(agent, "hi")
            async for event in result.stream_events():
                if getattr(event, "name", None) == "tool_called":
                    await asyncio.sleep(0.05)
                    result.cancel()
        await asyncio.sleep(0.01)
        return recorder.last_run

    run = asyncio.run(go())

    assert summaries(run.calls) == [called("slow", {"d": 1.0}, "c1", status="cancelled")]
    assert run.status.value == "stopped"
