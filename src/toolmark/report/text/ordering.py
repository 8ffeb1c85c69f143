"""Order in which reports list results: worst first."""

from __future__ import annotations

from typing import TypeAlias

from toolmark.report.report import CaseResult, Report
from toolmark.result import MetricResult, ResultStatus

Entry: TypeAlias = tuple[CaseResult, MetricResult]
"""A result with its case."""


def worst_first(entry: Entry) -> tuple[int, float, int]:
    """Return a sort key: results that could not be measured, then by score, skipped ones last; ties by position."""
    case, result = entry
    if result.status is ResultStatus.FAILED:
        return 0, 0.0, case.index
    if result.score is None:
        return 2, 0.0, case.index
    return 1, result.score, case.index


def is_bad(result: MetricResult) -> bool:
    """Return whether a result fails a case: it is below the threshold or not measured. Skipped is neither."""
    return not result.passed and result.status is not ResultStatus.SKIPPED


def split_by_verdict(report: Report) -> tuple[list[Entry], list[Entry]]:
    """Return the results that fail their case, and all others, each worst first."""
    entries = sorted(report.results(), key=worst_first)
    return [entry for entry in entries if is_bad(entry[1])], [entry for entry in entries if not is_bad(entry[1])]


def group_warnings(report: Report) -> dict[str, list[CaseResult]]:
    """Return each distinct warning of the results with the cases that have it, in the order of the cases."""
    cases: dict[str, dict[int, CaseResult]] = {}
    for case, result in report.results():
        for text in result.warnings:
            cases.setdefault(text, {})[case.index] = case
    return {text: list(by_index.values()) for text, by_index in cases.items()}
