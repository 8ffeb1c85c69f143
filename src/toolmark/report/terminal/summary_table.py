"""End of a report in a terminal: the totals of each metric, its trials, flaky goldens, and warnings."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolmark._internal.text import plural, printable
from toolmark.report.redaction import redact
from toolmark.report.report import MetricSummary, Report, TrialSummary
from toolmark.report.terminal.console import NARROW, alarm, make_table, print_line, print_trimmed
from toolmark.report.text.ordering import group_warnings
from toolmark.report.text.phrases import (
    CHANCES,
    INTERRUPTED,
    INTERVALS,
    chances,
    estimates,
    first_few,
    flaky_text,
    judging,
    one_line,
    optional,
)

_LABEL = 24
_WARNINGS = 3
_FLAKY = 20


def print_summary(console: Console, report: Report) -> None:
    """Print the totals over all results."""
    summaries = report.summaries
    if report.interrupted:
        print_line(console, INTERRUPTED, "bold red", indent=1)
    if console.width < NARROW:
        for summary in summaries:
            _print_stacked(console, summary)
    else:
        table = make_table("mean", "passed", "failed", "skipped", "errors")
        for one in summaries:
            counts = (str(one.passed), alarm(one.failed), str(one.skipped), alarm(one.errored))
            table.add_row(Text(_title(one)), optional(one.mean), *counts)
        print_trimmed(console, table)
    _print_estimates(console, summaries)
    _print_trials(console, report.trial_summaries)
    _print_warnings(console, report)


def _title(summary: MetricSummary) -> str:
    return f"{printable(summary.metric)} (threshold={summary.threshold:g})"


def _print_stacked(console: Console, summary: MetricSummary) -> None:
    """Print the totals of a metric below its name."""
    print_line(console, _title(summary), "bold", indent=1)
    failed, errored = alarm(summary.failed), alarm(summary.errored)
    counts = Text.assemble(
        f"mean {optional(summary.mean)}, {summary.passed} passed, ",
        (f"{failed} failed", failed.style),
        f", {summary.skipped} skipped, ",
        (plural(summary.errored, "error"), errored.style),
    )
    print_trimmed(console, counts, indent=2)


def _print_estimates(console: Console, summaries: Sequence[MetricSummary]) -> None:
    """Print intervals and the cost of judging, for the metrics that have them."""
    lines = [[text for text in (estimates(summary), judging(summary)) if text] for summary in summaries]
    if not any(lines):
        return
    console.print()
    for summary, texts in zip(summaries, lines, strict=True):
        _print_block(console, summary.metric if len(summaries) > 1 else "", texts)
    if any(summary.mean_interval or summary.rate_interval for summary in summaries):
        print_line(console, INTERVALS, "dim", indent=1)


def _print_block(console: Console, metric: str, texts: Sequence[str]) -> None:
    """Print lines below the name of their metric; the name is empty if there is only one metric."""
    if metric and texts:
        print_line(console, printable(metric), indent=1)
    for text in texts:
        print_line(console, text, indent=3 if metric else 1)


def _print_trials(console: Console, summaries: Sequence[TrialSummary]) -> None:
    """Print the chances that one or all of k trials pass, and the flaky goldens."""
    for trials in summaries:
        console.print()
        amount = f"{plural(trials.trials, 'trial')} of each of {plural(trials.goldens, 'golden')}"
        _print_block(console, trials.metric if len(summaries) > 1 else "", [amount])
        table = Table(box=None, pad_edge=True, show_edge=False, header_style="bold")
        for title in ("k", "pass@k", "pass^k", "goldens"):
            table.add_column(title, justify="right", no_wrap=True)
        for row in chances(trials):
            table.add_row(*row)
        print_trimmed(console, table)
        if trials.flaky:
            names = first_few([redact(flaky_text(flaky)) for flaky in trials.flaky], _FLAKY)
            print_line(console, f"{len(trials.flaky)} flaky: {names}", "yellow", indent=1)
    if summaries:
        print_line(console, CHANCES, "dim", indent=1)
        console.print()


def _print_warnings(console: Console, report: Report) -> None:
    warnings = group_warnings(report)
    if not warnings:
        return
    amount = sum(bool(result.warnings) for _, result in report.results())
    heading = f"{plural(amount, 'result')} with warnings (incomplete recordings or parts not judged):"
    print_line(console, heading, indent=1)
    for text, cases in list(warnings.items())[:_WARNINGS]:
        more = f" (and {len(cases) - 1} more)" if len(cases) > 1 else ""
        label = one_line(redact(cases[0].label), _LABEL)
        print_line(console, f"- {label}{more}: {one_line(redact(text))}", indent=2)
    if len(warnings) > _WARNINGS:
        more = f"... and {len(warnings) - _WARNINGS} more (all of them are in the JSON report)"
        print_line(console, more, indent=2)
