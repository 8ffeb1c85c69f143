"""GitHub-flavoured Markdown in which data stays data, and that ends where a size ends.

Data stands in code alone: between backticks, between fences, or in the HTML element `code`. In none of them is
anything read as markup, as a link, as a mention (`@name`) or as a reference (`#12`), neither by the format nor by what
GitHub does to a page afterwards. Elsewhere stand words of our own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import accumulate, takewhile

from toolmark._internal.text import plural, printable

RESERVED = 1_000
"""Bytes kept free for the note that says what was left out."""


def code(text: str) -> str:
    """Return data as a code span, on one line; nothing of an empty text."""
    plain = printable(text)
    if not plain:
        return ""
    fence = "`" * (_longest_run(plain) + 1)
    # One blank on either side is taken off again, unless there is nothing but blanks.
    pad = " " if plain.strip(" ") and plain.strip("` ") != plain else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def html_code(text: str) -> str:
    """Return data as the HTML element `code`, for places where HTML stands and Markdown is not read."""
    return f"<code>{escape(printable(text))}</code>" if text else ""


def fenced(text: str) -> str:
    """Return lines of data as a block between fences longer than any row of backticks in it."""
    lines = "\n".join(map(printable, text.split("\n")))
    fence = "`" * max(3, _longest_run(lines) + 1)
    return f"{fence}text\n{lines}\n{fence}"


def folded(summary: str, body: str) -> str:
    """Return Markdown that is shown when its summary, which is HTML, is clicked."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


class Page:
    """Markdown that grows block by block, as long as there is room; what had none is counted.

    Args:
        max_bytes: Bytes of UTF-8 that the whole page may take.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = max_bytes - RESERVED
        self._blocks: list[str] = []
        self._missing: dict[str, int] = {}

    def add(self, block: str) -> bool:
        """Add a block if there is room, and return whether there was."""
        size = _size(block)
        if size > self._left:
            return False
        self._left -= size
        self._blocks.append(block)
        return True

    def add_table(
        self, header: Sequence[str], align: str, rows: Iterable[Sequence[str]], *, what: str, summary: str = ""
    ) -> None:
        """Add a table with as many of its rows as there is room for.

        Args:
            header: Titles of the columns.
            align: A letter for each column: `l` or `r`.
            rows: Their cells, which are Markdown.
            what: What a row is, in the singular.
            summary: Fold the table, and show this text of our own in its place.
        """
        lines = [table_line(row) for row in rows]
        top = f"{table_line(header)}\n{table_line(['--:' if letter == 'r' else '---' for letter in align])}"
        around = folded(summary, top) if summary else top
        fitting = self.fitting([around, *lines]) - 1
        if fitting > 0:
            table = "\n".join([top, *lines[:fitting]])
            self.add(folded(summary, table) if summary else table)
        self.leave_out(what, len(lines) - max(fitting, 0))

    def add_list(self, lines: Sequence[str], *, what: str, title: str = "") -> None:
        """Add a list, below a title, with as many of its lines as there is room for; nothing of an empty one."""
        top = f"{title}\n\n" if title else ""
        fitting = self.fitting([top, *lines]) - 1
        if fitting > 0:
            self.add(top + "\n".join(lines[:fitting]))
        self.leave_out(what, len(lines) - max(fitting, 0))

    def fitting(self, blocks: Sequence[str]) -> int:
        """Return how many of these blocks, from the first on, there is room for."""
        sums = accumulate(map(_size, blocks))
        return sum(1 for _ in takewhile(lambda size: size <= self._left, sums))

    def room_beside(self, blocks: Iterable[str]) -> int:
        """Return how many bytes are left when these blocks are added."""
        return self._left - sum(map(_size, blocks))

    def leave_out(self, what: str, amount: int) -> None:
        """Count what there was no room for."""
        if amount > 0:
            self._missing[what] = self._missing.get(what, 0) + amount

    def text(self) -> str:
        """Return the page, with a note behind its second block if anything was left out."""
        blocks = list(self._blocks)
        if self._missing:
            told = ", ".join(plural(amount, what) for what, amount in self._missing.items())
            blocks.insert(2, f"> **Cut** to {self._max_bytes} bytes, without {told}. The JSON report has all.")
        return "\n\n".join(blocks) + "\n"


def _size(block: str) -> int:
    return len(block.encode("utf-8", "backslashreplace")) + 2


def table_line(cells: Iterable[str]) -> str:
    """Return a line of a table. A table is cut into cells before code is looked for, so that no pipe may be bare."""
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
