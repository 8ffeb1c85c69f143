"""Reports: the data (`Report`, `Validity`, `Comparison`), and one file per way of showing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmark._later import later

if TYPE_CHECKING:
    from toolmark.report._comparison import CaseChange, CaseGap, Comparison, MetricComparison
    from toolmark.report._report import CaseResult, Flaky, MetricSummary, Report, TrialSummary
    from toolmark.report._validity import MetricValidity, Validity

_HOME = {
    "CaseChange": "_comparison",
    "CaseGap": "_comparison",
    "CaseResult": "_report",
    "Comparison": "_comparison",
    "Flaky": "_report",
    "MetricComparison": "_comparison",
    "MetricSummary": "_report",
    "MetricValidity": "_validity",
    "Report": "_report",
    "TrialSummary": "_report",
    "Validity": "_validity",
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

_load = later(__name__, _HOME)


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    return _load(name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
