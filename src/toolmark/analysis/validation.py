"""Validation of metrics against a label that separates good runs from bad ones.

The label is independent of the metrics: a reward, a check of the final state, or a person's judgement. Scores are
compared with it on the cases that have both. A metric that predicts nothing has an area under the ROC curve near 0.5.

Example:
    >>> from toolmark import LLMTestCase, ToolCall, ToolCorrectnessMetric, validate
    >>> refund = [ToolCall(name="refund")]
    >>> cases = [
    ...     LLMTestCase(tools_called=refund, expected_tools=refund, metadata={"reward": 1}),
    ...     LLMTestCase(tools_called=[], expected_tools=refund, metadata={"reward": 0}),
    ... ]
    >>> validate(cases, [ToolCorrectnessMetric()], label="metadata.reward").metrics[0].auc
    1.0
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from operator import not_
from typing import Any, NamedTuple

from toolmark._internal.json import canonical_json, is_number, short_repr, to_json_value
from toolmark._internal.options import require
from toolmark._internal.text import join_first, plural
from toolmark.agents import DEFAULT_CONCURRENCY
from toolmark.analysis.field_paths import Place, name_of, path_of, values_at
from toolmark.analysis.scores import count_warned, scores_of
from toolmark.cases import AnyCase
from toolmark.errors import InvalidDataError, Problem
from toolmark.evaluation.run import evaluate, listed_cases
from toolmark.metrics import MetricLike
from toolmark.report import MetricValidity, Validity
from toolmark.result import TOLERANCE, MetricResult, ResultStatus
from toolmark.stats import auc, auc_interval, balanced_accuracy
from toolmark.stats.bootstrap import RESAMPLES
from toolmark.stats.number_checks import check_bootstrap, mean_of

_MAX_NAMES = 3


def validate(
    cases: Iterable[AnyCase],
    metrics: Sequence[MetricLike],
    *,
    label: Place,
    cluster: Place | None = None,
    positive_from: float = 1.0,
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
    max_concurrency: int = DEFAULT_CONCURRENCY,
    show_progress: bool | None = None,
) -> Validity:
    """Measure how well the scores of metrics separate good runs from bad ones.

    Only cases with a label are measured. Cases without a label, and cases that a metric skips or cannot measure, are
    counted but never scored as 0. Metrics that score different cases are not comparable with each other.

    Args:
        cases: The cases; at least one with a label.
        metrics: At least one metric.
        label: Path of the label, such as `"metadata.reward"`, or a function from a case to it: a number, true, false,
            or `None` for a case without a label.
        cluster: Path of the cluster, such as `"metadata.task_id"`, or a function; any JSON value. Runs of one task are
            not independent, and intervals that ignore this are too narrow. By default all cases are independent. A case
            without a value is a separate cluster, and `notes` counts these.
        positive_from: A case is good if its label is at least this (within 1e-9); true is 1 and false 0.
        resamples: Number of bootstrap resamples for the intervals.
        seed: Seed of the random numbers; equal arguments give equal intervals.
        confidence: Level of the intervals, in (0, 1).
        max_concurrency: See `evaluate`.
        show_progress: See `evaluate`.

    Raises:
        ConfigurationError: There is no case or no metric, an option is out of range, or no case has the label or the
            cluster; the message suggests the nearest path.
        InvalidDataError: A label is not a number, true or false; `problems` lists all of them.
    """
    require(is_number(positive_from) and not math.isnan(positive_from), "positive_from must be a number", positive_from)
    check_bootstrap(resamples, confidence)
    listed = listed_cases(cases)
    # Labels and clusters are read first, because a mistake in them must not cost a whole run of the metrics.
    labels = _read_labels(listed, label, positive_from)
    good, labelled = list(labels.values()), [listed[place] for place in labels]
    keys, alone = _cluster_keys(listed, list(labels), cluster)
    unlabelled = [name_of(listed, place) for place in range(len(listed)) if place not in labels]
    notes = [
        *_missing_note(unlabelled, len(listed), label, "was not measured", "were not measured"),
        *_missing_note(alone, len(labelled), cluster, "is a separate cluster", "each is a separate cluster"),
    ]
    report = evaluate(labelled, metrics, max_concurrency=max_concurrency, show_progress=show_progress)
    bootstrap: dict[str, Any] = {"resamples": resamples, "seed": seed, "confidence": confidence}
    results = zip(*(case.results for case in report.cases), strict=True)
    return Validity(
        label=path_of(label),
        positive_from=float(positive_from),
        cluster=None if cluster is None else path_of(cluster),
        cases=len(listed),
        good=sum(good),
        bad=len(good) - sum(good),
        metrics=tuple(_validity(of_metric, good, keys, bootstrap) for of_metric in results),
        notes=tuple(notes),
        **bootstrap,
    )


def _validity(
    results: Sequence[MetricResult], good: Sequence[bool], keys: Sequence[str], options: Mapping[str, Any]
) -> MetricValidity:
    """Return the validity of one metric, from the result, the label and the cluster of each labelled case."""
    scored = _scored_results(results, good, keys)
    scores = scores_of(scored.results)
    good_scores, bad_scores = list(compress(scores, scored.good)), list(compress(scores, map(not_, scored.good)))
    passed = [bool(result.passed) for result in scored.results]
    verdicts = Counter(zip(scored.good, passed, strict=True))
    statuses = Counter(result.status for result in results)
    unscored = Counter(_first_line(result) for result in results if result.score is None)
    return MetricValidity(
        metric=results[0].metric,
        threshold=results[0].threshold,
        good=len(good_scores),
        bad=len(bad_scores),
        good_passed=verdicts[True, True],
        bad_passed=verdicts[False, True],
        skipped=statuses[ResultStatus.SKIPPED],
        failed=statuses[ResultStatus.FAILED],
        unscored=tuple(unscored.most_common()),
        warned=count_warned(scored.results),
        auc=auc(scores, scored.good),
        interval=auc_interval(scores, scored.good, scored.clusters, **options),
        balanced_accuracy=balanced_accuracy(passed, scored.good),
        mean_good=mean_of(good_scores),
        mean_bad=mean_of(bad_scores),
    )


class _ScoredResults(NamedTuple):
    """The results of one metric that have a score, with the label and the cluster of each of their cases."""

    results: list[MetricResult]
    good: list[bool]
    clusters: list[str]


def _scored_results(results: Sequence[MetricResult], good: Sequence[bool], keys: Sequence[str]) -> _ScoredResults:
    has_score = [result.score is not None for result in results]
    return _ScoredResults(
        list(compress(results, has_score)), list(compress(good, has_score)), list(compress(keys, has_score))
    )


def _first_line(result: MetricResult) -> str:
    """Return the reason for a missing score; later lines are details of the case."""
    return (result.reason or result.error or result.status.value).split("\n", 1)[0]


def _read_labels(cases: Sequence[AnyCase], label: Place, positive_from: float) -> dict[int, bool]:
    """Return whether each case that has a label is good, by the position of the case."""
    values = {place: value for place, value in enumerate(values_at(cases, label, "label")) if value is not None}
    problems: list[Problem] = []
    for place, value in values.items():
        if not _is_label(value):
            problem = f"expected a number, true or false, got {short_repr(value)}"
            problems.append(Problem(f"{name_of(cases, place)}: {path_of(label)}", problem))
    if problems:
        hint = "a function as label can turn anything into a number"
        raise InvalidDataError("\n".join([*map(str, problems), hint]), problems)
    return {place: value >= positive_from - TOLERANCE for place, value in values.items()}


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


def _missing_note(names: Sequence[str], total: int, path: Place | None, one: str, several: str) -> list[str]:
    """Return the note `2 of 100 cases (a, b) have no reward, and were not measured`; empty without names."""
    if not names or path is None:
        return []
    have, end = ("has", one) if len(names) == 1 else ("have", several)
    listed = join_first(names, _MAX_NAMES)
    return [f"{len(names)} of {plural(total, 'case')} ({listed}) {have} no {path_of(path)}, and {end}"]
