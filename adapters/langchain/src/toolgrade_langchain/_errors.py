"""Classification of exceptions: how a tool or a run ended, and exceptions that LangGraph raises for control flow.

LangGraph's classes are recognized by name, so that only `langchain-core` is imported.
"""

from __future__ import annotations

import functools
from typing import Final

from toolgrade.capture import Outcome
from toolgrade.cases import RunStatus

OUT_OF_STEPS: Final = "Sorry, need more steps to process this request."
"""Answer of LangGraph's prebuilt agent, instead of the model's, when the agent has no steps left."""

_LIMITS: Final = frozenset(
    {"GraphRecursionError", "ModelCallLimitExceededError", "ToolCallLimitExceededError", "GraphDrained"}
)
"""Exceptions that stop a run which has not failed: a limit is reached, or the program shuts down."""
_CANCELLATIONS: Final = frozenset({"CancelledError", "GeneratorExit", "KeyboardInterrupt"})
"""Exceptions by which a program ends a tool or a run from outside."""


def is_a(value: object, name: str) -> bool:
    """Return whether the class of a value, or one of its bases, has this name."""
    return name in _class_names(type(value))  # type: ignore[arg-type]  # mypy takes a class for unhashable


@functools.lru_cache(maxsize=256)
def _class_names(kind: type) -> frozenset[str]:
    """Return the names of a class and its bases."""
    return frozenset(base.__name__ for base in kind.__mro__)


def is_interrupt(error: object) -> bool:
    """Return whether an exception only suspends the run."""
    # Two other subclasses of `GraphBubbleUp`: the first passes control to another graph, the second stops the run.
    return is_a(error, "GraphBubbleUp") and not is_a(error, "ParentCommand") and not is_a(error, "GraphDrained")


def parent_command(error: BaseException) -> object | None:
    """Return the command with which an exception passes control to the graph above; `None` for other exceptions."""
    return error.args[0] if is_a(error, "ParentCommand") and error.args else None


def outcome_of(error: BaseException) -> Outcome:
    """Return the outcome of a tool that raised this exception."""
    if is_interrupt(error):
        return Outcome.SUSPENDED
    if type(error).__name__ in _CANCELLATIONS:
        return Outcome.CANCELLED
    return Outcome.ERROR


def status_of(error: BaseException) -> RunStatus:
    """Return the status of a run that raised this exception."""
    if is_interrupt(error):
        return RunStatus.INTERRUPTED
    if type(error).__name__ in _CANCELLATIONS | _LIMITS:
        return RunStatus.STOPPED
    return RunStatus.ERROR


def error_text(error: BaseException) -> str:
    """Return `"TypeName: text"`, or the name alone if the text is empty or cannot be read."""
    try:
        # Python cancels a task that exceeds a time with an object that says nothing.
        text = "" if any(type(item) is object for item in error.args) else str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not break the recording
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
