"""Order in which reports list results: worst first."""

from __future__ import annotations

from typing import Literal, TypeAlias

from toolgrade.report.report import CaseResult, Report
from toolgrade.result import MetricResult, ResultStatus

Verdict: TypeAlias = Literal["error", "failed", "passed", "skipped"]
"""Outcome of a result or of a case."""

VERDICTS: tuple[Verdict, ...] = ("error", "failed", "passed", "skipped")
"""The verdicts, the worst first."""

_RANKS = {"error": 0, "skipped": 2}

Entry: TypeAlias = tuple[CaseResult, MetricResult]
"""A result with its case."""


def entries_of(report: Report) -> list[Entry]:
    """Return all results with their cases; none of a report of totals, which views show without them."""
    return [] if report.totals else list(report.results())


def result_verdict(result: MetricResult) -> Verdict:
    """Return the outcome of a result in one word."""
    if result.passed is not None:
        return "passed" if result.passed else "failed"
    return "skipped" if result.status is ResultStatus.SKIPPED else "error"


def case_verdict(case: CaseResult) -> Verdict:
    """Return the worst verdict of any metric on a case."""
    verdicts: list[Verdict] = [result_verdict(result) for result in case.own_results]
    return min(verdicts, key=VERDICTS.index) if verdicts else "skipped"


def worst_first(entry: Entry) -> tuple[int, float, int]:
    """Return a sort key: the worst results first; ties by position."""
    case, result = entry
    return *severity(result), case.index


def severity(result: MetricResult) -> tuple[int, float]:
    """Return a sort key: results that could not be measured, then by score, skipped ones last."""
    return _RANKS.get(result_verdict(result), 1), result.score or 0.0


def worst_case_first(case: CaseResult) -> tuple[int, float, int]:
    """Return a sort key for cases: the worst verdict, then the lowest score, then the position."""
    scores = [result.score for result in case.own_results if result.score is not None]
    return VERDICTS.index(case_verdict(case)), min(scores, default=0.0), case.index


def is_bad(result: MetricResult) -> bool:
    """Return whether a result fails a case: it is below the threshold or not measured. Skipped is neither."""
    return result_verdict(result) in {"error", "failed"}
