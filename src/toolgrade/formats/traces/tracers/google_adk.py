"""Spans of Google's Agent Development Kit (ADK documentation, "Observability"; module `google.adk.telemetry`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from toolgrade._internal.message_content import object_of
from toolgrade.formats.messages.field_readers import list_of
from toolgrade.formats.messages.google_adk import TO_CONFIRM, TRANSFER
from toolgrade.formats.traces.span_tree import Span
from toolgrade.formats.traces.tracers.tracer import Attributes, Tracer
from toolgrade.formats.traces.values import json_object
from toolgrade.matching.json_compare import ABSENT

_AGENT = re.compile(r"^agent_run \[.+\]$")
"""Name of an agent span of version 1, which says nothing else about the agent."""
_MERGED_TOOLS = "(merged tools)"
"""The tool name of spans that repeat the results of several other spans."""


def _translate(attributes: Attributes, span_name: str) -> Attributes:
    if attributes.get("gen_ai.tool.name") == _MERGED_TOOLS or span_name.endswith(_MERGED_TOOLS):
        return {}
    if span_name.startswith("call_llm"):  # may name a tool, too
        return {"gen_ai.operation.name": "chat", **attributes}
    return {"gen_ai.operation.name": "invoke_agent", **attributes} if _AGENT.match(span_name) else attributes


def _offered(span: Span) -> Iterator[Any]:
    request = json_object(span.attributes.get("gcp.vertex.agent.llm_request"))
    for group in list_of(object_of(request.get("config")).get("tools")):
        # An empty object means that there are tools without a name.
        yield from list_of(object_of(group).get("function_declarations")) or [{}]


def _complete_tool(span: Span) -> None:
    # Gemini gives calls no ids, so the kit makes one up for the run. The messages may have other ids, such as `add_0`.
    span.tool_run.has_own_id = str(span.tool_run.call_id).startswith("adk-")
    if _asks(span.tool_run.result):
        span.interrupted, span.tool_run.result = True, ABSENT


def _asks(result: object) -> bool:
    """Return whether a result says that a person has to confirm the call."""
    fields = json_object(result)
    return str(object_of(fields.get("response", fields)).get("error", result)).startswith(TO_CONFIRM)


def _complete(span: Span) -> None:
    """Mark requests to transfer the conversation to another agent; leave out answers that only ask a person."""
    span.prompt = [message for message in span.prompt if not (message.answer and _asks(message.answer.content))]
    if any(key.startswith("gcp.vertex.agent.") for key in span.attributes):
        for request in (request for message in span.reply_messages for request in message.requests):
            request.handoff = request.name == TRANSFER


GOOGLE_ADK = Tracer(
    names={
        "gen_ai.conversation.id": ("gcp.vertex.agent.session_id",),
        "gen_ai.input.messages": ("gcp.vertex.agent.llm_request",),
        "gen_ai.output.messages": ("gcp.vertex.agent.llm_response",),
        "gen_ai.tool.call.arguments": ("gcp.vertex.agent.tool_call_args",),
        "gen_ai.tool.call.result": ("gcp.vertex.agent.tool_response",),
    },
    marks={"model": ("gcp.vertex.agent.llm_request",)},
    translate=_translate,
    offered=_offered,
    complete=_complete,
    complete_tool=_complete_tool,
)
