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
from typing import Any, cast

from toolmark._internal.json import canonical_json, short_repr, to_json_value
from toolmark._internal.text import plural
from toolmark.agents import DEFAULT_CONCURRENCY
from toolmark.analysis.field_paths import Place, name_of, path_of, values_at
from toolmark.cases import AnyCase
from toolmark.errors import ConfigurationError, InvalidDataError, Problem
from toolmark.evaluation.run import evaluate, listed_cases
from toolmark.metrics import MetricLike
from toolmark.report import MetricValidity, Validity
from toolmark.result import TOLERANCE, MetricResult, ResultStatus
from toolmark.stats import auc, auc_interval, balanced_accuracy
from toolmark.stats.bootstrap import RESAMPLES
from toolmark.stats.number_checks import check_bootstrap, mean_of

_NAMED = 3


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
    _check_number(positive_from)
    check_bootstrap(resamples, confidence)
    listed = listed_cases(cases)
    # Labels and clusters are read first, because a mistake in them must not cost a whole run of the metrics.
    labels = _is_good(listed, label, positive_from)
    places = [place for place, good in enumerate(labels) if good is not None]
    good = [value for value in labels if value is not None]
    keys, alone = _cluster_keys(listed, places, cluster)
    unlabelled = [name_of(listed, place) for place, value in enumerate(labels) if value is None]
    notes = [
        *_missing_note(unlabelled, len(listed), label, "was not measured", "were not measured"),
        *_missing_note(alone, len(places), cluster, "is a separate cluster", "each is a separate cluster"),
    ]
    labelled = [listed[place] for place in places]
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
    rows = [row for row in zip(results, good, keys, strict=True) if row[0].score is not None]
    scores = [cast("float", result.score) for result, _, _ in rows]
    passed = [bool(result.passed) for result, _, _ in rows]
    rated, clusters = [fine for _, fine, _ in rows], [key for _, _, key in rows]
    by_label: dict[bool, list[float]] = {True: [], False: []}
    for score, fine in zip(scores, rated, strict=True):
        by_label[fine].append(score)
    verdicts = Counter(zip(rated, passed, strict=True))
    statuses = Counter(result.status for result in results)
    unscored = Counter(_first_line(result) for result in results if result.score is None)
    return MetricValidity(
        metric=results[0].metric,
        threshold=results[0].threshold,
        good=len(by_label[True]),
        bad=len(by_label[False]),
        good_passed=verdicts[True, True],
        bad_passed=verdicts[False, True],
        skipped=statuses[ResultStatus.SKIPPED],
        failed=statuses[ResultStatus.FAILED],
        unscored=tuple(unscored.most_common()),
        warned=sum(bool(result.warnings) for result, _, _ in rows),
        auc=auc(scores, rated),
        interval=auc_interval(scores, rated, clusters, **options),
        balanced_accuracy=balanced_accuracy(passed, rated),
        mean_good=mean_of(by_label[True]),
        mean_bad=mean_of(by_label[False]),
    )


def _first_line(result: MetricResult) -> str:
    """Return the reason for a missing score; later lines are details of the case."""
    return (result.reason or result.error or result.status.value).split("\n", 1)[0]


def _is_good(cases: Sequence[AnyCase], label: Place, positive_from: float) -> list[bool | None]:
    """Return for each case whether it is good, or `None` if it has no label."""
    values = values_at(cases, label, "label")
    problems: list[Problem] = []
    for place, value in enumerate(values):
        if value is not None and (not isinstance(value, (bool, int, float)) or math.isnan(value)):
            problem = f"expected a number, true or false, got {short_repr(value)}"
            problems.append(Problem(f"{name_of(cases, place)}: {path_of(label)}", problem))
    if problems:
        hint = "a function as label can turn anything into a number"
        raise InvalidDataError("\n".join([*map(str, problems), hint]), problems)
    return [None if value is None else float(value) >= positive_from - TOLERANCE for value in values]


def _cluster_keys(
    cases: Sequence[AnyCase], places: Sequence[int], cluster: Place | None
) -> tuple[list[str], list[str]]:
    """Return the key of the cluster of each case at `places`, and the names of those without a cluster."""
    if cluster is None:
        return [str(place) for place in places], []
    keys: list[str] = []
    alone: list[str] = []
    for place, value in zip(places, values_at([cases[place] for place in places], cluster, "cluster"), strict=True):
        # The prefix separates the keys of cases without a value from all values.
        keys.append(f"case {place}" if value is None else f"value {_key(value)}")
        if value is None:
            alone.append(name_of(cases, place))
    return keys, alone


def _key(value: object) -> str:
    """Return the key of a JSON value: 1 and 1.0 have the same, 1 and "1" do not."""
    plain = to_json_value(value)
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    return canonical_json(plain)


def _missing_note(names: Sequence[str], total: int, place: Place | None, one: str, several: str) -> list[str]:
    """Return the note `2 of 100 cases (a, b) have no reward, and were not measured`; empty without names."""
    if not names or place is None:
        return []
    have, end = ("has", one) if len(names) == 1 else ("have", several)
    more = ", ..." if len(names) > _NAMED else ""
    listed = f"({', '.join(names[:_NAMED])}{more})"
    return [f"{len(names)} of {plural(total, 'case')} {listed} {have} no {path_of(place)}, and {end}"]


def _check_number(positive_from: object) -> None:
    if isinstance(positive_from, bool) or not isinstance(positive_from, (int, float)) or math.isnan(positive_from):
        raise ConfigurationError(f"positive_from must be a number, got {positive_from!r}")
