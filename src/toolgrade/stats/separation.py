"""Separation: measures of how well scores separate good from bad."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

from toolgrade.errors import InvalidDataError
from toolgrade.stats.bootstrap import RESAMPLES, Interval, bootstrap
from toolgrade.stats.number_checks import check_lengths, cluster_keys


def auc(scores: Sequence[float], good: Sequence[bool]) -> float | None:
    """Return the area under the ROC curve, in [0, 1]; `None` where all are good, or none is.

    Args:
        scores: One number each, in any range; higher is meant to be better.
        good: Whether each one is good.

    Raises:
        InvalidDataError: The two differ in length, or a score is NaN.

    Example:
        >>> from toolgrade.stats.separation import auc
        >>> auc([0.9, 0.5, 0.5, 0.1], [True, True, False, False])
        0.875
    """
    return _ranked_auc(scores, good)(range(len(scores)))


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
        >>> from toolgrade.stats.separation import auc, auc_interval
        >>> scores = [1.0, 0.75, 0.5, 0.5, 0.25, 1.0, 0.25, 0.0]
        >>> solved = [True, True, True, False, False, True, True, False]
        >>> interval = auc_interval(scores, solved)
        >>> round(auc(scores, solved), 2), round(interval.low, 2), round(interval.high, 2)
        (0.87, 0.56, 1.0)
    """
    keys = cluster_keys(clusters, good, "good")
    return bootstrap(_ranked_auc(scores, good), keys, resamples=resamples, seed=seed, confidence=confidence)


def _ranked_auc(scores: Sequence[float], good: Sequence[bool]) -> Callable[[Sequence[int]], float | None]:
    """Return the function that gives the area of the scores at some positions.

    A good run wins two halves of a pair with a bad run if it scores higher, and one if they tie. The scores are sorted
    once, so that any resample is counted in one pass.
    """
    check_lengths(scores, good, "scores", "good")
    if any(math.isnan(score) for score in scores):
        raise InvalidDataError("a score is NaN, which is neither higher nor lower than another; leave it out")
    rank_of = {score: rank for rank, score in enumerate(sorted(set(scores)))}
    ranks = [rank_of[score] for score in scores]

    def area(positions: Sequence[int]) -> float | None:
        right, wrong = [0] * len(rank_of), [0] * len(rank_of)
        for position in positions:
            (right if good[position] else wrong)[ranks[position]] += 1
        halves = below = 0
        for better, worse in zip(right, wrong, strict=True):
            halves += better * (2 * below + worse)
            below += worse
        pairs = sum(right) * below
        return halves / (2 * pairs) if pairs else None

    return area
