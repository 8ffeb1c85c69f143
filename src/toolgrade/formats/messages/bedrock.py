"""Reader of the messages of Amazon Bedrock's Converse API, and assembly of the events of `ConverseStream`.

Calls and results are blocks of a message's content, `toolUse` in the assistant's and `toolResult` in the user's; those
of tools that Bedrock runs (of type `server_tool_use`) are both in the assistant's.

Source: Amazon Bedrock API reference, "Message", "ContentBlock", "ConverseStreamOutput".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from toolgrade._internal.json import JsonObject, short_repr
from toolgrade._internal.message_content import Fields, object_of, parts_of, text_or_empty
from toolgrade.calls import ToolCallType
from toolgrade.capture import Request
from toolgrade.formats.messages.content_parts import bedrock_answer
from toolgrade.formats.messages.field_readers import (
    Notes,
    read_arguments,
    read_id,
    read_name,
    read_object,
    read_role,
    read_text,
)
from toolgrade.formats.messages.message import (
    Answer,
    Entry,
    ModelMessage,
    NeutralMessage,
    append_text,
    read_user_input,
)

_SILENT_BLOCKS = frozenset({"reasoningContent", "cachePoint", "toolAddition", "toolRemoval"})


def read_messages(entries: Iterable[Entry], notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the messages; problems go to `notes`."""
    for path, message in entries:
        fields = read_object(message, path, notes, "a message (an object with a role)")
        role = None if fields is None else read_role(fields, ("user", "assistant", "system"), path, notes)
        if fields is None or role not in ("user", "assistant"):
            continue
        parts: list[str | Request] = []
        answers: list[tuple[str, Answer]] = []
        others: list[object] = []
        for index, block in enumerate(parts_of(fields.get("content"))):
            place, body = f"{path}.content[{index}]", object_of(block)
            if "toolUse" in body:
                parts.append(_read_call(object_of(body["toolUse"]), place, notes))
            elif "toolResult" in body:
                answer = bedrock_answer(object_of(body["toolResult"]), place)
                answers.append((place, replace(answer, ran=role == "assistant")))
                parts.append("")  # so that a text after the result does not continue the one before it
            elif role == "user":
                others += _common_parts(block)
            else:
                append_text(parts, read_text(_common_parts(block), place, notes) or "")
        if role == "assistant":
            yield path, ModelMessage(parts)
        elif any(parts):
            notes.problem(path, "a message of role 'user' has a call; only an assistant's message can have one")
        yield from answers
        user = read_user_input(others, path, notes)
        if user is not None:
            yield path, user


def _read_call(fields: Fields, path: str, notes: Notes) -> Request:
    name, call_id = read_name(fields, path, notes), read_id(fields, "toolUseId", path, notes)
    arguments, error = read_arguments(fields.get("input"), path, notes)
    kind = ToolCallType.HOSTED if fields.get("type") == "server_tool_use" else ToolCallType.FUNCTION
    return Request(name, arguments, call_id, kind, error=error, source=path)


def _common_parts(block: object) -> list[object]:
    """Return a block in the form of the other formats; what has no such form has its key as its type."""
    body = object_of(block)
    if not body or "type" in body or "text" in body:
        return [block]
    kind = next(iter(body))
    fields = object_of(body[kind])
    if kind == "citationsContent":
        return parts_of(fields.get("content"))
    if kind == "image":
        data = object_of(fields.get("source")).get("bytes")
        return [{"type": "image", "data": data, "mime_type": f"image/{fields.get('format')}"}]
    return [] if kind in _SILENT_BLOCKS else [{"type": kind}]


def assemble(events: Sequence[tuple[str, Fields]], path: str, notes: Notes) -> JsonObject:
    """Return the response of the events of one stream."""
    response: JsonObject = {"stopReason": None}
    ends = sum("messageStop" in event for _, event in events)
    notes.check_stream(path, is_several=ends > 1, has_end=ends > 0)
    blocks: dict[str, JsonObject] = {}
    for place, event in events:
        ((kind, value),) = event.items()  # each event has one key
        body, index = object_of(value), str(object_of(value).get("contentBlockIndex"))
        if kind == "contentBlockStart":
            blocks[index] = {key: dict(object_of(start)) for key, start in object_of(body.get("start")).items()}
        elif kind == "contentBlockDelta":
            _extend(blocks.setdefault(index, {}), object_of(body.get("delta")))
        elif kind == "messageStop":
            response["stopReason"] = body.get("stopReason")
        elif kind == "metadata":
            response["usage"] = body.get("usage")
        elif kind.endswith("Exception"):
            notes.warn(place, f"the stream broke off with an error: {short_repr(dict(event), 500)}")
    return {**response, "output": {"message": {"role": "assistant", "content": list(blocks.values())}}}


def _extend(block: JsonObject, delta: Fields) -> None:
    """Add a delta to its block: a text, a piece of the arguments, or a result of a tool that Bedrock ran."""
    for kind, piece in delta.items():
        body = block.setdefault(kind, {})
        if isinstance(piece, str):
            block[kind] = text_or_empty(body) + piece
        elif kind == "toolUse":
            body["input"] = text_or_empty(body.get("input")) + text_or_empty(object_of(piece).get("input"))
        elif kind == "toolResult":
            body["content"] = [*parts_of(body.get("content")), *parts_of(piece)]
