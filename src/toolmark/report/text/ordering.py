"""Which results are shown, and in which order? Every way of showing a report lists them worst first."""

from __future__ import annotations

from typing import TypeAlias

from toolmark.report.report import CaseResult, Report
from toolmark.result import MetricResult, ResultStatus

Entry: TypeAlias = tuple[CaseResult, MetricResult]
"""A result with its case."""


def worst_first(entry: Entry) -> tuple[int, float, int]:
    """Order: what could not be measured, then by score, then as given; skipped cases last."""
    case, result = entry
    if result.status is ResultStatus.FAILED:
        return 0, 0.0, case.index
    if result.score is None:
        return 2, 0.0, case.index
    return 1, result.score, case.index


def is_bad(result: MetricResult) -> bool:
    """Return whether a result fails a case: below the threshold, or not measured. Skipped is neither."""
    return not result.passed and result.status is not ResultStatus.SKIPPED


def parted(report: Report) -> tuple[list[Entry], list[Entry]]:
    """Return the results that fail their case, and all others, each worst first."""
    entries = sorted(report.results(), key=worst_first)
    return [entry for entry in entries if is_bad(entry[1])], [entry for entry in entries if not is_bad(entry[1])]
