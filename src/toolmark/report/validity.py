"""What is known of how well scores tell good runs from bad ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolmark._internal.json import json_text, replace_nonfinite
from toolmark._internal.text import number_text, plural
from toolmark.stats import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValidity:
    """How well one metric tells good runs from bad ones. All numbers are of the cases that have a label and a score.

    Attributes:
        metric: Name of the metric.
        threshold: The score from which on it passes a case.
        good: Good cases with a score.
        bad: Bad cases with a score.
        good_passed: Good cases that pass.
        bad_passed: Bad cases that pass.
        skipped: Cases with a label that the metric does not apply to.
        failed: Cases with a label that could not be measured.
        unscored: Why there was no score, and of how many cases; the most frequent first.
        warned: Scored cases whose result has warnings, such as of an incomplete recording.
        auc: The chance that a good run scores higher than a bad one, ties counting one half, in [0, 1]; `None` without
            both. See `toolmark.stats.auc`.
        interval: Of `auc`; `None` where it cannot be computed. See `toolmark.stats.bootstrap`.
        balanced_accuracy: At the threshold, in [0, 1]; `None` without good and bad runs.
        mean_good: Mean score of the good ones; `None` of none.
        mean_bad: Mean score of the bad ones; `None` of none.
    """

    metric: str
    threshold: float
    good: int
    bad: int
    good_passed: int
    bad_passed: int
    skipped: int
    failed: int
    unscored: tuple[tuple[str, int], ...]
    warned: int
    auc: float | None
    interval: Interval | None
    balanced_accuracy: float | None
    mean_good: float | None
    mean_bad: float | None

    @property
    def scored(self) -> int:
        """Cases that have a label and a score."""
        return self.good + self.bad

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values; a number that there is not is null."""
        names = ("metric", "threshold", "good", "bad", "good_passed", "bad_passed", "skipped", "failed", "warned")
        numbers = ("auc", "balanced_accuracy", "mean_good", "mean_bad")
        interval = self.interval
        fields = ("low", "high", "resamples", "left_out", "clusters")
        return {
            **{name: getattr(self, name) for name in names},
            "unscored": [{"reason": reason, "cases": cases} for reason, cases in self.unscored],
            **{name: getattr(self, name) for name in numbers},
            "interval": None if interval is None else {name: getattr(interval, name) for name in fields},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """How well metrics tell good runs from bad ones, by a label that says which are good.

    Attributes:
        label: Where the label stands, or the name of the function that gives it.
        positive_from: A case is good if its label is at least this (within 1e-9).
        cluster: Where it stands which cases belong together; `None` if each was taken as independent of the others.
        cases: All cases.
        good: Cases whose label is good.
        bad: Cases whose label is not.
        confidence: Of the intervals.
        resamples: How often was resampled for them.
        seed: Of the random numbers.
        metrics: One entry per metric, in the order given.
        notes: What was left out, and what makes the numbers less sure.
    """

    label: str
    positive_from: float
    cluster: str | None
    cases: int
    good: int
    bad: int
    confidence: float
    resamples: int
    seed: int
    metrics: tuple[MetricValidity, ...]
    notes: tuple[str, ...]

    @property
    def unlabelled(self) -> int:
        """Cases without a label; they were not measured."""
        return self.cases - self.good - self.bad

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values."""
        names = ("label", "positive_from", "cluster", "cases", "good", "bad", "unlabelled", "confidence")
        plain: dict[str, Any] = replace_nonfinite(
            {
                **{name: getattr(self, name) for name in (*names, "resamples", "seed")},
                "notes": list(self.notes),
                "metrics": [metric.to_dict() for metric in self.metrics],
            }
        )
        return plain

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict()` as JSON text."""
        return json_text(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        """Return one line per metric."""
        return "\n".join(map(_line, self.metrics))


def _line(metric: MetricValidity) -> str:
    area = "no AUC" if metric.auc is None else f"AUC {number_text(metric.auc)}"
    within = (
        ""
        if metric.interval is None
        else f" ({number_text(metric.interval.low)} to {number_text(metric.interval.high)})"
    )
    return (
        f"{metric.metric}: {area}{within} over {plural(metric.scored, 'case')}, {metric.good} good and "
        f"{metric.bad} bad; {metric.skipped} skipped, {metric.failed} failed"
    )
