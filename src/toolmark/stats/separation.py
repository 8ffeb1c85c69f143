"""Separation: measures of how well scores separate good from bad."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from toolmark.errors import InvalidDataError
from toolmark.stats.bootstrap import RESAMPLES, Interval, bootstrap
from toolmark.stats.number_checks import check_lengths


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
    return _Ranked(scores, good).auc(range(len(scores)))


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
    check_lengths(passed, good, "passed")
    right, wrong = sum(map(bool, good)), sum(not value for value in good)
    if not right or not wrong:
        return None
    hits = sum(bool(one and other) for one, other in zip(passed, good, strict=True))
    rejected = sum(not one and not other for one, other in zip(passed, good, strict=True))
    return (hits * wrong + rejected * right) / (2 * right * wrong)


def auc_interval(
    scores: Sequence[float],
    good: Sequence[bool],
    clusters: Sequence[Hashable] | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval | None:
    """Return the interval of `auc` by `bootstrap`; each one is a cluster of its own unless `clusters` says otherwise.

    Resamples in which all are good, or none is, are left out and counted. Where good and bad are separated completely,
    so are they in every resample, and the interval is [1, 1]: it knows nothing of runs that were not made.

    Raises:
        InvalidDataError: The arguments differ in length, or a score is NaN.
        ConfigurationError: See `bootstrap`.
    """
    ranked = _Ranked(scores, good)
    keys = range(len(scores)) if clusters is None else clusters
    check_lengths(keys, good, "clusters")
    return bootstrap(ranked.auc, keys, resamples=resamples, seed=seed, confidence=confidence)


class _Ranked:
    """Scores by rank, sorted once, so that the area of any resample is counted in one pass."""

    def __init__(self, scores: Sequence[float], good: Sequence[bool]) -> None:
        check_lengths(scores, good, "scores")
        if any(math.isnan(score) for score in scores):
            raise InvalidDataError("a score is NaN, which is neither higher nor lower than another; leave it out")
        ranks = {score: rank for rank, score in enumerate(sorted(set(scores)))}
        self._ranks = [ranks[score] for score in scores]
        self._good = list(map(bool, good))
        self._count = len(ranks)

    def auc(self, chosen: Sequence[int]) -> float | None:
        """Return the area of the ones at these positions."""
        right, wrong = [0] * self._count, [0] * self._count
        for position in chosen:
            (right if self._good[position] else wrong)[self._ranks[position]] += 1
        halves = below = 0  # won pairs count two halves, ties one
        for better, worse in zip(right, wrong, strict=True):
            halves += better * (2 * below + worse)
            below += worse
        pairs = sum(right) * below
        return halves / (2 * pairs) if pairs else None
