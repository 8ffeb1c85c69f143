"""Spans of OpenTelemetry, made up one by one: models, tools and agents."""

from __future__ import annotations

import json
from typing import Any

from toolgrade.calls import ToolCall
from toolgrade.cases import Run
from toolgrade.formats import read_traces
from tracing import pairs

Plain = dict[str, Any]
TRACE = "0af7651916cd43dd8448eb211c80319c"


def span(number: int, parent: int | None = None, *, trace: str = TRACE, **attributes: Any) -> Plain:
    """Return an OTLP span; higher numbers are later. Underscores in names become dots."""
    fields: Plain = {"traceId": trace, "spanId": f"{number:016x}", "name": attributes.pop("name", "span")}
    fields |= {"parentSpanId": f"{parent:016x}"} if parent else {}
    fields |= {"startTimeUnixNano": str(number * 10**9), "endTimeUnixNano": str(number * 10**9 + 5)}
    fields |= {key: attributes.pop(key) for key in ("events", "status") if key in attributes}
    return {**fields, "attributes": pairs(attributes)}


def chat(number: int, parent: int | None = None, *calls: Plain, **more: Any) -> Plain:
    """A span of a model that answered with these calls."""
    parts = [{"type": "tool_call", **call} for call in calls] or [{"type": "text", "content": "Done."}]
    reply = {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}])}
    return span(number, parent, **{"gen_ai.operation.name": "chat", **reply, **more})


def hidden(number: int, parent: int | None = None, **more: Any) -> Plain:
    """Return a model span that has no content."""
    return span(number, parent, **{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1", **more})


def tool(number: int, parent: int | None = None, name: str = "add", **more: Any) -> Plain:
    """A span of a tool."""
    return span(number, parent, **{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, **more})


def agent(number: int, parent: int | None = None, name: str = "boss") -> Plain:
    """A span of an agent."""
    return span(number, parent, **{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name})


def spans(*listed: Plain) -> Plain:
    """A file of OTLP."""
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(listed)}]}]}


def run_of(value: object) -> Run:
    """The only run of traces."""
    (run,) = read_traces(value).runs
    return run


def called(*listed: Plain) -> list[ToolCall]:
    """The calls in these spans."""
    return run_of(spans(*listed)).calls
