"""Totals on the page: the cases by outcome, and where they go wrong."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from toolgrade._internal.text import printable
from toolgrade.report.report import Report
from toolgrade.report.text.breakdown import Matrix, ToolLine, ToolTable, breakdowns, tool_matrix
from toolgrade.verdict import OUTCOME_WORDS

_WIDTH = 1000
"""Width of the bar of all cases, in units of its SVG image."""
_MOST_LINES = 50
_SHADES = 5
_BREAKS = re.compile(r"(?<=[_.(/-])")


def segments(report: Report) -> list[dict[str, Any]]:
    """Return the parts of the bar that divides all cases by outcome.

    A part has its `outcome`, the `amount` of cases and its `words`, and its start `at` and `width` in a bar that is
    1000 wide.
    """
    verdict = report.verdict
    parts: list[dict[str, Any]] = []
    at = 0.0
    for outcome, words in OUTCOME_WORDS.items():
        amount = verdict.counts[outcome]
        width = amount / max(verdict.cases, 1) * _WIDTH
        parts.append(
            {
                "outcome": outcome,
                "words": words + ("s" if outcome == "agent_error" and amount != 1 else ""),
                "amount": amount,
                "at": round(at, 1),
                "width": round(width, 1),
            }
        )
        at += width
    return parts


class ProblemPlace(NamedTuple):
    """A place where cases go wrong: its number on the page, its name, and the first of its cases on the page."""

    number: int
    name: str
    cases: int
    first: int


class Places:
    """The tables of where a report goes wrong, and their places, by which the page filters its cases.

    Only places with a case on the page have a number; the others are `None`.

    Attributes:
        tools: Lines of the table of tools with their places, at most 50.
        arguments: Lines of the table of arguments with their places, at most 50.
        turns: Lines of the table of turns of conversations with their places, at most 50.
        matrix: Rows of the matrix: the expected tool, and its cells (see `_cell`).
        groups: The places by the table that they are in.
    """

    def __init__(self, report: Report, on_page: Iterable[int]) -> None:
        """Compute the tables of a redacted report of which some cases are on the page."""
        self._on_page = frozenset(on_page)
        self._numbers: defaultdict[int, list[int]] = defaultdict(list)
        titles = ("Tools", "Arguments", "Turns", "Expected and called tools")
        self.groups: dict[str, list[ProblemPlace]] = {title: [] for title in titles}
        self.tool_table, self.argument_table, self.turn_table = breakdowns(report)
        self.tools = self._lines("Tools", self.tool_table)
        self.arguments = self._lines("Arguments", self.argument_table)
        self.turns = self._lines("Turns", self.turn_table)
        matrix = tool_matrix(report) or Matrix((), (), 0)
        self.called, self.hidden_tools = matrix.called, matrix.hidden
        self.matrix: list[tuple[str, list[dict[str, Any]]]] = []
        for expected, cells in matrix.rows:
            total = sum(map(len, cells))
            row = [self._cell(expected, called, cases, total) for called, cases in zip(self.called, cells, strict=True)]
            self.matrix.append((expected, row))

    def of(self, case: int) -> list[int]:
        """Return the numbers of the places of a case."""
        return self._numbers[case]

    def _lines(self, group: str, table: ToolTable) -> list[tuple[ToolLine, ProblemPlace | None]]:
        lines: list[tuple[ToolLine, ProblemPlace | None]] = []
        for line in table.lines[:_MOST_LINES]:
            name = f"{line.tool}({line.argument})" if line.argument else line.tool
            lines.append((line, self._add_place(group, name, line.cases)))
        return lines

    def _cell(self, expected: str, called: str, cases: Sequence[int], total: int) -> dict[str, Any]:
        """Return a cell of the matrix: the `amount` of calls, their `share` of the row, `is_right`, and the `place`.

        `cases` has the case of each call of the cell, so that a case may occur several times.
        """
        if not expected:
            name = f"{called} not expected"
        elif not called:
            name = f"{expected} not called"
        else:
            name = f"{called} in place of {expected}"
        is_right = expected == called
        place = None if is_right else self._add_place("Expected and called tools", name, sorted(set(cases)))
        return {"amount": len(cases), "share": len(cases) / total, "is_right": is_right, "place": place}

    def _add_place(self, group: str, name: str, cases: Sequence[int]) -> ProblemPlace | None:
        """Add a place where these cases go wrong and number it; `None` if none of the cases is on the page."""
        listed = [case for case in cases if case in self._on_page]
        if not listed:
            return None
        number = sum(map(len, self.groups.values()))
        for case in listed:
            self._numbers[case].append(number)
        place = ProblemPlace(number, printable(name), len(cases), listed[0])
        self.groups[group].append(place)
        return place


def shade(share: float) -> str:
    """Return the class of a cell for a share in [0, 1]: `s1` for the lowest fifth to `s5`; empty for 0."""
    return f"s{min(ceil(share * _SHADES), _SHADES)}" if share > 0 else ""


def breakable(name: str) -> Markup:
    """Return a name in HTML that lines break first after its punctuation, such as underscores and dots."""
    return Markup("<wbr>").join(escape(part) for part in _BREAKS.split(printable(name)))
