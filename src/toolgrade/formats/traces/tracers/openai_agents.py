"""Traces of the OpenAI Agents SDK (its documentation, "Tracing"): what its exporters send, in any order.

A function span has no call id, and a response span has none of the response, so the calls are those of the functions
that ran. Where the model is asked over Chat Completions, its messages are in the span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from toolgrade._internal.json import short_repr
from toolgrade._internal.message_content import Fields, as_object, first_of, object_of, text_of
from toolgrade.calls import ToolCallType
from toolgrade.formats.messages.field_readers import Notes, decoded, list_of
from toolgrade.formats.traces.messages import messages_in
from toolgrade.formats.traces.span_tree import ModelCall, Span, SpanKind, ToolRecord
from toolgrade.formats.traces.values import all_entries, entries_of, first_text, string_of, time_of, token_counts
from toolgrade.matching.json_compare import ABSENT

_KINDS: dict[str, SpanKind] = {
    "function": "tool",
    "generation": "model",
    "response": "model",
    "agent": "agent",
    "handoff": "handoff",
}
_USAGE = {"input_tokens": ("input_tokens", "prompt_tokens"), "output_tokens": ("output_tokens", "completion_tokens")}
_OBJECTS = ("trace", "trace.span")


def is_openai_agents(fields: Fields) -> bool:
    """Return whether `spans_in` reads an object."""
    if fields.get("object") in _OBJECTS:
        return True
    return isinstance(fields.get("data"), list) and all_entries(fields["data"], is_openai_agents)


def spans_in(entries: list[tuple[str, Any]], notes: Notes) -> list[Span]:
    """Return the spans of a file.

    Args:
        entries: The values in the file, each with its path.
        notes: Receives a problem for everything that cannot be read.
    """
    spans: list[Span] = []
    sessions: dict[str, str | None] = {}
    for path, fields in _records(entries, notes):
        if fields.get("object") == "trace":
            trace = str(fields.get("id"))
            sessions[trace] = text_of(fields.get("group_id")) or sessions.get(trace)
        else:
            spans.append(_span(fields, path))
    for span in spans:
        span.session = sessions.get(span.trace)
    return spans


def _records(entries: Iterable[tuple[str, Any]], notes: Notes) -> Iterator[tuple[str, Fields]]:
    """Yield the traces and the spans in values, each with its path."""
    for path, entry in entries:
        fields = object_of(entry)
        if fields.get("object") in _OBJECTS:
            yield path, fields
        elif not isinstance(fields.get("data"), list):
            notes.problem(path, f"expected a trace or span of the OpenAI Agents SDK, got {short_repr(entry)}")
        for key in ("spans", "data"):
            if isinstance(fields.get(key), list):
                yield from _records(entries_of(fields[key], f"{path}.{key}"), notes)


def _span(fields: Fields, path: str) -> Span:
    data = object_of(fields.get("span_data"))
    span = Span(
        str(fields.get("id")),
        string_of(fields.get("trace_id")),
        path,
        text_of(fields.get("parent_id")),
        string_of(data.get("name") or data.get("type")),
        _KINDS.get(str(data.get("type")), "other"),
        time_of(fields.get("started_at")),
        time_of(fields.get("ended_at")),
        error=_error_of(fields),
        is_interpreted=True,
    )
    if span.kind in _READERS:
        _READERS[span.kind](data, span)
    return span


def _error_of(fields: Fields) -> str | None:
    """Return why a span failed; `None` where it did not."""
    error = as_object(fields.get("error"))
    if error is None:
        return None
    parts = (error.get("message"), first_of(object_of(error.get("data")), "error", "message"))
    return ": ".join(map(str, filter(None, parts))) or "failed"


def _read_tool(data: Fields, span: Span) -> None:
    run = span.tool_run = ToolRecord(span.name)
    # Without sensitive data the SDK leaves both empty. A function without parameters receives the text `{}`.
    if data.get("input") not in (None, ""):
        run.arguments = data["input"]
    run.result = ABSENT if data.get("output") is None else decoded(data["output"])
    server = as_object(data.get("mcp_data"))
    if server is not None:
        run.type, run.server = ToolCallType.MCP, text_of(server.get("server"))


def _read_model(data: Fields, span: Span) -> None:
    response = object_of(data.get("response"))
    span.prompt = messages_in(data.get("input"), f"{span.path}.span_data.input", "user")
    for key, value in (("output", data.get("output")), ("response.output", response.get("output"))):
        if value is not None:
            span.reply = messages_in(value, f"{span.path}.span_data.{key}", "model")
    span.offered = list_of(first_of(data, "tools") or response.get("tools"))
    usage = as_object(data.get("usage")) or object_of(response.get("usage"))
    model = first_text(data.get("model"), response.get("model"))
    span.model_call = ModelCall(model, usage=token_counts(usage, _USAGE, least=0))


def _read_agent(data: Fields, span: Span) -> None:
    span.agent = text_of(data.get("name"))


def _read_handoff(data: Fields, span: Span) -> None:
    span.handoff_to, span.agent = text_of(data.get("to_agent")), text_of(data.get("from_agent"))


_READERS: dict[SpanKind, Callable[[Fields, Span], None]] = {
    "tool": _read_tool,
    "model": _read_model,
    "agent": _read_agent,
    "handoff": _read_handoff,
}
