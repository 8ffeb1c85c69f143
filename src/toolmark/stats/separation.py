"""Separation: measures of how well scores separate good from bad."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from toolmark.errors import InvalidDataError
from toolmark.stats.bootstrap import RESAMPLES, Interval, bootstrap
from toolmark.stats.number_checks import check_lengths, cluster_keys


def auc(scores: Sequence[float], good: Sequence[bool]) -> float | None:
    """Return the area under the ROC curve, in [0, 1]; `None` where all are good, or none is.

    Args:
        scores: One number each, in any range; higher is meant to be better.
        good: Whether each one is good.

    Raises:
        InvalidDataError: The two differ in length, or a score is NaN.

    Example:
        >>> from toolmark.stats import auc
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
        >>> from toolmark.stats import balanced_accuracy
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

    Raises:
        InvalidDataError: The arguments differ in length, or a score is NaN.
        ConfigurationError: See `bootstrap`.
    """
    area = _ranked_auc(scores, good)
    keys = cluster_keys(clusters, good, "good")
    return bootstrap(area, keys, resamples=resamples, seed=seed, confidence=confidence)


def _ranked_auc(scores: Sequence[float], good: Sequence[bool]) -> Callable[[Sequence[int]], float | None]:
    """Return the function that gives the area of the scores at some positions.

    The scores are sorted once, so that the area of any resample is counted in one pass.
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
        halves = below = 0  # won pairs count two halves, ties one
        for better, worse in zip(right, wrong, strict=True):
            halves += better * (2 * below + worse)
            below += worse
        pairs = sum(right) * below
        return halves / (2 * pairs) if pairs else None

    return area
