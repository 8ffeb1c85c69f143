"""Detection of the format of messages.

A message that another format is sure to have is refused, so that calls in a form that is not read never count as none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from toolmark.formats.messages.field_readers import Fields, Notes, list_of, object_of, part_type, text_of

if TYPE_CHECKING:
    from toolmark.formats.messages.transcript import Entry, FormatName

_CALL_PARTS = ("tool", "function_call")
"""A content part whose type contains one of these is a call or its answer. OpenAI's messages have no such parts."""

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
_AMBIGUOUS_LANGCHAIN_TYPES = frozenset({"tool", "system", "function", "remove", "developer", "chat"})
"""Types that other things have, too; they are a message's only if it has content."""

_CHAT_KEYS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
"""Keys of an ordinary chat message. With plain text as content, one with no other key can have no other form."""

_ANSWER_ROLES = ("tool", "function")

_OTHER_SHAPES = (
    (("kind", "parts"), "Pydantic AI messages"),
    (("choices",), "a whole response of OpenAI's Chat Completions API; give its choices[0].message"),
    (("messages",), "an object that holds the messages; give its 'messages'"),
)
"""Keys of objects without a role that are not messages of a supported format, with a description."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a message looks like: one of the formats that are read, or `None` for another one, with a description.

    It is `conclusive` where reading the message as another format would lose calls; otherwise it is a hint.
    """

    format: FormatName | None
    phrase: str
    conclusive: bool = True


Hint: TypeAlias = "tuple[FormatName, str, str]"
"""A format, the path of the value whose form is evidence for it, and a description of that form."""


def detect_format(entries: Iterable[Entry], hints: Iterable[Hint], notes: Notes) -> FormatName:
    """Return the one format of all messages; evidence for another format, or for two, is a problem."""
    conclusive: dict[FormatName, tuple[str, str]] = {}
    possible: list[FormatName] = []
    for name, path, phrase in hints:
        conclusive.setdefault(name, (path, phrase))
    for path, entry in entries:
        evidence = evidence_of(object_of(entry))
        if evidence is None:
            continue
        if evidence.format is None:
            supported = "messages of OpenAI, Anthropic or LangChain"
            notes.problem(path, f"expected {supported}; this looks like {evidence.phrase}")
        elif evidence.conclusive:
            conclusive.setdefault(evidence.format, (path, evidence.phrase))
        else:
            possible.append(evidence.format)
    if len(conclusive) > 1:
        (first, one), (second, other) = list(conclusive.values())[:2]
        notes.problem(second, f"looks like {other}, but {first} like {one}; one list has one format")
    formats: list[FormatName] = [*conclusive, *possible, "openai-chat"]
    return formats[0]


def entries_in_format(format: FormatName, entries: Iterable[Entry], notes: Notes) -> list[Entry]:
    """Return the messages that may have a format; each one that has another format is a problem."""
    fitting: list[Entry] = []
    for path, entry in entries:
        evidence = evidence_of(object_of(entry))
        if evidence is not None and evidence.conclusive and evidence.format != format:
            notes.problem(path, f"expected a message or item of {format!r}; this looks like {evidence.phrase}")
        else:
            fitting.append((path, entry))
    return fitting


def evidence_of(message: Fields) -> Evidence | None:
    """Return the evidence for a format in a message or item, `None` if it is equal in all formats."""
    role = message.get("role")
    if isinstance(role, str) and message.keys() <= _CHAT_KEYS and not isinstance(message.get("content"), (list, tuple)):
        has_calls = "tool_calls" in message or role in _ANSWER_ROLES
        return (_key_evidence(message) or _hint(message)) if has_calls else None
    if role is None:
        return _type_evidence(message) or _shape_evidence(message)
    return _type_evidence(message) or _part_evidence(message) or _key_evidence(message) or _hint(message)


def _type_evidence(message: Fields) -> Evidence | None:
    kind, has_role = text_of(message.get("type")) or "", message.get("role") is not None
    if "lc" in message or (not has_role and _is_langchain(kind, message)):
        return Evidence("langchain", "LangChain messages")
    is_item = kind in _ITEM_TYPES and (not has_role or kind == "additional_tools")
    if is_item or kind.endswith(("_call", "_call_output")):
        return Evidence("openai-responses", f"items of OpenAI's Responses API (type {kind!r})")
    return None


def _is_langchain(kind: str, message: Fields) -> bool:
    has_content = "content" in message or "data" in message
    return kind in _LANGCHAIN_TYPES or (has_content and kind in _AMBIGUOUS_LANGCHAIN_TYPES)


def _shape_evidence(message: Fields) -> Evidence | None:
    if message.get("object") == "response":
        return Evidence(None, "a whole response of OpenAI's Responses API; give its 'output'")
    for keys, phrase in _OTHER_SHAPES:
        if message.keys() >= set(keys):
            return Evidence(None, phrase)
    return None


def _part_evidence(message: Fields) -> Evidence | None:
    if message["role"] in ("system", "developer"):
        return None  # instructions may add and remove tools, and hold no calls
    evidence = [_call_part_evidence(part, message["role"]) for part in list_of(message.get("content"))]
    conclusive = [one for one in evidence if one is not None]
    # Some converters keep the provider's blocks next to the `tool_calls` that they made from them.
    if not conclusive or len(list_of(message.get("tool_calls"))) >= len(conclusive):
        return None
    return conclusive[0]


def _call_part_evidence(part: object, role: object) -> Evidence | None:
    if object_of(part).keys() & {"toolUse", "toolResult"}:
        phrase = "messages of Amazon Bedrock's Converse API (a content part with 'toolUse' or 'toolResult')"
        return Evidence(None, phrase)
    kind = part_type(part) or ""
    if kind.endswith(("tool_use", "tool_result")):
        return Evidence("anthropic", f"Anthropic messages (a content part of type {kind!r})")
    if kind.startswith("tool-"):
        return Evidence(None, f"messages of the Vercel AI SDK (a content part of type {kind!r})")
    if role != "tool" and any(mark in kind for mark in _CALL_PARTS):
        return Evidence(None, f"another format (a content part of type {kind!r})")
    return None


def _key_evidence(message: Fields) -> Evidence | None:
    for key in ("tool_calls", "function_call"):
        if message.get(key):
            return Evidence("openai-chat", f"OpenAI chat messages (calls under {key!r})")
    if message["role"] in _ANSWER_ROLES:
        return Evidence("openai-chat", f"OpenAI chat messages (role {message['role']!r})")
    if message.get("toolCalls"):
        return Evidence(None, "another format (calls under 'toolCalls'; they belong under 'tool_calls')")
    if isinstance(message.get("parts"), (list, tuple)) and "content" not in message:
        return Evidence(None, "messages with 'parts', as Google's Gemini and OpenTelemetry have them")
    if object_of(message.get("additional_kwargs")).get("tool_calls"):
        return Evidence(None, "LangChain or LlamaIndex messages (calls under 'additional_kwargs')")
    blocks = list_of(message.get("blocks"))
    if any(str(object_of(block).get("block_type")) == "tool_call" for block in blocks):
        return Evidence(None, "LlamaIndex messages (a block of type 'tool_call')")
    return None


def _hint(message: Fields) -> Evidence | None:
    """Return evidence that is not conclusive: the message means the same in all formats."""
    kinds = {part_type(part) for part in list_of(message.get("content"))}
    if message.get("type") == "message" and "stop_reason" not in message and "text" not in kinds:
        return Evidence("openai-responses", "items of OpenAI's Responses API (type 'message')", conclusive=False)
    if "stop_reason" in message or kinds & _ANTHROPIC_PARTS:
        return Evidence("anthropic", "Anthropic messages", conclusive=False)
    if kinds & _RESPONSES_PARTS:
        return Evidence("openai-responses", "items of OpenAI's Responses API", conclusive=False)
    if kinds & _CHAT_PARTS or "tool_calls" in message or "refusal" in message:
        return Evidence("openai-chat", "OpenAI chat messages", conclusive=False)
    return None
