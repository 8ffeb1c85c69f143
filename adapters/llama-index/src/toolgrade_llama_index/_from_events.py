"""Runs read from the events of `handler.stream_events()`, also from their JSON.

Events do not name the agent of a call, and repeat earlier ones, so each event is matched with the call that fits best.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from llama_index.core.agent.workflow.workflow_events import (
    AgentInput,
    AgentOutput,
    AgentStream,
    ToolCall,
    ToolCallResult,
)
from llama_index.core.workflow import Event, InputRequiredEvent, StopEvent
from pydantic import ValidationError

from toolgrade.capture import Branch, Outcome, Request, RunBuilder
from toolgrade.cases import Run, RunStatus
from toolgrade.errors import InvalidDataError, Problem
from toolgrade_llama_index import _messages
from toolgrade_llama_index._agent_log import HANDOFF, AgentLog, Key
from toolgrade_llama_index._errors import error_text, status_of
from toolgrade_llama_index._hosted import UNREAD_STREAM, streamed_index
from toolgrade_llama_index._results import is_unknown_tool

_EVENT_TYPES: Final[dict[str, type[Event]]] = {
    kind.__name__: kind for kind in (AgentInput, AgentOutput, ToolCall, ToolCallResult)
}
_DUMPED_FIELDS: Final[list[tuple[set[str], str]]] = [
    ({"tool_name", "tool_kwargs", "tool_id", "tool_output"}, "ToolCallResult"),
    ({"tool_name", "tool_kwargs", "tool_id"}, "ToolCall"),
    ({"current_agent_name", "delta"}, "AgentStream"),
    ({"current_agent_name", "response"}, "AgentOutput"),
    ({"current_agent_name", "input"}, "AgentInput"),
    ({"step_name", "exception"}, "WorkflowFailedEvent"),
    ({"step_name", "exception_type"}, "WorkflowFailedEvent"),
    ({"timeout", "active_steps"}, "WorkflowTimedOutEvent"),
]
"""Fields of the events in their dumps, which do not name their classes; the first that a dump has decide."""
_STOPPED: Final = {
    "WorkflowTimedOutEvent": "the run reached its time limit",
    "WorkflowCancelledEvent": "cancelled",
    "IdleReleasedEvent": "released while it waited",
}
# Without events of their own for failures, as in old versions, a run that failed ends with an empty result.
_HAS_FAILURE_EVENTS: Final = hasattr(sys.modules[StopEvent.__module__], "WorkflowFailedEvent")

_NO_BEGINNING: Final = "the events begin in the middle of a run; the calls that it continues count as the model's"
_AMBIGUOUS_SCOPE: Final = "an agent ran inside a tool while several tools ran; it counts as inside the newest one"
_NO_END: Final = "the events do not show how the run ended; pass `result=` or `error=`, or all events"


def runs_from_events(
    events: Iterable[object],
    result: object = None,
    error: BaseException | None = None,
    input: str | None = None,
) -> list[Run]:
    """Return the runs that the events of `handler.stream_events()` show, in their order.

    A run ends with its `StopEvent`. A run that waited for a person and was resumed in a second handler is one run.
    Events carry no times and do not name the agent of a call, and the framework and tools may change their arguments
    afterwards; otherwise, the runs are those that `record()` returns.

    Args:
        events: LlamaIndex's events, or what `JsonSerializer` or `model_dump` wrote for them, as text or as an object.
            Events of other kinds are skipped.
        result: What `await handler` returned, for the last run.
        error: What it raised instead.
        input: The text of the user in the last run; by default the user's last message in the first input of its model,
            to which LlamaIndex adds an agent's state.

    Raises:
        InvalidDataError: An item is not an event; `problems` lists each one.

    Example:
        >>> from llama_index.core.agent.workflow import ToolCall, ToolCallResult
        >>> from llama_index.core.tools import ToolOutput
        >>> from llama_index.core.workflow import StopEvent
        >>> from toolgrade_llama_index import runs_from_events
        >>> call = {"tool_name": "get_weather", "tool_kwargs": {"city": "Paris"}, "tool_id": "c1"}
        >>> output = ToolOutput(content="sunny", tool_name="get_weather", raw_input={}, raw_output="sunny")
        >>> result = ToolCallResult(**call, tool_output=output, return_direct=False)
        >>> events = [ToolCall(**call), result, StopEvent(result="It is sunny.")]  # of handler.stream_events()
        >>> [run] = runs_from_events(events, input="What is the weather in Paris?")
        >>> run.actual_output, [(call.name, call.arguments, call.output) for call in run.calls]
        ('It is sunny.', [('get_weather', {'city': 'Paris'}, 'sunny')])
    """
    groups = _groups(_read(events))
    if not groups and (result is not None or error is not None):
        groups = [[]]
    runs = [_EventReader(group).run() for group in groups[:-1]]
    if groups:
        runs.append(_EventReader(groups[-1], error=error, result=_agent_output(result)).run(input))
    return runs


def _read(events: Iterable[object]) -> list[Event]:
    read: list[Event] = []
    problems: list[Problem] = []
    skipped: list[int] = []
    for index, item in enumerate(events):
        try:
            event = _event_of(item)
        except (ValueError, TypeError, KeyError) as error:
            text = str(error)
            if isinstance(error, ValidationError):
                text = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:3])
            problems.append(Problem(f"$.events[{index}]", f"not a readable event of LlamaIndex: {text}"))
        else:
            if event is not None:
                read.append(event)
            elif not isinstance(item, Event):
                skipped.append(index)
    if not read and not problems:
        # Single dumps may be of events of the user's own; if there are no others, these are not events of an agent.
        text = "not an event of an agent, by its fields"
        problems = [Problem(f"$.events[{index}]", text) for index in skipped]
    if problems:
        raise InvalidDataError("; ".join(map(str, problems)), problems)
    return read


def _event_of(item: object) -> Event | None:
    """Return an event; `None` for one of a kind that is not needed."""
    if isinstance(item, Event):
        return item
    data: Any = json.loads(item) if isinstance(item, str) else item
    if not isinstance(data, dict):
        raise TypeError(f"expected an event, its dump or its JsonSerializer form, got {type(item).__name__}")
    if isinstance(data.get("value"), dict):
        name, value = str(data["qualified_name"]).rpartition(".")[2], data["value"]
    else:
        name, value = _kind_of_dump(data), data
    if name in _EVENT_TYPES:
        return _EVENT_TYPES[name].model_validate(value)
    if name == "InputRequiredEvent":
        return InputRequiredEvent()
    if name.endswith("StopEvent"):
        return StopEvent(result=value.get("result"))
    if name in ("WorkflowFailedEvent", "WorkflowTimedOutEvent", "WorkflowCancelledEvent"):
        # Not every version has these classes, and only their names and fields are read.
        raised = value.get("exception") or value
        fields = {key: raised[key] for key in ("exception_type", "exception_message") if key in raised}
        event: Event = type(name, (StopEvent,), {"__module__": __name__})(**fields)
        return event
    return None


def _kind_of_dump(data: dict[str, Any]) -> str:
    """Return the class of an event that `model_dump` wrote, by its fields; empty for one of another kind.

    A dump without fields may be of a run that ended or that was cancelled, so it does not count as the end.
    """
    for fields, name in _DUMPED_FIELDS:
        if fields <= data.keys():
            return name
    if isinstance(data.get("_data"), dict) and "prefix" in data["_data"]:
        return "InputRequiredEvent"
    return "StopEvent" if data.keys() == {"result"} else ""


def _groups(events: Iterable[Event]) -> list[list[Event]]:
    """Return the events of each run; a run that waited, was cancelled and goes on stays one."""
    groups: list[list[Event]] = []
    ended = True
    for event in events:
        if ended and groups and isinstance(event, ToolCall) and _ends_waiting(groups[-1]):
            groups[-1].pop()
        elif ended:
            groups.append([])
        groups[-1].append(event)
        ended = isinstance(event, StopEvent)
    return groups


def _ends_waiting(events: Sequence[Event]) -> bool:
    """Return whether a run was cancelled while it waited for a person, and may be resumed."""
    is_cancelled = type(events[-1]).__name__ == "WorkflowCancelledEvent"
    return is_cancelled and any(isinstance(event, InputRequiredEvent) for event in events)


def _agent_output(result: object) -> object:
    """Return the result of an agent as an `AgentOutput`, also if it was read from JSON."""
    if isinstance(result, dict) and {"response", "current_agent_name"} <= result.keys():
        try:
            return AgentOutput.model_validate(result)
        except ValueError:
            return result
    return result


def _result_of_stop(stop: StopEvent) -> object:
    """Return the result that the end of a run holds; an event of a class of the user's own is the result itself."""
    is_own_class = type(stop) is not StopEvent and stop.result is None
    return stop if is_own_class else _agent_output(stop.result)


@dataclass(eq=False)
class _EventCall:
    """A call: requested, or running once it has a key."""

    name: str
    arguments: Any
    id: str
    scope: Key | None
    key: Key | None = None
    started: bool = False

    def fit(self, event: ToolCall | ToolCallResult) -> int:
        """Return how well an event fits: 3 entirely, 2 except for the arguments, 1 except for the id, 0 not at all."""
        if self.name != event.tool_name:
            return 0
        same_id = self.id == event.tool_id
        try:
            same_arguments = bool(self.arguments == event.tool_kwargs)
        except Exception:  # noqa: BLE001 - values of any kind; numpy's arrays raise
            same_arguments = False
        return 2 * same_id + same_arguments


class _EventReader:
    """Reads the events of one run."""

    def __init__(self, events: Sequence[Event], *, error: BaseException | None = None, result: object = None) -> None:
        self.events = events
        self.error = error
        self.result = result
        self.builder = RunBuilder()
        self.agent_log = AgentLog(self.builder)
        self.stop = next((event for event in reversed(events) if isinstance(event, StopEvent)), None)
        self.failure = self._failure()
        if self.failure is None and self.result is None and self.stop is not None:
            self.result = _result_of_stop(self.stop)
        outputs = (index for index, event in enumerate(events) if isinstance(event, AgentOutput))
        self._last_output = max(outputs, default=None)
        self._streamed_calls: set[int | None] = set()
        self._keys = count()
        self._requested: list[_EventCall] = []
        self._running: list[_EventCall] = []
        self._results: list[ToolCallResult] = []
        results = filter(is_unknown_tool, (event for event in events if isinstance(event, ToolCallResult)))
        self._missing_tools = {(event.tool_id, event.tool_name) for event in results}

    def run(self, question: str | None = None) -> Run:
        """Return the run."""
        first = next((event for event in self.events if isinstance(event, AgentInput)), None)
        message = None if first is None else _messages.last_question(first.input)
        if question is None and message is not None:
            question = _messages.text_of(message)
        self.builder.started(question, parts=_messages.images_in(message))
        for index, event in enumerate(self.events):
            if isinstance(event, AgentInput):
                self.agent_log.step_began(event.current_agent_name, Branch(self._scope(warn=False), None))
            elif isinstance(event, AgentStream):
                self._streamed_calls.add(streamed_index(event.raw))
            elif isinstance(event, AgentOutput):
                self._answered(event, index)
            elif isinstance(event, ToolCallResult):
                self._returned(event)
            elif isinstance(event, ToolCall):
                self._started(event)
        self.agent_log.finish()
        self._end()
        return self.builder.build()

    # Events

    def _answered(self, output: AgentOutput, index: int) -> None:
        scope = self._scope()
        self.builder.model_used(_messages.model_of(output), _messages.usage_of(output))
        if len(self._streamed_calls - {None}) > len(_messages.written_calls(output.response)):
            self.builder.warn(UNREAD_STREAM)
        self._streamed_calls.clear()
        if index == self._last_output and self._is_summary(output, index):
            output = output.model_copy(update={"tool_calls": []})
        can_hand_over = not any(name == HANDOFF for _, name in self._missing_tools)
        self.agent_log.agent_answered(output, Branch(scope, None), can_hand_over=can_hand_over)
        self._requested += [
            _EventCall(call.tool_name, call.tool_kwargs, call.tool_id, scope)
            for call in _messages.selections_of(output)
        ]

    def _started(self, event: ToolCall) -> None:
        call = self._take(self._requested, event)
        if call is None:
            # A step that waits for a person is run again from its beginning.
            call = self._take(self._running, event)
            if call is not None and call.key is not None and call.started:
                self.builder.tool_failed(call.key, None, outcome=Outcome.SUSPENDED)
        self._begin(call or self._unrequested(event), event)

    def _returned(self, event: ToolCallResult) -> None:
        call = self._take(self._running, event, least=1)
        if call is None:
            call = self._take(self._requested, event) or self._unrequested(event)
            self._begin(call, event)
            self._running.remove(call)
        self._results.append(event)
        if not call.started or call.key is None:
            self.agent_log.missing_tool(event, Branch(call.scope, None))
        else:
            is_handoff = event.tool_name == HANDOFF
            self.agent_log.tool_returned(call.key, event, Branch(call.scope, None), is_handoff=is_handoff)

    def _begin(self, call: _EventCall, event: ToolCall | ToolCallResult) -> None:
        call.key = str(next(self._keys))
        call.started = (event.tool_id, event.tool_name) not in self._missing_tools
        self._running.append(call)
        if call.started:
            self.builder.tool_started(
                call.key, event.tool_name, call.arguments, call_id=event.tool_id or None, scope=call.scope
            )

    def _unrequested(self, event: ToolCall | ToolCallResult) -> _EventCall:
        """Return a call that no answer of a model requested: the beginning is missing, or code called the tool."""
        scope = self._scope()
        position = next(index for index, other in enumerate(self.events) if other is event)
        if scope is None and not any(isinstance(other, AgentOutput) for other in self.events[:position]):
            self.builder.warn(_NO_BEGINNING)
            self.builder.model_asked([Request(event.tool_name, event.tool_kwargs, event.tool_id or None)])
        return _EventCall(event.tool_name, event.tool_kwargs, event.tool_id, scope)

    @staticmethod
    def _take(calls: list[_EventCall], event: ToolCall | ToolCallResult, *, least: int = 2) -> _EventCall | None:
        """Remove and return the first of the calls that an event fits best."""
        best = max(calls, key=lambda call: call.fit(event), default=None)
        if best is None or best.fit(event) < least:
            return None
        calls.remove(best)
        return best

    def _scope(self, *, warn: bool = True) -> Key | None:
        """Return the key of the call inside which an agent runs: the run's own agent waits until all have ended."""
        running = [call for call in self._running if call.started]
        if len(running) > 1 and warn:
            self.builder.warn(_AMBIGUOUS_SCOPE)
        return running[-1].key if running else None

    def _is_summary(self, output: AgentOutput, index: int) -> bool:
        """Return whether the last answer only lists the calls of the run again, as it does when read from JSON."""
        if self.failure is not None or any(isinstance(e, (ToolCall, ToolCallResult)) for e in self.events[index + 1 :]):
            return False
        if self.result is not None:
            return True
        done = [(call.tool_id, call.tool_name, call.tool_kwargs) for call in self._results]
        listed = [(call.tool_id, call.tool_name, call.tool_kwargs) for call in output.tool_calls]
        return len(done) == len(listed) and all(done.count(call) == listed.count(call) for call in listed)

    # End

    def _end(self) -> None:
        if self.failure is not None:
            status, error = self.failure
            self.builder.ended(None, status=status, error=error)
            return
        if self.result is not None:
            structured = _messages.structured_of(self.result)
            if structured is not None:
                self.builder.labelled(metadata={"structured_response": structured})
            self.builder.ended(_messages.answer_of(self.result))
            return
        if self.stop is None and self._running and any(isinstance(e, InputRequiredEvent) for e in self.events):
            self.builder.ended(None, may_wait=True)
            return
        answer = self._answer()
        if answer is not None or (self.stop is not None and _HAS_FAILURE_EVENTS):
            self.builder.ended(answer)
            return
        self.builder.warn(_NO_END)
        self.builder.ended(None, status=RunStatus.STOPPED, error="the end of the run was not observed")

    def _failure(self) -> tuple[RunStatus, str] | None:
        """Return the status and error of a run that failed, by its exception, else by its last event."""
        error = self.error
        if error is not None:
            # `asyncio.wait_for`, a time limit of the caller, raises an error without a text.
            is_timeout = isinstance(error, (TimeoutError, asyncio.TimeoutError)) and not str(error)
            return RunStatus.STOPPED if is_timeout else status_of(error), error_text(error)
        if self.stop is None:
            return None
        for kind in type(self.stop).__mro__:
            if kind.__name__ in _STOPPED:
                return RunStatus.STOPPED, _STOPPED[kind.__name__]
        raised = getattr(self.stop, "exception", None)
        if isinstance(raised, BaseException):
            return status_of(raised), error_text(raised)
        name, text = getattr(self.stop, "exception_type", None), getattr(self.stop, "exception_message", None)
        return (RunStatus.ERROR, f"{name.rpartition('.')[2]}: {text}") if isinstance(name, str) else None

    def _answer(self) -> str | None:
        """Return the answer of a run without a result: a tool's that returns directly, or the last one of a model."""
        if self._last_output is None or self._running:
            return None
        output, after = self.events[self._last_output], self.events[self._last_output + 1 :]
        results = (event for event in after if isinstance(event, ToolCallResult))
        direct = next(filter(_returns_direct, results), None)
        if direct is not None:
            return direct.tool_output.content
        if not isinstance(output, AgentOutput) or any(
            isinstance(event, (ToolCallResult, AgentInput)) for event in after
        ):
            return None
        is_request = _messages.selections_of(output) and not self._is_summary(output, self._last_output)
        return None if is_request or getattr(output, "retry_messages", None) else _messages.text_of(output)


def _returns_direct(event: ToolCallResult) -> bool:
    """Return whether the run ends with the result of a tool."""
    return bool(event.return_direct) and not event.tool_output.is_error and event.tool_name != HANDOFF
