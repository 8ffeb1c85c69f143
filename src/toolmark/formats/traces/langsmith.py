"""Which spans are in these runs of LangSmith? Runs in a list, one a line, or with their inner runs inside.

A run of a tool has what it was handed under `input`, often as the `repr` of an object, and returns LangChain's message
of a tool, which says the id of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolmark._internal.json import short_repr
from toolmark.formats.messages.field_readers import Notes, as_object, decoded, first_of, text_of
from toolmark.formats.traces.semantic_conventions import take_result
from toolmark.formats.traces.span_tree import Span, SpanKind
from toolmark.formats.traces.timestamps import time_of
from toolmark.formats.traces.trace_messages import messages_in
from toolmark.matching.json_compare import ABSENT

_KINDS: dict[str, SpanKind] = {"llm": "model", "tool": "tool"}
_SESSIONS = ("session_id", "thread_id", "conversation_id")
_USAGE = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "total_tokens": ("total_tokens",),
}


def looks_like_langsmith(value: object) -> bool:
    """Return whether a value is one of the things that `spans_in` reads."""
    if isinstance(value, list):
        return bool(value) and all(map(looks_like_langsmith, value))
    fields = as_object(value)
    if fields is None:
        return False
    return _is_run(fields) or (isinstance(fields.get("runs"), list) and looks_like_langsmith(fields["runs"]))


def _is_run(fields: Mapping[str, Any]) -> bool:
    return isinstance(fields.get("run_type"), str) and "id" in fields


def spans_in(documents: list[tuple[str, Any]], notes: Notes) -> list[Span]:
    """Return the spans of the documents of a file; what cannot be read is a problem.

    Args:
        documents: Each with its path, which begins the paths of its spans.
        notes: Takes the problems.
    """
    found = [span for path, value in documents for span in _spans(value, path, notes, None)]
    _leave_out_hidden(found)
    return found


def _leave_out_hidden(spans: list[Span]) -> None:
    """Forget what tools were handed and returned where that was hidden: the client writes `{}`, also for models."""
    models = [span for span in spans if span.kind == "model"]
    hidden = {(span.trace, "arguments") for span in models if not span.asked}
    hidden |= {(span.trace, "result") for span in models if span.said is None and span.error is None}
    for span in spans:
        for name in ("arguments", "result"):
            if (span.trace, name) in hidden and getattr(span, name) == {}:
                setattr(span, name, ABSENT)


def _spans(value: object, path: str, notes: Notes, outer: Span | None) -> Iterator[Span]:
    waiting: list[tuple[object, str, Span | None]] = [(value, path, outer)]
    while waiting:
        entry, place, around = waiting.pop(0)
        if isinstance(entry, list):
            waiting = [(inner, f"{place}[{index}]", around) for index, inner in enumerate(entry)] + waiting
            continue
        fields = as_object(entry)
        if fields is not None and "run_type" not in fields and isinstance(fields.get("runs"), list):
            waiting.insert(0, (fields["runs"], f"{place}.runs", around))
        elif fields is None or not _is_run(fields):
            notes.problem(place, f"expected a run of LangSmith (id, run_type), got {short_repr(entry)}")
        else:
            span = _run(fields, place, around)
            yield span
            if fields.get("child_runs"):
                waiting.insert(0, (fields["child_runs"], f"{place}.child_runs", span))


def _run(fields: Mapping[str, Any], path: str, outer: Span | None) -> Span:
    run_id = str(fields["id"])
    parent = fields.get("parent_run_id") or (None if outer is None else outer.id)
    trace = fields.get("trace_id") or (run_id if outer is None else outer.trace)
    extra = as_object(fields.get("extra")) or {}
    metadata = {**(as_object(fields.get("metadata")) or {}), **(as_object(extra.get("metadata")) or {})}
    session = first_of(metadata, *_SESSIONS)
    span = Span(
        run_id,
        str(trace),
        path,
        None if parent is None else str(parent),
        str(fields.get("name") or ""),
        _KINDS.get(str(fields["run_type"]).lower(), "other"),
        time_of(fields.get("start_time"), unit="ms"),
        time_of(fields.get("end_time"), unit="ms"),
        agent=text_of(metadata.get("lc_agent_name")),
        session=None if session is None else str(session),
    )
    tags = fields.get("tags")
    if parent is None and isinstance(tags, list):
        span.tags = [str(tag) for tag in tags]
    error = text_of(fields.get("error"))
    if error is not None:
        span.error = error.partition("Traceback (most recent call last)")[0].strip() or error.splitlines()[0]
    if span.kind == "tool":
        _read_tool(fields, extra, span)
    else:
        _read_messages(fields, extra, metadata, span)
    return span


def _read_tool(fields: Mapping[str, Any], extra: Mapping[str, Any], span: Span) -> None:
    span.tool, span.wrapped = span.name, True
    inputs, outputs = fields.get("inputs"), fields.get("outputs")
    if inputs is not None:
        span.arguments = inputs
    holder = as_object(outputs)
    if holder is not None and set(holder) == {"output"}:
        span.result = holder["output"]
    elif outputs is not None:
        span.result = outputs
    span.call_id = text_of(extra.get("tool_call_id"))
    take_result(span)


def _read_messages(
    fields: Mapping[str, Any], extra: Mapping[str, Any], metadata: Mapping[str, Any], span: Span
) -> None:
    inputs, outputs = as_object(fields.get("inputs")) or {}, fields.get("outputs")
    span.asked = messages_in(inputs, f"{span.path}.inputs", "user")
    if outputs:
        span.said = messages_in(outputs, f"{span.path}.outputs", "model")
    if span.parent is None and span.kind == "other" and any(said.who == "model" for said in span.said or ()):
        span.kind, span.agent = "agent", span.agent or span.name  # exports often hold the outermost runs alone
    words = [said.text for said in span.asked if said.who == "user" and said.text]
    span.given = words[-1] if words else None
    answers = [said.text for said in span.said or () if said.who == "model" and said.text]
    span.gave = answers[-1] if answers else None
    if span.kind != "model":
        return
    parameters = as_object(extra.get("invocation_params")) or {}
    tools = first_of(parameters, "tools", "functions") or inputs.get("tools")
    span.offered = [decoded(tool) for tool in tools] if isinstance(tools, list) else []
    span.model = text_of(first_of(parameters, "model", "model_name")) or text_of(metadata.get("ls_model_name"))
    _read_usage(fields, as_object(outputs) or {}, span)


def _read_usage(fields: Mapping[str, Any], outputs: Mapping[str, Any], span: Span) -> None:
    details = as_object(outputs.get("llm_output")) or {}
    for told in (fields, outputs.get("usage_metadata"), details.get("token_usage"), outputs.get("usage")):
        known = as_object(told) or {}
        for name, keys in _USAGE.items():
            count = first_of(known, *keys)
            if name not in span.usage and isinstance(count, int) and not isinstance(count, bool) and count > 0:
                span.usage[name] = count
