"""What was said in a list of messages: the run, its turns, and the conversation that they are.

Readers of all formats tell a `Telling` what they find, message by message; what belongs together is decided by
`RunBuilder`, as it is for recorders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from toolmark._internal.json import short_repr
from toolmark.calls import ToolCallType
from toolmark.capture import Request, RunBuilder
from toolmark.cases import ConversationalTestCase, Run, RunStatus, Turn
from toolmark.formats.messages.field_readers import Notes
from toolmark.formats.messages.lenient_arguments import repaired
from toolmark.matching.json_compare import ABSENT

FormatName: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "langchain"]
"""The formats that are read: Chat Completions, Responses, Anthropic's Messages, and dumps of LangChain's messages."""

Entry: TypeAlias = tuple[str, object]
"""One message or item, with its path in what it was read from."""

_PROVIDED = (ToolCallType.HOSTED, ToolCallType.MCP)

_BY_ORDER = "answers were paired with calls by name, where given, and order"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one message or item says about a call that another one asked for.

    Attributes:
        call_id: The id of that call (of an approval, the id of the request); `None` where the answer names none.
        name: The tool it names, if it names one.
        content: What the model is shown: text, also where it came as a list of texts; else a list of the texts and
            parts, or another value; `ABSENT` where there is nothing.
        failed: It says that the call failed, or was refused.
        error: The error, where it failed and the content is not just that.
        approved: Of an answer to a request for approval, the decision; `None` for any other. Yes is no result: that
            comes later, in an item of its own.
        ran: The provider ran the tool itself.
    """

    call_id: str | None
    name: str | None = None
    content: Any = ABSENT
    failed: bool = False
    error: str | None = None
    approved: bool | None = None
    ran: bool = False


@dataclass(frozen=True)
class Transcript:
    """One list of messages, read.

    Attributes:
        format: What it was read as.
        run: The whole list as one run: its input is the first message of the user, its calls are those of all turns.
        turns: A run for each turn of the user, with what the agent did until the next one; the first has no input
            where the agent began.
        conversation: The same turns as a conversation: of the assistant the last text of each turn, and its calls.
    """

    format: FormatName
    run: Run
    turns: list[Run]
    conversation: ConversationalTestCase


@dataclass
class _Unit:
    """The user's words, and what the agent did until the user spoke again."""

    texts: list[str] = field(default_factory=list)
    spoken: bool = False
    """The agent said or did something."""
    said: str | None = None
    """The last text of the agent that is not empty."""
    output: str | None = None
    """Its final answer: no call stands beside or after it."""
    sources: set[str] = field(default_factory=set)

    @property
    def input(self) -> str | None:
        return "\n".join(self.texts) if self.texts else None


class Telling:
    """Takes what a reader finds, in its order.

    Args:
        notes: Takes the warnings.
        handoff_names: Names of tools that hand over to another agent; their calls are hand-offs.
    """

    def __init__(self, notes: Notes, *, handoff_names: Collection[str] = ()) -> None:
        self.notes = notes
        self.answered: dict[str, str] = {}
        """The path of the answer that each call got, by the call's own `source`."""
        self._handoff_names = frozenset(handoff_names)
        self._builder = RunBuilder()
        self._units: list[_Unit] = []
        self._answers: list[tuple[Answer, str]] = []
        self._asked: list[tuple[str, str | None]] = []
        self._without_id: list[str] = []
        self._answers_without_id: list[str] = []
        self._legacy: list[str] = []
        self._approvals: set[str] = set()
        """Ids of the requests for approval in the last message that nobody decided."""
        self._input: str | None = None
        self._output: str | None = None
        self._end: tuple[RunStatus, str | None] = (RunStatus.OK, None)

    @property
    def spoken(self) -> bool:
        """Whether there is a message of the agent, so that no call says that nothing was called."""
        return any(unit.spoken for unit in self._units)

    def offered(self, tools: Sequence[object], *, all_known: bool) -> None:
        """The model could choose from these tools; from others too, unless all are known."""
        self._builder.offered(tools, all_known=all_known)

    def model_used(self, model: str | None, usage: Mapping[str, int]) -> None:
        """A model answered, with these counts of tokens."""
        self._builder.model_used(model, dict(usage))

    def ended(self, status: RunStatus, error: str | None) -> None:
        """The response says that it did not come to its end."""
        self._end = status, error

    def user(self, text: str) -> None:
        """The user said something; empty text stands for what is no text, such as an image."""
        self._flush()
        self._builder.user_spoke()
        if self._input is None:
            self._input = text or None
        if not self._units or self._units[-1].spoken:
            self._units.append(_Unit())
        self._units[-1].texts.append(text)

    def model(self, parts: Sequence[str | Request], *, approvals: Collection[str] = (), legacy: bool = False) -> None:
        """A model message: its texts and the calls it asks for, in their order.

        Args:
            parts: Each call has its place as `source`.
            approvals: Ids of those that wait for a person's approval.
            legacy: The calls are of the form from before ids.
        """
        self._flush()
        if not self._units:
            self._units.append(_Unit())
        unit = self._units[-1]
        unit.spoken = True
        requests = [self._placed(part, unit, legacy=legacy) for part in parts if isinstance(part, Request)]
        self._builder.model_asked(requests)
        self._approvals = set(approvals)
        texts = [part for part in parts if isinstance(part, str) and part]
        unit.said = texts[-1] if texts else unit.said
        if not requests:
            self._output = unit.output = texts[-1] if texts else self._output
            return
        last = max(index for index, part in enumerate(parts) if isinstance(part, Request))
        after = [part for part in parts[last:] if isinstance(part, str) and part]
        waits = any(request.type not in _PROVIDED for request in requests)
        self._output = unit.output = after[-1] if after and not waits else None

    def answer(self, answer: Answer, path: str, *, legacy: bool = False) -> None:
        """A result, or a decision about a call; of the form from before ids, if it is legacy."""
        self._answers.append((answer, path))
        if answer.call_id is None and not legacy:
            self._answers_without_id.append(path)
        if answer.approved is not None and answer.call_id is not None:
            self._approvals.discard(answer.call_id)
        if not answer.ran:
            self._output = None
            if self._units:
                self._units[-1].output = None

    def finish(self, format: FormatName) -> Transcript:
        """Return what was told; the warnings are in the notes, and on every run."""
        self._flush()
        self._note_ids()
        status, error = self._end
        if status is RunStatus.OK and self._output is None:
            status = RunStatus.STOPPED
        waits = bool(self._approvals)
        self._builder.started(self._input)
        self._builder.ended(self._output, status=RunStatus.OK if waits else status, error=error, may_wait=waits)
        built = self._builder.build()
        self.notes.warnings.extend(built.warnings)
        run = _said(built, warnings=self.notes.warnings)
        places = {call.execution.source: index for index, call in enumerate(run.calls) if call.execution is not None}
        turns = [self._turn(run, places, unit, last=unit is self._units[-1]) for unit in self._units]
        return Transcript(format, run, turns, self._conversation(run, turns))

    def _placed(self, request: Request, unit: _Unit, *, legacy: bool) -> Request:
        path = request.source or "$"
        source = path.removeprefix("$.")
        unit.sources.add(source)
        if legacy:
            self._legacy.append(path)
        elif request.id:
            self._asked.append((path, request.id))
        elif not request.ran:
            self._without_id.append(path)
        request = self._readable(request, path)
        if request.arguments is not None and not isinstance(request.arguments, dict):
            reason = f" ({request.error})" if request.error else ""
            self.notes.warn(path, f"the arguments of {request.name!r} are no JSON object{reason}; they count as {{}}")
        return replace(request, source=source, handoff=request.name in self._handoff_names)

    def _readable(self, request: Request, path: str) -> Request:
        """Return a request with the arguments that its text means, if texts are read tolerantly and it means any."""
        raw = request.arguments
        if not isinstance(raw, str):
            return request
        arguments = repaired(raw, request.name, path, self.notes)
        return request if arguments is None else replace(request, arguments=arguments, raw=raw, error=None)

    def _flush(self) -> None:
        """Tell the answers since the last message: those with an id first, since nothing else is theirs."""
        for answer, path in sorted(self._answers, key=lambda entry: entry[0].call_id is None):
            if answer.approved:
                continue
            call = self._builder.result_read(
                answer.content,
                path,
                call_id=answer.call_id,
                name=answer.name,
                failed=answer.failed,
                error=answer.error,
                rejected=answer.approved is False,
                ran=answer.ran,
            )
            if call is not None:
                self.answered[call] = path
        self._answers.clear()

    def _note_ids(self) -> None:
        self.notes.warn_once(self._without_id, f"the call has no id; {_BY_ORDER}")
        self.notes.warn_once(self._answers_without_id, f"the tool message has no id of a call; {_BY_ORDER}")
        legacy = "'function_call' is the form from before ids; answers were paired with calls by name and order"
        self.notes.warn_once(self._legacy, legacy)
        for call_id, number in Counter(call_id for _, call_id in self._asked).items():
            if number > 1:
                second = [path for path, other in self._asked if other == call_id][1]
                self.notes.warn(
                    second, f"id {call_id!r} was given to {number} calls; answers with it were paired in order"
                )

    def _turn(self, run: Run, places: Mapping[str | None, int], unit: _Unit, *, last: bool) -> Run:
        kept = sorted(places[source] for source in unit.sources if source in places)
        handoffs = [
            handoff.model_copy(update={"call": kept.index(handoff.call)})
            for handoff in run.handoffs
            if handoff.call in kept
        ]
        fields: dict[str, Any] = {
            "input": unit.input or None,
            "actual_output": unit.output,
            "calls": [run.calls[index] for index in kept],
        }
        if handoffs:
            fields["handoffs"] = handoffs
        if last and run.status in (RunStatus.INTERRUPTED, RunStatus.ERROR):
            fields |= {"status": run.status, "error": run.error}
        elif unit.output is None or (last and run.status is RunStatus.STOPPED):
            fields |= {"status": RunStatus.STOPPED, "error": run.error if last else None}
        fields |= {"available_tools": run.available_tools, "warnings": run.warnings or None}
        return Run(**{name: value for name, value in fields.items() if value is not None})

    def _conversation(self, run: Run, turns: Sequence[Run]) -> ConversationalTestCase:
        said: list[Turn] = []
        for unit, turn in zip(self._units, turns, strict=True):
            if unit.texts:
                said.append(Turn(role="user", content=unit.input or ""))
            if unit.spoken:
                said.append(Turn(role="assistant", content=unit.said or "", tools_called=turn.tools_called))
        fields: dict[str, Any] = {"turns": said}
        if run.available_tools:
            fields["available_tools"] = run.available_tools
        if run.warnings:
            fields["metadata"] = {"warnings": run.warnings}
        return ConversationalTestCase(**fields)


def _said(run: Run, *, warnings: list[str]) -> Run:
    """Return a run with only what its messages say."""
    kept = {name: getattr(run, name) for name in run.model_fields_set if name != "warnings"}
    kept["warnings"] = list(warnings)
    return Run(**{name: value for name, value in kept.items() if value not in ([], {}, RunStatus.OK)})


def entries(value: object, path: str, notes: Notes) -> list[Entry]:
    """Return the messages or items of a list with their paths; what is no list is a problem."""
    if isinstance(value, (list, tuple)):
        return [(f"{path}[{index}]", entry) for index, entry in enumerate(value)]
    notes.problem(path, f"expected a list of messages, got {short_repr(value)}")
    return []
