"""Format of a file of results: JSON Lines with a header for each session and a line for each row of the report.

A session is one call of `evaluate` that wrote to the file: the first call, and one each time it was resumed. Its header
describes the evaluation. The rows of one unit (a golden in one trial, or a case) are written at once.

Incomplete lines and incomplete units are ignored. They are at the end of the file, or at the end of a session that was
resumed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, BinaryIO, Final, TypeGuard

from pydantic import Field, JsonValue

from toolgrade._internal.json import json_path, within_limits
from toolgrade._internal.markers import RESULTS_MARK
from toolgrade.dataset import Document, FileProblems, file_error, problems_of, read_documents
from toolgrade.errors import InvalidDataError, Problem
from toolgrade.results.case_json import case_from_json
from toolgrade.results.layout import Row
from toolgrade.results.schema import Position, Written, WrittenResult, results_contradictions

FORMAT: Final = 1
"""Version of the format; readers refuse every other version."""

_CHECKSUM: Final = re.compile(rb', "checksum": "([0-9a-f]{8})"\}\s*\Z')
"""The end of a line: the CRC-32 of the bytes before it."""


_LAST_KEY: Final = b', "checksum"'
_FINGERPRINT_KEY: Final = b'"fingerprint": "'

_CHANGED: Final = (
    "the line must be as it was written, and its checksum differs; restore the file, or remove the key 'checksum'"
)


def sealed(line: bytes) -> bytes:
    """Return the line of an object with a checksum as its last key, and an end of line."""
    start = line[:-1]
    return b'%b, "checksum": "%08x"}\n' % (start, zlib.crc32(start))


def with_place(line: bytes, place: int) -> bytes:
    """Return the sealed line of a row with another place."""
    return sealed(b'{"place": %d%b}' % (place, line[line.find(b",") : line.rfind(_LAST_KEY)]))


def fingerprint_of(line: bytes) -> bytes:
    """Return the fingerprint in the line of a row."""
    start = line.find(_FINGERPRINT_KEY) + len(_FINGERPRINT_KEY)
    return line[start : line.find(b'"', start)]


def _has_changed(line: bytes) -> bool:
    """Return whether a line differs from the one that was written; one without a checksum cannot tell."""
    checksum = _CHECKSUM.search(line)
    return checksum is not None and zlib.crc32(line[: checksum.start()]) != int(checksum[1], 16)


class WrittenMetric(Written):
    """A metric of cases, or of whole answers."""

    metric: str
    threshold: float


class Header(Written):
    """Header of a session: the evaluation and its environment.

    `options` has what the names of the metrics do not tell, such as the judge. `kind` is `cases` or `goldens`, `count`
    their number, and `fingerprint` that of all of them.
    """

    toolgrade_results: int
    toolgrade: str
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
        """Number of units of the evaluation."""
        return self.count * (self.trials or 1)

    def has_trial(self, number: int | None) -> bool:
        """Return whether a trial may have this number, from 1; `None` without trials."""
        if self.trials is None or number is None:
            return self.trials is number
        return 1 <= number <= self.trials


class Line(Written):
    """A row of the report; `row` is its number among the `of` rows of its unit."""

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

    @property
    def unit(self) -> tuple[int, int]:
        """Place and trial (0 without trials), which the rows of a unit share."""
        return self.place, self.trial or 0

    def to_row(self) -> Row:
        """Convert to a row.

        Raises:
            InvalidDataError: The content is not a case.
        """
        case = case_from_json(self.type, self.content, id=self.id, name=self.name)
        results = tuple(result.to_result() for result in self.results)
        return Row(case, self.place, self.trial, self.component, self.source, results)


@dataclass
class ResultsContent:
    """Content of a file of results.

    `units` has the rows of each complete unit by place and trial (0 without trials), `fingerprints` are by place.
    `session_seconds` has the duration of each session by its number. `size` is the number of bytes up to the end of the
    last complete unit, and `torn` lists what was ignored.
    """

    headers: list[Header] = field(default_factory=list[Header])
    units: dict[tuple[int, int], list[Row]] = field(default_factory=dict[tuple[int, int], "list[Row]"])
    fingerprints: dict[int, str] = field(default_factory=dict[int, str])
    session_seconds: dict[int, float] = field(default_factory=dict[int, float])
    size: int = 0
    torn: list[Problem] = field(default_factory=list[Problem])

    @property
    def header(self) -> Header:
        """The header of the last session, which describes the whole evaluation."""
        return self.headers[-1]

    @property
    def seconds(self) -> float:
        """Duration of all sessions."""
        return sum(self.session_seconds.values(), 0.0)

    @property
    def about(self) -> dict[str, Any]:
        """Versions and times, as in a report."""
        names = ("toolgrade", "python", "started_at")
        return {**{name: getattr(self.headers[0], name) for name in names}, "seconds": self.seconds}


def is_header(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a JSON value is the header of a file of results."""
    return isinstance(value, Mapping) and RESULTS_MARK in value


class _LastLine:
    """Where the line ends that was read last, and whether it has changed since it was written."""

    def __init__(self) -> None:
        self.end = 0
        self.has_changed = False

    def select(self, line: bytes) -> bool:
        """Take the next line; none is left out."""
        self.end += len(line)
        self.has_changed = _has_changed(line)
        return True


@within_limits
def read_lines(file: BinaryIO, name: str) -> ResultsContent:
    """Parse a file of results of this name, which is open at its beginning; its lines are read one after the other.

    Raises:
        DataFileError: Lines cannot be read; `problems` has all of them.
    """
    file_problems = FileProblems()
    content = ResultsContent(torn=file_problems.torn)
    pending: list[Line] = []  # the lines of a unit whose last line was not read yet
    last_line = _LastLine()
    last = Document()

    def checked_documents() -> Iterator[Document]:
        nonlocal last
        for document in read_documents(file, select=last_line.select):
            last = document
            is_whole = document.line is not None and not document.problems
            if is_whole and last_line.has_changed:
                yield document._replace(problems=(Problem("$", _CHANGED, document.line),))
            else:
                yield document

    for document, entry in file_problems.read(checked_documents(), _read_entry):
        if isinstance(entry, Header) or not _continues(entry, pending):
            _drop_incomplete(pending, content, document)
        if isinstance(entry, Header):
            content.headers.append(entry)
        else:
            problems = _add_line(entry, pending, content)
            file_problems.problems += map(document.placed, problems)
        if not pending:
            content.size = last_line.end
    _drop_incomplete(pending, content, last)
    if file_problems.problems:
        raise file_error(name, file_problems.problems)
    return content


def _read_entry(value: object, _place: str) -> Header | Line:
    if not is_header(value):
        return Line.model_validate(value)
    version = value[RESULTS_MARK]
    if version != FORMAT:
        message = f"format {version!r} cannot be read, only {FORMAT}; use the version of toolgrade that wrote the file"
        raise InvalidDataError(message, [Problem(json_path((RESULTS_MARK,)), message)])
    return Header.model_validate(value)


def _continues(line: Line, pending: Sequence[Line]) -> bool:
    """Return whether a line is the next one of the pending unit."""
    return bool(pending) and line.row == len(pending) + 1 and line.unit == pending[0].unit


def _drop_incomplete(pending: list[Line], content: ResultsContent, document: Document) -> None:
    """Drop the lines of a unit that has fewer than it should, and note it."""
    if pending:
        message = f"{len(pending)} of {pending[0].of} rows of a golden: the writer was stopped before the last one"
        content.torn.append(Problem("$", message, document.line))
        pending.clear()


def _add_line(line: Line, pending: list[Line], content: ResultsContent) -> Iterator[Problem]:
    """Add a line to its unit, and the unit to the content if it is complete; yield what is wrong with it."""
    yield from _contradictions(line, content)
    session = len(content.headers)
    content.session_seconds[session] = max(content.session_seconds.get(session, 0.0), line.seconds)
    if line.row != len(pending) + 1:
        message = f"row {line.row} of {line.of} is here, but row {len(pending) + 1} is missing"
        yield Problem("$.row", message)
        return
    pending.append(line)
    if len(pending) == line.of:
        try:
            content.units[line.unit] = [one.to_row() for one in pending]
        except InvalidDataError as error:
            yield from problems_of(error)
        content.fingerprints[line.place] = line.fingerprint
        pending.clear()


def _wrong_numbers(line: Line, header: Header) -> Iterator[Problem]:
    if line.place >= header.count:
        yield Problem("$.place", f"is {line.place}, but there are only {header.count} {header.kind}, from 0")
    if not header.has_trial(line.trial):
        yield Problem("$.trial", f"is {line.trial}, but each is asked {header.trials or 1} times")


def _contradictions(line: Line, content: ResultsContent) -> Iterator[Problem]:
    """Yield what contradicts the header or other lines."""
    if not content.headers:
        yield Problem("$", f"the first line must be a header, an object with {RESULTS_MARK!r}")
        return
    header = content.header
    if line.unit in content.units:
        trial = "" if line.trial is None else f" in trial {line.trial}"
        yield Problem("$.place", f"place {line.place}{trial} occurs twice")
    yield from _wrong_numbers(line, header)
    names = [metric.metric for metric in header.metrics]
    is_complete = line.component is not None or names == [result.metric for result in line.results]
    yield from results_contradictions(line.results, names, "results", is_complete=is_complete)
