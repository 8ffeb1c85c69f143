"""Construction of a `ToolCall` from the record of a call: its status, output, error and times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from toolmark._internal.json import JsonObject
from toolmark._internal.model import drop_none
from toolmark.calls import CallOrigin, CallStatus, ToolCall, ToolCallType
from toolmark.calls import Execution as ExecutionRecord
from toolmark.capture.records import CallRecord, Outcome
from toolmark.matching.json_compare import ABSENT, outputs_equal


@dataclass(frozen=True, slots=True)
class RunState:
    """State of the run that decides how an unanswered call is read."""

    ended: bool
    waiting: bool
    """It ended by waiting for a person."""
    pseudo_tools: frozenset[str]
    """Names of calls that are not tool calls."""


def in_order(calls: Iterable[CallRecord], pseudo_tools: frozenset[str]) -> list[CallRecord]:
    """Return the calls of one scope in the model's order, without pseudo-tools."""
    return sorted((call for call in calls if call.name not in pseudo_tools), key=lambda call: call.order)


def build_calls(calls: Iterable[CallRecord], state: RunState) -> list[ToolCall]:
    """Return the calls of one scope with their children, in the model's order."""
    records = in_order(calls, state.pseudo_tools)
    messages = sorted({call.order[0] for call in records if call.origin is CallOrigin.MODEL})
    steps = {message: step for step, message in enumerate(messages)}
    return [
        _build_call(call, state, steps[call.order[0]] if call.origin is CallOrigin.MODEL else None) for call in records
    ]


def seconds_between(started: datetime | None, ended: datetime | None) -> float | None:
    """Return the seconds between two times, `None` if one is unknown or only one has a time zone."""
    if started is None or ended is None or (started.tzinfo is None) != (ended.tzinfo is None):
        return None
    return max((ended - started).total_seconds(), 0.0)


def is_waiting(call: CallRecord) -> bool:
    """Return whether a call is suspended, and neither the model nor the enclosing call continued without it."""
    if call.last_outcome is not Outcome.SUSPENDED:
        return False
    outer = None if call.scope is None else call.scope.last
    if outer is not None and outer.outcome not in (None, Outcome.SUSPENDED):
        return False
    return call.origin is CallOrigin.CODE or call.is_of_last_message


def _build_call(call: CallRecord, state: RunState, step: int | None) -> ToolCall:
    last, result = call.last, call.result
    status = _status(call, state)
    output = _output(call, status)
    arguments: JsonObject = {}
    # What the tool received comes before what the model requested: a person may have edited the arguments.
    if last is not None and last.arguments is not None:
        arguments = last.arguments
    elif isinstance(call.requested, dict):
        arguments = call.requested
    requested = None
    if call.origin is CallOrigin.MODEL:
        requested = call.requested if call.raw is None else call.raw
    artifact = None if last is None else last.artifact
    if artifact is None and result is not None:
        artifact = result.artifact
    not_captured = _not_captured(call, output)
    fields = {
        "error": _error(call, status),
        "requested_parameters": None if requested == arguments else requested,
        "model_output": _model_output(call, output),
        "artifact": artifact,
        "agent": call.agent,
        "server": call.server,
        "step": step,
        "source": call.source,
        **_times(call),
    }
    details: JsonObject = {
        "attempts": max(len(call.executions), 1),
        "origin": call.origin,
        "children": build_calls(call.children, state),
        "not_captured": not_captured,
    }
    if call.source is not None:
        # Of a call that was read from a file, defaults are left out: a file cannot confirm them.
        defaults: tuple[object, ...] = (1, CallOrigin.MODEL, [])
        details = {name: value for name, value in details.items() if value not in defaults}
    execution = ExecutionRecord(status=status, executed=bool(call.executions), **drop_none(fields), **details)
    parts: JsonObject = {"input_parameters": arguments, "output": output}
    if "input_parameters" in not_captured:
        del parts["input_parameters"]
    if output is ABSENT:
        del parts["output"]
    return ToolCall(
        name=call.name, execution=execution, **parts, **drop_none({"id": call.id or None, "type": call.type})
    )


def _not_captured(call: CallRecord, output: object) -> list[str]:
    """Return the fields that no observation of the call contained."""
    last, result = call.last, call.result
    missing = list(call.not_captured)
    if last is not None and last.arguments is not None and "input_parameters" in missing:
        missing.remove("input_parameters")
    if output is ABSENT and "output" not in missing:
        ran = last is not None and last.outcome is Outcome.OK
        answered = last is None and result is not None and result.content is ABSENT and not result.failed
        if ran or answered:
            missing.append("output")
    return missing


def _status(call: CallRecord, state: RunState) -> CallStatus:
    if call.invalid:
        return CallStatus.INVALID_ARGUMENTS
    if call.last is None:
        return _status_without_execution(call, state)
    outcome = call.last.outcome
    if outcome is Outcome.SUSPENDED:
        return CallStatus.PENDING if is_waiting(call) else CallStatus.CANCELLED
    if outcome is not None:
        return CallStatus(outcome.value)
    # The end of the execution was not observed.
    if call.is_handoff:
        return CallStatus.OK
    if call.result is not None:
        return CallStatus.ERROR if call.result.failed else CallStatus.OK
    return CallStatus.CANCELLED if state.ended else CallStatus.PENDING


def _status_without_execution(call: CallRecord, state: RunState) -> CallStatus:
    offered = call.scope.offered if call.scope is not None else ()
    # Tools of the provider and of its servers are offered under other names, or under none.
    provided = call.type in (ToolCallType.HOSTED, ToolCallType.MCP)
    unknown = bool(offered) and call.name not in offered and not call.is_handoff and not provided
    result = call.result
    if result is not None:
        if not result.failed and not result.unknown_tool:
            return CallStatus.OK
        if unknown or result.unknown_tool:
            return CallStatus.UNKNOWN_TOOL
        # In a live recording a failure without an execution means that something refused to run the tool.
        may_have_run = result.read or call.type is ToolCallType.HOSTED
        return CallStatus.ERROR if may_have_run and not result.rejected else CallStatus.REJECTED
    if call.is_handoff:
        return CallStatus.OK
    if unknown:
        return CallStatus.UNKNOWN_TOOL
    if call.is_of_last_message and (state.waiting or not state.ended):
        return CallStatus.PENDING
    return CallStatus.NOT_EXECUTED


def _output(call: CallRecord, status: CallStatus) -> Any:  # noqa: ANN401 - a JSON value
    """Return the value that the tool returned, else the text that the model received; `ABSENT` without either."""
    if status is not CallStatus.OK:
        return ABSENT
    last = call.last
    if last is not None and last.output is not ABSENT and last.outcome is Outcome.OK:
        return last.output
    return call.result.content if call.result is not None else ABSENT


def _model_output(call: CallRecord, output: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return what the model received, `None` if that is the output itself."""
    content: Any = ABSENT
    if call.result is not None:
        content = call.result.content
    elif call.last is not None:
        content = call.last.model_output
    if content is ABSENT:
        return None
    same = output is not ABSENT and outputs_equal(output, content) and type(output) is type(content)
    return None if same else content


def _error(call: CallRecord, status: CallStatus) -> str | None:
    if status is CallStatus.INVALID_ARGUMENTS and call.request_error is not None:
        return call.request_error
    if status in (CallStatus.OK, CallStatus.PENDING):
        return None
    if call.last is not None and call.last.error is not None:
        return call.last.error
    result = call.result
    if result is None or not (result.failed or result.unknown_tool):
        return call.request_error
    if result.content is not ABSENT or result.error is not None:
        return result.error_text()
    return call.request_error or ("failed" if result.read else None)


def _times(call: CallRecord) -> JsonObject:
    """Return the start of the first attempt, and the seconds to the end of the last."""
    timed = [execution for execution in call.executions if execution.started_at is not None]
    if not timed:
        return {}
    return {"started_at": timed[0].started_at, "duration": seconds_between(timed[0].started_at, timed[-1].ended_at)}
