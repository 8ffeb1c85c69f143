"""Intervals of a mean and of a share, for results that come in clusters, such as the trials of one task."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist

from toolgrade._internal.options import require
from toolgrade.stats.number_checks import check_confidence, check_positive, check_shares, cluster_keys

SAME = 1e-12
"""A standard error below this is rounding error of a sum of floats, and counts as 0."""

_EXACT = 200
"""Degrees of freedom up to which the distribution is summed up; the series is good to 1e-11 from there on."""

_HALVINGS = 80


def mean_interval(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, *, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Return the interval of the mean of numbers in [0, 1], such as scores, by Student's t over clusters.

    With N numbers in G clusters, and s the sum over a cluster of the differences of its numbers from the mean, the
    standard error is sqrt(G / (G - 1) * sum of s^2) / N, and the interval is the mean plus and minus
    the standard error times the quantile of Student's t with G - 1 degrees of freedom, cut to [0, 1]. If all clusters
    have one size, this is the interval of the mean of their means.

    Args:
        values: In [0, 1].
        clusters: The key of the cluster of each value, such as the task of a trial; by default each value is a separate
            cluster.
        confidence: In (0, 1).

    Returns:
        Both ends; `None` with fewer than two clusters, or if nothing varies between them: an interval of width 0 would
        claim a certainty that no number of results gives.

    Raises:
        InvalidDataError: A value is out of range, or the two differ in length.
        ConfigurationError: `confidence` is out of range.

    Example:
        >>> from toolgrade.stats.intervals import mean_interval
        >>> low, high = mean_interval([1.0, 0.5, 0.0, 0.5], ["a", "a", "b", "b"])
        >>> round(low, 4), round(high, 4)
        (0.0, 1.0)
        >>> mean_interval([1.0, 1.0], ["a", "b"]) is None
        True
    """
    check_shares(values)
    check_confidence(confidence)
    sums = _cluster_sums(values, clusters)
    if len(sums) < 2:  # noqa: PLR2004 - two are the fewest that can vary
        return None
    error = math.sqrt(_variance(sums, len(values)))
    if error < SAME:
        return None
    mean = math.fsum(values) / len(values)
    reach = student_t(len(sums) - 1, (1 + confidence) / 2) * error
    return max(0.0, mean - reach), min(1.0, mean + reach)


def rate_interval(
    passed: Sequence[bool], clusters: Sequence[Hashable] | None = None, *, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Return the interval of a share, such as of cases that passed, by Wilson's method with an effective number.

    If each result is a separate cluster, this is Wilson's interval. Otherwise the n results count as the number of
    independent ones that would have the same variance as the clusters: p (1 - p) over the square of the standard error
    of `mean_interval`, at least the number of clusters and at most n; and as that number is estimated, the quantile is
    that of Student's t for G - 1 degrees of freedom. If all passed, or none, they count as many as there
    are clusters, since nothing shows that trials of one task differ at all.

    Args:
        passed: Whether each result passed.
        clusters: See `mean_interval`.
        confidence: In (0, 1).

    Returns:
        Both ends, in [0, 1]; `None` without results.

    Raises:
        InvalidDataError: The two differ in length.
        ConfigurationError: `confidence` is out of range.

    Example:
        >>> from toolgrade.stats.intervals import rate_interval
        >>> low, high = rate_interval([True] * 10)
        >>> round(low, 4), high
        (0.7225, 1.0)
    """
    check_confidence(confidence)
    values = [float(bool(value)) for value in passed]
    sums = _cluster_sums(values, clusters)
    if not values:
        return None
    rate, number = math.fsum(values) / len(values), float(len(values))
    quantile = NormalDist().inv_cdf((1 + confidence) / 2)
    if 1 < len(sums) < len(values):
        number = effective(rate, math.sqrt(_variance(sums, len(values))), len(sums), len(values))
        if 0 < rate < 1:
            quantile = student_t(len(sums) - 1, (1 + confidence) / 2)
    elif len(sums) == 1:
        number = 1.0
    return wilson(rate, number, quantile)


def student_t(freedom: int, probability: float) -> float:
    """Return the quantile of Student's t distribution, accurate to about ten digits.

    Up to 200 degrees of freedom it is found by halving from the finite sums of the distribution function (Abramowitz
    and Stegun, "Handbook of Mathematical Functions", 1964, 26.7.3 and 26.7.4), above by the series of the quantile in
    the normal one (Fisher and Cornish, 1960; 26.7.5 there).

    Args:
        freedom: Degrees of freedom, at least 1.
        probability: The probability below the quantile, in (0, 1).

    Raises:
        ConfigurationError: An argument is out of range.

    Example:
        >>> from toolgrade.stats.intervals import student_t
        >>> round(student_t(39, 0.975), 4)
        2.0227
    """
    check_positive(freedom, "freedom")
    require(0 < probability < 1, "probability must be between 0 and 1", probability)
    if probability < 0.5:  # noqa: PLR2004 - it is symmetric
        return -student_t(freedom, 1 - probability)
    if freedom > _EXACT:
        return _series(freedom, probability)
    within = 2 * probability - 1
    low, high = 0.0, math.pi / 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(freedom, middle) < within else (low, middle)
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _within(freedom: int, angle: float) -> float:
    """Return the share of the t distribution within -t and t, t being sqrt(freedom) times the tangent of the angle."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, terms = (cosine if odd else 1.0), list[float]()
    for step in range(2 + odd, freedom + 1, 2):
        terms.append(term)
        term *= cosine * cosine * (step - 1) / step
    total = sine * math.fsum(terms)
    return 2 / math.pi * (angle + total) if odd else total


def _series(freedom: int, probability: float) -> float:
    z = NormalDist().inv_cdf(probability)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / float(freedom) ** power for power, term in enumerate(terms))


def wilson(rate: float, number: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of `number` independent results, which need not be a whole number."""
    scale = 1 + z * z / number
    middle = (rate + z * z / (2 * number)) / scale
    reach = z / scale * math.sqrt(rate * (1 - rate) / number + z * z / (4 * number * number))
    return (0.0 if rate == 0 else max(0.0, middle - reach)), (1.0 if rate == 1 else min(1.0, middle + reach))


def effective(rate: float, error: float | None, clusters: int, number: int) -> float:
    """Return the number of independent results that clustered results are worth.

    `rate` is the share that passed, `error` its standard error, or `None` with fewer than two clusters.
    """
    if rate in {0, 1} or error is None:
        return clusters
    if error < SAME:
        return number
    return min(float(number), max(float(clusters), rate * (1 - rate) / error**2))


def _cluster_sums(values: Sequence[float], clusters: Sequence[Hashable] | None) -> list[float]:
    """Return the sum of the differences from the overall mean, for each cluster."""
    keys = cluster_keys(clusters, values, "values")
    mean = math.fsum(values) / max(len(values), 1)
    members: dict[Hashable, list[float]] = {}
    for value, key in zip(values, keys, strict=True):
        members.setdefault(key, []).append(value - mean)
    return [math.fsum(differences) for differences in members.values()]


def _variance(sums: Sequence[float], number: int) -> float:
    """Return the variance of the mean of so many numbers, from the sums of at least two clusters."""
    return len(sums) / (len(sums) - 1) * math.fsum(one * one for one in sums) / number**2
