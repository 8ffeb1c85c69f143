"""Reports in a terminal: 80 columns are enough, pipes get plain text, and data is never obeyed.

Everything that came out of a trace passes `visible` first, and is handed to rich as text, never as markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from toolmark._text import count, number, shorten, shown, visible
from toolmark.cases import AnyCase
from toolmark.report._comparison_table import print_comparison
from toolmark.report._console import make_console, print_trimmed
from toolmark.report._report import CaseResult, MetricSummary, Report
from toolmark.report._rows import Mark, Row, rows
from toolmark.report._validity_table import print_validity
from toolmark.result import Finding, MetricResult, ResultStatus, hidden

__all__ = [
    "CaseProgress",
    "make_console",
    "print_comparison",
    "print_report",
    "print_result",
    "print_validity",
    "result_text",
]

_LABEL = 24
_WARNINGS = 3
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

Entry = tuple[CaseResult, MetricResult]


def print_report(
    report: Report, *, title: str, limit: int = 20, details: int = 3, console: Console | None = None
) -> None:
    """Print a report: the cases, worst first; the worst ones side by side; the totals.

    Args:
        report: What to print.
        title: What was scored, such as a file name.
        limit: Cases listed at most; 0 for all.
        details: Cases shown side by side at most; only such as lost score.
        console: Where to print; standard output by default.
    """
    console = console or make_console()
    print_trimmed(console, Text(f"{visible(title)}: {count(len(report.cases), 'case')}, worst first", style="bold"))
    entries = sorted(report.results(), key=_worst_first)
    for name in report.metrics:
        if len(report.metrics) > 1:
            print_trimmed(console, Text(f"\n{visible(name)}", style="bold"))
        mine = [entry for entry in entries if entry[1].metric == name]
        listed = mine[: limit or None]
        print_trimmed(console, _case_table(listed))
        if len(listed) < len(mine):
            print_trimmed(console, Text(f" ... and {len(mine) - len(listed)} more (--limit 0 lists all)", style="dim"))
    worst = {case.index: (case, result) for case, result in reversed(entries) if _lost(result)}
    shown_entries = sorted(worst.values(), key=_worst_first)[:details]
    for case, result in shown_entries:
        console.print()
        _print_entry(console, case.label, case.case, result)
    if any(result.alignment is not None for _, result in shown_entries):
        print_trimmed(console, Text(f"\n {_MARK_KEY}", style="dim"))
    console.print()
    print_trimmed(console, _total_table(report.summaries))
    _print_warnings(console, report)


def _print_warnings(console: Console, report: Report) -> None:
    warned: dict[str, list[str]] = {}
    for case, result in report.results():
        for text in result.warnings:
            warned.setdefault(text, []).append(case.label)
    if not warned:
        return
    amount = sum(bool(result.warnings) for _, result in report.results())
    print_trimmed(
        console, Text(f" {count(amount, 'result')} with warnings (incomplete recordings or parts not judged):")
    )
    for text, labels in list(warned.items())[:_WARNINGS]:
        more = f" (and {len(labels) - 1} more)" if len(labels) > 1 else ""
        line = f"- {shorten(visible(labels[0]), _LABEL)}{more}: {shorten(visible(text), 300)}"
        print_trimmed(console, Padding(Text(line), (0, 0, 0, 2)))
    if len(warned) > _WARNINGS:
        print_trimmed(console, Text(f"  ... and {len(warned) - _WARNINGS} more (all of them are in the JSON report)"))


def print_result(result: MetricResult, case: AnyCase, console: Console | None = None, label: str | None = None) -> None:
    """Print one result: the sum, expected and called side by side, the reason's notes."""
    console = console or make_console()
    _print_entry(console, label or case.id or case.name or "case", case, result)
    for text in result.warnings:
        print_trimmed(console, Padding(Text(f"note: {visible(text)}"), (0, 0, 0, 1)))


def result_text(result: MetricResult, case: AnyCase, label: str) -> str:
    """Return what `print_result` prints, at 80 columns and without colours, wherever it is going to be shown."""
    text = StringIO()
    console = Console(
        file=text, width=80, force_terminal=False, color_system=None, markup=False, highlight=False, emoji=False
    )
    print_result(result, case, console, label)
    return text.getvalue().rstrip("\n")


def _worst_first(entry: Entry) -> tuple[int, float, int]:
    """Order: what could not be measured, then by score, then as given; skipped cases last."""
    case, result = entry
    if result.status is ResultStatus.FAILED:
        return 0, 0.0, case.index
    if result.score is None:
        return 2, 0.0, case.index
    return 1, result.score, case.index


def _lost(result: MetricResult) -> bool:
    return result.status is ResultStatus.SCORED and bool(result.findings) and result.score != 1


def _verdict(result: MetricResult) -> Text:
    if result.passed is None:
        skipped = result.status is ResultStatus.SKIPPED
        return Text("skipped" if skipped else "error", style="dim" if skipped else "bold red")
    return Text("passed", style="green") if result.passed else Text("FAILED", style="bold red")


def _first_problem(result: MetricResult) -> Text:
    if result.findings:
        first, *others = result.findings
        return Text(shorten(_brief(first), 100) + (f" (+{len(others)})" if others else ""))
    if result.status is ResultStatus.SCORED:
        return Text("")
    text = result.reason or result.error or ""
    if result.status is ResultStatus.SKIPPED:
        text = text.split("\n", 1)[0]  # its notes stand below, with all warnings
    return Text(shorten(visible(text).removeprefix("Not measured: "), 200))


def _brief(finding: Finding) -> str:
    """Return a finding in a few words: the sentence of the reason without its positions."""
    tool = visible(finding.tool)
    whole = {
        "missing": "not called",
        "unexpected": "not expected",
        "out_of_order": "out of order",
        "unknown_tool": "not available",
        "wrong_tool": "not the right tool",
        "wrong_arguments": "wrong arguments",
        "missing_call": "needed, not called",
        "not_judged": "not judged",
        "invalid_schema": "a schema that cannot be used",
        "redundant": "called again for nothing",
        "loop": "loops",
        "over_budget": "over budget",
        "failed_call": "failed",
        "abandoned": "failed, not tried again",
        "repeated": "failed, tried again unchanged",
        "forbidden": "forbidden",
        "not_approved": "not approved",
        "too_early": "too early",
    }
    if finding.kind in whole:
        return f"{whole[finding.kind]}: {tool or ('(all calls)' if finding.kind == 'over_budget' else '(a call)')}"
    place = visible(finding.path or "").removeprefix("$.").removeprefix("input_parameters.")
    values = {
        "missing_argument": "is missing",
        "extra_argument": "not expected",
        "not_compared": "not recorded",
        "schema_violation": "does not fit the schema",
        "forbidden_argument": "has a forbidden value",
    }
    called, expected = (hidden(value, finding.path) for value in (finding.called_value, finding.expected_value))
    text = values.get(finding.kind) or f"{shown(called, 24)}, not {shown(expected, 24)}"
    return f"{tool}: {place} {text}"


def _case_table(entries: Sequence[Entry]) -> Table:
    table = Table(box=None, pad_edge=True, show_edge=False, header_style="bold", expand=True)
    table.add_column("case", no_wrap=True, overflow="ellipsis", max_width=_LABEL)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("first problem", overflow="fold", ratio=1)
    for case, result in entries:
        score = "-" if result.score is None else number(result.score)
        label = shorten(visible(case.label), _LABEL)
        table.add_row(Text(label), Text(score), _verdict(result), _first_problem(result))
    return table


def _print_entry(console: Console, label: str, case: AnyCase, result: MetricResult) -> None:
    name = shorten(visible(label), 2 * _LABEL)
    print_trimmed(console, Text.assemble((name, "bold"), "  ", visible(result.metric), "  ", _verdict(result)))
    if result.reason:
        print_trimmed(console, Padding(Text(visible(result.reason.split("\n", 1)[0])), (0, 0, 0, 1)))
    elif result.score is not None:
        print_trimmed(console, Text(f" score {number(result.score)}"))
    lines = rows(result, case)
    if lines:
        print_trimmed(console, Padding(_call_table(lines[:_ROWS]), (0, 0, 0, 1)))
    if len(lines) > _ROWS:
        print_trimmed(
            console, Text(f" ... and {len(lines) - _ROWS} more lines (all calls are in the JSON report)", style="dim")
        )
    if result.alignment is None:  # nothing stands side by side, so what was found is told in words
        for finding in result.findings[:_FINDINGS]:
            print_trimmed(console, Padding(Text(shorten(visible(finding.message), 300)), (0, 0, 0, 1)))
        if len(result.findings) > _FINDINGS:
            more = len(result.findings) - _FINDINGS
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


def _total_table(summaries: Sequence[MetricSummary]) -> Table:
    table = Table(box=None, pad_edge=True, show_edge=False, header_style="bold", expand=True)
    table.add_column("metric", overflow="fold", ratio=1)
    for name in ("mean", "passed", "failed", "skipped", "errors"):
        table.add_column(name, justify="right", no_wrap=True)
    for summary in summaries:
        mean = "-" if summary.mean is None else number(summary.mean)
        failed = Text(str(summary.failed), style="bold red" if summary.failed else "")
        errored = Text(str(summary.errored), style="bold red" if summary.errored else "")
        title = Text(f"{visible(summary.metric)} (threshold={summary.threshold:g})")
        table.add_row(title, Text(mean), str(summary.passed), failed, str(summary.skipped), errored)
    return table


class CaseProgress(Progress):
    """A progress bar over cases, on standard error; a context manager."""

    def __init__(self, total: int) -> None:
        """Prepare the bar for so many cases."""
        columns = (TextColumn("scoring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        super().__init__(*columns, console=Console(stderr=True), transient=True)
        self._cases = self.add_task("scoring", total=total)

    def advance_one(self) -> None:
        """Move the bar by one case."""
        self.advance(self._cases)

    def show(self, done: int, of: int) -> None:
        """Move the bar to so many of so many."""
        self.update(self._cases, completed=done, total=of)
