"""Paired comparison of two versions: differences, tests, and correction of several tests."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from toolgrade.errors import InvalidDataError
from toolgrade.stats.bootstrap import RESAMPLES, Interval, bootstrap
from toolgrade.stats.number_checks import check_count, check_lengths, check_shares, cluster_keys, mean_of


def mean_difference(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Return the mean over pairs of `after - before`; `None` without pairs.

    Args:
        before: One finite number for each pair.
        after: The other number of each pair, in the same order.

    Raises:
        InvalidDataError: The two differ in length, or a number is not finite.

    Example:
        >>> from toolgrade.stats.paired import mean_difference
        >>> mean_difference([0.5, 0.5], [1.0, 0.25])
        0.125
    """
    return mean_of(_differences(before, after))


def mean_difference_interval(
    before: Sequence[float],
    after: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval | None:
    """Return the interval of `mean_difference` by `bootstrap`, pairs being kept whole.

    Each pair is a separate cluster by default. If all pairs differ by the same amount, the interval is a point: it does
    not account for other pairs.

    Args:
        before: One finite number for each pair.
        after: The other number of each pair, in the same order.
        clusters: The key of the cluster of each pair, such as its task; by default each pair is a separate cluster.
        resamples: See `bootstrap`.
        seed: See `bootstrap`.
        confidence: See `bootstrap`.

    Returns:
        The interval, in the unit of the numbers; `None` as for `bootstrap`.

    Raises:
        InvalidDataError: The arguments differ in length, or a number is not finite.
        ConfigurationError: See `bootstrap`.

    Example:
        >>> from toolgrade.stats.paired import mean_difference, mean_difference_interval
        >>> before, after = [0.5, 0.5, 1.0, 0.0, 0.5, 1.0], [1.0, 0.5, 1.0, 0.5, 1.0, 1.0]
        >>> interval = mean_difference_interval(before, after)
        >>> mean_difference(before, after), round(interval.low, 2), round(interval.high, 2)
        (0.25, 0.08, 0.5)
    """
    differences = _differences(before, after)
    keys = cluster_keys(clusters, differences, "before")

    def statistic(chosen: Sequence[int]) -> float | None:
        return mean_of([differences[position] for position in chosen])

    return bootstrap(statistic, keys, resamples=resamples, seed=seed, confidence=confidence)


def mcnemar(worse: int, better: int) -> float:
    """Return the two-sided p-value of McNemar's exact test, in [0, 1].

    Twice the smaller tail of the binomial distribution with one half, at most 1. It is not the mid-p value: the exact
    test keeps its level however few pairs changed, and is conservative with few. With fewer than six changed pairs it
    cannot get below 0.05, and with none it is 1.

    Args:
        worse: Pairs that passed before and fail after.
        better: Pairs that failed before and pass after.

    Raises:
        InvalidDataError: One is not a whole number of at least 0.

    Example:
        >>> from toolgrade.stats.paired import mcnemar
        >>> mcnemar(worse=8, better=1)
        0.0390625
    """
    check_count(worse, "worse")
    check_count(better, "better")
    changed = worse + better
    tail = ways = 1
    for number in range(min(worse, better)):
        ways = ways * (changed - number) // (number + 1)
        tail += ways
    return min(1.0, 2 * tail / (1 << changed))


def sign_flip(differences: Sequence[int]) -> float:
    """Return the two-sided p-value, in [0, 1], for the hypothesis that differences of clusters add up to 0.

    It is the share of all patterns of signs whose sum is at least as far from 0, counted exactly: without a difference,
    each cluster could as well have the other sign. With -1, 0 and 1 alone this is `mcnemar`.

    Args:
        differences: Passes after minus passes before, for each cluster.

    Raises:
        InvalidDataError: One is not a whole number.

    Example:
        >>> from toolgrade.stats.paired import sign_flip
        >>> sign_flip([3, 2, 2, 1, 0, -1])
        0.1875
    """
    for value in differences:
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidDataError(f"differences must be whole numbers, got {value!r}")
    sizes = [abs(value) for value in differences if value]
    extreme = abs(sum(differences))
    if not extreme:
        return 1.0
    # The patterns whose negative part adds up to t are as many as the coefficient of x^t in the product of 1 + x^size.
    # Written in base 2^width, where no coefficient overflows, the product is one integer, and each factor a shift.
    width = len(sizes) + 1
    lowest = (sum(sizes) - extreme) // 2
    mask = (1 << (width * (lowest + 1))) - 1
    product = 1
    for size in sizes:
        product = (product + (product << (width * size))) & mask
    digit = (1 << width) - 1
    tail = sum((product >> (width * place)) & digit for place in range(lowest + 1))
    return 2 * tail / (1 << len(sizes))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the p-values corrected for their number by Holm's method, in the same order.

    If corrected values of at most alpha are called significant, the chance of any false call among all of them is at
    most alpha, however the tests depend on each other.

    Args:
        p_values: In [0, 1]; `None` without a test, which stays `None` and does not count.

    Raises:
        InvalidDataError: One is out of range.

    Example:
        >>> from toolgrade.stats.paired import holm
        >>> holm([0.04, None, 0.01])
        [0.04, None, 0.02]
    """
    tests = [(value, place) for place, value in enumerate(p_values) if value is not None]
    check_shares((value for value, _ in tests), "a p-value")
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (value, place) in enumerate(sorted(tests)):
        highest = max(highest, min(1.0, (len(tests) - rank) * value))
        corrected[place] = highest
    return corrected


def _differences(before: Sequence[float], after: Sequence[float]) -> list[float]:
    check_lengths(before, after, "before", "after")
    for value in (*before, *after):
        if not math.isfinite(value):
            raise InvalidDataError(f"a number must be finite to have a mean, got {value!r}; leave the pair out")
    return [later - earlier for earlier, later in zip(before, after, strict=True)]
