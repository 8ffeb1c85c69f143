"""Tables of findings by tool in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from toolmark._internal.text import join_first, shorten
from toolmark.report.comparison import CaseChange
from toolmark.report.report import Report
from toolmark.report.terminal.console import FIRST_COLUMN, make_table, print_line, print_more, print_trimmed
from toolmark.report.text.breakdown import breakdowns, changes_by_tool
from toolmark.report.text.phrases import one_line

_MOST_TOOLS = 15
_NAMES = 3
_LONGEST_NAME = 48


def print_tools(console: Console, report: Report) -> None:
    """Print the tools that have findings, those of most cases first; nothing without findings."""
    tools, _ = breakdowns(report)
    lines = [line for line in tools.lines if line.cases]
    if not lines:
        return
    console.print()
    table = make_table("cases", first="tool", last="findings of all metrics")
    table.columns[0].max_width = max(FIRST_COLUMN, console.width // 2)
    for line in lines[:_MOST_TOOLS]:
        table.add_row(Text(shorten(line.tool, _LONGEST_NAME)), f"{len(line.cases):,}", Text(tools.problems(line)))
    print_trimmed(console, table)
    print_more(console, len(lines) - _MOST_TOOLS, "(the HTML report has all tools)")


def print_changes_by_tool(console: Console, changes: Sequence[CaseChange], heading: str) -> None:
    """Print cases that changed by the tool and the kind of their first finding, below a heading."""
    rows = changes_by_tool(changes)
    if not rows:
        return
    print_line(console, f"\n{heading}", "bold")
    table = make_table("cases", first="tool", last="first finding")
    table.columns[0].max_width = max(FIRST_COLUMN, console.width // 2)
    for tool, kind, cases in rows[:_MOST_TOOLS]:
        names = join_first([one_line(change.label, FIRST_COLUMN) for change in cases], _NAMES)
        table.add_row(
            Text(shorten(tool, _LONGEST_NAME) or "-"), f"{len(cases):,}", Text(f"{kind or 'no finding'}: {names}")
        )
    print_trimmed(console, table)
    print_more(console, len(rows) - _MOST_TOOLS, "(the HTML report has all)")
