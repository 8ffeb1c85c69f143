"""Reports in a terminal: 80 columns are enough, pipes get plain text, and data is never obeyed.

Everything that came out of a trace passes `printable` first, and is handed to rich as text, never as markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from toolmark._internal.text import number_text, plural, printable, shorten
from toolmark.cases import AnyCase
from toolmark.redact import DEFAULT, Redactor
from toolmark.report.report import CaseResult, Report
from toolmark.report.terminal.comparison_table import print_comparison
from toolmark.report.terminal.console import NARROW, make_console, print_trimmed
from toolmark.report.terminal.summary_table import print_summary
from toolmark.report.terminal.validity_table import print_validity
from toolmark.report.text.first_problem import first_problem, words
from toolmark.report.text.ordering import Entry, worst_first
from toolmark.report.text.phrases import optional
from toolmark.report.text.side_by_side import Mark, Row, rows
from toolmark.result import Finding, MetricResult, ResultStatus

__all__ = [
    "make_console",
    "print_comparison",
    "print_report",
    "print_result",
    "print_validity",
    "result_text",
]

_LABEL = 24
_LONGEST_LABEL = 72
_REASON = 1000
_ROWS = 60
_FINDINGS = 10

_MARKS: dict[Mark, tuple[str, str]] = {
    "same": ("=", "dim"),
    "differs": ("~", "yellow"),
    "moved": ("<", "yellow"),
    "missing": ("-", "red"),
    "unexpected": ("+", "magenta"),
    "detail": ("", ""),
}
_MARK_KEY = "= same  ~ differs  < out of order  - not called  + not expected"
_PLACE_KEY = "c2: the second call made  e2: the second expected"


def print_report(
    report: Report,
    *,
    title: str,
    limit: int = 20,
    details: int = 3,
    quiet: bool = False,
    full: bool = False,
    console: Console | None = None,
) -> None:
    """Print a report: one line per case, worst first; the worst ones side by side; the totals.

    Args:
        report: What to print.
        title: What was scored, such as a file name.
        limit: Cases listed at most; 0 for all.
        details: Cases shown side by side at most; only such as lost score.
        quiet: Print the totals alone.
        full: List all cases, and show every result side by side and in full, those that passed too.
        console: Where to print; standard output by default.
    """
    console = console or make_console()
    amount = f"{printable(title)}: {plural(len(report.cases), 'case')}{' (interrupted)' if report.interrupted else ''}"
    print_trimmed(console, Text(amount if quiet else f"{amount}, worst first", style="bold"))
    if not quiet:
        entries = sorted(report.results(), key=worst_first)
        _print_cases(console, report.metrics, entries, limit=0 if full else limit)
        _print_details(console, entries if full else _worst(entries)[:details], full=full)
        console.print()
    print_summary(console, report)


def _print_cases(console: Console, metrics: Sequence[str], entries: Sequence[Entry], *, limit: int) -> None:
    for name in metrics:
        if len(metrics) > 1:
            print_trimmed(console, Text(f"\n{printable(name)}", style="bold"))
        mine = [entry for entry in entries if entry[1].metric == name]
        listed = mine[: limit or None]
        if console.width < NARROW:
            for case, result in listed:
                _print_stacked(console, case, result)
        else:
            print_trimmed(console, _case_table(listed))
        if len(listed) < len(mine):
            print_trimmed(console, Text(f" ... and {len(mine) - len(listed)} more (--limit 0 lists all)", style="dim"))


def _print_details(console: Console, entries: Sequence[Entry], *, full: bool) -> None:
    for case, result in entries:
        console.print()
        _print_entry(console, case.label, case.case, result, full=full)
    if any(result.alignment is not None for _, result in entries):
        console.print()
        for line in (_MARK_KEY, _PLACE_KEY):
            print_trimmed(console, Padding(Text(line, style="dim"), (0, 0, 0, 1)))


def print_result(result: MetricResult, case: AnyCase, console: Console | None = None, label: str | None = None) -> None:
    """Print one result: the sum, expected and called side by side, the reason's notes."""
    _print_result(console or make_console(), result, case, label or case.id or case.name or "case", DEFAULT)


def _print_result(console: Console, result: MetricResult, case: AnyCase, label: str, redactor: Redactor) -> None:
    _print_entry(console, label, case, result, redactor=redactor)
    for text in result.warnings:
        print_trimmed(console, Padding(Text(f"note: {words(text, _REASON, redactor)}"), (0, 0, 0, 1)))


def result_text(result: MetricResult, case: AnyCase, label: str, redactor: Redactor = DEFAULT) -> str:
    """Return what `print_result` prints, at 80 columns and without colours, wherever it is going to be shown."""
    text = StringIO()
    console = Console(
        file=text, width=80, force_terminal=False, color_system=None, markup=False, highlight=False, emoji=False
    )
    _print_result(console, result, case, label, redactor)
    return text.getvalue().rstrip("\n")


def _worst(entries: Sequence[Entry]) -> list[Entry]:
    """Return the worst result of each case that lost score, in their order."""
    worst = {case.index: (case, result) for case, result in reversed(entries) if _lost(result)}
    return sorted(worst.values(), key=worst_first)


def _lost(result: MetricResult) -> bool:
    return result.status is ResultStatus.SCORED and bool(result.findings) and result.score != 1


def _verdict(result: MetricResult) -> Text:
    if result.passed is None:
        skipped = result.status is ResultStatus.SKIPPED
        return Text("skipped" if skipped else "error", style="dim" if skipped else "bold red")
    return Text("passed", style="green") if result.passed else Text("FAILED", style="bold red")


def _case_table(entries: Sequence[Entry]) -> Table:
    table = Table(box=None, pad_edge=True, show_edge=False, header_style="bold", expand=True)
    table.add_column("case", overflow="fold", max_width=_LABEL)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("first problem", overflow="fold", ratio=1)
    for case, result in entries:
        table.add_row(_label(case.label), Text(optional(result.score)), _verdict(result), Text(first_problem(result)))
    return table


def _print_stacked(console: Console, case: CaseResult, result: MetricResult) -> None:
    """Print what a row of the table says, where its columns have no room."""
    line = Text.assemble(_verdict(result), f" {optional(result.score)} ", _label(case.label))
    print_trimmed(console, Padding(line, (0, 0, 0, 1)))
    problem = first_problem(result)
    if problem:
        print_trimmed(console, Padding(Text(problem), (0, 0, 0, 3)))


def _label(label: str) -> Text:
    return Text(shorten(printable(label), _LONGEST_LABEL))


def _print_entry(
    console: Console,
    label: str,
    case: AnyCase,
    result: MetricResult,
    *,
    full: bool = False,
    redactor: Redactor = DEFAULT,
) -> None:
    name = (shorten(printable(label), _LONGEST_LABEL), "bold")
    print_trimmed(console, Text.assemble(name, "  ", printable(result.metric), "  ", _verdict(result)))
    if result.reason:
        print_trimmed(console, Padding(Text(words(result.reason.split("\n", 1)[0], _REASON, redactor)), (0, 0, 0, 1)))
    elif result.score is not None:
        print_trimmed(console, Text(f" score {number_text(result.score)}"))
    lines = rows(result, case, redactor=redactor)
    listed = lines if full else lines[:_ROWS]
    if listed:
        print_trimmed(console, Padding(_call_table(listed), (0, 0, 0, 1)))
    if len(listed) < len(lines):
        more = len(lines) - len(listed)
        print_trimmed(console, Text(f" ... and {more} more lines (all calls are in the JSON report)", style="dim"))
    if result.alignment is None:  # nothing stands side by side, so what was found is told in words
        _print_findings(console, result.findings, full=full, redactor=redactor)


def _print_findings(console: Console, findings: Sequence[Finding], *, full: bool, redactor: Redactor) -> None:
    listed = findings if full else findings[:_FINDINGS]
    for finding in listed:
        print_trimmed(console, Padding(Text(words(finding.message, redactor=redactor)), (0, 0, 0, 1)))
    if len(listed) < len(findings):
        more = len(findings) - len(listed)
        print_trimmed(console, Text(f" ... and {more} more (all of them are in the JSON report)", style="dim"))


def _call_table(lines: Sequence[Row]) -> Table:
    digits = max(len(position) for row in lines for position in (row.expected_at, row.called_at))
    table = Table(box=None, padding=(0, 1, 0, 0), show_edge=False, header_style="dim", expand=True)
    table.add_column("", no_wrap=True, width=1)
    for side in ("expected", "called"):
        table.add_column("", no_wrap=True, width=digits + 1, justify="right")
        table.add_column(side, overflow="fold", ratio=1)
    for row in lines:
        mark, style = _MARKS[row.mark]
        cells = (mark, row.expected_at, row.expected, row.called_at, row.called)
        table.add_row(*(Text(cell, style) for cell in cells))
    return table
