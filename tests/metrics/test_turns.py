"""Turns of expected calls: every metric that compares calls honours them, or says why it cannot."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import LLMTestCase, MissingFieldError, Run, TaskSuccessMetric, ToolCall, ToolCorrectnessMetric
from toolgrade.expect import Expect, OneOf, Plan

METRICS = [
    ToolCorrectnessMetric(threshold=1),
    ToolCorrectnessMetric(threshold=1, should_exact_match=True, evaluation_params=["input_parameters", "output"]),
    TaskSuccessMetric(threshold=1, guess_effects=True),
    TaskSuccessMetric(threshold=1, guess_effects=True, calls_only=True),
]
turns_of_calls = st.lists(
    st.tuples(st.sampled_from(("find_order", "refund")), st.integers(1, 2)), min_size=1, max_size=4
)


def case_of(expected: Any, called: list[tuple[str, int]], **fields: Any) -> LLMTestCase:
    """Return a case with these calls and their turns."""
    calls = [ToolCall(name=name, turn=turn) for name, turn in called]
    return LLMTestCase(tools_called=calls, expected_tools=expected, **fields)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.label)
@given(turns_of_calls, st.data())
def test_a_case_passes_if_each_call_was_made_in_its_turn(metric: Any, called: list[tuple[str, int]], data: Any) -> None:
    """Lists and plans alike; the names are those that were called."""
    turns = data.draw(st.permutations([turn for _, turn in called]))
    wanted = [(name, turn) for (name, _), turn in zip(called, turns, strict=True)]
    calls = [ToolCall(name=name, turn=turn) for name, turn in wanted]
    plan = Plan([Expect(name, turn=turn) for name, turn in wanted])

    results = [metric.measure(case_of(expected, called)) for expected in (calls, plan)]

    if wanted == called:
        assert all(result.passed for result in results)
    if Counter(wanted) != Counter(called):
        assert not any(result.passed for result in results)
        kinds = {finding.kind for result in results for finding in result.findings}
        assert kinds <= {"missing", "unexpected", "out_of_order"}
        assert all(result.findings for result in results)


def test_a_call_in_another_turn_takes_neither_an_optional_place_nor_an_alternative() -> None:
    """An optional call that was made in another turn is an unexpected one."""
    plan = Plan([Expect("find", turn=1), Expect("pay", turn=2, optional=True)])
    choice = Plan([OneOf(Expect("find", turn=1), Expect("find", turn=2)), Expect("pay", turn=2)])
    metric = ToolCorrectnessMetric(denominator="f1")

    assert metric.measure(case_of(plan, [("find", 1), ("pay", 2)])).score == 1
    assert metric.measure(case_of(plan, [("find", 1), ("pay", 1)])).score == pytest.approx(2 / 3)
    assert metric.measure(case_of(choice, [("find", 2), ("pay", 2)])).score == 1
    assert metric.measure(case_of(choice, [("find", 1), ("pay", 1)])).score == pytest.approx(1 / 2)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.label)
def test_turns_of_a_case_without_turns_are_refused(metric: Any) -> None:
    """A recorded run without turns is one turn, the first."""
    called, expected = [ToolCall(name="refund")], [ToolCall(name="refund", turn=1)]

    with pytest.raises(
        MissingFieldError, match=f"{type(metric).__name__} needs the turn of the tools_called of case 'a'"
    ):
        metric.measure(LLMTestCase(id="a", tools_called=called, expected_tools=expected))

    run = Run(input="Refund it", calls=called)
    assert metric.measure(run.to_test_case(expected_tools=expected)).passed
    assert not metric.measure(run.to_test_case(expected_tools=[ToolCall(name="refund", turn=2)])).passed


def test_the_reason_says_both_turns() -> None:
    """Not the path of a field."""
    result = ToolCorrectnessMetric().measure(case_of([ToolCall(name="find", turn=2)], [("find", 1)]))

    assert (result.reason or "").splitlines()[1:] == [
        "Turn 2: Missing: expected #1 'find' was not called in it, but in another turn.",
        "Turn 1: Unexpected: called #1 'find'.",
    ]
