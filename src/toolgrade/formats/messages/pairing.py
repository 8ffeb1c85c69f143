"""Pairing of recorded requests with their answers, and the calls that the two give."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from toolgrade._internal.json import JsonObject, json_text
from toolgrade._internal.model import drop_none
from toolgrade.calls import CallStatus, Execution, ToolCall, ToolCallType
from toolgrade.capture import Request
from toolgrade.formats.messages.message import RUN_BY_PROVIDER, Answer
from toolgrade.matching.json_compare import ABSENT, json_equal

# Python 3.11 takes five times as long to look up a member of an enumeration as a name of the module.
_OK: Final = CallStatus.OK
_NOT_EXECUTED: Final = CallStatus.NOT_EXECUTED


@dataclass(slots=True, eq=False)
class Scope:
    """The top level of a list of messages, or what the program of a call does.

    `last_message` is the number of the last message of the model in it, `offered` the names of all tools that the model
    could choose from, empty if some of them are not known.
    """

    last_message: int = 0
    offered: set[str] = field(default_factory=set[str])


# Compared by identity: two equal requests are two calls.
@dataclass(slots=True, eq=False)
class RecordedCall:
    """A request with its answer.

    Attributes:
        request: The request, which may be somebody else's object, so it stays as it is.
        agent: Name of the agent.
        source: Its path.
        type: Who ran the tool, by the request or by the answer.
        is_handoff: It passes control to another agent.
        artifact: What the tool returned in addition, as a JSON value.
        requested: The requested arguments as a JSON value; `None` if they were not captured.
        message: Number of the message of the model, from 1.
        round: Number of the round.
        scope: Where it was made.
        inner: Its own program, if that made calls.
        answer: Its answer, with the path of it and its content as a JSON value.
        ran: The provider ran it, with this `output` or `error`.
        not_captured: Fields that the recording does not contain.
        is_withdrawn: Another request took its place.
        position: Position of its call in the run; `None` inside another call.
    """

    request: Request
    requested: Any
    message: int
    round: int
    scope: Scope
    agent: str | None = None
    source: str = ""
    type: ToolCallType | None = None
    is_handoff: bool = False
    artifact: Any = None
    inner: Scope | None = None
    answer: Answer | None = None
    answer_path: str = ""
    content: Any = ABSENT
    ran: bool = False
    output: Any = ABSENT
    error: str | None = None
    not_captured: tuple[str, ...] = ()
    is_withdrawn: bool = False
    position: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has no result yet."""
        return self.answer is None and not self.ran and not self.is_withdrawn

    @property
    def is_invalid(self) -> bool:
        """Whether the model did not write an object of arguments."""
        return not (self.requested is None or isinstance(self.requested, dict))

    @property
    def is_of_last_message(self) -> bool:
        """Whether the model wrote no message after its own in the same scope."""
        return self.message == self.scope.last_message

    @property
    def is_unresolved(self) -> bool:
        """Whether somebody has still to run it."""
        return self.is_open and not self.is_invalid and not self.is_handoff

    def add_not_captured(self, name: str) -> None:
        """Note that the recording does not contain a field."""
        if name not in self.not_captured:
            self.not_captured += (name,)

    def set_run(self, output: object, error: str | None) -> None:
        """Set that the provider ran it, and how that ended."""
        self.ran, self.output, self.error = True, output, error


class OpenCalls:
    """The calls of a list of messages that have no answer yet.

    An answer belongs to the first of these that is open:

    1. a call of its id, one of its name before others;
    2. a call without an id, of its name if the answer has one;
    3. if the answer has no id, any call, of its name if it has one.

    Among several, the newest *round* counts, and in it their order: ids and names repeat, and an answer follows its
    request. A round begins with the first message of the model after an answer or a message of the user.
    """

    def __init__(self) -> None:
        self._by_id: dict[str | None, dict[int, deque[RecordedCall]]] = {}
        """Calls by id and round; under the id "" those without one, under `None` all."""
        self._unlisted: list[RecordedCall] = []
        """Calls that are not listed under `None` yet: nearly every answer has an id, so that list is rarely needed."""

    def add(self, call: RecordedCall) -> None:
        """Add a call; calls come in their order."""
        self._add(call, call.request.id or "")
        self._unlisted.append(call)

    def _add(self, call: RecordedCall, key: str | None) -> None:
        self._by_id.setdefault(key, {}).setdefault(call.round, deque()).append(call)

    def call_of(self, call_id: str | None, name: str | None) -> RecordedCall | None:
        """Return the call that an answer belongs to, `None` if there is none."""
        if call_id:
            call = self._newest(call_id, name, other_names=True)
            return call or self._newest("", name, other_names=name is None)
        for call in self._unlisted:
            self._add(call, None)
        self._unlisted.clear()
        return self._newest("", name, other_names=name is None) or self._newest(None, name, other_names=name is None)

    def _newest(self, key: str | None, name: str | None, *, other_names: bool) -> RecordedCall | None:
        """Return the first open call of the newest round that has one: of this name, else (`other_names`) of any."""
        rounds = self._by_id.get(key, {})
        for number in list(reversed(rounds)):  # rounds were added in their order
            calls = rounds[number]
            while calls and not calls[0].is_open:
                calls.popleft()
            if not calls:
                del rounds[number]
            elif calls[0].request.name == name:
                return calls[0]
            else:
                named = next((call for call in calls if call.is_open and call.request.name == name), None)
                if named is not None or other_names:
                    return named or calls[0]
        return None


class CallBuilder:
    """Builds the calls of a transcript; `turns` are the turns of the user that they answer."""

    def __init__(
        self, calls: Iterable[RecordedCall], turns: Mapping[RecordedCall, int], *, is_interrupted: bool
    ) -> None:
        self._turns = turns
        self._is_interrupted = is_interrupted
        self._by_scope: dict[Scope, list[RecordedCall]] = {}
        for call in calls:
            self._by_scope.setdefault(call.scope, []).append(call)

    def calls_in(self, scope: Scope) -> list[ToolCall]:
        """Return the calls of a scope, in their order."""
        steps: dict[int, int] = {}
        calls = self._by_scope.get(scope, [])
        return [self._build(call, steps.setdefault(call.message, len(steps))) for call in calls]

    def _build(self, call: RecordedCall, step: int) -> ToolCall:
        status = _status(call, is_interrupted=self._is_interrupted)
        output = ABSENT
        if status is _OK:
            output = call.content if call.output is ABSENT else call.output
        # Only what is recorded is set: metrics tell a field that is not set from one that is `None`.
        request, fields = call.request, JsonObject(name=call.request.name or "(unnamed)")
        if request.id:
            fields["id"] = request.id
        if call.type is not None:
            fields["type"] = call.type
        if request.reasoning:
            fields["reasoning"] = request.reasoning
        if call in self._turns:
            fields["turn"] = self._turns[call]
        if call.requested is not None:
            fields["input_parameters"] = {} if call.is_invalid else call.requested
        if output is not ABSENT:
            fields["output"] = output
        execution = {"status": status, "executed": call.ran, "step": step, **_details(call, status, output)}
        if call.inner is not None:
            execution["children"] = self.calls_in(call.inner)
        fields["execution"] = Execution.from_valid(execution)
        return ToolCall.from_valid(fields)


def _details(call: RecordedCall, status: CallStatus, output: object) -> JsonObject:
    """Return the fields of an execution that not every call has."""
    fields: JsonObject = {"source": call.source}
    if status is not _OK:
        fields["error"] = _error(call, status)
    if call.is_invalid:
        fields["requested_parameters"] = call.requested
    if call.content is not output:
        fields["model_output"] = _model_output(call.content, output)
    if output is ABSENT or call.not_captured:
        fields["not_captured"] = _not_captured(call, output) or None
    fields |= {"server": call.request.server, "agent": call.agent, "artifact": call.artifact}
    return drop_none(fields)


def _model_output(content: Any, output: object) -> Any:  # noqa: ANN401 - JSON values
    """Return what the model received, `None` if it is equal to the output or not known."""
    # A value and its JSON text are equal, but the model received only one of them, so both are stored.
    return None if content is ABSENT or json_equal(output, content) else content


def _not_captured(call: RecordedCall, output: object) -> list[str]:
    """Return the fields of a call that the recording does not contain."""
    missing = list(call.not_captured)
    if output is ABSENT and "output" not in missing and _has_succeeded(call):
        missing.append("output")
    return missing


def _has_succeeded(call: RecordedCall) -> bool:
    """Return whether the tool returned, although its output is not known."""
    if call.ran:
        return call.error is None
    return call.answer is not None and call.content is ABSENT and not call.answer.failed


def _status(call: RecordedCall, *, is_interrupted: bool) -> CallStatus:
    answer = call.answer
    if call.is_invalid:
        return CallStatus.INVALID_ARGUMENTS
    if call.ran:
        return _OK if call.error is None else CallStatus.ERROR
    if answer is None:
        return _status_without_answer(call, is_interrupted=is_interrupted)
    if not (answer.failed or answer.unknown_tool):
        return _OK
    if answer.unknown_tool or _is_unknown(call):
        return CallStatus.UNKNOWN_TOOL
    if answer.cancelled:
        return CallStatus.CANCELLED
    return CallStatus.REJECTED if answer.approved is False else CallStatus.ERROR


def _status_without_answer(call: RecordedCall, *, is_interrupted: bool) -> CallStatus:
    if call.is_handoff:
        return _OK
    if _is_unknown(call):
        return CallStatus.UNKNOWN_TOOL
    return CallStatus.PENDING if is_interrupted and call.is_of_last_message else _NOT_EXECUTED


def _is_unknown(call: RecordedCall) -> bool:
    """Return whether all offered tools are known, and the called one is not among them."""
    if not call.scope.offered or call.is_handoff:
        return False
    # Tools of the provider and of its servers are offered under other names, or under none.
    is_run_by_provider = call.type in RUN_BY_PROVIDER
    return call.request.name not in call.scope.offered and not is_run_by_provider


def _error(call: RecordedCall, status: CallStatus) -> str | None:
    """Return the error of a call that is not `ok`."""
    if status is CallStatus.PENDING:
        return None
    if status is CallStatus.INVALID_ARGUMENTS and call.request.error is not None:
        return call.request.error
    if call.error is not None:
        return call.error
    if call.answer is None or not call.answer.failed:
        return call.request.error
    if call.content is ABSENT and call.answer.error is None:
        return call.request.error or "failed"
    return error_of(call.answer, call.content)


def error_of(answer: Answer, content: object) -> str:
    """Return the error that an answer of a failed call reports."""
    if answer.error is not None:
        return answer.error
    if content is ABSENT:
        return "failed"
    return content if isinstance(content, str) else json_text(content)
