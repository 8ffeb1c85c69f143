"""What happened in one run, told by its events? They name no agent at a call, and repeat what was said before."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from llama_index.core.agent.workflow.workflow_events import AgentInput, AgentOutput, ToolCall, ToolCallResult
from llama_index.core.workflow import Event, InputRequiredEvent, StopEvent

from toolmark.capture import Outcome, Request, Run, RunBuilder, RunStatus
from toolmark_llama_index import _requests
from toolmark_llama_index._assembler import HANDOFF, Assembler, Key, is_stopped, is_unknown
from toolmark_llama_index._results import error_text

_STOPPED: Final = {
    "WorkflowTimedOutEvent": "the run reached its time limit",
    "WorkflowCancelledEvent": "cancelled",
    "IdleReleasedEvent": "released while it waited",
}
_TELLS_FAILURES: Final = hasattr(sys.modules[StopEvent.__module__], "WorkflowFailedEvent")
"""Whether the installed version has events of its own for failures; in others a run may fail and end with nothing."""

_BLIND: Final = "the events begin in the middle of a run; the calls that it goes on with are taken for the model's"
_SEVERAL: Final = "an agent ran inside a tool while several tools ran; which one does not show, the newest was taken"
_OPEN_END: Final = "the events do not say how the run ended; pass `result=` or `error=`, or all events"


@dataclass(eq=False)
class _Slot:
    """A call: asked for, or running once it has a key."""

    name: str
    arguments: Any
    id: str
    scope: Key | None
    key: Key | None = None
    started: bool = False

    def fit(self, call: ToolCall | ToolCallResult) -> int:
        """Return how well an event fits: 3 in all, 2 but for the arguments, 1 but for the id; 0 not at all."""
        if self.name != call.tool_name:
            return 0
        same = _equal(self.arguments, call.tool_kwargs)
        if self.id == call.tool_id:
            return 3 if same else 2
        return 1 if same else 0


class EventRun:
    """Reads the events of one run."""

    def __init__(self, events: Sequence[Event], *, error: BaseException | None, result: object) -> None:
        """Look at the events as a whole.

        Args:
            events: Those of the run, in their order.
            error: What the caller of the agent had to catch.
            result: What it got.
        """
        self.events = events
        self.error = error
        self.result = result
        self.builder = RunBuilder()
        self.assembler = Assembler(self.builder)
        self.stop = next((event for event in reversed(events) if isinstance(event, StopEvent)), None)
        self.failure = self._failure()
        if self.failure is None and self.result is None and self.stop is not None:
            own = type(self.stop) is not StopEvent and self.stop.result is None
            self.result = self.stop if own else agent_output(self.stop.result)
        self._keys = count()
        self._asked: list[_Slot] = []
        self._running: list[_Slot] = []
        self._done: list[ToolCallResult] = []
        self._unknown = {
            (event.tool_id, event.tool_name)
            for event in events
            if isinstance(event, ToolCallResult) and is_unknown(event)
        }

    def read(self, question: str | None) -> Run:
        """Return the run, given the text of the user if that is known."""
        self.builder.started(question if question is not None else self._question())
        last = self._last_output()
        for index, event in enumerate(self.events):
            if isinstance(event, AgentInput):
                self.assembler.in_control(event.current_agent_name, (self._scope(warn=False), None))
            elif isinstance(event, AgentOutput):
                self._answered(event, recap=index == last and self._is_recap(event, index))
            elif isinstance(event, ToolCallResult):
                self._returned(event)
            elif isinstance(event, ToolCall):
                self._started(event)
        self.assembler.finish()
        self._end(last)
        return self.builder.build()

    # Events

    def _answered(self, output: AgentOutput, *, recap: bool) -> None:
        scope = self._scope()
        self.builder.model_used(_requests.model_of(output), _requests.usage_of(output))
        if recap:
            output = output.model_copy(update={"tool_calls": []})
        self.assembler.answered(output, (scope, None))
        self._asked += [
            _Slot(call.tool_name, call.tool_kwargs, call.tool_id, scope) for call in _requests.selections_of(output)
        ]

    def _started(self, call: ToolCall) -> None:
        slot = self._take(self._asked, call)
        if slot is None:
            again = self._take(self._running, call)  # a step that waits for a person is run again from its beginning
            if again is not None and again.key is not None and again.started:
                self.builder.tool_failed(again.key, None, outcome=Outcome.SUSPENDED)
            slot = again or self._unasked(call)
        self._begin(slot, call)

    def _returned(self, event: ToolCallResult) -> None:
        slot = self._take(self._running, event, least=1)
        if slot is None:
            slot = self._take(self._asked, event) or self._unasked(event)
            self._begin(slot, event)
            self._running.remove(slot)
        self._done.append(event)
        if not slot.started or slot.key is None:
            self.assembler.refused(event, (slot.scope, None))
        else:
            self.assembler.returned(slot.key, event, (slot.scope, None))

    def _begin(self, slot: _Slot, call: ToolCall | ToolCallResult) -> None:
        slot.key = str(next(self._keys))
        slot.started = (call.tool_id, call.tool_name) not in self._unknown
        self._running.append(slot)
        if slot.started:
            self.builder.tool_started(
                slot.key, call.tool_name, slot.arguments, call_id=call.tool_id or None, scope=slot.scope
            )

    def _unasked(self, call: ToolCall | ToolCallResult) -> _Slot:
        """Return a call that no answer of a model asked for: the beginning is missing, or a program made it."""
        scope = self._scope()
        if scope is None and not any(isinstance(event, AgentOutput) for event in self._before(call)):
            self.builder.warn(_BLIND)
            self.builder.model_asked([Request(call.tool_name, call.tool_kwargs, call.tool_id or None)])
        return _Slot(call.tool_name, call.tool_kwargs, call.tool_id, scope)

    def _before(self, call: Event) -> Iterable[Event]:
        for event in self.events:
            if event is call:
                return
            yield event

    def _take(self, slots: list[_Slot], call: ToolCall | ToolCallResult, *, least: int = 2) -> _Slot | None:
        """Take out the first call that an event fits best."""
        fits = [(slot.fit(call), slot) for slot in slots]
        best = max((fit for fit, _ in fits), default=0)
        if best < least:
            return None
        chosen = next(slot for fit, slot in fits if fit == best)
        slots.remove(chosen)
        return chosen

    def _scope(self, *, warn: bool = True) -> Key | None:
        """Return the call inside which an agent speaks: a run's own agent waits until all of its calls have ended."""
        running = [slot for slot in self._running if slot.started]
        if len(running) > 1 and warn:
            self.builder.warn(_SEVERAL)
        return running[-1].key if running else None

    # Beginning and end

    def _question(self) -> str | None:
        first = next((event for event in self.events if isinstance(event, AgentInput)), None)
        return None if first is None else _requests.last_question(first.input)

    def _last_output(self) -> int | None:
        return next((i for i in range(len(self.events) - 1, -1, -1) if isinstance(self.events[i], AgentOutput)), None)

    def _is_recap(self, output: AgentOutput, index: int) -> bool:
        """Return whether the last answer only repeats the calls of the run, as it does once it was read from JSON."""
        if any(isinstance(event, (ToolCall, ToolCallResult)) for event in self.events[index + 1 :]):
            return False
        if self.failure is not None:
            return False
        if self.result is not None:
            return True
        left = [(call.tool_id, call.tool_name, call.tool_kwargs) for call in self._done]
        asked = [(call.tool_id, call.tool_name, call.tool_kwargs) for call in output.tool_calls]
        return len(left) == len(asked) and all(left.count(one) == asked.count(one) for one in asked)

    def _end(self, last: int | None) -> None:
        if self.failure is not None:
            status, error = self.failure
            self.builder.ended(None, status=status, error=error)
            return
        if self.result is not None:
            structured = _requests.structured_of(self.result)
            if structured is not None:
                self.builder.labelled(metadata={"structured_response": structured})
            self.builder.ended(_requests.answer_of(self.result))
            return
        if self._waits():
            self.builder.ended(None, may_wait=True)
            return
        answer = self._answer(last)
        if answer is not None or (self.stop is not None and _TELLS_FAILURES):
            self.builder.ended(answer)
            return
        self.builder.warn(_OPEN_END)
        self.builder.ended(None, status=RunStatus.STOPPED, error="the end of the run was not seen")

    def _failure(self) -> tuple[RunStatus, str] | None:
        """Return how the run failed, if it did: by what was caught, else by its last event."""
        if self.error is not None:
            # `asyncio.wait_for`, the caller's own time limit, says nothing but its name.
            time_up = isinstance(self.error, (TimeoutError, asyncio.TimeoutError)) and not str(self.error)
            status = RunStatus.STOPPED if time_up or is_stopped(self.error) else RunStatus.ERROR
            return status, error_text(self.error)
        if self.stop is None:
            return None
        for kind in type(self.stop).__mro__:
            if kind.__name__ in _STOPPED:
                return RunStatus.STOPPED, _STOPPED[kind.__name__]
        raised = getattr(self.stop, "exception", None)
        if isinstance(raised, BaseException):
            return RunStatus.STOPPED if is_stopped(raised) else RunStatus.ERROR, error_text(raised)
        kind_name, text = getattr(self.stop, "exception_type", None), getattr(self.stop, "exception_message", None)
        if isinstance(kind_name, str):
            return RunStatus.ERROR, f"{kind_name.rpartition('.')[2]}: {text}"
        return None

    def _waits(self) -> bool:
        """Return whether the events end while the run waits for a person."""
        return self.stop is None and bool(self._running) and any(isinstance(e, InputRequiredEvent) for e in self.events)

    def _answer(self, last: int | None) -> str | None:
        """Return the answer where no result was given: a tool's that answers, or the last that asks for nothing."""
        if last is None:
            return None
        output = self.events[last]
        after = [event for event in self.events[last + 1 :] if isinstance(event, ToolCallResult)]
        direct = [event for event in after if event.return_direct and not event.tool_output.is_error]
        direct = [event for event in direct if event.tool_name != HANDOFF]
        if direct and not self._running:
            return direct[0].tool_output.content
        if not isinstance(output, AgentOutput) or after or getattr(output, "retry_messages", None):
            return None
        asks = bool(_requests.selections_of(output))
        if self._running or (asks and not self._is_recap(output, last)):
            return None
        if any(isinstance(event, AgentInput) for event in self.events[last + 1 :]):
            return None
        return _requests.text_of(output)


def agent_output(result: object) -> object:
    """Return an agent's result as an `AgentOutput`, also where it was read from JSON."""
    if isinstance(result, dict) and {"response", "current_agent_name"} <= result.keys():
        try:
            return AgentOutput.model_validate(result)
        except ValueError:
            return result
    return result


def is_waiting_end(events: Sequence[Event]) -> bool:
    """Return whether events end with a cancellation while the run waited for a person: it may be resumed."""
    stop = events[-1] if events else None
    cancelled: Callable[[Event], bool] = lambda event: type(event).__name__ == "WorkflowCancelledEvent"  # noqa: E731
    return stop is not None and cancelled(stop) and any(isinstance(event, InputRequiredEvent) for event in events)


def _equal(first: object, second: object) -> bool:
    try:
        return bool(first == second)
    except Exception:  # noqa: BLE001 - values of any kind; numpy's arrays cannot be asked
        return False
