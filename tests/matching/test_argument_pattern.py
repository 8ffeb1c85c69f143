"""Argument objects with matchers in them: similarity, and the place of each difference."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from toolgrade._internal.json import REDACTED
from toolgrade.expect import Absent, AnyOf, Ignore, Present
from toolgrade.matching.argument_pattern import Mismatches, Template, credit_of
from toolgrade.matching.json_compare import ABSENT, Difference


def test_every_difference_has_its_place() -> None:
    """At any depth: a missing, a wrong and an extra argument, one that should be absent, and redacted ones."""
    tree = {"a": {"b": {"c": 1, "gone": Absent(), "key": AnyOf(1, 2)}}, "there": Present()}
    called = {"a": {"b": {"c": 2, "gone": 3, "key": REDACTED, "more": [REDACTED]}, "extra": 4}}
    expected = Mismatches(
        [
            Difference("wrong_argument", ("a", "b", "c"), 1, 2),
            Difference("extra_argument", ("a", "b", "gone"), ABSENT, 3),
            Difference("extra_argument", ("a", "extra"), ABSENT, 4),
            Difference("missing_argument", ("there",), tree["there"], ABSENT),
        ],
        [("a", "b", "key"), ("a", "b", "more")],
    )

    assert Template(tree).mismatches(called) == expected


@pytest.mark.parametrize("value", [REDACTED, [REDACTED]], ids=["value", "list"])
def test_redacted_values_are_compared_by_presence_alone(value: Any) -> None:
    """A matcher of the presence does not look at the value; any other has none to look at."""
    assert Template({"a": Present(), "b": 1}).ratio({"a": value, "b": 2}) == (1, 2)
    assert Template({"a": AnyOf(1), "b": 1}).ratio({"a": value, "b": 2}) == (0, 1)
    assert Template({"a": Present()}).mismatches({"a": value}) == Mismatches()


@pytest.mark.parametrize(
    ("expected", "value", "credit"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, Fraction(1, 2)),
        ({"a": {"b": 1, "c": 2}, "d": 1}, {"a": {"b": 1, "c": 3}, "d": 1}, Fraction(3, 4)),
        ({"a": 1}, 1, Fraction(0)),
        (1, {"a": 1}, Fraction(0)),
        ({}, [], Fraction(0)),
        ({"a": Ignore()}, {}, Fraction(1)),
    ],
)
def test_only_objects_count_in_part(expected: Any, value: Any, credit: Fraction) -> None:
    """An object and another value have nothing in common, on whichever side the object is."""
    assert Fraction(*credit_of(expected, value) or (1, 0)) == credit
