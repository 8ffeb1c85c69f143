"""Validation of metrics against a label that separates good runs from bad ones.

The label is independent of the metrics: a reward, a check of the final state, or a person's judgement. A metric that
predicts nothing has an area under the ROC curve near 0.5.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from toolgrade._internal.json import is_number, short_repr, to_json_value
from toolgrade._internal.options import require
from toolgrade._internal.text import hundredths_text, plural, printable, shorten
from toolgrade.agents import DEFAULT_CONCURRENCY
from toolgrade.cases import AnyCase
from toolgrade.errors import InvalidDataError, Problem
from toolgrade.evaluation.execute import listed_cases
from toolgrade.evaluation.run import evaluate
from toolgrade.matching.json_compare import frozen
from toolgrade.metrics import MetricLike
from toolgrade.report.field_paths import Place, name_of, path_of, values_at
from toolgrade.result import TOLERANCE, MetricResult
from toolgrade.stats import RESAMPLES, Interval, auc, auc_interval, check_positive

_COLUMNS = ("metric", "scored", "AUC", "95 % interval", "best threshold", "good among passes")
_LONGEST_REASON = 200
_CHANCE = 0.5
"""The AUC of a score that says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValidity:
    """How well one metric separates good runs from bad ones, over the runs that have a label and a score.

    Attributes:
        metric: Name of the metric.
        threshold: The lowest score that passes.
        good: Good runs with a score.
        bad: Bad runs with a score.
        passed: Runs that pass.
        good_passed: Good runs among these.
        auc: The chance that a good run scores higher than a bad one, ties counting one half; `None` without both.
        interval: 95 % interval of `auc`; `None` if it cannot be computed.
        best_threshold: The threshold at which the mean of the share of good runs that pass and of bad runs that fail
            is highest, of equals the lowest; `None` without both. It fits these runs: check it on others.
        best_passed: Runs that pass at it.
        best_good_passed: Good runs among these.
        unscored: Runs with a label that have no score.
        reason: The most frequent reason for that.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, validate
        >>> weather = ToolCall(name="get_weather")
        >>> cases = [
        ...     LLMTestCase(tools_called=calls, expected_tools=[weather], metadata={"reward": reward})
        ...     for calls, reward in [([weather], 1), ([weather], 1), ([], 0), ([weather], 0)]
        ... ]
        >>> row = validate(cases, [ToolCorrectnessMetric()], label="metadata.reward", resamples=100).metrics[0]
        >>> print(row.auc, row.best_threshold, row.good_passed, row.passed)
        0.75 1.0 2 3
    """

    metric: str
    threshold: float
    good: int
    bad: int
    passed: int
    good_passed: int
    auc: float | None
    interval: Interval | None
    best_threshold: float | None
    best_passed: int | None
    best_good_passed: int | None
    unscored: int
    reason: str | None

    @property
    def proposal(self) -> str:
        """The threshold to set, and how many runs that pass are good with it, as a sentence; empty without both."""
        if self.best_threshold is None or self.best_passed is None:
            return ""
        if self.interval is None or self.interval.low <= _CHANCE:
            return "no threshold is proposed, since these runs do not show that it tells good from bad"
        share = f"{self.best_good_passed} of {self.best_passed} passes are good"
        missed = f"{self.good - (self.best_good_passed or 0)} of {self.good} good runs fail"
        if (self.best_passed, self.best_good_passed) == (self.passed, self.good_passed):
            return f"its threshold {self.threshold:g} suits these runs: {share}, {missed}"
        return f"set threshold={_threshold_text(self.best_threshold)}: {share}, {missed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """How well metrics separate good runs from bad ones. As text it is a table with one row per metric.

    Attributes:
        label: Field of the label, or the name of the function that returns it.
        cases: All cases; those without a label are neither good nor bad, and were not measured.
        good: Cases whose label is good.
        bad: Cases whose label is not.
        metrics: One entry per metric, in their order.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, validate
        >>> call = ToolCall(name="get_weather")
        >>> cases = [
        ...     LLMTestCase(tools_called=calls, expected_tools=[call], metadata={"solved": solved})
        ...     for calls, solved in [([call], True), ([call], True), ([], False), ([call], False)]
        ... ]
        >>> print(validate(cases, [ToolCorrectnessMetric()], label="metadata.solved"))
        4 cases by metadata.solved: 2 good, 2 bad
        metric            scored   AUC  95 % interval  best threshold  good among passes
        tool_correctness       4  0.75   0.50 to 1.00               1      2 of 3 at 0.5
        tool_correctness: no threshold is proposed, since these runs do not show that it tells good from bad
    """

    label: str
    cases: int
    good: int
    bad: int
    metrics: tuple[MetricValidity, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return this as JSON values; a number that is not known is null."""
        return dict(to_json_value(self))

    def __str__(self) -> str:
        """Return the table, and below it which threshold to set and why runs have no score."""
        unlabelled = self.cases - self.good - self.bad
        title = f"{plural(self.cases, 'case')} by {printable(self.label)}: {self.good} good, {self.bad} bad"
        rows = [_COLUMNS, *map(_cells, self.metrics)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [title + (f", {unlabelled} without a label" if unlabelled else "")]
        for first, *others in rows:
            numbers = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *numbers]))
        lines += [f"{printable(row.metric)}: {row.proposal}" for row in self.metrics if row.proposal]
        for row in self.metrics:
            if row.reason is not None:
                runs = plural(row.unscored, "case")
                reason = shorten(printable(row.reason), _LONGEST_REASON)
                lines.append(f"{printable(row.metric)}: {runs} without a score, such as: {reason}")
        return "\n".join(lines)


def _cells(row: MetricValidity) -> tuple[str, ...]:
    interval = row.interval
    return (
        printable(row.metric),
        str(row.good + row.bad),
        "-" if row.auc is None else hundredths_text(row.auc),
        "-" if interval is None else f"{hundredths_text(interval.low)} to {hundredths_text(interval.high)}",
        "-" if row.best_threshold is None else _threshold_text(row.best_threshold),
        f"{row.good_passed} of {row.passed} at {row.threshold:g}",
    )


def _threshold_text(threshold: float) -> str:
    return f"{math.floor(threshold * 10_000) / 10_000:g}"


def validate(
    cases: Iterable[AnyCase],
    metrics: Sequence[MetricLike],
    *,
    label: Place,
    cluster: Place | None = None,
    positive_from: float = 1.0,
    resamples: int = RESAMPLES,
    seed: int = 0,
    max_concurrency: int = DEFAULT_CONCURRENCY,
    show_progress: bool | None = None,
) -> Validity:
    """Measure how well the scores of metrics separate good runs from bad ones.

    Only cases with a label are measured. Cases without a label, and cases that a metric skips or cannot measure, are
    counted but never scored as 0.

    Args:
        cases: The cases; at least one with a label.
        metrics: At least one metric.
        label: Path of the label, such as `"metadata.reward"`, or a function from a case to it: a number, true, false,
            or `None` for a case without a label.
        cluster: Path of the cluster, such as `"metadata.task_id"`, or a function; any JSON value. Runs of one task are
            not independent, and intervals that ignore this are too narrow. By default all cases are independent, and
            so are cases without a value.
        positive_from: A case is good if its label is at least this (within 1e-9); true is 1 and false 0. Finite.
        resamples: Number of bootstrap resamples for the intervals.
        seed: Seed of the random numbers; equal arguments give equal intervals.
        max_concurrency: See `evaluate`.
        show_progress: See `evaluate`.

    Raises:
        ConfigurationError: There is no case or no metric, an option is out of range, or no case has the label or the
            cluster; the message suggests the nearest path.
        InvalidDataError: A label is not a number, true or false; `problems` lists all of them.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, validate
        >>> weather = ToolCall(name="get_weather")
        >>> cases = [
        ...     LLMTestCase(tools_called=calls, expected_tools=[weather], metadata={"reward": reward})
        ...     for calls, reward in [([weather], 1), ([weather], 1), ([], 0), ([weather], 0)]
        ... ]
        >>> validate(cases, [ToolCorrectnessMetric()], label="metadata.reward", resamples=100).metrics[0].auc
        0.75
    """
    is_finite = is_number(positive_from) and abs(positive_from) <= sys.float_info.max
    require(is_finite, "positive_from must be a finite number", positive_from)
    check_positive(resamples, "resamples")
    listed = listed_cases(cases)
    # Labels and clusters are read first, because a mistake in them must not cost a whole run of the metrics.
    good = {at: value >= positive_from - TOLERANCE for at, value in _read_labels(listed, label).items()}
    labelled = [listed[at] for at in good]
    clusters: list[Hashable] = list(range(len(labelled)))
    if cluster is not None:
        for at, value in enumerate(values_at(labelled, cluster, "cluster")):
            clusters[at] = at if value is None else ("value", frozen(to_json_value(value)))
    report = evaluate(labelled, metrics, max_concurrency=max_concurrency, show_progress=show_progress)
    rows: list[MetricValidity] = []
    for place, name in enumerate(report.metrics):
        results = [case.results[place] for case in report.cases]
        rows.append(_validity(name, results, list(good.values()), clusters, resamples=resamples, seed=seed))
    amount = sum(good.values())
    return Validity(label=path_of(label), cases=len(listed), good=amount, bad=len(good) - amount, metrics=tuple(rows))


def _validity(
    name: str,
    results: Sequence[MetricResult],
    labels: Sequence[bool],
    clusters: Sequence[Hashable],
    *,
    resamples: int,
    seed: int,
) -> MetricValidity:
    """Return the validity of one metric from its results on all labelled cases."""
    scored = [at for at, result in enumerate(results) if result.score is not None]
    scores = [score for result in results if (score := result.score) is not None]
    good, keys = [labels[at] for at in scored], [clusters[at] for at in scored]
    passes = [labels[at] for at in scored if results[at].passed]
    reasons = Counter(_first_line(result) for result in results if result.score is None)
    best, best_passed, best_good_passed = _best_threshold(scores, good)
    return MetricValidity(
        metric=name,
        threshold=results[0].threshold,
        good=sum(good),
        bad=len(good) - sum(good),
        passed=len(passes),
        good_passed=sum(passes),
        auc=auc(scores, good),
        interval=auc_interval(scores, good, keys, resamples=resamples, seed=seed),
        best_threshold=best,
        best_passed=best_passed,
        best_good_passed=best_good_passed,
        unscored=len(results) - len(scored),
        reason=reasons.most_common(1)[0][0] if reasons else None,
    )


def _best_threshold(scores: Sequence[float], good: Sequence[bool]) -> tuple[float, int, int] | tuple[None, None, None]:
    """Return the best threshold, the number of runs that pass at it, and the number of good runs among these.

    The best threshold has the highest share of good runs that pass minus the share of bad runs that pass; of several,
    it is the lowest.
    """
    good_runs = sum(good)
    bad_runs = len(good) - good_runs
    if not good_runs or not bad_runs:
        return None, None, None
    # What a score adds to that difference of shares, times `good_runs * bad_runs`, so that it is an integer.
    gains: dict[float, int] = defaultdict(int)
    for score, is_good in zip(scores, good, strict=True):
        gains[score] += bad_runs if is_good else -good_runs
    best, highest, difference = max(gains), -math.inf, 0
    for score in sorted(gains, reverse=True):
        difference += gains[score]
        if difference >= highest:
            best, highest = score, difference
    passes = [one for score, one in zip(scores, good, strict=True) if score >= best]
    return best, len(passes), sum(passes)


def _first_line(result: MetricResult) -> str:
    """Return the reason for a missing score; later lines are details of the case."""
    return (result.reason or result.error or result.status.value).split("\n", 1)[0]


def _read_labels(cases: Sequence[AnyCase], label: Place) -> dict[int, float]:
    """Return the label of each case that has one, by the position of the case."""
    values = {at: value for at, value in enumerate(values_at(cases, label, "label")) if value is not None}
    problems = [
        Problem(f"{name_of(cases, at)}: {path_of(label)}", f"expected a number, true or false, got {short_repr(value)}")
        for at, value in values.items()
        if not isinstance(value, (int, float)) or value != value  # noqa: PLR0124 - NaN
    ]
    if problems:
        hint = "a function as label can turn anything into a number"
        raise InvalidDataError("\n".join([*map(str, problems), hint]), problems)
    return values
