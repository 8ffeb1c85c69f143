"""Laws of alignment.

Optimality: of all one-to-one alignments of calls of equal name the best is shown - greatest weight, then most pairs,
then nearest positions - in every combination of ordered, arguments and output.
Independence: an unordered score does not know in which order the calls are listed.
Symmetry: where every field is set, swapping the sides swaps recall and precision.
Bounds, monotonicity, and exact <= ordered <= unordered, whatever the denominator.
"""

from __future__ import annotations

import random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import call_similarity, equal, outputs_equal, ranks
from shorthand import align
from strategies import argument_items, full_items, sides, text_items
from toolgrade.matching.alignment import Alignment, CallItem, Denominator
from toolgrade.matching.json_compare import ABSENT

Sides = tuple[list[CallItem], list[CallItem]]

DENOMINATORS: tuple[Denominator, ...] = get_args(Denominator)
SETTINGS = [
    pytest.param(
        {"ordered": ordered, "arguments": arguments, "output": output},
        id="-".join(["ordered" if ordered else "unordered", *["arguments"] * arguments, *["output"] * output]),
    )
    for ordered in (False, True)
    for arguments in (False, True)
    for output in (False, True)
]
every_setting = pytest.mark.parametrize("setting", SETTINGS)
any_setting = st.fixed_dictionaries({"ordered": st.booleans(), "arguments": st.booleans(), "output": st.booleans()})
any_ordered = any_setting.map(lambda setting: {**setting, "ordered": True})
any_unordered = any_setting.map(lambda setting: {**setting, "ordered": False})


def positions(alignment: Alignment) -> tuple[tuple[int, int], ...]:
    """The pairs of positions of an alignment."""
    return tuple((pair.expected, pair.called) for pair in alignment.pairs)


def check_against_brute_force(both: Sides, setting: dict[str, bool]) -> None:
    """No alignment ranks higher than the one shown; in order, the same holds for the calls that are left."""
    expected, called = both
    alignment = align(expected, called, **setting)
    left, right = list(range(len(expected))), list(range(len(called)))
    for pairs, crossing in ((alignment.pairs, not setting["ordered"]), (alignment.out_of_order, True)):
        compared = {"arguments": setting["arguments"], "output": setting["output"]}
        best = ranks(expected, called, left, right, crossing=crossing, **compared)
        own = tuple((pair.expected, pair.called) for pair in pairs)
        assert best[own] == max(best.values())
        if pairs is alignment.pairs:
            assert alignment.matched == best[own][0]
        left = [index for index in left if index not in {e for e, _ in own}]
        right = [index for index in right if index not in {c for _, c in own}]
        if not setting["ordered"]:
            assert not alignment.out_of_order
            break
    assert (alignment.missing, alignment.unexpected) == (tuple(left), tuple(right))


# Optimality


@every_setting
@given(both=sides() | sides(full_items, full_items) | sides(text_items, text_items))
def test_alignment_is_the_best_of_all(setting: dict[str, bool], both: Sides) -> None:
    """The alignment shown is the best of all one-to-one alignments by name.

    Also where fields are left open, and where none is, so that the shortcut of pairing equal calls first may be taken.
    """
    check_against_brute_force(both, setting)


@pytest.mark.parametrize("setting", [SETTINGS[2], SETTINGS[6]])
@given(both=sides(argument_items, argument_items))
def test_alignment_of_calls_of_one_tool_is_the_best_of_all(setting: dict[str, bool], both: Sides) -> None:
    """For calls of one tool, which differ only in arguments."""
    check_against_brute_force(both, setting)


# The shape of an alignment


@given(setting=any_setting, both=sides())
def test_a_pair_shows_why_it_is_less_than_perfect(setting: dict[str, bool], both: Sides) -> None:
    """A pair has differences exactly if its similarity is below 1, and each of them is a difference."""
    alignment = align(*both, **setting)
    for pair in (*alignment.pairs, *alignment.out_of_order):
        assert bool(pair.differences) == (pair.similarity < 1)
        for difference in pair.differences:
            same = outputs_equal if difference.kind == "wrong_output" else equal
            assert difference.expected is ABSENT or not same(difference.expected, difference.called)


@given(setting=any_setting, both=sides())
def test_uncaptured_fields_are_named(setting: dict[str, bool], both: Sides) -> None:
    """A compared field that was not captured is listed, and no other field."""
    expected, called = both
    alignment = align(expected, called, **setting)
    for pair in (*alignment.pairs, *alignment.out_of_order):
        reference, actual = expected[pair.expected], called[pair.called]
        lacking = {
            "input_parameters": setting["arguments"]
            and actual.arguments is ABSENT
            and reference.arguments is not ABSENT,
            "output": setting["output"] and actual.output is ABSENT and reference.output is not ABSENT,
            "type": actual.type is ABSENT and reference.type is not None,
        }
        assert sorted(pair.not_compared) == sorted(name for name, lacks in lacking.items() if lacks)


# Independence and symmetry


@given(setting=any_unordered, both=sides(size=8), seed=st.integers(0, 2**16))
def test_unordered_score_ignores_how_the_calls_are_listed(setting: dict[str, bool], both: Sides, seed: int) -> None:
    """The unordered score is the same to the last bit for any listing of E and C."""
    shuffled = [random.Random(seed + side).sample(items, len(items)) for side, items in enumerate(both)]
    one, other = align(*both, **setting), align(*shuffled, **setting)
    assert one.matched == other.matched
    assert [one.score(name) for name in DENOMINATORS] == [other.score(name) for name in DENOMINATORS]


@given(setting=any_setting, both=sides(full_items, full_items))
def test_swapping_the_sides_swaps_recall_and_precision(setting: dict[str, bool], both: Sides) -> None:
    """Where every field is set, swapping E and C swaps recall and precision, and leaves F1 and longest alone."""
    expected, called = both
    one, other = align(expected, called, **setting), align(called, expected, **setting)
    assert one.matched == other.matched
    assert (one.recall, one.precision) == (other.precision, other.recall)
    assert (one.f1, one.score("longest")) == (other.f1, other.score("longest"))


@given(setting=any_ordered, both=sides())
def test_reading_both_sides_backwards_keeps_the_ordered_weight(setting: dict[str, bool], both: Sides) -> None:
    """A common subsequence read backwards is one of both sides read backwards, so the ordered weight stays."""
    expected, called = both
    backwards = align(expected[::-1], called[::-1], **setting)
    assert align(expected, called, **setting).matched == backwards.matched


# Bounds and order


@given(setting=any_setting, both=sides(size=7))
def test_bounds(setting: dict[str, bool], both: Sides) -> None:
    """0 <= w <= min(m, n), every score is in [0, 1], and F1 lies between recall and precision."""
    alignment = align(*both, **setting)
    m, n = len(both[0]), len(both[1])
    scores = {name: alignment.score(name) for name in DENOMINATORS}
    assert 0 <= alignment.matched <= min(m, n)
    assert all(0 <= score <= 1 for score in scores.values())
    assert scores["longest"] == min(scores["expected"], scores["called"])
    assert scores["longest"] <= scores["f1"] <= max(scores["expected"], scores["called"])


@given(setting=any_ordered, both=sides(size=4))
def test_exact_means_the_same_call_at_every_position(setting: dict[str, bool], both: Sides) -> None:
    """Exact holds where m = n and every position has similarity 1, and nowhere else."""
    expected, called = both
    fields = {"arguments": setting["arguments"], "output": setting["output"]}
    same = len(expected) == len(called) and all(
        call_similarity(e, c, **fields) == 1 for e, c in zip(expected, called, strict=True)
    )
    assert align(expected, called, **setting).exact == same


@given(setting=any_setting, items=st.lists(full_items, max_size=8))
def test_identity(setting: dict[str, bool], items: list[CallItem]) -> None:
    """Called as expected, call by call, scores 1, each call paired with itself, by every denominator."""
    alignment = align(items, items, **setting)
    assert alignment.exact
    assert {alignment.score(name) for name in DENOMINATORS} == {1.0}
    assert positions(alignment) == tuple((index, index) for index in range(len(items)))


# Monotonicity


@given(both=sides(full_items, full_items))
def test_comparing_more_never_raises_the_score(both: Sides) -> None:
    """Each compared field can only cost: names >= names and arguments >= names, arguments and output."""
    weights = [
        align(*both, arguments=arguments, output=output).matched
        for arguments, output in ((False, False), (True, False), (True, True))
    ]
    assert weights == sorted(weights, reverse=True)
