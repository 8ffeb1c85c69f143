"""Does a score tell good from bad, is one version better than another, and how sure is that?

Pure functions over numbers, standard library only. What is undefined is `None`, never 0.

- *Area under the ROC curve* (AUC): the chance that a good one, drawn at random, scores higher than a bad one, ties
  counting one half. It is the rank statistic of Mann and Whitney divided by the number of pairs (Hanley and McNeil,
  "The meaning and use of the area under a receiver operating characteristic curve", Radiology 143, 1982). Counted in
  integers, so equal scores are ties and no sum drifts. Time: n log n.
- *Balanced accuracy*: the mean of the share of good ones that pass and the share of bad ones that do not (Brodersen and
  others, "The balanced accuracy and its posterior distribution", ICPR 2010). 0.5 is what a coin reaches, however many
  are good.
- *Clustered bootstrap*: what comes in clusters, such as runs of one task, is resampled by whole clusters with
  replacement, and the interval is that of the percentiles (Efron, 1979; for clusters Davison and Hinkley, "Bootstrap
  methods and their application", 1997, section 3.8). Percentiles are interpolated as in Hyndman and Fan's type 7.
- *McNemar's test*, exact: of the pairs that changed, did more turn one way than a fair coin would make them? (McNemar,
  "Note on the sampling error of the difference between correlated proportions", Psychometrika 12, 1947.) `sign_flip` is
  the same for clusters of pairs: Fisher's randomization test, in which each whole cluster might have been the other way
  round.
- *Holm's correction* of several tests at once (Holm, "A simple sequentially rejective multiple test procedure",
  Scandinavian Journal of Statistics 6, 1979).
- *pass@k* and *pass^k*, unbiased: does at least one of k trials pass (Chen and others, "Evaluating large language
  models trained on code", 2021), do all k (Yao and others, "tau-bench", 2024)?
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from toolmark.errors import ConfigurationError, InvalidDataError

RESAMPLES = 2000
"""How often is resampled unless told otherwise: the ends of a 95 % interval then rest on about 50 resamples each."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Between what a number lies, by resampling.

    Attributes:
        low: Lower end.
        high: Upper end.
        resamples: Resamples that it rests on.
        left_out: Resamples of which the number could not be computed, such as those without a bad one.
        clusters: Clusters that were resampled.
    """

    low: float
    high: float
    resamples: int
    left_out: int
    clusters: int


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
    _check_lengths(passed, good, "passed")
    right, wrong = sum(map(bool, good)), sum(not value for value in good)
    if not right or not wrong:
        return None
    hits = sum(bool(one and other) for one, other in zip(passed, good, strict=True))
    rejected = sum(not one and not other for one, other in zip(passed, good, strict=True))
    return (hits * wrong + rejected * right) / (2 * right * wrong)


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
        statistic: The number of a resample, which is given as positions in `clusters`, a position as often as its
            cluster was drawn; `None` where there is no number.
        clusters: The key of the cluster that each one belongs to; keys that are all different resample single ones.
        resamples: How often to resample.
        seed: Of the random numbers.
        confidence: The share of the resamples that lies within, in (0, 1).

    Returns:
        The interval; `None` where there are fewer than two clusters, so that nothing varies, or no resample has a
        number.

    Raises:
        ConfigurationError: `resamples` is below 1, or `confidence` is out of range.
    """
    check_bootstrap(resamples, confidence)
    members: dict[Hashable, list[int]] = {}
    for position, key in enumerate(clusters):
        members.setdefault(key, []).append(position)
    groups = list(members.values())
    if len(groups) < 2:  # noqa: PLR2004 - two are the fewest that can vary
        return None
    draw = random.Random(seed).random  # noqa: S311 - to be repeated, not to be secret
    found: list[float] = []
    for _ in range(resamples):
        # Of the generator's methods `random` alone is promised to give the same numbers in every version of Python.
        drawn = [position for _ in groups for position in groups[int(draw() * len(groups))]]
        value = statistic(drawn)
        if value is not None:
            found.append(value)
    if not found:
        return None
    found.sort()
    tail = (1 - confidence) / 2
    low, high = _percentile(found, tail), _percentile(found, 1 - tail)
    return Interval(low, high, len(found), resamples - len(found), len(groups))


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
    _check_lengths(keys, good, "clusters")
    return bootstrap(ranked.auc, keys, resamples=resamples, seed=seed, confidence=confidence)


def mean_difference(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Return the mean over pairs of `after - before`; `None` of no pair.

    Args:
        before: One finite number for each pair.
        after: The other number of each pair, in the same order.

    Raises:
        InvalidDataError: The two differ in length, or a number is not finite.

    Example:
        >>> from toolmark.stats import mean_difference
        >>> mean_difference([0.5, 0.5], [1.0, 0.25])
        0.125
    """
    return _mean(_differences(before, after))


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

    Each pair is a cluster of its own unless `clusters` says otherwise. Where all pairs differ by the same, the interval
    is a point: it knows nothing of pairs that were not seen.

    Raises:
        InvalidDataError: The arguments differ in length, or a number is not finite.
        ConfigurationError: See `bootstrap`.
    """
    differences = _differences(before, after)
    keys = range(len(differences)) if clusters is None else clusters
    _check_lengths(keys, differences, "clusters", "before")

    def statistic(chosen: Sequence[int]) -> float | None:
        return _mean([differences[position] for position in chosen])

    return bootstrap(statistic, keys, resamples=resamples, seed=seed, confidence=confidence)


def mcnemar(worse: int, better: int) -> float:
    """Return the two-sided p-value of McNemar's exact test, in [0, 1].

    Twice the smaller tail of the binomial distribution with one half, at most 1. It is not the mid-p value: the exact
    test keeps its level however few pairs changed, and is cautious where they are few. Of fewer than six changed pairs
    it cannot get below 0.05, and of none it is 1.

    Args:
        worse: Pairs that passed before and fail after.
        better: Pairs that failed before and pass after.

    Raises:
        InvalidDataError: One is no whole number from 0.

    Example:
        >>> from toolmark.stats import mcnemar
        >>> mcnemar(worse=8, better=1)
        0.0390625
    """
    _check_count(worse, "worse")
    _check_count(better, "better")
    changed = worse + better
    tail = ways = 1
    for number in range(min(worse, better)):
        ways = ways * (changed - number) // (number + 1)
        tail += ways
    return min(1.0, 2 * tail / (1 << changed))


def sign_flip(differences: Sequence[int]) -> float:
    """Return the two-sided p-value, in [0, 1], of clusters that add up to something else than 0.

    It is the share of all patterns of signs in which the sum is at least as far from 0 as it is, counted exactly: were
    nothing different, each cluster might as well have had the other sign. With -1, 0 and 1 alone this is `mcnemar`.

    Args:
        differences: Of each cluster, passes after minus passes before.

    Raises:
        InvalidDataError: One is no whole number.

    Example:
        >>> from toolmark.stats import sign_flip
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
    most alpha, whatever the tests have to do with each other.

    Args:
        p_values: In [0, 1]; `None` where there was no test, which stays `None` and does not count.

    Raises:
        InvalidDataError: One is out of range.

    Example:
        >>> from toolmark.stats import holm
        >>> holm([0.04, None, 0.01])
        [0.04, None, 0.02]
    """
    known = [(value, place) for place, value in enumerate(p_values) if value is not None]
    for value, _ in known:
        if not 0 <= value <= 1:
            raise InvalidDataError(f"a p-value must be between 0 and 1, got {value!r}")
    found: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (value, place) in enumerate(sorted(known)):
        highest = max(highest, min(1.0, (len(known) - rank) * value))
        found[place] = highest
    return found


def pass_at_k(trials: int, passes: int, k: int) -> float | None:
    """Return the chance that at least one of k trials passes, 1 - C(n - c, k) / C(n, k), unbiased, in [0, 1].

    `None` if there were fewer than k trials, since they do not tell.

    Args:
        trials: Trials of one case, n.
        passes: Those that passed, c.
        k: How many are made; at least 1.

    Raises:
        InvalidDataError: `trials` or `passes` is no whole number from 0, or there are more passes than trials.
        ConfigurationError: `k` is no whole number from 1.

    Example:
        >>> from toolmark.stats import pass_at_k
        >>> pass_at_k(trials=4, passes=1, k=2)
        0.5
    """
    _check_trials(trials, passes, k)
    ways = math.comb(trials, k)
    return (ways - math.comb(trials - passes, k)) / ways if ways else None


def pass_hat_k(trials: int, passes: int, k: int) -> float | None:
    """Return the chance that all of k trials pass (pass^k), C(c, k) / C(n, k), unbiased, in [0, 1].

    `None` if there were fewer than k trials. Arguments and errors are those of `pass_at_k`.

    Example:
        >>> from toolmark.stats import pass_hat_k
        >>> pass_hat_k(trials=4, passes=3, k=2)
        0.5
    """
    _check_trials(trials, passes, k)
    ways = math.comb(trials, k)
    return math.comb(passes, k) / ways if ways else None


class _Ranked:
    """Scores by rank, sorted once, so that the area of any resample is counted in one pass."""

    def __init__(self, scores: Sequence[float], good: Sequence[bool]) -> None:
        _check_lengths(scores, good, "scores")
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


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which this share lies, between two neighbours in proportion."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _differences(before: Sequence[float], after: Sequence[float]) -> list[float]:
    _check_lengths(before, after, "before", "after")
    for value in (*before, *after):
        if not math.isfinite(value):
            raise InvalidDataError(f"a number is {value!r}, of which there is no mean; leave the pair out")
    return [later - earlier for earlier, later in zip(before, after, strict=True)]


def _check_lengths(values: Sequence[object], others: Sequence[object], name: str, other: str = "good") -> None:
    if len(values) != len(others):
        message = f"{name} has {len(values)} entries and {other} has {len(others)}; there must be one for each"
        raise InvalidDataError(message)


def _check_count(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidDataError(f"{name} must be a whole number of at least 0, got {value!r}")


def _check_trials(trials: int, passes: int, k: object) -> None:
    _check_count(trials, "trials")
    _check_count(passes, "passes")
    if passes > trials:
        raise InvalidDataError(f"there are {passes} passes of {trials} trials; there cannot be more passes than trials")
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ConfigurationError(f"k must be a whole number of at least 1, got {k!r}")


def check_bootstrap(resamples: object, confidence: object) -> None:
    """Raise what `bootstrap` would, before anything else takes time.

    Raises:
        ConfigurationError: `resamples` is no whole number from 1, or `confidence` is not between 0 and 1.
    """
    if isinstance(resamples, bool) or not isinstance(resamples, int) or resamples < 1:
        raise ConfigurationError(f"resamples must be a whole number of at least 1, got {resamples!r}")
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
        raise ConfigurationError(f"confidence must be a number between 0 and 1, got {confidence!r}")
