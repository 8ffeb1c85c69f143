"""Files of recorded messages and traces into files of cases.

A file holds JSON: one conversation, or a list of them, or JSON Lines with one conversation a line, plain or gzipped. A
conversation is whatever `toolmark.formats.read` takes: a list of messages, or an object that holds one. Or it holds
traces (`toolmark.formats.read_traces`), whose spans may stand on any line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from toolmark._internal.json import JsonObject, parse_json
from toolmark._internal.text import plural
from toolmark.capture import conversation
from toolmark.cases import ConversationalTestCase, LLMTestCase, Run, TestCase
from toolmark.dataset import Source, read_bytes, source_name
from toolmark.errors import DataFileError, InvalidDataError, Problem
from toolmark.formats import (
    TRACE_FORMATS,
    FormatName,
    TraceFormat,
    Transcript,
    case_from_record,
    looks_like_record,
    read,
)
from toolmark.formats.messages.langchain import message_fields
from toolmark.formats.traces.read import read_trace_documents, trace_format_of

Unit: TypeAlias = Literal["cases", "turns", "conversations"]
"""What a conversation becomes: one case, one case for each turn of the user, or a conversation of turns."""

_HOLDERS = frozenset({"messages", "input", "choices", "output", "request", "response", "body"})
"""Keys of an object that holds the messages of a conversation."""

_ABOUT = ("id", "name", "expected_tools", "expected_output", "tags")
"""What an object may say of its case beside the messages."""


@dataclass(frozen=True)
class Recorded:
    """One conversation of a file.

    Attributes:
        transcript: What was said.
        place: Where it stands, e.g. `"line 3"`; empty where the file holds nothing else.
        about: What the object that held the messages says of the case, as fields of a record.
        tolerant_arguments: How the arguments in it are read; see `toolmark.formats.read`.
    """

    transcript: Transcript
    place: str
    about: JsonObject
    tolerant_arguments: bool = False

    @property
    def format(self) -> str:
        """What the messages were read as."""
        return self.transcript.format

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """What is to be said of them, each with its place."""
        return [(self.place, text) for text in self.transcript.run.warnings]

    @property
    def has_expectations(self) -> bool:
        """Whether the object that held the messages says what was expected of them."""
        return any(name.startswith("expected") for name in self.about)

    def cases(self, unit: Unit = "cases") -> list[TestCase | ConversationalTestCase]:
        """Return what the conversation becomes.

        Cases carry the id, name, tags and expectations that stood beside the messages; one without id and name is named
        after its place. What was expected of a whole conversation is not expected of one turn, nor kept with one.
        """
        about = case_from_record(self.about, tolerant_arguments=self.tolerant_arguments)
        known: dict[str, Any] = {name: getattr(about, name) for name in _ABOUT if name in about.model_fields_set}
        named = {"name": self.place} if self.place and not {"id", "name"} & set(known) else {}
        if unit == "cases":
            run = self.transcript.run
            doubts = about.run.warnings if about.run is not None else []
            run = run.model_copy(update={"warnings": [*run.warnings, *doubts]}) if doubts else run
            return [_with(run.to_test_case(), {**named, **known})]
        kept: dict[str, Any] = {name: known[name] for name in ("id", "name", "tags") if name in known}
        if unit == "conversations":
            return [self.transcript.conversation.model_copy(update={**named, **kept})]
        turns = self.transcript.turns
        return [_turn(turn.to_test_case(), {**named, **kept}, number) for number, turn in enumerate(turns, start=1)]


@dataclass(frozen=True)
class RecordedSession:
    """The traces of one session of a file.

    Attributes:
        format: What they were read as.
        runs: A run for each trace, in the order of their beginnings.
        notes: What is to be said of the file as a whole; it stands with the first session.
        has_expectations: Never: traces do not say what was expected.
    """

    format: TraceFormat
    runs: list[Run]
    notes: list[str]
    has_expectations: bool = False

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """What is to be said of them, each with its place."""
        told = [(_trace_name(run), text) for run in self.runs for text in run.warnings]
        return [*(("", note) for note in self.notes), *told]

    def cases(self, unit: Unit = "cases") -> list[TestCase | ConversationalTestCase]:
        """Return what the traces become: a case each, with the id of its trace, or one conversation."""
        if unit == "conversations":
            return [conversation(self.runs)]
        return [run.to_test_case() for run in self.runs]


def _trace_name(run: Run) -> str:
    return f"trace {run.run_id}" if run.run_id else ""


def read_transcripts(
    source: Source,
    *,
    format: FormatName | TraceFormat | Literal["auto"] = "auto",
    handoff_names: Collection[str] = (),
    allow_nan: bool = False,
    tolerant_arguments: bool = False,
) -> list[Recorded | RecordedSession]:
    """Return the conversations of a file, in its order; none is dropped.

    Traces give a conversation for each session, in the order of their beginnings.

    One JSON value is one conversation, unless it is a list of lists, or of objects that each hold messages: then each
    entry is one. Where the whole file is no JSON value, each line is one conversation, and blank lines are passed over.

    An object may say of its case, beside its messages, `id`, `name`, `tags`, `expected_tools` and `expected_output`.

    Args:
        source: A path, `"-"` for standard input, or an open binary file; gzip is recognised by its content.
        format: What the messages are; by default, what each conversation looks like.
        handoff_names: See `toolmark.formats.read`.
        allow_nan: Accept bare NaN and infinities, which JSON does not have.
        tolerant_arguments: See `toolmark.formats.read`.

    Raises:
        DataFileError: The file holds no conversation, or some that cannot be read; `problems` has every place, with its
            line where each line is a conversation.
        OSError: The file cannot be opened or read.
    """
    problems: list[Problem] = []
    found: list[Recorded | RecordedSession] = []
    documents = list(_documents(read_bytes(source), problems, allow_nan=allow_nan))
    if not problems and _are_traces(documents, format):
        reading = _Reading(format, tuple(handoff_names), tolerant_arguments)
        documents, found = [], _sessions(documents, reading, problems)
    for document in documents:
        try:
            found.append(_recorded(document, format, handoff_names, tolerant=tolerant_arguments))
        except InvalidDataError as error:
            told = error.problems or (Problem("$", str(error)),)
            problems += [Problem(_placed(problem.path, document), problem.message, document.line) for problem in told]
    problems.sort(key=lambda problem: problem.line or 0)
    if not problems and not found:
        problems.append(Problem("$", "the file holds no conversation"))
    if problems:
        name = source_name(source)
        lines = (f"{name}:{problem.line}: {problem}" if problem.line else f"{name}: {problem}" for problem in problems)
        raise DataFileError("\n".join(lines), problems)
    return found


def describe(recorded: Iterable[Recorded | RecordedSession]) -> str:
    """Return how many conversations of which format there are: `"3 conversations (2 openai-chat, 1 anthropic)"`.

    Traces are counted as such: `"3 traces (otel)"`.
    """
    formats: Counter[str] = Counter()
    traces = False
    for entry in recorded:
        traces = isinstance(entry, RecordedSession)
        formats[entry.format] += len(entry.runs) if isinstance(entry, RecordedSession) else 1
    listed = ", ".join(f"{number} {name}" if len(formats) > 1 else name for name, number in formats.items())
    return f"{plural(sum(formats.values()), 'trace' if traces else 'conversation')} ({listed})"


class _Document(NamedTuple):
    """One conversation of a file."""

    value: Any
    line: int | None = None
    item: int | None = None

    @property
    def place(self) -> str:
        if self.line is not None:
            return f"line {self.line}"
        return "" if self.item is None else f"item {self.item + 1}"


def _are_traces(documents: list[_Document], format: str) -> bool:
    """Return whether a file holds traces: all of it, for what is none beside them is then a mistake."""
    if format != "auto":
        return format in TRACE_FORMATS
    return any(trace_format_of(document.value) is not None for document in documents)


def _sessions(
    documents: list[_Document], reading: _Reading, problems: list[Problem]
) -> list[Recorded | RecordedSession]:
    """Return the sessions in the traces of a file; what cannot be read goes into `problems`."""
    lines = {f"line {document.line}": document.line for document in documents if document.line is not None}
    values = [("$" if document.line is None else f"line {document.line}", document.value) for document in documents]
    try:
        traces = read_trace_documents(
            values,
            format=cast("Any", reading.format),
            handoff_names=reading.handoff_names,
            tolerant_arguments=reading.tolerant_arguments,
        )
    except InvalidDataError as error:
        for problem in error.problems:
            start = problem.path.partition(".")[0].partition("[")[0]
            path = "$" + problem.path.removeprefix(start) if start in lines else problem.path
            problems.append(Problem(path, problem.message, lines.get(start)))
        return []
    notes = [traces.warnings, *([] for _ in traces.runs)]
    return [RecordedSession(traces.format, runs, notes[index]) for index, runs in enumerate(traces.sessions)]


class _Reading(NamedTuple):
    """How traces are to be read."""

    format: str
    handoff_names: tuple[str, ...]
    tolerant_arguments: bool


def _placed(path: str, document: _Document) -> str:
    return path if document.item is None else f"$[{document.item}]{path.removeprefix('$')}"


def _documents(data: bytes, problems: list[Problem], *, allow_nan: bool) -> Iterator[_Document]:
    """Yield what the file holds; what is no JSON goes into `problems`."""
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()]
    try:
        value = parse_json(data, allow_nan=allow_nan) if lines else []
    except InvalidDataError as error:
        if not any(map(_is_json, lines)):
            problems += error.problems or (Problem("$", str(error)),)
            return
    else:
        several = isinstance(value, list) and value and all(map(_is_whole, value)) and trace_format_of(value) is None
        if several:
            yield from (_Document(entry, item=index) for index, entry in enumerate(value))
        elif lines:
            yield _Document(value)
        return
    for number, line in lines:
        try:
            value = parse_json(line, allow_nan=allow_nan)
        except InvalidDataError as error:
            problems += [Problem(told.path, told.message, number) for told in error.problems]
        else:
            yield _Document(value, line=number)


def _is_json(line: tuple[int, bytes]) -> bool:
    """Return whether a line holds something of its own, so that the file is one of lines."""
    try:
        value = parse_json(line[1], allow_nan=True)
    except InvalidDataError:
        return False
    return isinstance(value, (dict, list)) and bool(value)


def _is_whole(entry: object) -> bool:
    """Return whether an entry of a list is a conversation of its own, and no message, item or event of one."""
    if isinstance(entry, dict) and not entry.keys() & {"role", "type"}:
        return bool(entry.keys() & _HOLDERS) and entry.get("object") != "chat.completion.chunk"
    return isinstance(entry, list) or (isinstance(entry, dict) and "stop_reason" in entry)


def _recorded(document: _Document, format: str, handoff_names: Collection[str], *, tolerant: bool) -> Recorded:
    value = document.value
    about: JsonObject = {}
    if isinstance(value, Mapping):
        if looks_like_record(value) or "tools_called" in value:
            message = "is a case or a record already; `toolmark score` reads it as it is"
            raise InvalidDataError(message, [Problem("$", message)])
        alone = "role" in value or message_fields(value) is not None
        if document.line is not None and alone and "stop_reason" not in value:
            message = "is a single message; a line holds one conversation: put its messages into one list"
            raise InvalidDataError(message, [Problem("$", message)])
        about = {key: value[key] for key in _ABOUT if value.get(key) is not None and "role" not in value}
    case_from_record(about, tolerant_arguments=tolerant)  # tells what is wrong with it, at its place
    transcript = read(value, format=cast("Any", format), handoff_names=handoff_names, tolerant_arguments=tolerant)
    return Recorded(transcript, document.place, about, tolerant)


def _with(case: LLMTestCase, fields: Mapping[str, Any]) -> LLMTestCase:
    return LLMTestCase(**{name: getattr(case, name) for name in case.model_fields_set} | dict(fields))


def _turn(case: LLMTestCase, fields: Mapping[str, Any], number: int) -> LLMTestCase:
    """Return the case of one turn, whose id and name say which one it is."""
    told = {name: f"{value}, turn {number}" for name, value in fields.items() if name in ("id", "name")}
    if not told:
        told = {"name": f"turn {number}"}
    return _with(case, {**fields, **told})


def calls_in(case: TestCase | ConversationalTestCase) -> int:
    """Return how many calls of the agent a case or conversation holds."""
    if isinstance(case, ConversationalTestCase):
        return sum(len(turn.tools_called or ()) for turn in case.turns)
    return len(case.tools_called or ())
