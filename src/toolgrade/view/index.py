"""An index of the cases of one or two files of results: an SQLite database with a full-text search.

It lists the cases of the later file, and those of the earlier one that are gone. The database is written once, before
the first page is shown, and only read from then on.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple

from toolgrade.results.layout import LinePlace
from toolgrade.view.filters import Filters

PAGE_SIZE: Final = 100
"""Cases of one page."""

_MOST_OPTIONS = 300
"""Values of a filter that a page lists."""

SCHEMA: Final = """
CREATE TABLE cases (
    id INTEGER PRIMARY KEY,  -- of the texts, too
    file INTEGER NOT NULL,  -- 0: the later one, 1: the baseline
    position INTEGER NOT NULL,
    start INTEGER, size INTEGER, checksum INTEGER,
    cluster INTEGER NOT NULL, trial INTEGER,
    key TEXT UNIQUE,  -- null if it is not listed: the baseline's, unless it is gone
    verdict TEXT,  -- null if it is gone
    change TEXT,
    counterpart INTEGER,
    by_worst INTEGER, by_order INTEGER, by_name INTEGER,
    shown TEXT NOT NULL  -- what a list shows of it, as JSON
);
CREATE TABLE results (metric TEXT, id INTEGER, verdict TEXT, score REAL, PRIMARY KEY (metric, id)) WITHOUT ROWID;
CREATE TABLE tags (tag TEXT, id INTEGER, PRIMARY KEY (tag, id)) WITHOUT ROWID;
CREATE TABLE tools (tool TEXT, id INTEGER, PRIMARY KEY (tool, id)) WITHOUT ROWID;
CREATE TABLE findings (tool TEXT, kind TEXT, argument TEXT, id INTEGER,
    PRIMARY KEY (tool, kind, argument, id)) WITHOUT ROWID;
CREATE VIRTUAL TABLE texts USING fts5(text, content='');
"""
INDEXES: Final = """
CREATE INDEX cases_by_worst ON cases (by_worst);
CREATE INDEX cases_by_order ON cases (by_order);
CREATE INDEX cases_by_name ON cases (by_name);
CREATE INDEX cases_by_cluster ON cases (file, cluster);
CREATE INDEX findings_by_argument ON findings (argument, id);
ANALYZE;
"""

_LISTED = "key IS NOT NULL"
_OPTIONS = {
    "tag": "tags JOIN cases USING (id)",
    "tool": "tools JOIN cases USING (id)",
    "kind": "findings JOIN cases USING (id)",
    "argument": "findings JOIN cases USING (id)",
    "change": "cases",
}
"""Columns whose values are listed, and where they are."""

ANY: Final = "any"
"""The filter for findings of any kind."""


class Listed(NamedTuple):
    """A case as a list shows it.

    Attributes:
        key: Its name in addresses.
        verdict: Its verdict, or that of the chosen metric; `None` if it is gone.
        change: What became of it since the baseline; `None` without one.
        label: Its name for people.
        problem: Where it first goes wrong.
        cells: Verdict and score of each metric; the verdict is "apart" if the metric measures other cases.
        before: The same in the baseline; empty if the case is not there.
    """

    key: str
    verdict: str | None
    change: str | None
    label: str
    problem: str
    cells: list[tuple[str, str]]
    before: list[tuple[str, str]]


class CaseInFile(NamedTuple):
    """A case of a file: which file (0 for the later one), its position in the report, and its line."""

    file: int
    position: int
    line: LinePlace | None


class Trial(NamedTuple):
    """A trial of a golden: the name of its case in addresses, its number, and its verdict."""

    key: str
    number: int
    verdict: str


@dataclass(frozen=True)
class Selection:
    """The cases of one page.

    Attributes:
        cases: They.
        matches: The number of cases on all pages.
        page: The number of the page; the last one if a later one was asked for.
        pages: The number of pages.
        verdicts: The number of cases of each verdict without the filter by verdict.
    """

    cases: list[Listed]
    matches: int
    page: int
    pages: int
    verdicts: Mapping[str, int]


class Index:
    """A written index.

    Attributes:
        metrics: The names of the metrics.
        total: The number of listed cases.
        options: The most frequent values of the filters by tag, tool, finding, argument and change, with their numbers
            of cases.
    """

    def __init__(self, path: Path, metrics: tuple[str, ...]) -> None:
        """Open the database."""
        self._address = f"{path.as_uri()}?mode=ro&immutable=1"
        self.metrics = metrics
        self.total: int = self._fetch(f"SELECT count(*) FROM cases WHERE {_LISTED}")[0][0]
        self.options: dict[str, list[Any]] = {
            name: self._fetch(
                f"SELECT {name}, count(DISTINCT id) FROM {tables} "
                f"WHERE {_LISTED} AND {name} <> '' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?",
                [_MOST_OPTIONS],
            )
            for name, tables in _OPTIONS.items()
        }

    def _fetch(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query, which has its own connection: a connection belongs to one thread."""
        with closing(sqlite3.connect(self._address, uri=True)) as connection:
            return connection.execute(query, values).fetchall()

    def select(self, filters: Filters) -> Selection:
        """Return the cases of a page."""
        query = _query(filters)
        counts: dict[str | None, int] = dict(
            self._fetch(f"SELECT {query.verdict}, count(*) {query.rows} GROUP BY 1", query.values)
        )
        matches = sum(number for name, number in counts.items() if not filters.verdict or name in filters.verdict)
        pages = max(1, ceil(matches / PAGE_SIZE))
        page = min(filters.page, pages)
        rows = self._fetch(
            f"SELECT cases.key, {query.verdict}, cases.change, cases.shown {query.rows} {query.ordered} "
            "LIMIT ? OFFSET ?",
            [*query.values, *query.ordered_values, PAGE_SIZE, (page - 1) * PAGE_SIZE],
        )
        cases = [Listed(key, verdict, change, *json.loads(summary)) for key, verdict, change, summary in rows]
        return Selection(cases, matches, page, pages, {name: number for name, number in counts.items() if name})

    def neighbours(self, filters: Filters, key: str) -> tuple[str | None, str | None]:
        """Return the keys of the cases before and after a case in the order of a page."""
        query = _query(filters)
        values = [*query.values, *query.ordered_values]
        keys = [row[0] for row in self._fetch(f"SELECT cases.key {query.rows} {query.ordered}", values)]
        if key not in keys:
            return None, None
        place = keys.index(key)
        return keys[place - 1] if place else None, keys[place + 1] if place + 1 < len(keys) else None

    def find(self, key: str) -> tuple[CaseInFile, CaseInFile | None] | None:
        """Return a listed case and the same one in the baseline; `None` if there is no such case."""
        columns = "file, position, start, size, checksum, counterpart"
        rows = self._fetch(f"SELECT {columns} FROM cases WHERE key = ?", [key])
        if not rows:
            return None
        others = self._fetch(f"SELECT {columns} FROM cases WHERE id = ?", [rows[0][-1]])
        return _case_place(rows[0]), _case_place(others[0]) if others else None

    def trials(self, cluster: int) -> list[Trial]:
        """Return the listed trials of a golden of the later file."""
        rows = self._fetch(
            "SELECT key, trial, verdict FROM cases "
            "WHERE file = 0 AND cluster = ? AND trial IS NOT NULL ORDER BY position",
            [cluster],
        )
        return [Trial(*row) for row in rows]


def _case_place(row: tuple[Any, ...]) -> CaseInFile:
    file, position, start, size, checksum, _ = row
    return CaseInFile(file, position, None if start is None else LinePlace(start, size, checksum))


class _Query(NamedTuple):
    """Parts of an SQL query.

    `rows` begins with FROM and has no filter by verdict; `ordered` adds that filter, and the order.
    """

    verdict: str
    rows: str
    values: list[str]
    ordered: str
    ordered_values: list[str]


def _query(filters: Filters) -> _Query:
    """Return the parts of a query; data is in its values only."""
    verdict, rows, values = "cases.verdict", "FROM cases", list[str]()
    if filters.metric:
        verdict = "chosen.verdict"
        rows += " JOIN results AS chosen ON chosen.id = cases.id AND chosen.metric = ?"
        values.append(filters.metric)
    rows += f" WHERE cases.{_LISTED}"
    for condition, parts in _conditions(filters):
        rows += f" AND {condition}"
        values += parts
    ordered = f"AND {verdict} IN ({', '.join('?' * len(filters.verdict))}) " if filters.verdict else ""
    ordered_values = list(filters.verdict)
    end, _, metric = filters.sort.partition(":")
    if metric:
        score = "(SELECT score FROM results WHERE results.id = cases.id AND results.metric = ?)"
        ordered += f"ORDER BY {score} {'ASC' if end == 'low' else 'DESC'} NULLS LAST, cases.by_order"
        ordered_values.append(metric)
    else:
        ordered += f"ORDER BY cases.by_{end}"
    return _Query(verdict, rows, values, ordered, ordered_values)


def _conditions(filters: Filters) -> Iterator[tuple[str, list[str]]]:
    """Yield the conditions of an SQL query, each with its values."""
    if filters.tag:
        yield "cases.id IN (SELECT id FROM tags WHERE tag = ?)", [filters.tag]
    if filters.change:
        yield "cases.change = ?", [filters.change]
    if filters.finding or filters.argument:
        yield _finding_condition(filters)
    elif filters.tool:
        yield "cases.id IN (SELECT id FROM tools WHERE tool = ?)", [filters.tool]
    # A word in quotes is no operator; a word of punctuation alone is in no text, and ignored beside others.
    words = [storable(word).replace("\0", " ").replace('"', '""') for word in filters.q.split()]
    if words:
        match = " ".join(f'"{word}"*' for word in words)
        yield "cases.id IN (SELECT rowid FROM texts WHERE texts MATCH ?)", [match]


def _finding_condition(filters: Filters) -> tuple[str, list[str]]:
    """Return the condition that one finding has the kind, the argument and the tool of the filters."""
    fields = {"kind": filters.finding, "argument": filters.argument}
    fields = {name: value for name, value in fields.items() if value not in {"", ANY}}
    if filters.tool:
        fields["tool"] = filters.tool
    tests = " AND ".join(["TRUE", *(f"{name} = ?" for name in fields)])
    return f"cases.id IN (SELECT id FROM findings WHERE {tests})", [*fields.values()]


def storable(text: str) -> str:
    """Return a text that a database can hold: lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
