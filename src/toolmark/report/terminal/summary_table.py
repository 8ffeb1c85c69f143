"""The end of a report in a terminal: the sums of each metric, its trials, what is flaky, what makes it less sure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from toolmark._internal.text import plural, printable, shorten
from toolmark.report.report import MetricSummary, Report, TrialSummary
from toolmark.report.terminal.console import NARROW, print_trimmed
from toolmark.report.text.first_problem import words
from toolmark.report.text.phrases import (
    CHANCES,
    INTERRUPTED,
    INTERVALS,
    chances,
    estimates,
    flaky_text,
    judging,
    listed,
    optional,
)

_LABEL = 24
_WARNINGS = 3
_FLAKY = 20


def print_summary(console: Console, report: Report) -> None:
    """Print what all results sum up to."""
    if report.interrupted:
        _print_indented(console, INTERRUPTED, style="bold red")
    if console.width < NARROW:
        for summary in report.summaries:
            _print_stacked(console, summary)
    else:
        print_trimmed(console, _total_table(report.summaries))
    _print_figures(console, report.summaries)
    _print_trials(console, report.trial_summaries)
    _print_warnings(console, report)


def _total_table(summaries: Sequence[MetricSummary]) -> Table:
    table = Table(box=None, pad_edge=True, show_edge=False, header_style="bold", expand=True)
    table.add_column("metric", overflow="fold", ratio=1)
    for name in ("mean", "passed", "failed", "skipped", "errors"):
        table.add_column(name, justify="right", no_wrap=True)
    for summary in summaries:
        failed, errored = (Text(str(amount), _alarm(amount)) for amount in (summary.failed, summary.errored))
        title = Text(f"{printable(summary.metric)} (threshold={summary.threshold:g})")
        mean = Text(optional(summary.mean))
        table.add_row(title, mean, str(summary.passed), failed, str(summary.skipped), errored)
    return table


def _print_stacked(console: Console, summary: MetricSummary) -> None:
    """Print the sums of a metric below its name, where the columns of a table have no room."""
    _print_indented(console, f"{printable(summary.metric)} (threshold={summary.threshold:g})", style="bold")
    counts = Text.assemble(
        f"mean {optional(summary.mean)}, {summary.passed} passed, ",
        (f"{summary.failed} failed", _alarm(summary.failed)),
        f", {summary.skipped} skipped, ",
        (plural(summary.errored, "error"), _alarm(summary.errored)),
    )
    print_trimmed(console, Padding(counts, (0, 0, 0, 2)))


def _alarm(amount: int) -> str:
    return "bold red" if amount else ""


def _print_figures(console: Console, summaries: Sequence[MetricSummary]) -> None:
    """Print intervals, and what judging took, of the metrics that have them."""
    found = [(summary, [text for text in (estimates(summary), judging(summary)) if text]) for summary in summaries]
    if not any(texts for _, texts in found):
        return
    console.print()
    for summary, texts in found:
        _print_block(console, summary.metric if len(found) > 1 else "", texts)
    if any(summary.mean_interval or summary.rate_interval for summary in summaries):
        _print_indented(console, INTERVALS, style="dim")


def _print_block(console: Console, name: str, texts: Sequence[str]) -> None:
    """Print lines below a name, if they need one."""
    if name and texts:
        _print_indented(console, printable(name))
    for text in texts:
        _print_indented(console, text, by=3 if name else 1)


def _print_trials(console: Console, found: Sequence[TrialSummary]) -> None:
    """Print the chances that one or all of so many trials pass, and the goldens of which some did and some did not."""
    for trials in found:
        console.print()
        amount = f"{plural(trials.trials, 'trial')} of each of {plural(trials.goldens, 'golden')}"
        _print_block(console, trials.metric if len(found) > 1 else "", [amount])
        table = Table(box=None, pad_edge=True, show_edge=False, header_style="bold")
        for title in ("k", "pass@k", "pass^k", "goldens"):
            table.add_column(title, justify="right", no_wrap=True)
        for row in chances(trials):
            table.add_row(*map(Text, row))
        print_trimmed(console, table)
        if trials.flaky:
            names = listed([flaky_text(flaky) for flaky in trials.flaky], _FLAKY)
            _print_indented(console, f"{len(trials.flaky)} flaky: {names}", style="yellow")
    if found:
        _print_indented(console, CHANCES, style="dim")
        console.print()


def _print_warnings(console: Console, report: Report) -> None:
    warned: dict[str, list[str]] = {}
    for case, result in report.results():
        for text in result.warnings:
            warned.setdefault(text, []).append(case.label)
    if not warned:
        return
    amount = sum(bool(result.warnings) for _, result in report.results())
    _print_indented(console, f"{plural(amount, 'result')} with warnings (incomplete recordings or parts not judged):")
    for text, labels in list(warned.items())[:_WARNINGS]:
        more = f" (and {len(labels) - 1} more)" if len(labels) > 1 else ""
        _print_indented(console, f"- {shorten(printable(labels[0]), _LABEL)}{more}: {words(text)}", by=2)
    if len(warned) > _WARNINGS:
        _print_indented(console, f"... and {len(warned) - _WARNINGS} more (all of them are in the JSON report)", by=2)


def _print_indented(console: Console, text: str, *, style: str = "", by: int = 1) -> None:
    print_trimmed(console, Padding(Text(text, style=style), (0, 0, 0, by)))
