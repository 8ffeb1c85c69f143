"""Tables in a terminal: findings by tool, agents side by side, and the comparison of two evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolgrade._internal.text import join_first, number_text, plural, printable, shorten
from toolgrade.report.comparison import CaseChange, CaseGap, Comparison, MetricComparison
from toolgrade.report.overview import TrendPoint
from toolgrade.report.redaction import redact
from toolgrade.report.report import Report
from toolgrade.report.terminal.console import FIRST_COLUMN, WORD_STYLES, Name, Screen, alarm, interval_cell, make_table
from toolgrade.report.text.agent_table import AgentOutcome, AgentTable, GoldenRow
from toolgrade.report.text.breakdown import changes_by_tool, problem_rows
from toolgrade.report.text.headline import changes_text, title_with_date
from toolgrade.report.text.phrases import WORD_TEXTS, broken_runs_note, comparison_cells, one_line, p_legend
from toolgrade.report.text.slices import MOST_SLICES, SLICE_COLUMNS, Slice, rate_text, slice_cells
from toolgrade.result import ResultStatus

_MOST_TOOLS = 15
_NAMES = 3
_LONGEST_NAME = 48


def print_tools(screen: Screen, report: Report) -> None:
    """Print the tools that have findings, those of most cases first; nothing without findings."""
    rows = problem_rows(report)
    if rows:
        screen.blank()
        _print_table(screen, "findings of all metrics", rows, "(the HTML report has all tools)")


def _print_regressions_by_tool(screen: Screen, comparison: Comparison) -> None:
    """Print the cases that became worse by the tool and the kind of their first finding."""
    changes = [change for metric in comparison.metrics for change in metric.regressions]
    rows: list[tuple[str, int, str]] = []
    for tool, kind, cases in changes_by_tool(changes):
        names = join_first([one_line(change.label, FIRST_COLUMN) for change in cases], _NAMES)
        rows.append((tool or "-", len(cases), f"{kind or 'no finding'}: {names}"))
    if rows:
        screen.line("\npassed in A, failed in B, by tool", "bold")
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
    is_narrow = screen.width < FIRST_COLUMN + _CELL * len(agents)
    if is_narrow:
        _print_metric_lines(screen, agents, table)
    else:
        rows = [(_title(row.title, row.threshold), ["\n".join(cell) for cell in row.cells]) for row in table.metrics]
        screen.print(_agent_columns(screen.width, "metric", agents, rows))
    if not quiet:
        listed = table.goldens[: limit or None]
        screen.blank()
        screen.line(table.golden_title, "bold", indent=1)
        if is_narrow:
            _print_golden_lines(screen, agents, listed)
        else:
            goldens = [(_name(row), list(map(_outcome_cell, row.cells))) for row in listed]
            screen.print(_agent_columns(screen.width, "golden", agents, goldens))
        screen.more(len(table.goldens) - len(listed), "(--limit 0 lists all)")
    screen.blank()
    screen.line(table.legend, "dim", indent=1)


def _title(metric: str, threshold: float) -> str:
    return f"{printable(redact(metric))} (threshold={threshold:g})"


def _name(row: GoldenRow) -> str:
    return one_line(redact(row.name), _LABEL)


def _outcome_cell(cell: AgentOutcome) -> Text:
    text = "FAILED" if cell.text == "failed" else cell.text
    return Text(text, WORD_STYLES[cell.word] if cell.word else "dim")


def _agent_columns(
    width: int, first: str, agents: Sequence[str], rows: Iterable[tuple[str, Sequence[str | Text]]]
) -> Table:
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
        texts = [Text.assemble(f"{name}: ", _outcome_cell(cell)) for name, cell in zip(agents, row.cells, strict=True)]
        screen.print(Text("; ").join(texts), indent=3)


def print_slices(screen: Screen, field: str, parts: Sequence[Slice]) -> None:
    """Print the pass rates of the values of a field."""
    screen.blank()
    rows = [(redact(part.name) or "-", slice_cells(part)) for part in parts[:MOST_SLICES]]
    table = make_table(*SLICE_COLUMNS[1:], first=f"by {printable(field)}")
    table.expand = False
    for name, cells in rows:
        table.add_row(Name(one_line(name, _LABEL)), *cells)
    screen.print(table)
    screen.more(len(parts) - len(rows), "(the HTML report has all)")


def print_trend(screen: Screen, points: Sequence[TrendPoint]) -> None:
    """Print three or more evaluations, a line each; two are compared already."""
    if len(points) <= _FEWEST_POINTS:
        return
    screen.line("\nTrend", "bold")
    for point in points:
        gate = "passed" if point.passed else "FAILED"
        figures = f"{rate_text(point.cases)} of {plural(point.cases.cases, 'case')} passed"
        screen.line(f"{point.name} {point.date}  {gate}: {figures}", indent=1)
        screen.lines(filter(None, [point.change]), "dim", indent=3)


_FEW = 10
_WIDE = 80
_FEWEST_POINTS = 2
_MAX_NAMES = 3
_TEXT = 200


def print_comparison(comparison: Comparison, *, limit: int = 20, console: Console | None = None) -> None:
    """Print how two evaluations differ, with their names in `about_a` and `about_b`.

    Args:
        comparison: The comparison.
        limit: Maximum number of regressions, and of improvements, listed for each metric; 0 for all.
        console: Where to print; standard output by default.
    """
    screen = Screen(console)
    sides = (("A", comparison.about_a, comparison.verdict_a), ("B", comparison.about_b, comparison.verdict_b))
    for name, about, verdict in sides:
        screen.line(f"{name}  {title_with_date(about, 'results')}: {plural(verdict.cases, 'case')}", "bold")
        screen.line(verdict.counts_text, indent=3)
    screen.line(f"{plural(comparison.in_both, 'case')} in both: {changes_text(comparison.outcomes)}.")
    screen.blank()
    _print_metrics(screen, comparison)
    _print_regressions_by_tool(screen, comparison)
    for metric in comparison.metrics:
        name = f"{printable(metric.metric)}: " if len(comparison.metrics) > 1 else ""
        heading = f"{name}{plural(len(metric.regressions), 'case')} passed in A, failed in B"
        _print_changes(screen, metric.regressions, Text(heading, "bold red"), "B", limit)
        heading = f"{name}{plural(len(metric.improvements), 'case')} failed in A, passed in B"
        _print_changes(screen, metric.improvements, Text(heading, "bold green"), "A", limit)
    screen.blank()
    screen.lines(filter(None, (*_column_key(comparison), broken_runs_note(comparison))), "dim")
    screen.lines((*_caveats(comparison), *map(printable, comparison.notes)))


def _print_metrics(screen: Screen, comparison: Comparison) -> None:
    """Print the figures of each metric; where nine columns have no room, below its name."""
    if screen.width >= _WIDE:
        screen.print(_table(comparison))
        return
    for metric in comparison.metrics:
        pairs, mean_a, mean_b, difference, interval, worse, better, p_value = comparison_cells(metric)
        screen.line(printable(metric.metric), "bold")
        within = "" if interval == "-" else f" ({interval})"
        screen.line(f"mean of {pairs} pairs: {mean_a} in A, {mean_b} in B; {difference}{within}", indent=2)
        screen.line(f"{worse} worse, {better} better, p {p_value}", indent=2)


def _table(comparison: Comparison) -> Table:
    interval = f"{comparison.confidence * 100:g} % interval"
    columns = ("pairs", "A", "B", "B - A", interval, "worse", "better", "p")
    table = make_table(*columns, first="metric", padding=(0, 0, 0, 1))
    for metric in comparison.metrics:
        names = dict.fromkeys((printable(metric.metric), printable(metric.metric_b)))
        pairs, mean_a, mean_b, difference, interval, _, better, p_value = comparison_cells(metric)
        table.add_row(
            Name(" -> ".join(names)),
            Text(pairs, style="yellow" if metric.unscored else ""),
            *(mean_a, mean_b, difference),
            interval_cell(interval, metric.interval),
            alarm(len(metric.regressions)),
            Text(better, style="green" if metric.improvements else ""),
            p_value,
        )
    return table


def _print_changes(screen: Screen, changes: Sequence[CaseChange], heading: Text, failed: str, limit: int) -> None:
    """Print the cases that changed one way, with both scores and the first finding; nothing without any."""
    if not changes:
        return
    screen.blank()
    screen.print(heading)
    table = make_table("A", "B", first="case", last=f"first finding in {failed}")
    listed = changes[: limit or None]
    for change in listed:
        label, finding = Name(one_line(change.label, FIRST_COLUMN)), Text(one_line(change.finding or "", _TEXT))
        table.add_row(label, number_text(change.score_a), number_text(change.score_b), finding)
    screen.print(table)
    screen.more(len(changes) - len(listed), "(--limit 0 lists all)")


def _column_key(comparison: Comparison) -> Iterator[str]:
    unit = "ids, each with all its cases" if comparison.repeated else "single cases"
    yield f"A, B: mean scores of the pairs. interval: of B - A, by {comparison.resamples:,} resamples of {unit}."
    yield p_legend(comparison)


def _caveats(comparison: Comparison) -> Iterator[str]:
    yield from map(one_line, _loss_texts(comparison))
    for side, cases in (("A", comparison.only_a), ("B", comparison.only_b)):
        if cases:
            yield f"{plural(len(cases), 'case')} ({_few(cases)}) {_are(cases)} only in {side}, and not compared"
    for side, metrics in (("A", comparison.metrics_only_a), ("B", comparison.metrics_only_b)):
        if metrics:
            yield f"{', '.join(map(printable, metrics))} {_are(metrics)} only in {side}, and not compared"
    for metric in comparison.metrics:
        yield from (f"{printable(metric.metric)}: {text}" for text in _metric_caveats(metric))


def _gap_texts(metric: MetricComparison) -> Iterator[str]:
    """Yield the cases that have a score on one side at most, by their outcomes; lost scores first."""
    gaps: dict[str, list[CaseGap]] = {}
    for gap in sorted(metric.unscored, key=lambda gap: not gap.lost):
        outcomes = f"{_outcome(gap.passed_a, gap.status_a)} in A, {_outcome(gap.passed_b, gap.status_b)} in B"
        gaps.setdefault(outcomes, []).append(gap)
    for outcomes, cases in gaps.items():
        reason = f": {one_line(cases[0].reason, _TEXT)}" if cases[0].reason else ""
        yield f"{plural(len(cases), 'case')} {outcomes} ({_few([gap.label for gap in cases])}){reason}"


def _loss_texts(comparison: Comparison) -> Iterator[str]:
    """Yield the cases that passed in A and did not pass in B for another reason than a score."""
    for loss in comparison.losses[:_NAMES]:
        yield f"{one_line(loss.label, FIRST_COLUMN)}: passed in A, {WORD_TEXTS[loss.outcome_b]} in B: {loss.reason}"
    if len(comparison.losses) > _NAMES:
        yield f"and {len(comparison.losses) - _NAMES:,} more cases passed in A alone"


def _metric_caveats(metric: MetricComparison) -> Iterator[str]:
    yield from _gap_texts(metric)
    interval = metric.interval
    if not metric.paired:
        yield "no case has a score in both"
    elif interval is None:
        yield "no interval, since all pairs are of one id"
    elif interval.low == interval.high:
        yield "all pairs differ by the same amount, which tells nothing about cases that were not run"
    elif interval.clusters < _FEW:
        yield f"{interval.clusters:,} ids: with so few, the interval is a rough guess"
    if metric.warned_a or metric.warned_b:
        yield f"{metric.warned_a:,} results of A and {metric.warned_b:,} of B have warnings, which their reports list"


def _outcome(passed: bool | None, status: ResultStatus) -> str:
    names = {ResultStatus.SCORED: "passed" if passed else "failed", ResultStatus.ERRORED: "not measured"}
    return names.get(status, status.value)


def _are(things: Sequence[str]) -> str:
    return "is" if len(things) == 1 else "are"


def _few(names: Sequence[str]) -> str:
    return join_first([one_line(name, 2 * FIRST_COLUMN) for name in names], _MAX_NAMES)
