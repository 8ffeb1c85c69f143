"""Is one version better than another? Two evaluations of the same cases, compared pair by pair.

Cases are paired by their ids, the second of an id with the second, and so on; where they have none, by their names or
positions, and that is told. What has no score in both is counted and named, and never is 0. Evaluations that measured
different things are not compared unless the difference is allowed.

Example:
    >>> from toolmark import LLMTestCase, ToolCall, ToolCorrectnessMetric, compare, evaluate
    >>> wanted = [ToolCall(name="refund")]
    >>> before = LLMTestCase(id="late parcel", tools_called=wanted, expected_tools=wanted)
    >>> after = LLMTestCase(id="late parcel", tools_called=[], expected_tools=wanted)
    >>> found = compare(evaluate([before], [ToolCorrectnessMetric()]), evaluate([after], [ToolCorrectnessMetric()]))
    >>> [change.case for change in found.metrics[0].regressions]
    ['late parcel']
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

from toolmark._internal.json import short_repr
from toolmark._internal.text import plural, printable
from toolmark.dataset import Source
from toolmark.errors import ConfigurationError
from toolmark.redact import DEFAULT
from toolmark.report import CaseChange, CaseGap, CaseResult, Comparison, MetricComparison, Report
from toolmark.report.comparison import case_label
from toolmark.result import MetricResult
from toolmark.results.reader import read_results, report_of
from toolmark.stats import (
    RESAMPLES,
    check_bootstrap,
    holm,
    mcnemar,
    mean_difference,
    mean_difference_interval,
    sign_flip,
)

Difference: TypeAlias = Literal["judge", "prompts", "threshold", "options"]
"""What two evaluations may differ in, so that their scores do not mean the same: who judged (the model, or how many
samples were taken), the version of what it was asked, the threshold of a metric, the options that its name tells."""

_NAMED = 3
_LONGEST_REASON = 300


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
        a: What was before: a report, what `Report.to_dict` gave, or a file that `toolmark.results.read_results` reads.
        b: What came after, likewise.
        allow_different: What may differ between the two; it is noted. By default they must agree in all of it.
        resamples: How often to resample for the intervals.
        seed: Of the random numbers; equal arguments give equal intervals.
        confidence: Of the intervals, in (0, 1).

    Raises:
        ConfigurationError: The two have no case or no metric in common, or differ in something that is not allowed; or
            an option is out of range.
        DataFileError: One is no report; `problems` has every place that is wrong.
        OSError: A file cannot be opened or read.
    """
    check_bootstrap(resamples, confidence)
    allowed = _allowed(allow_different)
    before, after = _read(a, "A"), _read(b, "B")
    pairs = _Pairs(before, after)
    metrics = _Metrics(before, after, match="options" in allowed)
    differences = [*metrics.differences, *(one for names in metrics.both for one in _differences(pairs, *names))]
    _refuse(differences, allowed)
    _check_common(before, after, pairs, metrics)
    options: dict[str, Any] = {"resamples": resamples, "seed": seed, "confidence": confidence}
    compared = [_compared(pairs, *names, options) for names in metrics.both]
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


def _read(given: object, name: str) -> _Side:
    """Return a report, however it was given."""
    if isinstance(given, Report):
        return _Side(given)
    if isinstance(given, Mapping):
        return _Side(report_of(given, name))
    if not isinstance(given, (str, os.PathLike)) and not hasattr(given, "read"):
        message = f"{name} must be a report, what Report.to_dict gave, or a file, got {short_repr(given)}"
        raise ConfigurationError(message)
    return _Side(read_results(cast("Source", given)))


class _Side:
    """One of the two reports."""

    def __init__(self, report: Report) -> None:
        self.cases = report.cases
        self.metrics = report.metrics
        self.thresholds = {summary.metric: summary.threshold for summary in report.summaries}
        self.keys = [_key(case) for case in report.cases]
        self.numbers = list(_numbers(report.cases, self.keys))

    def results(self, metric: str) -> list[MetricResult | None]:
        """Return what a metric says of each case, in their order; `None` where it is about others."""
        place = self.metrics.index(metric)
        return [None if place in case.apart else case.results[place] for case in self.cases]

    def labels(self, places: Sequence[int]) -> tuple[str, ...]:
        """Return how the cases at these places are called."""
        return tuple(case_label(self.cases[place].name, self.numbers[place][1]) for place in places)

    def cluster(self, place: int) -> tuple[str, str]:
        """Return what the cases have in common that are not independent of each other: the golden, else the key."""
        golden = self.cases[place].golden
        return self.keys[place] if golden is None else ("golden", str(golden))


def _key(case: CaseResult) -> tuple[str, str]:
    """Return by what a case is known again, and that."""
    for field in ("id", "name"):
        value = getattr(case.case, field, None)
        if isinstance(value, str) and value:
            return field, value
    return "position", str(case.cluster)


def _numbers(cases: Sequence[CaseResult], keys: Sequence[tuple[str, str]]) -> Iterator[_Number]:
    """Yield the key of each case, its trial or for the how manieth time it stands there, and that of the trial."""
    times: Counter[tuple[tuple[str, str], int | None]] = Counter()
    for case, key in zip(cases, keys, strict=True):
        times[key, case.trial] += 1
        again = times[key, case.trial]
        yield _Number(key, case.trial or again, again)


class _Number(NamedTuple):
    """What a case is paired by."""

    key: tuple[str, str]
    occurrence: int
    again: int


def _allowed(allow_different: object) -> list[str]:
    known = get_args(Difference)
    if isinstance(allow_different, str) or not isinstance(allow_different, Collection):
        raise ConfigurationError(f"allow_different must be a list of {', '.join(known)}, got {allow_different!r}")
    for kind in allow_different:
        if kind not in known:
            raise ConfigurationError(f"allow_different takes {', '.join(known)}, got {kind!r}")
    return list(allow_different)


class _Pair(NamedTuple):
    """A case that is in both, by its places in them."""

    place_a: int
    place_b: int
    occurrence: int


class _Pairs:
    """Which case of one report is which of the other?"""

    def __init__(self, before: _Side, after: _Side) -> None:
        self.before, self.after = before, after
        places = {number: place for place, number in enumerate(after.numbers)}
        self.both = [
            _Pair(place, places[number], number.occurrence)
            for place, number in enumerate(before.numbers)
            if number in places
        ]
        self.only_a = [place for place, number in enumerate(before.numbers) if number not in places]
        known = set(before.numbers)
        self.only_b = [place for place, number in enumerate(after.numbers) if number not in known]
        self.times = Counter(before.keys[pair.place_a] for pair in self.both)
        self.repeated = any(times > 1 for times in self.times.values())

    def results(self, metric_a: str, metric_b: str) -> list[tuple[_Pair, MetricResult, MetricResult]]:
        """Return what the two say of each case that is in both, and that the metrics are about."""
        left, right = self.before.results(metric_a), self.after.results(metric_b)
        found = [(pair, left[pair.place_a], right[pair.place_b]) for pair in self.both]
        return [(pair, mine, theirs) for pair, mine, theirs in found if mine is not None and theirs is not None]

    def notes(self) -> Iterator[str]:
        """Yield what makes the pairing less sure."""
        unnamed = [pair for pair in self.both if self.before.keys[pair.place_a][0] != "id"]
        if unnamed:
            how = " or ".join(dict.fromkeys(self.before.keys[pair.place_a][0] for pair in unnamed))
            named = _few([self.before.cases[pair.place_a].name for pair in unnamed])
            yield (
                f"{plural(len(unnamed), 'pair')} without an id ({named}) by {how}: if cases were added, removed or "
                "moved in between, different ones are compared; give them ids"
            )
        if self.repeated:
            repeated = [name for (_, name), times in self.times.items() if times > 1]
            verb = "occurs" if len(repeated) == 1 else "occur"
            yield (
                f"{plural(len(repeated), 'id')} ({_few(repeated)}) {verb} several times: the cases of an id are one "
                "cluster, in the interval and in the test"
            )


class _Metrics:
    """Which metrics are in both, and which differ in their options alone?"""

    def __init__(self, before: _Side, after: _Side, *, match: bool) -> None:
        mine, theirs = before.metrics, after.metrics
        paired = {name: name for name in mine if name in theirs}
        lone_a = [name for name in mine if name not in paired]
        lone_b = [name for name in theirs if name not in paired]
        self.differences: list[tuple[Difference, str]] = []
        for base in dict.fromkeys(map(_base, lone_a)):
            left = [name for name in lone_a if _base(name) == base]
            right = [name for name in lone_b if _base(name) == base]
            if not right:
                continue
            if match and len(left) == len(right) == 1:
                paired[left[0]] = right[0]
            self.differences.append(("options", f"{base}: A has {', '.join(left)} and B has {', '.join(right)}"))
        self.both = [(name, paired[name]) for name in mine if name in paired]
        self.only_a = tuple(name for name in mine if name not in paired)
        self.only_b = tuple(name for name in theirs if name not in paired.values())


def _base(metric: str) -> str:
    """Return the name of a metric without its options, and without the number of one that stood there before."""
    front, _, number = metric.rpartition(" #")
    name = front if front and number.isdecimal() else metric
    return name.partition("(")[0] if name.endswith(")") else name


def _differences(pairs: _Pairs, metric_a: str, metric_b: str) -> Iterator[tuple[Difference, str]]:
    """Yield what two evaluations measured differently, of the cases that have a score in both."""
    scored = [
        (mine, theirs)
        for _, mine, theirs in pairs.results(metric_a, metric_b)
        if mine.score is not None and theirs.score is not None
    ]
    told: list[tuple[Difference, str, list[tuple[str | None, str | None]]]] = [
        ("threshold", "threshold", [(f"{mine.threshold:g}", f"{theirs.threshold:g}") for mine, theirs in scored]),
        ("judge", "judged by", [(_whether(mine), _whether(theirs)) for mine, theirs in scored]),
        ("judge", "judged by", [(_judged_by(mine), _judged_by(theirs)) for mine, theirs in scored]),
        ("judge", "samples", [(_said(mine, "samples"), _said(theirs, "samples")) for mine, theirs in scored]),
        ("prompts", "prompts", [(_said(mine, "prompts"), _said(theirs, "prompts")) for mine, theirs in scored]),
    ]
    for kind, words, values in told:
        left = {mine for mine, _ in values if mine is not None}
        right = {theirs for _, theirs in values if theirs is not None}
        apart = any(mine != theirs for mine, theirs in values if mine is not None and theirs is not None)
        if apart or (left and right and left != right):
            yield kind, f"{metric_a}: {words} {', '.join(sorted(left))} in A and {', '.join(sorted(right))} in B"


def _whether(result: MetricResult) -> str:
    return "nobody" if result.judge is None else "a judge"


def _judged_by(result: MetricResult) -> str | None:
    """Return the model that gave a verdict; `None` where nobody was asked, or nobody answered.

    A result names a model also where code decided all questions, by the name under which it would have been asked,
    which may be another than the one it answers with.
    """
    questions = [question for unit in result.units for question in unit.questions]
    if result.judge is None or not (
        not questions or any(one.decided_by == "judge" and one.outcome == "ok" for one in questions)
    ):
        return None
    return result.judge.get("model")


def _said(result: MetricResult, name: str) -> str | None:
    return None if result.judge is None else result.judge.get(name)


def _refuse(differences: Sequence[tuple[Difference, str]], allowed: Collection[str]) -> None:
    refused = [(kind, text) for kind, text in differences if kind not in allowed]
    if refused:
        kinds = ", ".join(dict.fromkeys(kind for kind, _ in refused))
        lines = "\n".join(text for _, text in refused)
        message = f"the two did not measure the same:\n{lines}\nscore both alike, or allow what may differ: {kinds}"
        raise ConfigurationError(message)


def _check_common(before: _Side, after: _Side, pairs: _Pairs, metrics: _Metrics) -> None:
    if not metrics.both:
        mine, theirs = (_few(report.metrics) or "none" for report in (before, after))
        raise ConfigurationError(f"no metric is in both: A has {mine}, and B has {theirs}")
    if not pairs.both:
        mine, theirs = (_few([case.name for case in report.cases]) or "none" for report in (before, after))
        raise ConfigurationError(f"no case is in both: A has {mine}, and B has {theirs}; they are paired by their ids")


def _compared(pairs: _Pairs, metric_a: str, metric_b: str, options: Mapping[str, Any]) -> MetricComparison:
    """Return how the results of one metric differ."""
    results = pairs.results(metric_a, metric_b)
    scored = [
        (pair, mine, theirs, mine.score, theirs.score)
        for pair, mine, theirs in results
        if mine.score is not None and theirs.score is not None
    ]
    left, right = [row[3] for row in scored], [row[4] for row in scored]
    keys = [pairs.before.cluster(row[0].place_a) for row in scored]
    verdicts = Counter((bool(mine.passed), bool(theirs.passed)) for _, mine, theirs, _, _ in scored)
    changes = [(bool(row[1].passed), _change(pairs, *row)) for row in scored if row[1].passed != row[2].passed]
    before = pairs.before.results(metric_a)
    lost = [place for place in pairs.only_a if (result := before[place]) is not None and result.passed]
    return MetricComparison(
        metric=metric_a,
        metric_b=metric_b,
        threshold_a=pairs.before.thresholds[metric_a],
        threshold_b=pairs.after.thresholds[metric_b],
        both_passed=verdicts[True, True],
        both_failed=verdicts[False, False],
        regressions=tuple(change for passed_before, change in changes if passed_before),
        improvements=tuple(change for passed_before, change in changes if not passed_before),
        mean_a=_mean(left),
        mean_b=_mean(right),
        difference=mean_difference(left, right),
        interval=mean_difference_interval(left, right, keys, **options),
        p_value=_p_value(keys, [bool(row[2].passed) - bool(row[1].passed) for row in scored]),
        corrected=None,
        unscored=tuple(_gap(pairs, *row) for row in results if row[1].score is None or row[2].score is None),
        missing=pairs.before.labels(lost),
        warned_a=sum(bool(row[1].warnings) for row in scored),
        warned_b=sum(bool(row[2].warnings) for row in scored),
    )


def _p_value(keys: Sequence[tuple[str, str]], steps: Sequence[int]) -> float | None:
    """Return the p-value over pass and fail, of steps (-1, 0 or 1) in cases of these keys."""
    if not steps:
        return None
    if len(set(keys)) == len(keys):
        return mcnemar(steps.count(-1), steps.count(1))
    of_key: Counter[tuple[str, str]] = Counter()
    for key, step in zip(keys, steps, strict=True):
        of_key[key] += step
    return sign_flip(list(of_key.values()))


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _change(
    pairs: _Pairs, pair: _Pair, mine: MetricResult, theirs: MetricResult, score_a: float, score_b: float
) -> CaseChange:
    case_a, case_b = pairs.before.cases[pair.place_a], pairs.after.cases[pair.place_b]
    return CaseChange(
        case=case_a.name,
        occurrence=pair.occurrence,
        index_a=case_a.index,
        index_b=case_b.index,
        score_a=score_a,
        score_b=score_b,
        finding=_words(mine if theirs.passed else theirs),
    )


def _gap(pairs: _Pairs, pair: _Pair, mine: MetricResult, theirs: MetricResult) -> CaseGap:
    case_a, case_b = pairs.before.cases[pair.place_a], pairs.after.cases[pair.place_b]
    unscored = mine if theirs.score is not None else theirs
    return CaseGap(
        case=case_a.name,
        occurrence=pair.occurrence,
        index_a=case_a.index,
        index_b=case_b.index,
        status_a=mine.status,
        status_b=theirs.status,
        passed_a=mine.passed,
        passed_b=theirs.passed,
        reason=_first_line(unscored),
    )


def _words(result: MetricResult) -> str | None:
    """Return what was found first, else the first line of the reason or error."""
    if result.findings:
        return result.findings[0].message
    line = _first_line(result)
    return None if line is None else line[:_LONGEST_REASON]


def _first_line(result: MetricResult) -> str | None:
    text = result.reason or result.error
    return None if text is None else str(DEFAULT(text)).split("\n", 1)[0]


def _compromised(before: _Side, after: _Side, metrics: _Metrics) -> Iterator[str]:
    """Yield where a judge obeyed what it read, so that its scores are worth nothing."""
    for report, name, place in ((before, "A", 0), (after, "B", 1)):
        for names in metrics.both:
            results = report.results(names[place])
            caught = sum(one is not None and one.judge is not None and "compromised" in one.judge for one in results)
            if caught:
                yield f"{names[place]}: {plural(caught, 'result')} of {name} by a judge that failed its canary"


def _few(names: Sequence[str]) -> str:
    """Return the first of these names, for people."""
    more = ", ..." if len(names) > _NAMED else ""
    return f"{', '.join(map(printable, names[:_NAMED]))}{more}"
