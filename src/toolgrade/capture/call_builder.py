"""Construction of a `ToolCall` from the record of a call (its status, output, error and times), and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final

from toolgrade._internal.json import JsonObject
from toolgrade._internal.model import drop_none
from toolgrade.calls import CallOrigin, CallStatus, Execution, ToolCall, ToolCallType
from toolgrade.capture.doubles import Answer
from toolgrade.capture.records import Attempt, CallRecord, ModelResult, Outcome, Request
from toolgrade.matching.json_compare import ABSENT, json_equal

# Python 3.11 takes five times as long to look up a member of an enumeration as a name of the module.
_OK: Final = CallStatus.OK
_RETURNED: Final = Outcome.OK
_MODEL: Final = CallOrigin.MODEL


@dataclass(frozen=True, slots=True)
class RunState:
    """State of the run that decides how an unanswered call is read."""

    ended: bool
    waiting: bool
    """It ended by waiting for a person."""
    succeeded: bool
    """It ended well, so nothing waits any more."""


def in_order(calls: Iterable[CallRecord]) -> list[CallRecord]:
    """Return the calls of one scope in the model's order, without structured answers."""
    own = [call for call in calls if call.executions or not call.is_structured_answer]
    return sorted(own, key=attrgetter("order"))


def build_calls(calls: list[CallRecord], state: RunState) -> list[ToolCall]:
    """Return the calls of one scope, which are in the model's order, with their children."""
    steps: dict[int, int] = {}
    built: list[ToolCall] = []
    for call in calls:
        step = steps.setdefault(call.order[0], len(steps)) if call.origin is _MODEL else None
        built.append(_build_call(call, state, step))
    return built


def seconds_between(started: datetime | None, ended: datetime | None) -> float | None:
    """Return the seconds between two times, `None` without one, with one time zone, or if the clock went back."""
    if started is None or ended is None or (started.tzinfo is None) != (ended.tzinfo is None):
        return None
    seconds = (ended - started).total_seconds()
    return seconds if seconds >= 0 else None


def is_waiting(call: CallRecord) -> bool:
    """Return whether a call is suspended, and neither the model nor the enclosing call continued without it."""
    if call.last_outcome is not Outcome.SUSPENDED or call.result is not None:
        return False
    outer = None if call.scope is None else call.scope.last
    if outer is not None and outer.outcome not in (None, Outcome.SUSPENDED):
        return False
    return call.origin is CallOrigin.CODE or call.is_of_last_message


def _with_successful_attempt_last(call: CallRecord, state: RunState) -> CallRecord:
    """Return a call whose last attempt was left without an end as ended by an earlier attempt that succeeded.

    This holds only in a run that succeeded, in which nothing waits. A workflow may begin a step twice at the same time:
    one pass then succeeds, and the other one is left waiting.
    """
    if len(call.executions) < 2 or not state.succeeded or call.last_outcome in (Outcome.OK, Outcome.ERROR):  # noqa: PLR2004 - nothing to choose
        return call
    successful = [execution for execution in call.executions if execution.outcome is Outcome.OK]
    if not successful:
        return call
    others = [execution for execution in call.executions if execution is not successful[-1]]
    return replace(call, executions=(*others, successful[-1]))


def _build_call(call: CallRecord, state: RunState, step: int | None) -> ToolCall:
    call = _with_successful_attempt_last(call, state)
    last = call.executions[-1] if call.executions else _NO_EXECUTION
    status = _status(call, state)
    output = _output(last, call.result or _NO_RESULT) if status is _OK else ABSENT
    # What the tool received comes before what the model requested: a person may have edited the arguments.
    arguments = call.requested_object if last.arguments is None else last.arguments
    missing = _not_captured(call, output)
    execution = _execution_fields(call, last, status, output, arguments)
    if step is not None:
        execution["step"] = step
    execution.update(_optional_fields(call, state, missing))
    fields = _identity(call)
    if "input_parameters" not in missing:
        fields["input_parameters"] = arguments
    if output is not ABSENT:
        fields["output"] = output
    # A live run may be built again, so that each run gets its own copies of arguments and outputs.
    return ToolCall(execution=Execution(**execution), **fields)


def _execution_fields(
    call: CallRecord, last: Attempt, status: CallStatus, output: object, arguments: JsonObject
) -> JsonObject:
    """Return the fields of an execution that were observed.

    Metrics tell a field that is not set from one that is `None`.
    """
    result = call.result or _NO_RESULT
    content = last.model_output if call.result is None else result.content
    optional = {
        "error": None if status is _OK else _error(call, status),
        "requested_parameters": _requested(call, arguments),
        "model_output": None if content is ABSENT or content is output else _model_output(content, output),
        "artifact": result.artifact if last.artifact is None else last.artifact,
        "agent": call.agent,
        "server": call.server,
        "source": call.source,
    }
    has_run = any(one.ran and (one.replayed is None or one.replayed.left is None) for one in call.executions)
    fields: JsonObject = {"status": status, "executed": has_run}
    for name, value in optional.items():
        if value is not None:
            fields[name] = value
    return fields


def _identity(call: CallRecord) -> JsonObject:
    """Return the fields that say which call it is; those that are not known are left out."""
    fields: JsonObject = {"name": call.name}
    if call.id:
        fields["id"] = call.id
    if call.type is not None:
        fields["type"] = call.type
    if call.reasoning:
        fields["reasoning"] = call.reasoning
    return fields


def _output(last: Attempt, result: ModelResult) -> Any:  # noqa: ANN401 - a JSON value
    """Return the value that the tool returned, else the text that the model received; `ABSENT` without either."""
    return last.output if last.outcome is _RETURNED and last.output is not ABSENT else result.content


def _requested(call: CallRecord, arguments: JsonObject) -> Any:  # noqa: ANN401 - a JSON value
    """Return what the model requested, `None` if it is equal to the arguments or if no model requested the call."""
    if call.origin is not _MODEL:
        return None
    return None if call.requested is arguments or call.requested == arguments else call.requested


def _model_output(content: Any, output: object) -> Any:  # noqa: ANN401 - JSON values
    """Return what the model received, `None` if it is equal to the output."""
    # A value and its JSON text are equal, but the model received only one of them, so both are stored.
    return None if json_equal(output, content) else content


def _optional_fields(call: CallRecord, state: RunState, missing: list[str]) -> JsonObject:
    """Return the fields that are left out, where they have their default, of a call that was read from a file.

    A file cannot confirm a default.
    """
    answer = (call.last or _NO_EXECUTION).replayed
    fields: JsonObject = {
        "attempts": max(len(call.executions), 1),
        "origin": call.origin,
        "children": build_calls(in_order(call.children), state) if call.children else [],
        "not_captured": missing,
    }
    if answer is not None and answer.left is None:
        fields |= {"replayed": True, "children": fields["children"] or list(answer.children)}
    elif answer is not None:
        fields["left_recording"] = answer.left
    if call.source is not None:
        fields = {name: value for name, value in fields.items() if value != _DEFAULTS[name]}
    return fields | _times(call.executions)


def _times(executions: Iterable[Attempt]) -> JsonObject:
    """Return the start of the first attempt, and the duration to the end of the last."""
    timed = [execution for execution in executions if execution.started_at is not None]
    if not timed:
        return {}
    start = timed[0].started_at
    return drop_none({"started_at": start, "duration": seconds_between(start, timed[-1].ended_at)})


_DEFAULTS: Final[JsonObject] = {
    "attempts": 1,
    "origin": CallOrigin.MODEL,
    "replayed": False,
    "left_recording": None,
    "children": [],
    "not_captured": [],
}


_NO_EXECUTION: Final = Attempt("", None, None)
"""Takes the place of a missing execution, so that its fields need no check."""
_NO_RESULT: Final = ModelResult(ABSENT, failed=False)


def _not_captured(call: CallRecord, output: object) -> list[str]:
    """Return the fields that no observation of the call contained."""
    if output is not ABSENT and not call.not_captured:
        return []
    missing = list(call.not_captured)
    if "input_parameters" in missing and (call.last or _NO_EXECUTION).arguments is not None:
        missing.remove("input_parameters")
    if output is ABSENT and "output" not in missing and _has_returned(call):
        missing.append("output")
    return missing


def _has_returned(call: CallRecord) -> bool:
    """Return whether the tool ran without an error, or the model received a result that is not a failure."""
    if call.last is not None:
        return call.last.outcome is _RETURNED
    return call.result is not None and call.result.content is ABSENT and not call.result.failed


def _status(call: CallRecord, state: RunState) -> CallStatus:
    if call.invalid:
        return CallStatus.INVALID_ARGUMENTS
    return _status_of_execution(call, state) if call.executions else _status_of_request(call, state)


def _status_of_execution(call: CallRecord, state: RunState) -> CallStatus:
    """Return the status of a call by its last execution."""
    outcome = call.last_outcome
    if call.executions[-1].replayed is not None and call.executions[-1].replayed.failure is not None:
        return CallStatus.ERROR
    if outcome is Outcome.SUSPENDED and call.result is not None:  # somebody answered in its place
        return _status_of_result(call, call.result)
    if outcome is Outcome.SUSPENDED:
        return CallStatus.PENDING if is_waiting(call) else CallStatus.CANCELLED
    if outcome is not None:
        return CallStatus(outcome.value)
    # The end of the execution was not observed.
    if call.is_handoff:
        return _OK
    if call.result is not None:
        return CallStatus.ERROR if call.result.failed else _OK
    return CallStatus.CANCELLED if state.ended else CallStatus.PENDING


def _status_of_request(call: CallRecord, state: RunState) -> CallStatus:
    """Return the status of a request of which no execution was observed."""
    if call.result is not None:
        return _status_of_result(call, call.result)
    if call.is_handoff and not call.handoff_failed:
        return _OK
    if _is_unknown(call):
        return CallStatus.UNKNOWN_TOOL
    if call.is_of_last_message and (state.waiting or not state.ended):
        return CallStatus.PENDING
    return CallStatus.NOT_EXECUTED


def _status_of_result(call: CallRecord, result: ModelResult) -> CallStatus:
    """Return the status of a request of which only the result was observed."""
    if not result.failed and not result.unknown_tool:
        return _OK
    if result.unknown_tool or _is_unknown(call):
        return CallStatus.UNKNOWN_TOOL
    # In a live recording a failure without an execution means that something refused to run the tool.
    may_have_run = result.read or call.type is ToolCallType.HOSTED
    return CallStatus.ERROR if may_have_run and not result.rejected else CallStatus.REJECTED


def _is_unknown(call: CallRecord) -> bool:
    """Return whether all offered tools are known, and the called one is not among them."""
    if call.scope is None or not call.scope.offered or call.is_handoff:
        return False
    # Tools of the provider and of its servers are offered under other names, or under none.
    return call.name not in call.scope.offered and call.type not in (ToolCallType.HOSTED, ToolCallType.MCP)


def _error(call: CallRecord, status: CallStatus) -> str | None:
    """Return the error of a call that is not `ok`."""
    if status is CallStatus.PENDING:
        return None
    if status is CallStatus.INVALID_ARGUMENTS and call.request_error is not None:
        return call.request_error
    last = call.last or _NO_EXECUTION
    if last.replayed is not None and last.replayed.failure is not None:  # some frameworks only show a text of it
        return last.replayed.failure
    return _error_of_result(call, call.result or _NO_RESULT) if last.error is None else last.error


def _error_of_result(call: CallRecord, result: ModelResult) -> str | None:
    """Return the error of a call of which no execution failed."""
    if not (result.failed or result.unknown_tool):
        return call.request_error
    if result.content is not ABSENT or result.error is not None:
        return result.error_text()
    return call.request_error or ("failed" if result.read else None)


# Back from a call to its record


def record_of(call: ToolCall, order: tuple[int, int], scope: CallRecord) -> CallRecord:
    """Return the record of a call of an earlier run, without its children; it gives the same call again."""
    how = call.execution or Execution()
    arguments = call.input_parameters if call.captured("input_parameters") else None
    requested = arguments if how.requested_parameters is None else how.requested_parameters
    record = CallRecord(call.name, order, scope, how.origin, requested if how.origin is _MODEL else None)
    record.id, record.type, record.reasoning = call.id, call.type, call.reasoning
    record.server, record.agent, record.source = how.server, how.agent, how.source
    record.not_captured = tuple(how.not_captured)
    record.handle = Request(call.name, requested, call.id, call.type, how.server, source=how.source)
    if how.status in (CallStatus.INVALID_ARGUMENTS, CallStatus.NOT_EXECUTED):
        record.invalid, record.request_error = how.status is CallStatus.INVALID_ARGUMENTS, how.error
    if how.executed or how.left_recording is not None:
        record.executions = _past_executions(call, how, arguments)
    record.result = _past_result(call, how)
    # A hand-off needs no result.
    record.is_handoff = how.status is _OK and not how.executed and record.result is None
    return record


def _past_executions(call: ToolCall, how: Execution, arguments: JsonObject | None) -> tuple[Attempt, ...]:
    """Return the executions of a call: all but the last one are only known by their number."""
    outcome = Outcome.SUSPENDED if how.status is CallStatus.PENDING else _OUTCOMES.get(how.status, Outcome.ERROR)
    attempts = [Attempt(f"earlier {n}", arguments, how.started_at, Outcome.ERROR) for n in range(how.attempts)]
    last = attempts[-1]
    last.outcome, last.error, last.artifact = outcome, how.error, how.artifact
    if how.replayed or how.left_recording is not None:
        last.replayed = Answer(error=how.error, left=how.left_recording)
    last.output = call.output if "output" in call.model_fields_set else ABSENT
    if how.started_at is not None and how.duration is not None:
        last.ended_at = how.started_at + timedelta(seconds=how.duration)
    return tuple(attempts)


def _past_result(call: ToolCall, how: Execution) -> ModelResult | None:
    """Return what the model received, `None` if that is not known, or is what the tool returned."""
    content = how.model_output if "model_output" in how.model_fields_set else ABSENT
    if how.executed or how.status in _WITHOUT_RESULT:
        return None if content is ABSENT else ModelResult(content, failed=how.error is not None, error=how.error)
    if how.status is _OK:
        if content is ABSENT and "output" not in {*call.model_fields_set, *how.not_captured}:
            return None
        output = call.output if "output" in call.model_fields_set else ABSENT
        return ModelResult(output if content is ABSENT else content, failed=False, artifact=how.artifact)
    return ModelResult(
        content,
        failed=True,
        unknown_tool=how.status is CallStatus.UNKNOWN_TOOL,
        artifact=how.artifact,
        error=how.error,
        rejected=how.status is CallStatus.REJECTED,
        read=how.status is CallStatus.ERROR,
    )


_WITHOUT_RESULT: Final = (CallStatus.PENDING, CallStatus.NOT_EXECUTED, CallStatus.INVALID_ARGUMENTS)
_OUTCOMES: Final = {CallStatus.OK: Outcome.OK, CallStatus.CANCELLED: Outcome.CANCELLED}
