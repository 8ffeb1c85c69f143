"""Reader of the messages of Amazon Bedrock's Converse API, and assembly of the events of `ConverseStream`.

Calls and results are blocks of a message's content, `toolUse` in the assistant's and `toolResult` in the user's; those
of tools that Bedrock runs (of type `server_tool_use`) are both in the assistant's. A block becomes one of Anthropic's,
which says the same.

Source: Amazon Bedrock API reference, "Message", "ContentBlock", "ConverseStreamOutput".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from toolgrade._internal.json import JsonObject, short_repr
from toolgrade._internal.message_content import Fields, object_of, parts_of, text_or_empty
from toolgrade.formats.messages import anthropic
from toolgrade.formats.messages.content_parts import bedrock_answer
from toolgrade.formats.messages.field_readers import Notes
from toolgrade.formats.messages.message import Entry, NeutralMessage


def read_messages(entries: Iterable[Entry], notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the messages; problems go to `notes`."""
    return anthropic.read_messages(((path, _message(entry)) for path, entry in entries), notes)


def _message(entry: object) -> object:
    fields = object_of(entry)
    is_model = fields.get("role") == "assistant"
    return {**fields, "content": [_block(block, is_model=is_model) for block in parts_of(fields.get("content"))]}


def _block(block: object, *, is_model: bool) -> object:
    """Return a block as one of Anthropic; what has no such form has its key as its type."""
    fields = object_of(block)
    if not fields or "type" in fields or "text" in fields:
        return block
    kind = next(iter(fields))
    body = object_of(fields[kind])
    if kind == "toolUse":
        return {"type": "tool_use", **body, "id": body.get("toolUseId")}
    if kind == "toolResult":
        answer = bedrock_answer(body, "")
        kind = "server_tool_result" if is_model else "tool_result"
        return {"type": kind, "tool_use_id": answer.call_id, "output": answer.content, "is_error": answer.failed}
    if kind == "image":
        data = object_of(body.get("source")).get("bytes")
        return {"type": "image", "data": data, "mime_type": f"image/{body.get('format')}"}
    if kind == "citationsContent":
        return {
            "type": "text",
            "text": "".join(text_or_empty(object_of(part).get("text")) for part in parts_of(body.get("content"))),
        }
    return {"type": "thinking" if kind in ("reasoningContent", "cachePoint") else kind}


def assemble(events: Sequence[tuple[str, Fields]], path: str, notes: Notes) -> JsonObject:
    """Return the response of the events of one stream, which have their kind as their key."""
    response: JsonObject = {"stopReason": None}
    blocks: dict[str, JsonObject] = {}
    for place, kind, value in [(place, *item) for place, event in events for item in event.items()]:
        body, index = object_of(value), str(object_of(value).get("contentBlockIndex"))
        if kind == "contentBlockStart":
            blocks[index] = {key: dict(object_of(start)) for key, start in object_of(body.get("start")).items()}
        elif kind == "contentBlockDelta":
            _extend(blocks.setdefault(index, {}), object_of(body.get("delta")))
        elif kind.endswith("Exception"):
            notes.warn(place, f"the stream broke off with an error: {short_repr({kind: value}, 500)}")
        elif kind != "messageStart":
            response |= body  # `stopReason`, `usage`
    starts, ends = (sum(kind in event for _, event in events) for kind in ("messageStart", "messageStop"))
    notes.check_stream(path, is_several=max(starts, ends) > 1, has_end=ends > 0)
    return {**response, "output": {"message": {"role": "assistant", "content": list(blocks.values())}}}


def _extend(block: JsonObject, delta: Fields) -> None:
    """Add a delta to its block: a text, a piece of the arguments, or a result of a tool that Bedrock ran."""
    for kind, piece in delta.items():
        if isinstance(piece, str):
            block[kind] = text_or_empty(block.get(kind)) + piece
            continue
        body = block[kind] = dict(object_of(block.get(kind)))
        if kind == "toolUse":
            body["input"] = text_or_empty(body.get("input")) + text_or_empty(object_of(piece).get("input"))
        elif kind == "toolResult":
            body["content"] = [*parts_of(body.get("content")), *parts_of(piece)]
