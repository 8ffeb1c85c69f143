"""Which spans are in this trace of the OpenAI Agents SDK? What its exporters send: traces and spans, in any order.

A span of a function says no id of a call, and one of a response says nothing of the response itself, so that the calls
are those of the functions that ran. Where the model is asked over Chat Completions, its messages are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolmark._internal.json import short_repr
from toolmark.calls import ToolCallType
from toolmark.formats.messages.field_readers import Notes, as_object, decoded, first_of, text_of
from toolmark.formats.traces.span_tree import Span, SpanKind
from toolmark.formats.traces.timestamps import time_of
from toolmark.formats.traces.trace_messages import messages_in

_KINDS: dict[str, SpanKind] = {
    "agent": "agent",
    "function": "tool",
    "generation": "model",
    "response": "model",
    "handoff": "handoff",
}
_USAGE = {"input_tokens": ("input_tokens", "prompt_tokens"), "output_tokens": ("output_tokens", "completion_tokens")}


def looks_like_openai_agents(value: object) -> bool:
    """Return whether a value is one of the things that `spans_in` reads."""
    if isinstance(value, list):
        return bool(value) and all(map(looks_like_openai_agents, value))
    fields = as_object(value)
    if fields is None:
        return False
    if fields.get("object") in ("trace", "trace.span"):
        return True
    return isinstance(fields.get("data"), list) and looks_like_openai_agents(fields["data"])


def spans_in(documents: list[tuple[str, Any]], notes: Notes) -> list[Span]:
    """Return the spans of the documents of a file; what cannot be read is a problem.

    Args:
        documents: Each with its path, which begins the paths of its spans.
        notes: Takes the problems.
    """
    found: list[Span] = []
    groups: dict[str, str] = {}
    for path, value in documents:
        for place, fields in _entries(value, path, notes):
            if fields.get("object") == "trace":
                group = text_of(fields.get("group_id"))
                if group is not None:
                    groups[str(fields.get("id"))] = group
            else:
                found.append(_span(fields, place))
    for span in found:
        span.session = groups.get(span.trace)
    return found


def _entries(value: object, path: str, notes: Notes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _entries(entry, f"{path}[{index}]", notes)
        return
    fields = as_object(value)
    if fields is not None and fields.get("object") in ("trace", "trace.span"):
        yield path, fields
        for key in ("spans", "data"):
            if isinstance(fields.get(key), list):
                yield from _entries(fields[key], f"{path}.{key}", notes)
    elif fields is not None and isinstance(fields.get("data"), list):
        yield from _entries(fields["data"], f"{path}.data", notes)
    else:
        notes.problem(path, f"expected a trace or span of the OpenAI Agents SDK, got {short_repr(value)}")


def _span(fields: Mapping[str, Any], path: str) -> Span:
    data = as_object(fields.get("span_data")) or {}
    span = Span(
        str(fields.get("id")),
        str(fields.get("trace_id") or ""),
        path,
        text_of(fields.get("parent_id")),
        str(data.get("name") or data.get("type") or ""),
        _KINDS.get(str(data.get("type")), "other"),
        time_of(fields.get("started_at")),
        time_of(fields.get("ended_at")),
    )
    error = as_object(fields.get("error"))
    if error is not None:
        detail = first_of(as_object(error.get("data")) or {}, "error", "message")
        span.error = ": ".join(str(part) for part in (error.get("message"), detail) if part) or "failed"
    if span.kind == "tool":
        _read_tool(data, span)
    elif span.kind == "model":
        _read_model(data, span)
    elif span.kind == "agent":
        span.agent = text_of(data.get("name"))
    elif span.kind == "handoff":
        span.handoff_to, span.agent = text_of(data.get("to_agent")), text_of(data.get("from_agent"))
    return span


def _read_tool(data: Mapping[str, Any], span: Span) -> None:
    span.tool = span.name
    # Without sensitive data both are left empty; a function without arguments gets the text of an empty object.
    if data.get("input") not in (None, ""):
        span.arguments = data["input"]
    if data.get("output") is not None:
        span.result = decoded(data["output"])
    server = as_object(data.get("mcp_data"))
    if server is not None:
        span.type, span.server = ToolCallType.MCP, text_of(server.get("server"))


def _read_model(data: Mapping[str, Any], span: Span) -> None:
    response = as_object(data.get("response")) or {}
    span.asked = messages_in(data.get("input"), f"{span.path}.span_data.input", "user")
    for key, value in (("output", data.get("output")), ("response.output", response.get("output"))):
        if value is not None:
            span.said = messages_in(value, f"{span.path}.span_data.{key}", "model")
    span.model = text_of(first_of(data, "model")) or text_of(response.get("model"))
    tools = first_of(data, "tools") or response.get("tools")
    span.offered = list(tools) if isinstance(tools, list) else []
    usage = as_object(data.get("usage")) or as_object(response.get("usage")) or {}
    for name, keys in _USAGE.items():
        count = first_of(usage, *keys)
        if isinstance(count, int) and not isinstance(count, bool):
            span.usage[name] = count
