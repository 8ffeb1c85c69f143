"""Tables in a terminal: findings by tool, and agents side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from toolgrade._internal.text import join_first, printable, shorten
from toolgrade.report.comparison import CaseChange
from toolgrade.report.redaction import redact
from toolgrade.report.report import Report
from toolgrade.report.terminal.console import FIRST_COLUMN, NARROW, VERDICT_STYLES, Name, Screen, make_table
from toolgrade.report.text.agent_table import AgentTable, AgentVerdict, GoldenRow
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


_CELL = 17
"""Columns that an agent needs beside others."""
_LABEL = 72


def print_agents(screen: Screen, table: AgentTable, *, quiet: bool, limit: int) -> None:
    """Print the metrics by agent, and up to `limit` goldens (0 for all) unless `quiet`.

    Agents stand beside each other if there is room, else below each other.
    """
    agents = [one_line(redact(name), _LABEL) for name in table.agents]
    is_narrow = screen.width < max(NARROW, FIRST_COLUMN + _CELL * len(agents))
    if is_narrow:
        _print_metric_lines(screen, agents, table)
    else:
        rows = [(_title(row.title, row.threshold), ["\n".join(cell) for cell in row.cells]) for row in table.metrics]
        screen.print(_table(screen.width, "metric", agents, rows))
    if not quiet:
        listed = table.goldens[: limit or None]
        screen.blank()
        screen.line(table.golden_title, "bold", indent=1)
        if is_narrow:
            _print_golden_lines(screen, agents, listed)
        else:
            goldens = [(_name(row), list(map(_outcome, row.cells))) for row in listed]
            screen.print(_table(screen.width, "golden", agents, goldens))
        screen.more(len(table.goldens) - len(listed), "(--limit 0 lists all)")
    screen.blank()
    screen.line(table.legend, "dim", indent=1)


def _title(metric: str, threshold: float) -> str:
    return f"{printable(redact(metric))} (threshold={threshold:g})"


def _name(row: GoldenRow) -> str:
    return one_line(redact(row.name), _LABEL)


def _outcome(cell: AgentVerdict) -> Text:
    text = "FAILED" if cell.text == "failed" else cell.text
    return Text(text, VERDICT_STYLES[cell.verdict] if cell.verdict else "dim")


def _table(width: int, first: str, agents: Sequence[str], rows: Iterable[tuple[str, Sequence[str | Text]]]) -> Table:
    """Return a table with a column for each agent; all of its tables have the same columns."""
    room = (width - FIRST_COLUMN - 2) // len(agents) - 2
    table = Table(box=None, show_edge=False, header_style="bold", expand=True, padding=(0, 1))
    table.add_column(first, overflow="fold", ratio=1)
    for name in agents:
        table.add_column(Text(name, overflow="fold"), overflow="fold", width=min(room, FIRST_COLUMN))
    for title, cells in rows:
        table.add_row(Name(title), *cells)
    return table


def _print_metric_lines(screen: Screen, agents: Sequence[str], table: AgentTable) -> None:
    for row in table.metrics:
        screen.line(_title(row.title, row.threshold), "bold", indent=1)
        for name, cell in zip(agents, row.cells, strict=True):
            screen.line(f"{name}: {'; '.join(cell)}", indent=3)


def _print_golden_lines(screen: Screen, agents: Sequence[str], rows: Iterable[GoldenRow]) -> None:
    for row in rows:
        screen.line(_name(row), indent=1)
        texts = [Text.assemble(f"{name}: ", _outcome(cell)) for name, cell in zip(agents, row.cells, strict=True)]
        screen.print(Text("; ").join(texts), indent=3)
