"""Reports: the data (`Report`), and one file per way of showing it."""

from toolmark.report._report import CaseResult, MetricSummary, Report

__all__ = ["CaseResult", "MetricSummary", "Report"]
