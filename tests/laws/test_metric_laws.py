"""Laws of the metrics; each metric must declare the laws that hold for it.

A law is a check of (metric class, options) on drawn cases; the table says which metric keeps which. Bounds, identity,
determinism and strictness hold for every metric; the others are declared, and a metric that is declared to break one
must really break it, so that the table says what is true.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolgrade.metrics
from strategies import NAN, few
from toolgrade import (
    LLMTestCase,
    Metric,
    ToolCall,
    ToolCallParams,
    ToolCallType,
)
from toolgrade.matching.alignment import Denominator
from toolgrade.metrics.base import CallMetric

Calls = list[ToolCall]

_given_fields = st.fixed_dictionaries(
    {"name": st.sampled_from(("look_up", "look_up", "book"))},
    optional={
        "input_parameters": st.none() | st.dictionaries(st.sampled_from("ab"), st.sampled_from((0, 1, "1", NAN))),
        "output": st.sampled_from((None, 1, "1", [1], "[1]")),
        "type": st.sampled_from((None, ToolCallType.MCP, ToolCallType.FUNCTION)),
        "description": st.sampled_from(("x", "y")),
    },
)
_calls = st.lists(_given_fields.map(lambda fields: ToolCall(**fields)), max_size=5)
_options = st.fixed_dictionaries(
    {},
    optional={
        "evaluation_params": st.lists(st.sampled_from(ToolCallParams), max_size=3),
        "should_consider_ordering": st.booleans(),
        "should_exact_match": st.booleans(),
        "threshold": st.sampled_from((0.0, 0.25, 0.5, 1.0)),
    },
)


def measured(metric: type[Metric], options: dict[str, Any], expected: Calls, called: Calls) -> Any:
    """The result of one case."""
    return metric(**options).measure(LLMTestCase(tools_called=called, expected_tools=expected))


def score(metric: type[Metric], options: dict[str, Any], expected: Calls, called: Calls) -> float:
    """The score of one case."""
    return float(measured(metric, options, expected, called))


# Laws that every metric keeps


def bounded(metric: type[Metric], options: dict[str, Any], expected: Calls, called: Calls) -> None:
    """Scores and parts are in [0, 1], and a case passes exactly if its score reaches the threshold."""
    result = measured(metric, options, expected, called)
    assert 0 <= result.score <= 1
    assert all(0 <= part <= 1 for part in result.parts.values())
    assert result.passed == (result.score >= result.threshold - 1e-9)


def identical(metric: type[Metric], options: dict[str, Any], expected: Calls, called: Calls) -> None:
    """A run that made exactly the calls that were expected scores 1."""
    assert score(metric, options, expected, expected) == 1
    assert score(metric, options, called, list(called)) == 1


def deterministic(metric: type[Metric], options: dict[str, Any], expected: Calls, called: Calls) -> None:
    """Equal cases give equal results, including the wording of the reason."""
    assert repr(measured(metric, options, expected, called)) == repr(measured(metric, options, expected, called))


def strict(metric: type[Metric], options: dict[str, Any], expected: Calls, called: Calls) -> None:
    """In strict mode the score is 1 if it is 1 otherwise, else 0, and passes exactly if it is 1."""
    lenient = measured(metric, options, expected, called)
    result = measured(metric, {**options, "strict_mode": True}, expected, called)
    assert (result.score, result.passed, result.threshold) == (float(lenient.score == 1), lenient.score == 1, 1)


def explained(metric: type[Metric], options: dict[str, Any], expected: Calls, called: Calls) -> None:
    """A score below 1 has a finding, and each finding is in the reason."""
    result = measured(metric, options, expected, called)
    assert result.findings or result.score == 1
    assert all(finding.message in result.reason for finding in result.findings)


# Laws that a metric keeps or not


def blind_to_order(metric: type[Metric], options: dict[str, Any], expected: Calls, called: Calls) -> None:
    """Without ordering, the score is the same to the last bit in any order of calls."""
    free = {**options, "should_consider_ordering": False, "should_exact_match": False}
    draw = random.Random(len(expected) * 8 + len(called))
    one = score(metric, free, expected, called)
    assert one == score(metric, free, draw.sample(expected, len(expected)), draw.sample(called, len(called)))


def monotone(metric: type[Metric], options: dict[str, Any], expected: Calls, called: Calls) -> None:
    """Making one of the expected calls once more never lowers the score, unless the match must be exact."""
    free = {**options, "should_exact_match": False}
    before = score(metric, free, expected, called)
    for call in expected:
        assert score(metric, free, expected, [*called, call]) >= before or not called


def nested(metric: type[Metric], options: dict[str, Any], expected: Calls, called: Calls) -> None:
    """Exact <= ordered <= unordered: each asks less than the one before."""
    modes = [
        {"should_exact_match": True},
        {"should_exact_match": False, "should_consider_ordering": True},
        {"should_exact_match": False, "should_consider_ordering": False},
    ]
    scores = [score(metric, {**options, **mode}, expected, called) for mode in modes]
    assert scores == sorted(scores)


def symmetric(metric: type[Metric], options: dict[str, Any], expected: Calls, called: Calls) -> None:
    """Swapping expected and called leaves the score alone, where every field is set."""
    full = [[_full(call) for call in side] for side in (expected, called)]
    assert score(metric, options, full[0], full[1]) == score(metric, options, full[1], full[0])


def _full(call: ToolCall) -> ToolCall:
    kind = call.type or ToolCallType.FUNCTION
    return ToolCall(name=call.name, input_parameters=call.arguments, output=call.output, type=kind)


Law = Callable[[type[Metric], dict[str, Any], Calls, Calls], None]

OF_ALL: tuple[Law, ...] = (bounded, identical, deterministic, strict, explained)
OF_SOME: tuple[Law, ...] = (blind_to_order, monotone, nested, symmetric)

#: Further laws of each metric with the options under which they hold; all others are broken.
TABLE: dict[str, list[tuple[dict[str, Any], set[Law]]]] = {
    "ToolCorrectnessMetric": [
        ({}, {blind_to_order, monotone, nested}),
        ({"denominator": "called"}, {blind_to_order, nested}),
        ({"denominator": "longest"}, {blind_to_order, nested, symmetric}),
        ({"denominator": "f1"}, {blind_to_order, nested, symmetric}),
    ],
}
ROWS = [
    pytest.param(getattr(toolgrade.metrics, name), options, holding, id=" ".join([name, *options.values()]))
    for name, rows in TABLE.items()
    for options, holding in rows
]
of_every_row = pytest.mark.parametrize(("metric", "options", "holding"), ROWS)


def test_every_metric_has_declared_its_laws() -> None:
    """Every concrete comparing metric is in the table.

    Those of calls alone have a file of their own, and so have the metrics of a task, of what a run spends and of its
    health, which compare nothing; what is judged has laws in tests/judge.
    """
    public = [getattr(toolgrade.metrics, name) for name in toolgrade.metrics.__all__]
    metrics = [thing for thing in public if inspect.isclass(thing) and issubclass(thing, Metric)]
    concrete = {
        metric.__name__ for metric in metrics if not inspect.isabstract(metric) and not issubclass(metric, CallMetric)
    }
    assert concrete == {*TABLE, "ToolUseMetric", "TaskSuccessMetric", "BudgetMetric", "RunHealthMetric"}


def test_every_denominator_is_in_the_table() -> None:
    """Every denominator has a row."""
    named = {options.get("denominator", "expected") for options, _ in TABLE["ToolCorrectnessMetric"]}
    assert named == set(get_args(Denominator))


@of_every_row
@few
@given(more=_options, expected=_calls, called=_calls)
def test_laws_of_all(
    metric: type[Metric], options: dict[str, Any], holding: set[Law], more: Any, expected: Calls, called: Calls
) -> None:
    """Every metric keeps the laws of all, under all options; a law is one of all or is declared, not both."""
    assert holding.isdisjoint(OF_ALL)
    for law in OF_ALL:
        law(metric, {**more, **options}, expected, called)


@of_every_row
@few
@given(more=_options, expected=_calls, called=_calls)
def test_declared_laws(
    metric: type[Metric], options: dict[str, Any], holding: set[Law], more: Any, expected: Calls, called: Calls
) -> None:
    """A metric keeps the laws that it has declared, under all options."""
    for law in OF_SOME:
        if law in holding:
            law(metric, {**more, **options}, expected, called)


@pytest.mark.parametrize("law", OF_SOME, ids=lambda law: law.__name__)
@of_every_row
def test_laws_that_are_not_declared_do_not_hold(
    law: Law, metric: type[Metric], options: dict[str, Any], holding: set[Law]
) -> None:
    """Some small case breaks each undeclared law, so the table is exact."""
    assert law in holding or breaks(law, metric, options)


def breaks(law: Law, metric: type[Metric], options: dict[str, Any]) -> bool:
    """Whether some small case breaks a law."""
    a, b = ToolCall(name="look_up"), ToolCall(name="book")
    cases: list[tuple[Calls, Calls]] = [([a], [a, b]), ([a, b], [a]), ([a], [a, a])]
    try:
        for expected, called in cases:
            law(metric, options, expected, called)
    except AssertionError:
        return True
    return False
