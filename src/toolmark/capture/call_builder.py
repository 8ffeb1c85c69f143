"""What became of a call: from a request, its executions and what the model was shown, to a `ToolCall`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from toolmark.calls import CallOrigin, CallStatus, ToolCall, ToolCallType
from toolmark.calls import Execution as ExecutionRecord
from toolmark.capture.records import Observed, Outcome
from toolmark.matching.json_compare import ABSENT, outputs_equal


@dataclass(frozen=True, slots=True)
class State:
    """What of the run decides how an unanswered call is read.

    Attributes:
        ended: The run ended.
        waiting: It ended by waiting for a person.
        pseudo_tools: Names of calls that are no calls.
    """

    ended: bool
    waiting: bool
    pseudo_tools: frozenset[str]


def in_order(calls: Iterable[Observed], pseudo_tools: frozenset[str]) -> list[Observed]:
    """Return the calls of one scope in the model's order, without those that are no calls."""
    return sorted((call for call in calls if call.name not in pseudo_tools), key=lambda call: call.order)


def finished_calls(calls: Iterable[Observed], state: State) -> Iterator[ToolCall]:
    """Yield the calls of one scope as the record keeps them, in the model's order, with their children."""
    kept = in_order(calls, state.pseudo_tools)
    messages = sorted({call.order[0] for call in kept if call.origin is CallOrigin.MODEL})
    steps = {message: step for step, message in enumerate(messages)}
    for call in kept:
        yield _finished_call(call, state, steps[call.order[0]] if call.origin is CallOrigin.MODEL else None)


def seconds_between(started: datetime | None, ended: datetime | None) -> float | None:
    """Return the seconds between two times, if they are known and can be compared."""
    if started is None or ended is None or (started.tzinfo is None) != (ended.tzinfo is None):
        return None
    return max((ended - started).total_seconds(), 0.0)


def _finished_call(call: Observed, state: State, step: int | None) -> ToolCall:
    last = call.last
    status = _status(call, state)
    handed = last.arguments if last is not None and last.arguments is not None else None
    requested = call.requested
    arguments: dict[str, Any] = handed if handed is not None else requested if isinstance(requested, dict) else {}
    output = _output(call, status)
    missing = _not_captured(call, output, known=handed is not None)
    shown = _shown(call, output)
    asked = requested if call.raw is None else call.raw
    given: dict[str, Any] = {
        "error": _error(call, status),
        "requested_parameters": asked if call.origin is CallOrigin.MODEL and asked != arguments else None,
        "model_output": shown,
        "artifact": _artifact(call),
        "agent": call.agent,
        "server": call.server,
        "step": step,
        "source": call.source,
        **_times(call),
    }
    execution = ExecutionRecord(
        status=status,
        executed=bool(call.executions),
        **{name: value for name, value in given.items() if value is not None},
        **_watched(call, state, missing),
    )
    fields: dict[str, Any] = {"name": call.name, "execution": execution}
    if "input_parameters" not in missing:
        fields["input_parameters"] = arguments
    if output is not ABSENT:
        fields["output"] = output
    if call.id:
        fields["id"] = call.id
    if call.type is not None:
        fields["type"] = call.type
    return ToolCall(**fields)


def _not_captured(call: Observed, output: object, *, known: bool) -> list[str]:
    """Return the fields that nobody saw: what one observation leaves out, another may have had.

    Args:
        call: The call.
        output: Its output; `ABSENT` where there is none.
        known: The last execution shows what the tool was handed.
    """
    missing = [field for field in call.not_captured if not (field == "input_parameters" and known)]
    last, shown = call.last, call.shown
    ran = last is not None and last.outcome is Outcome.OK
    told = last is None and shown is not None and shown.content is ABSENT and not shown.failed
    if output is ABSENT and (ran or told) and "output" not in missing:
        missing.append("output")
    return missing


def _watched(call: Observed, state: State, missing: list[str]) -> dict[str, Any]:
    """Return what is known of every call that was watched; of one that was read, only what says something."""
    known: dict[str, Any] = {
        "attempts": max(len(call.executions), 1),
        "origin": call.origin,
        "children": list(finished_calls(call.children, state)),
        "not_captured": missing,
    }
    if call.source is None:
        return known
    return {name: value for name, value in known.items() if value and value not in (1, CallOrigin.MODEL)}


def is_waiting(call: Observed) -> bool:
    """Return whether a call was suspended, and neither the model nor the call it was made in went on without it."""
    if call.last is None or call.last.outcome is not Outcome.SUSPENDED:
        return False
    outer = None if call.scope is None else call.scope.last
    if outer is not None and outer.outcome not in (None, Outcome.SUSPENDED):
        return False
    return call.origin is CallOrigin.CODE or call.is_of_last_message


def _status(call: Observed, state: State) -> CallStatus:
    if call.invalid:
        return CallStatus.INVALID_ARGUMENTS
    last = call.last
    if last is None:
        return _status_without_execution(call, state)
    if call.is_handoff and last.outcome in (None, Outcome.OK):
        return CallStatus.OK
    if last.outcome is Outcome.OK:
        return CallStatus.OK
    if last.outcome is Outcome.ERROR:
        return CallStatus.ERROR
    if last.outcome is Outcome.SUSPENDED:
        return CallStatus.PENDING if is_waiting(call) else CallStatus.CANCELLED
    if last.outcome is Outcome.CANCELLED:
        return CallStatus.CANCELLED
    if call.shown is not None:
        return CallStatus.ERROR if call.shown.failed else CallStatus.OK
    return CallStatus.CANCELLED if state.ended else CallStatus.PENDING


def _status_without_execution(call: Observed, state: State) -> CallStatus:
    offered = call.scope.offered if call.scope is not None else ()
    # Tools of the provider and of its servers are offered under other names, or none.
    provided = call.type in (ToolCallType.HOSTED, ToolCallType.MCP)
    unknown = bool(offered) and call.name not in offered and not call.is_handoff and not provided
    if call.shown is not None:
        if not call.shown.failed and not call.shown.unknown_tool:
            return CallStatus.OK
        if unknown or call.shown.unknown_tool:
            return CallStatus.UNKNOWN_TOOL
        seen_by_nobody = call.shown.read or call.type is ToolCallType.HOSTED
        return CallStatus.ERROR if seen_by_nobody and not call.shown.rejected else CallStatus.REJECTED
    if call.is_handoff:
        return CallStatus.OK
    if unknown:
        return CallStatus.UNKNOWN_TOOL
    if call.is_of_last_message and (state.waiting or not state.ended):
        return CallStatus.PENDING
    return CallStatus.NOT_EXECUTED


def _output(call: Observed, status: CallStatus) -> Any:  # noqa: ANN401 - a JSON value
    """Return the value the tool returned, else the text the model was shown; `ABSENT` where there is neither."""
    if status is not CallStatus.OK:
        return ABSENT
    last = call.last
    if last is not None and last.output is not ABSENT and last.outcome is Outcome.OK:
        return last.output
    return call.shown.content if call.shown is not None else ABSENT


def _shown(call: Observed, output: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return what the model was shown, where that is not the output itself."""
    last = call.last
    if call.shown is not None:
        shown = call.shown.content
    elif last is not None and last.shown is not ABSENT:
        shown = last.shown
    else:
        return None
    if shown is ABSENT:
        return None
    return None if output is not ABSENT and outputs_equal(output, shown) and type(output) is type(shown) else shown


def _error(call: Observed, status: CallStatus) -> str | None:
    if status is CallStatus.INVALID_ARGUMENTS and call.request_error is not None:
        return call.request_error
    if status in (CallStatus.OK, CallStatus.PENDING):
        return None
    if call.last is not None and call.last.error is not None:
        return call.last.error
    shown = call.shown
    if shown is not None and (shown.failed or shown.unknown_tool):
        if shown.content is not ABSENT or shown.error is not None:
            return shown.text()
        return call.request_error or ("failed" if shown.read else None)
    return call.request_error


def _artifact(call: Observed) -> Any:  # noqa: ANN401 - a JSON value
    if call.last is not None and call.last.artifact is not None:
        return call.last.artifact
    return call.shown.artifact if call.shown is not None else None


def _times(call: Observed) -> dict[str, Any]:
    """Return the start of the first attempt, and the seconds to the end of the last."""
    runs = [execution for execution in call.executions if execution.started_at is not None]
    if not runs:
        return {}
    return {"started_at": runs[0].started_at, "duration": seconds_between(runs[0].started_at, runs[-1].ended_at)}
