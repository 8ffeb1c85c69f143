"""Statistics of pairs and of trials against slow and obvious implementations, and against scipy's."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from toolgrade import ConfigurationError, InvalidDataError
from toolgrade.stats import holm, mcnemar, mean_difference, mean_difference_interval, pass_at_k, pass_hat_k, sign_flip

SCORES = st.sampled_from((0.0, 0.1, 0.25, 0.3, 0.1 + 0.2, 0.5, 1.0))
PAIRS = st.lists(st.tuples(SCORES, SCORES, st.integers(0, 4)), max_size=12)
P_VALUES = st.one_of(st.none(), st.sampled_from((0.0, 0.01, 0.02, 0.04, 0.5, 1.0)), st.floats(0, 1))


# pairs


@given(PAIRS)
def test_the_mean_difference_is_that_of_fractions(pairs: list[tuple[float, float, int]]) -> None:
    """B minus A, over pairs; there is none of none."""
    exact = [Fraction(after) - Fraction(before) for before, after, _ in pairs]
    difference = mean_difference([pair[0] for pair in pairs], [pair[1] for pair in pairs])

    assert difference == (pytest.approx(float(sum(exact) / len(exact)), abs=1e-15) if exact else None)


@given(PAIRS, st.integers(0, 5), st.sampled_from((0.5, 0.9, 0.95)))
def test_the_interval_is_that_of_a_slow_bootstrap(
    pairs: list[tuple[float, float, int]], seed: int, confidence: float
) -> None:
    """Whole clusters are drawn, pairs stay together, percentiles are numpy's."""
    before, after, clusters = ([pair[place] for pair in pairs] for place in range(3))
    interval = mean_difference_interval(before, after, clusters, resamples=30, seed=seed, confidence=confidence)
    keys = list(dict.fromkeys(clusters))
    rng = random.Random(seed)
    means = []
    for _ in range(30):
        drawn = [keys[int(rng.random() * len(keys))] for _ in keys]
        means.append(np.mean([pair[1] - pair[0] for key in drawn for pair in pairs if pair[2] == key] or [0]))

    if len(keys) < 2:
        assert interval is None
    else:
        assert interval is not None
        expected = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
        assert (interval.low, interval.high) == pytest.approx(tuple(expected), abs=1e-12)
        assert (interval.resamples, interval.left_out, interval.clusters) == (30, 0, len(keys))


def test_pairs_are_independent_by_default() -> None:
    """Clusters of similar pairs widen the interval."""
    before, after = [0.5] * 40, [0.5 + (number // 4 % 3 - 1) / 4 for number in range(40)]
    single = mean_difference_interval(before, after)
    clustered = mean_difference_interval(before, after, [number // 4 for number in range(40)])

    assert single == mean_difference_interval(before, after, range(40), seed=0, resamples=2000)
    assert single is not None
    assert clustered is not None
    assert clustered.high - clustered.low > 1.5 * (single.high - single.low)
    assert single != mean_difference_interval(before, after, seed=1)


# tests


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_scipys_binomial_test(worse: int, better: int) -> None:
    """Two-sided, with one half; symmetric."""
    expected = binomtest(worse, worse + better, 0.5).pvalue if worse + better else 1.0

    assert mcnemar(worse, better) == pytest.approx(expected, rel=1e-9)
    assert mcnemar(worse, better) == mcnemar(better, worse)


def test_p_values_by_hand() -> None:
    """10 of 512 doubled; fewer than six changes are never significant at 0.05; large numbers are fast."""
    assert mcnemar(8, 1) == 20 / 512
    assert mcnemar(0, 0) == 1
    assert min(mcnemar(worse, 5 - worse) for worse in range(6)) == 0.0625
    assert mcnemar(6, 0) == 0.03125
    assert mcnemar(0, 5000) == 0
    assert mcnemar(5000, 5000) == 1
    assert mcnemar(5100, 4900) == pytest.approx(binomtest(4900, 10000).pvalue, rel=1e-9)


@given(st.lists(st.integers(-4, 4), max_size=9))
def test_flipped_signs_are_counted(differences: list[int]) -> None:
    """All patterns, one by one."""
    sums = [
        sum(sign * value for sign, value in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=len(differences))
    ]
    extreme = [total for total in sums if abs(total) >= abs(sum(differences))]

    assert sign_flip(differences) == len(extreme) / len(sums)


@given(st.lists(st.integers(-1, 1), max_size=200))
def test_flipped_single_signs_are_mcnemar(differences: list[int]) -> None:
    """To the last bit."""
    assert sign_flip(differences) == mcnemar(differences.count(-1), differences.count(1))


def test_many_clusters_are_counted_exactly() -> None:
    """A thousand of them; equal ones are as many coins."""
    assert sign_flip([5] * 520 + [-5] * 480) == mcnemar(480, 520)
    assert sign_flip([2, -1] * 500) == pytest.approx(math.erfc(500 / math.sqrt(2 * 2500)), rel=0.01)


@given(st.lists(P_VALUES, max_size=8), st.sampled_from((0.01, 0.05, 0.1)))
def test_holm_steps_down(p_values: list[float | None], alpha: float) -> None:
    """The rejected hypotheses are those of the step-down method: the smallest against alpha / m, and so on."""
    ranked = sorted((value, place) for place, value in enumerate(p_values) if value is not None)
    rejected = set()
    for rank, (value, place) in enumerate(ranked):
        if (len(ranked) - rank) * value > alpha:
            break
        rejected.add(place)
    corrected = holm(p_values)

    assert {place for place, value in enumerate(corrected) if value is not None and value <= alpha} == rejected
    assert [value is None for value in corrected] == [value is None for value in p_values]


# trials


@given(st.integers(0, 7), st.integers(0, 7), st.integers(1, 8))
def test_chances_are_those_of_all_draws(trials: int, passes: int, k: int) -> None:
    """Counted over all choices of k trials; undefined for more trials than exist."""
    passes = min(passes, trials)
    draws = list(combinations([True] * passes + [False] * (trials - passes), k))
    at_least_one, every = pass_at_k(trials, passes, k), pass_hat_k(trials, passes, k)

    if k > trials:
        assert (at_least_one, every) == (None, None)
    else:
        assert at_least_one == sum(map(any, draws)) / len(draws)
        assert every == sum(map(all, draws)) / len(draws)


def test_chances_by_hand() -> None:
    """Eight trials with four passes and k of three; the plug-in estimate would be 0.875 and 0.125."""
    assert pass_at_k(8, 4, 3) == 52 / 56
    assert pass_hat_k(8, 4, 3) == 4 / 56


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: mean_difference([1.0], []), InvalidDataError, "before has 1 entries and after has 0"),
        (lambda: mean_difference([math.nan], [1.0]), InvalidDataError, "must be finite to have a mean, got nan"),
        (lambda: mean_difference([1.0], [math.inf]), InvalidDataError, "must be finite to have a mean, got inf"),
        (lambda: mean_difference_interval([1.0], [1.0], []), InvalidDataError, "clusters has 0 entries"),
        (lambda: mean_difference_interval([1.0], [1.0], resamples=0), ConfigurationError, "resamples must be"),
        (lambda: mcnemar(-1, 1), InvalidDataError, "worse must be a whole number of at least 0, got -1"),
        (lambda: mcnemar(1, 0.5), InvalidDataError, "better must be"),  # type: ignore[arg-type]
        (lambda: mcnemar(True, 1), InvalidDataError, "worse must be"),
        (lambda: sign_flip([0.5]), InvalidDataError, "differences must be whole numbers"),  # type: ignore[list-item]
        (lambda: sign_flip([True]), InvalidDataError, "differences must be whole numbers"),
        (lambda: holm([1.5]), InvalidDataError, "a p-value must be between 0 and 1, got 1.5"),
        (lambda: holm([math.nan]), InvalidDataError, "a p-value must be"),
        (lambda: pass_at_k(2, 3, 1), InvalidDataError, "there are 3 passes of 2 trials"),
        (lambda: pass_hat_k(-1, 0, 1), InvalidDataError, "trials must be"),
        (lambda: pass_at_k(2, 1, 0), ConfigurationError, "k must be a whole number of at least 1, got 0"),
        (lambda: pass_hat_k(2, 1, True), ConfigurationError, "k must be"),
    ],
)
def test_invalid_input_is_named(wrong: Any, error: type[Exception], message: str) -> None:
    """Lengths, types and ranges."""
    with pytest.raises(error, match=message):
        wrong()
