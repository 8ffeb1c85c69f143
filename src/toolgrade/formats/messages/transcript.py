"""Transcripts: a list of messages as one run, as one run per turn, and as a conversation.

The readers of all formats yield neutral messages, and `transcript_of` makes the run of them in one pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, takewhile
from typing import Any, Final, Literal, TypeAlias

from toolgrade._internal.json import JsonObject, short_repr
from toolgrade._internal.message_content import object_of, text_of
from toolgrade._internal.model import drop_none
from toolgrade.calls import ToolCallType, ToolSpec, read_tool_spec
from toolgrade.capture import Request
from toolgrade.capture.records import json_value
from toolgrade.cases import ConversationalTestCase, Handoff, MLLMImage, Run, RunStatus, Turn, joined_instructions
from toolgrade.errors import InvalidDataError, Problem
from toolgrade.formats.messages.field_readers import Notes
from toolgrade.formats.messages.message import (
    RUN_BY_PROVIDER,
    Answer,
    Instructions,
    ModelMessage,
    ModelUse,
    NeutralMessage,
    OfferedTools,
    UserInput,
)
from toolgrade.formats.messages.pairing import CallBuilder, OpenCalls, RecordedCall, Scope, error_of
from toolgrade.matching.json_compare import ABSENT

FormatName: TypeAlias = Literal[
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "bedrock",
    "ollama",
    "langchain",
    "claude-code",
    "google-adk",
]
"""The formats that are read: Chat Completions, Responses, Anthropic's Messages, Gemini's contents, Bedrock's Converse,
Ollama's chat, dumps of LangChain's messages, logs of Claude Code, and sessions of Google's Agent Development Kit."""

End: TypeAlias = tuple[RunStatus, str | None]
"""How a response ended, and why."""

_FORMATS_WITHOUT_IDS = ("gemini", "ollama")
"""Formats whose calls need no ids: name and order say which answer belongs to which call."""

_FUNCTION: Final = ToolCallType.FUNCTION  # Python 3.11 takes long to look up a member of an enumeration

_TEXT_FIELDS: Final[Mapping[type, tuple[str, ...]]] = {
    UserInput: ("text",),
    Instructions: ("text",),
    ModelMessage: ("agent", "model"),
    Answer: ("call_id", "name", "error"),
    Request: ("name", "id", "server", "error", "failure", "replaces", "caller", "source"),
}
"""Fields of messages that are text, or mostly `None`."""

_MOST_TOKENS = 2**63
"""A larger token count is a mistake, and could not be written."""

_BY_ORDER = "answers were paired with calls by name, where given, and order"


@dataclass(slots=True)
class _RecordedTurn:
    """The input of the user, and what the agent did until the user spoke again."""

    user_inputs: list[UserInput] = field(default_factory=list)
    has_agent: bool = False
    """Whether there is a message of the agent."""
    texts: list[str] = field(default_factory=list)
    """All texts of the agent that are not empty."""
    output: str | None = None
    """The final answer: no call stands in the same message or after it."""
    calls: list[RecordedCall] = field(default_factory=list)
    end: End | None = None
    """How its last response ended, if that is in the messages."""

    @property
    def input(self) -> str | None:
        return "\n".join([user.text for user in self.user_inputs]) or None

    @property
    def last_text(self) -> str:
        return self.texts[-1] if self.texts else ""

    @property
    def input_parts(self) -> list[str | MLLMImage] | None:
        return _joined_parts(self.user_inputs)


@dataclass(frozen=True)
class Transcript:
    """One list of messages, as it was read.

    Attributes:
        format: The format that it was read as.
        run: The whole list as one run: its input is the first message of the user, its calls are those of all turns.

    Example:
        >>> from toolgrade.formats import read
        >>> call = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Paris"}'}
        >>> transcript = read([{"role": "user", "content": "What is the weather in Paris?"}, call])
        >>> transcript.format
        'openai-responses'
        >>> [(turn.input, [call.name for call in turn.calls]) for turn in transcript.turns]
        [('What is the weather in Paris?', ['get_weather'])]
    """

    format: str
    run: Run
    _exchanges: Sequence[_RecordedTurn] = field(repr=False)

    @cached_property
    def turns(self) -> list[Run]:
        """A run for each turn of the user, with what the agent did until the next one.

        The first has no input if the agent began.
        """
        last = len(self._exchanges) - 1
        return [self._turn(exchange, is_last=index == last) for index, exchange in enumerate(self._exchanges)]

    @cached_property
    def conversation(self) -> ConversationalTestCase:
        """The same turns as a conversation: for the assistant, the last text of each turn, and its calls."""
        turns: list[Turn] = []
        warnings = list(self.run.warnings)
        for exchange, run in zip(self._exchanges, self.turns, strict=True):
            if exchange.input_parts:
                warnings.append(f"turn {len(turns) + 1}: its images were left out; a turn has text only")
            if exchange.user_inputs:
                turns.append(Turn(role="user", content=exchange.input or ""))
            if exchange.has_agent:
                turns.append(Turn(role="assistant", content=exchange.last_text, tools_called=run.tools_called))
        fields: dict[str, Any] = {"turns": turns, "available_tools": self.run.available_tools or None}
        fields |= {"instructions": self.run.instructions, "metadata": {"warnings": warnings} if warnings else None}
        return ConversationalTestCase(**drop_none(fields))

    def _turn(self, exchange: _RecordedTurn, *, is_last: bool) -> Run:
        indices = [call.position for call in exchange.calls if call.position is not None]
        fields: dict[str, Any] = {
            "input": exchange.input,
            "input_parts": exchange.input_parts,
            "actual_output": exchange.output,
            "calls": [self.run.calls[index] for index in indices],
            "handoffs": self._handoffs_of(indices) or None,
            "available_tools": self.run.available_tools,
            "instructions": self.run.instructions,
            "warnings": self.run.warnings or None,
        }
        # Only the last turn ends as the run.
        status, error = (self.run.status, self.run.error) if is_last else exchange.end or (RunStatus.OK, None)
        status = _status_with(exchange.output, status)
        if status is not RunStatus.OK:
            fields |= {"status": status, "error": error}
        return Run(**drop_none(fields))

    def _handoffs_of(self, indices: list[int]) -> list[Handoff]:
        """Return the hand-offs among these calls, with positions in their list."""
        return [
            handoff.model_copy(update={"call": indices.index(handoff.call)})
            for handoff in self.run.handoffs
            if handoff.call in indices
        ]


def transcript_of(
    messages: Iterable[tuple[str, NeutralMessage]],
    path: str = "$",
    *,
    format: str = "openai-chat",
    available_tools: Iterable[object] = (),
    handoff_names: Collection[str] = (),
    end: End = (RunStatus.OK, None),
) -> Transcript:
    """Return the transcript of messages of your own, read into `UserInput`, `Instructions`, `ModelMessage`, `Answer`.

    An answer belongs to a call before it that has none: of its id; else to one without an id; or to any, if it has no
    id itself. Names decide among several, then calls since the last answers come first, in their order. What cannot be
    paired is a warning.

    Args:
        messages: The messages in their order, each with its path.
        path: The path of the whole, for warnings.
        format: Name of the format in the result.
        available_tools: All tools that the model could choose from, in any form that `ToolSpec` reads.
        handoff_names: Names of tools that hand over to another agent.
        end: How the last response ended, and why.

    Raises:
        InvalidDataError: A message is none of these or has a field of another type, or an available tool has no known
            form.

    Example:
        >>> from toolgrade.capture import Request
        >>> from toolgrade.formats import Answer, ModelMessage, UserInput, transcript_of
        >>> call = Request("get_weather", {"city": "Paris"}, "c1", source="$[1].calls[0]")
        >>> messages = [
        ...     ("$[0]", UserInput("What is the weather in Paris?")),
        ...     ("$[1]", ModelMessage([call])),
        ...     ("$[2]", Answer("c1", content="sunny")),
        ... ]
        >>> [(call.name, call.output) for call in transcript_of(messages).run.calls]
        [('get_weather', 'sunny')]
    """
    tools = OfferedTools([read_tool_spec(tool) for tool in available_tools], all_known=True)
    checked = chain([(path, tools)], map(_checked, messages))
    return read_transcript(checked, path, Notes(), format=format, handoff_names=handoff_names, end=end)


def read_transcript(
    messages: Iterable[tuple[str, NeutralMessage]],
    path: str,
    notes: Notes,
    *,
    format: str = "openai-chat",
    handoff_names: Collection[str] = (),
    end: End = (RunStatus.OK, None),
) -> Transcript:
    """Return the transcript of what a reader of toolgrade yields; its warnings are in `notes`, and come first."""
    return _read(messages, path, notes, handoff_names).transcript(format, end)


def _checked(entry: tuple[str, NeutralMessage]) -> tuple[str, NeutralMessage]:
    """Return a message with its path; raises `InvalidDataError` if a text of it is none."""
    place, message = entry
    parts = message.parts if isinstance(message, ModelMessage) and not isinstance(message.parts, str) else ()
    for part in (message, *parts):
        for name in _TEXT_FIELDS.get(type(part), ()):
            value = getattr(part, name)
            if value is not None and not isinstance(value, str):
                text = f"{name} of {type(part).__name__} must be text, got {short_repr(value)}"
                raise InvalidDataError(f"{place}: {text}", [Problem(place, text)])
    return entry


def run_of(
    messages: Iterable[tuple[str, NeutralMessage]], path: str, notes: Notes, format: FormatName
) -> tuple[Run, dict[str, str]]:
    """Return the run of messages, and the path of the answer to each call that has one, by the call's source."""
    transcription = _read(messages, path, notes, ())
    run = transcription.transcript(format, (RunStatus.OK, None)).run
    return run, {call.source: call.answer_path for call in transcription.calls if call.answer is not None}


def _read(
    messages: Iterable[tuple[str, NeutralMessage]], path: str, notes: Notes, handoff_names: Collection[str]
) -> _Transcription:
    transcription = _Transcription(notes, frozenset(handoff_names))
    for place, message in messages:
        if isinstance(message, ModelMessage):
            transcription.add_model_message(message, place)
        elif isinstance(message, Answer):
            transcription.add_answer(message, place)
        elif isinstance(message, UserInput):
            transcription.add_user_input(message)
        elif isinstance(message, Instructions):
            transcription.instructions.append(message.text)
        elif isinstance(message, OfferedTools):
            transcription.offer_tools(message)
        elif isinstance(message, ModelUse):
            transcription.add_use(message.model, message.usage)
            transcription.set_end(message.end)
        else:  # a caller may pass anything
            text = f"expected a UserInput, Instructions, a ModelMessage or an Answer, got {short_repr(message)}"
            raise InvalidDataError(f"{place}: {text}", [Problem(place, text)])
    transcription.flush_answers()
    if not notes.problems and not any(exchange.has_agent for exchange in transcription.exchanges):
        notes.warn(path, "holds no message of the assistant, so the list of its calls is empty")
    return transcription


class _Transcription:
    """What the messages so far add up to."""

    def __init__(self, notes: Notes, handoff_names: frozenset[str]) -> None:
        self.notes = notes
        self.exchanges: list[_RecordedTurn] = []
        self.calls: list[RecordedCall] = []
        """All calls but those that another one replaced."""
        self.instructions: list[str] = []
        self._handoff_names = handoff_names
        self._top = Scope()
        self._open = OpenCalls()
        self._round = 0
        self._round_is_over = False
        self._answers_to_pair: list[tuple[Answer, str]] = []
        """Answers without an id since the last message of the user or the model."""
        self._has_answers = False
        self._answers_without_id: list[str] = []
        self._calls_without_ids: list[str] = []
        """Paths of calls in the form without ids."""
        self._paths: list[tuple[Request, str]] = []
        """All other calls with their paths."""
        self._approvals: set[str | None] = set()
        """Ids of the undecided requests for approval in the last message."""
        self._output: str | None = None
        self._tools: dict[str, ToolSpec] = {}
        self._models: dict[str, None] = {}
        self._usage: dict[str, int] = {}
        self._warnings: dict[str, None] = {}
        """Warnings that come after those of the readers."""

    def offer_tools(self, tools: OfferedTools) -> None:
        """Add tools that the model could choose from."""
        for spec in tools.specs:
            self._tools.setdefault(spec.name, spec)
        if tools.all_known and tools.specs:
            self._top.offered.update(spec.name for spec in tools.specs)

    def add_use(self, model: str | None, usage: Mapping[str, Any]) -> None:
        """Add the model and the token counts of one response."""
        if model:
            self._models[model] = None
        for name, amount in usage.items():
            if isinstance(amount, int) and abs(amount) < _MOST_TOKENS:
                self._usage[name] = self._usage.get(name, 0) + amount
            else:
                self._warn(f"usage must map names to whole numbers, got {short_repr({name: amount})}; it was left out")

    def set_end(self, end: End | None) -> None:
        """Set how the last response ended, if that is known and was not before."""
        if end is not None:
            self.exchanges = self.exchanges or [_RecordedTurn()]
            self.exchanges[-1].end = self.exchanges[-1].end or end
            self._output = self.exchanges[-1].output  # not that of a turn before

    def add_user_input(self, user: UserInput) -> None:
        """Add a message of the user."""
        if self._answers_to_pair:
            self.flush_answers()
        self._round_is_over = True
        if not self.exchanges or self.exchanges[-1].has_agent or self.exchanges[-1].end:
            self.exchanges.append(_RecordedTurn())
        self.exchanges[-1].user_inputs.append(user)

    def add_model_message(self, message: ModelMessage, place: str) -> None:
        """Add a message of the model."""
        exchange = self._exchange_of_model()
        texts, calls = message.texts, [self._add_call(request, message, place) for request in message.calls]
        exchange.calls += calls
        exchange.texts += texts
        self._approvals = {call.request.id for call in calls if call.request.needs_approval}
        if message.model or message.usage:
            self.add_use(message.model, message.usage or {})
        if calls:  # while the agent still has to run its tools, no text here is the final answer
            exchange.output = _closing_text(message) if all(map(_is_run_by_provider, calls)) else None
        else:
            exchange.output = texts[-1] if texts else exchange.output or self._silence(exchange)
        self._output = exchange.output

    def _silence(self, exchange: _RecordedTurn) -> str | None:
        """Return what an empty message says: nothing, as an answer; alone in a log it may have been cut off."""
        return None if exchange is self.exchanges[0] and not exchange.calls else ""

    def _exchange_of_model(self) -> _RecordedTurn:
        """Return the exchange of a new message of the model, and count the message."""
        if self._answers_to_pair:
            self.flush_answers()
        if not self.exchanges:
            self.exchanges.append(_RecordedTurn())
        if self._round_is_over:
            self._round += 1
            self._round_is_over = False
        self._top.last_message += 1
        exchange = self.exchanges[-1]
        exchange.has_agent, exchange.end = True, None
        return exchange

    def _add_call(self, request: Request, message: ModelMessage, place: str) -> RecordedCall:
        path = request.source or place
        source, is_handoff = path.removeprefix("$."), request.handoff or request.name in self._handoff_names
        if message.without_ids:
            self._calls_without_ids.append(path)
        else:
            self._paths.append((request, path))
        scope, number = self._top, self._top.last_message
        if request.caller is not None:
            scope = self._inside(request, request.caller, source)
            scope.last_message = number
        arguments = self._arguments_of(request, path)
        call = RecordedCall(
            request, arguments, number, self._round, scope, message.agent, source, request.type, is_handoff
        )
        if call.requested is None:
            call.add_not_captured("input_parameters")
        # An approval and the call that it allows are one call, which stands where the call stands.
        if request.replaces:
            self._withdraw(request.replaces)
        if request.ran or request.result is not ABSENT or request.failure is not None:
            call.set_run(self._json(request.result, "output", call), request.failure)
        if not request.name:
            self._warn("a call without the name of a tool was recorded as '(unnamed)'")
        self.calls.append(call)
        self._open.add(call)
        return call

    def _arguments_of(self, request: Request, path: str) -> Any:  # noqa: ANN401 - a JSON value
        """Return the requested arguments as a JSON value, `None` if they are not known."""
        arguments = {} if request.arguments is None else request.arguments
        plain, losses = json_value(arguments)
        for text in losses:
            self._warn(f"arguments of {request.name!r}: {text}")
        if not isinstance(arguments, dict):
            reason = f" ({request.error})" if request.error else ""
            text = f"the arguments of {request.name!r} are not a JSON object{reason}; they count as {{}}"
            self.notes.warn(path, text)
        return None if plain is ABSENT else plain

    def _json(self, value: object, field: str, call: RecordedCall) -> Any:  # noqa: ANN401 - a JSON value
        """Return a value for a field of a call as a JSON value, `ABSENT` if there is none."""
        plain, losses = json_value(value)
        for text in losses:
            self._warn(f"{field} of {call.request.name!r}: {text}")
        if plain is ABSENT and losses:
            call.add_not_captured(field)
        return plain

    def _newest(self, call_id: str) -> RecordedCall | None:
        return next((call for call in reversed(self.calls) if call.request.id == call_id), None)

    def _inside(self, request: Request, caller_id: str, source: str) -> Scope:
        """Return the scope inside the call that made a request; the top level if that is unknown."""
        caller = self._newest(caller_id)
        if caller is None:
            inside = f"{source}: {request.name!r} was called inside {caller_id!r}"
            self._warn(f"{inside}, an unknown call; it was recorded outside of it")
            return self._top
        caller.inner = caller.inner or Scope()
        return caller.inner

    def _withdraw(self, call_id: str) -> None:
        """Remove a request that another one carries out, unless it has run."""
        call = self._newest(call_id)
        if call is not None and not call.ran and call.inner is None:
            call.is_withdrawn = True
            self.calls.remove(call)

    def add_answer(self, answer: Answer, path: str) -> None:
        """Add the result of a call, or the decision on one.

        Results with an id come first: each can belong to one call only, so that those without take what remains.
        """
        if answer.call_id is not None:
            self._pair(answer, path)
        else:
            self._answers_to_pair.append((answer, path))
            if not answer.without_ids:
                self._answers_without_id.append(path)
        if not answer.ran:
            self._output = None
            if self.exchanges:
                self.exchanges[-1].output = None

    def flush_answers(self) -> None:
        """Pair the answers without an id since the last message."""
        for answer, path in self._answers_to_pair:
            self._pair(answer, path)
        self._answers_to_pair.clear()

    def _pair(self, answer: Answer, path: str) -> None:
        """Give an answer to the call that it belongs to; an approval is not a result."""
        if answer.approved is not None:
            self._approvals.discard(answer.call_id)
            if answer.approved:
                return
        self._round_is_over = self._has_answers = True
        call = self._open.call_of(answer.call_id, answer.name)
        # What a provider ran is no answer to a call that the agent runs, even if that has no id.
        if call is None or (answer.ran and call.type is _FUNCTION and call.request.id != answer.call_id):
            named = [f"{label} {value!r}" for label, value in (("id", answer.call_id), ("name", answer.name)) if value]
            addressee = f" ({', '.join(named)})" if named else ""
            self._warn(f"{path}: answers no open call before it{addressee}; it was left out")
        else:
            self._set_answer(call, answer, path)

    def _set_answer(self, call: RecordedCall, answer: Answer, path: str) -> None:
        name = call.request.name
        if answer.name is not None and answer.name != name:
            self._warn(f"{path}: has the id of the call of {name!r} but the name {answer.name!r}; the id won")
        call.answer, call.answer_path = answer, path
        call.type = answer.type or call.type
        call.content = self._json(answer.content, "model_output", call)
        if answer.artifact is not None:
            artifact = self._json(answer.artifact, "artifact", call)
            call.artifact = None if artifact is ABSENT else artifact
        is_lost = call.content is ABSENT and "model_output" not in call.not_captured
        if is_lost and not call.is_invalid and not answer.failed:
            self._warn(f"{path}: the tool message has no content; the output of {name!r} was not captured")
            call.add_not_captured("output")
        if answer.ran:
            call.set_run(call.content, error_of(answer, call.content) if answer.failed else None)

    def transcript(self, format: str, end: End) -> Transcript:
        """Return the transcript; the warnings are in the notes, and on every run."""
        self._warn_of_ids(format)
        self.notes.warnings.extend(self._warnings)
        outer = [call for call in self.calls if call.scope is self._top]
        for position, call in enumerate(outer):
            call.position = position
        has_turns = self._has_turns
        end = (self.exchanges[-1].end if self.exchanges else None) or end
        status = self._status(end[0])
        is_interrupted = status is RunStatus.INTERRUPTED
        builder = CallBuilder(self.calls, self._turns() if has_turns else {}, is_interrupted=is_interrupted)
        fields: dict[str, Any] = self._texts(has_turns=has_turns) | {
            "calls": builder.calls_in(self._top),
            "handoffs": _handoffs_of(outer),
            "instructions": joined_instructions(self.instructions),
            "available_tools": list(self._tools.values()),
            "error": end[1] or self._missing_beginning(status),
            "models": list(self._models),
            "usage": self._usage,
            "warnings": list(self.notes.warnings),
        }
        if status is not RunStatus.OK:
            fields["status"] = status
        if is_interrupted:
            del fields["actual_output"]
        run = Run(**{name: value for name, value in fields.items() if value not in (None, [], {})})
        return Transcript(format, run, self.exchanges)

    @property
    def _has_turns(self) -> bool:
        """Whether the user spoke more than once; else the run says it all."""
        return sum(bool(exchange.user_inputs) for exchange in self.exchanges) > 1

    def _texts(self, *, has_turns: bool) -> dict[str, Any]:
        """Return what the user and the agent said."""
        texts = [text for exchange in self.exchanges for text in exchange.texts]
        return self._input() | {
            "actual_output": self._output,
            "agent_texts": None if texts == [self._output] else texts,
            "dialogue": self._dialogue() if has_turns else None,
        }

    def _status(self, end: RunStatus) -> RunStatus:
        """Return how the run ended whose last response ended like this."""
        if not self._approvals:
            return _status_with(self._output, end)
        return RunStatus.INTERRUPTED if any(map(self._waits, self.calls)) else RunStatus.OK

    def _missing_beginning(self, status: RunStatus) -> str | None:
        """Return that a log says nothing of the agent: it was cut off, and does not show that nothing was called."""
        is_cut = status is RunStatus.STOPPED and not any(exchange.has_agent for exchange in self.exchanges)
        return "the log ends before the first message of the assistant" if is_cut else None

    def _waits(self, call: RecordedCall) -> bool:
        return call.scope is self._top and call.is_of_last_message and call.is_unresolved

    def _input(self) -> dict[str, Any]:
        """Return the input of the run: the messages of the user up to the first with a text."""
        inputs = [user for exchange in self.exchanges for user in exchange.user_inputs]
        number = next((number for number, user in enumerate(inputs, 1) if user.text), len(inputs))
        parts = _joined_parts(inputs[:number])
        text = inputs[number - 1].text if inputs else ""
        return {"input": text or None, "input_parts": parts}

    def _dialogue(self) -> list[JsonObject]:
        """Return the turns of the user and the agent."""
        turns: list[JsonObject] = []
        for exchange in self.exchanges:
            if exchange.user_inputs:
                turns.append({"role": "user", "content": exchange.input or ""})
            turns += [{"role": "assistant", "content": text} for text in exchange.texts]
        return turns

    def _turns(self) -> dict[RecordedCall, int]:
        """Return the turn of the user that each call of the run answers."""
        # Only the first exchange may have no input.
        first = 1 if self.exchanges[0].user_inputs else 0
        turns: dict[RecordedCall, int] = {}
        for number, exchange in enumerate(self.exchanges, first):
            turns |= {call: number for call in exchange.calls if call.position is not None}
        return turns

    def _warn(self, text: str) -> None:
        self._warnings[text] = None

    def _warn_of_ids(self, format: str) -> None:
        paths_by_id = self._paths_by_id()
        calls_without_id = paths_by_id.pop(None, [])
        if not self._has_answers:  # nothing was paired by order
            self._calls_without_ids.clear()
        elif format not in _FORMATS_WITHOUT_IDS:
            self.notes.warn_once(calls_without_id, f"the call has no id; {_BY_ORDER}")
            self.notes.warn_once(self._answers_without_id, f"the tool message has no id of a call; {_BY_ORDER}")
        legacy = "'function_call' is the old form without ids; answers were paired with calls by name and order"
        self.notes.warn_once(self._calls_without_ids, legacy)
        for call_id, paths in paths_by_id.items():
            if len(paths) > 1:
                self.notes.warn(
                    paths[1], f"id {call_id!r} has {len(paths)} calls; answers with it were paired in order"
                )

    def _paths_by_id(self) -> dict[str | None, list[str]]:
        """Return the paths of the calls by their ids; none at all if each call has an id of its own."""
        paths_by_id: dict[str | None, list[str]] = {}
        if len({request.id or None for request, _ in self._paths} - {None}) < len(self._paths):
            for request, path in self._paths:
                if request.id or not request.ran:
                    paths_by_id.setdefault(request.id or None, []).append(path)
        return paths_by_id


def _closing_text(message: ModelMessage) -> str | None:
    """Return the last text after all calls of a message."""
    closing = takewhile(lambda part: isinstance(part, str), reversed(message.parts))
    return next((part for part in closing if part and isinstance(part, str)), None)


def _is_run_by_provider(call: RecordedCall) -> bool:
    return call.type in RUN_BY_PROVIDER


def _handoffs_of(calls: Iterable[RecordedCall]) -> list[Handoff]:
    """Return the hand-offs among calls; only the tool of Google's kit names the other agent, in `agent_name`."""
    handoffs: list[Handoff] = []
    for call in calls:
        if call.is_handoff:
            to_agent = object_of(call.requested).get("agent_name") if call.request.handoff else None
            handoffs.append(Handoff(call=call.position, to_agent=text_of(to_agent), from_agent=call.agent))
    return handoffs


def _joined_parts(inputs: Sequence[UserInput]) -> list[str | MLLMImage] | None:
    """Return the texts and images of messages in order, `None` if there is no image."""
    if all(user.parts is None for user in inputs):
        return None
    joined: list[str | MLLMImage] = []
    for user in inputs:
        joined += user.parts or ([user.text] if user.text else [])
    return joined


def _status_with(output: str | None, status: RunStatus) -> RunStatus:
    """Return how a run ended that has this output; without one it stopped, if nothing else is known."""
    return RunStatus.STOPPED if status is RunStatus.OK and not output else status
