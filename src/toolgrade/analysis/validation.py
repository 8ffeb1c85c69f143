"""Validation of metrics against a label that separates good runs from bad ones.

The label is independent of the metrics: a reward, a check of the final state, or a person's judgement. Scores are
compared with it on the cases that have both. A metric that predicts nothing has an area under the ROC curve near 0.5.

Example:
    >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, validate
    >>> refund = [ToolCall(name="refund")]
    >>> cases = [
    ...     LLMTestCase(tools_called=refund, expected_tools=refund, metadata={"reward": 1}),
    ...     LLMTestCase(tools_called=[], expected_tools=refund, metadata={"reward": 0}),
    ... ]
    >>> validate(cases, [ToolCorrectnessMetric()], label="metadata.reward", min_runs=2).metrics[0].auc
    1.0
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations, starmap
from typing import Any, NamedTuple

from toolgrade._internal.json import canonical_json, is_number, short_repr, to_json_value
from toolgrade._internal.options import require
from toolgrade._internal.text import join_first, plural
from toolgrade.agents import DEFAULT_CONCURRENCY
from toolgrade.analysis.field_paths import Place, name_of, path_of, values_at
from toolgrade.cases import AnyCase
from toolgrade.errors import InvalidDataError, Problem
from toolgrade.evaluation.run import evaluate, listed_cases
from toolgrade.metrics import MetricLike
from toolgrade.report import AUCDifference, MetricValidity, MisrankedCase, Report, Validity
from toolgrade.result import TOLERANCE, MetricResult, ResultStatus
from toolgrade.stats import Interval, auc, auc_within, auc_within_interval, balanced_accuracy
from toolgrade.stats.bootstrap import RESAMPLES, interval_of
from toolgrade.stats.number_checks import check_bootstrap, check_positive, mean_of
from toolgrade.stats.separation import differences_of, resampled_aucs

MIN_RUNS = 20
"""Default number of scored cases that a metric needs: on fewer, an AUC is mostly chance."""

_MAX_NAMES = 3


def validate(
    cases: Iterable[AnyCase],
    metrics: Sequence[MetricLike],
    *,
    label: Place,
    cluster: Place | None = None,
    positive_from: float = 1.0,
    min_runs: int = MIN_RUNS,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
    max_concurrency: int = DEFAULT_CONCURRENCY,
    show_progress: bool | None = None,
) -> Validity:
    """Measure how well the scores of metrics separate good runs from bad ones.

    Only cases with a label are measured. Cases without a label, and cases that a metric skips or cannot measure, are
    counted but never scored as 0. A metric that scores too few cases is dropped, with its counts in `dropped`.

    Metrics are compared pair by pair on the cases that both score, by the difference of their AUCs in the same
    resamples. `hardest_good` and `hardest_bad` are the cases that all metrics get wrong most: a case to look at first,
    since either the metrics overlook something or the label is wrong.

    Args:
        cases: The cases; at least one with a label.
        metrics: At least one metric.
        label: Path of the label, such as `"metadata.reward"`, or a function from a case to it: a number, true, false,
            or `None` for a case without a label.
        cluster: Path of the cluster, such as `"metadata.task_id"`, or a function; any JSON value. Runs of one task are
            not independent, and intervals that ignore this are too narrow. By default all cases are independent. A case
            without a value is a separate cluster, and `notes` counts these. With clusters, there is also an AUC over
            pairs within a cluster (`auc_within`), which a score cannot reach by knowing which tasks are easy.
        positive_from: A case is good if its label is at least this (within 1e-9); true is 1 and false 0. Finite.
        min_runs: Scored cases that a metric needs, at least 1.
        resamples: Number of bootstrap resamples for the intervals.
        seed: Seed of the random numbers; equal arguments give equal intervals.
        confidence: Level of the intervals, in (0, 1).
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
        >>> validity = validate(cases, [ToolCorrectnessMetric()], label="metadata.reward", min_runs=2, resamples=100)
        >>> validity.metrics[0].auc
        0.75
    """
    require(_is_finite(positive_from), "positive_from must be a finite number", positive_from)
    check_positive(min_runs, "min_runs")
    check_bootstrap(resamples, confidence)
    listed = listed_cases(cases)
    # Labels and clusters are read first, because a mistake in them must not cost a whole run of the metrics.
    runs, notes = _read_runs(listed, label, cluster, positive_from)
    labelled = [listed[run.case] for run in runs]
    report = evaluate(labelled, metrics, max_concurrency=max_concurrency, show_progress=show_progress)
    bootstrap: dict[str, Any] = {"resamples": resamples, "seed": seed, "confidence": confidence}
    columns = [_Column(place, report, runs, bootstrap) for place in range(len(report.metrics))]
    rows = [column for column in columns if len(column.scores) >= min_runs]
    amounts = Counter(run.good for run in runs)
    return Validity(
        label=path_of(label),
        positive_from=float(positive_from),
        cluster=None if cluster is None else path_of(cluster),
        cases=len(listed),
        good=amounts[True],
        bad=amounts[False],
        min_runs=min_runs,
        notes=tuple(notes),
        metrics=tuple(_validity(column, is_clustered=cluster is not None) for column in rows),
        dropped=tuple(_counts(column) for column in columns if column not in rows),
        differences=tuple(starmap(_difference, combinations(rows, 2))),
        hardest_good=_hardest(rows, runs, good=True),
        hardest_bad=_hardest(rows, runs, good=False),
        **bootstrap,
    )


class _Run(NamedTuple):
    """A labelled case: its position among all cases, its name, its label, and the key of its cluster."""

    case: int
    name: str
    good: bool
    cluster: str


def _read_runs(
    cases: Sequence[AnyCase], label: Place, cluster: Place | None, positive_from: float
) -> tuple[list[_Run], list[str]]:
    """Return the labelled cases, and notes on their labels and clusters."""
    values = _read_labels(cases, label)
    good = [value >= positive_from - TOLERANCE for value in values.values()]
    keys, alone = _cluster_keys(cases, list(values), cluster)
    unlabelled = [name_of(cases, place) for place in range(len(cases)) if place not in values]
    notes = [
        *_missing_note(unlabelled, len(cases), label, "was not measured", "were not measured"),
        *_missing_note(alone, len(values), cluster, "is a separate cluster", "each is a separate cluster"),
        *_one_sided_note(good, values.values(), positive_from),
    ]
    names = [name_of(cases, place) for place in values]
    return list(map(_Run, values, names, good, keys)), notes


class _Column:
    """The results of one metric on all labelled cases, and the scores that it has, by the position of the case."""

    def __init__(self, place: int, report: Report, runs: Sequence[_Run], bootstrap: Mapping[str, Any]) -> None:
        self.metric = report.metrics[place]
        self.results = [case.results[place] for case in report.cases]
        self.scores = {place: result.score for place, result in enumerate(self.results) if result.score is not None}
        self.runs = runs
        self.bootstrap = bootstrap
        self._resampled: dict[tuple[int, ...], list[float | None]] = {}

    def data(self, places: Collection[int]) -> tuple[list[float], list[bool], list[str]]:
        """Return the scores, labels and clusters of the cases at some positions."""
        runs = [self.runs[place] for place in places]
        return [self.scores[place] for place in places], [run.good for run in runs], [run.cluster for run in runs]

    def resampled_aucs(self, places: Iterable[int]) -> list[float | None]:
        """Return the AUC of each resample of the cases at some positions.

        They are stored, because all pairs of metrics that score the same cases need the same ones.
        """
        key = tuple(places)
        if key not in self._resampled:
            resamples, seed = self.bootstrap["resamples"], self.bootstrap["seed"]
            self._resampled[key] = resampled_aucs(*self.data(key), resamples=resamples, seed=seed)
        return self._resampled[key]

    def interval(self, values: Sequence[float | None], clusters: Iterable[str]) -> Interval | None:
        """Return the interval of the values of resamples."""
        return interval_of(values, len({*clusters}), self.bootstrap["confidence"])

    def misranked(self, place: int) -> float:
        """Return the share of cases of the other kind on the wrong side of a case, ties counting one half."""
        good = self.runs[place].good
        others = self.ranked[not good]
        if not others:
            return 0.0
        below, up_to = bisect_left(others, self.scores[place]), bisect_right(others, self.scores[place])
        wrong = 2 * len(others) - below - up_to if good else below + up_to
        return wrong / (2 * len(others))

    @cached_property
    def ranked(self) -> dict[bool, list[float]]:
        """The sorted scores of good and of bad cases."""
        ranked: dict[bool, list[float]] = {True: [], False: []}
        for place, score in self.scores.items():
            ranked[self.runs[place].good].append(score)
        return {good: sorted(scores) for good, scores in ranked.items()}


def _validity(column: _Column, *, is_clustered: bool) -> MetricValidity:
    """Return the validity of one metric."""
    scores, good, clusters = column.data(column.scores)
    validity = replace(
        _counts(column),
        auc=auc(scores, good),
        interval=column.interval(column.resampled_aucs(column.scores), clusters),
        balanced_accuracy=balanced_accuracy([bool(column.results[place].passed) for place in column.scores], good),
        mean_good=mean_of(column.ranked[True]),
        mean_bad=mean_of(column.ranked[False]),
    )
    if not is_clustered:
        return validity
    interval = auc_within_interval(scores, good, clusters, **column.bootstrap)
    return replace(validity, auc_within=auc_within(scores, good, clusters), interval_within=interval)


def _counts(column: _Column) -> MetricValidity:
    """Return the counts of one metric, without any measure of its scores."""
    verdicts = Counter((column.runs[place].good, bool(column.results[place].passed)) for place in column.scores)
    statuses = Counter(result.status for result in column.results)
    unscored = Counter(_first_line(result) for result in column.results if result.score is None)
    return MetricValidity(
        metric=column.metric,
        threshold=column.results[0].threshold,
        good=verdicts[True, True] + verdicts[True, False],
        bad=verdicts[False, True] + verdicts[False, False],
        good_passed=verdicts[True, True],
        bad_passed=verdicts[False, True],
        skipped=statuses[ResultStatus.SKIPPED],
        failed=statuses[ResultStatus.FAILED],
        unscored=tuple(unscored.most_common()),
        warned=sum(bool(column.results[place].warnings) for place in column.scores),
    )


def _difference(one: _Column, other: _Column) -> AUCDifference:
    """Return the difference of two metrics on the cases that both score."""
    both = [place for place in one.scores if place in other.scores]
    scores, good, clusters = one.data(both)
    (difference,) = differences_of([auc(scores, good)], [auc(other.data(both)[0], good)])
    return AUCDifference(
        metric=one.metric,
        other=other.metric,
        cases=len(both),
        difference=difference,
        interval=one.interval(differences_of(one.resampled_aucs(both), other.resampled_aucs(both)), clusters),
    )


def _hardest(columns: Sequence[_Column], runs: Sequence[_Run], *, good: bool) -> MisrankedCase | None:
    """Return the good or the bad case that all metrics misrank most; `None` if each is ranked right by a metric.

    It is the one whose least share over the metrics is highest, then the one with the highest mean, then the first.
    """
    hardest: MisrankedCase | None = None
    highest = (0.0, math.inf)  # below the rank of every case that each metric misranks
    for place in sorted(set(range(len(runs))).intersection(*(column.scores for column in columns))):
        shares = [column.misranked(place) for column in columns]
        rank = min(shares, default=0.0), math.fsum(shares)
        if runs[place].good is good and rank > highest:
            highest = rank
            scores = tuple(column.scores[place] for column in columns)
            hardest = MisrankedCase(index=runs[place].case, case=runs[place].name, scores=scores, misranked=rank[0])
    return hardest


def _first_line(result: MetricResult) -> str:
    """Return the reason for a missing score; later lines are details of the case."""
    return (result.reason or result.error or result.status.value).split("\n", 1)[0]


def _read_labels(cases: Sequence[AnyCase], label: Place) -> dict[int, float]:
    """Return the label of each case that has one, by the position of the case."""
    values = {place: value for place, value in enumerate(values_at(cases, label, "label")) if value is not None}
    problems: list[Problem] = []
    for place, value in values.items():
        if not _is_label(value):
            problem = f"expected a number, true or false, got {short_repr(value)}"
            problems.append(Problem(f"{name_of(cases, place)}: {path_of(label)}", problem))
    if problems:
        hint = "a function as label can turn anything into a number"
        raise InvalidDataError("\n".join([*map(str, problems), hint]), problems)
    return values


def _is_finite(value: object) -> bool:
    """Return whether a value is a number that a float can hold."""
    return is_number(value) and abs(value) <= sys.float_info.max


def _is_label(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and not math.isnan(value))


def _cluster_keys(
    cases: Sequence[AnyCase], places: Sequence[int], cluster: Place | None
) -> tuple[list[str], list[str]]:
    """Return the key of the cluster of each case at `places`, and the names of those without a cluster."""
    if cluster is None:
        return [_cluster_key(place, None) for place in places], []
    values = values_at([cases[place] for place in places], cluster, "cluster")
    alone = [name_of(cases, place) for place, value in zip(places, values, strict=True) if value is None]
    return list(map(_cluster_key, places, values)), alone


def _cluster_key(place: int, value: object) -> str:
    """Return the key of the cluster of a case: 1 and 1.0 have the same, 1 and "1" do not.

    A case without a value is a separate cluster; the prefix separates its key from those of values.
    """
    if value is None:
        return f"case {place}"
    plain = to_json_value(value)
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    return f"value {canonical_json(plain)}"


def _one_sided_note(good: Sequence[bool], labels: Collection[float], positive_from: float) -> list[str]:
    """Return the note that all cases are good, or that all are bad, with the range of their labels."""
    if len(set(good)) != 1:
        return []
    side, kind = ("every label is", "bad") if good[0] else ("no label is", "good")
    lowest, highest = (short_repr(end) for end in (min(labels), max(labels)))
    return [f"{side} {positive_from:g} or more, so no case is {kind}; lowest label {lowest}, highest {highest}"]


def _missing_note(names: Sequence[str], total: int, path: Place | None, one: str, several: str) -> list[str]:
    """Return the note `2 of 100 cases (a, b) have no reward, and were not measured`; empty without names."""
    if not names or path is None:
        return []
    have, end = ("has", one) if len(names) == 1 else ("have", several)
    listed = join_first(names, _MAX_NAMES)
    return [f"{len(names)} of {plural(total, 'case')} ({listed}) {have} no {path_of(path)}, and {end}"]
