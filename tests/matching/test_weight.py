"""The sum of similarities without an alignment is the sum of the alignment, whatever way it is had."""

from __future__ import annotations

import operator
import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from oracles import equal as obviously_equal
from oracles import object_similarity
from strategies import AWKWARD, NAN, flat_objects, json_values, nested_objects, objects, twins
from toolmark._internal.markers import REDACTED
from toolmark.matching import align
from toolmark.matching._heaviest import heaviest_matching, heaviest_subsequence, longest_subsequence
from toolmark.matching._kinds import Kinds, kinds_of
from toolmark.matching._leaves import common, leaves_of
from toolmark.matching._weight import Calls
from toolmark.matching._weight import weight as weight_of_calls
from toolmark.matching.alignment import Item
from toolmark.matching.argument_pattern import Ratio
from toolmark.matching.json_compare import ABSENT, json_equal
from toolmark.matching.redacted_values import has_mark

Plain = tuple[str, dict[str, Any]]

ORDERED = pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])

odd_objects = objects((1, 1.0, True, NAN, "1", None), levels=1)
marked_objects = objects((1, 2, REDACTED, f"key {REDACTED}"), levels=1)
names = st.sampled_from(("look_up", "look_up", "book"))


def sides_of(arguments: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[tuple[list[Plain], list[Plain]]]:
    """Expected and called tools, some of which are often equal."""
    calls = st.lists(st.tuples(names, arguments), max_size=6)
    return st.tuples(calls, calls).flatmap(
        lambda both: (
            st.lists(st.sampled_from(both[0]), max_size=3).map(lambda more: (both[0], [*both[1], *more]))
            if both[0]
            else st.just(both)
        )
    )


def weight(expected: Sequence[Plain], called: Sequence[Plain], **options: Any) -> Ratio | None:
    """The sum of calls that are given one by one."""

    def apart(side: Sequence[Plain]) -> Calls:
        return [name for name, _ in side], [arguments for _, arguments in side]

    return weight_of_calls(apart(expected), apart(called), **options)


def items(side: Sequence[Plain]) -> list[Item]:
    """The same calls for `align`."""
    return [Item(name, None, arguments, ABSENT) for name, arguments in side]


def known(sides: tuple[Sequence[Plain], Sequence[Plain]]) -> Kinds:
    """What there is to say of the arguments of both sides."""
    kinds = kinds_of([arguments for side in sides for _, arguments in side])
    assert kinds is not None
    return kinds


def checked(sides: tuple[Sequence[Plain], Sequence[Plain]], *, ordered: bool, arguments: bool = True) -> None:
    """Every way to the sum gives what the alignment gives."""
    expected, called = sides
    alignment = align(items(expected), items(called), ordered=ordered, arguments=arguments)
    for kinds in (known(sides), Kinds(json_equal, marked=True)):
        found = weight(expected, called, ordered=ordered, arguments=arguments, kinds=kinds)
        assert found is not None
        assert Fraction(*found) == alignment.matched


@ORDERED
@given(sides=sides_of(flat_objects) | sides_of(nested_objects) | sides_of(odd_objects))
def test_the_sum_is_that_of_the_alignment(*, ordered: bool, sides: tuple[list[Plain], list[Plain]]) -> None:
    """Of calls that say what is compared of them, in any order and in theirs."""
    checked(sides, ordered=ordered)


@ORDERED
@given(sides=sides_of(st.just({})))
def test_of_names_alone(*, ordered: bool, sides: tuple[list[Plain], list[Plain]]) -> None:
    """The number of names that both sides have, or have in the same order."""
    checked(sides, ordered=ordered, arguments=False)


@ORDERED
@given(sides=sides_of(marked_objects))
def test_redacted_values_are_left_to_the_alignment(*, ordered: bool, sides: tuple[list[Plain], list[Plain]]) -> None:
    """It equals what nobody knows, so that without an alignment the sum is known only where it does not matter."""
    expected, called = sides
    found = weight(expected, called, ordered=ordered, arguments=True, kinds=known(sides))
    alignment = align(items(expected), items(called), ordered=ordered, arguments=True)
    assert found is None or Fraction(*found) == alignment.matched


def test_a_redacted_value_may_equal_two_that_differ() -> None:
    """Pairing the equal calls first would lose a match here."""
    expected: list[Plain] = [("a", {"x": REDACTED}), ("a", {"x": 5})]
    called: list[Plain] = [("a", {"x": REDACTED}), ("a", {"x": 6})]
    assert align(items(expected), items(called), arguments=True).matched == 2
    assert weight(expected, called, arguments=True, kinds=known((expected, called))) is None


def drawn(seed: int, size: int, tools: int) -> tuple[list[Plain], list[Plain]]:
    """Two sides of some size, with nested arguments of several shapes, in part equal."""
    draw = random.Random(seed)

    def call() -> Plain:
        arguments: dict[str, Any] = {"q": draw.randrange(4), "flag": draw.random() < 0.5, "at": [draw.randrange(2)]}
        if draw.random() < 0.6:
            arguments["place"] = {
                "city": draw.choice("abc"),
                **({"zone": draw.randrange(3)} if draw.random() < 0.7 else {}),
            }
        return f"tool {draw.randrange(tools)}", arguments

    expected = [call() for _ in range(size)]
    called = [one if draw.random() < 0.6 else call() for one in expected if draw.random() < 0.9]
    for place in range(len(called) - 1):
        if draw.random() < 0.2:
            called[place], called[place + 1] = called[place + 1], called[place]
    return expected, called


@ORDERED
@pytest.mark.parametrize("arguments", [True, False], ids=["arguments", "names"])
@pytest.mark.parametrize(("size", "tools"), [(40, 1), (41, 1), (60, 1), (120, 1), (60, 3), (150, 12)])
def test_of_many_calls(*, size: int, tools: int, ordered: bool, arguments: bool) -> None:
    """The same where calls are looked up instead of compared one by one."""
    checked(drawn(size + tools, size, tools), ordered=ordered, arguments=arguments)


matrices = st.integers(1, 6).flatmap(
    lambda width: st.lists(st.lists(st.integers(0, 4), min_size=width, max_size=width), min_size=1, max_size=6)
)


def rows_of(matrix: Sequence[Sequence[int]]) -> list[dict[int, int]]:
    """The cells that are worth something."""
    return [{column: worth for column, worth in enumerate(row) if worth} for row in matrix]


def best_sum(matrix: Sequence[Sequence[int]]) -> int:
    """What scipy says of a one-to-one matching."""
    worth = np.array(matrix, dtype=np.int64)
    rows, columns = linear_sum_assignment(worth, maximize=True)
    return int(worth[rows, columns].sum())


@given(matrices)
def test_heaviest_matching_is_scipys(matrix: list[list[int]]) -> None:
    """More rows than columns, fewer, and rows that nothing can be matched with."""
    assert heaviest_matching(rows_of(matrix), len(matrix[0])) == best_sum(matrix)


@pytest.mark.parametrize("values", [1, 2, 6, 1000])
@pytest.mark.parametrize(("rows", "columns"), [(40, 40), (30, 60), (60, 30)])
def test_heaviest_matching_at_middle_size(rows: int, columns: int, values: int) -> None:
    """Few different values, as similarities have, and many."""
    draw = random.Random(rows * columns + values)
    matrix = [[max(0, draw.randint(-values, values)) for _ in range(columns)] for _ in range(rows)]
    assert heaviest_matching(rows_of(matrix), columns) == best_sum(matrix)


@given(matrices)
def test_heaviest_subsequence_is_the_textbooks(matrix: list[list[int]]) -> None:
    """The dynamic programming over all prefixes."""
    height, width = len(matrix), len(matrix[0])
    table = [[0] * (width + 1) for _ in range(height + 1)]
    for i, j in product(range(1, height + 1), range(1, width + 1)):
        table[i][j] = max(table[i - 1][j], table[i][j - 1], table[i - 1][j - 1] + matrix[i - 1][j - 1])
    assert heaviest_subsequence(rows_of(matrix)) == table[-1][-1]


@given(st.text("abc", max_size=12), st.text("abcd", max_size=12))
def test_longest_subsequence_is_the_heaviest_of_ones(left: str, right: str) -> None:
    """Long integers instead of a table say the same."""
    cells = [{column: 1 for column, letter in enumerate(right) if letter == one} for one in left]
    assert longest_subsequence(left, right) == heaviest_subsequence(cells)


@given(twins, twins)
def test_leaves_are_equal_where_objects_are(a: Any, b: Any) -> None:
    """Two objects are equal exactly where their leaves are."""
    assert (leaves_of({"a": a}) == leaves_of({"a": b})) == obviously_equal(a, b)


@given(st.lists(nested_objects | odd_objects, max_size=4), st.lists(nested_objects | odd_objects, max_size=4))
def test_what_objects_have_in_common_is_their_similarity(
    left: list[dict[str, Any]], right: list[dict[str, Any]]
) -> None:
    """Of all pairs, the ones that share nothing left out."""
    rows, unit = common(left, right, list(map(leaves_of, left)), list(map(leaves_of, right)))
    for (i, a), (j, b) in product(enumerate(left), enumerate(right)):
        assert Fraction(rows[i].get(j, 0), unit) == object_similarity(a, b)
        assert rows[i].get(j) != 0


@given(st.lists(objects((1, 1.0, 0, True, False, "1", None, NAN), levels=1) | st.just({"a": [True, [1]]}), max_size=4))
def test_the_fast_equality_is_the_exact_one(values: list[dict[str, Any]]) -> None:
    """What `kinds_of` offers in its place says the same of all values of the objects, and of the objects."""
    kinds = kinds_of(values)
    assert kinds is not None
    for a, b in product(values, values):
        assert kinds.equal(a, b) == obviously_equal(a, b)


@given(st.lists(st.dictionaries(st.text(max_size=3), json_values(), max_size=3), max_size=3))
def test_awkward_values_are_told_apart(values: list[dict[str, Any]]) -> None:
    """The same of values that are hard for Python."""
    kinds = kinds_of(values)
    assert kinds is not None
    for a, b in product([{"a": value} for value in AWKWARD] if kinds.equal is json_equal else values, repeat=2):
        assert kinds.equal(a, b) == obviously_equal(a, b)


@given(st.lists(objects((1, REDACTED, "redacted"), levels=2) | st.just({"a": [[REDACTED]]}), max_size=3))
def test_marks_are_seen(values: list[dict[str, Any]]) -> None:
    """A mark at any depth is seen, and none is where there is none."""
    kinds = kinds_of(values)
    assert kinds is not None
    assert kinds.marked == any(map(has_mark, values))


def nested(levels: int) -> dict[str, Any]:
    """Objects inside each other."""
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


class Text(str):
    """A text that is not exactly one."""

    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [(1,), {1}, b"x", 1j, object(), Text("a"), [1, (2,)], {"b": (1,)}, {1: 2}, [{None: 1}], {Text("b"): 1}, nested(60)],
    ids=range(12),  # the same in every process, which an address is not
)
def test_what_needs_converting_is_not_taken(value: Any) -> None:
    """Values that are no JSON values of the exact types, or stand very deep, are left to those who read them."""
    assert kinds_of([{"a": 1}, {"a": value}]) is None


def test_python_s_equality_is_used_where_it_will_do() -> None:
    """Numbers and texts are compared by the interpreter, and truth values where no number stands beside them."""
    assert kinds_of([]) == Kinds(operator.eq, marked=False)
    assert kinds_of([{"a": 1, "b": [1.0, "x", None]}]) == Kinds(operator.eq, marked=False)
    assert kinds_of([{"a": True, "b": {"c": "x"}}]) == Kinds(operator.eq, marked=False)
    assert kinds_of([{"a": True, "b": [2, -1, 0.5, {"c": "1"}]}]) == Kinds(operator.eq, marked=False)


@pytest.mark.parametrize("number", [0, 1, 0.0, -0.0, 1.0])
def test_truth_values_beside_numbers_like_them_are_told_apart(number: float) -> None:
    """At whatever depth either stands."""
    for found in ([{"a": False}, {"b": [{"c": number}]}], [{"a": [[True]]}, {"b": number}]):
        kinds = kinds_of(found)
        assert kinds is not None
        assert not kinds.equal({"a": bool(number)}, {"a": number})
