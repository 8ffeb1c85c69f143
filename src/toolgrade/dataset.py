"""Files of cases: JSON Lines with one case or record per line, plain, gzip or zstd; also one JSON array of them.

All problems of a file are collected before any is raised, each with its line and JSON path.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, TypeAlias, TypeVar, cast

from pydantic import Field

from toolgrade._internal.atomic_files import atomic_write
from toolgrade._internal.compression import CORRUPTION_ERRORS, corruption_message, decompress, lines_of, read_whole
from toolgrade._internal.file_kinds import unreadable_kind
from toolgrade._internal.json import parse_json, within_limits
from toolgrade._internal.markers import CANCEL_MARK
from toolgrade._internal.model import Model
from toolgrade._internal.resumed_runs import ResumedRuns
from toolgrade._internal.text import plural, printable
from toolgrade.calls import AvailableTools
from toolgrade.cases import (
    AnyCase,
    ConversationalTestCase,
    Identifier,
    LLMTestCase,
    Metadata,
    MLLMTestCase,
    StoredText,
    StoredTexts,
    TestCase,
)
from toolgrade.errors import DataFileError, InvalidDataError, Problem, ToolgradeWarning, TornLineWarning
from toolgrade.expect import ExpectedOutput, ExpectedTools
from toolgrade.formats.file_kind import has_calls, kind_of_file
from toolgrade.formats.records import case_from_record, looks_like_record

__all__ = ["Golden", "read_cases", "write_cases"]

_T = TypeVar("_T")

Source: TypeAlias = "str | os.PathLike[str] | BinaryIO"
"""A path, `"-"` for standard input, or an open binary file; gzip and zstd are recognized by their content."""

_BOM = b"\xef\xbb\xbf"

_MAX_PROBLEMS = 10
"""Problems of a file that the message of an error has."""


class Golden(Model):
    """A question and the expected result; running an agent on it gives a test case.

    Raises:
        InvalidDataError: A field is unknown or has a wrong value; `problems` has every path.

    Example:
        >>> from toolgrade import Golden, ToolCall, write_cases
        >>> golden = Golden(
        ...     input="What is the weather in Paris?",
        ...     expected_tools=[ToolCall(name="get_weather", input_parameters={"city": "Paris"})],
        ... )
        >>> write_cases("goldens.jsonl", [golden])
        >>> Golden.load("goldens.jsonl")[0].input
        'What is the weather in Paris?'
    """

    input: str
    id: Identifier | None = None
    expected_tools: ExpectedTools | None = None
    expected_output: ExpectedOutput | None = None
    required_texts: list[str] = Field(default_factory=list)
    must_end: bool = False
    available_tools: AvailableTools | None = None
    tags: list[str] = Field(default_factory=list)
    metadata: Metadata = Field(default_factory=dict)
    context: StoredTexts = None
    retrieval_context: StoredTexts = None
    comments: StoredText = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> list[Golden]:
        """Return the goldens of a file: JSON Lines with one golden per line, or one JSON array; plain, gzip or zstd.

        A key `$schema` of a golden is ignored.

        Raises:
            DataFileError: Some lines are not goldens; `problems` has all of them with line and path. If the file holds
                something else, such as results, the error names it and the function that reads it.
            OSError: The file cannot be opened or read.
        """
        try:
            return read_goldens(path)
        except DataFileError:
            other = _other_content(path)
            if other is None:
                raise
            raise file_error(path, [Problem("", f"has {other[0]}, not goldens; read it with {other[1]}")]) from None


def read_cases(source: Source, *, allow_nan: bool = False) -> list[TestCase]:
    """Return the cases of a file, in its order; none is dropped except torn lines and runs that were resumed.

    A line is a test case as `LLMTestCase.to_json` writes it (snake_case or camelCase), a multimodal one, a record
    (`case_from_record`), or a conversation, recognized by its keys. A conversation gives a case for each question of
    the user (`ConversationalTestCase.to_test_cases`). Blank lines and keys `$schema` are skipped. A case without
    a name and an id is named `line N`.

    A *torn* line is left out with a `TornLineWarning`: it begins an object, is not JSON, and is the last one without an
    end of line, or one that a `JsonlSink` marked when it wrote the next. Any other bad line is an error, and so is a
    file without any whole line. An interrupted run is left out, with a `ToolgradeWarning` that counts them, if a later
    line has a run of the same `run_id`: a `JsonlSink` writes a run again when it was resumed.

    Args:
        source: The file.
        allow_nan: Accept bare NaN and infinities, which JSON does not have.

    Raises:
        DataFileError: Some lines cannot be read; `problems` has all of them with line and path.
        MissingPackageError: It is zstd data, and zstandard is not installed.
        OSError: The file cannot be opened or read.

    Example:
        >>> from pathlib import Path
        >>> from toolgrade import read_cases
        >>> line = '{"input": "What is the weather in Paris?", "tools_called": [{"name": "get_weather"}]}'
        >>> _ = Path("cases.jsonl").write_text(line, encoding="utf-8")
        >>> case = read_cases("cases.jsonl")[0]
        >>> print(f"{case.name}: {case.input} -> {case.tools_called[0].name}")
        line 1: What is the weather in Paris? -> get_weather
    """
    groups = _read_file(source, read_cases_of, allow_nan=allow_nan)
    return [case for group in groups for case in group]


def read_any_cases(source: Source, *, allow_nan: bool = False) -> list[AnyCase]:
    """Return the cases and conversations of a file; see `read_cases`."""
    return _read_file(source, read_any_case, allow_nan=allow_nan)


def _read_file(
    source: Source, read: Callable[[object, str], _T], *, allow_nan: bool, accept_torn: bool = True
) -> list[_T]:
    """Return what `read` returns for each document of a file; a file of torn lines alone is never accepted."""
    problems = FileProblems()
    cases = problems.read_all(read_documents(source, allow_nan=allow_nan), read)
    if problems.problems or (problems.torn and not (accept_torn and cases)):
        raise file_error(source, sorted([*problems.problems, *problems.torn], key=lambda problem: problem.line or 0))
    for problem in problems.torn:
        warnings.warn(torn_text(source_name(source), problem), TornLineWarning, stacklevel=3)
    if problems.replaced:
        warnings.warn(replaced_text(source_name(source), problems.replaced), ToolgradeWarning, stacklevel=3)
    return cases


@dataclass
class FileProblems:
    """Collects the problems and torn lines of documents while they are read, at most `most` of each.

    It also counts the documents that a later one replaces.
    """

    most: int | None = None
    problems: list[Problem] = field(default_factory=list[Problem])
    torn: list[Problem] = field(default_factory=list[Problem])
    more_problems: int = 0
    """Problems beyond `most`."""
    replaced: int = 0
    """Interrupted runs that were left out because a later document has the same run, resumed."""

    def cases(self, documents: Iterable[Document]) -> Iterator[TestCase]:
        """Yield the cases of each document that can be read."""
        return (case for _, cases in self.read(documents, read_cases_of) for case in cases)

    def read_all(self, documents: Iterable[Document], read: Callable[[object, str], _T]) -> list[_T]:
        """Return the result of each document that can be read, except those that a later document replaces."""
        resumed = ResumedRuns()
        results: list[_T] = []
        for document, result in self.read(documents, read):
            resumed.add(len(results), document.value)
            results.append(result)
        self.replaced += len(resumed.replaced)
        return [result for place, result in enumerate(results) if place not in resumed.replaced]

    def read(self, documents: Iterable[Document], read: Callable[[object, str], _T]) -> Iterator[tuple[Document, _T]]:
        """Yield each document that can be read, with the result of `read(value, place)`.

        `read`, such as `read_case`, raises `InvalidDataError` for a value that it cannot read.
        """
        for document in documents:
            if document.torn:
                self._add(self.torn, document.problems)
            elif document.replaced:
                self.replaced += 1
            elif document.problems:
                self.more_problems += self._add(self.problems, document.problems)
            else:
                try:
                    result = read(document.value, document.place)
                except InvalidDataError as error:
                    self.more_problems += self._add(self.problems, list(map(document.placed, problems_of(error))))
                else:
                    yield document, result

    def _add(self, problems: list[Problem], others: Sequence[Problem]) -> int:
        """Add what there is room for, and return how many were left out."""
        room = len(others) if self.most is None else max(0, self.most - len(problems))
        problems.extend(others[:room])
        return max(0, len(others) - room)


def file_error(source: Source, problems: Sequence[Problem]) -> DataFileError:
    """Return the error of a file with the first of these problems, one per line, and the number of the others."""
    name = source_name(source)
    return DataFileError(problem_lines([placed_text(name, problem) for problem in problems], len(problems)), problems)


def problem_lines(texts: Sequence[str], total: int) -> str:
    """Return the first texts of `total` problems, one per line, and the number of the others."""
    lines = list(texts[:_MAX_PROBLEMS])
    if total > len(lines):
        lines.append(f"... and {total - len(lines)} more")
    return "\n".join(lines)


def kind_problem(source: Source) -> Problem | None:
    """Return the problem of a file that holds no JSON at all, such as CSV."""
    problems = next(read_documents(source), Document()).problems
    return problems[0] if problems and not problems[0].path else None


def placed_text(name: str, problem: Problem) -> str:
    """Return a problem in a file of this name on one line."""
    if not problem.path:
        return f"{name} {problem.message}"
    return f"{name}:{problem.line}: {problem}" if problem.line else f"{name}: {problem}"


def torn_text(name: str, problem: Problem) -> str:
    """Return the warning of a torn line in a file of this name."""
    return f"{name}:{problem.line}: left out {problem.message}"


def replaced_text(name: str, number: int) -> str:
    """Return the warning of interrupted runs that were left out of a file of this name."""
    return f"{name}: left out {plural(number, 'interrupted run')}: a later line has the same run, resumed"


def read_bytes(source: Source) -> bytes:
    """Return the unpacked content of a file, without a byte order mark.

    Raises `DataFileError` for broken gzip or zstd data, `MissingPackageError` for zstd data without zstandard, and
    `OSError`.
    """
    try:
        with open_source(source) as file:
            return read_whole(file).removeprefix(_BOM)
    except CORRUPTION_ERRORS as error:
        raise file_error(source, [Problem("$", corruption_message(error))]) from None


def read_goldens(source: Source, *, allow_nan: bool = False) -> list[Golden]:
    """Return the goldens of a file, in its order; see `Golden.load`."""
    return _read_file(source, read_golden, allow_nan=allow_nan, accept_torn=False)


def _other_content(path: str | os.PathLike[str]) -> tuple[str, str] | None:
    """Return what a file holds that has no goldens, and the function that reads it; `None` if that is unknown."""
    kind = kind_of_file(path)
    if kind == "results":
        return "results", "toolgrade.results.read_results"
    if not has_calls(path, kind):
        return None
    if kind == "log":
        return "recorded messages or traces", "toolgrade.convert.read_transcripts"
    return "calls that were made", "toolgrade.read_cases"


@within_limits
def read_golden(value: object, _place: str) -> Golden:
    """Return the golden that a JSON value holds."""
    if not isinstance(value, dict):
        raise InvalidDataError.of(f"expected an object (a golden), got {type(value).__name__}")
    return Golden.model_validate(without_schema(value))


def without_schema(value: object) -> object:
    """Return an object without the key `$schema`, which an editor may have written; any other value as it is."""
    if isinstance(value, dict) and "$schema" in value:
        return {key: entry for key, entry in value.items() if key != "$schema"}
    return value


def write_cases(path: str | os.PathLike[str], cases: Iterable[TestCase | ConversationalTestCase | Golden]) -> None:
    """Write the set fields of cases, conversations or goldens as JSON Lines; gzipped if the name ends in `.gz`.

    The file appears whole or not at all: it is written to a temporary file and then moved into place.

    Raises:
        OSError: The file cannot be written.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, read_cases, write_cases
        >>> case = LLMTestCase(input="What is the weather in Paris?", tools_called=[ToolCall(name="get_weather")])
        >>> write_cases("cases.jsonl.gz", [case])
        >>> read_cases("cases.jsonl.gz")[0].tools_called[0].name
        'get_weather'
    """
    with case_file(Path(path)) as file:
        for case in cases:
            file.write(case.to_json().encode() + b"\n")


@contextmanager
def case_file(target: Path) -> Generator[IO[bytes], None, None]:
    """Open a file of cases for writing; see `write_cases`."""
    with atomic_write(target) as draft, gzip.open(draft, "wb") if target.suffix == ".gz" else draft.open("wb") as file:
        yield cast("IO[bytes]", file)


class Document(NamedTuple):
    """One value of a file: that of a line, or an item of a file that is one array."""

    value: Any = None
    """The JSON value; `None` if there are problems."""
    line: int | None = None
    """Its line, from 1; `None` for an item."""
    item: int | None = None
    """Its position in the array, from 0; `None` for a line."""
    problems: tuple[Problem, ...] = ()
    """Why it cannot be read; the last document of a file may have those of the file."""
    torn: bool = False
    """Whether it was not written to its end; see `read_cases`."""
    replaced: bool = False
    """Whether it has an interrupted run that a later document has again, resumed."""

    @property
    def number(self) -> int:
        """Its line, or its position in the array from 1."""
        return (self.line or 0) if self.item is None else self.item + 1

    @property
    def place(self) -> str:
        """The name of a case without a name."""
        return f"{'line' if self.item is None else 'item'} {self.number}"

    def placed(self, problem: Problem) -> Problem:
        """Return a problem of this document as a problem of the file."""
        prefix = "$" if self.item is None else f"$[{self.item}]"
        return Problem(prefix + problem.path.removeprefix("$"), problem.message, self.line)


def problems_of(error: InvalidDataError) -> tuple[Problem, ...]:
    """Return the problems of an error, or the error as the only one."""
    return error.problems or (Problem("$", str(error)),)


@within_limits
def read_case(value: object, place: str) -> TestCase:
    """Return the test case or the record that a JSON value holds, named after its `place` without a name and an id.

    Raises `InvalidDataError`, whose `problems` has every wrong place.
    """
    value = without_schema(value)
    if not isinstance(value, dict):
        raise InvalidDataError.of(f"expected an object (a test case or a record), got {type(value).__name__}")
    if "turns" in value:
        message = "is a conversation; only single cases can be read here, one for each question of the user"
        raise InvalidDataError(message, [Problem("$.turns", message)])
    model = MLLMTestCase if isinstance(value.get("input"), list) else LLMTestCase
    case: TestCase
    case = case_from_record(value) if looks_like_record(value) else model.model_validate(value)
    return case if case.id or case.name else case.model_copy(update={"name": place})


@within_limits
def read_cases_of(value: object, place: str) -> Sequence[TestCase]:
    """Return the case of a JSON value, or a case for each question of the conversation that it holds."""
    case = read_any_case(value, place)
    if not isinstance(case, ConversationalTestCase):
        return [case]
    cases = case.to_test_cases()
    if not cases:
        message = "has no question that an assistant answered"
        raise InvalidDataError(message, [Problem("$.turns", message)])
    return cases


@within_limits
def read_any_case(value: object, place: str) -> AnyCase:
    """Return the case or the conversation that a JSON value holds; see `read_case`."""
    if not isinstance(value, dict) or "turns" not in value:
        return read_case(value, place)
    case = ConversationalTestCase.model_validate(without_schema(value))
    return case if case.id or case.name else case.model_copy(update={"name": place})


def _kind_of_rest(file: BinaryIO, line: bytes, document: Document) -> str | None:
    """Return what a file is whose first line is not JSON, after reading all of it; `None` if that is unknown."""
    if document.torn or not document.problems:
        return None
    following = cast("io.BufferedReader", file).peek(1)  # a gzip file has it, too
    kind = unreadable_kind(line, following)
    if kind is not None:
        while file.read(1 << 20):  # the rest may show that it is corrupted data
            pass
    return kind


def read_documents(
    source: Source, *, allow_nan: bool = False, select: Callable[[bytes], bool] | None = None
) -> Iterator[Document]:
    """Yield the values of a file, in its order: JSON Lines, or the items of one array; gzip and zstd are recognized.

    Blank lines, and those that `select` rejects, are skipped. A line that cannot be read is a document with problems,
    and the next ones are still read, unless the first shows that the file is of another kind, such as CSV.
    """
    number, is_empty = 0, True
    with open_source(source) as file:
        try:
            for number, raw in enumerate(lines_of(file), start=1):
                line = raw.removeprefix(_BOM) if number == 1 else raw
                if is_empty and line.lstrip().startswith(b"["):
                    begin = line.strip().rstrip(CANCEL_MARK)
                    yield from _items(b"\n" * (number - 1) + begin + b"\n" + read_whole(file), allow_nan=allow_nan)
                    return
                if select is not None and not select(line):
                    is_empty = is_empty and not line.strip()
                    continue
                document = read_line(line, number, allow_nan=allow_nan)
                if document is None:  # a blank line
                    continue
                kind = _kind_of_rest(file, line, document) if is_empty else None
                if kind is not None:
                    yield Document(problems=(Problem("", kind),))
                    return
                is_empty = False
                yield document
        except CORRUPTION_ERRORS as error:
            yield Document(problems=(Problem("$", corruption_message(error), number + 1),))
            return
    if is_empty:
        yield Document(problems=(Problem("$", "the file is empty", 1),))


def replaced_numbers(source: Source) -> set[int]:
    """Return the numbers of the documents that have an interrupted run which a later document has again."""
    resumed = ResumedRuns()
    for document in read_documents(source, allow_nan=True, select=resumed.may_matter):
        resumed.add(document.number, document.value)
    return resumed.replaced


def read_line(raw: bytes, number: int, *, allow_nan: bool = False) -> Document | None:
    """Return the document of a line of JSON Lines, given with its end; `None` for a blank one."""
    line = raw.strip()
    cancelled = line.endswith(CANCEL_MARK)
    line = line.rstrip(CANCEL_MARK)
    if not line:
        return None
    unfinished = cancelled or not raw.endswith(b"\n")
    if unfinished and _is_part(line):
        problem = Problem("$", "a torn line: its writer stopped before its end", number)
        return Document(line=number, problems=(problem,), torn=True)
    document = Document(line=number)
    try:
        return document._replace(value=parse_json(_text(line), allow_nan=allow_nan))
    except InvalidDataError as error:
        return document._replace(problems=tuple(map(document.placed, problems_of(error))))


def _is_part(line: bytes) -> bool:
    """Return whether a line can only be the beginning of an object."""
    try:
        json.loads(line.decode("utf-8", "replace"))  # it may end inside a multi-byte character
    except json.JSONDecodeError:
        return line.startswith(b"{")
    except (ValueError, RecursionError):
        return False
    return False


def _items(data: bytes, *, allow_nan: bool) -> Iterator[Document]:
    try:
        values = parse_json(_text(data), allow_nan=allow_nan)
    except InvalidDataError as error:
        yield Document(problems=problems_of(error))
        return
    for index, value in enumerate(values):
        yield Document(value, item=index)


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidDataError.of(f"not UTF-8: {error.reason} at byte {error.start}") from None


@contextmanager
def open_source(source: Source) -> Generator[BinaryIO, None, None]:
    """Open a file, unpacked; one that is open already stays open."""
    if not isinstance(source, (str, os.PathLike)):
        yield decompress(source)
    elif source != "-":
        with Path(source).open("rb") as file:
            yield decompress(file)
    elif sys.stdin is None:
        raise DataFileError.of("there is no standard input to read")
    else:
        yield decompress(sys.stdin.buffer)


def source_name(source: Source) -> str:
    """Return the name of a file for messages, without characters that control a terminal."""
    if not isinstance(source, (str, os.PathLike)):
        name = str(getattr(source, "name", "<file>"))
    else:
        name = "<stdin>" if source == "-" else os.fspath(source)
    return printable(name)
