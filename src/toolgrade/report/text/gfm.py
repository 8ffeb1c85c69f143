"""GitHub-flavoured Markdown of limited size that cannot be injected into.

Data is printed only as code: between backticks, between fences, or in the HTML element `code`. There neither the format
nor GitHub's own processing reads markup, links, mentions (`@name`) or references (`#12`). The rest is fixed text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import accumulate, takewhile

from toolgrade._internal.text import plural, printable

RESERVED = 1_000
"""Bytes reserved for the note that lists what was left out."""


def code(text: str) -> str:
    """Return data as a code span, on one line; empty for an empty text."""
    plain = printable(text)
    if not plain:
        return ""
    fence = "`" * (_longest_run(plain) + 1)
    # Renderers strip one blank on either side, unless the text is all blanks.
    pad = " " if plain.strip(" ") and plain.strip("` ") != plain else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def html_code(text: str) -> str:
    """Return data as the HTML element `code`, for places inside HTML, where Markdown is not parsed."""
    return f"<code>{escape(printable(text))}</code>" if text else ""


def fenced(text: str) -> str:
    """Return lines of data as a block between fences longer than any run of backticks in it."""
    lines = "\n".join(map(printable, text.split("\n")))
    fence = "`" * max(3, _longest_run(lines) + 1)
    return f"{fence}text\n{lines}\n{fence}"


def folded(summary: str, body: str) -> str:
    """Return Markdown that unfolds when its summary, which is HTML, is clicked; without a summary the body itself."""
    if not summary:
        return body
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


class Page:
    """Markdown that grows block by block up to a size in bytes of UTF-8, and counts what did not fit."""

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
        """Add a table with as many of its rows as fit.

        `align` has a letter for each column, `l` or `r`; `what` names a row in the singular. With a summary the table
        is folded below it.
        """
        rule = table_line("--:" if letter == "r" else "---" for letter in align)
        top = f"{table_line(header)}\n{rule}\n"
        self._add_lines(top, list(map(table_line, rows)), what, summary)

    def add_list(self, lines: Sequence[str], *, what: str, title: str = "") -> None:
        """Add a list below a title, with as many of its lines as fit; nothing if it is empty."""
        self._add_lines(f"{title}\n\n" if title else "", lines, what)

    def _add_lines(self, top: str, lines: Sequence[str], what: str, summary: str = "") -> None:
        fitting = max(self.fitting([folded(summary, top), *lines]) - 1, 0)
        if fitting:
            self.add(folded(summary, top + "\n".join(lines[:fitting])))
        self.leave_out(what, len(lines) - fitting)

    def fitting(self, blocks: Sequence[str]) -> int:
        """Return how many of these blocks fit, from the first on."""
        sums = accumulate(map(_size, blocks))
        return sum(1 for _ in takewhile(lambda size: size <= self._left, sums))

    def room_beside(self, blocks: Iterable[str]) -> int:
        """Return how many bytes are left after these blocks."""
        return self._left - sum(map(_size, blocks))

    def leave_out(self, what: str, amount: int) -> None:
        """Count what did not fit."""
        if amount > 0:
            self._missing[what] = self._missing.get(what, 0) + amount

    def text(self) -> str:
        """Return the page, with a note after its second block if anything was left out."""
        blocks = list(self._blocks)
        if self._missing:
            missing = ", ".join(plural(amount, what) for what, amount in self._missing.items())
            blocks.insert(2, f"> **Cut** to {self._max_bytes} bytes, without {missing}. The JSON report has all.")
        return "\n\n".join(blocks) + "\n"


def _size(block: str) -> int:
    return len(block.encode("utf-8", "backslashreplace")) + 2


def table_line(cells: Iterable[str]) -> str:
    """Return a line of a table; every pipe is escaped, since a table is split into cells before code is parsed."""
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
