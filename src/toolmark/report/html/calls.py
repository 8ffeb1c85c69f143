"""A call on the page, and the calls inside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from toolmark._internal.json import json_text
from toolmark._internal.text import number_text, plural, short_json, shorten
from toolmark.calls import CallOrigin, CallStatus, Execution, ToolCall
from toolmark.report.html.texts import LONGEST_NAME, Clip, clip, value_clip

MOST_CALLS = 200
"""Calls of one message, or inside one call, that are shown."""
DEEPEST = 8
"""Levels of calls inside each other that are shown."""

_PREVIEW = 100


def call_view(call: ToolCall, *, anchor: str = "", label: str = "", level: int = 0) -> dict[str, Any]:
    """Return the template data of a redacted call; calls inside another have neither anchor nor label."""
    execution = call.execution or Execution()
    children = execution.children[:MOST_CALLS] if level < DEEPEST else []
    hidden = len(execution.children) - len(children)
    if level >= DEEPEST:
        hidden = _count_all(execution.children)
    return {
        "anchor": anchor,
        "label": label,
        "name": shorten(call.name, LONGEST_NAME),
        "preview": short_json(call.arguments, _PREVIEW) if call.arguments else "",
        "problem": problem_text(execution),
        "failed": is_failure(execution),
        "facts": list(_facts(call, execution)),
        "contents": list(_contents(call, execution)),
        "inside": [call_view(child, level=level + 1) for child in children],
        "hidden": hidden,
    }


def problem_text(execution: Execution) -> str:
    """Return the status of a call in words; empty if it is ok."""
    return "" if execution.status is CallStatus.OK else execution.status.value.replace("_", " ")


def is_failure(execution: Execution) -> bool:
    """Return whether a call failed; one that is pending or was not executed did not."""
    return execution.status not in {CallStatus.OK, CallStatus.PENDING, CallStatus.NOT_EXECUTED}


def _count_all(calls: Sequence[ToolCall]) -> int:
    """Return the number of calls at all levels; without recursion, since they may be nested deeply."""
    total = 0
    queue = list(calls)
    while queue:
        call = queue.pop()
        total += 1
        if call.execution is not None:
            queue.extend(call.execution.children)
    return total


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


def _contents(call: ToolCall, execution: Execution) -> Iterator[tuple[str, Clip]]:
    """Yield titles with values and texts; arguments only if the preview does not show all of them."""
    if len(json_text(call.arguments)) > _PREVIEW:
        yield "arguments", value_clip(call.arguments)
    if execution.requested_parameters is not None:
        yield "requested by the model", value_clip(execution.requested_parameters)
    if execution.error is not None:
        yield "error", clip(execution.error)
    if call.captured("output") and (call.output is not None or "output" in call.model_fields_set):
        yield "output", value_clip(call.output)
    if execution.model_output is not None:
        yield "shown to the model", value_clip(execution.model_output)
    if execution.artifact is not None:
        yield "artifact", value_clip(execution.artifact)
    for title, text in (("description", call.description), ("reasoning", call.reasoning)):
        if text is not None:
            yield title, clip(text)
