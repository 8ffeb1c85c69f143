"""Spans of LlamaIndex's own instrumentation (LlamaIndex documentation, "Instrumentation", its events).

The objects that its agent workflows return for tools are `ToolCallResult` and `ToolOutput` of its API reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolgrade._internal.message_content import Fields, object_of, text_of
from toolgrade.formats.messages.field_readers import decoded
from toolgrade.formats.messages.message import Answer
from toolgrade.formats.traces.messages import Speaker, TraceMessage, event_message, messages_in
from toolgrade.formats.traces.span_tree import Span
from toolgrade.formats.traces.tracers.tracer import Tracer
from toolgrade.formats.traces.values import json_list

_PROMPT, _REPLY = "LLMChatStartEvent", "LLMChatEndEvent"


def _messages(span: Span, speaker: Speaker) -> list[TraceMessage]:
    messages: list[TraceMessage] = []
    for event in span.events_named(_PROMPT if speaker == "user" else _REPLY):
        if speaker == "user":
            messages += messages_in(event.attributes.get("messages"), f"{event.path}['messages']", "user")
        else:
            blocks = decoded(event.attributes.get("response.message.blocks"))
            messages += event_message({"role": "assistant", "blocks": blocks}, event.path)
    return messages


def _offered(span: Span) -> Iterator[Any]:
    for event in span.events_named(_PROMPT):
        yield from json_list(event.attributes.get("additional_kwargs.tools"))


def _unwrap(wrapper: Fields, tool: str) -> Answer | None:
    """Return the result in a `ToolOutput`, or in a `ToolCallResult` around it."""
    call_id = None
    if {"tool_id", "tool_output"} <= wrapper.keys():
        call_id, wrapper = text_of(wrapper["tool_id"]), object_of(wrapper["tool_output"])
    if {"raw_output", "tool_name", "is_error"} <= wrapper.keys():
        return Answer(call_id, tool, wrapper["raw_output"], wrapper["is_error"] is True)
    return None


LLAMA_INDEX = Tracer(offered=_offered, messages=_messages, unwrap=_unwrap, marks={"model": (_PROMPT, _REPLY)})
