"""How everything is printed in a terminal: how wide, and without blanks at the end of lines."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

NARROW = 60
"""Columns below which tables have no room for their cells, so that these stand below each other."""
_WIDTH = 80
_WIDEST = 120


def make_console(file: TextIO | None = None) -> Console:
    """Return a console for a stream: as wide as the terminal up to 120 columns, 80 in a pipe."""
    stream = file or sys.stdout
    probe = Console(file=stream)
    width = min(probe.width, _WIDEST) if probe.is_terminal else _WIDTH
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


class _Trimmed:
    """Anything that can be printed, without the blanks that fill its lines up to the width of the console."""

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


def print_trimmed(console: Console, renderable: RenderableType) -> None:
    """Print something without blanks at the end of its lines."""
    console.print(_Trimmed(renderable))
