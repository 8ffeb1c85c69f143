"""Tables of findings by tool in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from toolgrade._internal.text import join_first, shorten
from toolgrade.report.comparison import CaseChange
from toolgrade.report.report import Report
from toolgrade.report.terminal.console import FIRST_COLUMN, Name, Screen, make_table
from toolgrade.report.text.breakdown import changes_by_tool, problem_rows
from toolgrade.report.text.phrases import one_line

_MOST_TOOLS = 15
_NAMES = 3
_LONGEST_NAME = 48


def print_tools(screen: Screen, report: Report) -> None:
    """Print the tools that have findings, those of most cases first; nothing without findings."""
    rows = problem_rows(report)
    if rows:
        screen.blank()
        _print_table(screen, "findings of all metrics", rows, "(the HTML report has all tools)")


def print_changes_by_tool(screen: Screen, changes: Sequence[CaseChange], heading: str) -> None:
    """Print cases that changed by the tool and the kind of their first finding, below a heading."""
    rows: list[tuple[str, int, str]] = []
    for tool, kind, cases in changes_by_tool(changes):
        names = join_first([one_line(change.label, FIRST_COLUMN) for change in cases], _NAMES)
        rows.append((tool or "-", len(cases), f"{kind or 'no finding'}: {names}"))
    if rows:
        screen.line(f"\n{heading}", "bold")
        _print_table(screen, "first finding", rows, "(the HTML report has all)")


def _print_table(screen: Screen, last: str, rows: Sequence[tuple[str, int, str]], hint: str) -> None:
    """Print tools with their number of cases and some words."""
    table = make_table("cases", first="tool", last=last)
    table.columns[0].max_width = max(FIRST_COLUMN, screen.width // 2)
    for tool, cases, words in rows[:_MOST_TOOLS]:
        table.add_row(Name(shorten(tool, _LONGEST_NAME)), f"{cases:,}", Text(words))
    screen.print(table)
    screen.more(len(rows) - _MOST_TOOLS, hint)
