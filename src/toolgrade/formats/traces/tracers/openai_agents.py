"""Traces of the OpenAI Agents SDK (its documentation, "Tracing"): what its exporters send, in any order.

A function span has no call id, and a response span has none of the response, so the calls are those of the functions
that ran. Where the model is asked over Chat Completions, its messages are in the span.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from toolgrade._internal.json import short_repr
from toolgrade._internal.message_content import Fields, as_object, first_of, object_of, text_of
from toolgrade._internal.model import drop_none
from toolgrade.formats.messages.field_readers import Notes
from toolgrade.formats.traces.span_tree import Span
from toolgrade.formats.traces.tracers.tracer import CALL_STATUS, HANDOFF, MCP_SERVER, NO_OUTPUT, Attributes
from toolgrade.formats.traces.values import all_entries, entries_of, first_text, string_of, time_of, token_counts

_OPERATIONS = {
    "function": "execute_tool",
    "generation": "chat",
    "response": "chat",
    "agent": "invoke_agent",
    "handoff": "execute_tool",
}
_MODELS = ("generation", "response")
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
    attributes = _attributes_of(data)
    is_response = object_of(data.get("response")).get("output") is not None
    return Span(
        str(fields.get("id")),
        string_of(fields.get("trace_id")),
        path,
        text_of(fields.get("parent_id")),
        string_of(data.get("name") or data.get("type")),
        started_at=time_of(fields.get("started_at")),
        ended_at=time_of(fields.get("ended_at")),
        error=_error_of(fields),
        attributes=drop_none({**attributes, "gen_ai.operation.name": _OPERATIONS.get(str(data.get("type")))}),
        places={
            "gen_ai.input.messages": f"{path}.span_data.input",
            "gen_ai.output.messages": f"{path}.span_data.{'response.output' if is_response else 'output'}",
        },
    )


def _error_of(fields: Fields) -> str | None:
    """Return why a span failed; `None` where it did not."""
    error = as_object(fields.get("error"))
    if error is None:
        return None
    parts = (error.get("message"), first_of(object_of(error.get("data")), "error", "message"))
    return ": ".join(map(str, filter(None, parts))) or "failed"


def _attributes_of(data: Fields) -> Attributes:
    """Return what a span records in its own form, under the names of the conventions."""
    if data.get("type") == "function":
        server = as_object(data.get("mcp_data"))
        return {
            "gen_ai.tool.name": data.get("name"),
            # Without sensitive data the SDK leaves it empty. A function without parameters receives the text `{}`.
            "gen_ai.tool.call.arguments": data.get("input") or None,
            "gen_ai.tool.call.result": data.get("output"),
            CALL_STATUS: NO_OUTPUT if data.get("input") and data.get("output") is None else None,
            **({} if server is None else {"gen_ai.tool.type": "mcp", MCP_SERVER: server.get("server")}),
        }
    if data.get("type") == "agent":
        return {"gen_ai.agent.name": data.get("name")}
    if data.get("type") == "handoff":
        return {HANDOFF: data.get("to_agent") or "", "gen_ai.agent.name": data.get("from_agent")}
    # Others are such as the transcription of speech.
    return _attributes_of_model(data) if data.get("type") in _MODELS else {}


def _attributes_of_model(data: Fields) -> Attributes:
    """Return what the span of a model records; what it leaves empty is in its response."""
    response = object_of(data.get("response"))
    usage = token_counts(as_object(data.get("usage")) or object_of(response.get("usage")), _USAGE)
    return {
        "gen_ai.input.messages": data.get("input"),
        "gen_ai.system_instructions": response.get("instructions"),
        "gen_ai.output.messages": first_of({**data, **response}, "output"),
        "gen_ai.tool.definitions": data.get("tools") or response.get("tools"),
        "gen_ai.response.model": first_text(data.get("model"), response.get("model")),
        **{f"gen_ai.usage.{name}": count for name, count in usage.items()},
    }
