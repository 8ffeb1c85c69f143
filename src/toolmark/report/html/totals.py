"""Totals on the page: the verdict on the whole report, and the scores of each metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from toolmark._internal.text import plural
from toolmark.report.report import Report
from toolmark.report.text.ordering import VERDICTS, Verdict, case_verdict
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
    failed, errors, passed = verdicts["failed"], verdicts["error"], verdicts["passed"]
    total = plural(len(report.cases), "case")
    if failed:
        return "failed", "failed", f"{failed:,} of {total} failed{_also(errors, 'could not be measured')}"
    if errors:
        return "error", "error", f"{errors:,} of {total} could not be measured"
    sentence = f"nothing was scored: {total} skipped" if report.cases else "there were no cases"
    if passed:
        sentence = f"{plural(passed, 'case')} passed{_also(verdicts['skipped'], 'skipped')}"
    if report.interrupted:
        return "error", "interrupted", sentence
    return ("passed", "passed", sentence) if passed else ("skipped", "no verdict", sentence)


def _also(amount: int, words: str) -> str:
    return f", {amount:,} {words}" if amount else ""


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


def histogram(results: Sequence[MetricResult]) -> dict[str, Any] | None:
    """Return the distribution of scores: ten bars from 0 to 1, and one for exactly 1; `None` without scores.

    A bar has the heights of its failed and passed parts, of 40; `words` describes all of them.
    """
    bins: dict[str, Counter[int]] = {"failed": Counter(), "passed": Counter()}
    for result in results:
        if result.score is not None:
            place = max(min(int(result.score * _BINS + 1e-9), _BINS - 1), 0)
            bins["passed" if result.passed else "failed"][_BINS if result.score >= 1 else place] += 1
    sums = bins["failed"] + bins["passed"]
    if not sums:
        return None
    unit = _HIGHEST / max(sums.values())

    def height(amount: int) -> float:
        return round(max(amount * unit, _LOWEST), 1) if amount else 0.0

    bars = [{kind: height(amounts[place]) for kind, amounts in bins.items()} for place in range(_BINS + 1)]
    ranges = [f"{place / _BINS:g} to {(place + 1) / _BINS:g}" for place in range(_BINS)] + ["1"]
    words = "; ".join(f"{ranges[place]}: {sums[place]:,}" for place in sorted(sums))
    return {"bars": bars, "words": f"Scores, and how many cases have them: {words}"}
