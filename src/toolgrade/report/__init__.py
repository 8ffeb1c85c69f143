"""Data of reports (`Report`, `Comparison`), and one module for each way to show them."""

from toolgrade.report.comparison import CaseChange, CaseGap, Comparison, MetricComparison
from toolgrade.report.report import CaseResult, Flaky, MetricSummary, Report, TrialSummary

__all__ = [
    "CaseChange",
    "CaseGap",
    "CaseResult",
    "Comparison",
    "Flaky",
    "MetricComparison",
    "MetricSummary",
    "Report",
    "TrialSummary",
]
