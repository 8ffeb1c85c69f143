"""Transcripts: a list of messages as one run, as one run per turn, and as a conversation.

The readers of all formats give a `TranscriptBuilder` what they read, message by message. Requests and answers are
paired by `RunBuilder`, as they are for recorders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

from toolgrade._internal.model import drop_none
from toolgrade.calls import ToolCallType
from toolgrade.capture import Request, RunBuilder, image_parts
from toolgrade.cases import ConversationalTestCase, Handoff, MLLMImage, Run, RunStatus, Turn
from toolgrade.formats.messages.field_readers import Notes, read_list, read_text
from toolgrade.matching.json_compare import ABSENT

FormatName: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "langchain"]
"""The formats that are read: Chat Completions, Responses, Anthropic's Messages, and dumps of LangChain's messages."""

Entry: TypeAlias = tuple[str, object]
"""One message or item, with its path in what it was read from."""

_RUN_BY_PROVIDER = (ToolCallType.HOSTED, ToolCallType.MCP)

_BY_ORDER = "answers were paired with calls by name, where given, and order"


@dataclass(slots=True)
class Answer:
    """The answer of one message or item to a call that another one asked for.

    Attributes:
        call_id: The id of that call (for an approval, the id of the request); `None` if the answer names none.
        name: The tool it names, if it names one.
        content: What the model sees: text, also where it came as a list of texts; else a list of the texts and parts,
            or another value; `ABSENT` if there is nothing.
        failed: The call failed, or was refused.
        error: The error of a failed call, if it differs from the content.
        approved: The decision on a request for approval; `None` for any other answer. An approval is not a result:
            that comes later, in an item of its own.
        ran: The provider ran the tool itself.

    Example:
        >>> from toolgrade.formats import read_responses_answer
        >>> answer = read_responses_answer({"type": "function_call_output", "call_id": "c1", "output": "sunny"})
        >>> print(answer.call_id, answer.content, answer.failed)
        c1 sunny False
    """

    call_id: str | None
    name: str | None = None
    content: Any = ABSENT
    failed: bool = False
    error: str | None = None
    approved: bool | None = None
    ran: bool = False


UserInput: TypeAlias = "tuple[str, list[str | MLLMImage] | None]"
"""The text of a message of the user, empty if it has none, and its texts and images, `None` if it has no image."""


def read_user_input(content: object, path: str, notes: Notes) -> UserInput | None:
    """Return the texts and images of the message of the user at `path`, `None` if its content is empty."""
    if isinstance(content, str):
        return (content, None) if content else None
    text, parts = read_text(content, f"{path}.content", notes, keeps_images=True), image_parts(content)
    return None if text is None and parts is None else (text or "", parts)


@dataclass(slots=True)
class _Exchange:
    """The input of the user, and what the agent did until the user spoke again."""

    user_inputs: list[UserInput] = field(default_factory=list)
    has_agent: bool = False
    """Whether there is a message of the agent."""
    texts: list[str] = field(default_factory=list)
    """All texts of the agent that are not empty."""
    output: str | None = None
    """The final answer: no call stands in the same message or after it."""
    requests: list[Request] = field(default_factory=list)
    """The calls, each with its place as `source`."""

    @property
    def input(self) -> str | None:
        return "\n".join([text for text, _ in self.user_inputs]) or None

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

    format: FormatName
    run: Run
    _exchanges: Sequence[_Exchange] = field(repr=False)

    @cached_property
    def turns(self) -> list[Run]:
        """A run for each turn of the user, with what the agent did until the next one.

        The first has no input if the agent began.
        """
        calls = enumerate(self.run.calls)
        places = {call.execution.source: index for index, call in calls if call.execution is not None}
        last = len(self._exchanges) - 1
        return [self._turn(places, exchange, is_last=index == last) for index, exchange in enumerate(self._exchanges)]

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
        metadata = {"warnings": warnings} if warnings else None
        fields = {"turns": turns, "available_tools": self.run.available_tools or None, "metadata": metadata}
        return ConversationalTestCase(**drop_none(fields))

    def _turn(self, places: Mapping[str | None, int], exchange: _Exchange, *, is_last: bool) -> Run:
        indices = sorted({places[call.source] for call in exchange.requests if call.source in places})
        fields: dict[str, Any] = {
            "input": exchange.input,
            "input_parts": exchange.input_parts,
            "actual_output": exchange.output,
            "calls": [self.run.calls[index] for index in indices],
            "handoffs": self._handoffs_of(indices) or None,
            "available_tools": self.run.available_tools,
            "warnings": self.run.warnings or None,
        }
        # Only the last turn ends as the run.
        status, error = (self.run.status, self.run.error) if is_last else (RunStatus.OK, None)
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


class TranscriptBuilder:
    """Collects messages in their order, and builds the transcript; `notes` takes the warnings.

    Calls of the tools named in `handoff_names` are hand-offs to another agent.
    """

    def __init__(self, notes: Notes, *, handoff_names: Collection[str] = ()) -> None:
        self.notes = notes
        self.answer_paths: dict[str, str] = {}
        """The path of the answer to each call, by the call's own `source`."""
        self._handoff_names = frozenset(handoff_names)
        self._runs = RunBuilder()
        self._exchanges: list[_Exchange] = []
        self._answers: list[tuple[Answer, str]] = []
        """Answers without an id since the last message of the user or the model."""
        self._places: list[tuple[Request, str]] = []
        """Each call with its path, but for those in the form without ids."""
        self._answers_without_id: list[str] = []
        self._legacy_calls: list[str] = []
        self._approvals: set[str | None] = set()
        """Ids of the undecided requests for approval in the last message."""
        self._output: str | None = None
        self._end: tuple[RunStatus, str | None] = (RunStatus.OK, None)

    def offer_tools(self, tools: Sequence[object], *, all_known: bool) -> None:
        """Add tools that the model could choose from; `all_known` if there are no others."""
        self._runs.offered(tools, all_known=all_known)

    def add_model_use(self, model: str | None, usage: Mapping[str, int]) -> None:
        """Add the model and the token counts of one response."""
        self._runs.model_used(model, dict(usage))

    def end(self, status: RunStatus, error: str | None) -> None:
        """Set how the last response ended."""
        self._end = status, error

    def add_user_input(self, user: UserInput | None) -> None:
        """Add a message of the user, unless it is `None`."""
        if user is None:
            return
        if self._answers:
            self._flush_answers()
        self._runs.user_spoke()
        if not self._exchanges or self._exchanges[-1].has_agent:
            self._exchanges.append(_Exchange())
        self._exchanges[-1].user_inputs.append(user)

    def add_model_message(
        self, parts: Iterable[str | Request], *, approvals: Collection[str] = (), legacy: bool = False
    ) -> None:
        """Add a message of the model: its texts and calls, in their order.

        Each call has its path as `source`. `approvals` has the ids of those that wait for a person's approval, and
        `legacy` calls have the form without ids.
        """
        if self._answers:
            self._flush_answers()
        if not self._exchanges:
            self._exchanges.append(_Exchange())
        exchange = self._exchanges[-1]
        exchange.has_agent = True
        requests: list[Request] = []
        text = text_after_calls = None
        runs_a_tool = False
        for part in parts:
            if isinstance(part, Request):
                self._complete(part, legacy=legacy)
                requests.append(part)
                runs_a_tool |= part.type not in _RUN_BY_PROVIDER
                text_after_calls = None
            elif part:
                text = text_after_calls = part
                exchange.texts.append(part)
        self._runs.model_asked(requests)
        if approvals or self._approvals:
            self._approvals = set(approvals)
        if not requests:
            exchange.output = text or self._output
        else:  # while the agent still has to run its tools, no text here is the final answer
            exchange.requests += requests
            exchange.output = None if runs_a_tool else text_after_calls
        self._output = exchange.output

    def add_answer(self, answer: Answer, path: str, *, legacy: bool = False) -> None:
        """Add the result of a call, or the decision on one.

        Results with an id come first: each can belong to one call only, so that those without take what remains.
        """
        if answer.call_id is not None:
            self._pair(answer, path)
        else:
            self._answers.append((answer, path))
            if not legacy:
                self._answers_without_id.append(path)
        if not answer.ran:
            self._output = None
            if self._exchanges:
                self._exchanges[-1].output = None

    def _pair(self, answer: Answer, path: str) -> None:
        """Hand over an answer to the call that it belongs to; an approval is not a result."""
        if answer.approved is not None:
            self._approvals.discard(answer.call_id)
            if answer.approved:
                return
        source = self._runs.result_read(
            answer.content,
            path,
            call_id=answer.call_id,
            name=answer.name,
            failed=answer.failed,
            error=answer.error,
            rejected=answer.approved is False,
            ran=answer.ran,
        )
        if source is not None:
            self.answer_paths[source] = path

    def _flush_answers(self) -> None:
        """Hand over the answers without an id since the last message."""
        for answer, path in self._answers:
            self._pair(answer, path)
        self._answers.clear()

    def warn_without_model(self, path: str) -> None:
        """Warn if there is no message of the model, so that the empty list of calls is not mistaken for a choice."""
        if not self.notes.problems and not any(exchange.has_agent for exchange in self._exchanges):
            self.notes.warn(path, "holds no message of the assistant, so the list of its calls is empty")

    def build(self, format: FormatName) -> Transcript:
        """Return the transcript; the warnings are in the notes, and on every run."""
        self._flush_answers()
        self._warn_of_ids()
        self._start_run()
        status, error = self._end
        status = RunStatus.OK if self._approvals else _status_with(self._output, status)
        self._runs.ended(self._output, status=status, error=error, may_wait=bool(self._approvals))
        # If the user spoke only once, the run says it all.
        has_turns = sum(bool(exchange.user_inputs) for exchange in self._exchanges) > 1
        fields = self._runs.fields(copy=False, turns=self._turns() if has_turns else None)
        self.notes.warnings.extend(fields["warnings"])
        fields["warnings"] = list(self.notes.warnings)
        texts = [text for exchange in self._exchanges for text in exchange.texts]
        if texts != [self._output]:
            fields["agent_texts"] = texts
        fields["dialogue"] = self._dialogue() if has_turns else []
        run = Run(**{name: value for name, value in fields.items() if value not in ([], {}, RunStatus.OK)})
        return Transcript(format, run, self._exchanges)

    def _start_run(self) -> None:
        """Set the input of the run: the messages of the user up to the first with a text."""
        inputs = [user for exchange in self._exchanges for user in exchange.user_inputs]
        number = next((number for number, (text, _) in enumerate(inputs, 1) if text), len(inputs))
        text = inputs[number - 1][0] if inputs else ""
        self._runs.started(text or None, parts=_joined_parts(inputs[:number]))

    def _dialogue(self) -> list[dict[str, str]]:
        """Return the turns of the user and the agent."""
        turns: list[dict[str, str]] = []
        for exchange in self._exchanges:
            if exchange.user_inputs:
                turns.append({"role": "user", "content": exchange.input or ""})
            turns += [{"role": "assistant", "content": text} for text in exchange.texts]
        return turns

    def _turns(self) -> dict[str | None, int]:
        """Return the turn of the user that each call answers, by its place."""
        # Only the first exchange may have no input.
        first = 1 if self._exchanges[0].user_inputs else 0
        turns: dict[str | None, int] = {}
        for number, exchange in enumerate(self._exchanges, first):
            for request in exchange.requests:
                turns[request.source] = number
        return turns

    def _complete(self, request: Request, *, legacy: bool) -> None:
        """Complete a request, with its hand-off, and note where it stands."""
        path = request.source or "$"
        request.source = path.removeprefix("$.")
        if self._handoff_names:
            request.handoff = request.name in self._handoff_names
        if legacy:
            self._legacy_calls.append(path)
        else:
            self._places.append((request, path))
        if request.arguments is not None and not isinstance(request.arguments, dict):
            reason = f" ({request.error})" if request.error else ""
            message = f"the arguments of {request.name!r} are not a JSON object{reason}; they count as {{}}"
            self.notes.warn(path, message)

    def _paths_by_id(self) -> dict[str | None, list[str]]:
        """Return the paths of the calls by their ids; none at all if each call has an id of its own."""
        paths_by_id: dict[str | None, list[str]] = {}
        if len({request.id or None for request, _ in self._places} - {None}) < len(self._places):
            for request, path in self._places:
                if request.id or not request.ran:
                    paths_by_id.setdefault(request.id or None, []).append(path)
        return paths_by_id

    def _warn_of_ids(self) -> None:
        paths_by_id = self._paths_by_id()
        self.notes.warn_once(paths_by_id.pop(None, []), f"the call has no id; {_BY_ORDER}")
        self.notes.warn_once(self._answers_without_id, f"the tool message has no id of a call; {_BY_ORDER}")
        legacy = "'function_call' is the old form without ids; answers were paired with calls by name and order"
        self.notes.warn_once(self._legacy_calls, legacy)
        for call_id, paths in paths_by_id.items():
            if len(paths) > 1:
                self.notes.warn(
                    paths[1], f"id {call_id!r} has {len(paths)} calls; answers with it were paired in order"
                )


def _joined_parts(inputs: Sequence[UserInput]) -> list[str | MLLMImage] | None:
    """Return the texts and images of messages in order, `None` if there is no image."""
    if all(parts is None for _, parts in inputs):
        return None
    joined: list[str | MLLMImage] = []
    for text, parts in inputs:
        joined += parts or ([text] if text else [])
    return joined


def _status_with(output: str | None, status: RunStatus) -> RunStatus:
    """Return how a run ended that has this output; without one it stopped, if nothing else is known."""
    return RunStatus.STOPPED if status is RunStatus.OK and output is None else status


def entries_of(value: object, path: str, notes: Notes) -> list[Entry]:
    """Return the messages or items of a list with their paths; anything else is a problem."""
    messages = read_list(value, path, notes, "a list of messages")
    return [(f"{path}[{index}]", message) for index, message in enumerate(messages)]
