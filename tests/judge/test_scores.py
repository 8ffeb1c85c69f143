"""The formulas: worked examples, and laws against a slow count of every way the open questions could be answered."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade.judge import questions as scores

CALLS = st.lists(st.sampled_from((True, False, None)), max_size=4)
MISSING = st.sampled_from((None, 0, 1, 2))


def filled(calls: list[bool | None]) -> list[tuple[bool, ...]]:
    """Return all possible decisions of the open calls."""
    return list(product(*[(call,) if call is not None else (True, False) for call in calls]))


def slow_selection(calls: tuple[bool, ...], missing: int) -> Fraction:
    """Return the selection score of a fully decided unit by definition."""
    if not calls:
        return Fraction(missing == 0)
    yes = sum(calls)
    return Fraction(yes, yes + calls.count(False) + missing)


@pytest.mark.parametrize(
    ("calls", "missing", "score", "low", "high", "coverage"),
    [
        pytest.param([True, True], 0, 1, 1, 1, 1, id="all right"),
        pytest.param([True, False], 0, 0.5, 0.5, 0.5, 1, id="one wrong"),
        pytest.param([True], 1, 0.5, 0.5, 0.5, 1, id="one missing"),
        pytest.param([True, False], 2, 0.25, 0.25, 0.25, 1, id="one wrong and two missing"),
        pytest.param([True, None], 0, 1, 0.5, 1, 2 / 3, id="one open: left out, and counted"),
        pytest.param([True], None, 1, 0.5, 1, 0.5, id="whether one is missing is open"),
        pytest.param([None], 0, None, 0, 1, 0.5, id="the only call is open"),
        pytest.param([None], 1, 0, 0, 0.5, 1 / 2, id="open, and one is missing"),
        pytest.param([], 0, 1, 1, 1, 1, id="no call, and none was needed"),
        pytest.param([], 2, 0, 0, 0, 1, id="no call, and two were needed"),
        pytest.param([], None, None, 0, 1, 0, id="no call, and it is open whether one was needed"),
    ],
)
def test_selection(
    calls: list[bool | None], missing: int | None, score: float | None, low: float, high: float, coverage: float
) -> None:
    """The selection score of a unit is yes / (yes + no); each missing call is a no."""
    part = scores.selection_part(calls, missing)

    assert part.score == score
    assert (part.low, part.high, part.decided / part.total) == pytest.approx((low, high, coverage))


def test_arguments() -> None:
    """The argument score is yes / (yes + no) over the calls."""
    part = scores.part_of([True, False, None])

    assert (part.score, part.low, part.high) == (0.5, 1 / 3, 2 / 3)
    assert part.decided / part.total == 2 / 3


def test_mean() -> None:
    """Undecided units are excluded from the mean, but not from bounds and coverage."""
    units = [scores.selection_part([True], 0), scores.selection_part([None], None), scores.selection_part([False], 0)]
    part = scores.mean_part(units)

    assert (part.score, part.low, part.high) == (0.5, 1 / 3, 2 / 3)
    assert part.decided / part.total == 4 / 6
    assert scores.mean_part([scores.selection_part([], None)]).score is None


@given(CALLS, MISSING)
def test_bounds_hold_for_all_open_answers(calls: list[bool | None], missing: int | None) -> None:
    """The minimum and maximum over all answers, where an open *missing* is one call."""
    part = scores.selection_part(calls, missing)
    possible = [
        slow_selection(way, number) for way in filled(calls) for number in ((0, 1) if missing is None else (missing,))
    ]

    assert part.low == pytest.approx(float(min(possible)))
    assert part.high == pytest.approx(float(max(possible)))
    if part.score is not None:
        assert part.low - 1e-12 <= part.score <= part.high + 1e-12
    if None not in calls and missing is not None:
        assert part.score == pytest.approx(float(possible[0]))


@given(st.lists(st.tuples(CALLS, MISSING), min_size=1, max_size=4))
def test_the_mean_lies_within_its_bounds(units: list[tuple[list[bool | None], int | None]]) -> None:
    """A mean over some of the units cannot leave the bounds over all of them."""
    part = scores.mean_part([scores.selection_part(calls, missing) for calls, missing in units])

    assert 0 <= part.low <= part.high <= 1
    assert 0 <= part.decided / part.total <= 1
    if part.score is not None:
        assert part.low - 1e-12 <= part.score <= part.high + 1e-12
