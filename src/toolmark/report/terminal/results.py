"""Reports and single results in a terminal: 80 columns are enough, and pipes get plain text."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolmark._internal.text import plural, printable
from toolmark.cases import AnyCase
from toolmark.report.redaction import redact_entry
from toolmark.report.report import CaseResult, Report
from toolmark.report.terminal.console import NARROW, make_console, make_table, print_line, print_more, print_trimmed
from toolmark.report.terminal.summary_table import print_summary
from toolmark.report.terminal.tool_table import print_tools
from toolmark.report.text.first_problem import first_problem
from toolmark.report.text.ordering import Entry, Verdict, result_verdict, worst_first
from toolmark.report.text.phrases import number_or_dash, one_line, score_text
from toolmark.report.text.side_by_side import Mark, Row, rows
from toolmark.result import MetricResult

_LABEL = 72
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
_VERDICTS: dict[Verdict, tuple[str, str]] = {
    "error": ("error", "bold red"),
    "failed": ("FAILED", "bold red"),
    "passed": ("passed", "green"),
    "skipped": ("skipped", "dim"),
}
_KEYS = (
    "= same  ~ differs  < out of order  - not called  + not expected",
    "c2: the second call made  e2: the second expected",
)


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
    """Print a report: one line per case, worst first; the worst ones side by side; the findings by tool; the totals.

    Secrets are redacted with the default rules.

    Args:
        report: The report.
        title: A heading, such as a file name.
        limit: Maximum number of cases listed; 0 for all.
        details: Maximum number of cases shown side by side; only cases that lost score are.
        quiet: Print only the totals.
        full: List all cases, and show every result side by side and in full, those that passed too.
        console: Where to print; standard output by default.
    """
    console = console or make_console()
    heading = f"{printable(title)}: {plural(len(report.cases), 'case')}{' (interrupted)' if report.interrupted else ''}"
    print_line(console, heading if quiet else f"{heading}, worst first", "bold")
    if not quiet:
        entries = sorted(report.results(), key=worst_first)
        _print_metrics(console, report.metrics, entries, 0 if full else limit)
        _print_details(console, entries if full else _worst_per_case(entries)[:details], full=full)
        print_tools(console, report)
        console.print()
    print_summary(console, report)


def _print_metrics(console: Console, metrics: Sequence[str], entries: Sequence[Entry], limit: int) -> None:
    """Print the results of each metric, below its name if there are several."""
    for name in metrics:
        if len(metrics) > 1:
            print_line(console, f"\n{printable(name)}", "bold")
        _print_cases(console, [entry for entry in entries if entry[1].metric == name], limit)


def print_result(result: MetricResult, case: AnyCase, console: Console | None = None) -> None:
    """Print one result: its reason, and expected and called calls side by side.

    Secrets are redacted with the default rules.

    Args:
        result: The result.
        case: The case it was measured on.
        console: Where to print; standard output by default.
    """
    entry, result = redact_entry((CaseResult(0, case, ()), result))
    _print_result(console or make_console(), result, case, entry.case.id or entry.case.name or "case")


def result_text(result: MetricResult, case: AnyCase, label: str, *, width: int = 80, colour: bool = False) -> str:
    """Return a redacted result as `print_result` prints it, by default at 80 columns and without colours."""
    file = StringIO()
    console = Console(
        file=file,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
    )
    _print_result(console, result, case, label)
    return file.getvalue().rstrip("\n")


def _print_result(console: Console, result: MetricResult, case: AnyCase, label: str) -> None:
    _print_entry(console, label, case, result)
    for text in result.warnings:
        print_line(console, f"note: {one_line(text, _REASON)}", indent=1)


def _worst_per_case(entries: Sequence[Entry]) -> list[Entry]:
    """Return the worst result of each case that lost score, in their order."""
    worst: dict[int, Entry] = {}
    for case, result in entries:
        if result.score is not None and result.score != 1 and result.findings:
            worst.setdefault(case.index, (case, result))
    return list(worst.values())


def _print_cases(console: Console, entries: Sequence[Entry], limit: int) -> None:
    """Print a line for each result of one metric; in a narrow console, lines below each other."""
    table = make_table("score", "", first="case", last="first problem")
    is_narrow = console.width < NARROW
    listed = entries[: limit or None]
    for case, result in map(redact_entry, listed):
        label, score, problem = one_line(case.label, _LABEL), number_or_dash(result.score), first_problem(result)
        if is_narrow:
            print_trimmed(console, Text.assemble(_verdict(result), f" {score} ", label), indent=1)
            print_line(console, problem, indent=3)
        else:
            table.add_row(Text(label), score, _verdict(result), Text(problem))
    if not is_narrow:
        print_trimmed(console, table)
    print_more(console, len(entries) - len(listed), "(--limit 0 lists all)")


def _verdict(result: MetricResult) -> Text:
    word, style = _VERDICTS[result_verdict(result)]
    return Text(word, style=style, justify="left")


def _print_details(console: Console, entries: Sequence[Entry], *, full: bool) -> None:
    for case, result in map(redact_entry, entries):
        console.print()
        _print_entry(console, case.label, case.case, result, full=full)
    if any(result.alignment is not None for _, result in entries):
        console.print()
        for line in _KEYS:
            print_line(console, line, "dim", indent=1)


def _print_entry(console: Console, label: str, case: AnyCase, result: MetricResult, *, full: bool = False) -> None:
    """Print a redacted result: its verdict, its reason, and both sides, or its findings if it has no alignment."""
    name = (one_line(label, _LABEL), "bold")
    print_trimmed(console, Text.assemble(name, "  ", printable(result.metric), "  ", _verdict(result)))
    reason = result.reason or score_text(result)
    print_line(console, one_line(reason.split("\n", 1)[0], _REASON), indent=1)
    lines = rows(result, case)
    listed = lines if full else lines[:_ROWS]
    if listed:
        print_trimmed(console, _call_table(listed), indent=1)
    print_more(console, len(lines) - len(listed), "lines (all calls are in the JSON report)")
    if result.alignment is None:
        findings = result.findings if full else result.findings[:_FINDINGS]
        for finding in findings:
            print_line(console, one_line(finding.message), indent=1)
        print_more(console, len(result.findings) - len(findings), "(all of them are in the JSON report)")


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
