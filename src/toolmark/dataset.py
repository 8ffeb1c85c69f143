"""Files of cases: JSON Lines, one case or record a line, plain or packed (gzip, zstd); also one JSON array of them.

All errors of a file are found before any is raised, each with its line and JSON path.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias, TypeVar

from toolmark._internal.atomic_files import atomic_write
from toolmark._internal.compression import CORRUPTION_ERRORS, corruption_message, decompress
from toolmark._internal.json import parse_json
from toolmark._internal.markers import CANCEL_MARK
from toolmark._internal.text import printable
from toolmark.cases import AnyCase, ConversationalTestCase, Golden, LLMTestCase, MLLMTestCase, TestCase
from toolmark.errors import DataFileError, InvalidDataError, Problem, TornLineWarning
from toolmark.formats.records import case_from_record, looks_like_record, with_readable_arguments

C = TypeVar("C")

Source: TypeAlias = "str | os.PathLike[str] | BinaryIO"
"""A path, `"-"` for standard input, or an open binary file; gzip and zstd are recognised by their content."""

_BOM = b"\xef\xbb\xbf"


def read_cases(source: Source, *, allow_nan: bool = False, tolerant_arguments: bool = False) -> list[TestCase]:
    """Return the cases of a file, in its order; none is dropped but what was never written to its end.

    A line is a test case as `LLMTestCase.to_json` writes it (snake_case or camelCase), a multimodal one, or a record
    (`case_from_record`), recognised by its keys. Blank lines are passed over. A case without an id keeps its place: its
    name becomes `line N` if it has none.

    A *torn* line is left out with a `TornLineWarning`: it begins an object, is no JSON, and is the last one without an
    end of line, or one that a `JsonlSink` marked when it wrote the next. Any other bad line is an error, and so is a
    file in which no line is whole.

    Args:
        source: Where to read.
        allow_nan: Accept bare NaN and infinities, which JSON does not have.
        tolerant_arguments: Read argument texts that are no JSON object as what they can only mean, with a warning on
            the case's run (see `run_from_messages`). A call that was written down as `invalid_arguments` stays one.

    Raises:
        DataFileError: Lines that cannot be read; `problems` has all of them with line and path.
        MissingPackageError: It is zstd data, and zstandard is not installed.
        OSError: The file cannot be opened or read.
    """
    told = Told()
    documents = read_documents(source, allow_nan=allow_nan)
    cases = list(told.cases(documents, tolerant_arguments=tolerant_arguments))
    name = source_name(source)
    if told.problems or (told.torn and not cases):
        problems = sorted([*told.problems, *told.torn], key=lambda problem: problem.line or 0)
        raise DataFileError("\n".join(placed_text(name, problem) for problem in problems), problems)
    for problem in told.torn:
        warnings.warn(torn_text(name, problem), TornLineWarning, stacklevel=2)
    return cases


@dataclass
class Told:
    """What was wrong with documents that were read.

    Attributes:
        most: How many problems, and how many torn lines, are kept; `None` for all.
        problems: What could not be read.
        torn: What was never written to its end.
        more_problems: Problems that were not kept.
        more_torn: Torn lines that were not kept.
    """

    most: int | None = None
    problems: list[Problem] = field(default_factory=list[Problem])
    torn: list[Problem] = field(default_factory=list[Problem])
    more_problems: int = 0
    more_torn: int = 0

    def cases(self, documents: Iterable[Document], *, tolerant_arguments: bool = False) -> Iterator[TestCase]:
        """Yield the case that each document is; what is wrong with the others is kept here."""
        read = partial(read_case, tolerant_arguments=tolerant_arguments)
        return (case for _, case in self.read(documents, read))

    def read(self, documents: Iterable[Document], read: Callable[[object, str], C]) -> Iterator[tuple[Document, C]]:
        """Yield each document with what is read from its value and its place; what is wrong with others is kept here.

        Args:
            documents: What stands in a file.
            read: Reads one, such as `read_case`; what is wrong is an `InvalidDataError`.
        """
        for document in documents:
            if document.torn:
                self.more_torn += self._kept(self.torn, document.problems)
            else:
                self.more_problems += self._kept(self.problems, document.problems)
            if document.problems:
                continue
            try:
                made = read(document.value, document.place)
            except InvalidDataError as error:
                self.more_problems += self._kept(self.problems, list(map(document.placed, problems_of(error))))
            else:
                yield document, made

    def _kept(self, kept: list[Problem], found: Sequence[Problem]) -> int:
        """Keep what there is room for, and return how many were left out."""
        room = len(found) if self.most is None else max(0, self.most - len(kept))
        kept.extend(found[:room])
        return max(0, len(found) - room)


def placed_text(name: str, problem: Problem) -> str:
    """Return a problem of a file of this name on one line."""
    return f"{name}:{problem.line}: {problem}" if problem.line else f"{name}: {problem}"


def torn_text(name: str, problem: Problem) -> str:
    """Return the warning of a torn line in a file of this name."""
    return f"{name}:{problem.line}: left out {problem.message}"


def read_bytes(source: Source) -> bytes:
    """Return all of a file, unpacked, without the mark that some editors put at the beginning.

    Raises:
        DataFileError: It is broken gzip or zstd data.
        MissingPackageError: It is zstd data, and zstandard is not installed.
        OSError: It cannot be opened or read.
    """
    try:
        with _opened(source) as file:
            return file.read().removeprefix(_BOM)
    except CORRUPTION_ERRORS as error:
        problem = Problem("$", corruption_message(error))
        raise DataFileError(f"{source_name(source)}: {problem}", [problem]) from None


def write_cases(path: str | os.PathLike[str], cases: Iterable[TestCase | ConversationalTestCase | Golden]) -> None:
    """Write cases, conversations or goldens as JSON Lines, only what was set; gzipped if the name ends in `.gz`.

    The file appears whole or not at all: it is written beside its place and then moved there.
    """
    target = Path(path)
    with atomic_write(target) as draft, gzip.open(draft, "wb") if target.suffix == ".gz" else draft.open("wb") as file:
        for case in cases:
            file.write(case.to_json().encode() + b"\n")


class Document(NamedTuple):
    """One value of a file: that of a line, or an item where the file is one array.

    Attributes:
        value: The JSON value; `None` where there are problems.
        line: Its line, from 1; `None` of an item.
        item: Its position in the array, from 0; `None` of a line.
        problems: What keeps it from being read; the last document of a file may have those of the file.
        torn: It was never written to its end; see `read_cases`.
    """

    value: Any = None
    line: int | None = None
    item: int | None = None
    problems: tuple[Problem, ...] = ()
    torn: bool = False

    @property
    def place(self) -> str:
        """The name of a case that has none."""
        return f"line {self.line}" if self.item is None else f"item {self.item + 1}"

    def placed(self, problem: Problem) -> Problem:
        """Return a problem of this document as one of the file."""
        prefix = "$" if self.item is None else f"$[{self.item}]"
        return Problem(prefix + problem.path.removeprefix("$"), problem.message, self.line)


def problems_of(error: InvalidDataError) -> tuple[Problem, ...]:
    """Return the problems of an error, or the error as the only one."""
    return error.problems or (Problem("$", str(error)),)


def read_case(value: object, place: str, *, tolerant_arguments: bool = False) -> TestCase:
    """Return the case that a JSON value is.

    Args:
        value: A test case, or a record; see `read_cases`.
        place: The name of a case that has neither a name nor an id.
        tolerant_arguments: See `read_cases`.

    Raises:
        InvalidDataError: It is neither; `problems` has every place that is wrong.
    """
    if not isinstance(value, dict):
        message = f"expected an object (a test case or a record), got {type(value).__name__}"
        raise InvalidDataError(message, [Problem("$", message)])
    if "turns" in value:
        message = "is a conversation; only single cases can be read here, one per turn pair"
        raise InvalidDataError(message, [Problem("$.turns", message)])
    model = MLLMTestCase if isinstance(value.get("input"), list) else LLMTestCase
    case: TestCase
    if looks_like_record(value):
        case = case_from_record(value, tolerant_arguments=tolerant_arguments)
    else:
        case = model.model_validate(with_readable_arguments(value) if tolerant_arguments else value)
    return case if case.id or case.name else case.model_copy(update={"name": place})


def read_any_case(value: object, place: str, *, tolerant_arguments: bool = False) -> AnyCase:
    """Return the case or the conversation that a JSON value is; see `read_case`.

    Raises:
        InvalidDataError: It is neither; `problems` has every place that is wrong.
    """
    if not isinstance(value, dict) or "turns" not in value:
        return read_case(value, place, tolerant_arguments=tolerant_arguments)
    case = ConversationalTestCase.model_validate(value)
    return case if case.id or case.name else case.model_copy(update={"name": place})


def read_documents(source: Source, *, allow_nan: bool = False) -> Iterator[Document]:
    """Yield what a file holds, in its order: JSON Lines, or the items of one array; gzip and zstd are recognised.

    Blank lines are passed over. What cannot be read is a document with problems, and stops nothing.

    Raises:
        OSError: The file cannot be opened or read.
    """
    number, found = 0, False
    with _opened(source) as file:
        try:
            for number, raw in enumerate(file, start=1):
                line = raw.removeprefix(_BOM) if number == 1 else raw
                if not found and line.lstrip().startswith(b"["):
                    begin = line.strip().rstrip(CANCEL_MARK)
                    yield from _items(b"\n" * (number - 1) + begin + b"\n" + file.read(), allow_nan=allow_nan)
                    return
                if (document := read_line(line, number, allow_nan=allow_nan)) is not None:
                    found = True
                    yield document
        except CORRUPTION_ERRORS as error:
            yield Document(problems=(Problem("$", corruption_message(error), number + 1),))
            return
    if not found:
        yield Document(problems=(Problem("$", "the file is empty", 1),))


def read_line(raw: bytes, number: int, *, allow_nan: bool = False) -> Document | None:
    """Return what a line of a file of JSON Lines holds; `None` of a blank one.

    Args:
        raw: The line, with its end unless it has none.
        number: Its number, from 1.
        allow_nan: See `read_cases`.
    """
    line = raw.strip()
    cancelled = line.endswith(CANCEL_MARK)
    line = line.rstrip(CANCEL_MARK)
    if not line:
        return None
    unfinished = cancelled or not raw.endswith(b"\n")
    return _line(line, number, torn=unfinished and _is_part(line), allow_nan=allow_nan)


def _line(line: bytes, number: int, *, torn: bool, allow_nan: bool) -> Document:
    document = Document(line=number, torn=torn)
    if torn:
        problem = Problem("$", "a torn line: whoever wrote it was stopped before its end", number)
        return document._replace(problems=(problem,))
    try:
        return document._replace(value=parse_json(_text(line), allow_nan=allow_nan))
    except InvalidDataError as error:
        return document._replace(problems=tuple(map(document.placed, problems_of(error))))


def _is_part(line: bytes) -> bool:
    """Return whether a line can only be the beginning of an object."""
    try:
        json.loads(line.decode("utf-8", "replace"))  # it may end within a letter
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
        message = f"not UTF-8: {error.reason} at byte {error.start}"
        raise InvalidDataError(message, [Problem("$", message)]) from None


@contextmanager
def _opened(source: Source) -> Generator[BinaryIO, None, None]:
    if isinstance(source, (str, os.PathLike)):
        if source == "-":
            if sys.stdin is None:
                message = "there is no standard input to read"
                raise DataFileError(message, [Problem("$", message)])
            yield decompress(sys.stdin.buffer)
            return
        with Path(source).open("rb") as file:
            yield decompress(file)
    else:
        yield decompress(source)


def source_name(source: Source) -> str:
    """Return the name of a file for messages, with nothing in it that a terminal would obey."""
    return printable(_name(source))


def _name(source: Source) -> str:
    if isinstance(source, (str, os.PathLike)):
        return "<stdin>" if source == "-" else os.fspath(source)
    return str(getattr(source, "name", "<file>"))
