"""A file of results whose cases stay in the file: what lists and totals need is read once, a case when it is shown.

A case is read again from the place of its line. If the file has changed there, that is an error: no other case, and no
part of one, is shown in its place.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

from pydantic import SkipValidation, model_validator

from toolgrade._internal.compression import CORRUPTION_ERRORS, GZIP, ZSTD, corruption_message, lines_of
from toolgrade._internal.json import json_text, within_limits
from toolgrade.calls import ToolCall
from toolgrade.cases import LLMTestCase, Run, RunStatus
from toolgrade.dataset import file_error, open_source, problems_of, read_line, source_name, torn_text
from toolgrade.errors import DataFileError, InvalidDataError, Problem
from toolgrade.matching.alignment import Alignment
from toolgrade.report import CaseResult, Report
from toolgrade.report.report import content_key
from toolgrade.result import MetricResult
from toolgrade.results import read_results
from toolgrade.results.case_json import case_from_json
from toolgrade.results.jsonl import Line, is_header, read_lines
from toolgrade.results.layout import LinePlace, ReportLayout, Row, sorted_rows
from toolgrade.results.schema import WrittenAlignment, WrittenResult

_T = TypeVar("_T")

_BOM = b"\xef\xbb\xbf"
_DATA_KEYS = frozenset({"input_parameters", "requested_parameters", "output", "artifact", "metadata"})
"""Keys with data below them, where keys and numbers can be searched for, too."""
_SKIPPED_KEYS = frozenset({"available_tools", "data", "status", "origin", "role", "type", "started_at"})
"""Keys of a case that are not searched: they hold what many cases share, such as the tools that were offered."""


class CaseFacts(NamedTuple):
    """The tools that a case calls or expects, and its text to search in."""

    tools: frozenset[str]
    text: str


Collect: TypeAlias = "Callable[[int, CaseFacts], None]"
"""Takes the number of a case, in the order of the file, and its facts."""


class CasePlace(NamedTuple):
    """Where a case is: its number in the order of the file, and its line; none in the JSON of a report."""

    number: int
    line: LinePlace | None = None


@dataclass(frozen=True)
class LightReport:
    """A report whose cases have ids, names, tags and the names of called tools only, and the place of each case."""

    report: Report
    places: list[CasePlace]
    warnings: list[str] = field(default_factory=list[str])


class ResultsFile:
    """A file of results, plain or compressed, or the JSON of a report; `name` is its name for people."""

    def __init__(self, path: Path, folder: Path) -> None:
        """Open the file; a compressed one is unpacked into this folder, which must outlive the object.

        Raises:
            DataFileError: It is broken compressed data.
            OSError: It cannot be read.
        """
        self.name = source_name(path)
        self._path = path
        self._stamp = _stamp(path)
        self._data = _plain_file(path, folder)
        self._layout: ReportLayout | None = None
        self._report: Report | None = None

    def read(self, collect: Collect) -> LightReport:
        """Read all cases without their content; `collect` gets the facts of each.

        Raises:
            DataFileError: It is not a file of results, or parts of it are wrong.
            OSError: It cannot be read.
        """
        if _begins_with_header(self._data):
            return self._read_lines(collect)
        report = self._report = read_results(self._path)
        for number, case in enumerate(report.cases):
            collect(number, CaseFacts(frozenset(), " ".join(_result_texts(case.results))))
        return LightReport(report, [CasePlace(number) for number in range(len(report.cases))])

    def _read_lines(self, collect: Collect) -> LightReport:
        reader = _LightReader(collect)
        with self._data.open("rb") as file:
            content = read_lines(file, self.name, line_type=_LightLine, to_row=reader.to_row)
        header = content.header
        rows = sorted_rows(row for unit in content.units.values() for row in unit)
        layout = self._layout = ReportLayout(rows, [metric.metric for metric in header.metrics], header.trials)
        cases: list[CaseResult] = []
        places: list[CasePlace] = []
        for index, row in enumerate(rows):
            place = reader.places[row.line]
            places.append(place)
            cases.append(replace(layout.case_result(index, row), key=reader.keys.get(place.number)))
        is_interrupted = len(content.units) < header.units
        report = Report(layout.metrics, tuple(cases), header.trials, is_interrupted, content.about)
        return LightReport(report, places, [torn_text(self.name, problem) for problem in content.torn])

    @property
    def has_changed(self) -> bool:
        """Whether the file differs from the one that was read."""
        return _stamp(self._path) != self._stamp

    @within_limits
    def load(self, position: int, line: LinePlace | None) -> CaseResult:
        """Return a case with its content.

        Args:
            position: Its position in the report.
            line: The place of its line.

        Raises:
            DataFileError: The file has changed there, or what it holds there is not a case.
            OSError: The file cannot be read.
        """
        if self._report is not None:
            return self._report.cases[position]
        if line is None or self._layout is None:
            raise RuntimeError("a file of results must be read before its cases")
        value = self._value_at(line)
        try:
            row = Line.model_validate(value).to_row()
        except InvalidDataError as error:
            raise file_error(self.name, problems_of(error)) from None
        return self._layout.case_result(position, row)

    def _value_at(self, line: LinePlace) -> object:
        """Return the JSON value of a line; raise if it is not the one that was read."""
        with self._data.open("rb") as file:
            file.seek(line.start)
            raw = file.read(line.size)
        document = read_line(raw, 1) if zlib.crc32(raw) == line.checksum else None
        if document is None or document.problems:
            raise DataFileError.of(f"{self.name} has changed since it was read; start `toolgrade view` again")
        return document.value


class _LightResult(WrittenResult):
    """A result; one that passed without findings keeps neither its reason nor its parts."""

    alignment: Annotated[Any, SkipValidation] = None

    @model_validator(mode="before")
    @classmethod
    def _without_words(cls, value: Any) -> Any:  # noqa: ANN401 - a JSON value
        if isinstance(value, dict) and value.get("passed") is True and not value.get("findings"):
            return {key: part for key, part in value.items() if key not in {"reason", "parts"}}
        return value

    def to_light(self) -> MetricResult:
        """Convert to a result; the alignments of most results without findings are equal, and shared."""
        if self.findings:
            alignment = WrittenAlignment.model_validate(self.alignment) if self.alignment is not None else None
            return self.model_copy(update={"alignment": alignment}).to_result()
        result = self.model_copy(update={"alignment": None}).to_result()
        if self.alignment is None:
            return result
        return replace(result, alignment=_shared_alignment(json_text(self.alignment)))


@lru_cache(maxsize=10_000)
def _shared_alignment(text: str) -> Alignment:
    """Return the alignment of a result without findings from its JSON text."""
    return WrittenAlignment.model_validate_json(text).to_alignment(())


class _LightLine(Line):
    """A row whose content stays as it was parsed."""

    content: Annotated[Any, SkipValidation] = None
    results: list[_LightResult]  # type: ignore[assignment]


class _LightReader:
    """Converts lines to rows without content; `keys` has the content keys of cases without id and name."""

    def __init__(self, collect: Collect) -> None:
        self._collect = collect
        self._calls: dict[str, ToolCall] = {}
        self.places: dict[LinePlace | None, CasePlace] = {}
        self.keys: dict[int, str] = {}

    def to_row(self, line: _LightLine, place: LinePlace) -> Row:
        """Return the row of a line, and collect the facts of its case."""
        number = len(self.places)
        self.places[place] = CasePlace(number, place)
        content: Mapping[str, Any] = line.content if isinstance(line.content, dict) else {}
        holders = [content, *_items(content.get("turns"), dict)]
        called = [name for holder in holders for name in _names_in(holder.get("tools_called"))]
        results = tuple(result.to_light() for result in line.results)
        names = {"id": content.get("id", line.id), "name": content.get("name", line.name)}
        names = {key: name for key, name in names.items() if isinstance(name, str)}
        key = content_key(case_from_json(line.type, content)) if content and not any(names.values()) else None
        if key is not None:
            self.keys[number] = key
        tools = {*called, *_expected_names(content.get("expected_tools"))}
        texts = [*names.values(), *_content_texts(content), *_result_texts(results)]
        self._collect(number, CaseFacts(frozenset(tools), " ".join(texts)))
        case = LLMTestCase.from_valid(
            {
                **names,
                "tags": _items(content.get("tags"), str),
                "tools_called": [self._call(name) for name in called],
                "expected_tools": self._expected(content.get("expected_tools")),
                "run": _run_error(content.get("run")),
            }
        )
        return Row(case, line.place, line.trial, line.component, line.source, results, place)

    def _expected(self, expected: object) -> list[ToolCall] | None:
        """Return expected calls that are a plain list of named ones; the alignment has the names of others."""
        names = _names_in(expected)
        is_complete = isinstance(expected, list) and len(names) == len(expected)
        return [self._call(name) for name in names] if is_complete else None

    def _call(self, name: str) -> ToolCall:
        """Return the call that stands for all calls of a tool."""
        if name not in self._calls:
            self._calls[name] = ToolCall(name=name)
        return self._calls[name]


def _names_in(calls: object) -> list[str]:
    """Return the names of the calls in a list, as far as they have any."""
    return [call["name"] for call in _items(calls, dict) if isinstance(call.get("name"), str)]


def _expected_names(expected: object) -> Iterator[str]:
    """Yield the names of expected calls, wherever a plan has them."""
    queue = [expected]
    while queue:
        value = queue.pop()
        if isinstance(value, list):
            queue += value
        elif isinstance(value, dict):
            if isinstance(value.get("name"), str):
                yield value["name"]
            queue += [part for key, part in value.items() if key not in _DATA_KEYS]


def _run_error(run: object) -> Run | None:
    """Return a run with the error that ended it; `None` if none did."""
    if isinstance(run, dict) and run.get("status") == RunStatus.ERROR.value:
        return Run.from_valid({"status": RunStatus.ERROR, "error": str(run.get("error"))})
    return None


def _content_texts(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a case, and the keys and numbers of its data."""
    queue: list[tuple[Any, bool]] = [(content, False)]
    while queue:
        value, is_data = queue.pop()
        if isinstance(value, list):
            queue += [(part, is_data) for part in reversed(value)]
        elif isinstance(value, dict) and is_data:
            yield " ".join(value)
            queue += [(part, True) for part in reversed(value.values())]
        elif isinstance(value, dict):
            queue += reversed([(part, key in _DATA_KEYS) for key, part in value.items() if key not in _SKIPPED_KEYS])
        elif isinstance(value, str) and value.startswith("data:"):
            continue  # an image
        elif isinstance(value, str) or (is_data and value is not None):
            yield str(value)


def _result_texts(results: tuple[MetricResult, ...]) -> Iterator[str]:
    """Yield what the results of a case say."""
    for result in results:
        yield from (result.metric, result.reason or "", result.error or "", *result.warnings)
        yield from (finding.message for finding in result.findings)


def _items(value: object, kind: type[_T]) -> list[_T]:
    """Return the items of a list that are of one type; none of any other value."""
    return [item for item in value if isinstance(item, kind)] if isinstance(value, list) else []


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return what differs when a file was written again; `None` if it is gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _plain_file(path: Path, folder: Path) -> Path:
    """Return the file, or an unpacked copy in the folder."""
    with path.open("rb") as file:
        begin = file.read(4)
    if not begin.startswith((GZIP, ZSTD, _BOM)):
        return path
    number = len(list(folder.iterdir()))
    copy = folder / f"unpacked-{number}"
    try:
        with open_source(path) as source, copy.open("xb") as target:
            target.write(source.read(len(_BOM)).removeprefix(_BOM))
            shutil.copyfileobj(source, target, 1 << 20)
    except CORRUPTION_ERRORS as error:
        raise file_error(path, [Problem("$", corruption_message(error))]) from None
    return copy


def _begins_with_header(path: Path) -> bool:
    """Return whether the first line with content is the header of a file of results."""
    with path.open("rb") as file:
        try:
            documents = (read_line(line, number) for number, line in enumerate(lines_of(file), start=1))
            first = next(filter(None, documents), None)
        except CORRUPTION_ERRORS:
            return False  # a line that is too large, which `read_results` reports
    return first is not None and is_header(first.value)
