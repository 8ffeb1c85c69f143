"""Reports: the data (`Report`, `Validity`, `Comparison`), and one file per way of showing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmark._internal.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from toolmark.report.comparison import CaseChange, CaseGap, Comparison, MetricComparison
    from toolmark.report.report import CaseResult, Flaky, MetricSummary, Report, TrialSummary
    from toolmark.report.validity import MetricValidity, Validity

_HOME = {
    "CaseChange": "comparison",
    "CaseGap": "comparison",
    "CaseResult": "report",
    "Comparison": "comparison",
    "Flaky": "report",
    "MetricComparison": "comparison",
    "MetricSummary": "report",
    "MetricValidity": "validity",
    "Report": "report",
    "TrialSummary": "report",
    "Validity": "validity",
}

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

_load = lazy_getattr(__name__, _HOME)


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    return _load(name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
