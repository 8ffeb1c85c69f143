"""What the recording says about called tools, and findings and warnings about them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final

from toolgrade._internal.text import plural, printable, shorten
from toolgrade.calls import CallStatus, ToolCall
from toolgrade.matching.json_compare import frozen
from toolgrade.matching.redacted_values import has_mark
from toolgrade.result import Finding, FindingKind, redact_at_path

FAILED: Final = frozenset({CallStatus.ERROR, CallStatus.INVALID_ARGUMENTS, CallStatus.UNKNOWN_TOOL})
"""Statuses of failed calls. A call that was rejected or cancelled, is pending or never ran is not a failure."""

_MAX_ERROR_LENGTH = 120


def status_of(call: ToolCall) -> CallStatus | None:
    """Return the status of a call; `None` without an `execution`, as the status was not recorded."""
    return None if call.execution is None else call.execution.status


def has_failed(call: ToolCall) -> bool:
    """Return whether a call is recorded as failed."""
    return status_of(call) in FAILED


def has_succeeded(call: ToolCall) -> bool:
    """Return whether a call succeeded; a call without an `execution` counts as successful."""
    return status_of(call) in {None, CallStatus.OK}


def step_of(call: ToolCall) -> int | None:
    """Return the step in which the model asked for a call; `None` if it was not recorded."""
    return None if call.execution is None else call.execution.step


def in_same_step(call: ToolCall, other: ToolCall) -> bool:
    """Return whether the model asked for two calls at the same time, so that neither can react to the other."""
    return step_of(call) is not None and step_of(call) == step_of(other)


def identity_key(call: ToolCall) -> Hashable | None:
    """Return a key that identical calls share: name and arguments; `None` if not all arguments are known."""
    # Without valid, captured arguments, those that the model requested are compared.
    uses_requested = not call.captured("input_parameters") or status_of(call) is CallStatus.INVALID_ARGUMENTS
    arguments: Any = call.arguments
    if uses_requested:
        arguments = call.execution and call.execution.requested_parameters
        if arguments is None:
            return None
    return None if has_mark(arguments) else (call.name, uses_requested, frozen(arguments))


def call_text(call: ToolCall, index: int) -> str:
    """Return `called #3 'search'` for the call at position 2."""
    return f"called #{index + 1} {printable(call.name)!r}"


def call_finding(
    kind: FindingKind,
    title: str,
    call: ToolCall,
    index: int,
    detail: str = "",
    **values: Any,  # noqa: ANN401 - fields of a finding
) -> Finding:
    """Return a finding about one called tool, such as `Failed: called #3 'search', error: full`."""
    return Finding(kind, f"{title}: {call_text(call, index)}{detail}.", call.name, called=index, **values)


def error_text(call: ToolCall) -> str:
    """Return how a call failed, such as `error: TimeoutError: 30 s`, without secrets of a known form."""
    if call.execution is None:
        return ""
    message = str(redact_at_path(call.execution.error or "", None))
    detail = shorten(printable(message), _MAX_ERROR_LENGTH).rstrip(".")
    return f"{call.execution.status.value}: {detail}" if detail else call.execution.status.value


def omission_warnings(amount: int, reason: str, noun: str = "call") -> list[str]:
    """Return the warning that calls were left out of the score; empty if there are none."""
    return [f"{plural(amount, noun)} left out: {reason}"] if amount else []


def inferred_success_warnings(calls: Iterable[ToolCall]) -> list[str]:
    """Return the warning that calls count as successful only because their answers are not marked as errors."""
    amount = sum(_is_inferred_success(call) for call in calls)
    text = "recorded by the answer alone: a failure that only its text reports is not detected"
    return [f"{plural(amount, 'call')} {text}"] if amount else []


def _is_inferred_success(call: ToolCall) -> bool:
    execution = call.execution
    return execution is not None and execution.status is CallStatus.OK and not execution.executed
