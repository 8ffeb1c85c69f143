"""What is shown of a call, and of the calls inside of it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolmark._internal.json import json_text
from toolmark._internal.text import number_text, plural, short_json, shorten
from toolmark.calls import CallOrigin, CallStatus, Execution, ToolCall
from toolmark.redact import Redactor
from toolmark.report.html.texts import LONGEST_NAME, Clip, clip, value_clip

MOST_CALLS = 200
"""Calls of one message, or inside of one call, that are shown."""
DEEPEST = 8
"""Levels of calls inside of each other that are shown."""

_PREVIEW = 100

_STATUS = {
    CallStatus.ERROR: "error",
    CallStatus.INVALID_ARGUMENTS: "invalid arguments",
    CallStatus.UNKNOWN_TOOL: "unknown tool",
    CallStatus.REJECTED: "rejected",
    CallStatus.PENDING: "pending",
    CallStatus.CANCELLED: "cancelled",
    CallStatus.NOT_EXECUTED: "not executed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """One call.

    Attributes:
        anchor: Where it stands on the page; empty of a call inside of another.
        label: `c2` for the second call of the case; empty of a call inside of another.
        name: Name of the tool.
        preview: Its arguments on one line, shortened.
        problem: What became of it, if not all was well; else empty.
        failed: Whether that is a failure.
        facts: What else is known, each in a few words.
        values: What went in and came out: a title and a text each.
        inside: Calls made inside of it.
        more: How many calls inside of it are not shown, in words; else empty.
    """

    anchor: str
    label: str
    name: str
    preview: str
    problem: str
    failed: bool
    facts: tuple[str, ...]
    values: tuple[tuple[str, Clip], ...]
    inside: tuple[CallView, ...] = ()
    more: str = ""


def call_view(call: ToolCall, redactor: Redactor, *, anchor: str = "", label: str = "", level: int = 0) -> CallView:
    """Return what is shown of a call, which is free of secrets already."""
    execution = call.execution or Execution()
    children = execution.children[:MOST_CALLS] if level < DEEPEST else []
    hidden = sum(1 for _ in _all_inside(execution.children)) if level >= DEEPEST else 0
    hidden += len(execution.children[MOST_CALLS:]) if level < DEEPEST else 0
    return CallView(
        anchor=anchor,
        label=label,
        name=shorten(call.name, LONGEST_NAME),
        preview=short_json(call.arguments, _PREVIEW) if call.arguments else "",
        problem=status_text(execution),
        failed=is_failure(execution),
        facts=tuple(_facts(call, execution)),
        values=tuple(_values(call, execution, redactor)),
        inside=tuple(call_view(child, redactor, level=level + 1) for child in children),
        more=f"{plural(hidden, 'more call')} inside, not shown" if hidden else "",
    )


def status_text(execution: Execution) -> str:
    """Return what became of a call in words; empty where all was well."""
    return _STATUS.get(execution.status, "")


def is_failure(execution: Execution) -> bool:
    """Return whether a call failed, or could not: neither all was well, nor does it wait."""
    return execution.status not in {CallStatus.OK, CallStatus.PENDING, CallStatus.NOT_EXECUTED}


def _all_inside(calls: Sequence[ToolCall]) -> Iterator[ToolCall]:
    """Yield all calls inside of each other; without recursion, since they may be nested deeply."""
    waiting = list(calls)
    while waiting:
        call = waiting.pop()
        yield call
        if call.execution is not None:
            waiting.extend(call.execution.children)


def _facts(call: ToolCall, execution: Execution) -> Iterator[str]:
    if call.type is not None:
        yield call.type.value
    if execution.attempts != 1:
        yield plural(execution.attempts, "attempt")
    if execution.duration is not None:
        yield f"{number_text(execution.duration)} s"
    if execution.step is not None:
        yield f"step {execution.step + 1}"
    if execution.origin is CallOrigin.CODE:
        yield "called by code"
    for name in ("agent", "server", "source"):
        value = getattr(execution, name)
        if value is not None:
            yield f"{name} {shorten(value, LONGEST_NAME)}"
    if call.id is not None:
        yield f"id {shorten(call.id, LONGEST_NAME)}"
    if execution.not_captured:
        yield f"not recorded: {shorten(', '.join(execution.not_captured), LONGEST_NAME)}"


def _values(call: ToolCall, execution: Execution, redactor: Redactor) -> Iterator[tuple[str, Clip]]:
    """Yield what there is; arguments only where the preview does not show all of them."""
    if len(json_text(call.arguments)) > _PREVIEW:
        yield "arguments", value_clip(call.arguments)
    if execution.requested_parameters is not None:
        yield "asked for by the model", value_clip(execution.requested_parameters)
    if execution.error is not None:
        yield "error", clip(execution.error)
    if call.captured("output") and (call.output is not None or "output" in call.model_fields_set):
        yield "output", value_clip(call.output)
    others: tuple[tuple[str, Any], ...] = (
        ("shown to the model", execution.model_output),
        ("artifact", execution.artifact),
    )
    for title, value in others:
        if value is not None:
            yield title, value_clip(value)
    for title, text in (("description", call.description), ("reasoning", call.reasoning)):
        if text is not None:
            yield title, clip(str(redactor(text)))
