"""Spans of the Vercel AI SDK (AI SDK documentation, "Telemetry", section "Collected Data")."""

from __future__ import annotations

import re

from toolgrade.formats.traces.messages import Speaker, TraceMessage, messages_in
from toolgrade.formats.traces.span_tree import Span
from toolgrade.formats.traces.tracers.tracer import Attributes, Tracer
from toolgrade.formats.traces.values import first_text

_OPERATIONS = {"toolCall": "execute_tool", "generate": "chat", "stream": "chat"}
_OPERATION = re.compile(r"^ai\.(toolCall$|generate|stream)")
"""Start of an operation, such as `ai.generateText.doGenerate`."""


def _translate(attributes: Attributes, _: str) -> Attributes:
    operation = _OPERATION.match(str(attributes.get("ai.operationId")))
    return attributes if operation is None else {"gen_ai.operation.name": _OPERATIONS[operation[1]], **attributes}


def _reply(span: Span, speaker: Speaker) -> list[TraceMessage]:
    """Return what a model answered: calls and text have an attribute each."""
    calls = span.attributes.get("ai.response.toolCalls")
    text = first_text(span.attributes.get("ai.response.text"), span.attributes.get("ai.response.object"))
    if speaker == "model" and calls is not None:
        messages = messages_in(calls, span.place_of("ai.response.toolCalls"), "model")
        if messages:
            return messages
    if speaker == "model" and text is not None:
        return [TraceMessage("model", span.place_of("ai.response.text"), text)]
    return []


VERCEL = Tracer(
    names={
        "gen_ai.conversation.id": ("ai.telemetry.metadata.sessionId",),
        "gen_ai.response.model": ("ai.response.model", "ai.model.id"),
        "gen_ai.response.finish_reasons": ("ai.response.finishReason",),
        "gen_ai.tool.definitions": ("ai.prompt.tools",),
        "gen_ai.input.messages": ("ai.prompt.messages", "ai.prompt"),
        "gen_ai.tool.name": ("ai.toolCall.name",),
        "gen_ai.tool.call.id": ("ai.toolCall.id",),
        "gen_ai.tool.call.arguments": ("ai.toolCall.args",),
        "gen_ai.tool.call.result": ("ai.toolCall.result",),
    },
    translate=_translate,
    messages=_reply,
)
