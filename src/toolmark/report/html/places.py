"""Tools, arguments and mistaken tools of a report, each with a number by which the page finds its cases."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from toolmark._internal.text import printable
from toolmark.report.report import Report
from toolmark.report.text.breakdown import Line, Matrix, Table, breakdowns, tool_matrix

_MOST_LINES = 50
_SHADES = 5
_BREAKS = re.compile(r"(?<=[_.(/-])")


class Place(NamedTuple):
    """A place where cases go wrong: its number on the page, its name, and the first of its cases on the page.

    `tool` and `argument` are empty in the matrix.
    """

    number: int
    name: str
    cases: int
    first: int
    tool: str
    argument: str


class Places:
    """The tables of where a report goes wrong; a place of which no case is on the page has no number.

    Attributes:
        tools: Lines of the table of tools with their places, at most 50; a place is `None` without a case.
        arguments: Likewise of arguments.
        matrix: Rows of the matrix: the expected tool, and its cells, which are the number of calls, their share of the
            row, whether the right tool was called, and the place.
        groups: The places by what they are, for the filter of the page.
    """

    def __init__(self, report: Report, on_page: Iterable[int]) -> None:
        """Compute the tables of a redacted report of which some cases are on the page."""
        self._on_page = frozenset(on_page)
        self._numbers: defaultdict[int, list[int]] = defaultdict(list)
        self.groups: dict[str, list[Place]] = {"Tools": [], "Arguments": [], "Expected and called tools": []}
        self.tool_table, self.argument_table = breakdowns(report)
        self.tools = self._lines("Tools", self.tool_table)
        self.arguments = self._lines("Arguments", self.argument_table)
        matrix = tool_matrix(report) or Matrix((), (), 0)
        self.called, self.hidden_tools = matrix.called, matrix.hidden
        self.matrix: list[tuple[str, list[dict[str, Any]]]] = []
        for expected, cells in matrix.rows:
            total = sum(len(cases) for cases in cells)
            row = [self._cell(expected, *cell, total) for cell in zip(self.called, cells, strict=True)]
            self.matrix.append((expected, row))

    def of(self, case: int) -> list[int]:
        """Return the numbers of the places of a case."""
        return self._numbers[case]

    def _lines(self, group: str, table: Table) -> list[tuple[Line, Place | None]]:
        lines: list[tuple[Line, Place | None]] = []
        for line in table.lines[:_MOST_LINES]:
            name = f"{line.tool}({line.argument})" if line.argument else line.tool
            lines.append((line, self._place(group, name, line.cases, line.tool, line.argument)))
        return lines

    def _cell(self, expected: str, called: str, cases: Sequence[int], total: int) -> dict[str, Any]:
        """Return a cell of the matrix; `cases` has the case of each of its calls."""
        name = f"{called} in place of {expected}"
        if not called or not expected:
            name = f"{called} not expected" if called else f"{expected} not called"
        is_right = expected == called
        place = None if is_right else self._place("Expected and called tools", name, sorted({*cases}))
        return {"amount": len(cases), "share": len(cases) / total, "is_right": is_right, "place": place}

    def _place(self, group: str, name: str, cases: Sequence[int], tool: str = "", argument: str = "") -> Place | None:
        listed = [case for case in cases if case in self._on_page]
        if not listed:
            return None
        number = sum(map(len, self.groups.values()))
        for case in listed:
            self._numbers[case].append(number)
        place = Place(number, printable(name), len(cases), listed[0], tool, argument)
        self.groups[group].append(place)
        return place


def shade(share: float) -> str:
    """Return the class of a cell for a share in [0, 1]: `s1` for the lowest fifth to `s5`; empty for 0."""
    return f"s{min(ceil(share * _SHADES), _SHADES)}" if share > 0 else ""


def breakable(name: str) -> Markup:
    """Return a name that may be broken behind its underscores and dots, before it is broken elsewhere."""
    return Markup("<wbr>").join(escape(part) for part in _BREAKS.split(printable(name)))
