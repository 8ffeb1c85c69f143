"""Whether all calls of one side have equals on the other is what the alignment says of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from math import nextafter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import NAN, flat_objects, nested_objects, objects
from toolmark._internal.markers import REDACTED
from toolmark.matching import Alignment, align
from toolmark.matching._contained import contained
from toolmark.matching._kinds import Kinds, kinds_of
from toolmark.matching.alignment import Item, quotient
from toolmark.matching.json_compare import ABSENT, json_equal

Plain = tuple[str, dict[str, Any]]

ORDERED = pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
ARGUMENTS = pytest.mark.parametrize("arguments", [True, False], ids=["arguments", "names"])

few_values = objects((1, 1.0, True, NAN, "1", None), levels=1)


@st.composite
def sides(draw: st.DrawFn, arguments: st.SearchStrategy[dict[str, Any]]) -> tuple[list[Plain], list[Plain]]:
    """Some calls, and as often as not all of them again, in their order or not, among others or not."""
    calls = st.lists(st.tuples(st.sampled_from(("look_up", "book")), arguments), max_size=4)
    inner, outer = draw(calls), draw(calls)
    for place, one in enumerate(draw(st.sampled_from((inner, inner[:-1], [])))):
        outer.insert(draw(st.integers(0, len(outer))) if draw(st.booleans()) else place, one)
    return inner, outer


def expected(inner: Sequence[Plain], outer: Sequence[Plain], **how: bool) -> bool:
    """What the alignment says."""
    items = [[Item(name, None, arguments, ABSENT) for name, arguments in side] for side in (inner, outer)]
    return align(*items, **how).matched == len(inner)


def found(inner: Sequence[Plain], outer: Sequence[Plain], kinds: Kinds, **how: bool) -> bool | None:
    """What is said of the same calls."""
    apart = [([name for name, _ in side], [arguments for _, arguments in side]) for side in (inner, outer)]
    return contained(*apart, kinds=kinds, **how)  # type: ignore[misc]


def kinds(*both: Sequence[Plain]) -> Kinds:
    """What stands in the arguments of both sides."""
    said = kinds_of([arguments for side in both for _, arguments in side])
    assert said is not None
    return said


@ORDERED
@ARGUMENTS
@given(both=sides(flat_objects) | sides(nested_objects) | sides(few_values))
def test_all_are_there_where_the_alignment_pairs_them(
    *, ordered: bool, arguments: bool, both: tuple[list[Plain], list[Plain]]
) -> None:
    """In any order and in theirs, by name and by arguments, however values are compared."""
    wanted = expected(*both, ordered=ordered, arguments=arguments)
    for said in (kinds(*both), Kinds(json_equal, marked=True)):
        assert found(*both, said, ordered=ordered, arguments=arguments) == wanted


@ORDERED
@given(both=sides(objects((1, REDACTED), levels=1)))
def test_redacted_values_are_left_to_the_alignment(*, ordered: bool, both: tuple[list[Plain], list[Plain]]) -> None:
    """Except where numbers alone decide."""
    answer = found(*both, kinds(*both), ordered=ordered, arguments=True)
    assert answer is None or answer == expected(*both, ordered=ordered, arguments=True)


@ORDERED
@pytest.mark.parametrize("change", ["nothing", "the last", "a repetition", "one more outside"])
@pytest.mark.parametrize("size", [40, 41, 90])
def test_of_many_calls(size: int, change: str, *, ordered: bool) -> None:
    """Where calls are looked up instead of compared one by one."""
    draw = random.Random(size)
    inner: list[Plain] = [("a", {"q": draw.randrange(30), "at": [draw.randrange(2)]}) for _ in range(size)]
    outer = inner[:]
    if change == "the last":
        outer[-1] = ("a", {"q": -1})
    if change == "a repetition":
        outer[-1] = ("a", {**outer[0][1]})
        inner[-1] = ("a", {"q": 31})
        outer.append(outer[1])
    if change == "one more outside":
        outer.insert(3, ("a", {"q": 7}))
    if not ordered:
        draw.shuffle(outer)
    answer = found(inner, outer, kinds(inner, outer), ordered=ordered, arguments=True)
    assert (
        answer == expected(inner, outer, ordered=ordered, arguments=True) == (change in {"nothing", "one more outside"})
    )


def test_a_score_is_1_only_where_all_is_there() -> None:
    """However little is not: a quotient that would be rounded to 1 stays below."""
    bottom = 10**30
    assert quotient(bottom, bottom) == 1.0
    assert quotient(bottom - 1, bottom) == nextafter(1.0, 0.0)
    almost = Alignment(1, 1, False, Fraction(bottom - 1, bottom), (), (), (), ())
    assert almost.score("f1") == nextafter(1.0, 0.0)
