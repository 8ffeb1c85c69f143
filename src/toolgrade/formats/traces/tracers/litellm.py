"""LiteLLM's span of a raw request (LiteLLM documentation, "OpenTelemetry"); the span around it may have no messages."""

from __future__ import annotations

import re
from typing import Any

from toolgrade._internal.message_content import object_of
from toolgrade.formats.traces.tracers.tracer import Attributes, Tracer
from toolgrade.formats.traces.values import read_literal

_REPLY = re.compile(r"(?:llm\.)?(.*)\.(choices|content)", re.DOTALL)


def _translate(attributes: Attributes, span_name: str) -> Attributes:
    """Add the messages of a request, which LiteLLM printed with `repr` in the form of OpenAI or Anthropic."""
    if span_name != "raw_gen_ai_request":
        return attributes
    for match in filter(None, map(_REPLY.fullmatch, attributes)):
        provider, name = match.groups()
        reply = _printed_list(attributes.get(f"llm.{provider}.{name}"))
        prompt = _printed_list(attributes.get(f"llm.{provider}.messages"))
        if reply is not None and prompt is not None:
            message = {"choices": reply} if name == "choices" else {"role": "assistant", "content": reply}
            return {
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": prompt,
                "gen_ai.output.messages": message,
                "gen_ai.response.id": attributes.get(f"llm.{provider}.id"),
                **attributes,
            }
    return attributes


def _printed_list(text: object) -> list[Any] | None:
    value = object_of(read_literal(f"{{'_': {text}}}")).get("_")
    return value if isinstance(value, list) else None


LITELLM = Tracer(translate=_translate)
