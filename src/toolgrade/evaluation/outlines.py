"""Outlines of rows, so that the report of many cases needs little memory: only the worst are whole."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from heapq import nsmallest
from operator import attrgetter
from typing import Any, Final

from toolgrade.cases import LLMTestCase
from toolgrade.evaluation.rows import Row
from toolgrade.report.report import error_of
from toolgrade.report.text.ordering import severity
from toolgrade.result import Finding, MetricResult

_ROOM: Final = 500
"""Whole rows in memory, beside the worst, before the others become outlines."""

_EMPTY_CASE: Final = LLMTestCase()

_COUNTED: Final = ("kind", "tool", "expected", "called", "turn", "path")
"""Fields of a finding by which it is counted."""
_values_of: Final = attrgetter(*_COUNTED)


class WorstRows:
    """Rows in the order in which they were added, of which the `full` worst by each metric are whole; 0 for all.

    A report that shows at most `full` cases by each metric looks the same, and needs a fraction of the memory.
    """

    def __init__(self, full: int) -> None:
        self.rows: list[Row] = []
        self._full = full
        self._whole: list[int] = []
        # Many rows have equal outlines, which are stored once.
        self._outlines: dict[Hashable, tuple[MetricResult, ...]] = {}
        self._reported: set[str] = set()

    def add(self, row: Row) -> None:
        """Add a row; one that is an outline already is one of a part, with which it shares its results."""
        if row.is_outline:
            row = row._replace(results=self._shared(row.results))
        elif self._full and row.results:
            self._whole.append(len(self.rows))
        self.rows.append(row)
        if len(self._whole) > _ROOM + 4 * self._full * len(row.results):
            self.trim()

    def trim(self) -> None:
        """Replace the rows that are not among the worst by their outlines."""
        worst = self._worst()
        for place in self._whole:
            if place not in worst:
                self.rows[place] = self._outline(self.rows[place])
        self._whole = sorted(worst)

    def _worst(self) -> set[int]:
        """Return the positions of the worst rows by each metric, of the worst ones with findings, and of the error."""
        worst: set[int] = set()
        results = {place: self.rows[place].results for place in self._whole}
        for metric in range(max(map(len, results.values()), default=0)):
            # Results without a score come first among the worst, but only results with findings are shown side by side.
            for group in (self._whole, [place for place in self._whole if results[place][metric].findings]):
                worst.update(nsmallest(self._full, group, key=lambda place: severity(results[place][metric])))
            errors = [(text, place) for place in self._whole if (text := error_of(results[place][metric]))]
            worst.update(place for _, place in nsmallest(1, errors))  # the one that a summary shows
        return worst

    def _outline(self, row: Row) -> Row:
        """Return a row without what makes it large.

        The case of the first row with a warning keeps its id and name, since a report names it.
        """
        texts = {text for result in row.results for text in result.warnings}
        case = _EMPTY_CASE
        if not texts <= self._reported:
            case = LLMTestCase(id=row.case.id, name=row.case.name)
            self._reported |= texts
        return row._replace(case=case, results=self._shared(row.results), is_outline=True)

    def _shared(self, results: Sequence[MetricResult]) -> tuple[MetricResult, ...]:
        """Return outlines of results. Of findings their kinds, tools and places stay, which are counted."""
        places = tuple(tuple(map(_values_of, one.findings)) for one in results)
        key = (places, tuple((one.status, one.score, one.passed, one.warnings) for one in results))
        if key not in self._outlines:
            self._outlines[key] = tuple(map(_outline, results, places))
        return self._outlines[key]


def _outline(result: MetricResult, places: Sequence[Sequence[Any]]) -> MetricResult:
    dropped: dict[str, Any] = {"reason": None, "error": None, "parts": {}, "alignment": None}
    findings = tuple(Finding(message="", **dict(zip(_COUNTED, values, strict=True))) for values in places)
    return replace(result, findings=findings, **dropped)
