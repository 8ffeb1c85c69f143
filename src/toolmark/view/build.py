"""Writing of the index of one or two files of results, and the evaluation that its pages show."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from toolmark._internal.text import number_text, printable
from toolmark.analysis.comparison import Difference, compare, pair_cases
from toolmark.errors import ConfigurationError
from toolmark.report import CaseResult, Comparison, Report
from toolmark.report.redaction import redact
from toolmark.report.text.breakdown import argument_of, group_of
from toolmark.report.text.first_problem import case_problem
from toolmark.report.text.ordering import case_verdict, result_verdict, worst_case_first
from toolmark.result import MetricResult
from toolmark.stats.bootstrap import RESAMPLES
from toolmark.view.index import INDEXES, SCHEMA, Index, storable
from toolmark.view.results_file import CaseFacts, CasePlace, ResultsFile

_RESAMPLED_CASES = 10_000_000
"""Cases times resamples; the intervals of larger comparisons rest on fewer resamples, which take less time."""
_FEWEST_RESAMPLES = 200

_NUMBERS = re.compile(r"0*(\d+)", re.ASCII)


@dataclass(frozen=True)
class Evaluation:
    """What is shown, without secrets.

    Attributes:
        report: The report of the later file; its cases have no content.
        comparison: How it differs from the baseline, with the baseline as A; `None` without one.
        keys: The names of its cases in addresses, by their `index`.
        warnings: What was left out of the files.
    """

    report: Report
    comparison: Comparison | None
    keys: Mapping[int, str]
    warnings: list[str]


@dataclass
class _Case:
    """A case on its way into the database; see the table `cases`."""

    file: int
    position: int
    result: CaseResult
    """Redacted."""
    place: CasePlace
    id: int
    key: str | None = None
    change: str | None = None
    counterpart: _Case | None = None
    order: dict[str, int] = field(default_factory=dict[str, int])


def build_index(path: Path, now: ResultsFile, before: ResultsFile | None) -> tuple[Index, Evaluation]:
    """Read the files and write the index.

    Args:
        path: The database, a new file.
        now: The file whose cases are listed.
        before: The baseline.

    Raises:
        ConfigurationError: The files have no case or no metric in common, or SQLite has no full-text search.
        DataFileError: A file is not one of results, or parts of it are wrong.
        OSError: A file cannot be read.
    """
    connection = sqlite3.connect(path)
    try:
        # The database is written once and thrown away: nothing has to survive a crash.
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        try:
            connection.executescript(SCHEMA)
        except sqlite3.OperationalError as error:
            message = f"the SQLite of this Python must have full-text search (FTS5), got: {error}; use another Python"
            raise ConfigurationError(message) from None
        writer = _Writer(connection)
        cases, report, warnings = writer.read(0, now)
        comparison = None
        if before is not None:
            earlier, earlier_report, more = writer.read(1, before)
            comparison = _compare(earlier_report, report)
            _connect(earlier, earlier_report, cases, report, comparison)
            cases += earlier
            warnings += more
        _name(cases)
        _order(cases)
        writer.write(cases)
        connection.commit()
        connection.executescript(INDEXES)
    finally:
        connection.close()
    listed = [case for case in cases if case.file == 0]
    redacted = replace(redact(replace(report, cases=())), cases=tuple(case.result for case in listed))
    keys = {case.result.index: case.key for case in listed if case.key is not None}
    return Index(path, redacted.metrics), Evaluation(redacted, redact(comparison), keys, warnings)


class _Writer:
    """Writes the database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._count = 0

    def read(self, file: int, source: ResultsFile) -> tuple[list[_Case], Report, list[str]]:
        """Read a file and write the texts and tools of its cases; return the cases, the report and warnings."""
        first = self._count

        def collect(number: int, facts: CaseFacts) -> None:
            place = first + number
            self._insert("texts (rowid, text)", [(place, storable(facts.text))])
            self._insert("tools", [(storable(tool), place) for tool in facts.tools])

        light = source.read(collect)
        self._count += len(light.places)
        cases = [
            _Case(file, position, result, place, first + place.number)
            for position, (result, place) in enumerate(zip(_redacted(light.report.cases), light.places, strict=True))
        ]
        return cases, light.report, light.warnings

    def write(self, cases: Sequence[_Case]) -> None:
        """Write the cases, and what they can be filtered by."""
        for case in cases:
            self._insert("cases", [_row(case)])
            if case.key is None:
                continue
            self._insert("tags", [(storable(tag), case.id) for tag in {*redact(tuple(case.result.case.tags))}])
            findings = [one for result in case.result.own_results for one in result.findings]
            places = {(one.tool, group_of(one.kind), argument_of(one)) for one in findings}
            self._insert("findings", [(*map(storable, place), case.id) for place in places])
            self._insert("tools", [(storable(one.tool), case.id) for one in findings if one.tool])
            if case.file == 0:
                self._insert(
                    "results (metric, verdict, score, id)", [(*result, case.id) for result in _metric_rows(case.result)]
                )

    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)  # noqa: S608 - no data


def _metric_rows(case: CaseResult) -> Iterator[tuple[str, str, float | None]]:
    for result in case.own_results:
        yield storable(result.metric), result_verdict(result), result.score


def _row(case: _Case) -> tuple[Any, ...]:
    line = case.place.line
    before = case.counterpart.result if case.file == 0 and case.counterpart else None
    summary = [printable(case.result.label), case_problem(case.result), _cells(case.result), _cells(before)]
    return (
        case.id,
        case.file,
        case.position,
        *((None, None, None) if line is None else line),
        case.result.cluster,
        case.result.trial,
        case.key,
        case_verdict(case.result) if case.file == 0 else None,
        case.change,
        case.counterpart.id if case.counterpart else None,
        *(case.order.get(name) for name in ("worst", "order", "name")),
        json.dumps(summary),
    )


def _cells(case: CaseResult | None) -> list[tuple[str, str]]:
    """Return the verdict and the score of each metric."""
    if case is None:
        return []
    return [
        ("apart", "") if place in case.apart else (result_verdict(result), _score_text(result))
        for place, result in enumerate(case.results)
    ]


def _score_text(result: MetricResult) -> str:
    return "" if result.score is None else number_text(result.score)


def _redacted(cases: Sequence[CaseResult]) -> Iterator[CaseResult]:
    """Yield redacted cases; of results without words only the names are redacted, since there are many."""
    for case in cases:
        if any(result.findings or result.reason or result.error or result.warnings for result in case.results):
            yield redact(case)
        else:
            yield replace(redact(replace(case, results=())), results=case.results)


def _compare(before: Report, now: Report) -> Comparison:
    resamples = _RESAMPLED_CASES // max(len(now.cases), 1)
    return compare(
        before,
        now,
        allow_different=get_args(Difference),
        resamples=max(_FEWEST_RESAMPLES, min(RESAMPLES, resamples)),
    )


def _connect(
    earlier: Sequence[_Case], before: Report, cases: Sequence[_Case], now: Report, comparison: Comparison
) -> None:
    """Set the counterparts of cases that are in both files, and what became of each case."""
    earlier_of = {id(result): case for result, case in zip(before.cases, earlier, strict=True)}
    case_of = {id(result): case for result, case in zip(now.cases, cases, strict=True)}
    worse = {one.index_b for metric in comparison.metrics for one in metric.regressions}
    lost = {one.index_b for metric in comparison.metrics for one in metric.lost}
    better = {one.index_b for metric in comparison.metrics for one in metric.improvements}
    pairs = pair_cases(before, now)
    for _, one in pairs.only_a:
        earlier_of[id(one)].change = "gone"
    for _, one in pairs.only_b:
        case_of[id(one)].change = "new"
    for pair in pairs.both:
        case, other = case_of[id(pair.b)], earlier_of[id(pair.a)]
        case.counterpart, other.counterpart = other, case
        index = case.result.index
        changes = (("worse", worse), ("lost", lost), ("better", better))
        case.change = next((change for change, members in changes if index in members), "same")


def _name(cases: Sequence[_Case]) -> None:
    """Set the names in addresses: the labels, with a number if a label occurs several times."""
    names: set[str] = set()
    for case in cases:
        if case.file and case.change != "gone":
            continue
        label = name = printable(case.result.label)
        number = 1
        while name in names:
            number += 1
            name = f"{label} ({number})"
        names.add(name)
        case.key = name


def _order(cases: Sequence[_Case]) -> None:
    """Set the places of the listed cases in each order."""
    listed = [case for case in cases if case.key is not None]
    worst = sorted(listed, key=lambda case: (case.file, _change_rank(case), *worst_case_first(case.result)))
    named = sorted(listed, key=lambda case: _natural(case.key or ""))
    for name, ordered in (("worst", worst), ("order", listed), ("name", named)):
        for place, case in enumerate(ordered):
            case.order[name] = place


def _change_rank(case: _Case) -> int:
    """Return 0 for cases that became worse, 1 for those that are no longer measured, and 2 for all others."""
    return {"worse": 0, "lost": 1}.get(case.change or "", 2)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which `case 9` comes before `case 10`: numbers by their length, then by their digits."""
    parts = _NUMBERS.split(name.casefold())
    return [(len(part), part) if position % 2 else (0, part) for position, part in enumerate(parts)]
