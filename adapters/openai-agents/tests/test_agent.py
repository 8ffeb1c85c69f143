"""Agents of the SDK as an evaluation asks them."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    RunHooks,
    Runner,
    SQLiteSession,
    function_tool,
    input_guardrail,
    output_guardrail,
)
from oa_agents import add, called, hard, make_agent, summaries
from oa_models import Scripted
from oa_versions import FEATURES

from recorder_blocks import ask
from toolgrade import Approve, ConfigurationError, Golden, Reject, Run, ToolCorrectnessMetric, evaluate
from toolgrade.agents import Conversation
from toolgrade.testing import AskFor
from toolgrade_openai_agents import as_agent, record


def test_turns_of_a_conversation_remember() -> None:
    """The second turn receives the items of the first and has its own question and calls."""
    model = Scripted([AskFor("add", {"a": 1, "b": 2}, "c1")], "three", "still three")

    first, second = ask(as_agent(Agent(name="A", model=model, tools=[add])), "1+2?", "really?")

    assert summaries(first.calls) == [called("add", {"a": 1, "b": 2}, "c1", {"sum": 3})]
    assert (second.input, second.actual_output, second.calls) == ("really?", "still three", [])
    assert (first.conversation_id, second.conversation_id) == ("one", "one")
    prompts = [item.get("content") for item in model.inputs[-1] if item.get("role") == "user"]
    assert prompts == ["1+2?", "really?"]


def test_conversation_continues_with_the_last_agent() -> None:
    """After a hand-off, the next turn goes to the other agent."""
    other = make_agent("I am B", "still B", name="B")
    agent = make_agent([AskFor("transfer_to_b", {}, "h1")], handoffs=[other])

    runs = ask(as_agent(agent), "hi", "who?")

    assert [run.actual_output for run in runs] == ["I am B", "still B"]


def test_conversations_are_separate() -> None:
    """A conversation sees nothing of an earlier one."""
    model = Scripted("one", "two")
    agent = as_agent(Agent(name="A", model=model))

    ask(agent, "hi")
    ask(agent, "ho")

    assert [[item["content"] for item in messages] for messages in model.inputs] == [["hi"], ["ho"]]


def test_options_are_those_of_the_runner() -> None:
    """A limit of turns is heeded."""
    agent = make_agent([AskFor("add", {"a": 1, "b": 2}, "c1")], "three", tools=[add])

    (run,) = ask(as_agent(agent, max_turns=1), "1+2?")

    assert (run.status.value, len(run.calls)) == ("stopped", 1)


# Runs that wait for a person


def paying(**options: Any) -> Any:
    """An agent that pays twice at once, for which it needs approval, and answers once more."""
    pay = function_tool(lambda x: f"paid {x}", name_override="pay", strict_mode=False, needs_approval=True)
    calls = [AskFor("pay", {"x": 1}, "c1"), AskFor("pay", {"x": 2}, "c2")]
    return as_agent(make_agent(calls, "done", "bye", tools=[pay]), **options)


needs_approvals = pytest.mark.skipif(not FEATURES["approvals"].is_due(), reason="approvals are newer")
ANSWERS = {
    "approved": (Approve(), "ok", ["paid 1", "paid 2"]),
    "rejected": (Reject(), "rejected", [None, None]),
    "rejected-with-a-reason": (Reject("too much"), "rejected", [None, None]),
}


@needs_approvals
@pytest.mark.parametrize(("answer", "status", "outputs"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_of_a_person(answer: Any, status: str, outputs: list[Any]) -> None:
    """Each call that waits gets the answer, in the run that waited; the model is told why, where it can be."""
    waiting, run, last = ask(paying(), "hi", answer, "more")

    assert (waiting.status.value, run.status.value, run.input, run.actual_output) == ("interrupted", "ok", "hi", "done")
    assert [(call.id, call.output) for call in run.calls] == list(zip(("c1", "c2"), outputs, strict=True))
    assert {call.execution.status.value for call in run.calls if call.execution} == {status}
    from agents import RunState

    if answer == Reject("too much") and "rejection_message" in inspect.signature(RunState.reject).parameters:
        assert {call.execution.model_output for call in run.calls if call.execution} == {"too much"}
    assert (last.input, last.actual_output, last.calls) == ("more", "bye", [])


@needs_approvals
def test_a_text_is_no_decision() -> None:
    """The error says which answers there are, and the run still waits."""

    async def go() -> Run:
        agent, conversation = paying(), Conversation("one")
        await agent("hi", conversation)
        with pytest.raises(ConfigurationError, match=r"must be Approve\(\) or Reject\(\)"):
            await agent("yes", conversation)
        return await agent(Approve(), conversation)

    assert asyncio.run(go()).actual_output == "done"


def test_a_session_for_each_conversation() -> None:
    """A function makes it of the id; each conversation sees its own turns only."""
    model = Scripted("one", "two", "three")
    sessions: dict[str, SQLiteSession] = {}

    def session(name: str) -> SQLiteSession:
        return sessions.setdefault(name, SQLiteSession(name))

    agent = as_agent(Agent(name="A", model=model), session=session)

    async def go() -> None:
        first, second = Conversation("first"), Conversation("second")
        for conversation in (first, second, first):
            await agent("hi", conversation)
        for one in sessions.values():
            one.close()

    asyncio.run(go())

    assert list(sessions) == ["first", "second"]
    assert [len(messages) for messages in model.inputs] == [1, 1, 3]


# Agents that do not end well


@function_tool(strict_mode=False, failure_error_function=None)
def leave(x: int) -> str:
    """End the program."""
    sys.exit(x)


@input_guardrail
async def no_input(_context: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
    """Refuse every question."""
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)


@output_guardrail
async def no_output(_context: Any, _agent: Any, _output: Any) -> GuardrailFunctionOutput:
    """Refuse every answer."""
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)


class FullDisk(SQLiteSession):
    """A session that stores nothing."""

    async def add_items(self, items: Any) -> None:  # noqa: ARG002 - it only fails
        """Fail."""
        self.close()
        raise OSError("disk full")


class Hooks(RunHooks[Any]):
    """Hooks that fail when the agent has answered."""

    async def on_agent_end(self, *_arguments: Any) -> None:
        """Fail."""
        raise LookupError("no such field")


def with_tool(name: str, arguments: dict[str, Any], *tools: Any) -> Any:
    """An agent that adds, calls this tool and is done."""
    return make_agent(ADD, [AskFor(name, arguments, "c2")], "done", tools=[add, *tools])


ADD = [AskFor("add", {"a": 1, "b": 2}, "c1")]
ENDLESS = [[AskFor("add", {"a": 1, "b": number}, f"c{number}")] for number in range(5)]
ENDS: dict[str, tuple[Any, str, str, list[str] | None]] = {
    "tool-crashes": (lambda: as_agent(with_tool("hard", {"x": 1}, hard)), "error", r"\w+: .*hard 1", ["add", "hard"]),
    "tool-exits": (lambda: as_agent(with_tool("leave", {"x": 1}, leave)), "error", "SystemExit: 1", ["add", "leave"]),
    "limit": (
        lambda: as_agent(make_agent(*ENDLESS, tools=[add]), max_turns=3),
        *("stopped", r"MaxTurnsExceeded: Max turns \(3\) exceeded", ["add"] * 3),
    ),
    "guardrail-of-input": (
        lambda: as_agent(make_agent(ADD, "done", tools=[add], input_guardrails=[no_input])),
        *("stopped", "InputGuardrailTripwireTriggered: Guardrail", None),
    ),
    "guardrail-of-output": (
        lambda: as_agent(make_agent(ADD, "done", tools=[add], output_guardrails=[no_output])),
        *("stopped", "OutputGuardrailTripwireTriggered: Guardrail", ["add"]),
    ),
    "session": (lambda: as_agent(make_agent("done"), session=FullDisk("one")), "error", "OSError: disk full", []),
    "hooks": (
        lambda: as_agent(make_agent(ADD, "done", tools=[add]), hooks=Hooks()),
        "error",
        "LookupError: no",
        ["add"],
    ),
    "no-agent": (lambda: as_agent(object()), "error", "AttributeError|AgentsException|TypeError|UserError", None),
    "stream-left": (lambda: leaves_its_stream, "stopped", "the run had not ended when it was read", None),
    "stream-cancelled": (lambda: cancels_its_stream, "stopped", "the stream was left before its end", None),
}


@pytest.mark.parametrize(("make", "status", "error", "calls"), ENDS.values(), ids=ENDS)
def test_an_agent_that_does_not_end_well(make: Any, status: str, error: str, calls: list[str] | None) -> None:
    """Its run says so in the words of the exception, and has the calls until then, where they do not depend on time."""
    run = run_of(make())

    assert (run.status.value, run.actual_output) == (status, None)
    assert re.match(error, run.error or "")
    assert calls is None or [call.name for call in run.calls] == calls


@needs_approvals
def test_an_agent_that_waits_for_a_person() -> None:
    """Its run is interrupted, and its call waits."""
    pay = function_tool(lambda x: f"paid {x}", name_override="pay", strict_mode=False, needs_approval=True)

    run = run_of(as_agent(with_tool("pay", {"x": 1}, pay)))

    assert (run.status.value, [call.name for call in run.calls]) == ("interrupted", ["add", "pay"])


async def leaves_its_stream(question: str, _conversation: Conversation) -> Run:
    """Read the first events only."""
    with record() as recorder:
        result = Runner.run_streamed(make_agent(ADD, "done", tools=[add]), question)
        async for event in result.stream_events():
            if event.type == "run_item_stream_event":
                break
    return recorder.last_run


async def cancels_its_stream(question: str, _conversation: Conversation) -> Run:
    """Cancel the run at the first call."""
    with record() as recorder:
        result = Runner.run_streamed(make_agent(ADD, "done", tools=[add]), question)
        async for event in result.stream_events():
            if event.type == "run_item_stream_event":
                result.cancel()
    return recorder.last_run


def run_of(agent: Any) -> Run:
    """The run that an evaluation gets of an agent."""
    golden = Golden(input="hi", expected_tools=[])
    (case,) = evaluate(goldens=[golden], agent=agent, metrics=[ToolCorrectnessMetric(threshold=1)]).cases
    assert isinstance(case.case.run, Run)
    return case.case.run
