"""Pairing of requests and results by index, against the plain search through every call."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from toolgrade.calls import CallOrigin
from toolgrade.capture import Request, RunBuilder
from toolgrade.capture.records import CallRecord, ModelResult
from toolgrade.capture.request_pairing import OpenCalls, calls_within, is_within
from toolgrade.formats import read

_ids = st.sampled_from((None, "", "a", "b"))
_names = st.sampled_from(("look", "book"))


def _call(index: int, call_id: str | None, name: str, number: int) -> CallRecord:
    return CallRecord(name, (number, index), None, CallOrigin.MODEL, id=call_id or None, round=number)


def _slow_search(calls: list[CallRecord], call_id: str | None, name: str | None) -> CallRecord | None:
    """The rule of `OpenCalls.of_result`, word by word."""
    matches = [call for call in calls if call_id and call.id == call_id]
    if not matches:
        same_name = [call for call in calls if name in (None, call.name)]
        matches = [call for call in same_name if not call.id] or ([] if call_id else same_name)
    newest = max((call.round for call in matches), default=0)
    matches = [call for call in matches if call.round == newest]
    matches = [call for call in matches if call.name == name] or matches
    return matches[0] if matches else None


@given(
    calls=st.lists(st.tuples(_ids, _names), max_size=8),
    rounds=st.lists(st.integers(0, 3), min_size=8, max_size=8).map(sorted),
    results=st.lists(st.tuples(_ids, st.none() | _names, st.booleans()), max_size=10),
)
def test_a_result_finds_the_call_that_a_search_through_all_finds(
    calls: list[tuple[str | None, str]], rounds: list[int], results: list[tuple[str | None, str | None, bool]]
) -> None:
    """Also where ids repeat or are missing, and where a call was answered in another way meanwhile."""
    records = [_call(index, *call, number) for index, (call, number) in enumerate(zip(calls, rounds, strict=False))]
    open_calls = OpenCalls()
    for record in records:
        open_calls.add(record)
    for call_id, name, answer_another in results:
        unanswered = [record for record in records if record.result is None]
        if answer_another and unanswered:
            unanswered.pop().result = ModelResult("another way", failed=False)
        call = open_calls.of_result(call_id or None, name)
        assert call is _slow_search(unanswered, call_id or None, name)
        if call is not None:
            call.result = ModelResult("answer", failed=False)


@given(seed=st.integers(0, 10_000))
def test_a_call_is_within_the_scopes_that_list_it(seed: int) -> None:
    """Calls of a program are answered in the scope of the call that runs the program."""
    rng = random.Random(seed)
    root = CallRecord("run", (0, 0), None, CallOrigin.CODE)
    calls = [root]
    for index in range(8):
        scope = rng.choice(calls)
        call = CallRecord("t", (1, index), scope, CallOrigin.MODEL, caller=rng.choice((None, "program")))
        scope.children.append(call)
        calls.append(call)
    for scope in calls:
        listed = calls_within(scope)
        assert [call for call in calls if call is not root and is_within(call, scope)] == [
            call for call in calls if any(call is other for other in listed)
        ]


def test_thousands_of_parallel_calls_are_paired_each_with_its_own_answer() -> None:
    """With ids in any order, and without ids in the order of the calls."""
    amount = 2000
    numbers = list(range(amount))
    random.Random(1).shuffle(numbers)
    for with_ids in (True, False):
        calls = [
            {
                **({"id": f"c{number}"} if with_ids else {}),
                "type": "function",
                "function": {"name": "look", "arguments": f'{{"n": {number}}}'},
            }
            for number in range(amount)
        ]
        order = numbers if with_ids else range(amount)
        answers = [
            {"role": "tool", "content": str(number), **({"tool_call_id": f"c{number}"} if with_ids else {})}
            for number in order
        ]
        run = read([{"role": "user", "content": "go"}, {"role": "assistant", "tool_calls": calls}, *answers]).run
        assert [call.output for call in run.calls] == [str(number) for number in range(amount)]


def test_live_parallel_calls_are_paired_by_id() -> None:
    """The tools start and end in another order than they were requested in."""
    amount = 500
    numbers = list(range(amount))
    random.Random(2).shuffle(numbers)
    builder = RunBuilder()
    builder.model_asked([Request("look", {"n": number}, f"c{number}") for number in range(amount)])
    for number in numbers:
        builder.tool_started(number, "look", {"n": number}, call_id=f"c{number}")
    for number in reversed(numbers):
        builder.tool_ended(number, number)
        builder.result_shown(str(number), call_id=f"c{number}")
    builder.ended("done")
    run = builder.build()
    assert [call.output for call in run.calls] == list(range(amount))
    assert run.warnings == []
