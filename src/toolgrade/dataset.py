"""Files of cases: JSON Lines with one case or record per line, plain or gzip; also one JSON array of them.

All problems of a file are collected before any is raised, each with its line and JSON path.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import chain
from pathlib import Path
from threading import Timer
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, TypeAlias, cast

from pydantic import Field, model_validator

from toolgrade._internal.atomic_files import atomic_write
from toolgrade._internal.compression import (
    CORRUPTION_ERRORS,
    corruption_message,
    decompress,
    lines_of,
    read_whole,
    unreadable_kind,
)
from toolgrade._internal.json import CANCEL_MARK, parse_json, within_limits
from toolgrade._internal.model import Model, drop_none, set_fields
from toolgrade._internal.text import plural, printable
from toolgrade.calls import AvailableTools
from toolgrade.cases import (
    NOT_ASKED,
    ConversationalTestCase,
    Identifier,
    Metadata,
    RunEnd,
    StoredText,
    StoredTexts,
    TestCase,
    Turn,
)
from toolgrade.errors import BadLineWarning, DataFileError, InvalidDataError, Problem, ToolgradeWarning
from toolgrade.expect import ExpectedOutput, ExpectedTools
from toolgrade.user_turns import SimulatedUser, TurnItems, UserField, UserTurn

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Golden", "write_cases"]

ANSWERS: Final = "answers"
"""Key in the metadata of a turn of the user: what the user answered while the agent waited for a person, as the JSON
forms of `Golden.turns`."""

Source: TypeAlias = "str | os.PathLike[str] | BinaryIO"
"""A path, `"-"` for standard input, or an open binary file; gzip is recognized by its content."""

BOM: Final = b"\xef\xbb\xbf"

_MAX_PROBLEMS = 10
"""Problems of a file that the message of an error has."""


class Golden(Model):
    """What a user asks, and the expected result; running an agent on it gives a test case.

    It has exactly one of `input` (a single question), `turns` (a conversation) and `user` (who makes one up).

    Raises:
        InvalidDataError: A field is unknown or has a wrong value; `problems` has every path.

    Example:
        >>> from toolgrade import Golden, ToolCall, UserTurn, write_cases
        >>> golden = Golden(
        ...     input="What is the weather in Paris?",
        ...     expected_tools=[ToolCall(name="get_weather", input_parameters={"city": "Paris"})],
        ... )
        >>> booking = UserTurn("Book the cheapest.", expected_tools=[ToolCall(name="book_flight")])
        >>> write_cases("goldens.jsonl", [golden, Golden(turns=["Find me a flight to Lisbon.", booking])])
        >>> Golden.load("goldens.jsonl")[0].input
        'What is the weather in Paris?'
    """

    input: str | None = None
    turns: TurnItems | None = None
    """What the user says: texts, `UserTurn` with expectations, and `Approve()` or `Reject("why")` after a text in
    answer to which the agent waits for a person. Read as a list of `UserTurn`, `Approve` and `Reject`."""
    user: UserField | None = None
    """A `SimulatedUser`, or a function `(conversation) -> text, Approve(), Reject("why") or None`, async or not, of the
    `ConversationalTestCase` so far; `None` ends the conversation. A function is not written to files."""
    id: Identifier | None = None
    expected_tools: ExpectedTools | None = None
    """The expected calls; of a conversation, in any turn or in the turn that a call names."""
    expected_output: ExpectedOutput | None = None
    required_texts: list[str] = Field(default_factory=list)
    ends: RunEnd | None = None
    """How the run must end: `"ok"` (the default), `"interrupted"` (a question to a person), `"stopped"`, `"error"` or
    `"any"`. A run with another end does not pass."""
    available_tools: AvailableTools | None = None
    tags: list[str] = Field(default_factory=list)
    metadata: Metadata = Field(default_factory=dict)
    context: StoredTexts = None
    retrieval_context: StoredTexts = None
    comments: StoredText = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        fields = [name for name in ("input", "turns", "user") if getattr(self, name) is not None]
        if len(fields) != 1:
            message = f"a golden must have exactly one of input, turns, user, got {', '.join(fields) or 'none'}"
            raise InvalidDataError(message)
        if self.turns and not isinstance(self.turns[0], UserTurn):
            message = "must be a text of the user; an answer to a run that waits comes after it"
            raise InvalidDataError(message, [Problem("$.turns[0]", message)])
        return self

    @property
    def question(self) -> str:
        """The first text of the user, or the goal of a simulated one; empty for a function."""
        if self.turns:
            return cast("UserTurn", self.turns[0]).content
        return self.input or (self.user.goal if isinstance(self.user, SimulatedUser) else "")

    @property
    def is_conversation(self) -> bool:
        """Whether running it gives a `ConversationalTestCase`, not an `LLMTestCase`."""
        return self.input is None

    @property
    def states_nothing(self) -> bool:
        """Whether it says nothing of what the agent should do."""
        stated = (self.expected_tools, self.expected_output, self.ends)
        of_turns = [turn for turn in self.turns or () if isinstance(turn, UserTurn)]
        texts = (self.required_texts, *(turn.required_texts for turn in of_turns))
        return not any(texts) and all(one is None for one in (*stated, *(turn.expected_tools for turn in of_turns)))

    def check_turns(self) -> None:
        """Raise `InvalidDataError` if what its turns state cannot be measured together, or a call names no turn."""
        if not self.turns:
            return
        texts = [Turn(role="user", **set_fields(one)) for one in self.turns if isinstance(one, UserTurn)]
        turns = list(chain.from_iterable((turn, NOT_ASKED) for turn in texts))
        whole = ConversationalTestCase(turns=turns, **drop_none({"expected_tools": self.expected_tools}))
        expected = whole.to_test_case().expected_tools
        calls = expected if isinstance(expected, list) else () if expected is None else expected.expected_calls()
        beyond = next((call for call in calls if (call.turn or 0) > len(texts)), None)
        if beyond is not None:
            named = f"the expected call {str(beyond.name)!r} names turn {beyond.turn}"
            raise InvalidDataError.of(f"{named}, and the user has {plural(len(texts), 'turn')}")

    @classmethod
    def from_conversation(cls, case: ConversationalTestCase) -> Golden:
        """Return the golden whose user says what the user of a conversation said, with its expectations.

        A conversation with a simulated user so becomes one that can be repeated word for word. Answers to a run that
        waited are known of conversations that `evaluate` made, not of recorded ones.

        Example:
            >>> from toolgrade import ConversationalTestCase, Golden, Turn
            >>> turns = [Turn(role="user", content="A refund, please."), Turn(role="assistant", content="Which order?")]
            >>> golden = Golden.from_conversation(ConversationalTestCase(turns=turns, id="refund"))
            >>> print(golden.to_json())
            {"turns": ["A refund, please."], "id": "refund"}
        """
        items: list[Any] = []
        for turn in case.turns:
            if turn.role == "user":
                names = {"expected_tools", "required_texts"} & turn.model_fields_set
                items.append(UserTurn(turn.content, **{name: getattr(turn, name) for name in names}))
                items += turn.metadata.get(ANSWERS, [])
        names = cls.model_fields.keys() & case.model_fields_set - {"turns"}
        return cls(turns=items, **{name: getattr(case, name) for name in names})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> list[Golden]:
        """Return the goldens of a file: JSON Lines with one golden per line, or one JSON array; plain or gzip.

        A key `$schema` of a golden is ignored.

        Raises:
            DataFileError: Some lines are not goldens; `problems` has all of them with line and path. If the file holds
                something else, such as recorded runs, the error names it and what to do.
            OSError: The file cannot be opened or read.
        """
        return read_goldens(path)


def file_error(source: Source, problems: Sequence[Problem]) -> DataFileError:
    """Return the error of a file with the first of these problems, one per line, and the number of the others."""
    bad = BadLines()
    bad.add(source, problems)
    return bad.error()


class BadLines:
    """What cannot be read in one file or several: counted, and the first problems named in an error or in warnings."""

    def __init__(self) -> None:
        self.count = 0
        self._problems: list[Problem] = []
        self._texts: list[str] = []

    def add(self, source: Source, problems: Sequence[Problem]) -> None:
        """Add the problems of a line, an item or a file."""
        self.count += 1
        self._problems += problems
        name = source_name(source)
        self._texts += [placed_text(name, one) for one in problems[: max(0, _MAX_PROBLEMS - len(self._texts))]]

    def check(self, source: Source, *, has_cases: bool, reject: bool) -> None:
        """Raise `DataFileError` if there is no case, or a bad line although they are rejected."""
        if not has_cases and not self.count:
            self.add(source, [Problem("", "has no case")])
        if self.count and (reject or not has_cases):
            raise self.error()

    def error(self) -> DataFileError:
        """Return the error of all problems; its message has the first."""
        return DataFileError("\n".join(self._lines()), self._problems)

    def warn(self, consequence: str, stacklevel: int) -> None:
        """Issue warnings that name the first problems, count the lines, and say what follows."""
        if self.count:
            counted = f"{plural(self.count, 'line')} cannot be read; {consequence}"
            for text in (*self._lines(), counted):
                warnings.warn(text, BadLineWarning, stacklevel=stacklevel + 1)

    def _lines(self) -> list[str]:
        others = len(self._problems) - len(self._texts)
        return [*self._texts, *([f"... and {others} more"] if others else [])]


def placed_text(name: str, problem: Problem) -> str:
    """Return a problem in a file of this name on one line."""
    if not problem.path:
        return f"{name} {problem.message}"
    return f"{name}:{problem.line}: {problem}" if problem.line else f"{name}: {problem}"


def torn_text(name: str, problem: Problem) -> str:
    """Return the warning of a torn line in a file of this name."""
    return f"{name}:{problem.line}: left out {problem.message}"


def read_bytes(source: Source) -> bytes:
    """Return the unpacked content of a file, without a byte order mark.

    Raises `DataFileError` for broken gzip data, and `OSError`.
    """
    try:
        with open_source(source) as file:
            return read_whole(file).removeprefix(BOM)
    except CORRUPTION_ERRORS as error:
        raise file_error(source, [Problem("$", corruption_message(error))]) from None


def read_goldens(source: Source, *, allow_nan: bool = False) -> list[Golden]:
    """Return the goldens of a file, in its order; see `Golden.load`."""
    from toolgrade.formats.document_kind import is_one_conversation  # noqa: PLC0415 - not loaded without a file

    goldens: list[Golden] = []
    problems: list[Problem] = []
    for document in read_documents(source, allow_nan=allow_nan, is_one=is_one_conversation):
        problems += document.problems
        if document.problems:
            continue
        try:
            goldens.append(read_golden(document.value))
        except InvalidDataError as error:
            other = _other_content(document.value, source_name(source))
            if other is not None:
                raise file_error(source, [Problem("", other)]) from None
            problems += map(document.placed, problems_of(error))
    if problems:
        raise file_error(source, problems)
    return goldens


def _other_content(value: object, name: str) -> str | None:
    """Return what a JSON value holds instead of a golden, and what to do; `None` if that is unknown."""
    from toolgrade.formats.document_kind import has_calls, kind_of  # noqa: PLC0415 - as above

    if kind_of(value) == "results":
        return "has results, not goldens; name the file that says which calls are expected"
    if has_calls(value):
        remedy = f"`toolgrade approve {name} --out goldens.jsonl` makes goldens of them"
        return f"has calls that were made, not goldens; {remedy}"
    return None


@within_limits
def read_golden(value: object) -> Golden:
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


def read_documents(
    source: Source, *, allow_nan: bool = False, is_one: Callable[[list[Any]], bool] = lambda _: False
) -> Iterator[Document]:
    """Yield the values of a file, in its order; gzip is recognized.

    The file is JSON Lines, or one JSON value on any number of lines. A list is one document for each item, unless
    `is_one` says that it is one document. Blank lines are skipped. A line that cannot be read is a document with
    problems, and the next ones are still read. An eval set of Google's Agent Development Kit is one document for each
    of its cases, as goldens.
    """
    from toolgrade.formats.eval_sets import goldens_of, is_eval_set, is_old_test  # noqa: PLC0415 - not loaded without a file

    for document in _documents_as_written(source, allow_nan=allow_nan, is_one=is_one):
        if is_eval_set(document.value):
            yield from (Document(golden, item=index) for index, golden in enumerate(goldens_of(document.value)))
        elif is_old_test(document.value):
            text = "is an eval of an old ADK; convert the file with `AgentEvaluator.migrate_eval_data_to_new_schema`"
            yield document._replace(value=None, problems=(document.placed(Problem("$", text)),))
        else:
            yield document


def _documents_as_written(
    source: Source, *, allow_nan: bool, is_one: Callable[[list[Any]], bool]
) -> Iterator[Document]:
    number = 0
    with open_source(source) as file:
        try:
            lines = _lines_with_content(file)
            number, first = next(lines, (1, b""))
            if not first:
                yield Document(problems=(Problem("$", "the file is empty", 1),))
                return
            document = read_line(first, number, allow_nan=allow_nan)
            if document.problems or first.lstrip().startswith(b"["):
                second = next(lines, None)
                if second is None or (document.problems and not _is_object(second[1])):
                    rest = b""
                    if second is not None:
                        rest = b"\n" * (second[0] - number - 1) + second[1] + read_whole(file)
                    yield from _whole(first, rest, document, is_one, allow_nan=allow_nan)
                    return
                lines = chain([second], lines)
            yield document
            for number, raw in lines:
                yield read_line(raw, number, allow_nan=allow_nan)
        except CORRUPTION_ERRORS as error:
            yield Document(problems=(Problem("$", corruption_message(error), number + 1),))


def _lines_with_content(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank with their numbers, without the mark of the byte order."""
    for number, raw in enumerate(lines_of(file), start=1):
        line = raw.removeprefix(BOM) if number == 1 else raw
        if line.strip(BLANK):
            yield number, line


BLANK: Final = b" \t\r\n\x0b\x0c" + CANCEL_MARK


def _is_object(raw: bytes) -> bool:
    """Return whether a line is a whole object, so that the file is JSON Lines although its first line is not JSON."""
    document = read_line(raw, 0, allow_nan=True)
    return isinstance(document.value, dict) and bool(document.value)


def _whole(
    first: bytes, rest: bytes, document: Document, is_one: Callable[[list[Any]], bool], *, allow_nan: bool
) -> Iterator[Document]:
    """Yield the documents of a file that is one JSON value; `document` is that of its first line."""
    value = document.value
    if document.problems:
        kind = unreadable_kind(first, rest)
        if kind is not None:
            yield Document(problems=(Problem("", kind),))
            return
        try:
            value = parse_json(_text(b"\n" * ((document.line or 1) - 1) + first + rest), allow_nan=allow_nan)
        except InvalidDataError as error:
            yield from _not_one_value(first, rest, document, error, allow_nan=allow_nan)
            return
    if isinstance(value, list) and not is_one(value):
        yield from (Document(item, item=index) for index, item in enumerate(value))
    else:
        yield Document(value, line=document.line)


def _not_one_value(
    first: bytes, rest: bytes, document: Document, error: InvalidDataError, *, allow_nan: bool
) -> Iterator[Document]:
    """Yield the documents of a file that is not one JSON value; `document` is that of its first line."""
    if not rest.strip():
        yield document
    elif first.lstrip().startswith((b"{", b"[")):
        yield Document(problems=problems_of(error))
    else:  # JSON Lines after lines of text
        for number, raw in enumerate(lines_of(BytesIO(first + rest)), start=document.line or 1):
            if raw.strip(BLANK):
                yield read_line(raw, number, allow_nan=allow_nan)


def read_line(raw: bytes, number: int, *, allow_nan: bool = False) -> Document:
    """Return the document of a line of JSON Lines that is not blank, given with its end."""
    line = raw.strip()
    cancelled = line.endswith(CANCEL_MARK)
    line = line.rstrip(CANCEL_MARK)
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
        with _opened(Path(source)) as file:
            yield decompress(file)
    elif sys.stdin is None:
        raise DataFileError.of("there is no standard input to read")
    else:
        yield decompress(sys.stdin.buffer)


_PATIENCE = 1.0
"""Seconds after which it is said that a pipe has no writer."""


def _opened(path: Path) -> BinaryIO:
    """Open a file; opening a pipe with a name waits for a program that writes to it, and after a second says so."""
    if not path.is_fifo():
        return path.open("rb")
    message = f"waiting for a program that writes to the pipe {source_name(path)}"
    timer = Timer(_PATIENCE, warnings.warn, (message, ToolgradeWarning))
    timer.start()
    try:
        return path.open("rb")
    finally:
        timer.cancel()
        timer.join()  # this process may fork


def source_name(source: Source) -> str:
    """Return the name of a file for messages, without characters that control a terminal."""
    if not isinstance(source, (str, os.PathLike)):
        name = str(getattr(source, "name", "<file>"))
    else:
        name = "<stdin>" if source == "-" else os.fspath(source)
    return printable(name)
