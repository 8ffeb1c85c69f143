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
from scipy.stats import mannwhitneyu

from toolgrade import ConfigurationError, InvalidDataError
from toolgrade.stats import (
    Interval,
    auc,
    auc_difference_interval,
    auc_interval,
    auc_within,
    auc_within_interval,
    balanced_accuracy,
    bootstrap,
)

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


@given(RATED)
def test_the_area_is_scipys(rated: list[tuple[float, bool]]) -> None:
    """The rank statistic of Mann and Whitney over the number of pairs."""
    scores, good = apart(rated)
    right = [score for score, fine in rated if fine]
    wrong = [score for score, fine in rated if not fine]
    area = auc(scores, good)

    if not right or not wrong:
        assert area is None
    else:
        statistic = mannwhitneyu(right, wrong, method="asymptotic").statistic
        assert area == pytest.approx(statistic / (len(right) * len(wrong)), abs=1e-12)


@given(RATED, st.randoms(use_true_random=False))
def test_the_area_depends_on_ranks_alone(rated: list[tuple[float, bool]], rng: random.Random) -> None:
    """Order of the list and growing transformations change nothing; turning the scores round mirrors the area."""
    scores, good = apart(rated)
    area = auc(scores, good)
    shuffled = rng.sample(rated, len(rated))

    assert auc(*apart(shuffled)) == area
    assert auc([math.atan(score) for score in scores], good) == area
    assert auc([-score for score in scores], good) == (None if area is None else pytest.approx(1 - area, abs=1e-12))
    assert auc(scores, [not fine for fine in good]) == auc([-score for score in scores], good)


@given(RATED)
def test_an_area_of_yes_and_no_is_balanced_accuracy(rated: list[tuple[float, bool]]) -> None:
    """Of two scores only, the area and the balanced accuracy are the same number."""
    scores, good = apart(rated)
    passed = [score >= 0.5 for score in scores]

    assert balanced_accuracy(passed, good) == auc([float(value) for value in passed], good)


@pytest.mark.parametrize(
    ("passed", "good", "accuracy"),
    [
        ("1100", "1100", 1.0),
        ("0011", "1100", 0.0),
        ("1111", "1100", 0.5),
        ("1111", "1000", 0.5),
        ("1101", "1100", 0.75),
        ("11", "11", None),
        ("01", "00", None),
        ("", "", None),
    ],
)
def test_balanced_accuracy(passed: str, good: str, accuracy: float | None) -> None:
    """Each class has weight one half at any size; without both there is no value."""
    assert balanced_accuracy([c == "1" for c in passed], [c == "1" for c in good]) == accuracy


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


FINITE = st.sampled_from((0.0, 0.1, 0.3, 0.1 + 0.2, 0.5, 1.0))


def drawn_clusters(clusters: Sequence[int], resamples: int, seed: int) -> list[list[int]]:
    """Return the clusters that each resample draws."""
    rng, keys = random.Random(seed), list(dict.fromkeys(clusters))
    return [[keys[int(rng.random() * len(keys))] for _ in keys] for _ in range(resamples)]


def assert_percentiles(interval: Interval | None, values: Sequence[float | None], clusters: Sequence[int]) -> None:
    """Check an interval against numpy's percentiles of the values of the resamples."""
    defined = [value for value in values if value is not None]
    if len(set(clusters)) < 2 or not defined:
        assert interval is None
        return
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(defined, (0.05, 0.95))), abs=1e-12)
    assert (interval.resamples, interval.left_out) == (len(defined), len(values) - len(defined))
    assert interval.clusters == len(set(clusters))


@given(st.lists(st.tuples(FINITE, FINITE, st.booleans(), st.integers(0, 4)), max_size=12), st.integers(0, 5))
def test_the_interval_of_a_difference_is_that_of_a_slow_bootstrap(
    rated: list[tuple[float, float, bool, int]], seed: int
) -> None:
    """In each resample both scores have the same runs; the difference is that of the AUCs by definition."""
    scores, others, good, clusters = ([row[place] for row in rated] for place in range(4))
    differences: list[float | None] = []
    for draws in drawn_clusters(clusters, 30, seed):  # type: ignore[arg-type]
        rows = [row for key in draws for row in rated if row[3] == key]
        areas = [all_pairs([row[place] for row in rows], [row[2] for row in rows]) for place in (0, 1)]
        differences.append(None if None in areas else areas[0] - areas[1])  # type: ignore[operator]
    options = {"resamples": 30, "seed": seed, "confidence": 0.9}
    interval = auc_difference_interval(scores, others, good, clusters, **options)  # type: ignore[arg-type]

    assert_percentiles(interval, differences, clusters)  # type: ignore[arg-type]


def slow_within(groups: Sequence[Sequence[tuple[float, bool, int]]]) -> float | None:
    """Return the AUC over all pairs of one group each, by definition."""
    won = [
        Fraction(1) if better > worse else Fraction(better == worse, 2)
        for rows in groups
        for better, fine, _ in rows
        if fine
        for worse, bad, _ in rows
        if not bad
    ]
    return float(sum(won) / len(won)) if won else None


@given(st.lists(st.tuples(SCORES, st.booleans(), st.integers(0, 3)), max_size=14), st.integers(0, 5))
def test_the_area_within_clusters_is_that_of_their_pairs(rated: list[tuple[float, bool, int]], seed: int) -> None:
    """Pairs of different clusters, and of two copies of one cluster in a resample, do not count."""
    scores, good, clusters = ([row[place] for row in rated] for place in range(3))
    groups = {key: [row for row in rated if row[2] == key] for key in clusters}
    options = {"resamples": 30, "seed": seed, "confidence": 0.9}
    interval = auc_within_interval(scores, good, clusters, **options)  # type: ignore[arg-type]
    areas = [slow_within([groups[key] for key in draws]) for draws in drawn_clusters(clusters, 30, seed)]  # type: ignore[arg-type]

    assert auc_within(scores, good, clusters) == slow_within(list(groups.values()))  # type: ignore[arg-type]
    assert_percentiles(interval, areas, clusters)  # type: ignore[arg-type]


def test_knowing_the_task_alone_is_chance_within_tasks() -> None:
    """A score that is the share of good runs of its task separates runs over all, and not within tasks."""
    tasks = [number // 10 for number in range(100)]
    good = [number % 10 < task for number, task in enumerate(tasks)]
    scores = [task / 10 for task in tasks]

    assert auc_within(scores, good, tasks) == 0.5
    assert (auc(scores, good) or 0) > 0.8


def test_paired_interval_is_narrower_than_two_intervals() -> None:
    """Two scores that are wrong on the same runs differ with certainty, although their own intervals overlap."""
    rng = random.Random(8)
    good = [number % 2 == 0 for number in range(120)]
    scores = [fine + rng.gauss(0, 1) for fine in good]
    others = [score - 0.3 * fine for score, fine in zip(scores, good, strict=True)]
    difference = auc_difference_interval(scores, others, good, resamples=200)
    one, other = (auc_interval(numbers, good, resamples=200) for numbers in (scores, others))

    assert difference is not None
    assert one is not None
    assert other is not None
    assert difference.low > 0
    assert one.low < other.high


def test_scores_of_a_difference_need_one_length() -> None:
    """The error names both."""
    with pytest.raises(InvalidDataError, match="scores has 2 entries and others has 1"):
        auc_difference_interval([1.0, 2.0], [1.0], [True, False])
    with pytest.raises(InvalidDataError, match="clusters has 1 entries and good has 2"):
        auc_within([1.0, 2.0], [True, False], [1])


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


def test_clusters_widen_the_interval() -> None:
    """Repeated runs are not independent."""
    rng = random.Random(5)
    tasks = [(rng.random(), rng.random() < 0.5) for _ in range(12)]
    scores = [score for score, _ in tasks for _ in range(8)]
    good = [fine for _, fine in tasks for _ in range(8)]
    single = auc_interval(scores, good)
    clustered = auc_interval(scores, good, [number // 8 for number in range(96)])

    assert single is not None
    assert clustered is not None
    assert clustered.high - clustered.low > 2 * (single.high - single.low)
    assert (single.clusters, clustered.clusters) == (96, 12)


def test_interval_covers_only_with_clusters() -> None:
    """On simulated data of 30 tasks with 4 runs, only the clustered interval covers the true AUC.

    The level of a task is common to its runs, so the runs are far from independent.
    """
    rng = random.Random(7)
    truth = (1 + math.erf(1.0 / math.sqrt(2 * (1 + 0.09)) / math.sqrt(2))) / 2
    clustered = single = 0
    for _ in range(120):
        scores, good, tasks = [], [], []
        for task in range(30):
            level, fine = rng.gauss(0, 1), rng.random() < 0.5
            scores += [level + rng.gauss(0, 0.3) + (1.0 if fine else 0.0) for _ in range(4)]
            good += [fine] * 4
            tasks += [task] * 4
        by_task, loose = (auc_interval(scores, good, keys, resamples=200, seed=1) for keys in (tasks, None))
        assert by_task is not None
        assert loose is not None
        clustered += by_task.low <= truth <= by_task.high
        single += loose.low <= truth <= loose.high

    assert clustered / 120 > 0.85
    assert single / 120 < 0.75


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
    with pytest.raises(InvalidDataError, match="passed has 1 entries"):
        balanced_accuracy([True], [])
    with pytest.raises(InvalidDataError, match="clusters has 1 entries"):
        auc_interval([1.0, 2.0], [True, False], [1])
    with pytest.raises(InvalidDataError, match="NaN"):
        auc([math.nan, 1.0], [True, False])
