"""Data of reports (`Report`, `Comparison`, `Validity`), and one module for each way to show them."""

from toolgrade.report.comparison import CaseChange, CaseGap, Comparison, MetricComparison
from toolgrade.report.report import CaseResult, Flaky, MetricSummary, Report, TrialSummary
from toolgrade.report.validity import AUCDifference, MetricValidity, MisrankedCase, Validity

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
