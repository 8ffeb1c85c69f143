"""`compare="meaning"` of the metrics that compare arguments."""

from __future__ import annotations

from typing import Any

import pytest

from toolgrade import ConfigurationError, LLMTestCase, MetricResult, TaskSuccessMetric, ToolCall, ToolCorrectnessMetric
from toolgrade.expect import Expect, Forbid, Ignore, Plan, Regex
from toolgrade.redact import REDACTED

EXPECTED = {"city": "New York", "seats": ["A", "B"], "who": [{"name": "Ann"}], "sum": 3}
CALLED = {"city": "new york", "seats": ["b", "a"], "who": [{"name": "ANN"}], "sum": "3.0"}


def measured(expected: Any, called: dict[str, Any], **options: Any) -> MetricResult:
    """The result of one call; expected arguments may be those of a plan."""
    calls = [ToolCall(name="book", input_parameters=expected)] if isinstance(expected, dict) else expected
    case = LLMTestCase(expected_tools=calls, tools_called=[ToolCall(name="book", input_parameters=called)])
    return ToolCorrectnessMetric(evaluation_params=["input_parameters"], **options).measure(case)


def paths(result: MetricResult) -> list[str | None]:
    """Where values counted as equal."""
    return [finding.path for finding in result.findings if finding.kind == "equal_by_meaning"]


@pytest.mark.parametrize("options", [{}, {"should_consider_ordering": True}, {"should_exact_match": True}], ids=repr)
@pytest.mark.parametrize("plan", [False, True])
def test_values_are_equal_in_any_usual_spelling(options: dict[str, Any], plan: bool) -> None:
    """In lists and in plans; the findings list each of them, and the default stays exact."""
    expected: Any = Plan([Expect("book", EXPECTED)]) if plan else EXPECTED
    by_meaning = measured(expected, CALLED, compare="meaning", **options)

    assert by_meaning.score == 1
    assert paths(by_meaning) == [
        "$.input_parameters.city",
        "$.input_parameters.seats",
        "$.input_parameters.who[0].name",
        "$.input_parameters.sum",
    ]
    assert "by meaning" in by_meaning.metric
    assert measured(expected, CALLED, **options).score == 0
    assert not paths(measured(expected, EXPECTED, compare="meaning", **options))


def test_partial_credit_of_lists() -> None:
    """Of a list of plain values the share of common items; a list of objects is equal or not."""
    assert measured({"x": [1, 2, 3]}, {"x": [3, "1"]}, compare="meaning").score == pytest.approx(2 / 3)
    assert measured({"x": [{"a": 1}, {"a": 2}]}, {"x": [{"a": 1}, {"a": 3}]}, compare="meaning").score == 0


def test_matchers_forbidden_calls_and_redacted_values() -> None:
    """Matchers and forbidden arguments stay exact; redacted values are left out as always."""
    plan = Plan([Expect("book", {"a": Regex("X"), "b": "X", "c": Ignore()}), Forbid("book", {"b": "X"})])
    result = measured(plan, {"a": "x", "b": "x", "c": 1}, compare="meaning")

    assert result.score == 0.5
    assert measured(plan, {"a": "X", "b": "X"}, compare="meaning").score == 0
    hidden = measured({"a": "X", "b": 1}, {"a": REDACTED, "b": "1"}, compare="meaning")
    assert (hidden.score, paths(hidden)) == (1, ["$.input_parameters.b"])


def test_several_calls_are_paired_by_meaning() -> None:
    """The best pairs are those of the same meaning."""
    names = ("Rome", "Oslo", "Lima", "Bonn", "Kyiv")
    case = LLMTestCase(
        expected_tools=[ToolCall(name="book", input_parameters={"city": name, "n": 1}) for name in names],
        tools_called=[ToolCall(name="book", input_parameters={"city": name.upper(), "n": 1}) for name in names[::-1]],
    )
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"], compare="meaning")
    alignment = metric.align(case)

    assert alignment.matched == 5
    assert [(pair.expected, pair.called) for pair in alignment.pairs] == [(0, 4), (1, 3), (2, 2), (3, 1), (4, 0)]
    assert TaskSuccessMetric(calls_only=True).measure(case).score == 1
    assert TaskSuccessMetric(calls_only=True, compare="exact").measure(case).score == 0.5


def test_names_alone_are_not_affected() -> None:
    """Without arguments there is nothing to compare by meaning."""
    case = LLMTestCase(expected_tools=[ToolCall(name="book")], tools_called=[ToolCall(name="Book")])
    metric = ToolCorrectnessMetric(compare="meaning")

    assert metric.measure(case).score == 0
    assert metric.label == "tool_correctness"
    for kind in (ToolCorrectnessMetric, TaskSuccessMetric):
        with pytest.raises(ConfigurationError, match="compare must be one of exact, meaning"):
            kind(compare="any")  # type: ignore[arg-type]
