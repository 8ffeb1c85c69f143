"""Laws of `toolgrade.capture`.

Independence: every legal order of the same observations is the same run, and it is the run that really was.
Completeness: nothing that was asked for or ran is ever lost, whatever is told.
Stability: reading changes nothing, and a run that was read does not change with what it was made of.
Patience: no sequence of observations, however wrong, raises; what makes no sense is a warning, told once.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from histories import History, call_rows, histories
from toolgrade.calls import CallOrigin, CallStatus, ToolCall
from toolgrade.capture import Outcome, Request, RunBuilder
from toolgrade.cases import Run, RunStatus
from toolgrade.matching.json_compare import ABSENT

seeds = st.integers(0, 2**32 - 1)


# Legal runs


@given(history=histories(), seed=seeds)
def test_every_legal_order_is_the_run_that_really_was(history: History, seed: int) -> None:
    """The pairs and results of calls do not depend on the order of observations."""
    run = history.replay(seed).build()

    assert call_rows(run.calls) == history.expected()
    assert run.warnings == []


@given(history=histories(), one=seeds, other=seeds)
def test_legal_orders_are_equal_runs(history: History, one: int, other: int) -> None:
    """Two orders of the same observations differ in nothing, also not in what `call_rows` does not look at."""
    assert history.replay(one).build().to_dict() == history.replay(other).build().to_dict()


@given(history=histories(), seed=seeds)
def test_the_order_is_the_models(history: History, seed: int) -> None:
    """At every level the calls of a later message stand later, and the calls of one message have one step."""

    def check(calls: list[ToolCall]) -> None:
        executions = [call.execution for call in calls if call.execution is not None]
        steps = [how.step for how in executions if how.step is not None]
        assert steps == sorted(steps)
        assert set(steps) == set(range(len(set(steps))))
        assert all((how.step is None) == (how.origin is CallOrigin.CODE) for how in executions)
        for how in executions:
            check(how.children)

    check(history.replay(seed).build().calls)


@given(history=histories(), seed=seeds)
def test_a_run_survives_its_json(history: History, seed: int) -> None:
    """What a run is can be written and read again."""
    run = history.replay(seed).build()

    assert Run.from_json(run.to_json()) == run


# Reading


@given(history=histories(), seed=seeds)
def test_reading_changes_nothing(history: History, seed: int) -> None:
    """A run that is read after every observation ends as the same run; read twice, it is the same run."""
    often = history.replay(seed, after_each=RunBuilder.build)

    assert often.build().to_dict() == often.build().to_dict() == history.replay(seed).build().to_dict()


@given(history=histories(), seed=seeds)
def test_run_is_independent_of_its_inputs(history: History, seed: int) -> None:
    """Changing the inputs, or a run that was read, changes no other run."""
    builder = history.replay(seed, after_each=lambda _: None, own_copies=False)
    first = builder.build()
    before = first.to_dict()

    for _, args, kwargs in history.tells:
        spoil([args, kwargs])
    second = builder.build()
    spoil([call.input_parameters for call in second.select_calls(nested=True, handoffs=True)])

    assert first.to_dict() == before
    assert builder.build().to_dict() == before


@given(history=histories(), seed=seeds)
def test_a_run_that_goes_on_keeps_its_history(history: History, seed: int) -> None:
    """A builder that continues from a run, and observes nothing else, has its calls and hand-offs."""
    first, later = history.replay(seed), RunBuilder()
    first.ended(may_wait=True)
    run = first.build()
    assume(not any(waits_inside(call) for call in run.calls))

    requests = later.continue_from(run)
    later.ended(may_wait=True)
    again = later.build().to_dict()

    assert len(requests) == len(run.calls)
    assert {name: again[name] for name in ("calls", "handoffs")} == {
        name: run.to_dict()[name] for name in ("calls", "handoffs")
    }


def waits_inside(call: ToolCall) -> bool:
    """Whether a call is over while one inside it waits, as in a tool that left something behind."""
    how = call.execution
    children = [] if how is None else how.children
    waiting = [child for child in children if child.execution and child.execution.status is CallStatus.PENDING]
    is_over = how is not None and how.status is not CallStatus.PENDING
    return (is_over and bool(waiting)) or any(map(waits_inside, children))


def spoil(value: Any) -> None:
    """Change every list and object inside a value."""
    if isinstance(value, Request):
        spoil(value.arguments)
    elif isinstance(value, (tuple, list)):
        for item in value:
            spoil(item)
        if isinstance(value, list):
            value.append("spoilt")
    elif isinstance(value, dict):
        for item in value.values():
            spoil(item)
        value["spoilt"] = True


# Any sequence

names = st.sampled_from(["add", "slow", ""])
ids = st.sampled_from([None, "", "c1", "c2"])
keys = st.sampled_from(["k1", "k2", 3])
scopes = st.none() | keys
values = st.sampled_from([ABSENT, None, 3, "3", {"a": [1]}, object(), float("nan")])
arguments = st.sampled_from([None, {}, {"x": 1}, {"x": object()}])
shared = [Request("add", {"x": 1}, "c1"), Request("slow", {}, "c1", source="$[1]"), Request("slow", "{x: ")]
handles = st.none() | st.sampled_from(shared) | st.lists(st.sampled_from(shared), max_size=2)
requests = st.sampled_from(shared) | st.builds(
    Request,
    names,
    arguments | st.sampled_from(["{x: ", [1]]),
    ids,
    error=st.none() | st.just("why"),
    result=values,
    failure=st.none() | st.just("failed"),
    ran=st.booleans(),
    replaces=ids,
    caller=ids,
    source=st.none() | st.just("$[0]"),
)
errors = st.none() | st.just("ValueError: no")


def observation(method: str, *args: st.SearchStrategy[Any], **kwargs: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An observation of this kind."""
    return st.tuples(st.just(method), st.tuples(*args), st.fixed_dictionaries({}, optional=kwargs))


flags = st.booleans()
observations = st.one_of(
    observation("model_asked", st.lists(requests, max_size=3), scope=scopes, agent=names),
    observation("tool_started", keys, names, arguments, request=handles, call_id=ids, scope=scopes),
    observation("tool_ended", keys, values, model_output=values, artifact=values, error=errors),
    observation("tool_failed", keys, errors, outcome=st.sampled_from(Outcome)),
    observation(
        "handed_off", to=names, key=keys, request=st.none() | st.sampled_from(shared), call_id=ids, scope=scopes
    ),
    observation(
        "result_shown",
        values,
        request=handles,
        call_id=ids,
        name=names,
        failed=flags,
        error=errors,
        unknown_tool=flags,
        artifact=values,
        scope=scopes,
        ran=flags,
    ),
    observation(
        "offered", st.lists(st.sampled_from([{"name": "add"}, {"name": ""}, {}, 3, None]), max_size=2), scope=scopes
    ),
    observation("structured_answer", st.lists(requests, max_size=2)),
    observation("withdrawn", st.lists(requests, max_size=2)),
    observation("model_used", names, st.just({"tokens": 1})),
    observation("started", names),
    observation("ended", names, status=st.sampled_from(RunStatus), error=errors, may_wait=flags),
    observation("resumed"),
)


@given(sequence=st.lists(observations, max_size=20))
def test_no_sequence_raises_or_loses_a_call(sequence: list[Any]) -> None:
    """Ends without starts, unknown scopes, repeated keys: nothing raises, no call is lost, no warning repeats."""
    builder = RunBuilder()
    requested = replaced = started = 0

    for method, args, kwargs in sequence:
        getattr(builder, method)(*args, **kwargs)
        requested += len(args[0]) if method == "model_asked" else 0
        replaced += sum(bool(request.replaces) for request in args[0]) if method == "model_asked" else 0
        started += method == "tool_started"
        run = builder.build()

    run = builder.build()
    executions = [call.execution for call in run.select_calls(nested=True, handoffs=True) if call.execution is not None]
    by_model = [how for how in executions if how.origin is CallOrigin.MODEL]
    hidden = any(method == "structured_answer" for method, _, _ in sequence)
    assert len(by_model) <= requested
    assert len(by_model) >= requested - replaced or hidden
    assert sum(how.attempts for how in executions if how.executed) >= started or hidden
    assert len(run.warnings) == len(set(run.warnings))
    assert Run.from_json(run.to_json()).to_dict() == run.to_dict()


@given(sequence=st.lists(observations, max_size=20))
def test_an_end_without_a_start_is_a_warning(sequence: list[Any]) -> None:
    """The end of an execution without a start is in no call, and the run has a warning."""
    builder = RunBuilder()
    for method, args, kwargs in sequence:
        getattr(builder, method)(*args, **kwargs)
    before = builder.build().to_dict()

    builder.tool_ended("never begun", "lost")
    builder.tool_failed("never begun", "lost")

    after = builder.build().to_dict()
    lost = {f"a tool {what} that never started; it is not in the record" for what in ("ended", "failed")}
    assert after["calls"] == before["calls"]
    assert set(after["warnings"]) == {*before["warnings"], *lost}


# Long runs


@pytest.mark.parametrize("by", ["code", "model without ids", "model with one id", "model with ids"])
def test_each_call_of_a_long_run_takes_the_same_work(by: str) -> None:
    """A recorder runs inside the agent, so that the last of many calls must not take longer than the first."""

    def functions_called(calls: int) -> int:
        builder, count = RunBuilder(), 0

        def profile(_frame: object, event: str, _value: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(profile)
        try:
            for number in range(calls):
                call_id = {"model with one id": "f", "model with ids": f"c{number}"}.get(by)
                if by != "code":
                    builder.model_asked([Request("f", {"x": number}, call_id)])
                builder.tool_started(number, "f", {"x": number}, call_id=call_id)
                builder.tool_ended(number, number)
                if by != "code":
                    builder.result_shown(number, call_id=call_id, name="f")
        finally:
            sys.setprofile(None)
        return count

    assert functions_called(400) < 2.2 * functions_called(200)


def test_warnings_have_a_limit() -> None:
    """The first hundred are enough to find the fault; of the others the number is known."""
    builder = RunBuilder()

    for number in range(1_200):
        builder.warn(f"warning {number % 1_150}")

    assert builder.build().warnings == [*(f"warning {number}" for number in range(100)), "and 1,050 more warnings"]
