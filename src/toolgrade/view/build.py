"""Writing of the index of one or two files of results, and the evaluation that its pages show."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from toolgrade._internal.text import number_text, printable
from toolgrade.analysis.comparison import Difference, compare, pair_cases
from toolgrade.errors import ConfigurationError
from toolgrade.report import CaseResult, Comparison, Report
from toolgrade.report.redaction import redact
from toolgrade.report.text.breakdown import argument_of, group_of
from toolgrade.report.text.first_problem import case_problem
from toolgrade.report.text.ordering import case_verdict, result_verdict, worst_case_first
from toolgrade.stats.bootstrap import RESAMPLES
from toolgrade.view.index import INDEXES, SCHEMA, Index, storable
from toolgrade.view.results_file import CaseFacts, CasePlace, ResultsFile

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
    with closing(sqlite3.connect(path)) as connection:
        # The database is written once and thrown away: nothing has to survive a crash.
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        try:
            connection.executescript(SCHEMA)
        except sqlite3.OperationalError as error:
            message = f"the SQLite of this Python must have full-text search (FTS5), got: {error}; use another Python"
            raise ConfigurationError(message) from None
        cases, report, warnings = _read(connection, 0, now, 0)
        listed = list(cases)
        comparison = None
        if before is not None:
            earlier, earlier_report, more = _read(connection, 1, before, len(cases))
            resamples = min(RESAMPLES, _RESAMPLED_CASES // max(len(cases), 1))
            comparison = compare(
                earlier_report,
                report,
                allow_different=get_args(Difference),
                resamples=max(_FEWEST_RESAMPLES, resamples),
            )
            _connect(earlier, earlier_report, cases, report, comparison)
            cases += earlier
            warnings += more
        _name(cases)
        _order(cases)
        _write(connection, cases)
        connection.commit()
        connection.executescript(INDEXES)
    redacted = replace(redact(replace(report, cases=())), cases=tuple(case.result for case in listed))
    keys = {case.result.index: case.key for case in listed if case.key is not None}
    return Index(path, redacted.metrics), Evaluation(redacted, redact(comparison), keys, warnings)


def _read(
    connection: sqlite3.Connection, file: int, source: ResultsFile, first: int
) -> tuple[list[_Case], Report, list[str]]:
    """Read a file and write the texts and tools of its cases; return the cases, the report and warnings.

    `first` is the id of the first case.
    """

    def collect(number: int, facts: CaseFacts) -> None:
        _insert(connection, "texts (rowid, text)", [(first + number, storable(facts.text))])
        _insert(connection, "tools", [(storable(tool), first + number) for tool in facts.tools])

    light = source.read(collect)
    cases = [
        _Case(file, position, _redacted(result), place, first + place.number)
        for position, (result, place) in enumerate(zip(light.report.cases, light.places, strict=True))
    ]
    return cases, light.report, light.warnings


def _redacted(case: CaseResult) -> CaseResult:
    """Return a redacted case; of results without words only the names are redacted, since there are many."""
    for result in case.results:
        if result.findings or result.reason or result.error or result.warnings:
            return redact(case)
    return replace(redact(replace(case, results=())), results=case.results)


def _write(connection: sqlite3.Connection, cases: Sequence[_Case]) -> None:
    """Write the cases, and what they can be filtered by."""
    for case in cases:
        _insert(connection, "cases", [_row(case)])
        if case.key is not None:
            _write_listed(connection, case)


def _write_listed(connection: sqlite3.Connection, case: _Case) -> None:
    """Write what a listed case can be filtered by."""
    results = case.result.own_results
    tags = {*redact(tuple(case.result.case.tags))}
    _insert(connection, "tags", [(storable(tag), case.id) for tag in tags])
    places = {(one.tool, group_of(one.kind), argument_of(one)) for result in results for one in result.findings}
    _insert(connection, "findings", [(*map(storable, place), case.id) for place in places])
    _insert(connection, "tools", [(storable(tool), case.id) for tool, _, _ in places if tool])
    if case.file == 0:
        rows = [(storable(result.metric), result_verdict(result), result.score, case.id) for result in results]
        _insert(connection, "results (metric, verdict, score, id)", rows)


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)  # noqa: S608 - no data


def _row(case: _Case) -> tuple[Any, ...]:
    line = case.place.line
    other = case.counterpart
    before = _cells(other.result) if other is not None and case.file == 0 else []
    summary = [printable(case.result.label), case_problem(case.result), _cells(case.result), before]
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
        None if other is None else other.id,
        *(case.order.get(name) for name in ("worst", "order", "name")),
        json.dumps(summary),
    )


def _cells(case: CaseResult) -> list[tuple[str, str]]:
    """Return the verdict and the score of each metric."""
    cells: list[tuple[str, str]] = []
    for result in case.results:
        score = "" if result.score is None else number_text(result.score)
        cells.append((result_verdict(result), score))
    for place in case.apart:
        cells[place] = ("apart", "")
    return cells


def _connect(
    earlier: Sequence[_Case], before: Report, cases: Sequence[_Case], now: Report, comparison: Comparison
) -> None:
    """Set the counterparts of cases that are in both files, and what became of each case."""
    earlier_of = {id(result): case for result, case in zip(before.cases, earlier, strict=True)}
    case_of = {id(result): case for result, case in zip(now.cases, cases, strict=True)}
    change_of = _changes_by_index(comparison)
    pairs = pair_cases(before, now)
    for _, one in pairs.only_a:
        earlier_of[id(one)].change = "gone"
    for _, one in pairs.only_b:
        case_of[id(one)].change = "new"
    for pair in pairs.both:
        case, other = case_of[id(pair.b)], earlier_of[id(pair.a)]
        case.counterpart, other.counterpart = other, case
        case.change = change_of.get(case.result.index, "same")


def _changes_by_index(comparison: Comparison) -> dict[int, str]:
    """Return the worst change of each case that changed, by its `index` in the later file."""
    changes: dict[int, str] = {}
    for change, members in (("better", "improvements"), ("lost", "lost"), ("worse", "regressions")):  # the worst last
        for metric in comparison.metrics:
            changes |= {one.index_b: change for one in getattr(metric, members)}
    return changes


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
    ranks = {"worse": 0, "lost": 1}
    others = len(ranks)

    def worst(case: _Case) -> tuple[float, ...]:
        return case.file, ranks.get(case.change or "", others), *worst_case_first(case.result)

    named = sorted(listed, key=lambda case: _natural(case.key or ""))
    for name, ordered in (("worst", sorted(listed, key=worst)), ("order", listed), ("name", named)):
        for place, case in enumerate(ordered):
            case.order[name] = place


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which `case 9` comes before `case 10`: numbers by their length, then by their digits."""
    parts = _NUMBERS.split(name.casefold())
    return [(len(part), part) if position % 2 else (0, part) for position, part in enumerate(parts)]
