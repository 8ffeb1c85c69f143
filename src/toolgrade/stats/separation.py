"""Separation: measures of how well scores separate good from bad."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from toolgrade.errors import InvalidDataError
from toolgrade.stats.bootstrap import RESAMPLES, Interval, bootstrap, interval_of, resampled_values
from toolgrade.stats.number_checks import check_bootstrap, check_lengths, cluster_keys


def auc(scores: Sequence[float], good: Sequence[bool]) -> float | None:
    """Return the area under the ROC curve, in [0, 1]; `None` where all are good, or none is.

    Args:
        scores: One number each, in any range; higher is meant to be better.
        good: Whether each one is good.

    Raises:
        InvalidDataError: The two differ in length, or a score is NaN.

    Example:
        >>> from toolgrade.stats import auc
        >>> auc([0.9, 0.5, 0.5, 0.1], [True, True, False, False])
        0.875
    """
    return _ranked_auc(scores, good)(range(len(scores)))


def balanced_accuracy(passed: Sequence[bool], good: Sequence[bool]) -> float | None:
    """Return the mean of the share of good ones that pass and of bad ones that do not, in [0, 1].

    `None` where all are good, or none is.

    Raises:
        InvalidDataError: The two differ in length.

    Example:
        >>> from toolgrade.stats import balanced_accuracy
        >>> balanced_accuracy([True, True, False, True], [True, True, False, False])
        0.75
    """
    check_lengths(passed, good, "passed", "good")
    counts = Counter((bool(ok), bool(fine)) for ok, fine in zip(passed, good, strict=True))
    hits, rejected = counts[True, True], counts[False, False]
    right, wrong = hits + counts[False, True], rejected + counts[True, False]
    return (hits * wrong + rejected * right) / (2 * right * wrong) if right and wrong else None


def auc_interval(
    scores: Sequence[float],
    good: Sequence[bool],
    clusters: Sequence[Hashable] | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval | None:
    """Return the interval of `auc` by `bootstrap`; by default each score is a separate cluster.

    Resamples in which all are good, or none is, are left out and counted. Where good and bad are separated completely,
    so are they in every resample, and the interval is [1, 1]: it knows nothing of runs that were not made.

    Args:
        scores: One number for each run; higher is meant to be better.
        good: Whether each run is good.
        clusters: The key of the cluster of each run, such as its task; by default each run is a separate cluster.
        resamples: See `bootstrap`.
        seed: See `bootstrap`.
        confidence: See `bootstrap`.

    Returns:
        The interval, in [0, 1]; `None` as for `bootstrap`.

    Raises:
        InvalidDataError: The arguments differ in length, or a score is NaN.
        ConfigurationError: See `bootstrap`.

    Example:
        >>> from toolgrade.stats import auc, auc_interval
        >>> scores = [1.0, 0.75, 0.5, 0.5, 0.25, 1.0, 0.25, 0.0]
        >>> solved = [True, True, True, False, False, True, True, False]
        >>> interval = auc_interval(scores, solved)
        >>> round(auc(scores, solved), 2), round(interval.low, 2), round(interval.high, 2)
        (0.87, 0.56, 1.0)
    """
    keys = cluster_keys(clusters, good, "good")
    return bootstrap(_ranked_auc(scores, good), keys, resamples=resamples, seed=seed, confidence=confidence)


def auc_difference_interval(
    scores: Sequence[float],
    others: Sequence[float],
    good: Sequence[bool],
    clusters: Sequence[Hashable] | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval | None:
    """Return the interval of `auc(scores, good) - auc(others, good)`, paired: each resample has both scores of a run.

    Two scores of the same runs are wrong on many of the same runs. Their difference varies less than two intervals of
    their own suggest, so overlapping intervals do not show that two scores are alike.

    Args:
        scores: One number for each run.
        others: The numbers that another metric gives the same runs, in the same order.
        good: Whether each run is good.
        clusters: The key of the cluster of each run; by default each run is a separate cluster.
        resamples: Number of resamples to draw.
        seed: Seed of the random numbers.
        confidence: Share of the differences that lie in the interval, in (0, 1).

    Returns:
        The interval, in [-1, 1]; `None` as for `auc_interval`.

    Raises:
        InvalidDataError: The arguments differ in length, or a score is NaN.
        ConfigurationError: See `bootstrap`.

    Example:
        >>> from toolgrade.stats import auc_difference_interval
        >>> good = [True, True, False, False] * 3
        >>> interval = auc_difference_interval([1, 1, 0, 0] * 3, [1, 0, 1, 0] * 3, good)
        >>> interval.low > 0
        True
    """
    check_bootstrap(resamples, confidence)
    check_lengths(scores, others, "scores", "others")
    values, other_values = (
        resampled_aucs(numbers, good, clusters, resamples=resamples, seed=seed) for numbers in (scores, others)
    )
    number = len(set(cluster_keys(clusters, good, "good")))
    return interval_of(differences_of(values, other_values), number, confidence)


def resampled_aucs(
    scores: Sequence[float], good: Sequence[bool], clusters: Sequence[Hashable] | None, *, resamples: int, seed: int
) -> list[float | None]:
    """Return `auc` in each resample of the clusters; equal clusters and seeds have the same resamples."""
    keys = cluster_keys(clusters, good, "good")
    return resampled_values(_ranked_auc(scores, good), keys, resamples=resamples, seed=seed)


def differences_of(values: Sequence[float | None], others: Sequence[float | None]) -> list[float | None]:
    """Return the difference of the values of each resample; `None` where either has none."""
    pairs = zip(values, others, strict=True)
    return [None if value is None or other is None else value - other for value, other in pairs]


def auc_within(scores: Sequence[float], good: Sequence[bool], clusters: Sequence[Hashable]) -> float | None:
    """Return the area under the ROC curve over pairs of one cluster only, in [0, 1].

    It is the chance that a good run scores higher than a bad run of the same cluster, such as of the same task, ties
    counting one half. A score that only knows how hard a task is has 0.5 here. Clusters weigh as many pairs as they
    have, so clusters that are all good, or all bad, weigh nothing.

    Args:
        scores: One number for each run; higher is meant to be better.
        good: Whether each run is good.
        clusters: The key of the cluster of each run.

    Returns:
        The area; `None` if no cluster has both a good and a bad run.

    Raises:
        InvalidDataError: The arguments differ in length, or a score is NaN.

    Example:
        >>> from toolgrade.stats import auc_within
        >>> auc_within([0.9, 0.8, 0.3, 0.1], [True, False, True, False], ["easy", "easy", "hard", "hard"])
        1.0
    """
    counts = _counts_by_cluster(scores, good, clusters)
    return _ratio_of(counts)(range(len(counts)))


def auc_within_interval(
    scores: Sequence[float],
    good: Sequence[bool],
    clusters: Sequence[Hashable],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval | None:
    """Return the interval of `auc_within` by `bootstrap` over the clusters.

    A cluster that is drawn twice counts twice, and its two copies make no pairs with each other. Resamples without a
    cluster that has both kinds are left out and counted.

    Args:
        scores: One number for each run; higher is meant to be better.
        good: Whether each run is good.
        clusters: The key of the cluster of each run, such as its task.
        resamples: See `bootstrap`.
        seed: See `bootstrap`.
        confidence: See `bootstrap`.

    Returns:
        The interval, in [0, 1]; `None` as for `bootstrap`.

    Raises:
        InvalidDataError: The arguments differ in length, or a score is NaN.
        ConfigurationError: See `bootstrap`.

    Example:
        >>> from toolgrade.stats import auc_within_interval
        >>> scores = [1.0, 0.5, 0.25, 0.5, 0.75, 0.25, 0.5, 1.0]
        >>> solved = [True, False, False, True, True, False, True, False]
        >>> tasks = ["weather", "weather", "flight", "flight", "hotel", "hotel", "train", "train"]
        >>> interval = auc_within_interval(scores, solved, tasks)
        >>> interval.low, interval.high
        (0.25, 1.0)
    """
    counts = _counts_by_cluster(scores, good, clusters)
    return bootstrap(_ratio_of(counts), range(len(counts)), resamples=resamples, seed=seed, confidence=confidence)


def _counts_by_cluster(
    scores: Sequence[float], good: Sequence[bool], clusters: Sequence[Hashable]
) -> list[tuple[int, int]]:
    """Return the halves that good runs win and the number of pairs, of each cluster."""
    check_lengths(clusters, good, "clusters", "good")
    count = _ranked_counts(scores, good)
    members: dict[Hashable, list[int]] = {}
    for position, key in enumerate(clusters):
        members.setdefault(key, []).append(position)
    return [count(positions) for positions in members.values()]


def _ratio_of(counts: Sequence[tuple[int, int]]) -> Callable[[Sequence[int]], float | None]:
    """Return the function that gives the area over the pairs of some clusters."""
    return lambda clusters: _area(sum(counts[one][0] for one in clusters), sum(counts[one][1] for one in clusters))


def _ranked_auc(scores: Sequence[float], good: Sequence[bool]) -> Callable[[Sequence[int]], float | None]:
    """Return the function that gives the area of the scores at some positions."""
    count = _ranked_counts(scores, good)
    return lambda positions: _area(*count(positions))


def _area(halves: int, pairs: int) -> float | None:
    return halves / (2 * pairs) if pairs else None


def _ranked_counts(scores: Sequence[float], good: Sequence[bool]) -> Callable[[Sequence[int]], tuple[int, int]]:
    """Return the function that counts, at some positions, the halves that good runs win and the pairs.

    A good run wins two halves of a pair with a bad run if it scores higher, and one if they tie. The scores are sorted
    once, so that any resample is counted in one pass.
    """
    check_lengths(scores, good, "scores", "good")
    if any(math.isnan(score) for score in scores):
        raise InvalidDataError("a score is NaN, which is neither higher nor lower than another; leave it out")
    rank_of = {score: rank for rank, score in enumerate(sorted(set(scores)))}
    ranks = [rank_of[score] for score in scores]

    def count(positions: Sequence[int]) -> tuple[int, int]:
        right, wrong = [0] * len(rank_of), [0] * len(rank_of)
        for position in positions:
            (right if good[position] else wrong)[ranks[position]] += 1
        halves = below = 0
        for better, worse in zip(right, wrong, strict=True):
            halves += better * (2 * below + worse)
            below += worse
        return halves, sum(right) * below

    return count
