"""Which other format does this message look like? So that calls in a shape we do not read are never taken for none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmark.formats._reading import as_object, part_type

if TYPE_CHECKING:
    from collections.abc import Mapping

_CALL_PARTS = ("tool", "function_call")
"""A content part whose type holds one of these is a call or its answer. OpenAI's messages have no such parts."""

_RESPONSES_TYPES = frozenset({"message", "reasoning", "item_reference", "compaction", "mcp_list_tools"})

_LANGCHAIN_TYPES = frozenset({"ai", "human", "AIMessage", "HumanMessage", "AIMessageChunk", "constructor"})


def foreign_shape(message: Mapping[str, object]) -> str | None:
    """Return what a message looks like that is none of OpenAI's chat messages, `None` where nothing speaks for it.

    Args:
        message: One entry of a trajectory.

    Returns:
        A phrase for an error, e.g. `"Anthropic messages (a content part of type 'tool_use')"`.
    """
    if message.get("role") is None:
        return _without_role(message)
    return _by_parts(message) or _by_keys(message)


def _without_role(message: Mapping[str, object]) -> str | None:
    kind = message.get("type")
    if "lc" in message or kind in _LANGCHAIN_TYPES:
        return "LangChain messages"
    if isinstance(kind, str) and (kind in _RESPONSES_TYPES or kind.endswith(("_call", "_call_output"))):
        return f"items of OpenAI's Responses API (type {kind!r})"
    if "kind" in message and "parts" in message:
        return "Pydantic AI messages"
    if "choices" in message:
        return "a whole response of OpenAI's Chat Completions API; give its choices[0].message"
    if "messages" in message:
        return "an object that holds the messages; give its 'messages'"
    return None


def _by_parts(message: Mapping[str, object]) -> str | None:
    content = message.get("content")
    if not isinstance(content, (list, tuple)):
        return None
    shapes = [shape for shape in (_call_part(part, message.get("role")) for part in content) if shape is not None]
    calls = message.get("tool_calls")
    if not shapes or (isinstance(calls, (list, tuple)) and len(calls) >= len(shapes)):
        return None  # some converters leave the provider's blocks beside the `tool_calls` they made from them
    return shapes[0]


def _call_part(part: object, role: object) -> str | None:
    fields = as_object(part)
    if fields is not None and ("toolUse" in fields or "toolResult" in fields):
        return "messages of Amazon Bedrock's Converse API (a content part with 'toolUse' or 'toolResult')"
    kind = part_type(part)
    if kind is None or not any(mark in kind for mark in _CALL_PARTS):
        return None
    if kind.endswith(("tool_use", "tool_result")):
        return f"Anthropic messages (a content part of type {kind!r})"
    if kind.startswith("tool-"):
        return f"messages of the Vercel AI SDK (a content part of type {kind!r})"
    return None if role == "tool" else f"another format (a content part of type {kind!r})"


def _by_keys(message: Mapping[str, object]) -> str | None:
    if message.get("toolCalls"):
        return "another format (calls under 'toolCalls'; they belong under 'tool_calls')"
    if isinstance(message.get("parts"), (list, tuple)) and "content" not in message:
        return "messages made of 'parts', as Google's Gemini and OpenTelemetry have them"
    extra = as_object(message.get("additional_kwargs"))
    if extra is not None and extra.get("tool_calls") and not message.get("tool_calls"):
        return "LangChain or LlamaIndex messages (calls under 'additional_kwargs')"
    blocks = message.get("blocks")
    if isinstance(blocks, (list, tuple)):
        kinds = [str((as_object(block) or {}).get("block_type")) for block in blocks]
        if "tool_call" in kinds:
            return "LlamaIndex messages (a block of type 'tool_call')"
    return None
