"""What do the SDK's exceptions, spans and default texts say of a failure? Nothing is kept here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from agents.exceptions import AgentsException

from toolmark.capture import RunStatus

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
"""Exceptions that say that something stopped the run; by name, since older releases lack some of them."""

_DEFAULT_TEXTS: Final = re.compile(
    r"An error occurred while (running the tool|parsing tool arguments)\. Please try again|"
    r"Tool '.*' timed out after .* seconds\.\Z|"
    r"Tool '.*' not found\.\Z"
)
"""What the SDK itself shows a model in place of a tool's result."""

_NOT_FOUND: Final = re.compile(r"Tool (?P<name>.+) not found in agent ")

_REFUSED_TEXTS: Final = ("Tool execution was not approved.", "Multiple handoffs detected, ignoring this one.")

_REDACTED: Final = re.compile(r"redacted", re.IGNORECASE)


def error_text(error: BaseException) -> str:
    """Return `"TypeName: text"`; the name alone where there is no text, or none that can be read."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an exception whose text raises
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def status_of(error: BaseException) -> RunStatus:
    """Return how a run ended that raised this."""
    return RunStatus.STOPPED if type(error).__name__ in _STOPPING else RunStatus.ERROR


def blames_tools(error: BaseException) -> bool:
    """Return whether a tool that ran may be what ended the run with this exception."""
    return type(error).__name__ not in _STOPPING or type(error).__name__ == "ToolOutputGuardrailTripwireTriggered"


def tool_exception(error: BaseException) -> BaseException:
    """Return the exception of the tool that ended the run: what the SDK wrapped into one of its own."""
    cause = error.__cause__
    return cause if isinstance(error, AgentsException) and cause is not None else error


def unknown_tool(error: BaseException) -> str | None:
    """Return the name of the tool that a model asked for and that its agent lacks, if that ended the run."""
    found = _NOT_FOUND.match(str(error)) if type(error).__name__ == "ModelBehaviorError" else None
    return found["name"] if found else None


def span_error(span: Any) -> str | None:  # noqa: ANN401 - a span of any provider
    """Return the text of a tool's failure that a span holds; `None` without one, `""` where it was redacted."""
    error = getattr(span, "error", None)
    if not isinstance(error, Mapping):
        return None
    data = error.get("data")
    text = data.get("error") if isinstance(data, Mapping) else None
    if text is None:
        text = error.get("message")
    return "" if not isinstance(text, str) or _REDACTED.search(text) else text


def default_failure(output: object) -> str | None:
    """Return the text that the SDK shows in place of a result, if this is one."""
    return output if isinstance(output, str) and _DEFAULT_TEXTS.match(output) else None


def is_refusal(output: object) -> bool:
    """Return whether this is what the SDK shows for a call that it did not let run."""
    return output in _REFUSED_TEXTS
