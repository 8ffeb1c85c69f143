"""Readers of failures: exceptions, errors of spans, and the texts that the SDK puts in place of a tool's result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from agents.exceptions import AgentsException, MaxTurnsExceeded, OutputGuardrailTripwireTriggered

from toolgrade.cases import RunStatus

COMPLETE: Final = (MaxTurnsExceeded, OutputGuardrailTripwireTriggered)
"""Exceptions whose `run_data` holds everything that happened; that of others lacks the turn that failed."""

# By name, since older releases lack some of them.
_STOPPING: Final = frozenset(
    {
        "MaxTurnsExceeded",
        "ModelTimeoutError",
        "InputGuardrailTripwireTriggered",
        "OutputGuardrailTripwireTriggered",
        "ToolInputGuardrailTripwireTriggered",
        "ToolOutputGuardrailTripwireTriggered",
        "CancelledError",
        "GeneratorExit",
        "KeyboardInterrupt",
    }
)

_DEFAULT_TEXTS: Final = re.compile(
    r"An error occurred while (running the tool|parsing tool arguments)\. Please try again|"
    r"Tool '.*' timed out after .* seconds\.\Z|"
    r"Tool '.*' not found\.\Z|"
    r"Invalid tool arguments(?: for [\w, ]+)?\. Check the tool schema and try again\.\Z"  # tools of sandboxes
)
_REFUSALS: Final = ("Tool execution was not approved.", "Multiple handoffs detected, ignoring this one.")
_NOT_FOUND: Final = re.compile(r"Tool (?P<name>.+) not found in agent ")
_REDACTED: Final = re.compile(r"redacted", re.IGNORECASE)


def error_text(error: BaseException) -> str:
    """Return `"TypeName: text"`, or the name alone if the text is empty or cannot be read."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not break the recording
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def status_of(error: BaseException) -> RunStatus:
    """Return the status of a run that raised this exception."""
    return RunStatus.STOPPED if type(error).__name__ in _STOPPING else RunStatus.ERROR


def may_come_from_tool(error: BaseException) -> bool:
    """Return whether a tool that ran may have ended the run with this exception."""
    name = type(error).__name__
    return name not in _STOPPING or name == "ToolOutputGuardrailTripwireTriggered"


def tool_exception(error: BaseException) -> BaseException:
    """Return the tool's own exception, which the SDK may have wrapped in one of its own."""
    cause = error.__cause__
    is_late = type(error).__name__ == "ToolTimeoutError"  # which the tool did not raise
    return cause if isinstance(error, AgentsException) and cause is not None and not is_late else error


def unknown_tool_name(error: BaseException) -> str | None:
    """Return the name of the missing tool if the run ended because the model called one that its agent lacks."""
    match = _NOT_FOUND.match(str(error)) if type(error).__name__ == "ModelBehaviorError" else None
    return match["name"] if match else None


def span_error(span: Any) -> str | None:
    """Return the error text of a tool's span; `None` without an error, `""` where the text was redacted."""
    error = getattr(span, "error", None)
    if not isinstance(error, Mapping):
        return None
    data = error.get("data")
    text = data.get("error") if isinstance(data, Mapping) else None
    if text is None:
        text = error.get("message")
    return "" if not isinstance(text, str) or _REDACTED.search(text) else text


def default_error_text(output: object) -> str | None:
    """Return the output if it is a text that the SDK itself puts in place of a failed tool's result."""
    return output if isinstance(output, str) and _DEFAULT_TEXTS.match(output) else None


def is_refused_input(tool: str, error: object, output: object) -> bool:
    """Return whether the SDK refused a tool's arguments, so that the tool itself did not begin."""
    text = str(error) if isinstance(error, BaseException) else error
    if isinstance(output, str) and output.startswith("An error occurred while parsing tool arguments."):
        return True
    # Before 0.14 only the text of the exception can be seen.
    is_sdk_error = isinstance(error, str) or type(error).__name__ == "ModelBehaviorError"
    return is_sdk_error and isinstance(text, str) and text.startswith(f"Invalid JSON input for tool {tool}")


def is_refusal(output: object) -> bool:
    """Return whether the output is what the SDK shows the model for a call that it did not run."""
    return output in _REFUSALS
