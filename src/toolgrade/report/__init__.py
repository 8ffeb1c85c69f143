"""Data of reports (`Report`, `Comparison`), and one module for each way to show them."""

from toolgrade.report.comparison import Comparison
from toolgrade.report.report import CaseResult, MetricSummary, Report, TrialSummary

__all__ = [
    "CaseResult",
    "Comparison",
    "MetricSummary",
    "Report",
    "TrialSummary",
]
