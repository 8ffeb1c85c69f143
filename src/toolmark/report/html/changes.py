"""How does the report differ from an earlier one? The comparison, metric by metric, and the cases that changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from toolmark._internal.text import difference_text, number_text, plural, shorten
from toolmark.redact import Redactor
from toolmark.report.comparison import CaseChange, Comparison, MetricComparison
from toolmark.report.html.texts import LONGEST_LINE, LONGEST_NAME

_MOST_CASES = 50


class ChangedCase(NamedTuple):
    """A case that passed before and fails now, or the other way round."""

    label: str
    scores: str
    finding: str


class MetricChange(NamedTuple):
    """How one metric differs; texts, `-` where there is no number."""

    metric: str
    pairs: str
    before: str
    now: str
    difference: str
    interval: str
    p_value: str
    worse: tuple[ChangedCase, ...]
    better: tuple[ChangedCase, ...]
    left_out: str
    lost: tuple[str, ...]


class Changes(NamedTuple):
    """How the report differs from an earlier one."""

    words: str
    metrics: tuple[MetricChange, ...]
    notes: tuple[str, ...]


def changes(comparison: Comparison, redactor: Redactor) -> Changes:
    """Return a comparison as the page shows it."""
    only_a, only_b = len(comparison.only_a), len(comparison.only_b)
    return Changes(
        words=f"{plural(comparison.in_both, 'case')} in both, {only_a} only before, {only_b} only now",
        metrics=tuple(_metric(one, redactor) for one in comparison.metrics),
        notes=tuple(shorten(str(redactor(note)), LONGEST_LINE * 2) for note in comparison.notes),
    )


def _metric(metric: MetricComparison, redactor: Redactor) -> MetricChange:
    interval = metric.interval
    left_out = max(len(metric.regressions) - _MOST_CASES, 0) + max(len(metric.improvements) - _MOST_CASES, 0)
    lost = [gap.label for gap in metric.lost] + list(metric.missing)
    return MetricChange(
        metric=str(redactor(metric.metric)),
        pairs=f"{metric.paired:,}",
        before=_told(metric.mean_a),
        now=_told(metric.mean_b),
        difference="-" if metric.difference is None else difference_text(metric.difference),
        interval="" if interval is None else f"{difference_text(interval.low)} to {difference_text(interval.high)}",
        p_value=_told(metric.corrected),
        worse=_cases(metric.regressions, redactor),
        better=_cases(metric.improvements, redactor),
        left_out=f"{plural(left_out, 'more case')} not shown here" if left_out else "",
        lost=tuple(shorten(str(redactor(label)), LONGEST_NAME) for label in lost[:_MOST_CASES]),
    )


def _cases(entries: Sequence[CaseChange], redactor: Redactor) -> tuple[ChangedCase, ...]:
    return tuple(
        ChangedCase(
            shorten(str(redactor(one.label)), LONGEST_NAME),
            f"{number_text(one.score_a)} to {number_text(one.score_b)}",
            shorten(str(redactor(one.finding or "")), LONGEST_LINE),
        )
        for one in entries[:_MOST_CASES]
    )


def _told(value: float | None) -> str:
    return "-" if value is None else number_text(value)
