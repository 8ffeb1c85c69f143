"""Conversion of files of recorded messages and traces into cases.

A file holds JSON: one conversation, a list of them, or JSON Lines with one conversation per line, plain or gzipped. A
conversation is what `toolgrade.formats.read` takes: a list of messages, or an object that holds one. Or the file holds
traces (`toolgrade.formats.read_traces`), whose spans may be on any line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Literal, TypeAlias

from toolgrade._internal.file_kinds import unreadable_kind
from toolgrade._internal.json import parse_json
from toolgrade._internal.model import set_fields
from toolgrade._internal.text import plural
from toolgrade.cases import ConversationalTestCase, LLMTestCase, Run, TestCase
from toolgrade.dataset import Document, Source, file_error, placed_text, problems_of, read_bytes, source_name
from toolgrade.errors import InvalidDataError, Problem
from toolgrade.formats import Transcript, case_from_record, read
from toolgrade.formats.messages.langchain import message_fields
from toolgrade.formats.messages.transcript import FormatName
from toolgrade.formats.records import looks_like_record
from toolgrade.formats.traces.read import (
    TRACE_FORMATS,
    TraceFormat,
    read_trace_documents,
    session_conversation,
    trace_format_of,
)

Unit: TypeAlias = Literal["cases", "conversations"]
"""Form of a converted conversation: one case, or a conversation of turns."""

_MESSAGE_KEYS = frozenset({"messages", "input", "choices", "output", "request", "response", "body"})
"""Keys of an object that holds the messages of a conversation."""

_MAX_TEXTS = 10
"""Problems of skipped conversations that are named."""

_CASE_KEYS = ("id", "name", "expected_tools", "expected_output", "required_texts", "must_end", "ended", "tags")
"""Fields of the case that an object may have besides the messages."""

_LABELS = frozenset({"id", "name", "tags", "metadata"})
"""Those of them that a conversation has, too; the others say what the whole run should do."""


@dataclass(frozen=True)
class RecordedConversation:
    """One conversation of a file.

    Attributes:
        transcript: Its messages, as they were read.
        place: Its place in the file, e.g. `"line 3"`; empty if the file holds nothing else.
        fields: The fields of the case that the object with the messages has, such as its id and its expectations.
        notes: Warnings about these fields, which go to the run of the case.
    """

    transcript: Transcript
    place: str
    fields: dict[str, Any]
    notes: list[str]
    count: ClassVar[int] = 1
    """Number of conversations; the counterpart of `RecordedSession.count`."""

    @property
    def format(self) -> str:
        """The format of the messages."""
        return self.transcript.format

    @property
    def warnings(self) -> list[str]:
        """The warnings of the messages, with their place."""
        return [_placed(self.place, text) for text in self.transcript.run.warnings]

    @property
    def has_expectations(self) -> bool:
        """Whether the object with the messages has expectations."""
        return not self.fields.keys() <= _LABELS | {"ended"}

    def cases(self, unit: Unit = "cases") -> list[TestCase | ConversationalTestCase]:
        """Return the conversation as cases.

        Cases have the id, name, tags and expectations of the object with the messages; one without id and name is named
        after its place. Expectations of a whole conversation are left out of conversations.
        """
        fields = self.fields
        if self.place and not fields.keys() & {"id", "name"}:
            fields = {**fields, "name": self.place}
        if unit == "cases":
            return [_with_fields(self._run().to_test_case(), fields)]
        return [self._conversation({name: value for name, value in fields.items() if name in _LABELS})]

    def _conversation(self, labels: dict[str, Any]) -> ConversationalTestCase:
        """Return the conversation with these labels; metadata are merged."""
        conversation = self.transcript.conversation
        if "metadata" in labels:
            labels["metadata"] = {**conversation.metadata, **labels["metadata"]}
        return conversation.model_copy(update=labels)

    def _run(self) -> Run:
        """Return the run, with the warnings about the fields of the case."""
        run = self.transcript.run
        return run.model_copy(update={"warnings": [*run.warnings, *self.notes]}) if self.notes else run


@dataclass(frozen=True)
class RecordedSession:
    """The traces of one session of a file.

    Attributes:
        format: The format of the traces.
        runs: A run for each trace, in the order of their starts.
        notes: Warnings about the whole file; only its first session has them.
        place: The file, if there are several; else empty.
    """

    format: TraceFormat
    runs: list[Run]
    notes: list[str]
    place: str = ""
    has_expectations: ClassVar[bool] = False

    @property
    def count(self) -> int:
        """Number of the traces."""
        return len(self.runs)

    @property
    def warnings(self) -> list[str]:
        """The warnings of the file, and those of the traces with their trace, with their place."""
        warnings = [*self.notes]
        for run in self.runs:
            trace = f"trace {run.run_id}" if run.run_id else ""
            warnings += [_placed(trace, text) for text in run.warnings]
        return [_placed(self.place, text) for text in warnings]

    def cases(self, unit: Unit = "cases") -> list[TestCase | ConversationalTestCase]:
        """Return a case for each trace, with the id of the trace, or one conversation."""
        if unit == "conversations":
            return [session_conversation(self.runs)]
        return [run.to_test_case(id=run.run_id) for run in self.runs]


Recorded: TypeAlias = RecordedConversation | RecordedSession


def read_transcripts(
    source: Source,
    *,
    format: FormatName | TraceFormat | Literal["auto"] = "auto",
    handoff_names: Collection[str] = (),
    allow_nan: bool = False,
) -> list[Recorded]:
    """Return the conversations of a file, in its order; none is dropped.

    Traces give a conversation for each session, in the order of their starts.

    One JSON value is one conversation, unless it is a list of lists, or of objects that each hold messages: then each
    entry is one. If the file is not one JSON value, each line is one conversation, and blank lines are skipped; if each
    line is one message, the file is one conversation.

    An object may have `id`, `name`, `tags`, `expected_tools`, `expected_output`, `required_texts`, `must_end` and
    `ended` of its case besides its messages, and its `metadata`.

    Args:
        source: A path, `"-"` for standard input, or an open binary file; gzip is recognized by its content.
        format: The format of the messages or traces; detected for each conversation by default.
        handoff_names: See `toolgrade.formats.read`.
        allow_nan: Accept bare NaN and infinities, which JSON does not have.

    Raises:
        DataFileError: The file holds no conversation, or some that cannot be read; `problems` has every place, with its
            line if each line is a conversation.
        OSError: The file cannot be opened or read.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> from toolgrade.convert import read_transcripts
        >>> call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
        >>> messages = [{"role": "user", "content": "Weather in Paris?"}, {"role": "assistant", "tool_calls": [call]}]
        >>> _ = Path("log.jsonl").write_text(json.dumps({"messages": messages}), encoding="utf-8")
        >>> [call.name for case in read_transcripts("log.jsonl")[0].cases() for call in case.tools_called]
        ['get_weather']
    """
    options: dict[str, Any] = {
        "format": format,
        "handoff_names": tuple(handoff_names),
    }
    return read_recorded(source, options, allow_nan=allow_nan, left_out=None)


def read_recorded(
    source: Source, options: Mapping[str, Any], *, allow_nan: bool, left_out: LeftOut | None
) -> list[Recorded]:
    """Do what `read_transcripts` does; with `left_out`, add to it what cannot be read, unless that is everything.

    Raises:
        DataFileError: See `read_transcripts`.
    """
    documents = _documents(read_bytes(source), allow_nan=allow_nan)
    problems: list[Problem] = []
    if left_out is None:
        results, number = _read_all(documents, options, problems), 0
    else:
        results, number = _read_readable(documents, options, problems)
    if not problems and not results:
        problems.append(Problem("$", "the file holds no conversation"))
    problems.sort(key=_line_of)
    if left_out is not None and results:
        left_out.add(source_name(source), number, problems)
    elif problems:
        raise file_error(source, problems)
    return results


def _line_of(problem: Problem) -> int:
    return problem.line or 0


def _read_all(documents: list[Document], options: Mapping[str, Any], problems: list[Problem]) -> list[Recorded]:
    """Return the conversations or sessions of documents; what cannot be read is added to the problems."""
    if _are_traces(documents, options["format"]):
        return [*_read_sessions(documents, options, problems)]
    return [*_read_conversations(documents, options, problems)]


def _read_readable(
    documents: list[Document], options: Mapping[str, Any], problems: list[Problem]
) -> tuple[list[Recorded], int]:
    """Return the conversations or sessions that can be read, and how many documents cannot."""
    problems += [problem for document in documents for problem in document.problems]
    valid = [document for document in documents if not document.problems]
    results = _read_all(valid, options, problems)
    if not _are_traces(valid, options["format"]):
        return results, len(documents) - len(results)
    if problems and not results:
        valid = _other_lines(valid, problems)
        results += _read_sessions(valid, options, problems) if valid else []
    return results, len(documents) - len(valid)


def _other_lines(documents: list[Document], problems: list[Problem]) -> list[Document]:
    """Return the documents of the lines without a problem."""
    lines = {problem.line for problem in problems}
    return [document for document in documents if document.line is not None and document.line not in lines]


@dataclass
class LeftOut:
    """Conversations that were left out because they cannot be read.

    Attributes:
        number: How many there are.
        texts: The first of their problems, with their places.
        problems: How many problems they have.
    """

    number: int = 0
    texts: list[str] = field(default_factory=list[str])
    problems: int = 0

    def add(self, file: str, number: int, problems: Collection[Problem]) -> None:
        """Add conversations of a file, and their problems."""
        self.number += number
        self.problems += len(problems)
        room = max(0, _MAX_TEXTS - len(self.texts))
        self.texts += [placed_text(file, problem) for problem in islice(problems, room)]

    @property
    def warnings(self) -> list[str]:
        """The first problems, how many more there are, and the number of conversations; empty without any."""
        if not self.number:
            return []
        more = self.problems - len(self.texts)
        return [
            *self.texts,
            *([f"... and {more} more"] if more else []),
            f"left out {plural(self.number, 'conversation')} with {plural(self.problems, 'problem')}",
        ]


@dataclass
class Summary:
    """Summary of a conversion.

    Attributes:
        formats: Number of conversations or traces by format.
        cases: Number of cases or conversations that were written.
        calls: Number of calls of the agents in them.
        warnings: Warnings with their places.
        left_out: Conversations that cannot be read, if these are skipped.
    """

    formats: Counter[str] = field(default_factory=Counter[str])
    cases: int = 0
    calls: int = 0
    warnings: list[str] = field(default_factory=list[str])
    left_out: LeftOut = field(default_factory=LeftOut)

    def add(self, recorded: Recorded, unit: Unit) -> list[TestCase | ConversationalTestCase]:
        """Count a conversation or a session, and return its cases."""
        cases = recorded.cases(unit)
        self.formats[recorded.format] += recorded.count
        self.cases += len(cases)
        self.calls += sum(map(_count_calls, cases))
        self.warnings += recorded.warnings
        if unit != "cases" and recorded.has_expectations:
            text = "left out the expectations of the conversation; use --as cases to keep them"
            self.warnings.append(_placed(recorded.place, text))
        return cases

    @property
    def source(self) -> str:
        """Text about what was read, such as `"3 conversations (2 openai-chat, 1 anthropic)"` or `"3 traces (otel)"`."""
        names = [f"{number} {name}" if len(self.formats) > 1 else name for name, number in self.formats.items()]
        noun = "conversation" if self.formats.keys().isdisjoint(TRACE_FORMATS) else "trace"
        return f"{plural(sum(self.formats.values()), noun)} ({', '.join(names)})"


def _documents(data: bytes, *, allow_nan: bool) -> list[Document]:
    """Return the conversations of a file; a line that is not JSON is a document with problems."""
    try:
        value = parse_json(data, allow_nan=allow_nan)
    except InvalidDataError as error:
        return _line_documents(data, error, allow_nan=allow_nan)
    if _is_list_of_conversations(value):
        return [Document(entry, item=index) for index, entry in enumerate(value)]
    return [Document(value)]


def _line_documents(data: bytes, error: InvalidDataError, *, allow_nan: bool) -> list[Document]:
    """Return the conversation of each line, or the only one if each line is a message.

    If no line holds JSON, it is a document with the error of the whole file.
    """
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()]
    problems = _file_problems([line for _, line in lines], error)
    if problems:
        return [Document(problems=problems)]
    documents = [_line_document(line, number, allow_nan=allow_nan) for number, line in lines]
    if len(documents) > 1 and all(_is_message(document.value) for document in documents):
        return [Document([document.value for document in documents])]
    return documents


def _file_problems(lines: list[bytes], error: InvalidDataError) -> tuple[Problem, ...]:
    """Return why no line of a file holds JSON; empty if one does, or if there are no lines."""
    if not lines:
        return ()
    kind = unreadable_kind(lines[0], b"".join(lines[1:2]))
    if kind is not None:
        return (Problem("", kind),)
    return () if any(map(_holds_json, lines)) else problems_of(error)


def _line_document(line: bytes, number: int, *, allow_nan: bool) -> Document:
    """Return the conversation of a line, or why it is not JSON."""
    document = Document(line=number)
    try:
        return document._replace(value=parse_json(line, allow_nan=allow_nan))
    except InvalidDataError as error:
        return document._replace(problems=tuple(map(document.placed, problems_of(error))))


def _holds_json(line: bytes) -> bool:
    """Return whether a line is a non-empty JSON object or list, so that the file is JSON Lines."""
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
        return "stop_reason" in entry  # a message or an event, unless it is a response of Anthropic
    return bool(entry.keys() & _MESSAGE_KEYS) and entry.get("object") != "chat.completion.chunk"


def _are_traces(documents: list[Document], format: str) -> bool:
    """Return whether a file holds traces; one trace suffices, and then other content of the file is an error."""
    if any(document.problems for document in documents):
        return False
    if format != "auto":
        return format in TRACE_FORMATS
    return any(trace_format_of(document.value) is not None for document in documents)


def _read_sessions(
    documents: list[Document], options: Mapping[str, Any], problems: list[Problem]
) -> list[RecordedSession]:
    """Return the sessions in the traces of a file; what cannot be read is added to the problems."""
    lines = {_trace_root(document): document.line for document in documents}
    try:
        traces = read_trace_documents([(_trace_root(document), document.value) for document in documents], **options)
    except InvalidDataError as error:
        problems += [_problem_in_line(problem, lines) for problem in error.problems]
        return []
    sessions = [RecordedSession(traces.format, runs, []) for runs in traces.sessions]
    if sessions:
        sessions[0].notes.extend(traces.warnings)
    return sessions


def _trace_root(document: Document) -> str:
    """Return the path of a document in warnings and problems of traces, which may have spans on several lines."""
    return "$" if document.line is None else document.place


def _problem_in_line(problem: Problem, lines: Mapping[str, int | None]) -> Problem:
    """Return a problem of the path `line 3.spans` as a problem of line 3 and the path `$.spans`."""
    start = problem.path.partition(".")[0].partition("[")[0]
    line = lines.get(start)
    return problem if line is None else Problem("$" + problem.path.removeprefix(start), problem.message, line)


def _read_conversations(
    documents: list[Document], options: Mapping[str, Any], problems: list[Problem]
) -> list[RecordedConversation]:
    """Return the conversations that can be read; what cannot be read is added to the problems."""
    results: list[RecordedConversation] = []
    for document in documents:
        problems += document.problems
        if document.problems:
            continue
        try:
            results.append(_read_conversation(document, options))
        except InvalidDataError as error:
            problems += map(document.placed, problems_of(error))
    return results


def _read_conversation(document: Document, options: Mapping[str, Any]) -> RecordedConversation:
    """Return the conversation of a document.

    Raises:
        InvalidDataError: It cannot be read.
    """
    fields = document.value if isinstance(document.value, Mapping) else {}
    _refuse_other_data(fields, is_line=document.line is not None)
    case = case_from_record(_case_fields(fields))
    is_alone = document.line is None and document.item is None
    return RecordedConversation(
        read(document.value, **options),
        "" if is_alone else document.place,
        {name: getattr(case, name) for name in (*_CASE_KEYS, "metadata") if name in case.model_fields_set},
        case.run.warnings if case.run else [],
    )


def _refuse_other_data(fields: Mapping[str, Any], *, is_line: bool) -> None:
    """Raise an error for a case, a record, or a line with a single message."""
    if looks_like_record(fields) or "tools_called" in fields:
        raise InvalidDataError.of("is a case or a record already; `toolgrade score` reads it as it is")
    if is_line and _is_message(fields):
        raise InvalidDataError.of("is a single message; a line holds one conversation: put its messages into one list")


def _is_message(value: object) -> bool:
    """Return whether a value is one message, and not a response."""
    if not isinstance(value, Mapping) or "stop_reason" in value:
        return False
    return "role" in value or message_fields(value) is not None


def _case_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the case in an object that holds messages; a single message has no such fields."""
    if "role" in fields:
        return {}
    return {key: fields[key] for key in (*_CASE_KEYS, "metadata") if fields.get(key) is not None}


def _placed(place: str, text: str) -> str:
    return f"{place}: {text}" if place else text


def _count_calls(case: TestCase | ConversationalTestCase) -> int:
    parts = case.turns if isinstance(case, ConversationalTestCase) else [case]
    return sum(len(part.tools_called or ()) for part in parts)


def _with_fields(case: LLMTestCase, fields: Mapping[str, Any]) -> LLMTestCase:
    """Return a copy of the case with these fields set."""
    values = set_fields(case) | dict(fields)
    metadata = {**case.metadata, **fields.get("metadata", {})}
    if metadata:
        values["metadata"] = metadata
    return LLMTestCase(**values)
