"""Measures of how well scores separate good runs from bad ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolgrade._internal.json import json_text, replace_nonfinite, to_json_value
from toolgrade._internal.text import difference_text, number_text, plural, printable
from toolgrade.report.comparison import within_text
from toolgrade.stats import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValidity:
    """How well one metric separates good runs from bad ones. All numbers are over cases with a label and a score.

    Attributes:
        metric: Name of the metric.
        threshold: The lowest score that passes.
        good: Good cases with a score.
        bad: Bad cases with a score.
        good_passed: Good cases that pass.
        bad_passed: Bad cases that pass.
        skipped: Cases with a label that the metric does not apply to.
        failed: Cases with a label that could not be measured.
        unscored: Reasons for a missing score, each with its number of cases, the most frequent first.
        warned: Scored cases whose result has warnings, such as of an incomplete recording.
        auc: The chance that a good run scores higher than a bad one, ties counting one half, in [0, 1]; `None` without
            both. See `toolgrade.stats.auc`.
        interval: Interval of `auc`; `None` if it cannot be computed. See `toolgrade.stats.bootstrap`.
        auc_within: The same over pairs of runs of one cluster only; `None` without clusters, or if no cluster has both.
            See `toolgrade.stats.auc_within`.
        interval_within: Interval of `auc_within`; `None` if it cannot be computed.
        balanced_accuracy: At the threshold, in [0, 1]; `None` without good and bad runs.
        mean_good: Mean score of the good ones; `None` without any.
        mean_bad: Mean score of the bad ones; `None` without any.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, validate
        >>> weather = ToolCall(name="get_weather")
        >>> cases = [
        ...     LLMTestCase(tools_called=calls, expected_tools=[weather], metadata={"reward": reward})
        ...     for calls, reward in [([weather], 1), ([weather], 1), ([], 0), ([weather], 0)]
        ... ]
        >>> validity = validate(cases, [ToolCorrectnessMetric()], label="metadata.reward", min_runs=2, resamples=100)
        >>> row = validity.metrics[0]
        >>> print(row.auc, row.balanced_accuracy, row.good_passed, row.bad_passed)
        0.75 0.75 2 1
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
    auc: float | None = None
    interval: Interval | None = None
    auc_within: float | None = None
    interval_within: Interval | None = None
    balanced_accuracy: float | None = None
    mean_good: float | None = None
    mean_bad: float | None = None

    @property
    def scored(self) -> int:
        """Cases that have a label and a score."""
        return self.good + self.bad

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values; a number that is not known is null."""
        unscored = [{"reason": reason, "cases": cases} for reason, cases in self.unscored]
        return {**to_json_value(self), "unscored": unscored}

    def __str__(self) -> str:
        """Return the AUC, its interval and the counts on one line."""
        area = "no AUC" if self.auc is None else f"AUC {number_text(self.auc)}"
        within = within_text(self.interval, number_text)
        return (
            f"{self.metric}: {area}{within} over {plural(self.scored, 'case')}, {self.good} good and "
            f"{self.bad} bad; {self.skipped} skipped, {self.failed} failed"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AUCDifference:
    """The AUCs of two metrics on the cases that both score.

    Attributes:
        metric: Name of the first metric.
        other: Name of the second metric.
        cases: Cases with a label that both score.
        difference: AUC of the first minus AUC of the second on these cases, in [-1, 1]; `None` if one of the kinds is
            missing.
        interval: Paired interval of the difference; `None` if it cannot be computed. See
            `toolgrade.stats.auc_difference_interval`.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, validate
        >>> paris = ToolCall(name="get_weather", input_parameters={"city": "Paris"})
        >>> rome = ToolCall(name="get_weather", input_parameters={"city": "Rome"})
        >>> good = LLMTestCase(tools_called=[paris], expected_tools=[paris], metadata={"ok": True})
        >>> bad = LLMTestCase(tools_called=[rome], expected_tools=[paris], metadata={"ok": False})
        >>> metrics = [ToolCorrectnessMetric(evaluation_params=["input_parameters"]), ToolCorrectnessMetric()]
        >>> difference = validate([good, bad], metrics, label="metadata.ok", min_runs=2, resamples=100).differences[0]
        >>> print(difference)
        tool_correctness(input_parameters) minus tool_correctness: +0.5 (+0.5 to +0.5) over 2 cases
    """

    metric: str
    other: str
    cases: int
    difference: float | None
    interval: Interval | None

    def __str__(self) -> str:
        """Return the difference and its interval on one line."""
        if self.difference is None:
            return f"{self.metric} minus {self.other}: no difference of AUC"
        within = within_text(self.interval, difference_text)
        text = f"{self.metric} minus {self.other}: {difference_text(self.difference)}{within}"
        return f"{text} over {plural(self.cases, 'case')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MisrankedCase:
    """A case on which all metrics are wrong: a good run that they rank too low, or a bad run that they rank too high.

    A metric misranks a good run by the share of bad runs that score higher, and a bad run by the share of good runs
    that score lower, ties counting one half.

    Attributes:
        index: Position of the case, from 0.
        case: Name of the case in reports.
        scores: Score of each metric that has a row, in their order.
        misranked: The share for the metric that is least wrong, in (0, 1]; above 0.5 it is worse than chance.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, validate
        >>> weather = ToolCall(name="get_weather")
        >>> cases = [
        ...     LLMTestCase(id=id, tools_called=calls, expected_tools=[weather], metadata={"ok": ok})
        ...     for id, calls, ok in [("paris", [weather], True), ("rome", [], True), ("oslo", [weather], False)]
        ... ]
        >>> validity = validate(cases, [ToolCorrectnessMetric()], label="metadata.ok", min_runs=2, resamples=100)
        >>> hardest = validity.hardest_good
        >>> print(hardest.case, hardest.scores, hardest.misranked)
        rome (0.0,) 1.0
    """

    index: int
    case: str
    scores: tuple[float, ...]
    misranked: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """How well metrics separate good runs from bad ones, by a label that marks the good ones.

    Attributes:
        label: Field of the label, or the name of the function that returns it.
        positive_from: A case is good if its label is at least this (within 1e-9).
        cluster: Field that says which cases belong together; `None` if all are independent of each other.
        cases: All cases.
        good: Cases whose label is good.
        bad: Cases whose label is not.
        confidence: Confidence level of the intervals.
        resamples: Number of resamples.
        seed: Seed of the random numbers.
        min_runs: Scored cases that a metric needs for a row.
        metrics: One entry per metric with enough scored cases, in their order.
        dropped: The other metrics; their counts only, no AUC.
        differences: One entry per pair of `metrics`, in their order.
        hardest_good: The good run that all `metrics` rank too low, with the highest `misranked`; `None` if each good
            run is ranked above all bad ones by one of them.
        hardest_bad: The bad run that all `metrics` rank too high, likewise.
        notes: Cases that were left out, and other caveats.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, validate
        >>> weather = ToolCall(name="get_weather")
        >>> cases = [
        ...     LLMTestCase(tools_called=calls, expected_tools=[weather], metadata={"reward": reward})
        ...     for calls, reward in [([weather], 1), ([weather], 1), ([], 0), ([weather], 0)]
        ... ]
        >>> validity = validate(cases, [ToolCorrectnessMetric()], label="metadata.reward", min_runs=2, resamples=100)
        >>> print(validity.good, validity.bad, [metric.auc for metric in validity.metrics])
        2 2 [0.75]
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
    min_runs: int
    metrics: tuple[MetricValidity, ...]
    dropped: tuple[MetricValidity, ...]
    differences: tuple[AUCDifference, ...]
    hardest_good: MisrankedCase | None
    hardest_bad: MisrankedCase | None
    notes: tuple[str, ...]

    @property
    def unlabelled(self) -> int:
        """Cases without a label; they were not measured."""
        return self.cases - self.good - self.bad

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values."""
        plain = {**to_json_value(self), "unlabelled": self.unlabelled}
        for name in ("metrics", "dropped"):
            plain[name] = [metric.to_dict() for metric in getattr(self, name)]
        return dict(replace_nonfinite(plain))

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict()` as JSON text."""
        return json_text(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        """Return one line per metric, and one per pair of metrics."""
        dropped = []
        for metric in self.dropped:
            text = f"{metric.metric}: {self.dropped_text(metric)}"
            if metric.unscored:
                reason, cases = metric.unscored[0]
                text += f"; {plural(cases, 'case')} without a score: {printable(reason)}"
            dropped.append(text)
        return "\n".join([*map(str, self.metrics), *dropped, *map(str, self.differences)])

    def dropped_text(self, metric: MetricValidity) -> str:
        """Return why a metric has no row."""
        return f"dropped: {plural(metric.scored, 'case')} with a label and a score, at least {self.min_runs} are needed"
