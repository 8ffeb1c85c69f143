"""Batch similarities of many argument objects equal those of each pair."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oracles import equal, object_similarity
from strategies import NAN, nested_objects, objects, twins
from toolgrade.matching.shared_leaves import common, leaves_of

odd_objects = objects((1, 1.0, True, NAN, "1", None), levels=1)


@given(twins, twins)
def test_leaves_are_equal_where_objects_are(a: Any, b: Any) -> None:
    """Two objects are equal exactly where their leaves are."""
    assert (leaves_of({"a": a}) == leaves_of({"a": b})) == equal(a, b)


@given(st.lists(nested_objects | odd_objects, max_size=4), st.lists(nested_objects | odd_objects, max_size=4))
def test_shared_leaves_add_up_to_the_similarity(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    """Each lane of a row holds the similarity of a pair."""
    rows, lanes, unit = common(left, right)
    for (i, a), (j, b) in product(enumerate(left), enumerate(right)):
        assert Fraction(lanes.values(rows[i])[j], unit) == object_similarity(a, b)
