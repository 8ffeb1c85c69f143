"""What did an agent do whose events somebody kept? `runs_from_events` reads them, also from JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from llama_index.core.agent.workflow.workflow_events import AgentInput, AgentOutput, ToolCall, ToolCallResult
from llama_index.core.workflow import Event, InputRequiredEvent, StopEvent
from pydantic import ValidationError

from toolmark.capture import Run
from toolmark.errors import InvalidDataError, Problem
from toolmark_llama_index._event_runs import EventRun, agent_output, is_waiting_end

_KNOWN: Final[dict[str, type[Event]]] = {
    "AgentInput": AgentInput,
    "AgentOutput": AgentOutput,
    "ToolCall": ToolCall,
    "ToolCallResult": ToolCallResult,
    "InputRequiredEvent": InputRequiredEvent,
}


def runs_from_events(
    events: Iterable[object],
    result: object = None,
    error: BaseException | None = None,
    input: str | None = None,
) -> list[Run]:
    """Return the runs that the events of `handler.stream_events()` show, in their order.

    A run ends with its `StopEvent`; several may follow each other, and one that waited for a person and was resumed in
    a second handler is one run. Events carry no times, do not name the agent of a call, and are changed by the
    framework, and by tools that change their arguments, after they were handed out; what holds of runs recorded with
    `record()` holds here as far as events tell it.

    Args:
        events: LlamaIndex's events, or what `JsonSerializer` made of them, as text or as the object in it. Events of
            other kinds are passed over.
        result: What `await handler` returned, for the last run.
        error: What it raised instead.
        input: The text of the user in the last run; by default the last words of the user in what its model was first
            shown, to which LlamaIndex adds an agent's state.

    Raises:
        InvalidDataError: Something in the list is no event; `problems` names every place.
    """
    groups = _groups(_read(events))
    if not groups and (result is not None or error is not None):
        groups = [[]]
    runs: list[Run] = []
    for index, group in enumerate(groups):
        is_last = index == len(groups) - 1
        reader = EventRun(group, error=error if is_last else None, result=agent_output(result) if is_last else None)
        runs.append(reader.read(input if is_last else None))
    return runs


def _groups(events: Iterable[Event]) -> list[list[Event]]:
    """Return the events of each run; one that waited, was cancelled and goes on stays one."""
    groups: list[list[Event]] = []
    ended = True
    for event in events:
        if ended:
            if groups and is_waiting_end(groups[-1]) and isinstance(event, ToolCall):
                groups[-1].pop()
            else:
                groups.append([])
        groups[-1].append(event)
        ended = isinstance(event, StopEvent)
    return groups


def _read(events: Iterable[object]) -> list[Event]:
    read: list[Event] = []
    problems: list[Problem] = []
    for index, item in enumerate(events):
        try:
            event = _event_of(item)
        except (ValueError, TypeError, KeyError) as error:
            problems.append(Problem(f"$.events[{index}]", f"no event of LlamaIndex that can be read: {_short(error)}"))
            continue
        if event is not None:
            read.append(event)
    if problems:
        raise InvalidDataError("; ".join(map(str, problems)), problems)
    return read


def _event_of(item: object) -> Event | None:
    """Return an event; `None` for one of a kind that tells nothing here."""
    if isinstance(item, Event):
        return item
    data: Any = json.loads(item) if isinstance(item, str) else item
    if not isinstance(data, dict) or not isinstance(data.get("value"), dict):
        raise TypeError(f"expected an event, or what JsonSerializer made of one, got {type(item).__name__}")
    name = str(data["qualified_name"]).rpartition(".")[2]
    if name in _KNOWN:
        return _KNOWN[name].model_validate(data["value"]) if name != "InputRequiredEvent" else InputRequiredEvent()
    if name == "StopEvent" or name.endswith("StopEvent"):
        return StopEvent(result=data["value"].get("result"))
    if name.startswith("Workflow") and name.endswith("Event"):
        return _ended(name, data["value"])
    return None


def _ended(name: str, value: dict[str, Any]) -> Event | None:
    """Return an event that says how a run failed, which not every version of the framework has."""
    raised = value.get("exception") or value
    fields = {key: raised[key] for key in ("exception_type", "exception_message") if key in raised}
    if name not in ("WorkflowFailedEvent", "WorkflowTimedOutEvent", "WorkflowCancelledEvent"):
        return None
    kind = type(name, (StopEvent,), {"__module__": __name__})
    event: Event = kind(**fields)
    return event


def _short(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:3])
    return f"{error}"
