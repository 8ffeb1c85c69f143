"""`run_case` asks an agent a question and returns a case, even if the agent fails."""

import asyncio
import time
from typing import Any

import pytest
from li_agents import add, agent, asks, slow, summaries
from li_versions import WORKFLOWS_2
from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)

from toolgrade import Golden, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade_llama_index import as_agent, record, run_case

ADDED = asks(("add", {"a": 1, "b": 2}, "c1"))
SLOW = asks(("slow", {"ms": 2000}, "c1"))
SLOW_STEP = asks(("slow", {"ms": 300}, "c2"))


def test_a_case_that_can_be_scored() -> None:
    """The case holds the question, the answer, the calls and the expected calls."""
    expected = [ToolCall(name="add", input_parameters={"a": 1, "b": 2})]

    case = asyncio.run(run_case(agent(ADDED, "3", tools=[add]), "1+2?", expected_tools=expected, id="sum"))

    assert (case.id, case.input, case.actual_output) == ("sum", "1+2?", "3")
    assert summaries(case.tools_called or []) == [("add", {"a": 1, "b": 2}, "c1", 3)]
    assert ToolCorrectnessMetric().measure(case).score == 1


def test_failure_is_recorded_in_the_run() -> None:
    """A failing model raises nothing here; the calls before the failure are kept."""
    case = asyncio.run(run_case(agent(ADDED, RuntimeError("rate limit"), tools=[add]), "1+2?"))

    assert case.run is not None
    assert case.run.status.value == "error"
    assert "rate limit" in (case.run.error or "")
    assert summaries(case.tools_called or []) == [("add", {"a": 1, "b": 2}, "c1", 3)]


class Unready:
    """An agent that cannot even begin."""

    def run(self, **_: Any) -> Any:
        """Fail."""
        raise ValueError("no model")


def test_an_agent_that_does_not_begin() -> None:
    """An agent that does not start is a failed run."""
    case = asyncio.run(run_case(Unready(), "1+2?"))

    assert case.run is not None
    assert (case.input, case.run.status.value, case.run.error) == ("1+2?", "error", "ValueError: no model")
    assert case.tools_called == []


def test_a_time_limit() -> None:
    """A run that takes too long is cancelled, and says why; the call that ran was given up."""
    case = asyncio.run(run_case(agent(SLOW, "done", tools=[slow]), "wait", timeout=0.2))

    assert case.run is not None
    assert (case.run.status.value, case.run.error) == ("stopped", "not finished within 0.2 seconds")
    assert summaries(case.tools_called or []) == [("slow", {"ms": 2000}, "c1", "cancelled")]


def test_the_callers_cancellation_is_passed_on() -> None:
    """Whoever cancels the caller cancels the run."""

    async def go() -> bool:
        task = asyncio.ensure_future(run_case(agent(SLOW, "done", tools=[slow]), "wait"))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled()

    assert asyncio.run(go())


@pytest.mark.parametrize("is_async", [False, True])
def test_events_are_handed_on(is_async: bool) -> None:
    """All events of the run's stream are passed on; an async callback is awaited."""
    names: list[str] = []

    def listen(event: Event) -> None:
        names.append(type(event).__name__)

    async def alisten(event: Event) -> None:
        await asyncio.sleep(0.001)
        listen(event)

    asyncio.run(run_case(agent(ADDED, "3", tools=[add]), "1+2?", on_event=alisten if is_async else listen))

    assert names[0] == "AgentInput"
    assert names[-1] == "StopEvent"
    assert names.count("ToolCallResult") == 1


def test_an_error_of_the_listener_is_the_callers() -> None:
    """An error of the callback ends the run and is raised."""

    def listen(event: Event) -> None:
        raise LookupError(type(event).__name__)

    with pytest.raises(LookupError, match="AgentInput"):
        asyncio.run(run_case(agent(SLOW, "done", tools=[slow]), "wait", on_event=listen))


class FatalError(BaseException):
    """What no agent handles."""


def fatal() -> str:
    """End everything."""
    raise FatalError("fatal!")


def test_a_stream_that_never_ends() -> None:
    """A tool with an unhandled exception ends the run but not its stream; `run_case` does not wait for the stream."""
    workflow = agent(asks(("fatal", {}, "c1")), "never said", tools=[fatal])

    case = asyncio.run(run_case(workflow, "x", on_event=lambda _: None, timeout=2))

    assert summaries(case.tools_called or []) == [("fatal", {}, "c1", "! FatalError: fatal!")]


def test_inside_a_recorder() -> None:
    """Inside another recorder, only the innermost one records the run."""

    async def go() -> int:
        async with record() as rec:
            await run_case(agent("hi"), "hello")
        return len(rec.runs)

    assert asyncio.run(go()) == 0


async def danger(ctx: Context, target: str) -> str:
    """Ask a person first."""
    answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix=target))
    return f"{target}: {answer.response}"


ASKS_A_PERSON = asks(("danger", {"target": "db"}, "c1"), ("slow", {"ms": 300}, "c2"))


@pytest.mark.skipif(not WORKFLOWS_2, reason="before workflows 2, a tool that waits is not suspended")
def test_question_to_a_person_interrupts() -> None:
    """Without an answer the run is left when the other calls have ended, and not at the time limit."""
    started = time.monotonic()
    case = asyncio.run(run_case(agent(ASKS_A_PERSON, "done", tools=[danger, slow]), "x", timeout=10))

    assert time.monotonic() - started < 5
    assert case.run is not None
    assert (case.run.status.value, case.run.error, case.actual_output) == ("interrupted", None, None)
    assert summaries(case.tools_called or []) == [
        ("danger", {"target": "db"}, "c1", "pending"),
        ("slow", {"ms": 300}, "c2", "slept 300"),
    ]


@pytest.mark.parametrize("is_async", [False, True])
def test_answer_of_a_person(is_async: bool) -> None:
    """The answers of `human` are passed on, as texts or events."""
    prefixes: list[str] = []

    def answer(event: InputRequiredEvent) -> str:
        prefixes.append(event.get("prefix"))
        return "yes"

    async def aanswer(event: InputRequiredEvent) -> HumanResponseEvent:
        return HumanResponseEvent(response=answer(event))

    workflow = agent(ASKS_A_PERSON, "done", tools=[danger, slow])
    case = asyncio.run(run_case(workflow, "x", timeout=10, human=aanswer if is_async else answer))

    assert prefixes
    assert set(prefixes) == {"db"}
    assert case.actual_output == "done"
    assert summaries(case.tools_called or [])[0] == ("danger", {"target": "db"}, "c1", "db: yes")


class Consent(HumanResponseEvent):
    """An answer of the program's own."""


class Asking(Workflow):
    """A workflow that waits for an answer with a certain field."""

    @step
    async def go(self, ctx: Context, ev: StartEvent) -> StopEvent:
        """Ask."""
        question = InputRequiredEvent(prefix=str(ev.get("user_msg")))
        answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=question, requirements={"about": "db"})
        return StopEvent(result=answer.response)


async def certain(ctx: Context, target: str) -> str:
    """Ask a person, who has to name the target."""
    answer = await ctx.wait_for_event(
        HumanResponseEvent,
        waiter_id=target,
        waiter_event=InputRequiredEvent(prefix=target),
        requirements={"about": target},
    )
    return f"{target}: {answer.response}"


def two_questions() -> Any:
    """An agent whose tool asks twice at once."""
    calls = asks(("certain", {"target": "db"}, "c1"), ("certain", {"target": "web"}, "c2"))
    return agent(calls, "done", tools=[certain])


REPLIES = {
    "a text": lambda _: "yes",
    "another field": lambda event: HumanResponseEvent(response="yes", about=f"no {event.prefix}"),
    "another class": lambda event: Consent(response="yes", about=event.prefix),
}


@pytest.mark.skipif(not WORKFLOWS_2, reason="before workflows 2, a tool that waits is not suspended")
@pytest.mark.parametrize("workflow", [Asking, two_questions])
@pytest.mark.parametrize("reply", REPLIES)
def test_answers_for_which_nothing_waits(reply: str, workflow: Any) -> None:
    """A run whose questions stay open is left, with one warning."""
    case = asyncio.run(run_case(workflow(), "x", timeout=10, human=REPLIES[reply]))

    assert case.run is not None
    assert (case.run.status.value, case.run.error, case.actual_output) == ("interrupted", None, None)
    assert len(case.run.warnings) == 1
    assert "after all answers of human=" in case.run.warnings[0]


@pytest.mark.skipif(not WORKFLOWS_2, reason="before workflows 2, a tool that waits is not suspended")
def test_an_answer_that_comes_late_and_fits() -> None:
    """A person may take time; what goes on after the answer may take more."""

    async def answer(event: Any) -> HumanResponseEvent:
        await asyncio.sleep(0.2)
        return HumanResponseEvent(response="yes", about=event.prefix)

    calls = asks(("certain", {"target": "db"}, "c1"))
    case = asyncio.run(run_case(agent(calls, SLOW_STEP, "done", tools=[certain, slow]), "x", timeout=10, human=answer))

    assert (case.actual_output, case.run and case.run.warnings) == ("done", [])


def test_evaluation_of_an_agent_that_asks_a_person() -> None:
    """`as_agent` passes `human` on; without it, the calls up to the question are scored."""
    golden = Golden(input="x", expected_tools=[ToolCall(name="danger"), ToolCall(name="slow")])

    for options in ({}, {"human": lambda _: "yes"}):
        wrapped = as_agent(agent(ASKS_A_PERSON, "done", tools=[danger, slow]), timeout=10, **options)
        (case,) = evaluate(goldens=[golden], agent=wrapped, metrics=[ToolCorrectnessMetric()]).cases
        assert case.results[0].score == 1


class Topic(StartEvent):
    """A start event with a field of its own."""

    topic: str
    depth: int = 1


class Typed(Workflow):
    """A workflow with a start event of its own."""

    @step
    async def go(self, ev: Topic) -> StopEvent:
        """Answer."""
        return StopEvent(result=f"about {ev.topic}")


class Plain(Workflow):
    """A workflow that takes `input`."""

    @step
    async def go(self, ev: StartEvent) -> StopEvent:
        """Answer."""
        return StopEvent(result=f"about {ev.input}")


@pytest.mark.parametrize(("workflow", "key"), [(Typed, None), (Typed, "topic"), (Plain, "input")])
def test_workflow_of_the_users_own(workflow: Any, key: str | None) -> None:
    """The question is passed under the name that the workflow takes."""
    case = asyncio.run(run_case(workflow(), "sums", input_key=key))

    assert (case.input, case.actual_output) == ("sums", "about sums")
