"""What did the agent of these messages of LangChain do? Dumps of them, in the forms that LangChain writes.

Forms: `dumps` (`{"lc": 1, "type": "constructor", ...}`), `messages_to_dict` (`{"type": "ai", "data": {...}}`),
`model_dump` (`{"type": "ai", "content": ...}`), and the message objects themselves. Calls stand under `tool_calls`,
those whose arguments could not be read under `invalid_tool_calls`, those that the provider ran in the content blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolmark._internal.json import short_repr
from toolmark.calls import ToolCallType
from toolmark.capture import Request
from toolmark.errors import InvalidDataError
from toolmark.formats.messages.content_parts import call_of, piece_of
from toolmark.formats.messages.field_readers import (
    Notes,
    as_object,
    first_of,
    output_of,
    read_id,
    read_text,
    text_of,
)
from toolmark.formats.messages.transcript import Answer, Entry, Telling
from toolmark.matching.json_compare import ABSENT

_KINDS = {
    "AIMessage": "ai",
    "AIMessageChunk": "ai",
    "HumanMessage": "human",
    "HumanMessageChunk": "human",
    "ToolMessage": "tool",
    "ToolMessageChunk": "tool",
    "FunctionMessage": "function",
    "SystemMessage": "system",
    "ChatMessage": "chat",
}
_TYPES = frozenset({"ai", "human", "tool", "function", "system", "chat", "remove", "developer"})
_ROLES = {"user": "human", "assistant": "ai", "tool": "tool", "system": "system"}
_USAGE = ("input_tokens", "output_tokens", "total_tokens")
_PROVIDED = frozenset({ToolCallType.HOSTED, ToolCallType.MCP})


def message_fields(value: object) -> Mapping[str, Any] | None:
    """Return the fields of a message of LangChain, with its `type` (`ai`, `human`, ...); `None` for anything else."""
    given = as_object(value)
    if given is None:
        return None
    fields: Mapping[str, Any] = given
    kind = str(fields.get("type"))
    if fields.get("lc") is not None and kind == "constructor":
        names = fields.get("id")
        name = names[-1] if isinstance(names, list) and names else ""
        inner, kind = as_object(fields.get("kwargs")) or {}, str(name)
    elif "data" in fields and "role" not in fields:
        inner = as_object(fields["data"]) or {}
    else:
        inner = fields
    kind = _KINDS.get(kind, kind)
    if kind not in _TYPES or "role" in fields:
        return None
    if kind == "chat":
        kind = _ROLES.get(str(inner.get("role")), "system")
    return {**inner, "type": kind} if "content" in inner or "tool_calls" in inner or kind == "remove" else None


def tell_messages(messages: Iterable[Entry], telling: Telling) -> None:
    """Tell what messages say; what is wrong goes into the notes, with its path."""
    for path, message in messages:
        fields = message_fields(message)
        if fields is None:
            telling.notes.problem(path, f"expected a message of LangChain, got {short_repr(message)}")
            continue
        kind = fields["type"]
        if kind == "ai":
            _tell_model(fields, path, telling)
        elif kind in ("tool", "function"):
            telling.answer(result_of(fields, path, telling.notes), path)
        elif kind == "human":
            text = read_text(fields.get("content"), f"{path}.content", telling.notes)
            if text is not None:
                telling.user(text)


def _tell_model(fields: Mapping[str, Any], path: str, telling: Telling) -> None:
    requests, answers = calls_of(fields, path, telling.notes)
    texts = [
        piece for part in blocks_of(fields.get("content")) if isinstance(piece := piece_of(part, path), str) and piece
    ]
    telling.model(["".join(texts), *requests])
    usage = as_object(fields.get("usage_metadata")) or {}
    counts = {name: count for name in _USAGE if isinstance(count := usage.get(name), int)}
    model = text_of((as_object(fields.get("response_metadata")) or {}).get("model_name"))
    if model or counts:
        telling.model_used(model, counts)
    for answer in answers:
        telling.answer(replace(answer, ran=True), path)


def blocks_of(content: object) -> list[Any]:
    """Return the parts of a content; a text is one part."""
    return list(content) if isinstance(content, (list, tuple)) else [] if content is None else [content]


def calls_of(fields: Mapping[str, Any], path: str, notes: Notes) -> tuple[list[Request], list[Answer]]:
    """Return the calls of a message of the model, and the answers to those that the provider ran.

    Blocks that repeat what stands under `tool_calls` are passed over. A call without a name is a problem.
    """
    requests: list[Request] = []
    for key in ("tool_calls", "invalid_tool_calls"):
        for index, entry in enumerate(blocks_of(fields.get(key))):
            place = f"{path}.{key}[{index}]"
            given = as_object(entry) or {}
            try:
                found = call_of(given, path=place, empty={})
            except InvalidDataError as error:
                notes.add_error(error, place)
                continue
            if found is None:
                notes.problem(
                    f"{place}.name", f"a call needs the name of its tool, got {short_repr(given.get('name'))}"
                )
            elif key == "invalid_tool_calls":
                # An empty text is no JSON object either; LangChain says so by where it puts the call.
                raw, told = first_of(given, "args", "arguments"), text_of(given.get("error"))
                requests.append(replace(found, arguments=str(raw or ""), error=told or found.error))
            else:
                requests.append(found)
    if not requests:
        requests = _calls_beside(fields, path)
    answers: list[Answer] = []
    for index, block in enumerate(blocks_of(fields.get("content"))):
        piece = piece_of(block, f"{path}.content[{index}]")
        if isinstance(piece, Answer):
            answers.append(piece)
        elif isinstance(piece, Request) and piece.type in _PROVIDED:
            requests.append(piece)
    return requests, answers


def _calls_beside(fields: Mapping[str, Any], path: str) -> list[Request]:
    """Return the calls that stand only as the provider wrote them."""
    extra = as_object(fields.get("additional_kwargs")) or {}
    place = f"{path}.additional_kwargs.tool_calls"
    listed = [
        call_of(as_object(entry) or {}, path=f"{place}[{index}]", empty={})
        for index, entry in enumerate(blocks_of(extra.get("tool_calls")))
    ]
    return [request for request in listed if request is not None]


def result_of(fields: Mapping[str, Any], path: str, notes: Notes) -> Answer:
    """Return the answer that a message of a tool is."""
    content = fields.get("content")
    return Answer(
        read_id(fields.get("tool_call_id"), f"{path}.tool_call_id", notes),
        text_of(fields.get("name")),
        ABSENT if content is None else output_of(content),
        fields.get("status") == "error",
    )
