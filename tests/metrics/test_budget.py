"""Budget: within all limits or not, and never a pass where something is unknown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import BudgetMetric, ConfigurationError, LLMTestCase, MissingFieldError, Run, ToolCall

PRICES = {"cheap": {"input": 1e6, "output": 1e6}, "dear-*": {"input": 2e6, "output": 3e6}}
USAGE = {"input_tokens": 10, "output_tokens": 5}


def measured(*, calls: int | None = 2, run: dict[str, Any] | None = None, **limits: Any) -> Any:
    """The result of one case."""
    tools = None if calls is None else [ToolCall(name="look")] * calls
    return BudgetMetric(**limits).measure(LLMTestCase(tools_called=tools, run=None if run is None else Run(**run)))


_limit = st.none() | st.integers(0, 4)


@given(_limit, _limit, _limit, st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_one_exceeded_limit_is_enough(
    max_calls: int | None, max_seconds: int | None, max_tokens: int | None, calls: int, seconds: int, tokens: int
) -> None:
    """The score is 1 within all limits and else 0, with a finding for each that is exceeded."""
    limits = {"max_calls": max_calls, "max_seconds": max_seconds, "max_tokens": max_tokens}
    spent = zip(limits.values(), (calls, seconds, tokens), strict=True)
    exceeded = sum(limit is not None and limit < amount for limit, amount in spent)
    if {*limits.values()} == {None}:
        return
    result = measured(calls=calls, run={"duration": seconds, "usage": {"total_tokens": tokens}}, **limits)

    assert (result.score, len(result.findings)) == (float(not exceeded), exceeded)
    assert {finding.kind for finding in result.findings} <= {"over_budget"}


@pytest.mark.parametrize(
    ("models", "limit", "score"),
    [
        (["cheap"], 15, 1),
        (["cheap"], 14.9, 0),
        (["dear-2"], 35, 1),
        (["dear-2"], 34, 0),
        (["cheap", "dear-2"], 35, 1),
        (["cheap", "dear-2"], 14, 0),
    ],
)
def test_cost(models: list[str], limit: float, score: float) -> None:
    """Of the tokens at the price of the model; of several models it is between the lowest and the highest."""
    assert measured(run={"models": models, "usage": USAGE}, max_cost=limit, prices=PRICES).score == score


@pytest.mark.parametrize(
    ("limits", "run", "text"),
    [
        ({"max_seconds": 1}, None, "the duration was not recorded"),
        ({"max_tokens": 1}, {"duration": 1}, "the usage was not recorded"),
        ({"max_tokens": 1}, {"usage": {"input_tokens": 0}}, "the usage was not recorded"),
        ({"max_cost": 1}, {"models": ["cheap"]}, "the usage was not recorded"),
        ({"max_cost": 1}, {"usage": USAGE}, "the model was not recorded"),
        ({"max_cost": 1}, {"models": ["cheap", "other"], "usage": USAGE}, "the price of 'other' is unknown"),
        ({"max_cost": 20}, {"models": ["cheap", "dear-1"], "usage": USAGE}, "between 15 and 35"),
    ],
)
def test_what_is_unknown_is_not_zero(limits: dict[str, Any], run: Any, text: str) -> None:
    """The case is not measured; an exceeded limit decides all the same, and names it."""
    prices = {"prices": PRICES} if "max_cost" in limits else {}
    with pytest.raises(MissingFieldError, match=text):
        measured(run=run, max_calls=2, **limits, **prices)
    failed = measured(run=run, max_calls=1, **limits, **prices)

    assert (failed.score, text in failed.warnings[0]) == (0, True)


def test_missing_calls_are_unknown_and_none_are_nothing_to_check() -> None:
    """An empty list of calls is within every limit."""
    with pytest.raises(MissingFieldError, match="tools_called is missing"):
        measured(calls=None, max_calls=1)
    assert measured(calls=0, max_calls=0).reason == (
        "calls: 0 calls, within the budget of 0; nothing to check = 1 (passed at 1)."
    )


def test_the_excess_is_in_words() -> None:
    """With the numbers that people know."""
    result = measured(run={"duration": 90.5, "usage": {"total_tokens": 21_300}}, max_seconds=60, max_tokens=20_000)

    assert [finding.message for finding in result.findings] == [
        "Over budget: 90.5 seconds, 30.5 over the budget of 60.",
        "Over budget: 21,300 tokens, 1,300 over the budget of 20,000.",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "must have at least one limit"),
        ({"max_calls": -1}, "max_calls must be a whole number"),
        ({"max_tokens": 1.5}, "max_tokens must be a whole number"),
        ({"max_seconds": float("nan")}, "max_seconds must be a finite number"),
        ({"max_cost": True, "prices": PRICES}, "max_cost must be a finite number"),
        ({"max_cost": 1}, "max_cost needs prices"),
        ({"max_calls": 1, "prices": 3}, "prices must map"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    """The error names the option."""
    with pytest.raises(ConfigurationError, match=message):
        BudgetMetric(**options)
