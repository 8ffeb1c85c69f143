"""Scenarios 33-37: agents at once inside one tool, stored states, hand-overs that fail, and tools of other agents."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, function_tool, handoff
from oa_agents import (
    BOTH,
    LIVE,
    add,
    called,
    hard,
    make_agent,
    model_output,
    play,
    run_or_stream,
    scenario,
    slow,
    summaries,
)
from oa_versions import RESUMES_HANDOFFS
from pydantic import BaseModel

from toolgrade import Run, ToolCall
from toolgrade.testing import AskFor, HandOff
from toolgrade_openai_agents import record, run_from_result


def _children(call: ToolCall) -> list[ToolCall]:
    assert call.execution is not None
    return call.execution.children


@scenario("33b", LIVE)
def test_equal_agents_at_once_inside_one_tool(mode: str) -> None:
    """Equal calls of agents that run at once are separate calls, each with its own result."""
    tokens = iter("xyz")
    returned: list[str] = []

    @function_tool
    async def token() -> str:
        """Return another text each time."""
        returned.append(next(tokens))
        return returned[-1]

    @function_tool
    async def fan_out() -> str:
        """Ask three agents."""
        subs = [make_agent([AskFor("token", {}, "in1")], "done", tools=[token], name=f"S{n}") for n in range(3)]
        await asyncio.gather(*(Runner.run(sub, "q") for sub in subs))
        return "all"

    (call,) = play(mode, make_agent([AskFor("fan_out", {}, "o1")], "done", tools=[fan_out])).calls

    assert [(child.execution.agent, child.output) for child in _children(call) if child.execution] == [
        ("S0", "x"),
        ("S1", "y"),
        ("S2", "z"),
    ]
    assert returned == ["x", "y", "z"]


@scenario("33c", LIVE)
def test_hand_overs_at_once_inside_one_tool(mode: str) -> None:
    """Hand-overs of agents that run at once, under one id, lead to their own agents and are no calls."""

    @function_tool
    async def fan_out() -> str:
        """Ask two agents that hand over."""

        def front(n: int) -> Agent[Any]:
            back = make_agent([AskFor("add", {"a": n, "b": 0}, "b1")], f"bye {n}", tools=[add], name=f"B{n}")
            return make_agent([AskFor(f"transfer_to_b{n}", {}, "h1")], handoffs=[back], name=f"F{n}")

        await asyncio.gather(*(Runner.run(front(n), "q") for n in range(2)))
        return "all"

    (call,) = play(mode, make_agent([AskFor("fan_out", {}, "o1")], "done", tools=[fan_out])).calls

    inner = [child for child in _children(call) if child.name == "add"]
    assert summaries(inner) == [called("add", {"a": n, "b": 0}, "b1", {"sum": n}, agent=f"B{n}") for n in range(2)]
    transfers = [child for child in _children(call) if child.name != "add"]
    assert summaries(transfers) == [
        called(f"transfer_to_b{n}", {}, "h1", f'{{"assistant": "B{n}"}}', agent=f"F{n}") for n in range(2)
    ]


def _danger(log: list[int]) -> Any:
    @function_tool(needs_approval=True)
    async def danger(n: int) -> str:
        """A tool that needs approval."""
        log.append(n)
        return f"danger{n}"

    return danger


async def _stored(result: Any, agent: Agent[Any]) -> Any:
    """The state of a result as another process reads it, with every call approved."""
    from agents import RunState

    state = await RunState.from_json(agent, json.loads(json.dumps(result.to_state().to_json())))
    for item in state.get_interruptions():
        state.approve(item)
    return state


@scenario("34b", LIVE, needs="approvals")
def test_stored_states_with_other_calls_before(mode: str) -> None:
    """Waiting runs with the same question and equal waiting calls are told apart by the calls before."""
    log: list[int] = []

    async def go() -> list[Run]:
        agents = [
            make_agent(
                [AskFor("add", {"a": n, "b": 0}, "c0")],
                [AskFor("danger", {"n": 7}, "c1")],
                f"done {n}",
                tools=[add, _danger(log)],
            )
            for n in range(2)
        ]
        with record() as recorder:
            results = [await run_or_stream(mode, agent, "hi") for agent in agents]
            for n in (0, 1):
                await run_or_stream(mode, agents[n], await _stored(results[n], agents[n]))
        return recorder.runs

    runs = asyncio.run(go())

    assert [run.actual_output for run in runs] == ["done 0", "done 1"]
    assert [call.output for run in runs for call in run.calls] == [{"sum": 0}, "danger7", {"sum": 1}, "danger7"]
    assert [run.warnings for run in runs] == [[], []]


@scenario("34c", LIVE, needs="approvals")
def test_stored_states_that_are_equal(mode: str) -> None:
    """Waiting runs whose states are equal cannot be told apart: each resumes once, and each warns."""
    log: list[int] = []

    async def go() -> list[Run]:
        agents = [make_agent([AskFor("danger", {"n": 7}, "c1")], f"done {n}", tools=[_danger(log)]) for n in range(2)]
        with record() as recorder:
            results = [await run_or_stream(mode, agent, "hi") for agent in agents]
            for n in (0, 1):
                await run_or_stream(mode, agents[n], await _stored(results[n], agents[n]))
        return recorder.runs

    runs = asyncio.run(go())

    assert sorted(str(run.actual_output) for run in runs) == ["done 0", "done 1"]
    assert [summaries(run.calls) for run in runs] == [[called("danger", {"n": 7}, "c1", "danger7")]] * 2
    assert [len(run.warnings) for run in runs] == [1, 1]
    assert all(run.warnings[0].startswith("2 waiting runs fit the resumed state") for run in runs)


@pytest.mark.parametrize("stored", [False, True], ids=["kept", "stored"])
@scenario("35", LIVE, needs="approvals")
def test_waiting_runs_that_a_tool_resumes(mode: str, stored: bool) -> None:
    """Runs that wait inside one tool, and that the tool approves in another order, keep their own calls."""
    log: list[int] = []

    @function_tool
    async def fan_out() -> str:
        """Ask two agents and approve what they want."""
        subs = [
            make_agent([AskFor("danger", {"n": n}, "in1")], f"done {n}", tools=[_danger(log)], name=f"S{n}")
            for n in range(2)
        ]
        results = await asyncio.gather(*(Runner.run(sub, "q") for sub in subs))
        for n in (1, 0):
            state = results[n].to_state()
            if stored:
                state = await _stored(results[n], subs[n])
            for item in state.get_interruptions():
                state.approve(item)
            results[n] = await Runner.run(subs[n], state)
        return ", ".join(str(result.final_output) for result in results)

    (call,) = play(mode, make_agent([AskFor("fan_out", {}, "o1")], "done", tools=[fan_out])).calls

    assert log == [1, 0]
    assert call.output == "done 0, done 1"
    assert summaries(_children(call)) == [
        called("danger", {"n": n}, "in1", f"danger{n}", agent=f"S{n}") for n in range(2)
    ]


@pytest.mark.parametrize(
    "sibling", [AskFor("hard", {"x": 1}, "c1"), AskFor("nope", {}, "c1")], ids=["raises", "unknown"]
)
@scenario("36", LIVE)
def test_hand_over_in_a_run_that_ends_before_it(mode: str, sibling: AskFor) -> None:
    """A hand-over beside a call that ends the run never took place."""
    agent = make_agent([HandOff("b", "h1"), sibling], tools=[hard], handoffs=[make_agent("bye", name="B")])

    run = play(mode, agent).run

    assert (run.handoffs, run.failed_handoffs) == ([], [0])
    assert [call.name for call in run.tools_called] == [sibling.name]
    assert next(call.execution.status.value for call in run.calls if call.execution) == "not_executed"


class Reason(BaseModel):
    """The input of a hand-over."""

    reason: str


async def _note(_context: Any, _reason: Reason) -> None:
    """Take the input of a hand-over."""


def _refuse(_context: Any) -> None:
    raise ValueError("no transfer")


@pytest.mark.parametrize("why", ["input", "callback"])
@scenario("36b", LIVE)
def test_hand_over_that_fails(mode: str, why: str) -> None:
    """A hand-over whose input is refused, or whose callback raises, never took place."""
    other = make_agent("bye", name="B")
    options: Any = {"on_handoff": _note, "input_type": Reason} if why == "input" else {"on_handoff": _refuse}
    agent = make_agent([AskFor("transfer_to_b", {"x": 1}, "h1")], handoffs=[handoff(other, **options)])

    run = play(mode, agent).run

    assert (run.handoffs, run.failed_handoffs, run.tools_called) == ([], [0], [])
    assert run.status.value == "error"


@pytest.mark.parametrize("stored", [False, True], ids=["kept", "stored"])
@scenario("36c", LIVE, needs="approvals")
def test_hand_over_that_waits_for_another_call(mode: str, stored: bool) -> None:
    """A hand-over beside a call that waits for a person takes place after the decision, or when the state resumes."""
    log: list[int] = []
    other = make_agent([AskFor("add", {"a": 1, "b": 1}, "b1")], "bye", tools=[add], name="B")
    first = [AskFor("danger", {"n": 1}, "c1"), HandOff("b", "h1")]
    agent = make_agent(first, "alone", tools=[_danger(log)], handoffs=[other])

    async def go() -> tuple[Run, Run, Run]:
        with record() as recorder:
            result = await run_or_stream(mode, agent, "hi")
            before, read = recorder.last_run, run_from_result(result)
            if not stored:
                state = result.to_state()
                for item in state.get_interruptions():
                    state.approve(item)
                await run_or_stream(mode, agent, state)
                return before, read, recorder.last_run
        state = await _stored(result, agent)
        with record() as recorder:
            await run_or_stream(mode, agent, state)
        return before, read, recorder.last_run

    before, read, after = asyncio.run(go())

    for run in (before, read):
        assert (run.status.value, run.handoffs, run.failed_handoffs) == ("interrupted", [], [1])
    if not RESUMES_HANDOFFS:
        assert (after.handoffs, after.failed_handoffs, after.actual_output) == ([], [1], "alone")
        return
    assert [(one.call, one.from_agent, one.to_agent) for one in after.handoffs] == [(1, "A", "B")]
    assert after.failed_handoffs == []
    assert summaries(after.tools_called) == [
        called("danger", {"n": 1}, "c1", "danger1"),
        called("add", {"a": 1, "b": 1}, "b1", {"sum": 2}, agent="B"),
    ]


@scenario("36d", LIVE)
def test_hand_over_that_is_not_enabled(mode: str) -> None:
    """A hand-over that is not enabled never took place, and the run ends: the SDK does not find it."""
    disabled = handoff(make_agent("bye", name="B"), is_enabled=False)

    run = play(mode, make_agent([HandOff("b", "h1")], tools=[add], handoffs=[disabled])).run

    assert (run.handoffs, run.failed_handoffs, run.tools_called) == ([], [0], [])
    assert run.error == "ModelBehaviorError: Tool transfer_to_b not found in agent A"


@scenario("36e", BOTH, needs="not_found")
def test_hand_over_beside_one_that_is_not_enabled(mode: str) -> None:
    """The hand-over that is enabled takes place, though another one stands before it; unknown names are tools."""
    config: Any = RunConfig(tool_not_found_behavior="return_error_to_model")
    disabled = handoff(make_agent("bye", name="B"), is_enabled=False)
    other = make_agent([AskFor("add", {"a": 1, "b": 1}, "c1")], "bye", tools=[add], name="C")
    requests = [HandOff("b", "h1"), HandOff("nobody", "h2"), HandOff("c", "h3")]

    run = play(mode, make_agent(requests, tools=[add], handoffs=[disabled, other]), run_config=config).run

    assert [(one.call, one.to_agent) for one in run.handoffs] == [(2, "C")]
    assert run.failed_handoffs == [0]
    statuses = [(call.name, call.execution.status.value) for call in run.tools_called if call.execution]
    assert statuses == [("transfer_to_nobody", "unknown_tool"), ("add", "ok")]


@scenario("36f", BOTH)
def test_tool_with_the_name_of_a_hand_over_that_is_not_enabled(mode: str) -> None:
    """The SDK runs the tool, so it is called."""

    @function_tool
    def transfer_to_b() -> str:
        """Transfer money."""
        return "transferred"

    disabled = handoff(make_agent("bye", name="B"), is_enabled=False)
    agent = make_agent([AskFor("transfer_to_b", {}, "c1")], "done", tools=[transfer_to_b], handoffs=[disabled])

    run = play(mode, agent).run

    assert (run.handoffs, run.failed_handoffs) == ([], [])
    assert summaries(run.tools_called) == [called("transfer_to_b", {}, "c1", "transferred")]


@scenario("36g", LIVE)
def test_hand_over_inside_a_tool_that_fails(mode: str) -> None:
    """An agent inside a tool that cannot hand over fails, and so does its tool; neither run has handed over."""
    inner = make_agent(
        [HandOff("b", "h1")], name="Sub", handoffs=[handoff(make_agent("bye", name="B"), on_handoff=_refuse)]
    )
    agent = make_agent([AskFor("ask", {"input": "q"}, "o1")], "done", tools=[_asking(inner)])

    run = play(mode, agent).run

    assert (run.handoffs, run.failed_handoffs) == ([], [])
    assert [call.name for call in run.tools_called] == ["ask"]
    assert [call.execution.status.value for call in _children(run.tools_called[0]) if call.execution] == [
        "not_executed"
    ]


def _asking(agent: Agent[Any]) -> Any:
    """A tool that begins a run of an agent."""

    @function_tool
    async def ask(input: str) -> str:
        """Ask."""
        return str((await Runner.run(agent, input)).final_output)

    return ask


class Total(BaseModel):
    """A structured answer."""

    total: int


@scenario("39", BOTH)
def test_tool_that_carries_the_structured_answer(mode: str) -> None:
    """The call by which a model behind LiteLLM answers is neither called nor offered, unless a tool has its name."""
    answer = AskFor("json_tool_call", {"total": 3}, "c2")
    options: Any = {"tool_use_behavior": {"stop_at_tool_names": ["json_tool_call"]}, "output_type": Total}
    agent = make_agent([AskFor("add", {"a": 1, "b": 2}, "c1")], [answer], tools=[add], **options)

    run = play(mode, agent).run

    assert summaries(run.calls) == [called("add", {"a": 1, "b": 2}, "c1", {"sum": 3})]
    assert json.loads(run.actual_output or "") == {"total": 3}

    @function_tool
    def json_tool_call(total: int) -> str:
        """A tool of the same name."""
        return f"total {total}"

    own = play(mode, make_agent([answer], tools=[json_tool_call], **options)).run

    assert summaries(own.calls) == [called("json_tool_call", {"total": 3}, "c2", "total 3")]


@scenario("37", BOTH, needs="not_found")
def test_tool_of_the_agent_before(mode: str) -> None:
    """An agent that calls a tool which only the agent before it has calls an unknown tool."""
    config: Any = RunConfig(tool_not_found_behavior="return_error_to_model")
    other = make_agent([AskFor("add", {"a": 1, "b": 1}, "b1")], "bye", tools=[slow], name="B")
    agent = make_agent([AskFor("add", {"a": 2, "b": 1}, "a1")], [HandOff("b", "h1")], tools=[add], handoffs=[other])

    first, second = play(mode, agent, run_config=config).calls

    assert summaries([first]) == [called("add", {"a": 2, "b": 1}, "a1", {"sum": 3})]
    assert second.execution is not None
    assert (second.execution.status.value, second.execution.executed) == ("unknown_tool", False)
    assert model_output(second).startswith("Tool 'add' not found.")


@scenario("37b", LIVE)
def test_two_unknown_tools_at_once(mode: str) -> None:
    """Both are unknown, although the run ends at the first."""
    calls = play(mode, make_agent([AskFor("x", {}, "c1"), AskFor("y", {}, "c2")], tools=[add])).calls

    assert [call.execution.status.value for call in calls if call.execution] == ["unknown_tool"] * 2


@pytest.mark.parametrize("arguments", [{"a": "one"}, {}, '{"a": 1'], ids=["wrong", "missing", "broken"])
@scenario("38", LIVE)
def test_arguments_that_the_sdk_refuses(mode: str, arguments: Any) -> None:
    """The tool itself did not run, and the call has failed."""
    (call,) = play(mode, make_agent([AskFor("add", arguments, "c1")], "done", tools=[add])).calls

    assert call.execution is not None
    status = "invalid_arguments" if isinstance(arguments, str) else "error"
    assert (call.execution.status.value, call.execution.executed) == (status, False)
