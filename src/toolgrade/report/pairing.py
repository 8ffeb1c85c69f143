"""Pairs of the cases and the metrics of two reports, and the comparison over them.

Each agent of a report is compared with the first in the same way as two evaluations are by `toolgrade.compare`, which
also reads them and refuses those whose scores have different meanings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from toolgrade._internal.text import join_first, plural, printable, shorten
from toolgrade.errors import InvalidDataError
from toolgrade.redact import DEFAULT
from toolgrade.report.comparison import (
    CaseChange,
    CaseGap,
    CaseLoss,
    Comparison,
    MetricComparison,
    OutcomeChanges,
    case_label,
)
from toolgrade.report.report import CaseResult, Report
from toolgrade.result import MetricResult
from toolgrade.stats import RESAMPLES, holm, mcnemar, mean_difference, mean_difference_interval, mean_of, sign_flip
from toolgrade.verdict import outcome_reason

Difference: TypeAlias = Literal["judge", "prompts", "threshold", "options"]
"""A difference between two evaluations that makes their scores incomparable: the judge (its model or number of
samples), the version of its prompts, the threshold of a metric, or the options in its name."""

_MAX_NAMES = 3
_MAX_REASON = 300


class ReportPairs(NamedTuple):
    """The cases and the metrics that two reports have in common, and in what kinds and words their settings differ."""

    before: Report
    after: Report
    cases: _PairedCases
    metrics: Sequence[_MetricPair]
    differences: Sequence[tuple[Difference, str]]

    def compare(
        self,
        *,
        allowed: tuple[Difference, ...] = (),
        resamples: int = RESAMPLES,
        seed: int = 0,
        confidence: float = 0.95,
    ) -> Comparison:
        """Return the comparison; `allowed` are the kinds of differences that the caller accepts.

        With `resamples=0` it has no intervals: those of ten thousand cases take seconds.
        """
        both, only_a, only_b = self.cases
        options: dict[str, Any] = {"resamples": resamples, "seed": seed, "confidence": confidence}
        compared = [_compare_metric(metric, only_a, options) for metric in self.metrics]
        p_values = holm([metric.p_value for metric in compared])
        names_a, names_b = [one.name_a for one in self.metrics], [one.name_b for one in self.metrics]
        ids = {pair.key.name for pair in both}
        return Comparison(
            cases_a=len(self.before.cases),
            cases_b=len(self.after.cases),
            in_both=len(both),
            verdict_a=self.before.verdict,
            verdict_b=self.after.verdict,
            about_a=self.before.about,
            about_b=self.after.about,
            interrupted_b=self.after.interrupted,
            outcomes=_outcome_changes(both),
            losses=tuple(_losses(both)),
            only_a=_labels(only_a),
            only_b=_labels(only_b),
            metrics=tuple(replace(metric, corrected=value) for metric, value in zip(compared, p_values, strict=True)),
            metrics_only_a=tuple(_without(self.before.metrics, names_a)),
            metrics_only_b=tuple(_without(self.after.metrics, names_b)),
            repeated=len(ids) < len(both),
            allowed=allowed,
            notes=(
                *(f"allowed: {text}" for _, text in self.differences),
                *_uncertain_pair_notes(both),
                *_canary_notes(self.before, "A", names_a),
                *_canary_notes(self.after, "B", names_b),
            ),
            **options,
        )


def pair_reports(before: Report, after: Report, *, match_options: bool = False) -> ReportPairs:
    """Return the cases and the metrics that are in both reports.

    With `match_options`, metrics that differ in their options only are paired, if there is just one on each side.

    Raises:
        InvalidDataError: One is a report of totals, which has no cases.
    """
    if before.totals or after.totals:
        raise InvalidDataError("a report of totals has no single cases that can be paired; compare reports with cases")
    cases = _pair_cases(before, after)
    names, differences = _pair_names(before.metrics, after.metrics, match=match_options)
    metrics = [_pair_metric(before, after, pair, cases.both) for pair in names.items()]
    differences += chain.from_iterable(map(_differences, metrics))
    return ReportPairs(before, after, cases, metrics, differences)


def compare_with(before: Report, after: Report, *, resamples: int = RESAMPLES) -> Comparison | str:
    """Return how a report differs from an earlier one, or why both cannot be compared; `resamples` as above."""
    if before.totals or after.totals:
        return "a report of totals has no single cases"
    pairs = pair_reports(before, after)
    if pairs.differences:
        return f"{pairs.differences[0][1]} (A: the earlier ones)"
    if not pairs.cases.both:
        return "no case is in both"
    return pairs.compare(resamples=resamples)


def compare_agents(report: Report, *, resamples: int = RESAMPLES) -> tuple[Comparison, ...]:
    """Return how each agent of a report after the first differs from the first; `resamples` as in `ReportPairs`."""
    parts = [report.of_agent(name) for name in report.agents]
    return tuple(pair_reports(parts[0], part).compare(resamples=resamples) for part in parts[1:])


def _without(names: Iterable[str], others: Collection[str]) -> list[str]:
    """Return the names that are not among the others, in their order."""
    return [name for name in names if name not in others]


class _PairingKey(NamedTuple):
    """Key by which cases are paired.

    `name` is `CaseResult.identity`. `occurrence` is the trial, or counts
    cases of equal names and agents from 1; `repeat` counts those of equal names, agents and trials.
    """

    name: tuple[str, str]
    agent: str | None
    occurrence: int
    repeat: int


_KeyedCase: TypeAlias = "tuple[_PairingKey, CaseResult]"


class CasePair(NamedTuple):
    """A case that is in both reports."""

    key: _PairingKey
    a: CaseResult
    b: CaseResult

    @property
    def cluster(self) -> tuple[str, str]:
        """Key of the cases that are not independent of this one: those of one id or golden, or of one name."""
        is_unnamed = self.key.name[0] in {"content", "position"}
        return ("golden", str(self.a.golden)) if is_unnamed and self.a.golden is not None else self.key.name

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of changes, gaps and losses about the case."""
        occurrence = self.key.occurrence
        return {"case": _name(self.a), "occurrence": occurrence, "index_a": self.a.index, "index_b": self.b.index}


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
    repeats: Counter[tuple[object, ...]] = Counter()
    for case in report.cases:
        name, agent = case.identity, case.agent
        repeats[name, agent, case.trial] += 1
        repeat = repeats[name, agent, case.trial]
        yield _PairingKey(name, agent, case.trial or repeat, repeat), case


def _labels(keyed: Iterable[_KeyedCase]) -> tuple[str, ...]:
    return tuple(case_label(_name(case), key.occurrence) for key, case in keyed)


def _name(case: CaseResult) -> str:
    """Return the name of a case with its agent, if several were asked."""
    return case.name if case.agent is None else f"{case.name} ({case.agent})"


class _ResultPair(NamedTuple):
    """The results of one metric for a case that is in both reports."""

    cases: CasePair
    a: MetricResult
    b: MetricResult


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
            f"{plural(len(uncertain), 'pair')} without an id ({join_names([pair.a.name for pair in uncertain])}) by "
            f"{kinds}: if cases were added, removed or moved, different cases are compared; give them ids"
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
        interval=mean_difference_interval(scores_a, scores_b, clusters, **options) if options["resamples"] else None,
        p_value=_p_value(list(steps.values()), len(metric.scored)),
        corrected=None,
        unscored=tuple(map(_gap, metric.unscored)),
        missing=_labels(missing),
        warned_a=sum(bool(pair.a.warnings) for pair in metric.scored),
        warned_b=sum(bool(pair.b.warnings) for pair in metric.scored),
    )


def _outcome_changes(pairs: Iterable[CasePair]) -> OutcomeChanges:
    """Count the changes between passed and failed of the cases that have one of these outcomes in both reports."""
    outcomes: Counter[tuple[bool, bool]] = Counter()
    steps: Counter[tuple[str, str]] = Counter()
    for pair in pairs:
        if {pair.a.outcome, pair.b.outcome} <= {"passed", "failed"}:
            passed = pair.a.outcome == "passed", pair.b.outcome == "passed"
            outcomes[passed] += 1
            steps[pair.cluster] += passed[1] - passed[0]
    both, worse, better = outcomes.total(), outcomes[True, False], outcomes[False, True]
    stayed, p_value = outcomes[True, True], _p_value(list(steps.values()), both)
    return OutcomeChanges(both, stayed + worse, stayed + better, worse, better, p_value)


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
    return CaseChange(**pair.cases.fields, **scores, finding=finding, tool=tool, kind=kind)


def _gap(pair: _ResultPair) -> CaseGap:
    return CaseGap(
        **pair.cases.fields,
        status_a=pair.a.status,
        status_b=pair.b.status,
        passed_a=pair.a.passed,
        passed_b=pair.b.passed,
        reason=_first_line(pair.a if pair.b.score is not None else pair.b),
    )


def _losses(pairs: Iterable[CasePair]) -> Iterator[CaseLoss]:
    """Yield the cases that passed in A, and did not pass in B for another reason than a score."""
    for pair in pairs:
        b, outcome = pair.b, pair.b.outcome
        if pair.a.outcome == "passed" and (outcome in {"agent_error", "not_measured"} or b.wrong_end is not None):
            reason = shorten(str(DEFAULT(outcome_reason(b.own_results, b.wrong_end))), _MAX_REASON)
            yield CaseLoss(**pair.fields, outcome_b=outcome, reason=reason)


def _first_line(result: MetricResult) -> str | None:
    text = result.reason or result.error
    return None if text is None else str(DEFAULT(text)).split("\n", 1)[0]


def join_names(names: Sequence[str]) -> str:
    """Return the first of these names with commas between them, or `none`."""
    return join_first([*map(printable, names)], _MAX_NAMES) or "none"
