"""What stands in a file of results? JSON Lines: a header for each session, and a line for each row of the report.

A session is one call of `evaluate` that wrote into the file: the first, and one for each time that it was resumed. Its
header says what is evaluated. The rows of one unit (a golden in one trial, or a case) are written at once.

A line that was never written to its end, and rows of a unit of which some are missing, are not there: they stand at the
end of the file, or of what was there when a session began.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import Field, JsonValue

from toolmark._internal.json import json_path
from toolmark.dataset import Document, problems_of, read_documents
from toolmark.errors import DataFileError, InvalidDataError, Problem
from toolmark.results.case_json import read_content
from toolmark.results.layout import Row
from toolmark.results.schema import Position, Written, WrittenResult

FORMAT: Final = 1
"""Version of the format; a reader refuses a later one."""

MARK: Final = "toolmark_results"
"""Key of a header, and of nothing else; its value is the version."""


class WrittenMetric(Written):
    """A metric of whole cases."""

    metric: str
    threshold: float


class Header(Written):
    """What is evaluated.

    Attributes:
        toolmark_results: Version of the format.
        toolmark: Version of toolmark.
        python: Version of Python.
        started_at: When the session began, ISO 8601.
        metrics: Of cases, or of whole answers.
        options: Who judges, and what else the names of metrics do not tell.
        kind: `cases` that were given, or `goldens` that were asked.
        count: How many of them there are.
        trials: How often each golden is asked; `None` for once.
        fingerprint: Of all of them.
    """

    toolmark_results: int
    toolmark: str
    python: str
    started_at: str
    metrics: list[WrittenMetric]
    options: dict[str, JsonValue] = Field(default_factory=dict[str, Any])
    kind: str
    count: Position
    trials: Annotated[int, Field(ge=1)] | None = None
    fingerprint: str

    @property
    def units(self) -> int:
        """How many units there are to measure."""
        return self.count * (self.trials or 1)


class Line(Written):
    """A row of the report: a case, and its results."""

    place: Position
    trial: Annotated[int, Field(ge=1)] | None = None
    fingerprint: str
    row: Annotated[int, Field(ge=1)] = 1
    of: Annotated[int, Field(ge=1)] = 1
    component: str | None = None
    source: str = ""
    id: str | None = None
    name: str | None = None
    type: str | None = None
    content: dict[str, JsonValue] | None = None
    results: list[WrittenResult]
    seconds: float = 0.0

    def as_row(self) -> Row:
        """Return it as a row.

        Raises:
            InvalidDataError: Its content is no case.
        """
        case = read_content(self.type, self.content, id=self.id, name=self.name)
        results = tuple(result.result() for result in self.results)
        return Row(case, self.place, self.trial, self.component, self.source, results)


@dataclass
class Found:
    """What was found in a file.

    Attributes:
        headers: One for each session.
        units: The rows of each unit that is there whole, by place and trial (0 where each is asked once).
        fingerprints: By place.
        seconds: How long the sessions took, as far as lines tell.
        whole: Bytes from the beginning to the end of the last whole unit.
        torn: What was left out, and why.
    """

    headers: list[Header] = field(default_factory=list[Header])
    units: dict[tuple[int, int], list[Row]] = field(default_factory=dict[tuple[int, int], "list[Row]"])
    fingerprints: dict[int, str] = field(default_factory=dict[int, str])
    seconds: float = 0.0
    whole: int = 0
    torn: list[Problem] = field(default_factory=list[Problem])

    @property
    def header(self) -> Header:
        """The header of the last session, which says what is evaluated now."""
        return self.headers[-1]

    @property
    def rows(self) -> list[Row]:
        """All rows."""
        return [row for rows in self.units.values() for row in rows]

    @property
    def about(self) -> dict[str, Any]:
        """What is known of the evaluation."""
        first = self.headers[0]
        return {
            "toolmark": first.toolmark,
            "python": first.python,
            "started_at": first.started_at,
            "seconds": self.seconds,
        }


def is_header(value: object) -> bool:
    """Return whether a JSON value is the header of a file of results."""
    return isinstance(value, Mapping) and MARK in value


def read_lines(data: bytes, name: str) -> Found:
    """Return what stands in a file of results.

    Raises:
        DataFileError: Lines that cannot be read; `problems` has all of them.
    """
    found, problems = Found(), list[Problem]()
    pending: list[Line] = []
    ends = _ends(data)
    session = 0.0
    documents = list(read_documents(io.BytesIO(data)))
    for document in documents:
        if document.torn:
            found.torn.extend(document.problems)
            continue
        if document.problems:
            problems.extend(document.problems)
            continue
        try:
            if is_header(document.value):
                found.headers.append(_header(document))
                found.seconds, session = found.seconds + session, 0.0
                pending = _dropped(pending, found, document)
            else:
                line = Line.model_validate(document.value)
                problems.extend(map(document.placed, _contradictions(line, found)))
                session = max(session, line.seconds)
                pending = _continued(pending, line, found, document)
                if len(pending) < line.of:
                    continue
                found.units[line.place, line.trial or 0] = [one.as_row() for one in pending]
                found.fingerprints[line.place] = line.fingerprint
                pending = []
        except InvalidDataError as error:
            problems.extend(map(document.placed, problems_of(error)))
        found.whole = ends[document.line or 0]
    found.seconds += session
    _dropped(pending, found, documents[-1])
    if problems:
        raise DataFileError("\n".join(f"{name}:{one.line}: {one}" for one in problems), problems)
    return found


def _ends(data: bytes) -> Sequence[int]:
    """Return where each line ends, by its number from 1."""
    ends = [0]
    for line in io.BytesIO(data):
        ends.append(ends[-1] + len(line))
    return ends


def _header(document: Document) -> Header:
    version = document.value[MARK]
    if version != FORMAT:
        message = f"this is format {version!r}, and this toolmark reads {FORMAT}; read it with the one that wrote it"
        raise InvalidDataError(message, [Problem(json_path((MARK,)), message)])
    return Header.model_validate(document.value)


def _continued(pending: Sequence[Line], line: Line, found: Found, document: Document) -> list[Line]:
    """Return the lines of a unit so far; a line that begins another drops what was before it."""
    if pending and (line.row != len(pending) + 1 or (line.place, line.trial) != (pending[0].place, pending[0].trial)):
        pending = _dropped(pending, found, document)
    if line.row != len(pending) + 1:
        message = f"row {line.row} of {line.of} stands here, and row {len(pending) + 1} of it is missing"
        raise InvalidDataError(message, [Problem("$.row", message)])
    return [*pending, line]


def _dropped(pending: Sequence[Line], found: Found, document: Document) -> list[Line]:
    """Note that the rows of a unit are not all there, and return none."""
    if pending:
        message = f"{len(pending)} of {pending[0].of} rows of a golden: whoever wrote them was stopped before the end"
        found.torn.append(Problem("$", message, document.line))
    return []


def _contradictions(line: Line, found: Found) -> Iterator[Problem]:
    """Yield what a line says that cannot be."""
    if not found.headers:
        yield Problem("$", f"the first line must be a header, an object with {MARK!r}")
        return
    header = found.header
    if (line.place, line.trial or 0) in found.units:
        yield Problem("$.place", f"place {line.place}{_of_trial(line)} stands there twice")
    if line.place >= header.count:
        yield Problem("$.place", f"is {line.place}, and there are only {header.count} {header.kind}, from 0")
    if (line.trial is None) != (header.trials is None) or (line.trial or 0) > (header.trials or 0):
        yield Problem("$.trial", f"is {line.trial}, and each is asked {header.trials or 1} times")
    names, given = [one.metric for one in header.metrics], [result.metric for result in line.results]
    if line.component is None and names != given:
        message = f"expected one result of each metric ({', '.join(names)}), got {', '.join(given) or 'none'}"
        yield Problem("$.results", message)
    for number, result in enumerate(line.results):
        yield from result.contradictions("results", number)


def _of_trial(line: Line) -> str:
    return "" if line.trial is None else f" in trial {line.trial}"
