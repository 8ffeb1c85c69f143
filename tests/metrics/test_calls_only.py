"""`TaskSuccessMetric(calls_only=True)`: actual changes compared with expected changes."""

from __future__ import annotations

from typing import Any

import pytest

from shorthand import calls_from, calls_only
from toolgrade import (
    ConfigurationError,
    LLMTestCase,
    MetricResult,
    MissingFieldError,
    ToolCall,
    ToolgradeError,
)
from toolgrade.failed_calls import ErrorTexts
from toolgrade.redact import REDACTED

EFFECTS = {"look": "read", "find": "read", "book": "write", "pay": "write", "mail": "write"}


def measured(expected: str, called: str, **options: Any) -> MetricResult:
    """The result of calls in shorthand."""
    case = LLMTestCase(expected_tools=calls_from(expected), tools_called=calls_from(called))
    return calls_only(**{"effects": EFFECTS, **options}).measure(case)


def of_arguments(expected: Any, called: Any, **options: Any) -> MetricResult:
    """The result of one expected write and one that was made."""
    case = LLMTestCase(
        expected_tools=[ToolCall(name="book", input_parameters=expected)],
        tools_called=[ToolCall(name="book", input_parameters=called)],
    )
    return calls_only(**{"effects": EFFECTS, **options}).measure(case)


# The formula


@pytest.mark.parametrize(
    ("expected", "called", "score", "parts"),
    [
        pytest.param("", "", 1, {}, id="nothing and nothing"),
        pytest.param("", "look find look", 1, {}, id="reads that nobody expected"),
        pytest.param("", "book", 0, {"arguments": 0}, id="a write that nobody expected"),
        pytest.param("book", "", 0, {"arguments": 0}, id="a write that is missing"),
        pytest.param("book", "look", 0, {"arguments": 0}, id="only looked"),
        pytest.param("book", "look book", 1, {"arguments": 1}, id="right"),
        pytest.param(
            "book", "book pay", 2 / 3,
            {"arguments": 2 / 3}, id="one more",
        ),
        pytest.param("look", "", 0.9, {"reads": 0}, id="a read that is missing"),
        pytest.param("look find", "find", 0.95, {"reads": 0.5}, id="one of two reads"),
        pytest.param("look look", "look", 0.95, {"reads": 0.5}, id="the same read once of twice"),
        pytest.param(
            "look book", "find book", 0.9,
            {"arguments": 1, "reads": 0}, id="write right, read wrong",
        ),
        pytest.param(
            "book pay", "pay book", 1,
            {"arguments": 1, "order": 0.5}, id="out of order",
        ),
    ],
)  # fmt: skip
def test_total_and_parts(expected: str, called: str, score: float, parts: dict[str, float]) -> None:
    """The total is arguments x (0.9 + 0.1 x recall of the reads); parts that do not apply are left out."""
    result = measured(expected, called)

    assert result.score == pytest.approx(score)
    assert dict(result.parts) == pytest.approx({"total": score, **parts})
    assert result.passed == (score >= 0.9)


@pytest.mark.parametrize(
    ("weight", "score"), [(0, 1), (0.1, 0.95), (0.7, 0.65), (1, 0.5)], ids=lambda value: f"{value:g}"
)
def test_the_weight_of_reads(weight: float, score: float) -> None:
    """With weight 1 the recall of the reads counts as much as the writes; all right is 1 at every weight."""
    assert measured("look find book", "look book", read_weight=weight).score == pytest.approx(score)
    assert measured("look find book", "find look book", read_weight=weight).score == 1


@pytest.mark.parametrize(
    ("expected", "called", "score"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, 1 / 2),
        ({"p": [{"n": "x", "m": 1}, {"n": "y", "m": 2}]}, {"p": [{"n": "x", "m": 1}, {"n": "z", "m": 2}]}, 3 / 4),
        ({"p": [1, 2, 3]}, {"p": [1, 2]}, 2 / 3),
        ({"p": {}}, {"p": []}, 0),
        ({"a.b": 1}, {"a": {"b": 1}}, 0),
        ({"a": [1]}, {"a": {"0": 1}}, 0),
    ],
)
def test_credit_leaf_by_leaf(expected: Any, called: Any, score: float) -> None:
    """Equal leaves / leaves of either side; lists go in by position, and an empty list or object is a leaf."""
    assert of_arguments(expected, called).score == pytest.approx(score)


def test_deep_arguments() -> None:
    """As deep as values may be."""
    deep: Any = 1
    for level in range(198):
        deep = [deep] if level % 2 else {"a": deep}

    assert of_arguments({"x": deep}, {"x": deep}).score == 1


# What is left out


def test_failed_calls_do_not_count() -> None:
    """A retry costs nothing; switched off, the failed call is a write too many."""
    called = "book(1):error book(1):ok"

    assert measured("book(1)", called).score == 1
    assert measured("book(1)", called, ignore_failed=False).score == pytest.approx(2 / 3)


def test_unknown_effects() -> None:
    """Expected tools count as writes in both lists; others are reported with their possible cost."""
    result = measured("frob", "jiggle frob jiggle")

    assert result.score == 1
    assert [(finding.kind, finding.called) for finding in result.findings] == [
        ("unknown_effect", 0),
        ("unknown_effect", 2),
    ]
    assert "if those calls changed something, the score is 0.5" in result.warnings
    assert any("1 expected call of unknown effect counted as writes ('frob')" in text for text in result.warnings)
    assert measured("", "jiggle").warnings[-1] == "if those calls changed something, the score is 0"


def test_tools_of_the_case_and_the_metric() -> None:
    """Effects may be in `available_tools`; the metric's own take precedence."""
    tools = [{"name": "a", "effect": "read"}, {"name": "b", "annotations": {"readOnlyHint": True}}]
    case = LLMTestCase(expected_tools=[], tools_called=calls_from("a b"), available_tools=tools)

    assert calls_only().measure(case).score == 1
    assert calls_only(available_tools=[{"name": "a", "effect": "write"}]).measure(case).score == 0
    assert (
        calls_only(available_tools=[{"name": "a", "effect": "write"}], effects={"?": "read"}).measure(case).score == 1
    )


def test_arguments_that_were_not_recorded() -> None:
    """Such a pair counts by name, with a warning."""
    result = measured("book(1)", "book(?)")

    assert result.score == 1
    assert [(finding.kind, finding.path) for finding in result.findings] == [("not_compared", "$.input_parameters")]
    assert "some calls were compared without fields that were not recorded" in result.warnings


@pytest.mark.parametrize("pin", ["1234", {"digits": [1, 2]}, [1, 2], [], REDACTED])
def test_arguments_that_are_redacted(pin: Any) -> None:
    """A hidden leaf is left out on both sides, and named by its place in the call."""
    result = of_arguments({"cards": [{"pin": pin, "n": 1}]}, {"cards": [{"pin": REDACTED, "n": 1}]})

    assert result.score == 1
    assert [(finding.kind, finding.path) for finding in result.findings] == [
        ("not_compared", "$.input_parameters.cards[0].pin")
    ]


# Words


def test_the_reason_shows_the_sum_and_names_calls_by_their_places() -> None:
    """Places are those of the case, whatever was left out before."""
    case = LLMTestCase(
        expected_tools=[
            ToolCall(name="look"),
            ToolCall(name="book", args={"seats": [{"row": 1}, {"row": 2}]}),
            ToolCall(name="pay", args={"sum": 3}),
        ],
        tools_called=[
            ToolCall(name="find", execution={"status": "ok", "executed": True}),
            ToolCall(name="pay", args={"sum": 3}, execution={"status": "error", "error": "no card"}),
            ToolCall(name="pay", args={"sum": 3}, execution={"status": "ok", "executed": True}),
            ToolCall(name="book", args={"seats": [{"row": 1}, {"row": 9}]}),
            ToolCall(name="mail"),
        ],
    )
    result = calls_only(effects=EFFECTS).measure(case)

    assert str(result.reason).split("\n") == [
        "total: arguments 0.6 x (0.9 + 0.1 x reads 0) = 0.54 (failed at 0.9).",
        "Arguments: 2 x 1.5 matched / (2 expected + 3 called) = 0.6.",
        "Reads: 0 of 1 expected = 0.",
        "Order: 1 of 1.5 matched in order = 0.6667.",
        "'book' (expected #2, called #4): $.input_parameters.seats[1].row expected 2, called with 9.",
        "Unexpected: called #5 'mail'.",
        "Out of order: expected #2 'book' was called as #4; it costs nothing.",
        "Missing read: expected #1 'look' was not called.",
        "Note: 1 call left out that did nothing: called #2 'pay'.",
        "Note: 2 calls without a recorded status: taken as successful.",
    ]


def test_the_alignment_is_that_of_the_writes() -> None:
    """In the places of the case, so that a table shows the right calls."""
    alignment = measured("look book", "find book pay").alignment

    assert alignment is not None
    assert [(pair.expected, pair.called) for pair in alignment.pairs] == [(1, 1)]
    assert (alignment.unexpected, alignment.expected_count, alignment.called_count) == ((2,), 1, 2)


# Refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"read_weight": 2}, "read_weight must be a number from 0 to 1"),
        ({"read_weight": True}, "read_weight must be a number from 0 to 1"),
        ({"threshold": -1}, "threshold must be"),
        ({"effects": {"f": "maybe"}}, "effects must map"),
        ({"forbidden": "f"}, "forbidden must be a list"),
    ],
)
def test_options_that_are_none(options: dict[str, Any], message: str) -> None:
    """Each is refused with the accepted values."""
    with pytest.raises(ConfigurationError, match=message):
        calls_only(**options)


def test_a_pattern_cannot_hang() -> None:
    """The error names the pattern."""
    case = LLMTestCase(expected_tools=[], tools_called=[ToolCall(name="f", output="a" * 60 + "!")])

    with ErrorTexts("(a|aa)+$").applied(), pytest.raises(ToolgradeError, match=r"\(a\|aa\)\+\$.*took longer"):
        calls_only().measure(case)


@pytest.mark.parametrize("missing", ["expected_tools", "tools_called"])
def test_missing_side_is_an_error(missing: str) -> None:
    """A missing side differs from an empty one."""
    sides = {"expected_tools": [], "tools_called": []}
    del sides[missing]

    with pytest.raises(MissingFieldError, match=missing):
        calls_only().measure(LLMTestCase(**sides))
