"""Helpers that several statistics share: checks of arguments, cluster keys and the mean."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

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
