"""Intervals of means and shares: against scipy's and statsmodels', against the definition, and by what they cover."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, t

from toolgrade import ConfigurationError, InvalidDataError
from toolgrade.stats import mean_interval, rate_interval, student_t

SHARES = st.sampled_from((0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0))


@pytest.mark.parametrize("freedom", [*range(1, 45), 99, 199, 200, 201, 202, 350, 1000, 10**6])
def test_the_quantile_is_scipys(freedom: int) -> None:
    """Student's t, of few and of many degrees of freedom, to ten digits."""
    for probability in (0.5, 0.6, 0.9, 0.95, 0.975, 0.995, 0.9995, 0.1, 0.025):
        expected = float(t.ppf(probability, freedom))
        assert student_t(freedom, probability) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("freedom", "probability"), [(0, 0.9), (1.5, 0.9), (True, 0.9), (3, 0.0), (3, 1.0), (3, 2)])
def test_invalid_degrees_of_freedom(freedom: int, probability: float) -> None:
    """The error lists the accepted values."""
    with pytest.raises(ConfigurationError, match="must be"):
        student_t(freedom, probability)


@given(st.lists(SHARES, min_size=2, max_size=30))
def test_without_clusters_it_is_students(values: list[float]) -> None:
    """The mean plus and minus a multiple of the standard error, clipped to the range."""
    interval = mean_interval(values)
    error = stdev(values) / math.sqrt(len(values))
    if error < 1e-9:
        assert interval is None
        return
    reach = float(t.ppf(0.975, len(values) - 1)) * error

    assert interval == pytest.approx((max(0, fmean(values) - reach), min(1, fmean(values) + reach)), abs=1e-9)


@given(st.lists(st.lists(SHARES, min_size=3, max_size=3), min_size=2, max_size=12), st.sampled_from((0.8, 0.95, 0.99)))
def test_equal_clusters_are_their_means(groups: list[list[float]], confidence: float) -> None:
    """Each task once, with the mean of its trials; repeated trials do not narrow the interval."""
    values = [value for group in groups for value in group]
    clusters = [number for number, group in enumerate(groups) for _ in group]
    means = [fmean(group) for group in groups]

    interval, plain = (
        mean_interval(values, clusters, confidence=confidence),
        mean_interval(means, confidence=confidence),
    )
    assert (interval is None) == (plain is None)
    assert interval is None or interval == pytest.approx(plain, abs=1e-9)


@given(st.lists(st.tuples(SHARES, st.integers(0, 4)), min_size=2, max_size=20), st.randoms())
def test_laws_of_the_mean(rated: list[tuple[float, int]], order: random.Random) -> None:
    """It contains the mean, ignores order and cluster names, and widens with the confidence."""
    values, clusters = [value for value, _ in rated], [key for _, key in rated]
    interval, wider = (mean_interval(values, clusters, confidence=one) for one in (0.95, 0.99))
    order.shuffle(rated)
    other = mean_interval([value for value, _ in rated], [f"task {key}" for _, key in rated])

    if interval is None or wider is None or other is None:
        assert interval is wider is other is None
        return
    assert 0 <= wider[0] <= interval[0] <= fmean(values) + 1e-12
    assert fmean(values) - 1e-12 <= interval[1] <= wider[1] <= 1
    assert other == pytest.approx(interval, abs=1e-12)


@given(st.integers(1, 60), st.data())
def test_without_clusters_it_is_wilsons(number: int, data: st.DataObject) -> None:
    """As scipy has it; also where all passed, or none."""
    passes = data.draw(st.integers(0, number))
    expected = binomtest(passes, number).proportion_ci(confidence_level=0.9, method="wilson")
    interval = rate_interval([True] * passes + [False] * (number - passes), confidence=0.9)

    assert interval == pytest.approx((expected.low, expected.high), abs=1e-12)


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=10))
def test_laws_of_the_share(groups: list[list[bool]]) -> None:
    """The share is inside; it is at least as wide as of independent ones, and where nothing varies that of clusters."""
    passed = [one for group in groups for one in group]
    clusters = [number for number, group in enumerate(groups) for _ in group]
    rate = fmean(passed)
    interval, independent = rate_interval(passed, clusters), rate_interval(passed)

    assert interval is not None
    assert independent is not None
    assert interval[0] <= independent[0] + 1e-12
    assert interval[1] >= independent[1] - 1e-12
    assert 0 <= interval[0] <= rate <= interval[1] <= 1
    if rate in {0, 1}:
        assert interval == rate_interval([bool(rate)] * len(groups))


def test_undetermined_intervals() -> None:
    """None rather than a width of 0."""
    assert mean_interval([]) is None
    assert mean_interval([0.5]) is None
    assert mean_interval([0, 1, 0], "aaa") is None
    assert mean_interval([0.1] * 3) is None
    assert mean_interval([0, 1, 1, 0], "aabb") is None
    assert rate_interval([]) is None
    assert rate_interval([True] * 5, "aaaaa") == rate_interval([True])
    assert rate_interval([True, True, False, False], "aabb") == pytest.approx(_wilson_by_t(0.5, 2, 1))
    assert rate_interval([True, False] * 2, "aabb") == pytest.approx(_wilson_by_t(0.5, 4, 1))


def _wilson_by_t(rate: float, number: float, freedom: int) -> tuple[float, float]:
    """Wilson's interval by the quadratic that it solves."""
    square = float(t.ppf(0.975, freedom)) ** 2
    a, b, c = number + square, -(2 * number * rate + square), number * rate**2
    root = math.sqrt(b * b - 4 * a * c)
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


def test_a_share_by_hand() -> None:
    """Three tasks of 4 trials with 4, 3 and 1 passes: worth 3.4286 independent results; quantile of 2 degrees."""
    passed = [True] * 4 + [True, True, True, False] + [True, False, False, False]
    rate, sums = 8 / 12, [4 - 8 / 3, 3 - 8 / 3, 1 - 8 / 3]
    variance = 3 / 2 * sum(one**2 for one in sums) / 144
    number = rate * (1 - rate) / variance

    assert 3 < number < 12
    assert rate_interval(passed, "aaaabbbbcccc") == pytest.approx(_wilson_by_t(rate, number, 2))


@pytest.mark.parametrize("values", [[1.5], [-0.1], [math.nan], [0, math.inf]])
def test_invalid_scores(values: Sequence[float]) -> None:
    """Scores are in [0, 1]."""
    with pytest.raises(InvalidDataError, match="a value must be between 0 and 1"):
        mean_interval(values)


@pytest.mark.parametrize("confidence", [0, 1, True, -1, "0.9"])
def test_invalid_confidence(confidence: float) -> None:
    """And lengths that differ."""
    with pytest.raises(ConfigurationError, match="confidence must be a number between 0 and 1"):
        rate_interval([True], confidence=confidence)
    with pytest.raises(ConfigurationError, match="confidence must be a number between 0 and 1"):
        mean_interval([1], confidence=confidence)
    with pytest.raises(InvalidDataError, match="clusters has 2 entries and values has 1"):
        mean_interval([1], "ab")


def test_coverage_of_intervals() -> None:
    """With 40 tasks of 5 trials, 95 % intervals cover in about 95 of 100 cases; naive ones in 75."""
    draw = random.Random(7)
    clusters = [task for task in range(40) for _ in range(5)]
    covered = [0, 0, 0]
    for _ in range(600):
        chances = [draw.betavariate(0.6, 0.3) for _ in range(40)]
        passed = [draw.random() < chances[task] for task in clusters]
        scores = [float(one) for one in passed]
        for place, interval in enumerate(
            (mean_interval(scores, clusters), rate_interval(passed, clusters), rate_interval(passed))
        ):
            assert interval is not None
            covered[place] += interval[0] <= 2 / 3 <= interval[1]

    mean, share, naive = (count / 600 for count in covered)
    assert 0.92 < mean < 0.98
    assert 0.92 < share < 0.98
    assert naive < 0.85
