"""Between what does a number lie, by resampling whole clusters?"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from toolmark.stats.number_checks import check_bootstrap

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


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which this share lies, between two neighbours in proportion."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
