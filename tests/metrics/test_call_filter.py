"""Tests of the call filter: calls that did something, of one effect, with their positions in the case."""

from __future__ import annotations

import re
from typing import Any

import pytest

from shorthand import calls_from
from toolgrade import CallStatus, ConfigurationError, ToolCall
from toolgrade.calls import ToolEffect
from toolgrade.failed_calls import ErrorTexts
from toolgrade.metrics.call_filter import UNDONE, CallFilter, ComparedCalls

EFFECTS = {"look": "read", "find": "read", "book": "write", "pay": "write"}


def call_filter(**options: Any) -> CallFilter:
    """A filter with these options."""
    defaults: dict[str, Any] = {"ignore_failed": False, "effects": EFFECTS, "guess_effects": False, "tools": None}
    return CallFilter(**{**defaults, **options})


def compared(expected: str, called: str, **options: Any) -> ComparedCalls:
    """The calls that are compared, of calls in shorthand."""
    return call_filter(**options).select(calls_from(expected), calls_from(called), None)


def names(calls: Any) -> str:
    """The names of calls."""
    return " ".join(call.name for call in calls.values())


@pytest.mark.parametrize("status", CallStatus)
def test_calls_that_did_nothing(status: CallStatus) -> None:
    """Every status is left out but `ok` and `pending`: the agent has done its part of a pending call."""
    result = compared("book", f"look:ok book:{status.value}", ignore_failed=True)
    stays = status in {CallStatus.OK, CallStatus.PENDING}

    assert names(result.called) == ("look book" if stays else "look")
    assert (status in UNDONE) is not stays
    assert any("1 call left out that did nothing: called #2 'book'" in text for text in result.warnings) is not stays


def test_a_call_without_an_execution_counts() -> None:
    """Such as one built in Python; a warning says that nothing is known about it."""
    result = compared("book", "book", ignore_failed=True)

    assert names(result.called) == "book"
    assert result.warnings == ("1 call without a recorded status: taken as successful",)
    assert not compared("book", "book", ignore_failed=False).warnings


def test_failures_that_only_the_answer_reports() -> None:
    """They are left out with a finding; a pattern of the user says what the others are."""
    answers = ["Error: full", "no seats"]
    calls = [ToolCall(name="book", output=answer, execution={"status": "ok"}) for answer in answers]
    left_out = "1 call left out that did nothing: called #{} 'book'"
    with ErrorTexts("no seats").applied():
        own = call_filter(ignore_failed=True).select([], calls, None)
    default = call_filter(ignore_failed=True).select([], calls, None)

    assert ([*own.called], [*default.called]) == ([0], [1])
    assert [(one.kind, one.called) for one in (*own.findings, *default.findings)] == [
        ("error_text", 1),
        ("error_text", 0),
    ]
    assert own.warnings == (left_out.format(2),)
    assert default.warnings[0] == left_out.format(1)
    assert "1 call recorded by the answer alone: a failure in words of its own" in default.warnings[1]


def test_only_one_effect() -> None:
    """The others are dropped on both sides; an unknown one is a write where expected, and then where called."""
    expected, called = "look book frob", "look jiggle frob pay find"
    writes = compared(expected, called, only="write")
    reads = compared(expected, called, only="read")

    assert (names(writes.expected), names(writes.called)) == ("book frob", "frob pay")
    assert (list(writes.expected), list(writes.called)) == ([1, 2], [2, 3])
    assert (names(reads.expected), names(reads.called)) == ("look", "look find")
    assert (list(reads.expected), list(reads.called)) == ([0], [0, 4])


@pytest.mark.parametrize("only", ["read", "write"])
def test_unknown_effects_are_reported(only: str) -> None:
    """A call of unknown effect is a finding with its position; a warning lists expected ones that count as writes."""
    result = compared("frob", "look jiggle frob jiggle", only=only)

    assert [(finding.kind, finding.called) for finding in result.findings] == [
        ("unknown_effect", 1),
        ("unknown_effect", 3),
    ]
    assert [text.partition(";")[0] for text in result.warnings] == [
        "1 expected call of unknown effect counted as writes ('frob')",
        "2 calls not scored, since the effect of the tool is unknown: 'jiggle'",
    ]


def test_failed_calls_are_left_out_before_anything_else() -> None:
    """A failed call of unknown effect gives no finding, and places are those of the case."""
    result = compared("book", "jiggle:error look book:error pay", only="write", ignore_failed=True)

    assert (names(result.called), list(result.called)) == ("pay", [3])
    assert result.findings == ()
    assert result.warnings[0] == "2 calls left out that did nothing: called #1 'jiggle', called #3 'book'"


def test_many_failed_calls_are_named_in_part() -> None:
    """A warning stays readable."""
    result = compared("", " ".join(["book:error"] * 12), ignore_failed=True)

    assert result.warnings[0].endswith("called #10 'book' and 2 more")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": "writes"}, "only must be 'read', 'write' or None"),
        ({"only": ["read"]}, "only must be 'read', 'write' or None"),
        ({"effects": ["look"]}, "effects must map"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    """The message lists the accepted values."""
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        call_filter(**options)


def test_only_takes_the_effect_itself() -> None:
    """`ToolEffect.READ` is as good as its text."""
    assert call_filter(only=ToolEffect.READ).only is ToolEffect.READ
