"""Console, lines and tables of the terminal reports.

Text that came out of a trace passes `visible` or `one_line` before it gets here, and is handed to rich as text, never
as markup.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from toolgrade.report.text.phrases import Word
from toolgrade.stats import Interval

FIRST_COLUMN = 24
"""Columns of the name of a case in a table that has other texts."""
WORD_STYLES: dict[Word, str] = {
    "agent_error": "bold red",
    "failed": "bold red",
    "not_measured": "bold red",
    "skipped": "dim",
    "passed": "green",
}
_NARROWEST, _WIDTH, _WIDEST = 60, 80, 120


def make_console(file: TextIO | None = None) -> Console:
    """Return a console for a stream: as wide as the terminal, but from 60 to 120 columns; 80 in a pipe."""
    stream = file or sys.stdout
    probe = Console(file=stream)
    width = min(max(probe.width, _NARROWEST), _WIDEST) if probe.is_terminal else _WIDTH
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


class _Trimmed:
    """Anything printable, without the blanks that fill its lines up to the width."""

    def __init__(self, renderable: RenderableType) -> None:
        self.renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self.renderable, options, pad=False):
            while line and not line[-1].text.rstrip(" "):
                line.pop()
            if line:
                yield from line[:-1]
                yield Segment(line[-1].text.rstrip(" "), line[-1].style)
            yield Segment.line()


class Screen:
    """A console on which reports are printed, without blanks at the end of lines; standard output by default."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or make_console()

    @property
    def width(self) -> int:
        """Columns of the console."""
        return self._console.width

    def blank(self) -> None:
        """Print an empty line."""
        self._console.print()

    def print(self, renderable: RenderableType, *, indent: int = 0) -> None:
        """Print something indented."""
        self._console.print(_Trimmed(Padding(renderable, (0, 0, 0, indent)) if indent else renderable), crop=False)

    def line(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """Print one text, which is wrapped where it is too long; nothing if it is empty."""
        if text:
            self.print(Text(text, style=style), indent=indent)

    def lines(self, texts: Iterable[str], style: str = "", *, indent: int = 1) -> None:
        """Print several texts, each like `line`."""
        for text in texts:
            self.line(text, style, indent=indent)

    def more(self, amount: int, words: str, *, indent: int = 1) -> None:
        """Print how many more entries there are than were printed; nothing if there are none."""
        if amount > 0:
            self.line(f"... and {amount:,} more {words}", "dim", indent=indent)


_WORD_END = re.compile(r"(?<= )|(?<=[^ ]\()")
_PIECE_END = re.compile(r"(?<=[_.,=/-])")


class Name:
    """A name in a table, wrapped between words; a word that is longer than a line is wrapped after `_` and the like."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, Text(self._text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines: list[str] = []
        for piece in _pieces(self._text, options.max_width):
            if lines and cell_len(lines[-1] + piece.rstrip()) <= options.max_width:
                lines[-1] += piece
            else:
                lines.append(piece)
        yield Text("\n".join(map(str.rstrip, lines)), overflow="fold")


def _pieces(text: str, width: int) -> Iterator[str]:
    """Yield the words of a text; those that are longer than a line in parts."""
    for word in _WORD_END.split(text):
        yield from _PIECE_END.split(word) if cell_len(word.rstrip()) > width else [word]


def make_table(*numbers: str, first: str = "", last: str = "", **options: Any) -> Table:  # noqa: ANN401 - of rich
    """Return a table without a border, as wide as the console.

    Columns of numbers stand between the first and the last column, of which either may be left out. The last column
    takes the free room, or the first one if there is no other.
    """
    table = Table(box=None, show_edge=False, header_style="bold", expand=bool(first), **options)
    if first:
        room: dict[str, Any] = {"max_width": FIRST_COLUMN} if last else {"ratio": 1}
        table.add_column(first, overflow="fold", **room)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    if last:
        table.add_column(last, overflow="fold", ratio=1)
    return table


def alarm(amount: int) -> Text:
    """Return a number that is red unless it is 0."""
    return Text(f"{amount:,}", style="bold red" if amount else "")


def interval_cell(text: str, interval: Interval | None) -> Text:
    """Return the text of an interval of a difference, dim if it includes 0 and so shows nothing."""
    return Text(text, style="dim" if interval is not None and interval.low <= 0 <= interval.high else "")
