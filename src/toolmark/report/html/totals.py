"""Totals on the page: the verdict on the whole report, and the scores of each metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from toolmark._internal.text import number_text, plural
from toolmark.report.html.results import VERDICTS, Verdict, case_verdict, usage_facts
from toolmark.report.report import MetricSummary, Report
from toolmark.result import MetricResult

_BINS = 10
_HIGHEST = 40.0
_LOWEST = 1.5
_WIDTH = 1000


def headline(report: Report) -> tuple[Verdict, str, str]:
    """Return the verdict on a report, the word shown for it, and a sentence that gives the reason.

    An interrupted report never counts as passed.
    """
    verdicts = Counter(map(case_verdict, report.cases))
    total = count_text(len(report.cases), "case")
    order: tuple[Verdict, ...] = ("failed", "error", "passed", "skipped")
    verdict: Verdict = "skipped"
    for one in reversed(order):
        verdict = one if verdicts[one] else verdict
    if verdict == "failed":
        errors = f", {verdicts['error']:,} could not be measured" if verdicts["error"] else ""
        sentence = f"{verdicts['failed']:,} of {total} failed{errors}"
    elif verdict == "error":
        sentence = f"{verdicts['error']:,} of {total} could not be measured"
    elif verdict == "passed":
        skipped = f", {verdicts['skipped']:,} skipped" if verdicts["skipped"] else ""
        sentence = f"{count_text(verdicts['passed'], 'case')} passed{skipped}"
    else:
        sentence = f"nothing was scored: {total} skipped" if report.cases else "there were no cases"
    if report.interrupted and verdict in {"passed", "skipped"}:
        return "error", "interrupted", sentence
    return verdict, "no verdict" if verdict == "skipped" else verdict, sentence


def count_text(amount: int, noun: str) -> str:
    """Return `1 case`, `2,000 cases`."""
    return plural(amount, noun).replace(str(amount), f"{amount:,}", 1)


def percent(share: float) -> str:
    """Return a share as a percentage; only exactly 0 and 1 are shown as 0 % and 100 %."""
    text = f"{share * 100:.1f}".removesuffix(".0")
    return f"{number_text(share * 100) if text in {'0', '100'} and share not in (0, 1) else text} %"


def segments(report: Report) -> list[dict[str, Any]]:
    """Return the bar of all cases by verdict: the start `at` and `width` of each part, of 1000."""
    verdicts = Counter(map(case_verdict, report.cases))
    parts: list[dict[str, Any]] = []
    at = 0.0
    for verdict in VERDICTS:
        width = verdicts[verdict] / max(len(report.cases), 1) * _WIDTH
        parts.append({"verdict": verdict, "amount": verdicts[verdict], "at": round(at, 1), "width": round(width, 1)})
        at += width
    return parts


def judge_facts(summary: MetricSummary) -> list[str]:
    """Return how much the judge of a metric decided, and what that used."""
    return list(_judge_facts(summary))


def _judge_facts(summary: MetricSummary) -> Iterator[str]:
    if summary.coverage is not None:
        yield f"{percent(summary.coverage)} decided"
    if summary.coverage is not None or summary.usage:
        yield from usage_facts(summary.usage, summary.cost)


def histogram(results: Sequence[MetricResult]) -> dict[str, Any] | None:
    """Return the distribution of scores: ten bars from 0 to 1, and one for exactly 1; `None` without scores.

    A bar has the heights of its failed and passed parts, of 40; `words` describes all of them.
    """
    passed, failed = Counter[int](), Counter[int]()
    for result in results:
        if result.score is not None:
            place = _BINS if result.score >= 1 else max(min(int(result.score * _BINS + 1e-9), _BINS - 1), 0)
            (passed if result.passed else failed)[place] += 1
    sums = passed + failed
    if not sums:
        return None
    unit = _HIGHEST / max(sums.values())

    def height(amount: int) -> float:
        return round(max(amount * unit, _LOWEST), 1) if amount else 0.0

    bars = [{"failed": height(failed[place]), "passed": height(passed[place])} for place in range(_BINS + 1)]
    ranges = [f"{place / _BINS:g} to {(place + 1) / _BINS:g}" for place in range(_BINS)] + ["1"]
    words = "; ".join(f"{ranges[place]}: {sums[place]:,}" for place in sorted(sums))
    return {"bars": bars, "words": f"Scores, and how many cases have them: {words}"}
