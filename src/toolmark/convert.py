"""Conversion of files of recorded messages and traces into cases.

A file holds JSON: one conversation, a list of them, or JSON Lines with one conversation per line, plain or gzipped. A
conversation is what `toolmark.formats.read` takes: a list of messages, or an object that holds one. Or the file holds
traces (`toolmark.formats.read_traces`), whose spans may be on any line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolmark._internal.json import parse_json
from toolmark._internal.text import plural
from toolmark.capture import conversation
from toolmark.cases import ConversationalTestCase, LLMTestCase, Run, TestCase
from toolmark.dataset import Document, Source, file_error, problems_of, read_bytes
from toolmark.errors import InvalidDataError, Problem
from toolmark.formats import FormatName, TraceFormat, Transcript, case_from_record, read
from toolmark.formats.messages.langchain import message_fields
from toolmark.formats.records import looks_like_record
from toolmark.formats.traces.read import TRACE_FORMATS, read_trace_documents, trace_format_of

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Unit", "read_transcripts"]

Unit: TypeAlias = Literal["cases", "turns", "conversations"]
"""What a conversation becomes: one case, one case for each turn of the user, or a conversation of turns."""

_MESSAGE_KEYS = frozenset({"messages", "input", "choices", "output", "request", "response", "body"})
"""Keys of an object that holds the messages of a conversation."""

_CASE_KEYS = ("id", "name", "expected_tools", "expected_output", "tags")
"""Fields of the case that an object may have besides the messages."""


@dataclass(frozen=True)
class Recorded:
    """One conversation of a file.

    Attributes:
        transcript: Its messages, as they were read.
        place: Its place in the file, e.g. `"line 3"`; empty if the file holds nothing else.
        about: The fields of the case that the object with the messages has, such as its id and its expectations.
    """

    transcript: Transcript
    place: str
    about: LLMTestCase

    @property
    def format(self) -> str:
        """The format of the messages."""
        return self.transcript.format

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """The warnings of the messages, each with its place."""
        return [(self.place, text) for text in self.transcript.run.warnings]

    @property
    def has_expectations(self) -> bool:
        """Whether the object with the messages has expectations."""
        return any(name.startswith("expected") for name in self.about.model_fields_set)

    def cases(self, unit: Unit = "cases") -> list[TestCase | ConversationalTestCase]:
        """Return the conversation as cases.

        Cases have the id, name, tags and expectations of the object with the messages; one without id and name is named
        after its place. Expectations of a whole conversation are left out of turns and conversations.
        """
        fields: dict[str, Any] = {
            name: getattr(self.about, name) for name in _CASE_KEYS if name in self.about.model_fields_set
        }
        if self.place and not fields.keys() & {"id", "name"}:
            fields["name"] = self.place
        if unit == "cases":
            run = self.transcript.run
            if self.about.run is not None:
                run = run.model_copy(update={"warnings": [*run.warnings, *self.about.run.warnings]})
            return [_with(run.to_test_case(), fields)]
        fields = {name: value for name, value in fields.items() if not name.startswith("expected")}
        if unit == "conversations":
            return [self.transcript.conversation.model_copy(update=fields)]
        return [
            _with(turn.to_test_case(), {**fields, **_turn_names(fields, number)})
            for number, turn in enumerate(self.transcript.turns, start=1)
        ]


@dataclass(frozen=True)
class RecordedSession:
    """The traces of one session of a file.

    Attributes:
        format: The format of the traces.
        runs: A run for each trace, in the order of their starts.
        notes: Warnings of the file as a whole, on its first session.
        has_expectations: False: traces have no expectations.
        place: Empty: a session has no place of its own.
    """

    format: TraceFormat
    runs: list[Run]
    notes: list[str]
    has_expectations: bool = False
    place: str = ""

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """The warnings of the file and of the traces, each with its place."""
        warnings = [("", note) for note in self.notes]
        for run in self.runs:
            place = f"trace {run.run_id}" if run.run_id else ""
            warnings += [(place, text) for text in run.warnings]
        return warnings

    def cases(self, unit: Unit = "cases") -> list[TestCase | ConversationalTestCase]:
        """Return a case for each trace, with the id of the trace, or one conversation."""
        if unit == "conversations":
            return [conversation(self.runs)]
        return [run.to_test_case() for run in self.runs]


def read_transcripts(
    source: Source,
    *,
    format: FormatName | TraceFormat | Literal["auto"] = "auto",
    handoff_names: Collection[str] = (),
    allow_nan: bool = False,
    tolerant_arguments: bool = False,
) -> list[Recorded | RecordedSession]:
    """Return the conversations of a file, in its order; none is dropped.

    Traces give a conversation for each session, in the order of their starts.

    One JSON value is one conversation, unless it is a list of lists, or of objects that each hold messages: then each
    entry is one. If the file is not one JSON value, each line is one conversation, and blank lines are skipped.

    An object may have `id`, `name`, `tags`, `expected_tools` and `expected_output` of its case besides its messages.

    Args:
        source: A path, `"-"` for standard input, or an open binary file; gzip is recognized by its content.
        format: The format of the messages or traces; detected for each conversation by default.
        handoff_names: See `toolmark.formats.read`.
        allow_nan: Accept bare NaN and infinities, which JSON does not have.
        tolerant_arguments: See `toolmark.formats.read`.

    Raises:
        DataFileError: The file holds no conversation, or some that cannot be read; `problems` has every place, with its
            line if each line is a conversation.
        OSError: The file cannot be opened or read.
    """
    options: dict[str, Any] = {
        "format": format,
        "handoff_names": tuple(handoff_names),
        "tolerant_arguments": tolerant_arguments,
    }
    documents = list(_documents(read_bytes(source), allow_nan=allow_nan))
    problems = [problem for document in documents for problem in document.problems]
    results: list[Recorded | RecordedSession] = []
    if not problems and _are_traces(documents, format):
        try:
            results += _read_sessions(documents, options)
        except InvalidDataError as error:
            problems += error.problems
    else:
        for document in documents:
            if document.problems:
                continue
            try:
                results.append(read_conversation(document, options))
            except InvalidDataError as error:
                problems += map(document.placed, problems_of(error))
    if not problems and not results:
        problems.append(Problem("$", "the file holds no conversation"))
    if problems:
        raise file_error(source, sorted(problems, key=lambda problem: problem.line or 0))
    return results


@dataclass
class Summary:
    """What was read and written.

    Attributes:
        noun: What was read: `conversation` or `trace`.
        formats: How many of each format.
        cases: Number of cases or conversations that were written.
        calls: Number of calls of the agents in them.
        warnings: What is doubtful, with its place.
    """

    noun: str = "conversation"
    formats: Counter[str] = field(default_factory=Counter[str])
    cases: int = 0
    calls: int = 0
    warnings: list[str] = field(default_factory=list[str])

    def add(self, recorded: Recorded | RecordedSession, unit: Unit) -> list[TestCase | ConversationalTestCase]:
        """Count a conversation or a session, and return its cases."""
        cases = recorded.cases(unit)
        if isinstance(recorded, RecordedSession):
            self.noun = "trace"
            self.formats[recorded.format] += len(recorded.runs)
        else:
            self.formats[recorded.format] += 1
        self.cases += len(cases)
        for case in cases:
            parts = case.turns if isinstance(case, ConversationalTestCase) else [case]
            self.calls += sum(len(part.tools_called or ()) for part in parts)
        self.warnings += [f"{place}: {text}" if place else text for place, text in recorded.warnings]
        if unit != "cases" and recorded.has_expectations:
            place = f"{recorded.place}: " if recorded.place else ""
            self.warnings.append(f"{place}left out the expectations of the conversation; use --as cases to keep them")
        return cases

    def __iadd__(self, other: Summary) -> Self:
        """Add what was read and written after this."""
        self.formats += other.formats
        self.cases, self.calls = self.cases + other.cases, self.calls + other.calls
        self.warnings += other.warnings
        return self

    @property
    def source(self) -> str:
        """What was read, such as `"3 conversations (2 openai-chat, 1 anthropic)"` or `"3 traces (otel)"`."""
        names = [f"{number} {name}" if len(self.formats) > 1 else name for name, number in self.formats.items()]
        return f"{plural(sum(self.formats.values()), self.noun)} ({', '.join(names)})"


def _documents(data: bytes, *, allow_nan: bool) -> Iterator[Document]:
    """Yield the conversations of a file; a line that is not JSON is a document with problems."""
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()]
    if not lines:
        return
    try:
        value = parse_json(data, allow_nan=allow_nan)
    except InvalidDataError as error:
        if not any(holds_json(line) for _, line in lines):
            yield Document(problems=problems_of(error))
            return
    else:
        if _is_list_of_conversations(value):
            yield from (Document(entry, item=index) for index, entry in enumerate(value))
        else:
            yield Document(value)
        return
    for number, line in lines:
        yield line_document(line, number, allow_nan=allow_nan)


def line_document(line: bytes, number: int, *, allow_nan: bool) -> Document:
    """Return the conversation of a line, or why it is not JSON."""
    document = Document(line=number)
    try:
        return document._replace(value=parse_json(line, allow_nan=allow_nan))
    except InvalidDataError as error:
        return document._replace(problems=tuple(map(document.placed, problems_of(error))))


def holds_json(line: bytes) -> bool:
    """Return whether a line holds a value of its own, so that the file is JSON Lines."""
    try:
        value = parse_json(line, allow_nan=True)
    except InvalidDataError:
        return False
    return isinstance(value, (dict, list)) and bool(value)


def _is_list_of_conversations(value: object) -> bool:
    if not isinstance(value, list) or not value or trace_format_of(value) is not None:
        return False
    return all(map(_is_conversation, value))


def _is_conversation(entry: object) -> bool:
    """Return whether an entry of a list is a whole conversation, not a message, an item or an event of one."""
    if not isinstance(entry, dict):
        return isinstance(entry, list)
    if entry.keys() & {"role", "type"}:
        return "stop_reason" in entry
    return bool(entry.keys() & _MESSAGE_KEYS) and entry.get("object") != "chat.completion.chunk"


def _are_traces(documents: list[Document], format: str) -> bool:
    """Return whether a file holds traces: then all of it does, and anything else in it is a mistake."""
    if format != "auto":
        return format in TRACE_FORMATS
    return any(trace_format_of(document.value) is not None for document in documents)


def _read_sessions(documents: list[Document], options: dict[str, Any]) -> list[RecordedSession]:
    lines = {f"line {document.line}": document.line for document in documents if document.line is not None}
    values = [("$" if document.line is None else document.place, document.value) for document in documents]
    try:
        traces = read_trace_documents(values, **options)
    except InvalidDataError as error:
        problems: list[Problem] = []
        for problem in error.problems:
            start = problem.path.partition(".")[0].partition("[")[0]
            path = "$" + problem.path.removeprefix(start) if start in lines else problem.path
            problems.append(Problem(path, problem.message, lines.get(start)))
        raise InvalidDataError(str(error), problems) from None
    sessions = [RecordedSession(traces.format, runs, []) for runs in traces.sessions]
    for first in sessions[:1]:
        first.notes.extend(traces.warnings)
    return sessions


def read_conversation(document: Document, options: Mapping[str, Any]) -> Recorded:
    """Return the conversation of a document.

    Raises:
        InvalidDataError: It cannot be read.
    """
    value = document.value
    fields: dict[str, Any] = {}
    if isinstance(value, Mapping):
        if looks_like_record(value) or "tools_called" in value:
            raise _invalid("is a case or a record already; `toolmark score` reads it as it is")
        is_message = "role" in value or message_fields(value) is not None
        if document.line is not None and is_message and "stop_reason" not in value:
            raise _invalid("is a single message; a line holds one conversation: put its messages into one list")
        if "role" not in value:
            fields = {key: value[key] for key in _CASE_KEYS if value.get(key) is not None}
    about = case_from_record(fields, tolerant_arguments=options["tolerant_arguments"])
    is_alone = document.line is None and document.item is None
    return Recorded(read(value, **options), "" if is_alone else document.place, about)


def _invalid(message: str) -> InvalidDataError:
    return InvalidDataError(message, [Problem("$", message)])


def _with(case: LLMTestCase, fields: Mapping[str, Any]) -> LLMTestCase:
    return LLMTestCase(**{name: getattr(case, name) for name in case.model_fields_set} | dict(fields))


def _turn_names(fields: Mapping[str, Any], number: int) -> dict[str, str]:
    """Return the id and the name of one turn, from those of its conversation."""
    names = {name: f"{fields[name]}, turn {number}" for name in ("id", "name") if name in fields}
    return names or {"name": f"turn {number}"}
