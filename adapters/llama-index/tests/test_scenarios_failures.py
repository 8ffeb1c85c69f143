"""Scenarios 10-14, 16, 33, 44, 48: tools that answer for the agent, limits, failures, and human input."""

import asyncio

from li_agents import DIRECT, PATIENCE, add, agent, asks, outcome, play, played, slow, status_of, summaries
from li_versions import WORKFLOWS_2, scenario
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import (
    Context,
    HumanResponseEvent,
    InputRequiredEvent,
    JsonPickleSerializer,
    JsonSerializer,
)

from toolgrade_llama_index import ToolCallRecorder, record, runs_from_events


@scenario("10-C", "10-E")
def test_a_tool_that_answers(mode: str) -> None:
    """The output of a tool that returns directly is the answer; earlier outputs are recorded as well."""
    run = played(
        lambda: agent(asks(("add", {"a": 1, "b": 1}, "c0")), asks(("direct", {"x": "1"}, "c1")), tools=[add, DIRECT])
    ).run(mode)

    assert summaries(run.tools_called) == [("add", {"a": 1, "b": 1}, "c0", 2), ("direct", {"x": "1"}, "c1", "D1")]
    assert status_of(run) == ("ok", "D1")


@scenario("11-C", "11-E")
def test_a_tool_that_answers_and_fails(mode: str) -> None:
    """A direct-return tool that fails does not answer; the model does."""
    run = played(lambda: agent(asks(("direct", {"x": "err"}, "c1")), "rec", tools=[DIRECT])).run(mode)

    assert [outcome(call) for call in run.tools_called] in (["! RuntimeError: direct failed"], ["! direct failed"])
    assert status_of(run) == ("ok", "rec")


@scenario("12-C", "12-E")
def test_several_tools_that_answer(mode: str) -> None:
    """Of several one answers, the first that has ended; all keep their outputs."""
    request = asks(("slow", {"ms": 20}, "c1"), ("direct", {"x": "a"}, "c2"), ("direct", {"x": "b"}, "c3"))
    outcome = played(lambda: agent(request, tools=[slow, DIRECT]))
    run = outcome.run(mode)

    assert summaries(run.tools_called) == [
        ("slow", {"ms": 20}, "c1", "slept 20"),
        ("direct", {"x": "a"}, "c2", "Da"),
        ("direct", {"x": "b"}, "c3", "Db"),
    ]
    assert run.actual_output == str(outcome.result)
    assert run.actual_output in ("Da", "Db")


TWICE = (asks(("add", {"a": 0, "b": 0}, "c0")), asks(("add", {"a": 1, "b": 1}, "c1")), "best")


@scenario("13-C", "13-E")
def test_a_limit_of_steps(mode: str) -> None:
    """The call that the model asked for at the limit is one that it chose, and was not executed."""
    run = played(lambda: agent(*TWICE, tools=[add]), max_iterations=2).run(mode)

    assert summaries(run.tools_called) == [
        ("add", {"a": 0, "b": 0}, "c0", 0),
        ("add", {"a": 1, "b": 1}, "c1", "not_executed"),
    ]
    assert status_of(run) == ("stopped", None)
    assert "Max iterations of 2" in (run.error or "")


@scenario("14-C", "14-E", needs="early_stopping")
def test_an_answer_at_the_limit(mode: str) -> None:
    """An agent that answers at the limit repeats its calls in that answer; nothing is counted twice."""
    run = played(lambda: agent(*TWICE, tools=[add]), max_iterations=2, early_stopping_method="generate").run(mode)

    assert summaries(run.tools_called) == [
        ("add", {"a": 0, "b": 0}, "c0", 0),
        ("add", {"a": 1, "b": 1}, "c1", "not_executed"),
    ]
    assert status_of(run) == ("ok", "best")


@scenario("16-C", "16-E")
def test_a_time_limit(mode: str) -> None:
    """A call that runs when the time is up was given up; the run was stopped, not wrong."""
    request = asks(("add", {"a": 0, "b": 0}, "c0"), ("slow", {"ms": 3000}, "c1"))
    run = played(lambda: agent(request, tools=[add, slow], timeout=0.3)).run(mode)

    assert summaries(run.tools_called) == [
        ("add", {"a": 0, "b": 0}, "c0", 0),
        ("slow", {"ms": 3000}, "c1", "cancelled"),
    ]
    assert status_of(run) == ("stopped", None)
    if WORKFLOWS_2 or mode == "E":  # the first releases report nothing to the instrumentation here
        assert "timed out" in (run.error or "")
    else:
        assert "time limit" in (run.error or "")


async def danger(ctx: Context, target: str) -> str:
    """Ask a person first."""
    answer = await ctx.wait_for_event(
        HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="sure?"), waiter_id=target
    )
    return f"{target}: {answer.response}"


ASKS_A_PERSON = (asks(("add", {"a": 1, "b": 1}, "c0"), ("danger", {"target": "db"}, "c1")), "done")


@scenario("33-C", "33-E")
def test_human_input_during_a_tool(mode: str) -> None:
    """A tool that waits for a person restarts from its beginning; it is one call with another attempt."""
    run = played(lambda: agent(*ASKS_A_PERSON, tools=[add, danger])).run(mode)

    assert summaries(run.tools_called) == [
        ("add", {"a": 1, "b": 1}, "c0", 2),
        ("danger", {"target": "db"}, "c1", "db: yes"),
    ]
    attempts = [call.execution.attempts for call in run.tools_called if call.execution]
    assert attempts == [1, 2 if WORKFLOWS_2 else 1]
    assert status_of(run) == ("ok", "done")


async def in_two_parts(way: str) -> tuple[list[object], object, BaseException | None, object]:
    """Leave a waiting run and resume it in a second handler; return its events and how it ended."""
    serializer = JsonPickleSerializer() if way == "pickled" else JsonSerializer()
    workflow = agent(*ASKS_A_PERSON, tools=[add, danger])
    events: list[object] = []
    with record() as rec:
        handler = workflow.run(user_msg="hi")
        async for event in handler.stream_events():
            events.append(event)
            if {"InputRequiredEvent", "ToolCallResult"} <= {type(each).__name__ for each in events}:
                break
        state = handler.ctx.to_dict(serializer=serializer)
        await handler.cancel_run()
        await asyncio.wait({asyncio.ensure_future(ended(handler))}, timeout=2)

        again = workflow.run(ctx=Context.from_dict(workflow, state, serializer=serializer))
        if way == "restored":
            await again.ctx.store.set("memory", ChatMemoryBuffer.from_defaults())

        async def read() -> None:
            async for event in again.stream_events():
                events.append(event)  # noqa: PERF401 - what came before the end counts, if it ends at all

        reading = asyncio.ensure_future(read())
        await asyncio.sleep(0.05)
        if again.ctx is not None:
            again.ctx.send_event(HumanResponseEvent(response="yes"))
        error = await ended(again)
        await asyncio.wait({reading}, timeout=0.3)
        reading.cancel()
    result = None if error is not None else await again
    return events, result, error, rec


async def ended(handler: object) -> BaseException | None:
    """What a run raised, at its end."""
    try:
        await asyncio.wait_for(handler, 3)  # type: ignore[arg-type]
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever ends the agent is returned
        return error
    return None


@scenario("44-restored", "44-pickled")
def test_a_run_in_two_parts_from_its_events(mode: str) -> None:
    """The events of both parts form one run; a call that both parts contain counts once."""
    events, result, error, _ = asyncio.run(in_two_parts(mode))

    (run,) = runs_from_events(events, result, error, "hi")

    assert ("danger", {"target": "db"}, "c1", "db: yes") in summaries(run.tools_called)
    assert ("add", {"a": 1, "b": 1}, "c0", 2) in summaries(run.tools_called)
    assert len(run.tools_called) == 2
    if WORKFLOWS_2:
        assert status_of(run) == ("ok", "done")


@scenario("44-restored", "44-pickled")
def test_a_run_in_two_parts_as_recorded(mode: str) -> None:
    """A run that was left while it waited, and is resumed with its memory, is one run and not two."""
    _, _, _, rec = asyncio.run(in_two_parts(mode))

    if not WORKFLOWS_2:  # there a tool that waits is not suspended, but cancelled
        first, second = rec.runs  # type: ignore[attr-defined]
        assert summaries(first.tools_called)[1] == ("danger", {"target": "db"}, "c1", "cancelled")
        assert summaries(second.tools_called)[-1] == ("danger", {"target": "db"}, "c1", "db: yes")
        assert "continues an earlier one" in second.warnings[0]
        return
    (run,) = rec.runs  # type: ignore[attr-defined]
    assert summaries(run.tools_called)[1] == ("danger", {"target": "db"}, "c1", "db: yes")
    assert len(run.tools_called) == 2
    assert status_of(run) == ("ok", "done")


def test_a_run_that_is_left_while_it_waits() -> None:
    """The run waits with its call, neither failed nor stopped; where tools are not suspended, the call is cancelled."""

    async def go() -> ToolCallRecorder:
        with record() as rec:
            handler = agent(*ASKS_A_PERSON, tools=[add, danger]).run(user_msg="hi")
            async for event in handler.stream_events():
                if isinstance(event, InputRequiredEvent):
                    break
            await asyncio.sleep(0.2)
            await handler.cancel_run()
            await ended(handler)
        return rec

    run = asyncio.run(go()).last_run

    status = "pending" if WORKFLOWS_2 else "cancelled"
    assert summaries(run.tools_called) == [
        ("add", {"a": 1, "b": 1}, "c0", 2),
        ("danger", {"target": "db"}, "c1", status),
    ]
    assert status_of(run) == ("interrupted" if WORKFLOWS_2 else "stopped", None)
    assert (run.error is None) == WORKFLOWS_2


class FatalError(BaseException):
    """What no agent handles."""


def fatal() -> str:
    """End everything."""
    raise FatalError("fatal!")


@scenario("48-C", "48-E")
def test_tool_with_an_unhandled_exception(mode: str) -> None:
    """The stream of such a run never ends; the record does and has every call."""
    steps = (asks(("add", {"a": 1, "b": 2}, "c0")), asks(("fatal", {}, "c1")), "never said")
    run = asyncio.run(play(agent(*steps, tools=[add, fatal]), patience=PATIENCE)).run(mode)

    assert summaries(run.tools_called)[0] == ("add", {"a": 1, "b": 2}, "c0", 3)
    assert summaries(run.tools_called)[1:] == [
        ("fatal", {}, "c1", "! FatalError: fatal!" if mode == "C" else "cancelled")
    ]
    assert run.status.value == ("error" if WORKFLOWS_2 else "stopped")  # there the run itself never ends
