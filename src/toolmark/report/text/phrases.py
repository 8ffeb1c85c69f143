"""The numbers of a report in words, as the terminal, Markdown and JUnit all say them. What is not known is not said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolmark._internal.text import hundredths_text, number_text, plural, printable, shorten
from toolmark.report.report import Flaky, MetricSummary, Report, TrialSummary

INTERRUPTED = "Interrupted: stopped before all cases were measured. All numbers are of what was done until then."
INTERVALS = "In brackets: 95 % intervals."
CHANCES = "pass@k: at least one of k trials passes. pass^k: all k do. goldens: those with k scored trials."

_ALL_K = 10
_SOME_K = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500)
_NAME = 60


def verdict(report: Report) -> str:
    """Return what became of all results: `12 passed, 3 failed, 1 not measured, 2 skipped`."""
    summaries = report.summaries
    parts = [f"{sum(one.passed for one in summaries)} passed", f"{sum(one.failed for one in summaries)} failed"]
    for amount, what in (
        (sum(one.errored for one in summaries), "not measured"),
        (sum(one.skipped for one in summaries), "skipped"),
    ):
        if amount:
            parts.append(f"{amount} {what}")
    return ", ".join(parts)


def passed_word(report: Report) -> str:
    """Return one word for the whole report: `failed`, `passed`, or `interrupted` where nothing failed so far."""
    if not report.passed:
        return "failed"
    return "interrupted" if report.interrupted else "passed"


def optional(value: float | None) -> str:
    """Return a score or a share; `-` where there is none."""
    return "-" if value is None else number_text(value)


def within(interval: tuple[float, float] | None) -> str:
    """Return an interval: `0.31 to 0.69`; empty where there is none."""
    return "" if interval is None else f"{hundredths_text(interval[0])} to {hundredths_text(interval[1])}"


def with_interval(value: float | None, interval: tuple[float, float] | None) -> str:
    """Return a number with its interval: `0.5 (0.31 to 0.69)`; `-` where there is none."""
    return f"{optional(value)} ({within(interval)})" if interval is not None else optional(value)


def estimates(summary: MetricSummary) -> str | None:
    """Return the mean and the share of cases that passed, with their intervals; `None` where no interval is known."""
    if summary.mean_interval is None and summary.rate_interval is None:
        return None
    mean = with_interval(summary.mean, summary.mean_interval)
    return f"mean {mean}, pass rate {with_interval(summary.rate, summary.rate_interval)}"


def judging(summary: MetricSummary) -> str | None:
    """Return how much a judge decided and what that took; `None` where none was asked."""
    if summary.coverage is None and not summary.usage and summary.cost is None:
        return None
    parts: list[str] = []
    if summary.coverage is not None:
        parts.append(f"{optional(summary.coverage)} of its questions decided")
    if "requests" in summary.usage:
        parts.append(plural(summary.usage["requests"], "request"))
    tokens = [summary.usage[name] for name in ("input_tokens", "output_tokens") if name in summary.usage]
    if tokens:
        parts.append(plural(sum(tokens), "token"))
    parts.append("cost not known" if summary.cost is None else f"cost {number_text(summary.cost)}")
    return f"judge: {', '.join(parts)}"


def steps(summary: TrialSummary) -> list[int]:
    """Return for which numbers of trials the chances are shown: each, or some of many, and always the last."""
    if summary.trials <= _ALL_K:
        return list(range(1, summary.trials + 1))
    return sorted({*(k for k in _SOME_K if k < summary.trials), summary.trials})


def chances(summary: TrialSummary) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each number of trials: k, pass@k, pass^k, and over how many goldens."""
    for k in steps(summary):
        at, hat = summary.pass_at.get(k), summary.pass_hat.get(k)
        yield str(k), optional(at), optional(hat), str(summary.counted.get(k, 0))


def flaky_text(flaky: Flaky) -> str:
    """Return a golden with how many of its trials passed: `refund (3 of 5 passed)`."""
    return f"{shorten(printable(flaky.name), _NAME)} ({flaky.passed} of {flaky.scored} passed)"


def listed(texts: Sequence[str], limit: int) -> str:
    """Return the first of some texts with commas, and how many more there are."""
    more = f" and {len(texts) - limit} more" if len(texts) > limit else ""
    return ", ".join(texts[:limit]) + more
