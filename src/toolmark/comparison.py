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

from toolmark._json import short_repr
from toolmark._text import count, visible
from toolmark._written_report import WrittenCase, WrittenReport, WrittenResult, read_report, report_of
from toolmark.dataset import Source
from toolmark.errors import ConfigurationError
from toolmark.report import CaseChange, CaseGap, Comparison, MetricComparison, Report
from toolmark.report._comparison import case_label
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
        a: What was before: a report, what `Report.to_dict` gave, or a file of it as `toolmark score --json` writes it.
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
        only_a=pairs.labels(before, pairs.only_a),
        only_b=pairs.labels(after, pairs.only_b),
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


def _read(given: object, name: str) -> WrittenReport:
    """Return a report, however it was given."""
    if isinstance(given, Report):
        return report_of(given.to_dict(), name)
    if isinstance(given, Mapping):
        return report_of(given, name)
    if not isinstance(given, (str, os.PathLike)) and not hasattr(given, "read"):
        message = f"{name} must be a report, what Report.to_dict gave, or a file, got {short_repr(given)}"
        raise ConfigurationError(message)
    return read_report(cast("Source", given))


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

    def __init__(self, before: WrittenReport, after: WrittenReport) -> None:
        self.before, self.after = before, after
        mine, theirs = _occurrences(before.cases), _occurrences(after.cases)
        places = {key: place for place, key in enumerate(theirs)}
        self.both = [_Pair(place, places[key], key[1]) for place, key in enumerate(mine) if key in places]
        self.only_a = [place for place, key in enumerate(mine) if key not in places]
        known = set(mine)
        self.only_b = [place for place, key in enumerate(theirs) if key not in known]
        self.repeated = any(pair.occurrence > 1 for pair in self.both)
        self._numbers = {id(before): mine, id(after): theirs}

    def labels(self, report: WrittenReport, places: Sequence[int]) -> tuple[str, ...]:
        """Return how the cases at these places of a report are called."""
        numbers = self._numbers[id(report)]
        return tuple(case_label(report.cases[place].label, numbers[place][1]) for place in places)

    def results(self, metric_a: str, metric_b: str) -> list[tuple[_Pair, WrittenResult, WrittenResult]]:
        """Return what the two say of each case that is in both."""
        mine, theirs = self.before.results(metric_a), self.after.results(metric_b)
        return [(pair, mine[pair.place_a], theirs[pair.place_b]) for pair in self.both]

    def notes(self) -> Iterator[str]:
        """Yield what makes the pairing less sure."""
        unnamed = [pair for pair in self.both if not self.before.cases[pair.place_a].id]
        if unnamed:
            cases = [self.before.cases[pair.place_a] for pair in unnamed]
            how = " or ".join(dict.fromkeys(case.key[0] for case in cases))
            named = _few([case.label for case in cases])
            yield (
                f"{count(len(unnamed), 'pair')} without an id ({named}) by {how}: if cases were added, removed or "
                "moved in between, different ones are compared; give them ids"
            )
        if self.repeated:
            ids = Counter(self.before.cases[pair.place_a].key for pair in self.both)
            repeated = [name for (_, name), times in ids.items() if times > 1]
            verb = "occurs" if len(repeated) == 1 else "occur"
            yield (
                f"{count(len(repeated), 'id')} ({_few(repeated)}) {verb} several times: the cases of an id are one "
                "cluster, in the interval and in the test"
            )


def _occurrences(cases: Sequence[WrittenCase]) -> list[tuple[tuple[str, str], int]]:
    """Return the key of each case, and for the how manieth time it stands there, from 1."""
    times: Counter[tuple[str, str]] = Counter()
    found: list[tuple[tuple[str, str], int]] = []
    for case in cases:
        times[case.key] += 1
        found.append((case.key, times[case.key]))
    return found


class _Metrics:
    """Which metrics are in both, and which differ in their options alone?"""

    def __init__(self, before: WrittenReport, after: WrittenReport, *, match: bool) -> None:
        mine = [summary.metric for summary in before.metrics]
        theirs = [summary.metric for summary in after.metrics]
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
        ("judge", "judged by", [(mine.judged_by, theirs.judged_by) for mine, theirs in scored]),
        ("judge", "samples", [(_said(mine, "samples"), _said(theirs, "samples")) for mine, theirs in scored]),
        ("prompts", "prompts", [(_said(mine, "prompts"), _said(theirs, "prompts")) for mine, theirs in scored]),
    ]
    for kind, words, values in told:
        left = {mine for mine, _ in values if mine is not None}
        right = {theirs for _, theirs in values if theirs is not None}
        apart = any(mine != theirs for mine, theirs in values if mine is not None and theirs is not None)
        if apart or (left and right and left != right):
            yield kind, f"{metric_a}: {words} {', '.join(sorted(left))} in A and {', '.join(sorted(right))} in B"


def _whether(result: WrittenResult) -> str:
    return "nobody" if result.judge is None else "a judge"


def _said(result: WrittenResult, name: str) -> str | None:
    return None if result.judge is None else result.judge.get(name)


def _refuse(differences: Sequence[tuple[Difference, str]], allowed: Collection[str]) -> None:
    refused = [(kind, text) for kind, text in differences if kind not in allowed]
    if refused:
        kinds = ", ".join(dict.fromkeys(kind for kind, _ in refused))
        lines = "\n".join(text for _, text in refused)
        message = f"the two did not measure the same:\n{lines}\nscore both alike, or allow what may differ: {kinds}"
        raise ConfigurationError(message)


def _check_common(before: WrittenReport, after: WrittenReport, pairs: _Pairs, metrics: _Metrics) -> None:
    if not metrics.both:
        mine, theirs = (_few([one.metric for one in report.metrics]) or "none" for report in (before, after))
        raise ConfigurationError(f"no metric is in both: A has {mine}, and B has {theirs}")
    if not pairs.both:
        mine, theirs = (_few([case.label for case in report.cases]) or "none" for report in (before, after))
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
    keys = [pairs.before.cases[row[0].place_a].key for row in scored]
    verdicts = Counter((bool(mine.passed), bool(theirs.passed)) for _, mine, theirs, _, _ in scored)
    changes = [(bool(row[1].passed), _change(pairs, *row)) for row in scored if row[1].passed != row[2].passed]
    mine_only = pairs.before.results(metric_a)
    return MetricComparison(
        metric=metric_a,
        metric_b=metric_b,
        threshold_a=pairs.before.threshold(metric_a),
        threshold_b=pairs.after.threshold(metric_b),
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
        missing=pairs.labels(pairs.before, [place for place in pairs.only_a if mine_only[place].passed]),
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
    pairs: _Pairs, pair: _Pair, mine: WrittenResult, theirs: WrittenResult, score_a: float, score_b: float
) -> CaseChange:
    case_a, case_b = pairs.before.cases[pair.place_a], pairs.after.cases[pair.place_b]
    return CaseChange(
        case=case_a.label,
        occurrence=pair.occurrence,
        index_a=case_a.index,
        index_b=case_b.index,
        score_a=score_a,
        score_b=score_b,
        finding=(mine if theirs.passed else theirs).words,
    )


def _gap(pairs: _Pairs, pair: _Pair, mine: WrittenResult, theirs: WrittenResult) -> CaseGap:
    case_a, case_b = pairs.before.cases[pair.place_a], pairs.after.cases[pair.place_b]
    unscored = mine if theirs.score is not None else theirs
    text = unscored.reason or unscored.error
    return CaseGap(
        case=case_a.label,
        occurrence=pair.occurrence,
        index_a=case_a.index,
        index_b=case_b.index,
        status_a=mine.state,
        status_b=theirs.state,
        passed_a=mine.passed,
        passed_b=theirs.passed,
        reason=None if text is None else text.split("\n", 1)[0],
    )


def _compromised(before: WrittenReport, after: WrittenReport, metrics: _Metrics) -> Iterator[str]:
    """Yield where a judge obeyed what it read, so that its scores are worth nothing."""
    for report, name, place in ((before, "A", 0), (after, "B", 1)):
        for names in metrics.both:
            results = report.results(names[place])
            caught = sum(result.judge is not None and "compromised" in result.judge for result in results)
            if caught:
                yield f"{names[place]}: {count(caught, 'result')} of {name} by a judge that failed its canary"


def _few(names: Sequence[str]) -> str:
    """Return the first of these names, for people."""
    more = ", ..." if len(names) > _NAMED else ""
    return f"{', '.join(map(visible, names[:_NAMED]))}{more}"
