"""Which format is this message of? So that calls in a shape that is not read are never taken for none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolmark.formats.messages.field_readers import as_object, part_type

if TYPE_CHECKING:
    from toolmark.formats.messages.transcript import FormatName

_CALL_PARTS = ("tool", "function_call")
"""A content part whose type holds one of these is a call or its answer. OpenAI's messages have no such parts."""

_ITEM_TYPES = frozenset(
    {
        "additional_tools",
        "compaction",
        "compaction_trigger",
        "configuration_update",
        "item_reference",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_list_tools",
        "message",
        "program",
        "program_output",
        "reasoning",
        "tool_search_output",
    }
)

_RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file", "reasoning_text"})
_ANTHROPIC_PARTS = frozenset({"thinking", "redacted_thinking", "container_upload"})
_CHAT_PARTS = frozenset({"image_url", "input_audio"})

_LANGCHAIN_TYPES = frozenset({"ai", "human", "AIMessage", "HumanMessage", "AIMessageChunk", "constructor"})
_LANGCHAIN_MORE = frozenset({"tool", "system", "function", "remove", "developer", "chat"})
"""Types that other things have too; of a message only where there is something that it says."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What a message looks like.

    Attributes:
        format: One of the formats that are read; `None` for another.
        phrase: The same in words, for an error, e.g. `"Anthropic messages (a content part of type 'tool_use')"`.
        sure: The message cannot be of another format without losing calls; else it is a hint that harms nobody.
    """

    format: FormatName | None
    phrase: str
    sure: bool = True


def sign_of(message: Mapping[str, object]) -> Sign | None:
    """Return what speaks for a format in a message or item, `None` where nothing does: it reads the same in all.

    Args:
        message: One entry of a list of messages or items.
    """
    found = _by_type(message)
    if found is not None or message.get("role") is None:
        return found
    return _by_parts(message) or _by_keys(message) or _hint(message)


def _by_type(message: Mapping[str, object]) -> Sign | None:
    given, role = message.get("type"), message.get("role")
    kind = given if isinstance(given, str) else None
    holds = "content" in message or "data" in message
    if "lc" in message or (role is None and (kind in _LANGCHAIN_TYPES or (kind in _LANGCHAIN_MORE and holds))):
        return Sign("langchain", "LangChain messages")
    if isinstance(kind, str) and kind.endswith(("_call", "_call_output")):
        return Sign("openai-responses", f"items of OpenAI's Responses API (type {kind!r})")
    if isinstance(kind, str) and kind in _ITEM_TYPES and (role is None or kind == "additional_tools"):
        return Sign("openai-responses", f"items of OpenAI's Responses API (type {kind!r})")
    if role is not None:
        return None
    if "kind" in message and "parts" in message:
        return Sign(None, "Pydantic AI messages")
    if "choices" in message:
        return Sign(None, "a whole response of OpenAI's Chat Completions API; give its choices[0].message")
    if message.get("object") == "response":
        return Sign(None, "a whole response of OpenAI's Responses API; give its 'output'")
    if "messages" in message:
        return Sign(None, "an object that holds the messages; give its 'messages'")
    return None


def _by_parts(message: Mapping[str, object]) -> Sign | None:
    content = message.get("content")
    if not isinstance(content, (list, tuple)) or message.get("role") in ("system", "developer"):
        return None  # instructions may add and remove tools, and hold no calls
    signs = [sign for sign in (_call_part(part, message.get("role")) for part in content) if sign is not None]
    calls = message.get("tool_calls")
    if not signs or (isinstance(calls, (list, tuple)) and len(calls) >= len(signs)):
        return None  # some converters leave the provider's blocks beside the `tool_calls` they made from them
    return signs[0]


def _call_part(part: object, role: object) -> Sign | None:
    fields = as_object(part)
    if fields is not None and ("toolUse" in fields or "toolResult" in fields):
        return Sign(None, "messages of Amazon Bedrock's Converse API (a content part with 'toolUse' or 'toolResult')")
    kind = part_type(part)
    if kind is None or not any(mark in kind for mark in _CALL_PARTS):
        return None
    if kind.endswith(("tool_use", "tool_result")):
        return Sign("anthropic", f"Anthropic messages (a content part of type {kind!r})")
    if kind.startswith("tool-"):
        return Sign(None, f"messages of the Vercel AI SDK (a content part of type {kind!r})")
    return None if role == "tool" else Sign(None, f"another format (a content part of type {kind!r})")


def _by_keys(message: Mapping[str, object]) -> Sign | None:
    for key in ("tool_calls", "function_call"):
        if message.get(key):
            return Sign("openai-chat", f"OpenAI chat messages (calls under {key!r})")
    if message.get("role") in ("tool", "function"):
        return Sign("openai-chat", f"OpenAI chat messages (role {message.get('role')!r})")
    if message.get("toolCalls"):
        return Sign(None, "another format (calls under 'toolCalls'; they belong under 'tool_calls')")
    if isinstance(message.get("parts"), (list, tuple)) and "content" not in message:
        return Sign(None, "messages made of 'parts', as Google's Gemini and OpenTelemetry have them")
    extra = as_object(message.get("additional_kwargs"))
    if extra is not None and extra.get("tool_calls"):
        return Sign(None, "LangChain or LlamaIndex messages (calls under 'additional_kwargs')")
    blocks = message.get("blocks")
    if isinstance(blocks, (list, tuple)):
        kinds = [str((as_object(block) or {}).get("block_type")) for block in blocks]
        if "tool_call" in kinds:
            return Sign(None, "LlamaIndex messages (a block of type 'tool_call')")
    return None


def _hint(message: Mapping[str, object]) -> Sign | None:
    """Return what merely hints at a format: the message reads alike in all of them."""
    content = message.get("content")
    kinds = {part_type(part) for part in content} if isinstance(content, (list, tuple)) else set[str | None]()
    if message.get("type") == "message" and "stop_reason" not in message and not kinds & {"text"}:
        return Sign("openai-responses", "items of OpenAI's Responses API (type 'message')", sure=False)
    if "stop_reason" in message or kinds & _ANTHROPIC_PARTS:
        return Sign("anthropic", "Anthropic messages", sure=False)
    if kinds & _RESPONSES_PARTS:
        return Sign("openai-responses", "items of OpenAI's Responses API", sure=False)
    if kinds & _CHAT_PARTS or "tool_calls" in message or "refusal" in message:
        return Sign("openai-chat", "OpenAI chat messages", sure=False)
    return None
