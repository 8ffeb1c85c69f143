"""Readers of exceptions. Those of workflows are recognized by name, since they moved between packages."""

from __future__ import annotations

from toolgrade.capture import Outcome
from toolgrade.cases import RunStatus


def error_text(error: BaseException) -> str:
    """Return `"TypeName: text"`, or the name alone if the text is empty or cannot be read."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not break the recording
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def status_of(error: BaseException) -> RunStatus:
    """Return the status of a run that raised this exception."""
    names = _names(error)
    is_limit = "WorkflowRuntimeError" in names and "Max iterations of" in str(error)
    if is_limit or names & {"WorkflowTimeoutError", "WorkflowCancelledByUser", "CancelledError"}:
        return RunStatus.STOPPED
    return RunStatus.ERROR


def outcome_of(error: BaseException) -> Outcome:
    """Return the outcome of a tool that raised this exception."""
    names = _names(error)
    if "WaitingForEvent" in names:
        return Outcome.SUSPENDED
    return Outcome.CANCELLED if "CancelledError" in names else Outcome.ERROR
