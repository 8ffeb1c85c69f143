"""The one reader of recorded input: files of cases, records, conversations, messages and traces.

What a file holds is detected, for each line of JSON Lines or item of a list:

| a line, an item or the file is | entry |
|---|---|
| a test case or a record (`case_from_record`) | the case |
| a conversation, with `turns` | as `Unit` says; by default, a case for each question of the user |
| the messages of a conversation, or an object that holds them (`toolgrade.formats.read`) | a case |

Files of one conversation (also with one message a line) and of traces (`toolgrade.formats.read_traces`, spans on any
lines) are read as a whole. What cannot be read is an entry, too, so that it is named and counts as not measured.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from toolgrade._internal.json import JsonObject, within_limits
from toolgrade._internal.message_content import object_of
from toolgrade._internal.model import drop_none, set_fields
from toolgrade._internal.text import plural
from toolgrade.cases import AnyCase, ConversationalTestCase, LLMTestCase, MLLMTestCase, Run, RunStatus, TestCase, Turn
from toolgrade.dataset import (
    BadLines,
    Document,
    Source,
    problems_of,
    read_documents,
    read_golden,
    source_name,
    torn_text,
    without_schema,
)
from toolgrade.errors import BadLineWarning, InvalidDataError, Problem, ToolgradeWarning
from toolgrade.formats.document_kind import is_one_conversation, kind_of
from toolgrade.formats.messages.detect import is_claude_code, is_event, is_piece
from toolgrade.formats.records import case_from_record, looks_like_record

if TYPE_CHECKING:
    from toolgrade.formats.traces.read import Traces

Unit: TypeAlias = Literal["cases", "conversations", "any"]
"""What is read: cases, of a conversation with `turns` one for each question; conversations, of which `joined` makes one
of other cases; or what is in the file."""

_CASE_KEYS = ("id", "name", "expected_tools", "expected_output", "required_texts", "ends", "ended", "tags")
"""Fields of the case that an object may have besides the messages."""

CASES = "cases"
"""The format of entries that are not messages or traces."""


@dataclass(frozen=True)
class Reading:
    """How files are read.

    Attributes:
        format: Format of the messages or traces; detected by default.
        handoff_names: See `toolgrade.formats.read`.
        unit: Form of conversations.
        allow_nan: Accept bare NaN and infinities, which JSON does not have.
        goldens: Accept goldens of conversations, too.
    """

    format: str = "auto"
    handoff_names: tuple[str, ...] = ()
    unit: Unit = "cases"
    allow_nan: bool = False
    goldens: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The options of the readers of messages and traces."""
        return {"format": self.format, "handoff_names": self.handoff_names}


class Entry(NamedTuple):
    """What one document of a file holds: cases, or problems that say why there are none.

    Attributes:
        document: The document; those of one conversation or trace that fills the file are joined.
        cases: Its cases, as they are in the file: some have neither an id nor a name.
        problems: Why it cannot be read, with its place in the file.
        format: `cases`, or the format of its messages or traces.
        warnings: Warnings about it, such as a call without an answer.
        notes: Those of them that no run of its cases has, because they are about the whole file.
    """

    document: Document
    cases: Sequence[AnyCase] = ()
    problems: tuple[Problem, ...] = ()
    format: str = CASES
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_torn(self) -> bool:
        """Whether it is a line whose writer stopped before its end."""
        return self.document.torn

    def name(self, file: str = "") -> str:
        """Return the name of a case without an id and a name; `file` is its file if there are several."""
        return " ".join(filter(None, (file, self.document.place if self.document.number else "")))


def named(case: AnyCase, name: str) -> AnyCase:
    """Return a case with this name, unless it has an id or a name, or the name is empty."""
    has_name = case.id or getattr(case, "name", name)  # a golden has an id only
    return case if has_name or not name else case.model_copy(update={"name": name})


def read_cases(source: Source, *, allow_nan: bool = False) -> list[TestCase]:
    r"""Return the cases of a file, in its order: of cases, records, conversations, recorded messages or traces.

    A line of JSON Lines, an item of a list, or the whole file is a test case as `LLMTestCase.to_json` writes it
    (snake_case or camelCase), a multimodal one, a record (`case_from_record`), a conversation, or recorded messages
    (`toolgrade.formats.read`); or the file holds traces (`read_traces`). A conversation gives a case for each question
    of the user (`ConversationalTestCase.to_test_cases`). Blank lines and keys `$schema` are skipped. A case without
    a name and an id is named `line N`.

    None is dropped, except for two. A *torn* line is left out with a `BadLineWarning`: it begins an object, is not
    JSON, and is the last one without an end of line, or one that a `JsonlSink` marked when it wrote the next. And an
    interrupted run is left out, with a `ToolgradeWarning` that counts them, if a later line has a run of the same
    `run_id`: a `JsonlSink` writes a run again when it was resumed.

    Args:
        source: A path, `"-"` for standard input, or an open binary file; gzip is recognized.
        allow_nan: Accept bare NaN and infinities, which JSON does not have.

    Raises:
        DataFileError: Some lines cannot be read; `problems` has all of them with line and path.
        OSError: The file cannot be opened or read.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> from toolgrade import read_cases
        >>> case = {"input": "What is the weather in Paris?", "tools_called": [{"name": "get_weather"}]}
        >>> call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
        >>> log = {"messages": [{"role": "user", "content": "And Rome?"}, {"role": "assistant", "tool_calls": [call]}]}
        >>> _ = Path("cases.jsonl").write_text(json.dumps(case) + "\n" + json.dumps(log), encoding="utf-8")
        >>> for case in read_cases("cases.jsonl"):
        ...     print(f"{case.name}: {case.input} -> {case.tools_called[0].name}")
        line 1: What is the weather in Paris? -> get_weather
        line 2: And Rome? -> get_weather
    """
    entries = list(read_entries(source, Reading(allow_nan=allow_nan)))
    bad = BadLines()
    cases = collect_cases(entries, source, bad)
    torn = [problem for entry in entries if entry.is_torn for problem in entry.problems]
    if bad.count > len(torn) or (torn and not cases):
        raise bad.error()
    for problem in torn:
        warnings.warn(torn_text(source_name(source), problem), BadLineWarning, stacklevel=2)
    return cast("list[TestCase]", cases)


def collect_cases(entries: Iterable[Entry], source: Source, bad: BadLines) -> list[AnyCase]:
    """Return the cases of a file, without interrupted runs that were resumed; `bad` gets what cannot be read."""
    cases: list[AnyCase] = []
    for entry in entries:
        if entry.problems:
            bad.add(source, entry.problems)
        cases += [named(case, entry.name()) for case in entry.cases]
    resumed = ResumedRuns()
    replaced = {place for number, case in enumerate(cases) if (place := resumed.add(number, case)) is not None}
    if replaced:
        text = f"{source_name(source)}: {replaced_text(len(replaced))}"
        warnings.warn(text, ToolgradeWarning, stacklevel=3)
    return [case for number, case in enumerate(cases) if number not in replaced]


class ResumedRuns:
    """Finds interrupted runs that a later case has again, resumed. Memory grows with the number of those that wait.

    A `JsonlSink` writes a run when it is interrupted and again when it was resumed, under the same `run_id`.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, int] = {}

    def add(self, place: int, case: AnyCase) -> int | None:
        """Add the next case; return the place of the earlier case that it replaces, if there is one."""
        run = getattr(case, "run", None)
        if run is None or run.run_id is None:
            return None
        return self.add_run(place, run.run_id, is_interrupted=run.status is RunStatus.INTERRUPTED)

    def add_run(self, place: int, run_id: str, *, is_interrupted: bool) -> int | None:
        """Do the same for a run by its id."""
        replaced = self._waiting.pop(run_id, None)
        if is_interrupted:
            self._waiting[run_id] = place
        return replaced


def replaced_text(number: int) -> str:
    """Return the warning of interrupted runs that were left out."""
    return f"left out {plural(number, 'interrupted run')}: a later line has the same run, resumed"


def read_entries(source: Source, how: Reading) -> Iterator[Entry]:
    """Yield the entries of a file, in its order. Files of cases or conversations are not held in memory.

    Raises:
        OSError: The file cannot be opened or read.
    """
    documents = read_documents(source, allow_nan=how.allow_nan, is_one=is_one_conversation)
    head: list[Document] = []
    kind: str = "unknown"
    for document in documents:  # up to the first that says what the file holds
        head.append(document)
        kind = "unknown" if document.problems else _kind_of(document.value, how)
        if kind != "unknown":
            break
    documents = chain(head, documents)
    if kind == "trace":
        yield from _read_sessions(list(documents), how)
    elif kind == "message":
        yield from read_each(_joined_messages(list(documents)), how)
    else:
        yield from read_each(documents, how)


def _kind_of(value: object, how: Reading) -> str:
    kind = "message" if is_piece(value) else kind_of(value)
    if how.format == "auto":
        return kind
    from toolgrade.formats.traces.read import TRACE_FORMATS  # noqa: PLC0415 - not loaded for cases

    return "trace" if how.format in TRACE_FORMATS else kind if kind in ("message", "unknown") else "messages"


def _joined_messages(documents: list[Document]) -> list[Document]:
    """Return the only conversation of a file if each line is a message or a piece of it, else the documents.

    Logs of Claude Code have many other lines; several of its sessions are a conversation each, with its id.
    """
    from toolgrade.formats.messages.claude_code import sessions_of  # noqa: PLC0415 - not loaded for cases

    values = [document.value for document in documents if not document.problems]
    is_streamed, is_log = is_piece(values[0]), any(is_claude_code(object_of(value)) for value in values)

    def belongs(value: object) -> bool:
        kind = kind_of(value)
        return kind == "message" or (is_log and kind not in ("case", "results")) or (is_streamed and is_event(value))

    if not all(map(belongs, values)):
        return documents
    sessions = sessions_of(values) if is_log else {}
    logs = [{"id": session, "messages": lines} for session, lines in sessions.items()]
    # A torn last line is a message that was lost: the others are the conversation, and it stays bad.
    return [*map(Document, logs if len(logs) > 1 else [values]), *(one for one in documents if one.problems)]


def read_each(documents: Iterable[Document], how: Reading) -> Iterator[Entry]:
    """Yield the entry of each document by itself."""
    for document in documents:
        if document.problems:
            yield Entry(document, problems=document.problems)
            continue
        try:
            yield _read_document(document, how)
        except InvalidDataError as error:
            yield Entry(document, problems=tuple(map(document.placed, problems_of(error))))


def _read_document(document: Document, how: Reading) -> Entry:
    """Return the entry of a document that is a case or a conversation.

    Raises:
        InvalidDataError: It is neither, or cannot be read.
    """
    value = document.value
    kind = kind_of(value) if how.format == "auto" else "messages"
    if kind == "results":
        raise InvalidDataError.of("has results that are scored already; show them with `toolgrade report`")
    if kind == "trace":
        raise InvalidDataError.of("is a trace in a file of other content; keep traces in a file of their own")
    if kind == "message" and document.line is not None:
        raise InvalidDataError.of("is a single message; a line holds one conversation: put its messages into one list")
    if kind == "messages" and document.number and is_piece(value):
        raise InvalidDataError.of("is a piece of a streamed response among others; log the whole response in its place")
    if kind in {"messages", "message"}:
        return _read_messages(document, how)
    return Entry(document, _read_cases(value, document, how))


@within_limits
def _read_cases(value: object, document: Document, how: Reading) -> Sequence[AnyCase]:
    """Return the case of a JSON value, or a case for each question of the conversation that it holds."""
    value = without_schema(value)
    if not isinstance(value, dict):
        raise InvalidDataError.of(f"expected an object (a test case or a record), got {type(value).__name__}")
    if _is_golden(value):
        if not how.goldens:
            message = "is a golden of a conversation; score recorded runs, and name this file with --goldens"
            raise InvalidDataError.of(message)
        return [cast("AnyCase", read_golden(value))]
    if "turns" not in value:
        model = MLLMTestCase if isinstance(value.get("input"), list) else LLMTestCase
        return [case_from_record(value) if looks_like_record(value) else model.model_validate(value)]
    conversation = ConversationalTestCase.model_validate(value)
    cases: list[AnyCase] = [conversation] if conversation.turns else []
    if how.unit == "cases":
        cases = [*conversation.model_copy(update=_label(conversation, document)).to_test_cases()]
    if not cases:
        message = "has no question that an assistant answered"
        raise InvalidDataError(message, [Problem("$.turns", message)])
    return cases


def _is_golden(value: Mapping[str, Any]) -> bool:
    """Return whether an object is a golden of a conversation: what only the user says, without roles."""
    turns, user = value.get("turns"), value.get("user")
    if isinstance(user, Mapping) and "goal" in user:
        return True
    has_roles = isinstance(turns, list) and any(isinstance(turn, Mapping) and "role" in turn for turn in turns)
    return isinstance(turns, list) and bool(turns) and not has_roles


def _label(conversation: ConversationalTestCase, document: Document) -> dict[str, str]:
    """Return the name of a conversation without an id and a name, which its cases have before their turn."""
    return {} if conversation.id or conversation.name else {"name": document.place}


def _read_messages(document: Document, how: Reading) -> Entry:
    """Return the entry of recorded messages.

    The case has the id, the name, the tags, the metadata and the expectations of the object with the messages.
    """
    from toolgrade.formats.messages.read import read  # noqa: PLC0415 - not loaded for cases

    value = document.value
    own = value if isinstance(value, Mapping) and "role" not in value else {}
    case = case_from_record({key: own[key] for key in (*_CASE_KEYS, "metadata") if own.get(key) is not None})
    fields = {name: getattr(case, name) for name in (*_CASE_KEYS, "metadata") if name in case.model_fields_set}
    transcript = read(value, **how.options)
    texts = [*transcript.run.warnings]
    if how.unit == "conversations":
        cases: list[AnyCase] = [_with_stated(transcript.conversation, fields)]
    else:
        own_warnings = [] if case.run is None else case.run.warnings  # those about the expectations
        run = (
            transcript.run.model_copy(update={"warnings": [*texts, *own_warnings]}) if own_warnings else transcript.run
        )
        cases = [_with_fields(run.to_test_case(), fields)]
    return Entry(document, cases, (), transcript.format, tuple(texts))


def _with_stated(conversation: ConversationalTestCase, fields: Mapping[str, Any]) -> ConversationalTestCase:
    """Return a copy of the conversation with those of these fields of a case that it has, too; metadata are merged."""
    stated = {name: value for name, value in fields.items() if name in type(conversation).model_fields}
    if "metadata" in stated:
        stated["metadata"] = {**conversation.metadata, **stated["metadata"]}
    if fields.get("ended") is False:  # the metadata of the last turn say how the run ended
        stopped = {"status": RunStatus.STOPPED.value, "error": "the run did not come to its own end"}
        stated["turns"] = [*conversation.turns, Turn(role="assistant", content="", metadata=stopped)]
    return conversation.model_copy(update=stated)


def joined(cases: Iterable[AnyCase]) -> list[ConversationalTestCase]:
    """Return conversations: one of all runs of one (see `join_runs`), and one of each other case."""
    return [as_conversation(case) for case in join_runs(cases)]


def join_runs(cases: Iterable[AnyCase]) -> list[AnyCase]:
    """Return several runs with the same `conversation_id` as one conversation, and other cases as they are.

    A run that waited and the one that went on are one turn. A case that states expectations is not joined.
    """
    groups: dict[object, list[AnyCase]] = {}
    for place, case in enumerate(cases):
        groups.setdefault(conversation_id_of(case) or place, []).append(case)
    return [group[0] if len(group) == 1 else _conversation_of(group) for group in groups.values()]


def conversation_id_of(case: AnyCase) -> str | None:
    """Return the id of the conversation that a case is joined to; `None` if it is not joined."""
    run: Run | None = getattr(case, "run", None)
    states = any(getattr(case, name, None) for name in ("required_texts", "ends", "expected_output"))
    if run is None or states or getattr(case, "expected_tools", None) is not None:
        return None
    return run.conversation_id


def _conversation_of(cases: Sequence[AnyCase]) -> ConversationalTestCase:
    """Return the conversation of the runs of these cases, with all their tags and metadata."""
    from toolgrade.capture.conversations import conversations  # noqa: PLC0415 - not loaded for cases

    runs = [case.run for case in cases if isinstance(case, (LLMTestCase, MLLMTestCase)) and case.run is not None]
    tags = [*dict.fromkeys(tag for case in cases for tag in case.tags)]
    metadata = {name: value for case in cases for name, value in case.metadata.items()}
    return _with_stated(conversations(runs)[0], drop_none({"tags": tags or None, "metadata": metadata or None}))


def as_conversation(case: AnyCase) -> ConversationalTestCase:
    """Return a case as a conversation: of one turn, unless its run has a dialogue."""
    from toolgrade.capture.conversations import conversation  # noqa: PLC0415 - not loaded for cases

    if isinstance(case, ConversationalTestCase):
        return case
    recorded = ConversationalTestCase(turns=[]) if case.run is None else conversation([case.run])
    turns = _turns_of(case, recorded.turns[-1].metadata if recorded.turns else {})
    return _with_stated(recorded.model_copy(update={"turns": turns}), set_fields(case))


def _turns_of(case: TestCase, metadata: JsonObject) -> list[Turn]:
    """Return the turns of a case; the last one has these metadata of its run."""
    from toolgrade.report.text.transcript import messages_of  # noqa: PLC0415 - not loaded for cases

    turns: list[Turn] = []
    for message in messages_of(case):
        parts = [message.content] if isinstance(message.content, str) else message.content or ()
        text = "\n".join(part for part in parts if isinstance(part, str))
        if message.role == "assistant":
            calls = None if case.tools_called is None else list(message.calls)
            turns.append(Turn(role="assistant", content=text, tools_called=calls))
        elif message.content is not None:
            turns.append(Turn(role="user", content=text))
    if metadata and turns[-1].role == "user":
        turns.append(Turn(role="assistant", content=""))
    return [*turns[:-1], turns[-1].model_copy(update={"metadata": metadata})] if metadata else turns


def _with_fields(case: LLMTestCase, fields: Mapping[str, Any]) -> LLMTestCase:
    """Return a copy of the case with these fields set; metadata are merged."""
    values = set_fields(case) | dict(fields)
    metadata = {**case.metadata, **fields.get("metadata", {})}
    if metadata:
        values["metadata"] = metadata
    return LLMTestCase(**values)


def _read_sessions(documents: list[Document], how: Reading) -> Iterator[Entry]:
    """Yield an entry for each session of the traces in a file, and one for each line that cannot be read.

    A case is a trace and has its id; or a conversation is a session.
    """
    from toolgrade.formats.traces.read import session_conversation  # noqa: PLC0415 - not loaded for cases

    if len(documents) == 1:  # one value on any number of lines: its paths say more than its line
        documents = [documents[0]._replace(line=None)]
    traces, bad = _read_traces(documents, how)
    notes = [] if traces is None else list(traces.warnings)
    for runs in () if traces is None else traces.sessions:
        texts = [*notes, *(f"trace {run.run_id}: {text}" for run in runs for text in run.warnings)]
        cases: list[AnyCase] = [run.to_test_case(id=run.run_id) for run in runs]
        if how.unit == "conversations":
            cases = [session_conversation(runs)]
        yield Entry(Document(), cases, (), traces.format if traces else "", tuple(texts), tuple(notes))
        notes.clear()  # only the first session has those of the file
    yield from sorted(bad, key=lambda entry: entry.document.number)


def _read_traces(documents: list[Document], how: Reading) -> tuple[Traces | None, list[Entry]]:
    """Return the traces in all documents that can be read together, and the others."""
    from toolgrade.formats.traces.read import read_trace_documents  # noqa: PLC0415 - not loaded for cases

    bad = [Entry(document, problems=document.problems) for document in documents if document.problems]
    while good := [document for document in documents if not document.problems]:
        try:
            return read_trace_documents([(_root(one), one.value) for one in good], **how.options), bad
        except InvalidDataError as error:
            refused = _refused(good, problems_of(error))
            if not refused:  # the problem is in no single line
                return None, [*bad, Entry(Document(), problems=problems_of(error))]
        bad += refused
        roots = {_root(entry.document) for entry in refused}
        documents = [document for document in good if _root(document) not in roots]
    return None, bad


def _refused(documents: list[Document], problems: Sequence[Problem]) -> list[Entry]:
    """Return the documents that these problems are in."""
    refused: list[Entry] = []
    for document in documents:
        own = [problem for problem in problems if len(documents) == 1 or _root_of(problem) == _root(document)]
        if own:
            refused.append(Entry(document, problems=tuple(_in_line(document, problem) for problem in own)))
    return refused


def _root(document: Document) -> str:
    """Return the path of a document in problems of traces, which may have spans on several lines."""
    return "$" if document.line is None else document.place


def _root_of(problem: Problem) -> str:
    return problem.path.partition(".")[0].partition("[")[0]


def _in_line(document: Document, problem: Problem) -> Problem:
    """Return a problem of the path `line 3.spans` as a problem of line 3 and the path `$.spans`."""
    if document.line is None:
        return problem
    return Problem("$" + problem.path.removeprefix(_root(document)), problem.message, document.line)


def count_calls(case: AnyCase) -> int:
    """Return the number of calls of the agent in a case."""
    parts = case.turns if isinstance(case, ConversationalTestCase) else [case]
    return sum(len(getattr(part, "tools_called", None) or ()) for part in parts)


def formats_text(formats: Counter[str]) -> str:
    """Return what was read, such as `"3 conversations (2 openai-chat, 1 anthropic)"` or `"3 traces (otel)"`."""
    from toolgrade.formats.traces.read import TRACE_FORMATS  # noqa: PLC0415 - not loaded for cases

    if set(formats) <= {CASES}:
        return plural(formats[CASES], "case")
    names = [f"{number} {name}" if len(formats) > 1 else name for name, number in formats.items()]
    noun = "trace" if formats.keys() & TRACE_FORMATS else "conversation"
    return f"{plural(sum(formats.values()), noun)} ({', '.join(names)})"
