"""Reports: the data (`Report`, `Validity`, `Comparison`), and one file per way of showing it."""

from toolmark.report._comparison import CaseChange, CaseGap, Comparison, MetricComparison
from toolmark.report._report import CaseResult, Flaky, MetricSummary, Report, TrialSummary
from toolmark.report._validity import MetricValidity, Validity

__all__ = [
    "CaseChange",
    "CaseGap",
    "CaseResult",
    "Comparison",
    "Flaky",
    "MetricComparison",
    "MetricSummary",
    "MetricValidity",
    "Report",
    "TrialSummary",
    "Validity",
]
