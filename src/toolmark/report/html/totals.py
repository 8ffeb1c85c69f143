"""What do all results sum up to: per metric, per score, and over the trials of each question?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from toolmark._internal.json import json_text
from toolmark._internal.text import number_text, plural, shorten
from toolmark.redact import Redactor
from toolmark.report.html.cases import Link, case_verdict
from toolmark.report.html.results import Verdict, usage_words
from toolmark.report.html.texts import LONGEST_LINE, LONGEST_NAME
from toolmark.report.report import CaseResult, MetricSummary, Report, TrialSummary
from toolmark.result import MetricResult

VERDICTS: tuple[Verdict, ...] = ("error", "failed", "passed", "skipped")
"""In the order of their weight."""

_BINS = 10
_HIGHEST = 40.0
_LOWEST = 1.5
_FEW_LABELS = 5
_MOST_WARNINGS = 12
_MOST_FLAKY = 100
_MOST_STEPS = 10
_WIDTH = 1000


class Bin(NamedTuple):
    """One bar of a histogram: heights of its parts, of 40."""

    place: int
    failed: float
    passed: float


class Histogram(NamedTuple):
    """How the scores of one metric are spread: bars for [0, 0.1) to [0.9, 1), and one for exactly 1."""

    bins: tuple[Bin, ...]
    words: str


class Span(NamedTuple):
    """A share with its interval, as percentages."""

    value: str
    low: float
    high: float
    at: float
    words: str


class MetricView(NamedTuple):
    """What one metric says of all cases."""

    name: str
    threshold: str
    counts: Mapping[Verdict, int]
    mean: str
    mean_interval: str
    rate: Span | None
    histogram: Histogram | None
    judge: tuple[str, ...]


class Segment(NamedTuple):
    """A part of the bar of all cases: where it begins and how wide it is, of 1000."""

    verdict: Verdict
    amount: int
    at: float
    width: float


class WarningView(NamedTuple):
    """A warning, with the cases whose results have it."""

    text: str
    amount: str
    cases: tuple[Link, ...]


class TrialView(NamedTuple):
    """What several trials of each question say of one metric."""

    metric: str
    words: str
    chances: tuple[tuple[str, str, str, str], ...]
    flaky: tuple[tuple[str, str], ...]
    more: int


def verdict_word(report: Report, verdict: Verdict) -> tuple[Verdict, str]:
    """Return how the verdict on a report looks, and its word: a part that passed is no whole that did."""
    if report.interrupted and verdict in {"passed", "skipped"}:
        return "error", "interrupted"
    return verdict, "no verdict" if verdict == "skipped" else verdict


def headline(report: Report) -> tuple[Verdict, str]:
    """Return the verdict on the cases of a report, and one sentence that says how it came about."""
    verdicts = Counter(map(case_verdict, report.cases))
    total = len(report.cases)
    if verdicts["failed"]:
        errors = f", {verdicts['error']:,} could not be measured" if verdicts["error"] else ""
        return "failed", f"{verdicts['failed']:,} of {count_text(total, 'case')} failed{errors}"
    if verdicts["error"]:
        return "error", f"{verdicts['error']:,} of {count_text(total, 'case')} could not be measured"
    if verdicts["passed"]:
        skipped = f", {verdicts['skipped']:,} skipped" if verdicts["skipped"] else ""
        return "passed", f"{count_text(verdicts['passed'], 'case')} passed{skipped}"
    return "skipped", f"nothing was scored: {count_text(total, 'case')} skipped" if total else "there were no cases"


def count_text(amount: int, noun: str) -> str:
    """Return `1 case`, `2,000 cases`."""
    return plural(amount, noun).replace(str(amount), f"{amount:,}", 1)


def segments(report: Report) -> tuple[Segment, ...]:
    """Return the bar of all cases by what became of them."""
    verdicts = Counter(map(case_verdict, report.cases))
    found: list[Segment] = []
    at = 0.0
    for verdict in VERDICTS:
        width = verdicts[verdict] / max(len(report.cases), 1) * _WIDTH
        found.append(Segment(verdict, verdicts[verdict], round(at, 1), round(width, 1)))
        at += width
    return tuple(found)


def percent(share: float) -> str:
    """Return a share as a percentage; only a true 0 and a true 1 are 0 % and 100 %."""
    text = f"{share * 100:.1f}".removesuffix(".0")
    return f"{number_text(share * 100) if text in {'0', '100'} and share not in (0, 1) else text} %"


def metric_views(report: Report, redactor: Redactor) -> Iterator[MetricView]:
    """Yield what each metric says."""
    for place, summary in enumerate(report.summaries):
        results = [case.results[place] for case in report.cases]  # those about other cases are skipped, without score
        interval = summary.mean_interval
        yield MetricView(
            name=str(redactor(summary.metric)),
            threshold=number_text(summary.threshold),
            counts={
                "error": summary.errored,
                "failed": summary.failed,
                "passed": summary.passed,
                "skipped": summary.skipped,
            },
            mean="-" if summary.mean is None else number_text(summary.mean),
            mean_interval="" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}",
            rate=_span(summary),
            histogram=_histogram(results),
            judge=tuple(_judge(summary)),
        )


def _span(summary: MetricSummary) -> Span | None:
    if summary.rate is None:
        return None
    low, high = summary.rate_interval or (summary.rate, summary.rate)
    return Span(
        value=percent(summary.rate),
        low=round(low * 100, 1),
        high=round(high * 100, 1),
        at=round(summary.rate * 100, 1),
        words=f"{percent(low)} to {percent(high)}" if summary.rate_interval is not None else "",
    )


def _judge(summary: MetricSummary) -> Iterator[str]:
    if summary.coverage is not None:
        yield f"{percent(summary.coverage)} decided"
    if summary.coverage is not None or summary.usage:
        yield from usage_words(summary.usage, summary.cost)


def _histogram(results: Sequence[MetricResult]) -> Histogram | None:
    passed, failed = Counter[int](), Counter[int]()
    for result in results:
        if result.score is not None:
            (passed if result.passed else failed)[_bin(result.score)] += 1
    sums = passed + failed
    if not sums:
        return None
    unit = _HIGHEST / max(sums.values())

    def height(amount: int) -> float:
        return round(max(amount * unit, _LOWEST), 1) if amount else 0.0

    bins = tuple(Bin(place, height(failed[place]), height(passed[place])) for place in range(_BINS + 1))
    words = "; ".join(f"{_bin_words(place)}: {sums[place]:,}" for place in sorted(sums))
    return Histogram(bins, f"Scores, and how many cases have them: {words}")


def _bin(score: float) -> int:
    return _BINS if score >= 1 else max(min(int(score * _BINS + 1e-9), _BINS - 1), 0)


def _bin_words(place: int) -> str:
    return "1" if place == _BINS else f"{place / _BINS:g} to {(place + 1) / _BINS:g}"


def warning_views(report: Report, shown: frozenset[int], redactor: Redactor) -> tuple[tuple[WarningView, ...], int]:
    """Return the warnings of all results, each once, and how many are not shown."""
    warned: dict[str, dict[int, CaseResult]] = {}
    for case, result in report.results():
        for text in result.warnings:
            warned.setdefault(text, {})[case.index] = case
    views = tuple(
        WarningView(
            shorten(str(redactor(text)), LONGEST_LINE),
            count_text(len(cases), "case"),
            tuple(_link(case, shown, redactor) for case in list(cases.values())[:_FEW_LABELS]),
        )
        for text, cases in list(warned.items())[:_MOST_WARNINGS]
    )
    return views, max(len(warned) - _MOST_WARNINGS, 0)


def _link(case: CaseResult, shown: frozenset[int], redactor: Redactor) -> Link:
    anchor = f"k{case.index + 1}" if case.index in shown else ""
    return Link(anchor, shorten(str(redactor(case.label)), LONGEST_NAME), case_verdict(case))


def trial_views(summaries: Sequence[TrialSummary], redactor: Redactor) -> tuple[TrialView, ...]:
    """Return what the trials say, metric by metric."""
    return tuple(_trials(summary, redactor) for summary in summaries)


def _trials(summary: TrialSummary, redactor: Redactor) -> TrialView:
    def told(value: float | None) -> str:
        return "-" if value is None else number_text(value)

    return TrialView(
        metric=str(redactor(summary.metric)),
        words=f"{count_text(summary.goldens, 'question')}, {plural(summary.trials, 'trial')} each",
        chances=tuple(
            (str(k), told(value), told(summary.pass_hat.get(k)), f"{summary.counted.get(k, 0):,}")
            for k, value in summary.pass_at.items()
            if k <= _MOST_STEPS or k == summary.trials
        ),
        flaky=tuple(
            (shorten(str(redactor(one.name)), LONGEST_NAME), f"{one.passed} of {one.scored} passed")
            for one in summary.flaky[:_MOST_FLAKY]
        ),
        more=max(len(summary.flaky) - _MOST_FLAKY, 0),
    )


def about_facts(about: Mapping[str, Any], redactor: Redactor) -> tuple[tuple[str, str], ...]:
    """Return what is known of the evaluation, as names and texts."""
    safe: Any = redactor(dict(about))
    return tuple(
        (
            shorten(str(name).replace("_", " "), LONGEST_NAME),
            shorten(value if isinstance(value, str) else json_text(value), LONGEST_LINE * 2),
        )
        for name, value in safe.items()
    )
