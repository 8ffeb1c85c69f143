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
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from toolmark._internal.json import short_repr
from toolmark._internal.text import plural, printable
from toolmark.dataset import Source
from toolmark.errors import ConfigurationError
from toolmark.redact import DEFAULT
from toolmark.report import CaseChange, CaseGap, CaseResult, Comparison, MetricComparison, MetricSummary, Report
from toolmark.report.comparison import case_label
from toolmark.result import MetricResult
from toolmark.results.reader import read_results, report_of
from toolmark.stats import holm, mcnemar, mean_difference, mean_difference_interval, sign_flip
from toolmark.stats.bootstrap import RESAMPLES
from toolmark.stats.number_checks import check_bootstrap, mean_of

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
    before, after = _read(a, "A"), _read(b, "B")
    pairs, only_a, only_b = _pair_cases(before, after)
    metrics, differences = _pair_metrics(before.metrics, after.metrics, match="options" in allowed)
    places = [(before.metrics.index(name), after.metrics.index(other)) for name, other in metrics.items()]
    results = [_result_pairs(pairs, *both) for both in places]
    for metric, of_metric in zip(metrics, results, strict=True):
        differences += _differences(metric, [pair for pair in of_metric if pair.is_scored])
    _check_differences(differences, allowed)
    _check_common("metric", before.metrics, after.metrics, metrics)
    _check_common("case", [case.name for case in before.cases], [case.name for case in after.cases], pairs)
    options: dict[str, Any] = {"resamples": resamples, "seed": seed, "confidence": confidence}
    summaries_a, summaries_b = before.summaries, after.summaries
    compared: list[MetricComparison] = []
    for (place_a, place_b), of_metric in zip(places, results, strict=True):
        lost = [(key, case) for key, case in only_a if place_a not in case.apart and case.results[place_a].passed]
        summaries = summaries_a[place_a], summaries_b[place_b]
        compared.append(_compare_metric(*summaries, of_metric, _labels(lost), options))
    corrected = holm([metric.p_value for metric in compared])
    counts = Counter(pair.key.name for pair in pairs)
    return Comparison(
        cases_a=len(before.cases),
        cases_b=len(after.cases),
        in_both=len(pairs),
        only_a=_labels(only_a),
        only_b=_labels(only_b),
        metrics=tuple(replace(metric, corrected=value) for metric, value in zip(compared, corrected, strict=True)),
        metrics_only_a=tuple(name for name in before.metrics if name not in metrics),
        metrics_only_b=tuple(name for name in after.metrics if name not in metrics.values()),
        repeated=len(counts) < len(pairs),
        allowed=tuple(kind for kind in get_args(Difference) if kind in allowed),
        notes=(
            *(f"allowed: {text}" for kind, text in differences if kind in allowed),
            *_pairing_notes(pairs, counts),
            *_compromised(before, "A", metrics),
            *_compromised(after, "B", metrics.values()),
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


def _check_differences(differences: Sequence[tuple[Difference, str]], allowed: Sequence[str]) -> None:
    refused = [(kind, text) for kind, text in differences if kind not in allowed]
    if refused:
        kinds = ", ".join(dict.fromkeys(kind for kind, _ in refused))
        lines = "\n".join(text for _, text in refused)
        message = f"the evaluations differ:\n{lines}\nrepeat one with the settings of the other, or allow: {kinds}"
        raise ConfigurationError(message)


def _check_common(noun: str, names_a: Sequence[str], names_b: Sequence[str], both: Collection[object]) -> None:
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


_KeyedCase: TypeAlias = "tuple[_CaseKey, CaseResult]"


def _pair_cases(before: Report, after: Report) -> tuple[list[_CasePair], list[_KeyedCase], list[_KeyedCase]]:
    """Return the cases that are in both reports, those of A alone, and those of B alone."""
    keyed_a, keyed_b = _keyed_cases(before), _keyed_cases(after)
    cases_a, cases_b = dict(keyed_a), dict(keyed_b)
    pairs = [_CasePair(key, case, cases_b[key]) for key, case in keyed_a if key in cases_b]
    only_a = [(key, case) for key, case in keyed_a if key not in cases_b]
    return pairs, only_a, [(key, case) for key, case in keyed_b if key not in cases_a]


def _keyed_cases(report: Report) -> list[_KeyedCase]:
    keyed: list[_KeyedCase] = []
    repeats: Counter[tuple[tuple[str, str], int | None]] = Counter()
    for case in report.cases:
        name = _name_of(case)
        repeats[name, case.trial] += 1
        repeat = repeats[name, case.trial]
        keyed.append((_CaseKey(name, case.trial or repeat, repeat), case))
    return keyed


def _name_of(case: CaseResult) -> tuple[str, str]:
    """Return what identifies a case in both reports, and its kind."""
    for kind in ("id", "name"):
        value = getattr(case.case, kind, None)
        if isinstance(value, str) and value:
            return kind, value
    return "position", str(case.cluster)


def _labels(keyed: Iterable[_KeyedCase]) -> tuple[str, ...]:
    return tuple(case_label(case.name, key.occurrence) for key, case in keyed)


class _CasePair(NamedTuple):
    """A case that is in both reports."""

    key: _CaseKey
    a: CaseResult
    b: CaseResult

    @property
    def cluster(self) -> tuple[str, str]:
        """Key of the cases that are not independent of this one: those of one golden, or of one name."""
        return self.key.name if self.a.golden is None else ("golden", str(self.a.golden))


class _ResultPair(NamedTuple):
    """The results of one metric for a case that is in both reports."""

    cases: _CasePair
    a: MetricResult
    b: MetricResult

    @property
    def is_scored(self) -> bool:
        """Whether both have a score."""
        return self.a.score is not None and self.b.score is not None


def _result_pairs(pairs: Sequence[_CasePair], place_a: int, place_b: int) -> list[_ResultPair]:
    """Return the results of the metrics at these places, for the cases that they are about."""
    about = [pair for pair in pairs if place_a not in pair.a.apart and place_b not in pair.b.apart]
    return [_ResultPair(pair, pair.a.results[place_a], pair.b.results[place_b]) for pair in about]


def _pairing_notes(pairs: Sequence[_CasePair], counts: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """Yield what makes the pairing uncertain."""
    unsure = [pair for pair in pairs if pair.key.name[0] != "id"]
    if unsure:
        kinds = " or ".join(dict.fromkeys(pair.key.name[0] for pair in unsure))
        yield (
            f"{plural(len(unsure), 'pair')} without an id ({_listed([pair.a.name for pair in unsure])}) by {kinds}: "
            "if cases were added, removed or moved, different cases are compared; give them ids"
        )
    ids = [name for (_, name), number in counts.items() if number > 1]
    if ids:
        verb = "occurs" if len(ids) == 1 else "occur"
        yield (
            f"{plural(len(ids), 'id')} ({_listed(ids)}) {verb} several times: the cases of an id are one "
            "cluster, in the interval and in the test"
        )


def _pair_metrics(
    before: Sequence[str], after: Sequence[str], *, match: bool
) -> tuple[dict[str, str], list[tuple[Difference, str]]]:
    """Return the metrics of A that B has too, and how others differ in their options.

    With `match`, metrics that differ in their options only are paired, if there is just one on each side.
    """
    paired = {name: name for name in before if name in after}
    variants: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, names in enumerate((before, after)):
        for name in names:
            if name not in paired:
                variants[_base_name(name)][side].append(name)
    differences: list[tuple[Difference, str]] = []
    for base, (in_a, in_b) in variants.items():
        if in_a and in_b:
            differences.append(("options", f"{base}: A has {', '.join(in_a)} and B has {', '.join(in_b)}"))
            if match and len(in_a) == len(in_b) == 1:
                paired[in_a[0]] = in_b[0]
    return {name: paired[name] for name in before if name in paired}, differences


def _base_name(metric: str) -> str:
    """Return the name of a metric without its options and without the number of a repeated name."""
    front, _, number = metric.rpartition(" #")
    name = front if front and number.isdecimal() else metric
    return name.partition("(")[0] if name.endswith(")") else name


def _judging_model(result: MetricResult) -> str:
    """Return the model that gave a verdict; empty if there is no verdict of a model."""
    # A result also names a model if code decided all questions; that name need not be the one that the model reports.
    questions = [question for unit in result.units for question in unit.questions]
    if questions and not any(one.decided_by == "judge" and one.outcome == "ok" for one in questions):
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


def _differences(metric: str, scored: Sequence[_ResultPair]) -> Iterator[tuple[Difference, str]]:
    """Yield how two evaluations differ, by the cases that have a score in both."""
    for kind, words, value_of in _ASPECTS:
        values = [(value_of(pair.a), value_of(pair.b)) for pair in scored]
        values_a, values_b = ({pair[side] for pair in values} - {""} for side in (0, 1))
        # The same values on both sides differ, too, if they belong to different cases.
        has_unequal_pair = any(a and b and a != b for a, b in values)
        if has_unequal_pair or (values_a and values_b and values_a != values_b):
            yield kind, f"{metric}: {words} {', '.join(sorted(values_a))} in A and {', '.join(sorted(values_b))} in B"


def _compare_metric(
    before: MetricSummary,
    after: MetricSummary,
    results: Sequence[_ResultPair],
    missing: tuple[str, ...],
    options: Mapping[str, Any],
) -> MetricComparison:
    """Compare the results of one metric; `missing` are the passed cases of A that B lacks."""
    scored = [pair for pair in results if pair.is_scored]
    scores_a = [cast("float", pair.a.score) for pair in scored]
    scores_b = [cast("float", pair.b.score) for pair in scored]
    clusters = [pair.cases.cluster for pair in scored]
    verdicts: dict[tuple[bool, bool], list[_ResultPair]] = defaultdict(list)
    for pair in scored:
        verdicts[bool(pair.a.passed), bool(pair.b.passed)].append(pair)
    return MetricComparison(
        metric=before.metric,
        metric_b=after.metric,
        threshold_a=before.threshold,
        threshold_b=after.threshold,
        both_passed=len(verdicts[True, True]),
        both_failed=len(verdicts[False, False]),
        regressions=tuple(map(_change, verdicts[True, False])),
        improvements=tuple(map(_change, verdicts[False, True])),
        mean_a=mean_of(scores_a),
        mean_b=mean_of(scores_b),
        difference=mean_difference(scores_a, scores_b),
        interval=mean_difference_interval(scores_a, scores_b, clusters, **options),
        p_value=_p_value(clusters, [bool(pair.b.passed) - bool(pair.a.passed) for pair in scored]),
        corrected=None,
        unscored=tuple(_gap(pair) for pair in results if not pair.is_scored),
        missing=missing,
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


def _change(pair: _ResultPair) -> CaseChange:
    return CaseChange(
        **_case_fields(pair.cases),
        score_a=cast("float", pair.a.score),
        score_b=cast("float", pair.b.score),
        finding=_first_problem(pair.a if pair.b.passed else pair.b),
    )


def _gap(pair: _ResultPair) -> CaseGap:
    return CaseGap(
        **_case_fields(pair.cases),
        status_a=pair.a.status,
        status_b=pair.b.status,
        passed_a=pair.a.passed,
        passed_b=pair.b.passed,
        reason=_first_line(pair.a if pair.b.score is not None else pair.b),
    )


def _case_fields(pair: _CasePair) -> dict[str, Any]:
    return {
        "case": pair.a.name,
        "occurrence": pair.key.occurrence,
        "index_a": pair.a.index,
        "index_b": pair.b.index,
    }


def _first_problem(result: MetricResult) -> str | None:
    """Return the first finding, else the first line of the reason or error."""
    if result.findings:
        return result.findings[0].message
    line = _first_line(result)
    return line and line[:_MAX_REASON]


def _first_line(result: MetricResult) -> str | None:
    text = result.reason or result.error
    return None if text is None else str(DEFAULT(text)).split("\n", 1)[0]


def _compromised(report: Report, name: str, metrics: Iterable[str]) -> Iterator[str]:
    """Yield a note where a judge obeyed instructions in the data, so that its scores mean nothing."""
    for metric in metrics:
        place = report.metrics.index(metric)
        judges = [case.results[place].judge for case in report.cases if place not in case.apart]
        number = sum("compromised" in (judge or ()) for judge in judges)
        if number:
            yield f"{metric}: {plural(number, 'result')} of {name} by a judge that failed its canary"


def _listed(names: Sequence[str]) -> str:
    """Return the first of these names, for a message."""
    more = ", ..." if len(names) > _MAX_NAMES else ""
    return f"{', '.join(map(printable, names[:_MAX_NAMES]))}{more}"
