"""Checks of the arguments of statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence

from toolmark.errors import ConfigurationError, InvalidDataError


def mean_of(values: Sequence[float]) -> float | None:
    """Return the mean; `None` without values."""
    return math.fsum(values) / len(values) if values else None


def check_lengths(values: Sequence[object], others: Sequence[object], name: str, other: str = "good") -> None:
    """Raise unless both have the same number of entries."""
    if len(values) != len(others):
        message = f"{name} has {len(values)} entries and {other} has {len(others)}; there must be one for each"
        raise InvalidDataError(message)


def check_count(value: object, name: str) -> None:
    """Raise unless a value is a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidDataError(f"{name} must be a whole number of at least 0, got {value!r}")


def check_bootstrap(resamples: object, confidence: object) -> None:
    """Check the arguments of `bootstrap` early, before anything else takes time.

    Raises:
        ConfigurationError: `resamples` is not a whole number of at least 1, or `confidence` is not between 0 and 1.
    """
    if isinstance(resamples, bool) or not isinstance(resamples, int) or resamples < 1:
        raise ConfigurationError(f"resamples must be a whole number of at least 1, got {resamples!r}")
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
        raise ConfigurationError(f"confidence must be a number between 0 and 1, got {confidence!r}")
