"""Bootstrap intervals: percentile intervals of a statistic by resampling whole clusters."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from toolgrade.stats.number_checks import check_bootstrap

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
        >>> from toolgrade.stats.paired import mean_difference_interval
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
        >>> from toolgrade.stats.bootstrap import bootstrap
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
