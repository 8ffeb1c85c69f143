"""Runs read from events: several of them, parts of them, and lists that hold something else."""

import asyncio
from typing import Any

import pytest
from li_agents import Played, add, agent, asks, play, played, slow, summaries
from li_versions import WORKFLOWS_2
from llama_index.core.agent.workflow import AgentOutput, ToolCall, ToolCallResult
from llama_index.core.workflow import Event, JsonSerializer, StartEvent, StopEvent, Workflow, step

from toolgrade.errors import InvalidDataError
from toolgrade_llama_index import record, runs_from_events

ADDED = asks(("add", {"a": 1, "b": 2}, "c1"))
ONE_CALL = [("add", {"a": 1, "b": 2}, "c1", 3)]


def adding(answer: str = "3", question: str = "hi") -> Played:
    """A run with one call."""
    return played(lambda: agent(ADDED, answer, tools=[add]), question)


def agents_events(outcome: Played) -> list[Event]:
    """The events without the one that ends them."""
    return [event for event in outcome.events if not isinstance(event, StopEvent)]


def test_several_runs() -> None:
    """Each run ends with its own last event; input and result belong to the last run."""
    first, second = adding("one", "first"), adding("two", "second")

    runs = runs_from_events([*first.events, *second.events], second.result, input="the second")

    assert [(run.input, run.actual_output) for run in runs] == [("first", "one"), ("the second", "two")]
    assert [summaries(run.calls) for run in runs] == [ONE_CALL, ONE_CALL]


def test_no_events() -> None:
    """No events give no runs; a result alone gives one run without calls."""
    assert runs_from_events([]) == []
    assert [run.actual_output for run in runs_from_events([], result="x")] == ["x"]


def test_without_the_last_event() -> None:
    """People keep agents' events only: an answer that asks for nothing is the end of the run."""
    (run,) = runs_from_events(agents_events(adding()))

    assert (run.status.value, run.actual_output) == ("ok", "3")
    assert not run.warnings


def test_without_the_last_event_from_json() -> None:
    """A saved last answer looks like requests, but only repeats earlier calls and is not counted."""
    texts = [JsonSerializer().serialize(event) for event in agents_events(adding())]

    (run,) = runs_from_events(texts)

    assert summaries(run.calls) == ONE_CALL
    assert (run.status.value, run.actual_output) == ("ok", "3")


def test_events_that_end_too_early() -> None:
    """A truncated record has a warning, and a call without a result is cancelled."""
    outcome = adding()
    upto = next(index for index, event in enumerate(outcome.events) if isinstance(event, ToolCallResult))

    (run,) = runs_from_events(outcome.events[:upto])

    assert summaries(run.calls) == [("add", {"a": 1, "b": 2}, "c1", "cancelled")]
    assert run.status.value == "stopped"
    assert "do not show how the run ended" in run.warnings[0]


def test_events_that_begin_too_late() -> None:
    """Results without a request are attributed to the model, with a warning."""
    outcome = adding()
    after = next(index for index, event in enumerate(outcome.events) if isinstance(event, AgentOutput)) + 1

    (run,) = runs_from_events(outcome.events[after:], outcome.result)

    assert summaries(run.calls) == ONE_CALL
    assert run.calls[0].execution is not None
    assert run.calls[0].execution.origin.value == "model"
    assert "begin in the middle" in run.warnings[0]


def test_results_alone() -> None:
    """A result without its call is a call."""
    outcome = adding()
    events = [event for event in outcome.events if not isinstance(event, ToolCall)]

    (run,) = runs_from_events(events, outcome.result)

    assert summaries(run.calls) == ONE_CALL


def test_a_result_that_was_saved() -> None:
    """The result of an agent may be the object that was parsed from its JSON."""
    outcome = adding()

    (run,) = runs_from_events(agents_events(outcome), result=outcome.result.model_dump())

    assert run.actual_output == "3"


def test_the_callers_time_limit() -> None:
    """The error of `asyncio.wait_for` stops the run and is not a failure of it."""

    async def go() -> Played:
        return await play(agent(asks(("slow", {"ms": 2000}, "c1")), "d", tools=[slow]), patience=0.2)

    outcome = asyncio.run(go())
    (run,) = runs_from_events(outcome.events, error=outcome.error)

    assert run.status.value == "stopped"
    assert summaries(run.calls) == [("slow", {"ms": 2000}, "c1", "cancelled")]


def test_failure_visible_only_in_events() -> None:
    """Requests at a step limit are calls, even if the caught exception is not passed."""
    outcome = played(lambda: agent(ADDED, asks(("add", {"a": 1, "b": 1}, "c2")), tools=[add]), max_iterations=2)

    (run,) = runs_from_events(outcome.events)

    assert summaries(run.calls) == [*ONE_CALL, ("add", {"a": 1, "b": 1}, "c2", "not_executed")]
    assert run.status.value == "stopped"
    assert ("Max iterations" in (run.error or "")) == WORKFLOWS_2


class Report(StopEvent):
    """The result of a workflow written by hand."""

    answer: str


class Reporting(Workflow):
    """A workflow that ends with a custom event."""

    @step
    async def go(self, ev: StartEvent) -> Report:
        """Report."""
        return Report(answer=f"about {ev.get('topic')}")


@pytest.mark.parametrize("with_result", [True, False])
def test_a_result_of_the_users_own(with_result: bool) -> None:
    """A workflow may end with a custom event; its content is the answer."""

    async def go() -> tuple[list[Event], Any, Any]:
        with record() as rec:
            handler = Reporting().run(topic="x")
            events = [event async for event in handler.stream_events()]
            return events, await handler, rec.last_run

    events, result, recorded = asyncio.run(go())
    (run,) = runs_from_events(events, result if with_result else None)

    assert (run.status.value, run.actual_output) == ("ok", '{"answer": "about x"}')
    assert (recorded.status.value, recorded.actual_output) == ("ok", '{"answer": "about x"}')


def test_saved_failures() -> None:
    """The failure of a run is read from its last event if the version reports it there."""
    saved: list[Any] = [
        {"qualified_name": "workflows.events.WorkflowFailedEvent", "value": {"exception": FAILURE}},
        {"qualified_name": "workflows.events.WorkflowFailedEvent", "value": FAILURE},
        {"qualified_name": "workflows.events.WorkflowTimedOutEvent", "value": {"timeout": 3}},
        {"qualified_name": "workflows.events.WorkflowCancelledEvent", "value": {}},
    ]

    runs = runs_from_events(saved)

    assert [(run.status.value, run.error) for run in runs] == [
        ("error", "RuntimeError: rate"),
        ("error", "RuntimeError: rate"),
        ("stopped", "the run reached its time limit"),
        ("stopped", "cancelled"),
    ]


FAILURE = {"exception_type": "builtins.RuntimeError", "exception_message": "rate"}


def test_invalid_events_are_reported() -> None:
    """All invalid places are reported at once."""
    good = JsonSerializer().serialize(adding().events[0])

    with pytest.raises(InvalidDataError) as caught:
        runs_from_events([good, 3, {"value": {}}, "{", '{"qualified_name": "x.ToolCall", "value": {"tool_name": 1}}'])

    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["$.events[1]", "$.events[2]", "$.events[3]", "$.events[4]"]
    assert "tool_name" in str(caught.value)


def test_events_of_other_kinds_are_passed_over() -> None:
    """Custom events of a workflow and stream events do not affect calls."""

    class Progress(Event):
        percent: int

    outcome = adding()
    saved = {"qualified_name": "somewhere.Progress", "value": {"percent": 3}}

    (run,) = runs_from_events([Progress(percent=1), saved, *outcome.events], outcome.result)

    assert summaries(run.calls) == ONE_CALL


def test_dumps_of_other_objects_are_reported() -> None:
    """Dumps name no class: those of other kinds are skipped next to an agent's events, and an error without any."""
    other = {"percent": 3}

    with pytest.raises(InvalidDataError, match="not an event of an agent"):
        runs_from_events([other])
    (run,) = runs_from_events([other, *(event.model_dump() for event in adding().events)])

    assert summaries(run.calls) == ONE_CALL


def test_dump_of_a_run_that_failed() -> None:
    """The end of a run is read from its dump; one without fields is a warning, since it may be a cancellation."""
    dumps = [event.model_dump() for event in adding().events]

    (failed,) = runs_from_events([*dumps[:5], {"step_name": "s", "attempts": 1, **FAILURE}])
    (unknown,) = runs_from_events([*dumps[:5], {}])

    assert (failed.status.value, failed.error) == ("error", "RuntimeError: rate")
    assert unknown.status.value == "stopped"
    assert "do not show how the run ended" in unknown.warnings[0]
