"""Comparison of two evaluations of the same cases, pair by pair.

Cases are paired by their ids, and repetitions of an id in their order. Cases without an id are paired by name, else by
their input and expectations, else by position; the comparison notes pairs by name or position. A case without a score
in both evaluations is listed, and never counts as 0. Evaluations that measured different things are compared only if
the difference is allowed.

Example:
    >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, compare, evaluate
    >>> expected = [ToolCall(name="refund")]
    >>> before = LLMTestCase(id="late parcel", tools_called=expected, expected_tools=expected)
    >>> after = LLMTestCase(id="late parcel", tools_called=[], expected_tools=expected)
    >>> changes = compare(evaluate([before], [ToolCorrectnessMetric()]), evaluate([after], [ToolCorrectnessMetric()]))
    >>> [change.case for change in changes.metrics[0].regressions]
    ['late parcel']
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from toolgrade._internal.options import require
from toolgrade._internal.text import join_first, plural, printable
from toolgrade.dataset import Source
from toolgrade.errors import ConfigurationError
from toolgrade.evaluation.reading import read_results, report_of
from toolgrade.redact import DEFAULT
from toolgrade.report import CaseResult, Comparison, MetricComparison, Report
from toolgrade.report.comparison import CaseChange, CaseGap, case_label
from toolgrade.result import MetricResult
from toolgrade.stats.bootstrap import RESAMPLES
from toolgrade.stats.number_checks import check_bootstrap, mean_of
from toolgrade.stats.paired import holm, mcnemar, mean_difference, mean_difference_interval, sign_flip

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

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, compare, evaluate
        >>> weather, metrics = ToolCall(name="get_weather"), [ToolCorrectnessMetric()]
        >>> before = LLMTestCase(id="weather", tools_called=[weather], expected_tools=[weather])
        >>> after = LLMTestCase(id="weather", tools_called=[], expected_tools=[weather])
        >>> comparison = compare(evaluate([before], metrics), evaluate([after], metrics))
        >>> comparison.failures()
        ('tool_correctness: 1 case passed in A and failed in B',)
    """
    check_bootstrap(resamples, confidence)
    allowed = _check_allowed(allow_different)
    before, after = _read(a, "A"), _read(b, "B")
    cases = _pair_cases(before, after)
    names, differences = _pair_names(before.metrics, after.metrics, match="options" in allowed)
    metrics = [_pair_metric(before, after, pair, cases.both) for pair in names.items()]
    differences += chain.from_iterable(map(_differences, metrics))
    _check_differences(differences, allowed)
    _check_common("metric", before.metrics, after.metrics, names)
    _check_common("case", [case.name for case in before.cases], [case.name for case in after.cases], cases.both)
    options: dict[str, Any] = {"resamples": resamples, "seed": seed, "confidence": confidence}
    compared = [_compare_metric(metric, cases.only_a, options) for metric in metrics]
    p_values = holm([metric.p_value for metric in compared])
    counts = Counter(pair.key.name for pair in cases.both)
    return Comparison(
        cases_a=len(before.cases),
        cases_b=len(after.cases),
        in_both=len(cases.both),
        only_a=_labels(cases.only_a),
        only_b=_labels(cases.only_b),
        metrics=tuple(replace(metric, corrected=value) for metric, value in zip(compared, p_values, strict=True)),
        metrics_only_a=tuple(_without(before.metrics, names)),
        metrics_only_b=tuple(_without(after.metrics, names.values())),
        repeated=len(counts) < len(cases.both),
        allowed=allowed,
        notes=(
            *(f"allowed: {text}" for _, text in differences),
            *_uncertain_pair_notes(cases.both),
            *_repeated_id_notes(counts),
            *_canary_notes(before, "A", names),
            *_canary_notes(after, "B", names.values()),
        ),
        **options,
    )


def _read(report: object, name: str) -> Report:
    """Return a report from any of its forms."""
    if isinstance(report, Report):
        return report
    if isinstance(report, Mapping):
        return report_of(report, name)
    is_file = isinstance(report, (str, os.PathLike)) or hasattr(report, "read")
    require(is_file, f"{name} must be a report, the result of Report.to_dict, or a file", report)
    return read_results(cast("Source", report))


def _check_allowed(allow_different: object) -> tuple[Difference, ...]:
    """Return the differences that are allowed, in their usual order."""
    kinds: tuple[Difference, ...] = get_args(Difference)
    if isinstance(allow_different, str) or not isinstance(allow_different, Collection):
        raise ConfigurationError(f"allow_different must be a list of {', '.join(kinds)}, got {allow_different!r}")
    for kind in allow_different:
        require(kind in kinds, f"allow_different takes {', '.join(kinds)}", kind)
    return tuple(kind for kind in kinds if kind in allow_different)


def _check_differences(differences: Sequence[tuple[Difference, str]], allowed: Sequence[str]) -> None:
    refused = {text: kind for kind, text in differences if kind not in allowed}
    if refused:
        kinds, lines = ", ".join(dict.fromkeys(refused.values())), "\n".join(refused)
        message = f"the evaluations differ:\n{lines}\nrepeat one with the settings of the other, or allow: {kinds}"
        raise ConfigurationError(message)


def _check_common(noun: str, names_a: Sequence[str], names_b: Sequence[str], both: Collection[object]) -> None:
    if not both:
        hint = "; cases are paired by their ids" if noun == "case" else ""
        names = f"A has {_join_names(names_a)}, and B has {_join_names(names_b)}"
        raise ConfigurationError(f"no {noun} is in both: {names}{hint}")


def _without(names: Iterable[str], others: Collection[str]) -> list[str]:
    """Return the names that are not among the others, in their order."""
    return [name for name in names if name not in others]


class _CaseKey(NamedTuple):
    """Key by which cases are paired.

    `name` is `CaseResult.identity`. `occurrence` is the trial, or counts
    cases of equal names from 1; `repeat` counts those of equal names and trials.
    """

    name: tuple[str, str]
    occurrence: int
    repeat: int


_KeyedCase: TypeAlias = "tuple[_CaseKey, CaseResult]"


class CasePair(NamedTuple):
    """A case that is in both reports."""

    key: _CaseKey
    a: CaseResult
    b: CaseResult

    @property
    def cluster(self) -> tuple[str, str]:
        """Key of the cases that are not independent of this one: those of one golden, or of one name."""
        return self.key.name if self.a.golden is None else ("golden", str(self.a.golden))


class _PairedCases(NamedTuple):
    """The cases that are in both reports, those of A alone, and those of B alone."""

    both: list[CasePair]
    only_a: list[_KeyedCase]
    only_b: list[_KeyedCase]


def _pair_cases(before: Report, after: Report) -> _PairedCases:
    """Pair the cases of two reports by their identities, and those of equal identities in their order."""
    cases_b = dict(_keyed_cases(after))
    both: list[CasePair] = []
    only_a: list[_KeyedCase] = []
    for key, case in _keyed_cases(before):
        if key in cases_b:
            both.append(CasePair(key, case, cases_b.pop(key)))
        else:
            only_a.append((key, case))
    return _PairedCases(both, only_a, list(cases_b.items()))


def _keyed_cases(report: Report) -> Iterator[_KeyedCase]:
    repeats: Counter[tuple[tuple[str, str], int | None]] = Counter()
    for case in report.cases:
        name = case.identity
        repeats[name, case.trial] += 1
        repeat = repeats[name, case.trial]
        yield _CaseKey(name, case.trial or repeat, repeat), case


def _labels(keyed: Iterable[_KeyedCase]) -> tuple[str, ...]:
    return tuple(case_label(case.name, key.occurrence) for key, case in keyed)


class _ResultPair(NamedTuple):
    """The results of one metric for a case that is in both reports."""

    cases: CasePair
    a: MetricResult
    b: MetricResult

    @property
    def case_fields(self) -> dict[str, Any]:
        """The fields of changes and gaps about the case."""
        a, b = self.cases.a, self.cases.b
        return {"case": a.name, "occurrence": self.cases.key.occurrence, "index_a": a.index, "index_b": b.index}


class _MetricPair(NamedTuple):
    """A metric that is in both reports: its name and position in A, its name in B, and its results for cases in both.

    `scored` are the results of the cases that have a score in both, `unscored` the others.
    """

    name_a: str
    name_b: str
    place_a: int
    threshold_a: float
    threshold_b: float
    scored: list[_ResultPair]
    unscored: list[_ResultPair]


def _pair_metric(before: Report, after: Report, names: tuple[str, str], cases: Sequence[CasePair]) -> _MetricPair:
    """Return the metrics with these names, with the results of the cases that both measure."""
    place_a, place_b = before.metrics.index(names[0]), after.metrics.index(names[1])
    metric = _MetricPair(*names, place_a, _threshold(before, names[0]), _threshold(after, names[1]), [], [])
    for pair in cases:
        if place_a in pair.a.apart or place_b in pair.b.apart:
            continue
        results = _ResultPair(pair, pair.a.results[place_a], pair.b.results[place_b])
        if results.a.score is None or results.b.score is None:
            metric.unscored.append(results)
        else:
            metric.scored.append(results)
    return metric


def _results_of(report: Report, metric: str) -> list[MetricResult]:
    """Return the results of a metric for the cases that it measures."""
    place = report.metrics.index(metric)
    return [case.results[place] for case in report.cases if place not in case.apart]


def _threshold(report: Report, metric: str) -> float:
    """Return the threshold of a metric: that of its first result."""
    results = _results_of(report, metric)
    return results[0].threshold if results else 0.0


def _uncertain_pair_notes(pairs: Sequence[CasePair]) -> Iterator[str]:
    """Yield a note on cases that were paired by name or position."""
    uncertain = [pair for pair in pairs if pair.key.name[0] in {"name", "position"}]
    if uncertain:
        kinds = " or ".join(dict.fromkeys(pair.key.name[0] for pair in uncertain))
        yield (
            f"{plural(len(uncertain), 'pair')} without an id ({_join_names([pair.a.name for pair in uncertain])}) by "
            f"{kinds}: if cases were added, removed or moved, different cases are compared; give them ids"
        )


def _repeated_id_notes(counts: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """Yield a note on ids that several pairs have."""
    ids = [name for (_, name), number in counts.items() if number > 1]
    if ids:
        verb = "occurs" if len(ids) == 1 else "occur"
        yield (
            f"{plural(len(ids), 'id')} ({_join_names(ids)}) {verb} several times: the cases of an id are one "
            "cluster, in the interval and in the test"
        )


def _canary_notes(report: Report, side: str, metrics: Iterable[str]) -> Iterator[str]:
    """Yield a note for each metric whose judge obeyed instructions in the data, which makes its scores worthless."""
    for metric in metrics:
        number = sum(bool(_judge_value(result, "compromised")) for result in _results_of(report, metric))
        if number:
            yield f"{metric}: {plural(number, 'result')} of {side} by a judge that failed its canary"


def _pair_names(
    before: Sequence[str], after: Sequence[str], *, match: bool
) -> tuple[dict[str, str], list[tuple[Difference, str]]]:
    """Return the names in B of the metrics of A that B has too, and how others differ in their options.

    With `match`, metrics that differ in their options only are paired, if there is just one on each side.
    """
    names = {name: name for name in before if name in after}
    differences: list[tuple[Difference, str]] = []
    variants_a, variants_b = _by_base_name(_without(before, names)), _by_base_name(_without(after, names))
    for base, in_a in variants_a.items():
        in_b = variants_b.get(base, [])
        if in_b:
            differences.append(("options", f"{base}: A has {', '.join(in_a)} and B has {', '.join(in_b)}"))
        if match and len(in_a) == len(in_b) == 1:
            names[in_a[0]] = in_b[0]
    return {name: names[name] for name in sorted(names, key=before.index)}, differences


def _by_base_name(metrics: Iterable[str]) -> dict[str, list[str]]:
    """Return metrics by their names without options and without the number of a repeated name."""
    names: dict[str, list[str]] = defaultdict(list)
    for metric in metrics:
        front, _, number = metric.rpartition(" #")
        name = front if front and number.isdecimal() else metric
        names[name.partition("(")[0] if name.endswith(")") else name].append(metric)
    return names


def _judging_model(result: MetricResult) -> str:
    """Return the model that gave a verdict; empty if there is no verdict of a model."""
    # A result also names a model if code decided all questions; that name need not be the one that the model reports.
    outcomes = {(question.decided_by, question.outcome) for unit in result.units for question in unit.questions}
    if outcomes and ("judge", "ok") not in outcomes:
        return ""
    return _judge_value(result, "model")


def _judge_value(result: MetricResult, name: str) -> str:
    return (result.judge or {}).get(name, "")


_ASPECTS: Final[tuple[tuple[Difference, str, Callable[[MetricResult], str]], ...]] = (
    ("threshold", "threshold", lambda result: f"{result.threshold:g}"),
    ("judge", "judged by", lambda result: "nobody" if result.judge is None else "a judge"),
    ("judge", "judged by", _judging_model),
    ("judge", "samples", lambda result: _judge_value(result, "samples")),
    ("prompts", "prompts", lambda result: _judge_value(result, "prompts")),
)
"""In what two evaluations can differ: the kind of the difference, its words, and the value in a result."""


def _differences(metric: _MetricPair) -> Iterator[tuple[Difference, str]]:
    """Yield how two evaluations differ, by the cases that have a score in both."""
    for kind, words, value_of in _ASPECTS:
        values_a = [value_of(pair.a) for pair in metric.scored]
        values_b = [value_of(pair.b) for pair in metric.scored]
        distinct_a, distinct_b = _distinct(values_a), _distinct(values_b)
        # Equal values on both sides also differ if they belong to different cases.
        if _differ(distinct_a, distinct_b) or any(map(_differ, values_a, values_b)):
            yield kind, f"{metric.name_a}: {words} {', '.join(distinct_a)} in A and {', '.join(distinct_b)} in B"


def _differ(a: Sequence[str], b: Sequence[str]) -> bool:
    """Return whether values differ; an empty value is unknown, and differs from none."""
    return bool(a and b and a != b)


def _distinct(values: Sequence[str]) -> list[str]:
    return sorted({*values} - {""})


def _compare_metric(metric: _MetricPair, only_a: Sequence[_KeyedCase], options: Mapping[str, Any]) -> MetricComparison:
    """Compare the results of one metric; `only_a` are the cases of A that B lacks."""
    pairs: dict[tuple[bool, bool], list[_ResultPair]] = defaultdict(list)  # by whether they passed in A and in B
    steps: Counter[tuple[str, str]] = Counter()  # by cluster: -1 for each regression, 1 for each improvement
    scores_a, scores_b, clusters = list[float](), list[float](), list[tuple[str, str]]()
    for pair in metric.scored:
        passed_a, passed_b = bool(pair.a.passed), bool(pair.b.passed)
        pairs[passed_a, passed_b].append(pair)
        steps[pair.cases.cluster] += passed_b - passed_a
        clusters.append(pair.cases.cluster)
        scores_a.append(float(pair.a))
        scores_b.append(float(pair.b))
    place = metric.place_a
    missing = [(key, case) for key, case in only_a if place not in case.apart and case.results[place].passed]
    return MetricComparison(
        metric=metric.name_a,
        metric_b=metric.name_b,
        threshold_a=metric.threshold_a,
        threshold_b=metric.threshold_b,
        both_passed=len(pairs[True, True]),
        both_failed=len(pairs[False, False]),
        regressions=tuple(map(_change, pairs[True, False])),
        improvements=tuple(map(_change, pairs[False, True])),
        mean_a=mean_of(scores_a),
        mean_b=mean_of(scores_b),
        difference=mean_difference(scores_a, scores_b),
        interval=mean_difference_interval(scores_a, scores_b, clusters, **options),
        p_value=_p_value(list(steps.values()), len(metric.scored)),
        corrected=None,
        unscored=tuple(map(_gap, metric.unscored)),
        missing=_labels(missing),
        warned_a=sum(bool(pair.a.warnings) for pair in metric.scored),
        warned_b=sum(bool(pair.b.warnings) for pair in metric.scored),
    )


def _p_value(steps: Sequence[int], pairs: int) -> float | None:
    """Return the p-value of changes between pass and fail, from the sum of changes of each cluster."""
    if not pairs:
        return None
    is_independent = len(steps) == pairs
    return mcnemar(steps.count(-1), steps.count(1)) if is_independent else sign_flip(steps)


def _change(pair: _ResultPair) -> CaseChange:
    failed = pair.a if pair.b.passed else pair.b
    line = _first_line(failed)
    finding, tool, kind = line and line[:_MAX_REASON], None, None
    if failed.findings:
        first = failed.findings[0]
        finding, tool, kind = first.message, first.tool or None, first.kind
    scores: dict[str, Any] = {"score_a": float(pair.a), "score_b": float(pair.b)}
    return CaseChange(**pair.case_fields, **scores, finding=finding, tool=tool, kind=kind)


def _gap(pair: _ResultPair) -> CaseGap:
    return CaseGap(
        **pair.case_fields,
        status_a=pair.a.status,
        status_b=pair.b.status,
        passed_a=pair.a.passed,
        passed_b=pair.b.passed,
        reason=_first_line(pair.a if pair.b.score is not None else pair.b),
    )


def _first_line(result: MetricResult) -> str | None:
    text = result.reason or result.error
    return None if text is None else str(DEFAULT(text)).split("\n", 1)[0]


def _join_names(names: Sequence[str]) -> str:
    """Return the first of these names with commas between them, or `none`."""
    return join_first([*map(printable, names)], _MAX_NAMES) or "none"
