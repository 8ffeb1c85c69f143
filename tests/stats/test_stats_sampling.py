"""A population from a sample: against textbook formulas, by going through every sample, and by what intervals cover."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from statistics import fmean, pvariance, stdev, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, t

from toolgrade import ConfigurationError, InvalidDataError
from toolgrade.stats import (
    Stratum,
    mean_interval,
    population_mean,
    population_mean_interval,
    population_rate_interval,
    rate_interval,
)

SHARES = st.sampled_from((0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0))
GROUPS = st.lists(
    st.tuples(st.lists(SHARES, min_size=1, max_size=5), st.integers(1, 5)).filter(lambda pair: pair[1] <= len(pair[0])),
    min_size=1,
    max_size=3,
)


def every_sample(groups: Sequence[tuple[Sequence[float], int]]) -> list[list[Stratum]]:
    """Return all samples of this size from each group, which are equally likely."""
    single = [
        [Stratum(len(group), size, drawn) for drawn in itertools.combinations(group, size)] for group, size in groups
    ]
    return [list(several) for several in itertools.product(*single)]


@given(GROUPS)
def test_the_mean_is_unbiased(groups: list[tuple[list[float], int]]) -> None:
    """Over every sample that can be drawn, the mean of the estimates is the mean of the population."""
    population = [value for group, _ in groups for value in group]

    means = [population_mean(strata) for strata in every_sample(groups)]

    assert fmean(one for one in means if one is not None) == pytest.approx(fmean(population), abs=1e-12)
    assert None not in means


@given(st.lists(SHARES, min_size=3, max_size=8), st.data())
def test_the_variance_is_unbiased(population: list[float], data: st.DataObject) -> None:
    """Over every sample of a population, the mean of the squared errors is the variance of the estimates."""
    size = data.draw(st.integers(2, len(population) - 1))
    samples = every_sample([(population, size)])
    means = [fmean(strata[0].values) for strata in samples]

    errors = [squared_error(strata) for strata in samples]

    assert fmean(errors) == pytest.approx(pvariance(means), rel=1e-6, abs=1e-9)


def squared_error(strata: Sequence[Stratum]) -> float:
    """The square of the standard error, read off an interval that is not cut."""
    (one,) = strata
    if len(set(one.values)) == 1:
        assert population_mean_interval(strata) is None
        return 0.0
    shrunk = [Stratum(one.population, one.drawn, [0.5 + value / 1e3 for value in one.values])]
    interval = population_mean_interval(shrunk)
    assert interval is not None
    return float(((interval[1] - interval[0]) / 2 * 1e3 / t.ppf(0.975, one.drawn - 1)) ** 2)


@given(st.lists(SHARES, min_size=2, max_size=20), st.integers(0, 30))
def test_a_simple_sample_is_the_textbooks(values: list[float], rest: int) -> None:
    """The mean with standard errors and the finite population correction (Cochran, 2.6)."""
    number, size = len(values), len(values) + rest
    interval = population_mean_interval([Stratum(size, number, values)])
    if not rest:
        assert interval == pytest.approx((fmean(values), fmean(values)))
        return
    error = stdev(values) * math.sqrt((1 - number / size) / number)
    if error < 1e-9:
        assert interval is None
        return
    reach = t.ppf(0.975, number - 1) * error

    assert interval == pytest.approx((max(0, fmean(values) - reach), min(1, fmean(values) + reach)), abs=1e-9)


@given(st.lists(st.tuples(st.lists(SHARES, min_size=3, max_size=6), st.integers(1, 50)), min_size=2, max_size=4))
def test_a_stratified_sample_is_the_textbooks(groups: list[tuple[list[float], int]]) -> None:
    """The squares of the errors of the strata, each as heavy as its population (Cochran, 5.3)."""
    groups = [([*values, 0.2, 0.7], rest) for values, rest in groups]  # so that something varies in each
    strata = [Stratum(len(values) + rest, len(values), values) for values, rest in groups]
    whole = sum(one.population for one in strata)
    mean = sum(one.population * fmean(one.values) for one in strata) / whole
    squared = sum(
        (one.population / whole) ** 2 * (1 - one.drawn / one.population) * variance(one.values) / one.drawn
        for one in strata
    )
    reach = t.ppf(0.975, sum(one.drawn - 1 for one in strata)) * math.sqrt(squared)

    assert population_mean(strata) == pytest.approx(mean)
    assert population_mean_interval(strata) == pytest.approx((max(0, mean - reach), min(1, mean + reach)), abs=1e-9)


@given(st.lists(SHARES, min_size=2, max_size=10), st.integers(0, 10), st.integers(1, 40))
def test_cases_without_a_value_are_a_ratio(values: list[float], silent: int, rest: int) -> None:
    """The mean of those that have a value; its error is that of the residuals, 0 without a value (Cochran, 2.11)."""
    drawn = len(values) + silent
    strata = [Stratum(drawn + rest, drawn, values)]
    mean = fmean(values)
    residuals = [value - mean for value in values] + [0.0] * silent
    error = math.sqrt((1 - drawn / (drawn + rest)) * variance(residuals) / drawn) * drawn / len(values)
    interval = population_mean_interval(strata)

    assert population_mean(strata) == pytest.approx(mean)
    if error < 1e-9:
        assert interval is None
        return
    reach = t.ppf(0.975, drawn - 1) * error
    assert interval == pytest.approx((max(0, mean - reach), min(1, mean + reach)), abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 30)), min_size=2, max_size=4))
def test_a_ratio_over_strata(groups: list[tuple[int, int]]) -> None:
    """Of each stratum the variance of the residuals, 0 without a value, over the cases that have one."""
    listed = [([0.2, 0.7, 0.1 * number], silent, rest) for number, (silent, rest) in enumerate(groups)]
    strata = [Stratum(3 + silent + rest, 3 + silent, values) for values, silent, rest in listed]
    weights = [one.population / one.drawn for one in strata]
    total = sum(weight * 3 for weight in weights)
    mean = sum(weight * sum(one.values) for weight, one in zip(weights, strata, strict=True)) / total
    squared = sum(
        one.population**2
        * (1 - one.drawn / one.population)
        * variance([*(value - mean for value in values), *[0.0] * silent])
        / one.drawn
        for one, (values, silent, _) in zip(strata, listed, strict=True)
    )
    reach = t.ppf(0.975, sum(one.drawn - 1 for one in strata)) * math.sqrt(squared) / total

    assert population_mean(strata) == pytest.approx(mean)
    assert population_mean_interval(strata) == pytest.approx((max(0, mean - reach), min(1, mean + reach)), abs=1e-9)


@given(st.lists(SHARES, min_size=2, max_size=20), st.sampled_from((0.8, 0.95, 0.99)))
def test_of_a_large_population_it_is_the_usual(values: list[float], confidence: float) -> None:
    """Without the correction, the intervals are those of independent results."""
    passed = [value >= 0.5 for value in values]

    interval = population_mean_interval([Stratum(10**15, len(values), values)], confidence=confidence)
    rate = population_rate_interval([Stratum(10**15, len(values), passed)], confidence=confidence)
    usual = mean_interval(values, confidence=confidence)

    assert (interval is None) == (usual is None)
    assert interval is None or interval == pytest.approx(usual, abs=1e-9)
    assert rate == pytest.approx(rate_interval(passed, confidence=confidence), abs=1e-9)


def test_half_of_a_population_is_worth_twice_as_many() -> None:
    """Wilson's interval, of the number drawn over the share that was not drawn; also of those with a value alone."""
    expected = binomtest(30, 40).proportion_ci(confidence_level=0.9, method="wilson")
    values = [1] * 15 + [0] * 5

    for strata in ([Stratum(40, 20, values)], [Stratum(60, 30, values)]):
        assert population_rate_interval(strata, confidence=0.9) == pytest.approx((expected.low, expected.high))


@given(GROUPS, st.randoms())
def test_laws_of_the_share(groups: list[tuple[list[float], int]], order: random.Random) -> None:
    """It contains the share, ignores order, widens with confidence, and is a point for a complete sample."""
    strata = [Stratum(len(group), size, [value >= 0.5 for value in group[:size]]) for group, size in groups]
    shuffled = list(strata)
    order.shuffle(shuffled)
    rate, interval = population_mean(strata), population_rate_interval(strata)
    wider, other = population_rate_interval(strata, confidence=0.99), population_rate_interval(shuffled)

    assert rate is not None
    assert interval is not None
    assert wider is not None
    assert 0 <= wider[0] <= interval[0] <= rate + 1e-12
    assert rate - 1e-12 <= interval[1] <= wider[1] <= 1
    assert other == pytest.approx(interval, abs=1e-12)
    assert (interval == (rate, rate)) == all(one.drawn == one.population for one in strata)


@pytest.mark.parametrize(
    ("groups", "least"),
    [
        ([(1000, 0.9, 50)], 0.93),
        ([(1000, 0.9, 500)], 0.93),
        ([(800, 0.95, 40), (150, 0.5, 40), (50, 0.1, 40)], 0.92),
        ([(800, 0.99, 100), (150, 0.02, 100), (50, 0.5, 50)], 0.92),
        ([(1000, 0.97, 30), (1000, 0.9, 30), (1000, 0.99, 30)], 0.92),
    ],
)
def test_intervals_cover(groups: list[tuple[int, float, int]], least: float) -> None:
    """In 1,000 samples, nominal 95 % intervals nearly cover that often, also for extreme shares."""
    rng = random.Random(3)
    populations = [[index < share * size for index in range(size)] for size, share, _ in groups]
    truth = fmean(value for population in populations for value in population)

    covered = 0
    for _ in range(1000):
        pairs = zip(populations, groups, strict=True)
        strata = [Stratum(size, drawn, rng.sample(population, drawn)) for population, (size, _, drawn) in pairs]
        low, high = population_rate_interval(strata) or (1, 0)
        covered += low <= truth <= high

    assert least <= covered / 1000


def test_uniform_stratum_is_not_certain() -> None:
    """A stratum of equal cases counts as if one more, maximally different, had been drawn."""
    strata = [Stratum(900, 9, [1.0] * 9), Stratum(100, 2, [0.4, 0.6])]
    squared = 0.9**2 * 0.99 * (9 / 10) / 8 / 9 + 0.1**2 * 0.98 * 0.02 / 2
    reach = t.ppf(0.975, 9) * math.sqrt(squared)

    assert population_mean_interval(strata) == pytest.approx((0.95 - reach, min(1, 0.95 + reach)))


def test_undetermined_population_values() -> None:
    """None, and never a width of 0 for unobserved strata."""
    assert population_mean([]) is population_mean_interval([]) is population_rate_interval([]) is None
    nothing = [Stratum(10, 3, [])]
    assert population_mean(nothing) is population_mean_interval(nothing) is population_rate_interval(nothing) is None
    assert population_mean_interval([Stratum(10, 3, [0.5] * 3)]) is None
    assert population_mean_interval([Stratum(10, 1, [0.5]), Stratum(10, 3, [0.1, 0.2, 0.3])]) is None
    assert population_mean_interval([Stratum(1, 1, [0.5]), Stratum(10, 3, [0.1, 0.2, 0.3])]) is not None
    assert population_mean_interval([Stratum(3, 3, [1, 1, 0])]) == pytest.approx((2 / 3, 2 / 3))
    assert population_rate_interval([Stratum(3, 3, [1, 1, 0])]) == pytest.approx((2 / 3, 2 / 3))
    interval = population_rate_interval([Stratum(10, 3, [1, 1, 1]), Stratum(10, 3, [])])
    assert interval is not None
    assert interval[0] < 0.6


def test_weights_that_vary_widen_the_share() -> None:
    """If strata differ and some values are missing, the weight of each stratum is uncertain."""
    sure = [Stratum(1000, 10, [1] * 10), Stratum(1000, 10, [0] * 10)]
    unsure = [Stratum(1000, 20, [1] * 10), Stratum(1000, 20, [0] * 10)]
    z = 1.959963984540054
    low, high = population_rate_interval(sure) or (0, 1)
    moved = 2 * (z * 50 * 0.5 / 1000) ** 2 * 0.98 * 10 * 0.5
    within = [binomtest(10, 10).proportion_ci(method="wilson").low]

    assert 0.5 - low == pytest.approx(0.5 * (1 - within[0]), rel=0.02)
    interval = population_rate_interval(unsure)
    assert interval is not None
    narrow = 0.5 * (1 - _wilson_of_ten(0.98))
    assert interval[0] == pytest.approx(0.5 - math.sqrt(narrow**2 + moved))
    assert interval[1] == pytest.approx(0.5 + math.sqrt(narrow**2 + moved))
    assert high > 0.5


def _wilson_of_ten(unseen: float) -> float:
    """The lower end of Wilson's interval where all of ten pass."""
    number, z = 10 / unseen, 1.959963984540054
    return number / (number + z * z)


@pytest.mark.parametrize(
    ("population", "drawn", "values", "message"),
    [
        (3, 4, [], "drawn must be from 1 to 3, the population, got 4"),
        (3, 0, [], "drawn must be from 1 to 3"),
        (-1, 0, [], "population must be a whole number"),
        (3, True, [], "drawn must be a whole number"),
        (3, 1, [0, 1], "values has 2 entries, more than the 1 drawn cases"),
        (3, 2, [0, 1.5], "a value must be between 0 and 1, got 1.5"),
        (3, 2, [0, math.nan], "a value must be between 0 and 1"),
    ],
)
def test_numbers_that_contradict_each_other(population: int, drawn: int, values: list[float], message: str) -> None:
    """The error lists the accepted values."""
    with pytest.raises(InvalidDataError, match=message):
        Stratum(population, drawn, values)


@pytest.mark.parametrize("confidence", [0, 1, True, "high"])
def test_a_confidence_is_between_0_and_1(confidence: float) -> None:
    """As for every interval."""
    with pytest.raises(ConfigurationError, match="confidence"):
        population_mean_interval([], confidence=confidence)
    with pytest.raises(ConfigurationError, match="confidence"):
        population_rate_interval([], confidence=confidence)
