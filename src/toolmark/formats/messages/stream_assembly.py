"""Assembly of the events of a stream into the response that they transport.

Streams are chunks of Chat Completions, events of the Responses API, and events of Anthropic's Messages API, in the
order in which they came. A broken stream gives what it has: argument text that ends too early is not JSON, so the call
has invalid arguments.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolmark._internal.message_content import Fields, as_object, object_of, parts_of, text_of
from toolmark.formats.messages.field_readers import Notes, list_of

_Assembler: TypeAlias = "Callable[[Sequence[Fields], list[str]], tuple[dict[str, Any], bool]]"
"""Takes the events, and a list for the keys whose pieces have types that cannot be joined; the last piece counts."""

_CHUNK = "chat.completion.chunk"
_ANTHROPIC_EVENT = re.compile(r"(?:message|content_block)_(?:start|delta|stop)")
_UNFINISHED_EVENTS = frozenset({"response.created", "response.in_progress", "response.queued"})
_GROWING_TEXTS = frozenset({"content", "refusal", "arguments", "input"})
"""Keys of a chunk's message whose texts arrive in pieces."""
_BLOCK_KEYS = {"text": "text", "thinking": "thinking", "partial_json": "input"}
"""Keys of the texts in the deltas of Anthropic's blocks, each with the key of the block that grows by it."""


def assemble_response(values: Sequence[object], path: str, notes: Notes) -> dict[str, Any] | None:
    """Return the body of the response that events add up to; `None` if these are not the events of a stream.

    An error that the provider sent and a missing end are warnings.
    """
    events = [object_of(value) for value in values]
    assemble = next(filter(None, map(_assembler_of, events)), None)
    if assemble is None:
        return None
    for index, event in enumerate(events):
        if event.get("error"):
            notes.warn(f"{path}[{index}]", f"the stream broke off with an error: {event['error']!r}")
    mixed_keys: list[str] = []
    body, is_complete = assemble(events, mixed_keys)
    for key in dict.fromkeys(mixed_keys):
        notes.warn(path, f"the pieces of {key!r} have different types; the last was read")
    if not is_complete:
        notes.warn(path, "the stream has no end; the part before was read")
    return body


def _assembler_of(event: Fields) -> _Assembler | None:
    """Return the function that reads a stream with this event; `None` for an event of any stream, and other values."""
    kind = _type_of(event)
    if event.get("object") == _CHUNK:
        return _chat_response
    if _ANTHROPIC_EVENT.fullmatch(kind):
        return _anthropic_message
    return _openai_response if kind.startswith("response.") else None


def _type_of(event: Fields) -> str:
    return text_of(event.get("type")) or ""


@dataclass
class _Choice:
    """One choice of a stream of Chat Completions, which grows piece by piece."""

    message: dict[str, Any] = field(default_factory=lambda: {"role": "assistant"})
    calls: dict[object, dict[str, Any]] = field(default_factory=dict)
    finish_reason: object = None

    def add(self, piece: Fields, mixed_keys: list[str]) -> None:
        """Add one entry of a chunk's `choices`."""
        delta = object_of(piece.get("delta"))
        _merge(self.message, delta, mixed_keys)
        for call in map(object_of, list_of(delta.get("tool_calls"))):
            _merge(self._slot_of(call), call, mixed_keys)
        self.finish_reason = piece.get("finish_reason") or self.finish_reason

    def _slot_of(self, call: Fields) -> dict[str, Any]:
        """Return the call that a piece belongs to: by index; if a server sends none, a new id begins a new call."""
        calls, call_id = self.calls, call.get("id")
        index: object = str(call.get("index"))
        if call.get("index") is None:
            matching = [key for key, other in calls.items() if call_id in (None, "", other.get("id"))]
            index = [("no index", len(calls)), *matching][-1]
        slot_id = calls.get(index, {}).get("id")
        if call_id and slot_id and call_id != slot_id:
            index = (index, str(call_id))  # some servers give every call the index 0
        return calls.setdefault(index, {})

    def assembled(self) -> dict[str, Any]:
        """Return the choice of a response."""
        message = {**self.message, "tool_calls": list(self.calls.values())}
        return {"message": message, "finish_reason": self.finish_reason}


def _chat_response(chunks: Sequence[Fields], mixed_keys: list[str]) -> tuple[dict[str, Any], bool]:
    """Return a response of Chat Completions, and whether all of its choices have an end."""
    body: dict[str, Any] = {}
    choices: dict[str, _Choice] = defaultdict(_Choice)
    for chunk in chunks:
        body |= {key: chunk[key] for key in ("model", "usage") if chunk.get(key) is not None}
        for piece in map(object_of, list_of(chunk.get("choices"))):
            choices[str(piece.get("index", 0))].add(piece, mixed_keys)
    is_complete = all(choice.finish_reason for choice in choices.values())
    return {**body, "choices": [choice.assembled() for choice in choices.values()]}, is_complete


def _merge(message: dict[str, Any], delta: Fields, mixed_keys: list[str]) -> None:
    """Add one delta to a message: texts and content parts grow, objects are merged, other values are replaced."""
    for key, value in delta.items():
        old = message.get(key)
        if key == "content" and (isinstance(value, list) or isinstance(old, list)):
            # Mistral sends thoughts as lists of parts, and the answer after them as text.
            message[key] = _content_parts(old) + _content_parts(value)
        elif isinstance(value, Mapping):
            message[key] = dict(old) if isinstance(old, dict) else {}
            _merge(message[key], value, mixed_keys)
        elif key in _GROWING_TEXTS and isinstance(value, str):
            message[key] = (text_of(old) or "") + value
        elif not old or value not in (None, ""):
            # Later chunks of some servers have empty names and ids, which replace nothing.
            message[key] = value
        if old and type(message[key]) is not type(old) and not isinstance(message[key], list):
            mixed_keys.append(key)


def _content_parts(content: object) -> list[Any]:
    """Return the content of a message as a list of parts; texts become text parts."""
    parts = parts_of(content)
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts if part != ""]


def _openai_response(events: Sequence[Fields], _mixed_keys: list[str]) -> tuple[dict[str, Any], bool]:
    """Return a response of the Responses API, and whether it has an end."""
    body: dict[str, Any] = {}
    is_complete = False
    items: dict[str, object] = {}
    for event in events:
        response = as_object(event.get("response"))
        if response is not None:
            body, is_complete = dict(response), _type_of(event) not in _UNFINISHED_EVENTS
        if _type_of(event) in ("response.output_item.added", "response.output_item.done"):
            items[str(event.get("output_index", len(items)))] = event.get("item")
    if not body.get("output"):
        body["output"] = list(items.values())
    return {"object": "response", **body}, is_complete


def _anthropic_message(events: Sequence[Fields], mixed_keys: list[str]) -> tuple[dict[str, Any], bool]:
    """Return a message of Anthropic's Messages API, and whether it has an end."""
    body: dict[str, Any] = {"role": "assistant", "stop_reason": None}
    blocks: dict[str, dict[str, Any]] = {}
    for event in events:
        kind, index, delta = _type_of(event), str(event.get("index")), object_of(event.get("delta"))
        if kind == "message_start":
            body |= object_of(event.get("message"))
        elif kind == "content_block_start":
            blocks[index] = dict(object_of(event.get("content_block")))
        elif kind == "content_block_delta":
            _extend(blocks.setdefault(index, {"type": "text"}), delta, mixed_keys)
        elif kind == "message_delta":
            body["usage"] = {**object_of(body.get("usage")), **object_of(event.get("usage"))}
            body |= delta
    is_complete = "message_stop" in map(_type_of, events)
    return {**body, "content": list(blocks.values())}, is_complete


def _extend(block: dict[str, Any], delta: Fields, mixed_keys: list[str]) -> None:
    """Add the texts of a delta to a block."""
    for key, block_key in _BLOCK_KEYS.items():
        if isinstance(delta.get(key), str):
            old = block.get(block_key)
            if old and not isinstance(old, str):
                mixed_keys.append(key)
            block[block_key] = (text_of(old) or "") + delta[key]
