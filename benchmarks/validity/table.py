"""What was measured, as data and as the table of docs/validity.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolmark import MetricValidity

BEGIN, END = "<!-- written by make validity -->\n", "<!-- to here -->\n"
COLUMNS = (
    "metric",
    "scored",
    "AUC",
    "95 % interval",
    "balanced accuracy",
    "mean, good runs",
    "mean, bad runs",
    "AUC where calls were expected",
)


def row_of(metric: MetricValidity, where_expected: MetricValidity) -> dict[str, Any]:
    """Return the row of one metric: on all runs, and on those of tasks that expect calls."""
    interval = metric.interval
    return {
        "name": metric.metric,
        "scored": metric.scored,
        "auc": metric.auc,
        "interval": None if interval is None else [interval.low, interval.high],
        "balanced": metric.balanced_accuracy,
        "means": [metric.mean_good, metric.mean_bad],
        "auc where expected": where_expected.auc,
    }


def markdown(results: dict[str, Any]) -> str:
    """Return the table as the page shows it, with one heading row for each library or family of metrics."""
    rule = ("---", *("--:" for _ in COLUMNS[1:]))
    body = [(f"**{cells[0]}**", *cells[1:]) if is_heading else cells for is_heading, cells in _rows(results)]
    lines = [f"| {' | '.join(cells)} |" for cells in (COLUMNS, rule, *body)]
    return "\n".join([*lines, "", below(results)]) + "\n"


def show(results: dict[str, Any], console: Console) -> None:
    """Write the table to a terminal."""
    table = Table(box=None)
    for number, column in enumerate(COLUMNS):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for is_heading, cells in _rows(results):
        table.add_row(*map(Text, cells), style="bold" if is_heading else "")
    console.print(table)
    console.print(below(results), markup=False, highlight=False)


def below(results: dict[str, Any]) -> str:
    """Return the measured runs and the versions."""
    about = results["about"]
    return (
        f"{about['cases']} runs of {about['tasks']} tasks, {about['good']} good; {about['versions']}. "
        f"Intervals: {about['resamples']} resamples of whole tasks, seed {about['seed']}."
    )


def _rows(results: dict[str, Any]) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """Yield the rows, and whether each is a heading."""
    for group in results["groups"]:
        empty = ("",) * (len(COLUMNS) - 1)
        yield True, (group["name"], *empty)
        yield from ((False, _cells(row)) for row in group["rows"])
        if not group["rows"]:
            yield False, (f"absent: {group['absent']}", *empty)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    within = "-" if row["interval"] is None else " - ".join(map(_short, row["interval"]))
    means = map(_short, row["means"])
    last = _short(row["auc where expected"])
    return row["name"], str(row["scored"]), _short(row["auc"]), within, _short(row["balanced"]), *means, last


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def section_of(page: Path) -> str:
    """Return the part of a page that is written here."""
    return page.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def write_section(page: Path, text: str, begin: str = BEGIN) -> None:
    """Replace the part of a page that is written here: between the lines `begin` and `END`."""
    before, begin_line, rest = page.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(END)
    if not begin_line or not ended:
        message = f"{page} has no place for the table: it needs the lines {begin.strip()} and {END.strip()}"
        raise ValueError(message)
    page.write_text(before + begin_line + text + ended + after, encoding="utf-8", newline="\n")
