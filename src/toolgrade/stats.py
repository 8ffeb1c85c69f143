"""Statistics of scores: separation of good from bad, comparison of versions, intervals and repeated trials.

Pure functions over numbers, standard library only. An undefined number is `None`, never 0.

- *Area under the ROC curve* (AUC): the probability that a random good one scores higher than a random bad one, ties
  counting one half. It is the rank statistic of Mann and Whitney divided by the number of pairs (Hanley and McNeil,
  "The meaning and use of the area under a receiver operating characteristic curve", Radiology 143, 1982). Counted in
  integers, so equal scores are ties and no sum drifts. Time: n log n.
- *Clustered bootstrap*: clusters, such as the runs of one task, are resampled as a whole with replacement, and
  the interval has the percentiles as its ends (Efron, 1979; for clusters Davison and Hinkley, "Bootstrap
  methods and their application", 1997, section 3.8). Percentiles are interpolated as in Hyndman and Fan's type 7.
- *McNemar's test*, exact: tests whether more of the changed pairs changed in one direction than by chance (McNemar,
  "Note on the sampling error of the difference between correlated proportions", Psychometrika 12, 1947.) `sign_flip` is
  the same for clusters of pairs: Fisher's randomization test, in which each whole cluster might have been the other way
  round.
- *Holm's correction* of several tests at once (Holm, "A simple sequentially rejective multiple test procedure",
  Scandinavian Journal of Statistics 6, 1979).
- *Intervals of a mean and of a share*, for results that come in clusters, such as trials of one task: the standard
  error is the one that allows for clusters (Liang and Zeger, "Longitudinal data analysis using generalized linear
  models", Biometrika 73, 1986; for evaluations of models Miller, "Adding error bars to evals", 2024), the quantile
  Student's for the number of clusters less one. A share has Wilson's interval ("Probable inference, the law of
  succession, and statistical inference", JASA 22, 1927), with the number of independent results that the clustered ones
  are worth (Kish, "Survey sampling", 1965; with Wilson's interval Franco and others, "Comparative study of confidence
  intervals for proportions in complex sample surveys", Journal of Survey Statistics and Methodology 7, 2019). In a
  simulation of 40 tasks of beta(0.6, 0.3) difficulty with 5 trials each, nominal 95 % cover 95.0 % (mean) and 95.7 %
  (share); taking all trials for independent ones covers 73.7 %.
- *pass@k* and *pass^k*, unbiased: the probability that at least one of k trials passes (Chen and others, "Evaluating
  large language models trained on code", 2021), and that all k pass (Yao and others, "tau-bench", 2024).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from toolgrade._internal.options import require
from toolgrade.errors import InvalidDataError


def mean_of(values: Sequence[float]) -> float | None:
    """Return the mean; `None` without values."""
    return math.fsum(values) / len(values) if values else None


def check_lengths(values: Sequence[object], others: Sequence[object], name: str, other: str) -> None:
    """Raise unless two sequences have the same number of entries; the message has their names."""
    if len(values) != len(others):
        message = f"{name} has {len(values)} entries and {other} has {len(others)}; there must be one for each"
        raise InvalidDataError(message)


def cluster_keys(clusters: Sequence[Hashable] | None, values: Sequence[object], name: str) -> Sequence[Hashable]:
    """Return the cluster key of each value; without clusters, each value is a cluster of one."""
    if clusters is None:
        return range(len(values))
    check_lengths(clusters, values, "clusters", name)
    return clusters


def check_shares(values: Iterable[float], name: str = "a value") -> None:
    """Raise unless all values are from 0 to 1, both included."""
    for value in values:
        if not 0 <= value <= 1:
            raise InvalidDataError(f"{name} must be between 0 and 1, got {value!r}")


def is_whole(value: object, least: int) -> bool:
    """Return whether a value is a whole number, and not below `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def check_count(value: object, name: str) -> None:
    """Raise unless a value is a whole number of at least 0."""
    if not is_whole(value, 0):
        raise InvalidDataError(f"{name} must be a whole number of at least 0, got {value!r}")


def check_positive(value: object, name: str) -> None:
    """Raise `ConfigurationError` unless an option is a whole number of at least 1."""
    require(is_whole(value, 1), f"{name} must be a whole number of at least 1", value)


def check_confidence(confidence: object) -> None:
    """Raise `ConfigurationError` unless a confidence is between 0 and 1, both excluded."""
    is_valid = isinstance(confidence, (int, float)) and 0 < confidence < 1  # this excludes bools
    require(is_valid, "confidence must be a number between 0 and 1", confidence)


def check_bootstrap(resamples: object, confidence: object) -> None:
    """Check the arguments of `bootstrap` early, before anything else takes time.

    Raises:
        ConfigurationError: `resamples` is not a whole number of at least 1, or `confidence` is not between 0 and 1.
    """
    check_positive(resamples, "resamples")
    check_confidence(confidence)


RESAMPLES = 2000
"""Default number of resamples: each end of a 95 % interval then rests on about 50 of them."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A percentile interval of a statistic, from resamples of the data.

    Attributes:
        low: Lower end.
        high: Upper end.
        resamples: Number of resamples with a value of the statistic, on which the interval rests.
        left_out: Number of resamples without a value, such as those in which all cases are good.
        clusters: Number of different clusters.

    Example:
        >>> from toolgrade.stats import mean_difference_interval
        >>> before, after = [0.5, 0.5, 1.0, 0.0, 0.5, 1.0], [1.0, 0.5, 1.0, 0.5, 1.0, 1.0]
        >>> interval = mean_difference_interval(before, after)
        >>> round(interval.low, 2), round(interval.high, 2), interval.resamples, interval.clusters
        (0.08, 0.5, 2000, 6)
    """

    low: float
    high: float
    resamples: int
    left_out: int
    clusters: int


def bootstrap(
    statistic: Callable[[Sequence[int]], float | None],
    clusters: Sequence[Hashable],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval | None:
    """Return the percentile interval of a statistic, resampling whole clusters; the same for the same arguments.

    Args:
        statistic: Returns the value of the statistic for a resample, or `None` if it has none. A resample is a list of
            positions in `clusters`; each occurs as often as its cluster was drawn.
        clusters: For each position of the data, the key of its cluster. If all keys differ, single positions are
            resampled.
        resamples: Number of resamples to draw.
        seed: Seed of the random numbers.
        confidence: Share of the values that lie in the interval, in (0, 1).

    Returns:
        The interval; `None` with fewer than two clusters, or if no resample has a value.

    Raises:
        ConfigurationError: `resamples` is below 1, or `confidence` is out of range.

    Example:
        >>> from statistics import median
        >>> from toolgrade.stats import bootstrap
        >>> seconds = [1.0, 1.2, 1.3, 1.5, 4.0, 1.1, 0.9, 1.4]
        >>> tasks = ["weather", "weather", "flight", "flight", "hotel", "hotel", "train", "train"]
        >>> interval = bootstrap(lambda positions: median(seconds[position] for position in positions), tasks)
        >>> interval.low, interval.high
        (1.1, 1.4)
    """
    check_bootstrap(resamples, confidence)
    members: dict[Hashable, list[int]] = {}
    for position, key in enumerate(clusters):
        members.setdefault(key, []).append(position)
    groups = list(members.values())
    if len(groups) < 2:  # noqa: PLR2004 - two are the fewest that can vary
        return None
    draw = random.Random(seed).random  # noqa: S311 - reproducible, not secret
    values: list[float | None] = []
    for _ in range(resamples):
        # Only `random` gives the same numbers in every version of Python; `choices` and `randrange` may change.
        resample: list[int] = []
        for _ in groups:  # as many draws as there are clusters, with replacement
            resample += groups[int(draw() * len(groups))]
        values.append(statistic(resample))
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return None
    tail = (1 - confidence) / 2
    low, high = _percentile(ordered, tail), _percentile(ordered, 1 - tail)
    return Interval(low, high, len(ordered), len(values) - len(ordered), len(groups))


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which this share lies, interpolated between its two neighbours."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


_SAME = 1e-12
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
        >>> from toolgrade.stats import mean_interval
        >>> low, high = mean_interval([1.0, 0.5, 0.0, 0.5], ["a", "a", "b", "b"])
        >>> round(low, 4), round(high, 4)
        (0.0, 1.0)
        >>> mean_interval([1.0, 1.0], ["a", "b"]) is None
        True
    """
    check_shares(values)
    check_confidence(confidence)
    sums = _cluster_sums(values, clusters)
    mean = math.fsum(values) / max(len(values), 1)
    return interval_of_mean(mean, _standard_error(sums, len(values)), len(sums), confidence)


def interval_of_mean(
    mean: float, error: float | None, clusters: int, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Return the interval of a mean with this standard error, which is `None` with fewer than two clusters."""
    if error is None or error < _SAME:
        return None
    reach = student_t(clusters - 1, (1 + confidence) / 2) * error
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
        >>> from toolgrade.stats import rate_interval
        >>> low, high = rate_interval([True] * 10)
        >>> round(low, 4), high
        (0.7225, 1.0)
    """
    check_confidence(confidence)
    values = [float(bool(value)) for value in passed]
    sums = _cluster_sums(values, clusters)
    if not values:
        return None
    rate = math.fsum(values) / len(values)
    return interval_of_rate(rate, _standard_error(sums, len(values)), len(sums), len(values), confidence)


def interval_of_rate(
    rate: float, error: float | None, clusters: int, number: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the interval of a share of so many results with this standard error, as for `interval_of_mean`."""
    worth = float(number)
    quantile = NormalDist().inv_cdf((1 + confidence) / 2)
    if clusters < number:
        worth = _effective(rate, error, clusters, number)
        if 0 < rate < 1 and clusters > 1:
            quantile = student_t(clusters - 1, (1 + confidence) / 2)
    return wilson(rate, worth, quantile)


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
        >>> from toolgrade.stats import student_t
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


def _effective(rate: float, error: float | None, clusters: int, number: int) -> float:
    """Return the number of independent results that clustered results are worth."""
    if rate in {0, 1} or error is None:
        return clusters
    if error < _SAME:
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


def _standard_error(sums: Sequence[float], number: int) -> float | None:
    """Return the standard error of the mean of so many numbers, from the sums of their clusters."""
    if len(sums) < 2:  # noqa: PLR2004 - two are the fewest that can vary
        return None
    return math.sqrt(len(sums) / (len(sums) - 1) * math.fsum(one * one for one in sums) / number**2)


def mean_difference(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Return the mean over pairs of `after - before`; `None` without pairs.

    Args:
        before: One finite number for each pair.
        after: The other number of each pair, in the same order.

    Raises:
        InvalidDataError: The two differ in length, or a number is not finite.

    Example:
        >>> from toolgrade.stats import mean_difference
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
        >>> from toolgrade.stats import mean_difference, mean_difference_interval
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
        >>> from toolgrade.stats import mcnemar
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
        >>> from toolgrade.stats import sign_flip
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
        >>> from toolgrade.stats import holm
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


def pass_at_k(trials: int, passes: int, k: int) -> float | None:
    """Return the probability that at least one of k trials passes, 1 - C(n - c, k) / C(n, k), unbiased, in [0, 1].

    `None` with fewer than k trials.

    Args:
        trials: Trials of one case, n.
        passes: Those that passed, c.
        k: Number of trials; at least 1.

    Raises:
        InvalidDataError: `trials` or `passes` is not a whole number of at least 0, or `passes` exceeds `trials`.
        ConfigurationError: `k` is not a whole number of at least 1.

    Example:
        >>> from toolgrade.stats import pass_at_k
        >>> pass_at_k(trials=4, passes=1, k=2)
        0.5
    """
    ways = _ways(trials, passes, k)
    return (ways - math.comb(trials - passes, k)) / ways if ways else None


def pass_hat_k(trials: int, passes: int, k: int) -> float | None:
    """Return the probability that all of k trials pass (pass^k), C(c, k) / C(n, k), unbiased, in [0, 1].

    `None` with fewer than k trials. Arguments and errors are those of `pass_at_k`.

    Example:
        >>> from toolgrade.stats import pass_hat_k
        >>> pass_hat_k(trials=4, passes=3, k=2)
        0.5
    """
    ways = _ways(trials, passes, k)
    return math.comb(passes, k) / ways if ways else None


def _ways(trials: int, passes: int, k: int) -> int:
    """Return the number of ways to choose k trials."""
    check_count(trials, "trials")
    check_count(passes, "passes")
    if passes > trials:
        raise InvalidDataError(f"there are {passes} passes of {trials} trials; there cannot be more passes than trials")
    check_positive(k, "k")
    return math.comb(trials, k)
