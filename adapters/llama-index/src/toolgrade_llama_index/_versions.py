"""Differences between versions of LlamaIndex in how a run starts, is resumed, and ends."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from llama_index.core.agent.workflow.workflow_events import ToolCall
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.workflow import Context, StartEvent


def start_of(bound: inspect.BoundArguments) -> object:
    """Return the start event of a run, or the keyword arguments that old versions build it from."""
    start = next((value for value in bound.arguments.values() if isinstance(value, StartEvent)), None)
    return bound.arguments.get("kwargs") if start is None else start


def is_resumption(bound: inspect.BoundArguments) -> bool:
    """Return whether a run continues the saved state of an earlier one, which it does without a start event."""
    if "init_state" in bound.arguments:
        return start_of(bound) is None
    # In old versions, the span of a run has the arguments of `Workflow.run`, with a context.
    contexts = [value for value in bound.arguments.values() if isinstance(value, Context)]
    return any(context.is_running for context in contexts)


def calls_of_state(bound: inspect.BoundArguments) -> list[ToolCall]:
    """Return the calls that a saved state will run; empty if it shows none, as in old versions."""
    steps = getattr(bound.arguments.get("init_state"), "workers", None)
    calls: list[ToolCall] = []
    for step in steps.values() if isinstance(steps, Mapping) else ():
        for name in ("queue", "in_progress", "collected_waiters"):
            # A step whose waiter has its event is in the queue, or waits for a further event.
            items = [item for item in getattr(step, name, ()) if getattr(item, "resolved_event", None) is None]
            events = [getattr(item, "event", None) for item in items]
            calls += [event for event in events if isinstance(event, ToolCall)]
    return calls


def is_successful_end(error: BaseException) -> bool:
    """Return whether an exception only ends a run that succeeded, as in old versions."""
    return type(error).__name__ == "WorkflowDone"


def is_cancellation(event: BaseEvent) -> bool:
    """Return whether an event says that its span was cancelled; in old versions, no event says so."""
    return type(event).__name__ == "SpanCancelledEvent"
