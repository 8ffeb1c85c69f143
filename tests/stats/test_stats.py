"""Statistics against slow and obvious implementations, and against scipy's and numpy's."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import ConfigurationError, InvalidDataError
from toolgrade.stats import Interval, auc, auc_interval, bootstrap

#: Few different scores, so that ties are common; some that differ by one bit.
SCORES = st.sampled_from((0.0, 0.1, 0.3, 0.1 + 0.2, 0.5, 1.0, -math.inf, math.inf))
RATED = st.lists(st.tuples(SCORES, st.booleans()), max_size=30)


def apart(rated: Sequence[tuple[float, bool]]) -> tuple[list[float], list[bool]]:
    """Scores and whether each is good."""
    return [score for score, _ in rated], [good for _, good in rated]


def all_pairs(scores: Sequence[float], good: Sequence[bool]) -> float | None:
    """Return the AUC by definition: over all pairs of good and bad scores."""
    pairs = [
        Fraction(1) if better > worse else Fraction(better == worse, 2)
        for better, fine in zip(scores, good, strict=True)
        if fine
        for worse, bad in zip(scores, good, strict=True)
        if not bad
    ]
    return float(sum(pairs) / len(pairs)) if pairs else None


@given(RATED)
def test_the_area_is_that_of_all_pairs(rated: list[tuple[float, bool]]) -> None:
    """Won pairs count 1 and ties one half; to the last bit."""
    assert auc(*apart(rated)) == all_pairs(*apart(rated))


def slow_interval(
    scores: list[float], good: list[bool], clusters: list[int], resamples: int, seed: int, confidence: float
) -> tuple[float, float, int]:
    """The interval by numpy's percentiles of areas of all pairs, drawn with the same numbers."""
    keys = list(dict.fromkeys(clusters))
    rng = random.Random(seed)
    areas = []
    for _ in range(resamples):
        drawn = [keys[int(rng.random() * len(keys))] for _ in keys]
        chosen = [index for key in drawn for index, cluster in enumerate(clusters) if cluster == key]
        areas.append(all_pairs([scores[index] for index in chosen], [good[index] for index in chosen]))
    defined = [area for area in areas if area is not None]
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = np.quantile(defined, tails) if defined else (math.nan, math.nan)
    return float(low), float(high), len(areas) - len(defined)


@given(
    st.lists(st.tuples(SCORES, st.booleans(), st.integers(0, 4)), max_size=12),
    st.integers(0, 5),
    st.sampled_from((0.5, 0.9, 0.95)),
)
def test_the_interval_is_that_of_a_slow_bootstrap(
    rated: list[tuple[float, bool, int]], seed: int, confidence: float
) -> None:
    """Whole clusters are drawn; resamples of one class are left out and counted; percentiles are numpy's."""
    scores, good, clusters = ([row[place] for row in rated] for place in range(3))
    interval = auc_interval(scores, good, clusters, resamples=30, seed=seed, confidence=confidence)  # type: ignore[arg-type]
    low, high, left_out = slow_interval(scores, good, clusters, 30, seed, confidence)  # type: ignore[arg-type]

    if len(set(clusters)) < 2 or left_out == 30:
        assert interval is None
    else:
        assert interval is not None
        assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-12)
        assert (interval.resamples, interval.left_out, interval.clusters) == (
            30 - left_out,
            left_out,
            len(set(clusters)),
        )


def test_the_same_seed_gives_the_same_interval() -> None:
    """On every machine and every version of Python; another seed gives another."""
    scores = [number * 7 % 11 / 10 for number in range(40)]
    good = [number % 3 == 0 for number in range(40)]
    clusters = [number // 4 for number in range(40)]
    interval = auc_interval(scores, good, clusters, resamples=200, seed=3)

    assert interval == auc_interval(scores, good, clusters, resamples=200, seed=3)
    assert interval != auc_interval(scores, good, clusters, resamples=200, seed=4)
    assert interval is not None
    assert (round(interval.low, 12), round(interval.high, 12)) == (0.334904162334, 0.775054253472)


@pytest.mark.parametrize("clusters", [[], ["a"], ["a", "a", "a"]])
def test_without_two_clusters_there_is_no_interval(clusters: list[str]) -> None:
    """Nothing varies, and a zero-width interval would be wrong."""
    assert bootstrap(lambda _: 0.5, clusters) is None


def test_undefined_statistic_has_no_interval() -> None:
    """All resamples are excluded."""
    assert bootstrap(lambda _: None, [1, 2, 3], resamples=5) is None
    assert auc_interval([1.0, 2.0], [True, True]) is None


def test_any_statistic_will_do() -> None:
    """It receives positions, always the same number for clusters of one size."""
    assert bootstrap(lambda drawn: float(len(drawn)), "aabbcc", resamples=9) == Interval(6.0, 6.0, 9, 0, 3)


@pytest.mark.parametrize(
    "options",
    [{"resamples": 0}, {"resamples": 1.5}, {"resamples": True}, {"confidence": 0}, {"confidence": 1.0}],
    ids=str,
)
def test_options_out_of_range(options: dict[str, float]) -> None:
    """The error names the option."""
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        bootstrap(lambda _: 1.0, [1, 2], **options)  # type: ignore[arg-type]


def test_data_that_do_not_fit_together() -> None:
    """Lists of different lengths and invalid scores are refused rather than truncated."""
    with pytest.raises(InvalidDataError, match="scores has 1 entries and good has 2"):
        auc([1.0], [True, False])
    with pytest.raises(InvalidDataError, match="clusters has 1 entries"):
        auc_interval([1.0, 2.0], [True, False], [1])
    with pytest.raises(InvalidDataError, match="NaN"):
        auc([math.nan, 1.0], [True, False])
