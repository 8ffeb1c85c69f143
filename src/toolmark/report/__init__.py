"""Data of reports (`Report`, `Comparison`, `Validity`), and one module for each way to show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmark._internal.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from toolmark.report.comparison import CaseChange, CaseGap, Comparison, MetricComparison
    from toolmark.report.report import CaseResult, Flaky, MetricSummary, Report, TrialSummary
    from toolmark.report.validity import AUCDifference, MetricValidity, MisrankedCase, Validity

_HOME = {
    **dict.fromkeys(("CaseResult", "Flaky", "MetricSummary", "Report", "TrialSummary"), "report"),
    **dict.fromkeys(("CaseChange", "CaseGap", "Comparison", "MetricComparison"), "comparison"),
    **dict.fromkeys(("AUCDifference", "MetricValidity", "MisrankedCase", "Validity"), "validity"),
}

__all__ = [
    "AUCDifference",
    "CaseChange",
    "CaseGap",
    "CaseResult",
    "Comparison",
    "Flaky",
    "MetricComparison",
    "MetricSummary",
    "MetricValidity",
    "MisrankedCase",
    "Report",
    "TrialSummary",
    "Validity",
]

# Scoring needs neither comparisons nor validities.
_load = lazy_getattr(__name__, _HOME)


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    return _load(name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
