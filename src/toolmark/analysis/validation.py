"""Does a score mean anything? Metrics against a label that says which runs were good.

The label comes from elsewhere: a reward, a check of the final state, a person. What the metrics say is then compared
with it, on the cases that have both; a metric that predicts nothing has an area under the ROC curve about 0.5.

Example:
    >>> from toolmark import LLMTestCase, ToolCall, ToolCorrectnessMetric, validate
    >>> wanted = [ToolCall(name="refund")]
    >>> cases = [
    ...     LLMTestCase(tools_called=wanted, expected_tools=wanted, metadata={"reward": 1}),
    ...     LLMTestCase(tools_called=[], expected_tools=wanted, metadata={"reward": 0}),
    ... ]
    >>> validate(cases, [ToolCorrectnessMetric()], label="metadata.reward").metrics[0].auc
    1.0
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, NamedTuple

from toolmark._internal.json import canonical_json, short_repr, to_json_value
from toolmark._internal.text import plural
from toolmark.agents import DEFAULT_CONCURRENCY
from toolmark.analysis.field_paths import Place, name_of, path_of, values_at
from toolmark.cases import AnyCase
from toolmark.errors import ConfigurationError, InvalidDataError, Problem
from toolmark.evaluation.run import evaluate, listed_cases
from toolmark.metrics import MetricLike
from toolmark.report import MetricValidity, Report, Validity
from toolmark.result import TOLERANCE, MetricResult, ResultStatus
from toolmark.stats import auc, auc_interval, balanced_accuracy
from toolmark.stats.bootstrap import RESAMPLES
from toolmark.stats.number_checks import check_bootstrap

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
    """Measure how well the scores of metrics tell good runs from bad ones.

    Only cases with a label are measured; those without one are counted, and so are cases that a metric skips or cannot
    measure: they never count as 0. Metrics that score different cases are not comparable with each other.

    Args:
        cases: The cases; at least one with a label.
        metrics: At least one metric.
        label: Where the label stands, such as `"metadata.reward"`, or a function from a case to it: a number, true or
            false; `None` is no label.
        cluster: Where it stands which cases belong together, such as `"metadata.task_id"`, or a function; any JSON
            value. Runs of one task are not independent, and intervals that take them so are too narrow. By default each
            case is taken as independent. A case without a value is a cluster of its own, and that is noted.
        positive_from: A case is good if its label is at least this (within 1e-9); true is 1 and false 0.
        resamples: How often to resample for the intervals.
        seed: Of the random numbers; equal arguments give equal intervals.
        confidence: Of the intervals, in (0, 1).
        max_concurrency: See `evaluate`.
        show_progress: See `evaluate`.

    Raises:
        ConfigurationError: There is no case or no metric, an option is out of range, or no case has the label or the
            cluster; the message names the nearest place that there is.
        InvalidDataError: A label is neither a number nor true nor false; `problems` has all of them.
    """
    asked = _Asked(label, cluster, positive_from, {"resamples": resamples, "seed": seed, "confidence": confidence})
    chosen = asked.of(listed_cases(cases))  # before anything is measured, which may cost
    report = evaluate(chosen.labelled, metrics, max_concurrency=max_concurrency, show_progress=show_progress)
    return asked.answered(chosen, report)


class _Chosen(NamedTuple):
    """The cases that have a label, by their places among all of them.

    Attributes:
        cases: All cases.
        good: Whether each with a label is good.
        keys: The key of the cluster of each of these.
        notes: What is to be told.
    """

    cases: list[AnyCase]
    good: dict[int, bool]
    keys: dict[int, str]
    notes: list[str]

    @property
    def labelled(self) -> list[AnyCase]:
        """The cases that are measured."""
        return [self.cases[place] for place in self.good]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of the cases: which are good, which belong together, and how it is resampled.

    Raises:
        ConfigurationError: An option is out of range.
    """

    label: Place
    cluster: Place | None
    positive_from: float
    bootstrap: dict[str, Any]

    def __post_init__(self) -> None:
        """Check the options."""
        _check_number(self.positive_from)
        check_bootstrap(self.bootstrap["resamples"], self.bootstrap["confidence"])

    def of(self, cases: list[AnyCase]) -> _Chosen:
        """Return the cases that have a label."""
        found = _goodness(cases, self.label, self.positive_from)
        good = {place: value for place, value in enumerate(found) if value is not None}
        keys, notes = _clusters(cases, list(good), self.cluster)
        lacking = [name_of(cases, place) for place in range(len(cases)) if place not in good]
        if lacking:
            were = "was" if len(lacking) == 1 else "were"
            notes = [f"{_counted(lacking, len(cases))} no {path_of(self.label)}, and {were} not measured", *notes]
        return _Chosen(cases, good, keys, notes)

    def answered(self, chosen: _Chosen, report: Report) -> Validity:
        """Return what the results of the labelled cases say."""
        good, keys = list(chosen.good.values()), list(chosen.keys.values())
        results = zip(*(case.results for case in report.cases), strict=True)
        return Validity(
            label=path_of(self.label),
            positive_from=float(self.positive_from),
            cluster=None if self.cluster is None else path_of(self.cluster),
            cases=len(chosen.cases),
            good=sum(good),
            bad=len(good) - sum(good),
            metrics=tuple(_validity(of_metric, good, keys, self.bootstrap) for of_metric in results),
            notes=tuple(chosen.notes),
            **self.bootstrap,
        )


def _validity(
    results: Sequence[MetricResult], good: Sequence[bool], keys: Sequence[str], options: Mapping[str, Any]
) -> MetricValidity:
    """Return what one metric is worth, from one result, label and cluster for each case with a label."""
    rows = [
        (result.score, bool(result.passed), fine, key)
        for result, fine, key in zip(results, good, keys, strict=True)
        if result.score is not None
    ]
    scores, passed = [row[0] for row in rows], [row[1] for row in rows]
    rated, clusters = [row[2] for row in rows], [row[3] for row in rows]
    unscored = Counter(_first_line(result) for result in results if result.score is None)
    return MetricValidity(
        metric=results[0].metric,
        threshold=results[0].threshold,
        good=sum(rated),
        bad=len(rated) - sum(rated),
        good_passed=sum(fine and ok for _, ok, fine, _ in rows),
        bad_passed=sum(ok and not fine for _, ok, fine, _ in rows),
        skipped=sum(result.status is ResultStatus.SKIPPED for result in results),
        failed=sum(result.status is ResultStatus.FAILED for result in results),
        unscored=tuple(unscored.most_common()),
        warned=sum(bool(result.warnings) for result in results if result.score is not None),
        auc=auc(scores, rated),
        interval=auc_interval(scores, rated, clusters, **options),
        balanced_accuracy=balanced_accuracy(passed, rated),
        mean_good=_mean([score for score, fine in zip(scores, rated, strict=True) if fine]),
        mean_bad=_mean([score for score, fine in zip(scores, rated, strict=True) if not fine]),
    )


def _first_line(result: MetricResult) -> str:
    """Return why there is no score, without what may differ from case to case."""
    return (result.reason or result.error or result.status.value).split("\n", 1)[0]


def _mean(scores: Sequence[float]) -> float | None:
    return fsum(scores) / len(scores) if scores else None


def _goodness(cases: Sequence[AnyCase], label: Place, positive_from: float) -> list[bool | None]:
    """Return of each case whether it is good, `None` where nobody says."""
    values = values_at(cases, label, "label")
    problems = [
        Problem(
            f"{name_of(cases, place)}: {path_of(label)}", f"expected a number, true or false, got {short_repr(value)}"
        )
        for place, value in enumerate(values)
        if value is not None and not _is_label(value)
    ]
    if problems:
        hint = "a function as label can turn anything into a number"
        raise InvalidDataError("\n".join([*map(str, problems), hint]), problems)
    return [None if value is None else float(value) >= positive_from - TOLERANCE for value in values]


def _is_label(value: object) -> bool:
    return isinstance(value, (bool, int, float)) and not math.isnan(value)


def _clusters(
    cases: Sequence[AnyCase], places: Sequence[int], cluster: Place | None
) -> tuple[dict[int, str], list[str]]:
    """Return the key of the cluster of each of these cases, and what is to be told of them."""
    if cluster is None:
        return {place: str(place) for place in places}, []
    values = values_at([cases[place] for place in places], cluster, "cluster")
    keys: dict[int, str] = {}
    for place, value in zip(places, values, strict=True):
        # What stands in front keeps a case that says nothing apart from all that say something.
        keys[place] = f"case {place}" if value is None else f"value {_key(value)}"
    alone = [name_of(cases, place) for place, value in zip(places, values, strict=True) if value is None]
    if not alone:
        return keys, []
    each = "is a cluster of its own" if len(alone) == 1 else "each is a cluster of its own"
    return keys, [f"{_counted(alone, len(places))} no {path_of(cluster)}, and {each}"]


def _key(value: object) -> str:
    """Return equal texts for equal JSON values: 1 and 1.0 are one cluster, 1 and "1" are two."""
    plain = to_json_value(value)
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    return canonical_json(plain)


def _counted(names: Sequence[str], total: int) -> str:
    """Return `3 of 100 cases (a, b, c) have`."""
    more = ", ..." if len(names) > _NAMED else ""
    have = "has" if len(names) == 1 else "have"
    return f"{len(names)} of {plural(total, 'case')} ({', '.join(names[:_NAMED])}{more}) {have}"


def _check_number(positive_from: object) -> None:
    if isinstance(positive_from, bool) or not isinstance(positive_from, (int, float)) or math.isnan(positive_from):
        raise ConfigurationError(f"positive_from must be a number, got {positive_from!r}")
