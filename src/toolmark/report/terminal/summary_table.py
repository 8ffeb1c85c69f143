"""End of a report in a terminal: the totals of each metric, its trials, flaky goldens, and warnings."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from toolmark._internal.text import join_first, plural, printable
from toolmark.report.redaction import redact
from toolmark.report.report import MetricSummary, Report, TrialSummary
from toolmark.report.terminal.console import NARROW, alarm, make_table, print_line, print_more, print_trimmed
from toolmark.report.text import phrases
from toolmark.report.text.phrases import number_or_dash, one_line
from toolmark.report.text.warning_kinds import warning_kinds

_LABEL = 24
_WARNINGS = 5
_MAX_FLAKY = 20


def print_summary(console: Console, report: Report) -> None:
    """Print the totals over all results, and why cases could not be measured."""
    summaries = report.summaries
    if report.interrupted:
        print_line(console, phrases.INTERRUPTED, "bold red", indent=1)
    table = make_table("mean", "passed", "failed", "skipped", "errors", first="metric")
    for one in summaries:
        title = f"{printable(one.metric)} (threshold={one.threshold:g})"
        failed, errored = alarm(one.failed), alarm(one.errored)
        if console.width >= NARROW:
            passed, skipped = f"{one.passed:,}", f"{one.skipped:,}"
            table.add_row(Text(title), number_or_dash(one.mean), passed, failed, skipped, errored)
            continue
        counts = Text.assemble(
            f"mean {number_or_dash(one.mean)}, {one.passed:,} passed, ",
            (f"{failed} failed", failed.style),
            f", {one.skipped:,} skipped, ",
            (plural(one.errored, "error"), errored.style),
        )
        print_line(console, title, "bold", indent=1)
        print_trimmed(console, counts, indent=2)
    if console.width >= NARROW:
        print_trimmed(console, table)
    for one in summaries:
        if one.error is not None:
            print_line(console, f"{plural(one.errored, 'error')} of {printable(one.metric)}{one.why}", indent=1)
    _print_estimates(console, summaries)
    _print_trials(console, report.trial_summaries)
    _print_warnings(console, report)


def _print_estimates(console: Console, summaries: Sequence[MetricSummary]) -> None:
    """Print intervals and the cost of judging, for the metrics that have them."""
    lines = [
        (summary, list(filter(None, (phrases.estimates_text(summary), phrases.judging_text(summary)))))
        for summary in summaries
    ]
    if any(texts for _, texts in lines):
        console.print()
        for summary, texts in lines:
            _print_block(console, summary.metric if len(summaries) > 1 else "", texts)
    if any(map(phrases.estimates_text, summaries)):
        print_line(console, phrases.INTERVALS, "dim", indent=1)


def _print_block(console: Console, metric: str, texts: Sequence[str]) -> None:
    """Print lines below the name of their metric; the name is empty if there is only one metric."""
    if texts:
        print_line(console, printable(metric), indent=1)
    for text in texts:
        print_line(console, text, indent=3 if metric else 1)


def _print_trials(console: Console, summaries: Sequence[TrialSummary]) -> None:
    """Print the chances that one or all of k trials pass, and the flaky goldens."""
    for trials in summaries:
        console.print()
        amount = f"{plural(trials.trials, 'trial')} of each of {plural(trials.goldens, 'golden')}"
        _print_block(console, trials.metric if len(summaries) > 1 else "", [amount])
        table = make_table("k", "pass@k", "pass^k", "goldens")
        for row in phrases.pass_at_k_rows(trials):
            table.add_row(*row)
        print_trimmed(console, table)
        if trials.flaky:
            names = join_first(
                [redact(phrases.flaky_text(flaky)) for flaky in trials.flaky], _MAX_FLAKY, count_rest=True
            )
            print_line(console, f"{len(trials.flaky)} flaky: {names}", "yellow", indent=1)
    if summaries:
        print_line(console, phrases.PASS_AT_K_LEGEND, "dim", indent=1)
        console.print()


def _print_warnings(console: Console, report: Report) -> None:
    kinds = warning_kinds(report)
    if not kinds:
        return
    amount = sum(bool(result.warnings) for _, result in report.results())
    heading = f"{plural(amount, 'result')} with warnings (incomplete recordings or parts not judged):"
    print_line(console, heading, indent=1)
    for kind in kinds[:_WARNINGS]:
        label = one_line(redact(kind.cases[0].label), _LABEL)
        more = f" and {len(kind.cases) - 1:,} more" if len(kind.cases) > 1 else ""
        print_line(console, f"- {one_line(redact(kind.title))} ({label}{more})", indent=2)
    print_more(console, len(kinds) - _WARNINGS, "kinds (the HTML and JSON reports have all)", indent=2)
