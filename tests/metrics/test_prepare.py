"""Which calls are compared: those that did something, of one kind, with the places that they have in the case."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from shorthand import made
from toolmark import CallStatus, ConfigurationError, ToolCall, ToolEffect
from toolmark.matching import align
from toolmark.metrics.call_filter import UNDONE, Preparation, Prepared
from toolmark.metrics.comparable_calls import called_item, expected_item

EFFECTS = {"look": "read", "find": "read", "book": "write", "pay": "write"}


def preparation(**options: Any) -> Preparation:
    """A preparation with these options."""
    known: dict[str, Any] = {"only": None, "ignore_failed": False, "effects": EFFECTS, "guess_effects": False}
    return Preparation.read(**{**known, "error_pattern": None, **options})


def prepared(expected: str, called: str, **options: Any) -> Prepared:
    """What remains of calls in shorthand."""
    return preparation(**options).prepare(made(expected), made(called), None)


def names(calls: Any) -> str:
    """The names of calls."""
    return " ".join(call.name for call in calls)


def test_without_options_everything_remains() -> None:
    """Nothing is left out unless it was asked for."""
    result = prepared("look book", "find:error pay jiggle")

    assert (names(result.expected), names(result.called)) == ("look book", "find pay jiggle")
    assert (list(result.expected_at), list(result.called_at)) == ([0, 1], [0, 1, 2])
    assert (result.findings, result.warnings) == ((), ())


@pytest.mark.parametrize("status", CallStatus)
def test_calls_that_did_nothing(status: CallStatus) -> None:
    """Left out is every status but `ok`, and `pending`: who waits for a decision has done their part."""
    result = prepared("book", f"look:ok book:{status.value}", ignore_failed=True)
    stays = status in {CallStatus.OK, CallStatus.PENDING}

    assert names(result.called) == ("look book" if stays else "look")
    assert (status in UNDONE) is not stays
    assert any("1 call left out that did nothing: called #2 'book'" in text for text in result.warnings) is not stays


def test_a_call_of_which_nobody_knows_what_became_counts() -> None:
    """A call without an execution, as one builds it in Python, is not known to have failed."""
    result = prepared("book", "book", ignore_failed=True)

    assert (names(result.called), result.warnings) == ("book", ())


def test_failures_that_only_an_answer_tells_of_need_a_pattern() -> None:
    """Without one a warning says that they are not seen."""
    answered = ToolCall(name="book", output="Error: full", execution={"status": "ok"})
    with_pattern = preparation(ignore_failed=True, error_pattern="^Error").prepare([], [answered], None)
    without = preparation(ignore_failed=True).prepare([], [answered], None)

    assert names(with_pattern.called) == ""
    assert names(without.called) == "book"
    assert without.warnings == ("1 call known by answers alone: a failure that only their text tells of is not seen",)


@pytest.mark.parametrize(
    ("call", "fits"),
    [
        ({"output": "Error: full"}, True),
        ({"output": "fine\nError: full"}, False),
        ({"output": "no Error"}, False),
        ({"output": {"error": "full", "code": 7}}, True),
        ({"output": {"code": 7}}, False),
        ({"output": None}, False),
        ({"output": "fine", "execution": {"model_output": "Error: full"}}, True),
        ({"execution": {"model_output": {"error": "full"}}}, True),
        ({}, False),
    ],
)
def test_where_a_pattern_is_looked_for(call: dict[str, Any], fits: bool) -> None:
    """In the output and in what the model was shown; what is no text is searched as JSON text."""
    pattern = '^Error|"error": '
    result = preparation(ignore_failed=True, error_pattern=pattern).prepare([], [ToolCall(name="f", **call)], None)

    assert (not result.called) is fits


def test_only_one_effect() -> None:
    """The others are dropped on both sides; an unknown one is a write where expected, and then where called."""
    expected, called = "look book frob", "look jiggle frob pay find"
    writes = prepared(expected, called, only="write")
    reads = prepared(expected, called, only="read")

    assert (names(writes.expected), names(writes.called)) == ("book frob", "frob pay")
    assert (list(writes.expected_at), list(writes.called_at)) == ([1, 2], [2, 3])
    assert (names(reads.expected), names(reads.called)) == ("look", "look find")
    assert (list(reads.expected_at), list(reads.called_at)) == ([0], [0, 4])


@pytest.mark.parametrize("only", ["read", "write"])
def test_what_is_not_known_is_reported(only: str) -> None:
    """A call of a tool of unknown effect is a finding with its place, and a warning; so is what passes for a write."""
    result = prepared("frob", "look jiggle frob jiggle", only=only)

    assert [(finding.kind, finding.called) for finding in result.findings] == [
        ("unknown_effect", 1),
        ("unknown_effect", 3),
    ]
    assert [text.partition(";")[0] for text in result.warnings] == [
        "1 expected call of unknown effect taken for writes ('frob')",
        "2 calls not scored, since the effect of the tool is not known: 'jiggle'",
    ]


def test_failed_calls_are_left_out_before_anything_else() -> None:
    """A failed call of unknown effect is no finding, and places are those of the case."""
    result = prepared("book", "jiggle:error look book:error pay", only="write", ignore_failed=True)

    assert (names(result.called), list(result.called_at)) == ("pay", [3])
    assert result.findings == ()
    assert result.warnings[0] == "2 calls left out that did nothing: called #1 'jiggle', called #3 'book'"


def test_many_failed_calls_are_named_in_part() -> None:
    """A warning stays readable."""
    result = prepared("", " ".join(["book:error"] * 12), ignore_failed=True)

    assert result.warnings[0].endswith("called #10 'book' and 2 more")


def test_tools_of_the_case_and_of_the_metric_say_their_effect() -> None:
    """Those of the metric win."""
    called = made("a b")
    case = [{"name": "a", "effect": "read"}, {"name": "b", "annotations": {"readOnlyHint": False}}]
    of_case = preparation(only="write").prepare([], called, case)
    tools = Preparation.read(
        only="write",
        ignore_failed=False,
        effects=None,
        guess_effects=False,
        error_pattern=None,
        tools=preparation(only="write").of_case([{"name": "a", "effect": "write"}]).tools[1],
    )

    assert names(of_case.called) == "b"
    assert names(tools.prepare([], called, case).called) == "a b"


def test_an_alignment_gets_the_places_of_the_case() -> None:
    """Pairs, calls out of order, missing and unexpected ones; weights and counts stay those of what was compared."""
    result = prepared("look book look pay book", "find pay find book find book pay", only="write")
    sides = [expected_item(call) for call in result.expected], [called_item(call) for call in result.called]
    placed = result.placed(align(*sides, ordered=True))

    assert [(pair.expected, pair.called) for pair in placed.pairs] == [(1, 3), (4, 5)]
    assert [(pair.expected, pair.called) for pair in placed.out_of_order] == [(3, 1)]
    assert (placed.missing, placed.unexpected) == ((), (6,))
    assert (placed.expected_count, placed.called_count, placed.matched) == (3, 4, Fraction(2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": "writes"}, "only must be 'read', 'write' or None"),
        ({"only": ["read"]}, "only must be 'read', 'write' or None"),
        ({"error_pattern": "x"}, "ignore_failed=True"),
        ({"error_pattern": "(", "ignore_failed": True}, "is not a regular expression"),
        ({"error_pattern": "", "ignore_failed": True}, "error_pattern must be a regular expression"),
        ({"error_pattern": 3, "ignore_failed": True}, "error_pattern must be a regular expression"),
        ({"effects": ["look"]}, "effects must map"),
    ],
)
def test_options_that_are_none(options: dict[str, Any], message: str) -> None:
    """Each is refused with what would be accepted."""
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        preparation(**options)


def test_only_takes_the_effect_itself() -> None:
    """`ToolEffect.READ` is as good as its text."""
    assert preparation(only=ToolEffect.READ).only is ToolEffect.READ
