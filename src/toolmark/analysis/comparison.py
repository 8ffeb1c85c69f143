"""Comparison of two evaluations of the same cases, pair by pair.

Cases are paired by their ids, and repetitions of an id in their order. Cases without ids are paired by name or
position, and the comparison notes that. A case without a score in both evaluations is listed, and never counts as 0.
Evaluations that measured different things are compared only if the difference is allowed.

Example:
    >>> from toolmark import LLMTestCase, ToolCall, ToolCorrectnessMetric, compare, evaluate
    >>> expected = [ToolCall(name="refund")]
    >>> before = LLMTestCase(id="late parcel", tools_called=expected, expected_tools=expected)
    >>> after = LLMTestCase(id="late parcel", tools_called=[], expected_tools=expected)
    >>> changes = compare(evaluate([before], [ToolCorrectnessMetric()]), evaluate([after], [ToolCorrectnessMetric()]))
    >>> [change.case for change in changes.metrics[0].regressions]
    ['late parcel']
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from toolmark._internal.json import short_repr
from toolmark._internal.text import plural, printable
from toolmark.dataset import Source
from toolmark.errors import ConfigurationError
from toolmark.redact import DEFAULT
from toolmark.report import CaseChange, CaseGap, CaseResult, Comparison, MetricComparison, Report
from toolmark.report.comparison import case_label
from toolmark.result import MetricResult
from toolmark.results.reader import read_results, report_of
from toolmark.stats import holm, mcnemar, mean_difference, mean_difference_interval, sign_flip
from toolmark.stats.bootstrap import RESAMPLES
from toolmark.stats.number_checks import check_bootstrap

Difference: TypeAlias = Literal["judge", "prompts", "threshold", "options"]
"""A difference between two evaluations that makes their scores incomparable: the judge (its model or number of
samples), the version of its prompts, the threshold of a metric, or the options in its name."""

_MAX_NAMES = 3
_MAX_REASON = 300


def compare(
    a: Report | Mapping[str, Any] | Source,
    b: Report | Mapping[str, Any] | Source,
    *,
    allow_different: Collection[Difference] = (),
    resamples: int = RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> Comparison:
    """Compare two evaluations of the same cases, B with A.

    Args:
        a: The evaluation before: a report, the result of `Report.to_dict`, or a file for `read_results`.
        b: The evaluation after, likewise.
        allow_different: Differences to accept; the comparison notes them.
        resamples: Number of resamples for the intervals.
        seed: Seed of the resamples; equal arguments give equal intervals.
        confidence: Confidence of the intervals, in (0, 1).

    Raises:
        ConfigurationError: The evaluations have no case or no metric in common, or a difference that is not allowed; or
            an option is out of range.
        DataFileError: One is not a report; `problems` has every wrong place.
        OSError: A file cannot be opened or read.
    """
    check_bootstrap(resamples, confidence)
    allowed = _check_allowed(allow_different)
    before, after = _Side(_read(a, "A")), _Side(_read(b, "B"))
    pairs, metrics = _Pairs(before, after), _MetricNames(before, after, match="options" in allowed)
    differences = list(metrics.differences)
    for metric_a, metric_b in metrics.both:
        differences += _differences(metric_a, pairs.results(metric_a, metric_b))
    refused = [(kind, text) for kind, text in differences if kind not in allowed]
    if refused:
        kinds = ", ".join(dict.fromkeys(kind for kind, _ in refused))
        lines = "\n".join(text for _, text in refused)
        message = f"the evaluations differ:\n{lines}\nrepeat one with the settings of the other, or allow: {kinds}"
        raise ConfigurationError(message)
    _check_common("metric", before.metrics, after.metrics, metrics.both)
    _check_common("case", [case.name for case in before.cases], [case.name for case in after.cases], pairs.both)
    options: dict[str, Any] = {"resamples": resamples, "seed": seed, "confidence": confidence}
    compared = [_compare_metric(pairs, *names, options) for names in metrics.both]
    corrected = holm([metric.p_value for metric in compared])
    return Comparison(
        cases_a=len(before.cases),
        cases_b=len(after.cases),
        in_both=len(pairs.both),
        only_a=before.labels(pairs.only_a),
        only_b=after.labels(pairs.only_b),
        metrics=tuple(replace(metric, corrected=value) for metric, value in zip(compared, corrected, strict=True)),
        metrics_only_a=metrics.only_a,
        metrics_only_b=metrics.only_b,
        repeated=pairs.repeated,
        allowed=tuple(kind for kind in get_args(Difference) if kind in allowed),
        notes=(
            *(f"allowed: {text}" for kind, text in differences if kind in allowed),
            *pairs.notes(),
            *_compromised(before, after, metrics),
        ),
        **options,
    )


def _read(report: object, name: str) -> Report:
    """Return a report from any of its forms."""
    if isinstance(report, Report):
        return report
    if isinstance(report, Mapping):
        return report_of(report, name)
    if not isinstance(report, (str, os.PathLike)) and not hasattr(report, "read"):
        expected = "a report, the result of Report.to_dict, or a file"
        raise ConfigurationError(f"{name} must be {expected}, got {short_repr(report)}")
    return read_results(cast("Source", report))


def _check_allowed(allow_different: object) -> list[str]:
    kinds = get_args(Difference)
    if isinstance(allow_different, str) or not isinstance(allow_different, Collection):
        raise ConfigurationError(f"allow_different must be a list of {', '.join(kinds)}, got {allow_different!r}")
    for kind in allow_different:
        if kind not in kinds:
            raise ConfigurationError(f"allow_different takes {', '.join(kinds)}, got {kind!r}")
    return list(allow_different)


def _check_common(noun: str, names_a: Sequence[str], names_b: Sequence[str], both: Sequence[object]) -> None:
    if not both:
        in_a, in_b = _listed(names_a) or "none", _listed(names_b) or "none"
        hint = "; cases are paired by their ids" if noun == "case" else ""
        raise ConfigurationError(f"no {noun} is in both: A has {in_a}, and B has {in_b}{hint}")


class _CaseKey(NamedTuple):
    """Key by which cases are paired.

    `name` is the id of a case, else its name or position, with the kind of it. `occurrence` is the trial, or counts
    cases of equal names from 1; `repeat` counts those of equal names and trials.
    """

    name: tuple[str, str]
    occurrence: int
    repeat: int


class _Side:
    """One of the two reports, with a key for each case."""

    def __init__(self, report: Report) -> None:
        self.cases = report.cases
        self.metrics = report.metrics
        self.thresholds = {summary.metric: summary.threshold for summary in report.summaries}
        self.keys: list[_CaseKey] = []
        repeats: Counter[tuple[tuple[str, str], int | None]] = Counter()
        for case in report.cases:
            name = _name_of(case)
            repeats[name, case.trial] += 1
            repeat = repeats[name, case.trial]
            self.keys.append(_CaseKey(name, case.trial or repeat, repeat))

    def results(self, metric: str) -> list[MetricResult | None]:
        """Return the result of a metric for each case; `None` where it is about other cases."""
        place = self.metrics.index(metric)
        return [None if place in case.apart else case.results[place] for case in self.cases]

    def labels(self, places: Sequence[int]) -> tuple[str, ...]:
        """Return the labels of the cases at these places."""
        return tuple(case_label(self.cases[place].name, self.keys[place].occurrence) for place in places)


def _name_of(case: CaseResult) -> tuple[str, str]:
    """Return what identifies a case in both reports, and its kind."""
    for kind in ("id", "name"):
        value = getattr(case.case, kind, None)
        if isinstance(value, str) and value:
            return kind, value
    return "position", str(case.cluster)


class _ResultPair(NamedTuple):
    """The results of one metric for a case that is in both reports."""

    case_a: CaseResult
    case_b: CaseResult
    key: _CaseKey
    a: MetricResult
    b: MetricResult

    @property
    def is_scored(self) -> bool:
        """Whether both have a score."""
        return self.a.score is not None and self.b.score is not None

    @property
    def cluster(self) -> tuple[str, str]:
        """Key of the cases that are not independent of this one: those of one golden, or of one name."""
        golden = self.case_a.golden
        return self.key.name if golden is None else ("golden", str(golden))


class _Pairs:
    """The cases that are in both reports, by their places."""

    def __init__(self, before: _Side, after: _Side) -> None:
        self.before, self.after = before, after
        places_b = {key: place for place, key in enumerate(after.keys)}
        keys_a = set(before.keys)
        self.both = [(place, places_b[key]) for place, key in enumerate(before.keys) if key in places_b]
        self.only_a = [place for place, key in enumerate(before.keys) if key not in places_b]
        self.only_b = [place for place, key in enumerate(after.keys) if key not in keys_a]
        self.counts = Counter(before.keys[place].name for place, _ in self.both)
        self.repeated = any(number > 1 for number in self.counts.values())

    def results(self, metric_a: str, metric_b: str) -> list[_ResultPair]:
        """Return the results of a metric in both reports, for the cases that it is about."""
        results_a, results_b = self.before.results(metric_a), self.after.results(metric_b)
        pairs: list[_ResultPair] = []
        for place_a, place_b in self.both:
            a, b = results_a[place_a], results_b[place_b]
            if a is not None and b is not None:
                case_a, case_b = self.before.cases[place_a], self.after.cases[place_b]
                pairs.append(_ResultPair(case_a, case_b, self.before.keys[place_a], a, b))
        return pairs

    def notes(self) -> Iterator[str]:
        """Yield what makes the pairing uncertain."""
        places = [place for place, _ in self.both if self.before.keys[place].name[0] != "id"]
        if places:
            kinds = " or ".join(dict.fromkeys(self.before.keys[place].name[0] for place in places))
            names = _listed([self.before.cases[place].name for place in places])
            yield (
                f"{plural(len(places), 'pair')} without an id ({names}) by {kinds}: if cases were added, removed or "
                "moved, different cases are compared; give them ids"
            )
        if self.repeated:
            ids = [name for (_, name), number in self.counts.items() if number > 1]
            verb = "occurs" if len(ids) == 1 else "occur"
            yield (
                f"{plural(len(ids), 'id')} ({_listed(ids)}) {verb} several times: the cases of an id are one "
                "cluster, in the interval and in the test"
            )


class _MetricNames:
    """The metrics that are in both reports, and those that differ in their options only."""

    def __init__(self, before: _Side, after: _Side, *, match: bool) -> None:
        paired = {name: name for name in before.metrics if name in after.metrics}
        lone_a = [name for name in before.metrics if name not in paired]
        lone_b = [name for name in after.metrics if name not in paired]
        self.differences: list[tuple[Difference, str]] = []
        for base in dict.fromkeys(map(_base_name, lone_a)):
            variants_a = [name for name in lone_a if _base_name(name) == base]
            variants_b = [name for name in lone_b if _base_name(name) == base]
            if not variants_b:
                continue
            if match and len(variants_a) == len(variants_b) == 1:
                paired[variants_a[0]] = variants_b[0]
            text = f"{base}: A has {', '.join(variants_a)} and B has {', '.join(variants_b)}"
            self.differences.append(("options", text))
        self.both = [(name, paired[name]) for name in before.metrics if name in paired]
        self.only_a = tuple(name for name in before.metrics if name not in paired)
        self.only_b = tuple(name for name in after.metrics if name not in paired.values())


def _base_name(metric: str) -> str:
    """Return the name of a metric without its options and without the number of a repeated name."""
    front, _, number = metric.rpartition(" #")
    name = front if front and number.isdecimal() else metric
    return name.partition("(")[0] if name.endswith(")") else name


def _judging_model(result: MetricResult) -> str | None:
    """Return the model that gave a verdict; `None` if there is no verdict of a model."""
    # A result also names a model if code decided all questions; that name need not be the one that the model reports.
    questions = [question for unit in result.units for question in unit.questions]
    if questions and not any(one.decided_by == "judge" and one.outcome == "ok" for one in questions):
        return None
    return _judge_value(result, "model")


def _judge_value(result: MetricResult, name: str) -> str | None:
    return None if result.judge is None else result.judge.get(name)


_ASPECTS: Final[tuple[tuple[Difference, str, Callable[[MetricResult], str | None]], ...]] = (
    ("threshold", "threshold", lambda result: f"{result.threshold:g}"),
    ("judge", "judged by", lambda result: "nobody" if result.judge is None else "a judge"),
    ("judge", "judged by", _judging_model),
    ("judge", "samples", lambda result: _judge_value(result, "samples")),
    ("prompts", "prompts", lambda result: _judge_value(result, "prompts")),
)
"""In what two evaluations can differ: the kind of the difference, its words, and the value in a result."""


def _differences(metric: str, results: Sequence[_ResultPair]) -> Iterator[tuple[Difference, str]]:
    """Yield how two evaluations differ, by the cases that have a score in both."""
    scored = [pair for pair in results if pair.is_scored]
    for kind, words, value_of in _ASPECTS:
        values = [(value_of(pair.a), value_of(pair.b)) for pair in scored]
        values_a = {a for a, _ in values if a is not None}
        values_b = {b for _, b in values if b is not None}
        has_unequal_pair = any(a != b for a, b in values if a is not None and b is not None)
        if has_unequal_pair or (values_a and values_b and values_a != values_b):
            yield kind, f"{metric}: {words} {', '.join(sorted(values_a))} in A and {', '.join(sorted(values_b))} in B"


def _compare_metric(pairs: _Pairs, metric_a: str, metric_b: str, options: Mapping[str, Any]) -> MetricComparison:
    """Compare the results of one metric."""
    results = pairs.results(metric_a, metric_b)
    scored = [pair for pair in results if pair.is_scored]
    scores_a = [pair.a.score for pair in scored if pair.a.score is not None]
    scores_b = [pair.b.score for pair in scored if pair.b.score is not None]
    clusters = [pair.cluster for pair in scored]
    verdicts = Counter((bool(pair.a.passed), bool(pair.b.passed)) for pair in scored)
    before = pairs.before.results(metric_a)
    missing = [place for place in pairs.only_a if (result := before[place]) is not None and result.passed]
    return MetricComparison(
        metric=metric_a,
        metric_b=metric_b,
        threshold_a=pairs.before.thresholds[metric_a],
        threshold_b=pairs.after.thresholds[metric_b],
        both_passed=verdicts[True, True],
        both_failed=verdicts[False, False],
        regressions=tuple(_change(pair) for pair in scored if pair.a.passed and not pair.b.passed),
        improvements=tuple(_change(pair) for pair in scored if pair.b.passed and not pair.a.passed),
        mean_a=_mean(scores_a),
        mean_b=_mean(scores_b),
        difference=mean_difference(scores_a, scores_b),
        interval=mean_difference_interval(scores_a, scores_b, clusters, **options),
        p_value=_p_value(clusters, [bool(pair.b.passed) - bool(pair.a.passed) for pair in scored]),
        corrected=None,
        unscored=tuple(_gap(pair) for pair in results if not pair.is_scored),
        missing=pairs.before.labels(missing),
        warned_a=sum(bool(pair.a.warnings) for pair in scored),
        warned_b=sum(bool(pair.b.warnings) for pair in scored),
    )


def _p_value(clusters: Sequence[tuple[str, str]], steps: Sequence[int]) -> float | None:
    """Return the p-value of changes between pass and fail (-1, 0 or 1), one for each case of these clusters."""
    if not steps:
        return None
    if len(set(clusters)) == len(clusters):
        return mcnemar(steps.count(-1), steps.count(1))
    sums: Counter[tuple[str, str]] = Counter()
    for cluster, step in zip(clusters, steps, strict=True):
        sums[cluster] += step
    return sign_flip(list(sums.values()))


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _change(pair: _ResultPair) -> CaseChange:
    return CaseChange(
        case=pair.case_a.name,
        occurrence=pair.key.occurrence,
        index_a=pair.case_a.index,
        index_b=pair.case_b.index,
        score_a=cast("float", pair.a.score),
        score_b=cast("float", pair.b.score),
        finding=_first_problem(pair.a if pair.b.passed else pair.b),
    )


def _gap(pair: _ResultPair) -> CaseGap:
    return CaseGap(
        case=pair.case_a.name,
        occurrence=pair.key.occurrence,
        index_a=pair.case_a.index,
        index_b=pair.case_b.index,
        status_a=pair.a.status,
        status_b=pair.b.status,
        passed_a=pair.a.passed,
        passed_b=pair.b.passed,
        reason=_first_line(pair.a if pair.b.score is not None else pair.b),
    )


def _first_problem(result: MetricResult) -> str | None:
    """Return the first finding, else the first line of the reason or error."""
    if result.findings:
        return result.findings[0].message
    line = _first_line(result)
    return None if line is None else line[:_MAX_REASON]


def _first_line(result: MetricResult) -> str | None:
    text = result.reason or result.error
    return None if text is None else str(DEFAULT(text)).split("\n", 1)[0]


def _compromised(before: _Side, after: _Side, metrics: _MetricNames) -> Iterator[str]:
    """Yield a note where a judge obeyed instructions in the data, so that its scores mean nothing."""
    for report, name, place in ((before, "A", 0), (after, "B", 1)):
        for names in metrics.both:
            judges = [result.judge for result in report.results(names[place]) if result is not None]
            number = sum(judge is not None and "compromised" in judge for judge in judges)
            if number:
                yield f"{names[place]}: {plural(number, 'result')} of {name} by a judge that failed its canary"


def _listed(names: Sequence[str]) -> str:
    """Return the first of these names, for a message."""
    more = ", ..." if len(names) > _MAX_NAMES else ""
    return f"{', '.join(map(printable, names[:_MAX_NAMES]))}{more}"
