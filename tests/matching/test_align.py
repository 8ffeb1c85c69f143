"""Alignments by example, against textbook algorithms at middle size, and at scale."""

from __future__ import annotations

import inspect
import random
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from oracles import call_similarity, equal_pairs
from shorthand import align
from toolgrade.errors import LimitError
from toolgrade.matching import call_similarity as call_similarity_module
from toolgrade.matching.alignment import Alignment, CallItem
from toolgrade.matching.json_compare import ABSENT


def tools(names: str) -> list[CallItem]:
    """Return calls of tools with one-letter names and no other fields."""
    return [CallItem(name, None, ABSENT, ABSENT) for name in names]


def calls(*arguments: Any, name: str = "look_up") -> list[CallItem]:
    """Calls of one tool, by their arguments."""
    return [CallItem(name, None, values, ABSENT) for values in arguments]


def pairs_text(alignment: Alignment) -> str:
    """Format an alignment on one line: `0-0 1-2`, then calls out of order after `x`, then unmatched calls."""
    parts = [f"{pair.expected}-{pair.called}" for pair in alignment.pairs]
    parts += [f"x{pair.expected}-{pair.called}" for pair in alignment.out_of_order]
    parts += [f"-{index}" for index in alignment.missing]
    parts += [f"+{index}" for index in alignment.unexpected]
    return " ".join(parts)


# By example


@pytest.mark.parametrize(
    ("expected", "called", "unordered", "ordered"),
    [
        pytest.param("", "", "", "", id="nothing on either side"),
        pytest.param("a", "", "-0", "-0", id="nothing called"),
        pytest.param("", "a", "+0", "+0", id="nothing expected"),
        pytest.param("ab", "ab", "0-0 1-1", "0-0 1-1", id="the same"),
        pytest.param("ab", "ba", "0-1 1-0", "0-1 x1-0", id="swapped"),
        pytest.param("wqw", "wwq", "0-0 1-2 2-1", "0-0 1-2 x2-1", id="the example of the sources"),
        pytest.param("a", "aa", "0-0 +1", "0-0 +1", id="called twice, expected once"),
        pytest.param("aa", "a", "0-0 -1", "0-0 -1", id="expected twice, called once"),
        pytest.param("aa", "aa", "0-0 1-1", "0-0 1-1", id="the same tool twice"),
        pytest.param("ab", "xaybz", "0-1 1-3 +0 +2 +4", "0-1 1-3 +0 +2 +4", id="others in between"),
        pytest.param("ba", "aaaa", "1-0 -0 +1 +2 +3", "1-0 -0 +1 +2 +3", id="the first of equals"),
        pytest.param("xa", "ayya", "1-0 -0 +1 +2 +3", "1-0 -0 +1 +2 +3", id="the first of equals, far away"),
        pytest.param("abc", "cab", "0-1 1-2 2-0", "0-1 1-2 x2-0", id="first comes last"),
        pytest.param("abc", "cba", "0-2 1-1 2-0", "1-1 x0-2 x2-0", id="reversed: the nearest pair stays"),
        pytest.param("ab", "bba", "0-2 1-0 +1", "1-0 x0-2 +1", id="one out of order and one too many"),
    ],
)
def test_by_name(expected: str, called: str, unordered: str, ordered: str) -> None:
    """By name only, equal calls are paired in order; if ordered, other equal names are out of order."""
    assert pairs_text(align(tools(expected), tools(called))) == unordered
    assert pairs_text(align(tools(expected), tools(called), ordered=True)) == ordered


@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
@pytest.mark.parametrize(
    ("expected", "called", "matched", "pairs"),
    [
        pytest.param(calls({"x": 1}), calls({"x": 2}), "0", "0-0", id="a pair of similarity 0 is still a pair"),
        pytest.param(calls({"x": 1}, {"x": 2}), calls({"x": 2}), "1", "1-0 -0", id="equal before near"),
        pytest.param(calls({"x": 1}), calls({"x": 2}, {"x": 1}), "1", "0-1 +0", id="equal before first"),
        pytest.param(calls({"a": 1, "b": 2}), calls({"a": 1}, {"a": 1, "b": 3}), "1/2", "0-0 +1", id="equally near"),
        pytest.param(calls(ABSENT, {"x": 1}), calls({"x": 2}, {"x": 1}), "2", "0-0 1-1", id="unset matches anything"),
        pytest.param(calls({"x": 1}), calls(ABSENT), "1", "0-0", id="not captured is not compared"),
    ],
)
def test_by_arguments(
    expected: list[CallItem], called: list[CallItem], matched: str, pairs: str, *, ordered: bool
) -> None:
    """With arguments: the greatest sum of similarities first, then most pairs, then nearest, then first."""
    alignment = align(expected, called, arguments=True, ordered=ordered)
    assert (alignment.matched, pairs_text(alignment)) == (Fraction(matched), pairs)


def test_scores_are_rounded_once() -> None:
    """Three thirds are 1, not 0.9999999999999999: sums are exact, and only the score is a float."""
    expected, called = calls(*[{"x": i, "y": i, "z": i} for i in range(3)]), calls(*[{"x": i} for i in range(3)])
    alignment = align(expected, called, arguments=True)
    assert (alignment.matched, alignment.recall) == (1, 1 / 3)


def test_to_dict_is_plain() -> None:
    """An alignment can be written: counts, weight, and pairs by position."""
    assert align(tools("ab"), tools("bac"), ordered=True).to_dict() == {
        "expected_count": 2,
        "called_count": 3,
        "ordered": True,
        "matched": 1.0,
        "pairs": [{"expected": 0, "called": 1, "similarity": 1.0}],
        "out_of_order": [{"expected": 1, "called": 0, "similarity": 1.0}],
        "missing": [],
        "unexpected": [2],
    }


# Against textbook algorithms


def random_side(draw: random.Random, size: int) -> list[CallItem]:
    """Calls of three tools, with arguments of few values, some left open."""
    return [
        CallItem(
            draw.choice("abb"),
            None,
            ABSENT
            if draw.random() < 0.1
            else {key: draw.randint(0, 2) for key in draw.sample("xyz", draw.randint(0, 3))},
            ABSENT,
        )
        for _ in range(size)
    ]


def equal_of(expected: Sequence[CallItem], called: Sequence[CallItem]) -> set[tuple[int, int]]:
    """Return the equal pairs of two sides, k-th with k-th."""
    return equal_pairs(expected, called, range(len(expected)), range(len(called)), arguments=True, output=False)


def aims(alignment: Alignment, equal: set[tuple[int, int]]) -> tuple[Fraction, int, int, int]:
    """Return weight, equal pairs, number of pairs, and nearness, as greater is better."""
    pairs = [(pair.expected, pair.called) for pair in alignment.pairs]
    return alignment.matched, len(equal.intersection(pairs)), len(pairs), -sum(abs(e - c) for e, c in pairs)


def sides_of_many_units() -> tuple[list[CallItem], list[CallItem]]:
    """Two sides whose similarities have no small common unit: one of them fits into 64 bits, their sum does not."""
    expected = calls(*({f"k{key}": 0 for key in range(2 + size)} for size in range(31)))
    called = calls(*({**{f"k{key}": 0 for key in range(1 + size)}, f"k{1 + size}": 1} for size in range(31)))
    return expected, called


@pytest.mark.parametrize("seed", [*range(8), None])
def test_ordered_equals_the_textbook_subsequence(seed: int | None) -> None:
    """The O(mn) dynamic program of the longest common subsequence, with all pair criteria in order of priority."""
    if seed is None:
        expected, called = sides_of_many_units()
    else:
        draw = random.Random(seed)
        expected, called = random_side(draw, draw.randint(5, 40)), random_side(draw, draw.randint(5, 40))
    equal = equal_of(expected, called)
    table = [[(Fraction(0), 0, 0, 0)] * (len(called) + 1) for _ in range(len(expected) + 1)]
    for i, e in enumerate(expected, 1):
        for j, c in enumerate(called, 1):
            best = max(table[i - 1][j], table[i][j - 1])
            if e.name == c.name:
                weight, equals, pairs, nearness = table[i - 1][j - 1]
                equals += (i - 1, j - 1) in equal
                similarity = call_similarity(e, c, arguments=True, output=False)
                best = max(best, (weight + similarity, equals, pairs + 1, nearness - abs(i - j)))
            table[i][j] = best
    assert aims(align(expected, called, ordered=True, arguments=True), equal) == table[-1][-1]


@pytest.mark.parametrize("seed", range(8))
def test_unordered_equals_scipy(seed: int) -> None:
    """The assignment that scipy finds, with all aims folded into one number."""
    draw = random.Random(seed)
    expected, called = random_side(draw, draw.randint(5, 40)), random_side(draw, draw.randint(5, 40))
    equal = equal_of(expected, called)
    worth = np.zeros((len(expected), len(called)), dtype=np.int64)
    for i, e in enumerate(expected):
        for j, c in enumerate(called):
            if e.name == c.name:
                similarity = int(call_similarity(e, c, arguments=True, output=False) * 6)
                worth[i, j] = similarity * 10**11 + ((i, j) in equal) * 10**8 + 10**5 - abs(i - j)
    rows, columns = linear_sum_assignment(worth, maximize=True)
    weight, equals, pairs, nearness = aims(align(expected, called, arguments=True), equal)
    assert weight * 6 * 10**11 + equals * 10**8 + pairs * 10**5 + nearness == int(worth[rows, columns].sum())


@pytest.mark.parametrize("seed", range(10))
def test_many_calls_with_the_same_keys_are_as_similar_as_two(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Values of a large group are compared in one order of keys; the alignment is the same."""
    draw = random.Random(seed)
    values = [0, 1, 1.0, True, "1", None, [1], [True], float("nan")]
    rows = [{key: draw.choice(values) for key in draw.sample("abc", 3)} for _ in range(24)]
    together = align(calls(*rows[:12]), calls(*rows[12:]), arguments=True)
    monkeypatch.setattr(call_similarity_module, "_MANY_PAIRS", 1_000)
    assert repr(align(calls(*rows[:12]), calls(*rows[12:]), arguments=True)) == repr(together)


# At scale


def unique_names(size: int) -> Sequence[list[CallItem]]:
    """As many tools as calls, called in another order."""
    items = [CallItem(f"tool {i}", None, {"q": i, "lang": "en"}, ABSENT) for i in range(size)]
    return items, random.Random(size).sample(items, size)


def equal_calls(size: int) -> Sequence[list[CallItem]]:
    """Return identical calls."""
    return calls(*[{"q": 1, "lang": "en"}] * size), calls(*[{"q": 1, "lang": "en"}] * size)


def permuted_calls(size: int) -> Sequence[list[CallItem]]:
    """Calls of one tool, all different, called in another order."""
    items = calls(*({"q": i, "lang": "en"} for i in range(size)))
    return items, random.Random(size).sample(items, size)


def none_equal(size: int) -> Sequence[list[CallItem]]:
    """Return calls of one tool with no two equal, but many that share one or two of three arguments."""
    draw = random.Random(size)
    rows = [{"q": i, "page": draw.randrange(20), "lang": draw.randrange(5)} for i in range(size * 2)]
    return calls(*rows[:size]), calls(*rows[size:])


def lines(work: Callable[[], object]) -> int:
    """How many lines of Python it takes, which does not depend on what else the machine does."""
    count = 0

    def trace(_frame: object, event: str, _argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        work()
    finally:
        sys.settrace(before)
    return count


#: Calls of one tool in another order are a question of all pairs, if their order counts.
COMMON_SHAPES = pytest.mark.parametrize(
    ("sides", "ordered"),
    [(unique_names, False), (unique_names, True), (equal_calls, False), (equal_calls, True), (permuted_calls, False)],
)


@COMMON_SHAPES
def test_common_shapes_are_aligned_in_near_linear_work(
    sides: Callable[[int], Sequence[list[CallItem]]], *, ordered: bool
) -> None:
    """Eight times the calls take about eight times the work, not sixty-four times."""
    small, large = sides(250), sides(2_000)
    few = lines(lambda: align(*small, arguments=True, output=True, ordered=ordered))
    assert lines(lambda: align(*large, arguments=True, output=True, ordered=ordered)) < 12 * few


def test_memory_grows_with_the_pairs_and_with_nothing_else() -> None:
    """Some 150 bytes for each pair that is looked at: a million pairs fit into 150 MB."""
    sides = none_equal(120)
    for ordered in (False, True):
        tracemalloc.start()
        align(*sides, arguments=True, ordered=ordered)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 170 * 120 * 120 + 400_000


@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
def test_the_stack_does_not_grow_with_the_calls(*, ordered: bool) -> None:
    """No part of the work recurses over calls, so that thousands of them meet no recursion limit."""
    sides = none_equal(150)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 40)
    try:
        align(*sides, arguments=True, ordered=ordered)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
def test_more_pairs_than_can_be_compared_are_refused(*, ordered: bool) -> None:
    """A million unequal pairs of one tool are compared, beyond it the error names the tool; equal calls are free."""
    sides = none_equal(1_001)
    with pytest.raises(LimitError, match=r"1,001 expected and 1,001 called .* 'look_up' are unequal.*1,000,000 pairs"):
        align(*sides, arguments=True, ordered=ordered)
    assert align(*equal_calls(5_000), arguments=True, ordered=ordered).recall == 1
