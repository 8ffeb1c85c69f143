"""Detection of the format of messages.

Messages of an unsupported format are an error: they must not read as "no calls".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from toolgrade._internal.json import JsonObject
from toolgrade._internal.message_content import Fields, first_of, object_of, part_type
from toolgrade.formats.messages.field_readers import Notes, list_of

if TYPE_CHECKING:
    from toolgrade.formats.messages.message import Entry
    from toolgrade.formats.messages.transcript import FormatName

_CALL_PART = re.compile("tool|function_call")
"""Text in the type of a content part that is a call or its answer, such as `tool-call`; OpenAI has no such parts."""

_ITEM_TYPES = frozenset(
    {
        *("additional_tools", "compaction", "compaction_trigger", "configuration_update", "item_reference"),
        *("mcp_approval_request", "mcp_approval_response", "mcp_list_tools", "message", "program", "program_output"),
        *("reasoning", "tool_search_output"),
    }
)
"""Types of items of OpenAI's Responses API, beside those that end in `_call` or `_call_output`."""

_RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file", "reasoning_text"})
_ANTHROPIC_PARTS = frozenset({"thinking", "redacted_thinking", "container_upload"})
_CHAT_PARTS = frozenset({"image_url", "input_audio"})
"""Types of content parts that only one API has."""

_LANGCHAIN_TYPES = frozenset({"ai", "human", "AIMessage", "HumanMessage", "AIMessageChunk", "constructor"})
_AMBIGUOUS_LANGCHAIN_TYPES = frozenset({"tool", "system", "function", "remove", "developer", "chat"})
"""Types that objects of other libraries have, too: such an object is a message only if it has content."""

_BEDROCK_BLOCKS = (
    *("toolUse", "toolResult", "reasoningContent", "citationsContent", "guardContent"),
    *("image", "document", "video", "audio", "cachePoint"),
)
"""Keys under which a block of Bedrock has an object; other APIs have a type beside such a key, or a text under it."""
_OLLAMA_KEYS = frozenset({"tool_name", "thinking", "done"})
_KEYS_OF_OLLAMA_OR_CHAT = _OLLAMA_KEYS | {"images", "tool_calls"}

_ANTHROPIC_EVENT = re.compile("(message|content_block)_(start|delta|stop)")
RESPONSES_END = re.compile(r"response\.(completed|failed|incomplete|cancelled)")
"""The type of the last event of a stream of the Responses API, which has the whole response."""
_BEDROCK_EVENT = re.compile("(message|contentBlock)(Start|Delta|Stop)|metadata|[a-zA-Z]+Exception")
"""The only key of an event of `ConverseStream`."""
SILENT_EVENTS = frozenset({"ping", "keepalive"})
"""Types of events that belong to any stream and hold nothing of the response."""

_UNSUPPORTED_CALL_KEYS = frozenset(
    {
        *("toolCalls", "tool_call", "toolCall", "toolInvocations", "tool_invocations", "tool_use", "toolUse"),
        *("tool_uses", "function_calls", "functionCall", "functionCalls"),
    }
)
"""Keys under which messages of formats that are not read have their calls."""
_CALL_KEYS = frozenset({"tool_calls", "function_call", "tool_call_id", "refusal"})
_CHAT_KEYS = frozenset({"role", "content", "name", "annotations", "audio"}) | _CALL_KEYS
"""Keys of a chat message. A message with plain text as content and no other keys can only be one."""

CHAT_ROLES = ("user", "assistant", "tool", "system", "developer", "function")
_TEXT_OR_NOTHING = frozenset({str, NoneType})
_ANSWER_ROLES = ("tool", "function")
_INSTRUCTION_ROLES = ("system", "developer")

_CLAUDE_CODE_SHAPES: tuple[set[str], ...] = (
    *({"content", "parent_tool_use_id"}, {"content", "message_id", "model"}),
    *({"subtype", "num_turns"}, {"subtype", "data"}, {"subtype", "session_id"}),
)
"""Keys that identify messages of the Claude Agent SDK, which do not contain the names of their classes, and lines of
its stream."""
_SESSION_KEYS = frozenset({"sessionId", "parentUuid", "leafUuid"})

_OTHER_SHAPES = (
    ({"kind", "parts"}, "Pydantic AI messages"),
    ({"choices"}, "a whole response of OpenAI's Chat Completions API; give its choices[0].message"),
    ({"output", "stopReason"}, "a whole response of Amazon Bedrock's Converse API; give its output.message"),
    ({"messages"}, "an object that holds the messages; give its 'messages'"),
)
"""Keys of objects without a role that are not messages of a supported format, with a description."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The format that a message looks like, `None` for an unsupported one, and a description of what shows it.

    Evidence is conclusive if reading the message as another format would lose calls; otherwise it is a hint.
    """

    format: FormatName | None
    phrase: str
    conclusive: bool = True


_LANGCHAIN = Evidence("langchain", "LangChain messages")
_ADK = Evidence("google-adk", "events of Google's Agent Development Kit")
_CLAUDE_CODE = Evidence("claude-code", "a log of Claude Code or the Claude Agent SDK")
_CALLS = {
    key: Evidence("openai-chat", f"OpenAI chat messages (calls under {key!r})")
    for key in ("tool_calls", "function_call")
}
_ANSWERS = {role: Evidence("openai-chat", f"OpenAI chat messages (role {role!r})") for role in _ANSWER_ROLES}

_HINTS = (
    (Evidence("anthropic", "Anthropic messages", conclusive=False), {"stop_reason"}, _ANTHROPIC_PARTS),
    (Evidence("openai-responses", "items of OpenAI's Responses API", conclusive=False), set[str](), _RESPONSES_PARTS),
    (Evidence("openai-chat", "OpenAI chat messages", conclusive=False), {"tool_calls", "refusal"}, _CHAT_PARTS),
)
"""Hints, each with the keys of a message and the types of content parts that give it."""

_Check: TypeAlias = Callable[[Fields], "Evidence | None"]

Hint: TypeAlias = "tuple[FormatName, str, str]"
"""A format, the path of the value whose form is evidence for it, and a description of that form."""


def detect_format(entries: Sequence[Entry], hints: Sequence[Hint], notes: Notes) -> FormatName:
    """Return the one format of all messages; evidence for another format, or for two, is a problem."""
    if not hints and all(can_only_be_chat(entry) for _, entry in entries):
        return chat_format(entries)  # most recordings
    conclusive: dict[FormatName, tuple[str, str]] = {}
    possible: list[FormatName] = []
    for name, path, phrase in hints:
        conclusive.setdefault(name, (path, phrase))
    for path, entry in entries:
        evidence = evidence_of(object_of(entry))
        if evidence is None:
            continue
        if evidence.format is None:
            supported = "messages of OpenAI, Anthropic, Gemini, Bedrock, Ollama, LangChain, Claude Code or Google ADK"
            notes.problem(path, f"expected {supported}; this looks like {evidence.phrase}")
        elif evidence.conclusive:
            conclusive.setdefault(evidence.format, (path, evidence.phrase))
        else:
            possible.append(evidence.format)
    if len(conclusive) > 1:
        (first, one), (second, other) = list(conclusive.values())[:2]
        notes.problem(second, f"looks like {other}, but {first} like {one}; one list has one format")
    formats: list[FormatName] = [*conclusive, *possible, "openai-chat"]
    return chat_format(entries) if formats[0] == "openai-chat" else formats[0]


def chat_format(entries: Iterable[Entry]) -> FormatName:
    """Return the format of messages in OpenAI's form, which Ollama took over."""
    return "ollama" if any(_is_of_ollama(object_of(entry)) for _, entry in entries) else "openai-chat"


def entries_in_format(format: FormatName, entries: Iterable[Entry], notes: Notes) -> list[Entry]:
    """Return the messages that may have a format; each one that has another format is a problem."""
    return [(path, message) for path, message in entries if may_have_format(format, message, path, notes)]


def may_have_format(format: FormatName, message: object, path: str, notes: Notes) -> bool:
    """Return whether a message may have a format; one that has another format is a problem."""
    evidence, form = evidence_of(object_of(message)), "openai-chat" if format == "ollama" else format
    if evidence is None or evidence.format == form or not evidence.conclusive:
        return True
    notes.problem(path, f"expected a message or item of {format!r}; this looks like {evidence.phrase}")
    return False


def evidence_of(message: Fields) -> Evidence | None:
    """Return the evidence for a format in a message or item, `None` if all formats would write it like this."""
    if can_only_be_chat(message):
        if message["role"] not in _ANSWER_ROLES and _CALL_KEYS.isdisjoint(message):
            return None
        return _key_evidence(message) or _hint(message)
    for check in _CHECKS_WITHOUT_ROLE if message.get("role") is None else _CHECKS_WITH_ROLE:
        evidence = check(message)
        if evidence is not None:
            return evidence
    return None


def can_only_be_chat(message: object) -> TypeGuard[JsonObject]:
    """Return whether a message has a role, plain text or nothing as content, and no key of another format."""
    return (
        type(message) is dict
        and _CHAT_KEYS.issuperset(message)
        and type(message.get("content")) in _TEXT_OR_NOTHING
        and message.get("role") in CHAT_ROLES
    )


def is_claude_code(value: Fields) -> bool:
    """Return whether an object is a message of Claude Code: a line of its logs, or from its SDK."""
    if "role" in value:
        return False
    if value.get("type") in ("user", "assistant"):
        return "role" in object_of(value.get("message"))
    return any(value.keys() >= keys for keys in _CLAUDE_CODE_SHAPES)


def is_adk_event(value: Fields) -> bool:
    """Return whether an object is an event of a session of Google's Agent Development Kit."""
    return "author" in value and not value.keys().isdisjoint(("invocation_id", "invocationId"))


def is_adk_session(value: Fields) -> bool:
    """Return whether an object is a session of Google's Agent Development Kit."""
    return "events" in value and not value.keys().isdisjoint(("app_name", "appName"))


def is_item(message: Fields) -> bool:
    """Return whether an object without a role is an item of OpenAI's Responses API."""
    return _item_evidence(_type_of(message), _ITEM_TYPES) is not None


def stream_of(event: Fields) -> FormatName | None:
    """Return the format of the stream that an object is an event of, `None` if it is not an event.

    The last event of some streams is a whole response.
    """
    kind = _type_of(event)
    # Azure's chunks with the results of its filter have the object "".
    if event.get("object") == "chat.completion.chunk" or (event.get("object") == "" and "choices" in event):
        return "openai-chat"
    if _ANTHROPIC_EVENT.fullmatch(kind):
        return "anthropic"
    if kind.startswith("response."):
        return "openai-responses"
    if len(event) == 1 and _BEDROCK_EVENT.fullmatch(next(iter(event))):
        return "bedrock"
    if "done" in event and "message" in event:
        return "ollama"
    return "gemini" if "candidates" in event and "contents" not in event else None


def is_event(value: object) -> bool:
    """Return whether a value is an event of a stream; its last event may contain the whole response."""
    event = object_of(value)
    return stream_of(event) is not None or _type_of(event) in SILENT_EVENTS


def is_piece(value: object) -> bool:
    """Return whether a value is an event of a stream that contains only a piece of the response."""
    event = object_of(value)
    stream = stream_of(event)
    if stream == "openai-responses":
        return RESPONSES_END.fullmatch(_type_of(event)) is None
    if stream == "ollama":
        return not event["done"]
    if stream == "gemini":
        candidates = map(object_of, list_of(event["candidates"]))
        return not any(first_of(candidate, "finishReason", "finish_reason") for candidate in candidates)
    return is_event(event)


def _is_of_ollama(message: Fields) -> bool:
    """Return whether a chat message can only be one of Ollama."""
    if _KEYS_OF_OLLAMA_OR_CHAT.isdisjoint(message):
        return False  # most messages
    if any(message.get(key) is not None for key in _OLLAMA_KEYS):
        return True
    if isinstance(next(iter(list_of(message.get("images"))), None), str):  # other APIs have objects there
        return True
    # Ollama's calls have no ids, and an object as arguments, where OpenAI's have JSON text.
    call = object_of(next(iter(list_of(message.get("tool_calls"))), None))
    return call.get("id") is None and type(object_of(call.get("function")).get("arguments")) is dict


def _claude_code_evidence(message: Fields) -> Evidence | None:
    """Return the evidence in a message of Claude Code, and in any other line of its session files."""
    is_of_session = "type" in message and not _SESSION_KEYS.isdisjoint(message)
    return _CLAUDE_CODE if is_of_session or is_claude_code(message) else None


def _adk_evidence(message: Fields) -> Evidence | None:
    return _ADK if is_adk_event(message) else None


def _type_evidence(message: Fields) -> Evidence | None:
    """Return the evidence in the type of an object without a role."""
    kind = _type_of(message)
    if "lc" in message or _is_langchain_type(kind, message):
        return _LANGCHAIN
    return _item_evidence(kind, _ITEM_TYPES) or _gemini_evidence(message)


def _is_langchain_type(kind: str, message: Fields) -> bool:
    if kind in _AMBIGUOUS_LANGCHAIN_TYPES:
        return "content" in message or "data" in message
    return kind in _LANGCHAIN_TYPES


def _item_evidence(kind: str, item_types: Collection[str]) -> Evidence | None:
    if kind in item_types or kind.endswith(("_call", "_call_output")):
        return Evidence("openai-responses", f"items of OpenAI's Responses API (type {kind!r})")
    return None


def _gemini_evidence(message: Fields) -> Evidence | None:
    """Return the evidence in the role `model`, or in `parts` without a type; the parts of other formats have one."""
    parts = message.get("parts")
    has_parts = isinstance(parts, (list, tuple)) and message.keys().isdisjoint(("content", "kind"))
    has_type = any(object_of(part).keys() & {"type", "kind", "part_kind"} for part in list_of(parts))
    if (has_parts and not has_type) or message.get("role") == "model":
        return Evidence("gemini", "contents of Google's Gemini API")
    return None


def _shape_evidence(message: Fields) -> Evidence | None:
    """Return the evidence in the keys of an object without a role."""
    if message.get("object") == "response":
        return Evidence(None, "a whole response of OpenAI's Responses API; give its 'output'")
    for keys, phrase in _OTHER_SHAPES:
        if message.keys() >= keys:
            return Evidence(None, phrase)
    return None


def _type_evidence_beside_role(message: Fields) -> Evidence | None:
    """Return the evidence in the type of a message with a role; most types say nothing then, such as `message`."""
    if "lc" in message:
        return _LANGCHAIN
    return _item_evidence(_type_of(message), {"additional_tools"}) or _gemini_evidence(message)


def _part_evidence(message: Fields) -> Evidence | None:
    """Return the evidence in the content parts of a message that are calls or answers."""
    role = message["role"]
    if role in _INSTRUCTION_ROLES:
        return None  # instructions may add and remove tools, and hold no calls
    parts = list_of(message.get("content"))
    evidence = list(filter(None, (_call_part_evidence(part, role) for part in parts)))
    # Some converters keep the provider's blocks next to the `tool_calls` that they made from them.
    return evidence[0] if len(evidence) > len(list_of(message.get("tool_calls"))) else None


def _call_part_evidence(part: object, role: object) -> Evidence | None:
    if object_of(part).keys() & {"toolUse", "toolResult"}:
        phrase = "messages of Amazon Bedrock's Converse API (a content part with 'toolUse' or 'toolResult')"
        return Evidence("bedrock", phrase)
    kind = _type_of(part)
    if kind.endswith(("tool_use", "tool_result")):
        return Evidence("anthropic", f"Anthropic messages (a content part of type {kind!r})")
    if kind.startswith("tool-"):
        return Evidence(None, f"messages of the Vercel AI SDK (a content part of type {kind!r})")
    if role != "tool" and _CALL_PART.search(kind):
        return Evidence(None, f"another format (a content part of type {kind!r})")
    return None


def _key_evidence(message: Fields) -> Evidence | None:
    """Return the evidence in the role of a message and in the keys that hold its calls."""
    for key, evidence in _CALLS.items():
        if message.get(key):
            return evidence
    role = message["role"]
    return _ANSWERS[role] if role in _ANSWER_ROLES else _unsupported_call_evidence(message)


def _unsupported_call_evidence(message: Fields) -> Evidence | None:
    """Return the evidence in calls of a message under a key where no supported format has them."""
    for key in message.keys() & _UNSUPPORTED_CALL_KEYS:
        if list_of(message[key]) or object_of(message[key]):
            return Evidence(None, f"another format (calls under {key!r}; they belong under 'tool_calls')")
    parts = list_of(message.get("parts"))
    if any(_CALL_PART.search(_type_of(part)) for part in parts) or (parts and "content" not in message):
        return Evidence(None, "messages with 'parts', as OpenTelemetry and the Vercel AI SDK have them")
    if object_of(message.get("additional_kwargs")).get("tool_calls"):
        return Evidence(None, "LangChain or LlamaIndex messages (calls under 'additional_kwargs')")
    if any(str(object_of(block).get("block_type")) == "tool_call" for block in list_of(message.get("blocks"))):
        return Evidence(None, "LlamaIndex messages (a block of type 'tool_call')")
    return None


def _hint(message: Fields) -> Evidence | None:
    """Return evidence that is not conclusive: read as any other format, the message has no fewer calls."""
    parts = list_of(message.get("content"))
    types = {part_type(part) for part in parts}
    if any(part_type(part) is None and object_of(first_of(object_of(part), *_BEDROCK_BLOCKS)) for part in parts):
        return Evidence("bedrock", "messages of Amazon Bedrock's Converse API", conclusive=False)
    if _is_message_item(message) and "text" not in types:
        return Evidence("openai-responses", "items of OpenAI's Responses API (type 'message')", conclusive=False)
    for hint, keys, part_types in _HINTS:
        if not (keys.isdisjoint(message) and part_types.isdisjoint(types)):
            return hint
    return None


def _is_message_item(message: Fields) -> bool:
    return message.get("type") == "message" and "stop_reason" not in message


def _type_of(value: object) -> str:
    return part_type(value) or ""


# The first evidence counts, so a check that knows more comes first.
_CHECKS_WITHOUT_ROLE: tuple[_Check, ...] = (_claude_code_evidence, _adk_evidence, _type_evidence, _shape_evidence)
_CHECKS_WITH_ROLE: tuple[_Check, ...] = (_type_evidence_beside_role, _part_evidence, _key_evidence, _hint)
