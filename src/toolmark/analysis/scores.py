"""Numbers of results that the analyses share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from toolmark.result import MetricResult


def scores_of(results: Iterable[MetricResult]) -> list[float]:
    """Return the scores of results that have one."""
    return [cast("float", result.score) for result in results]


def count_warned(results: Iterable[MetricResult]) -> int:
    """Return how many results have warnings."""
    return sum(bool(result.warnings) for result in results)
