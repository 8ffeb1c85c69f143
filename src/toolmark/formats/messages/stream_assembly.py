"""What response do the events of this stream add up to?

Chunks of Chat Completions, events of the Responses API and of Anthropic's Messages API, in the order in which they
came. What a stream that broke off leaves unfinished stays as far as it came: argument text that ends too early is no
JSON, and the call has invalid arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from toolmark.formats.messages.field_readers import Notes, as_object

_Fields: TypeAlias = Mapping[str, object]

_ANTHROPIC = frozenset(
    {
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
)
_PASSED_OVER = frozenset({"ping", "error"})


def response_of(events: Sequence[object], path: str, notes: Notes) -> dict[str, Any] | None:
    """Return the body of the response that the events add up to; `None` if these are no events of a stream.

    Args:
        events: The events, without those of other streams.
        path: JSON path of the list.
        notes: Takes what is wrong: an error that the provider sent, and a stream that has no end.
    """
    known = [as_object(event) or {} for event in events]
    if not known or not any(map(_is_event, known)):
        return None
    for index, event in enumerate(known):
        if event.get("error"):
            notes.warn(f"{path}[{index}]", f"the stream broke off with an error: {event['error']!r}")
    told = [event for event in known if event.get("type") not in _PASSED_OVER]
    if any(event.get("object") == "chat.completion.chunk" for event in told):
        return _chat(told, path, notes)
    if any(event.get("type") in _ANTHROPIC for event in told):
        return _anthropic(told, path, notes)
    return _responses(told, path, notes)


def _is_event(event: _Fields) -> bool:
    kind = event.get("type")
    return (
        event.get("object") == "chat.completion.chunk"
        or kind in _ANTHROPIC
        or (isinstance(kind, str) and kind.startswith("response."))
    )


def _chat(chunks: Sequence[_Fields], path: str, notes: Notes) -> dict[str, Any]:
    body: dict[str, Any] = {}
    messages: dict[object, dict[str, Any]] = {}
    reasons: dict[object, object] = {}
    for chunk in chunks:
        body |= {key: chunk[key] for key in ("model", "usage") if chunk.get(key) is not None}
        for choice in map(as_object, _list(chunk.get("choices"))):
            index = (choice or {}).get("index", 0)
            message = messages.setdefault(index, {"role": "assistant"})
            _merge(message, as_object((choice or {}).get("delta")) or {})
            reasons[index] = (choice or {}).get("finish_reason") or reasons.get(index)
    if not all(reasons.values()):
        notes.warn(path, "the stream has no end; what came of it was read")
    for message in messages.values():
        if "tool_calls" in message:
            message["tool_calls"] = list(message["tool_calls"].values())
    choices = [{"message": message, "finish_reason": reasons[index]} for index, message in messages.items()]
    return {**body, "choices": choices}


def _merge(message: dict[str, Any], delta: _Fields) -> None:
    """Add one delta to a message: texts grow, calls grow by their index, other values stand as they last came."""
    for key, value in delta.items():
        if value is None:
            continue
        if key == "tool_calls":
            calls = message.setdefault(key, {})
            for position, entry in enumerate(map(as_object, _list(value))):
                call = entry or {}
                _merge(_slot(calls, call, position), {name: call[name] for name in call if name != "index"})
        elif isinstance(value, Mapping):
            _merge(message.setdefault(key, {}), value)
        elif isinstance(value, str) and key in ("content", "refusal", "arguments", "input"):
            message[key] = (message.get(key) or "") + value
        elif not (message.get(key) and value == ""):  # later chunks of some servers have empty names and ids
            message[key] = value


def _slot(calls: dict[object, dict[str, Any]], call: _Fields, position: int) -> dict[str, Any]:
    """Return the call that a piece belongs to: by index; where a server sends none, a new id begins a new call."""
    index = call.get("index")
    if index is None:
        known = [key for key, other in calls.items() if call.get("id") in (None, "", other.get("id"))]
        index = known[-1] if known else ("no index", len(calls), position)
    found = calls.get(index)
    if found is not None and call.get("id") and found.get("id") not in (None, "", call["id"]):
        index = (index, call["id"])  # some servers give every call the index 0
    return calls.setdefault(index, {})


def _responses(events: Sequence[_Fields], path: str, notes: Notes) -> dict[str, Any]:
    last = [event for event in events if as_object(event.get("response")) is not None]
    body: dict[str, Any] = dict(as_object(last[-1]["response"]) or {}) if last else {}
    ended = bool(last) and last[-1].get("type") not in ("response.created", "response.in_progress", "response.queued")
    added: dict[object, object] = {}
    for event in events:
        if event.get("type") in ("response.output_item.added", "response.output_item.done"):
            added[event.get("output_index", len(added))] = event.get("item")
    if not ended:
        notes.warn(path, "the stream has no end; what came of it was read")
    if not body.get("output"):
        body["output"] = list(added.values())
    return {"object": "response", **body}


def _anthropic(events: Sequence[_Fields], path: str, notes: Notes) -> dict[str, Any]:
    body: dict[str, Any] = {"role": "assistant", "stop_reason": None}
    blocks: dict[object, dict[str, Any]] = {}
    for event in events:
        index = event.get("index")
        if event.get("type") == "message_start":
            body |= as_object(event.get("message")) or {}
        elif event.get("type") == "content_block_start":
            blocks[index] = dict(as_object(event.get("content_block")) or {})
        elif event.get("type") == "content_block_delta":
            _grow(blocks.setdefault(index, {"type": "text"}), as_object(event.get("delta")) or {})
        elif event.get("type") == "message_delta":
            body["usage"] = {**(as_object(body.get("usage")) or {}), **(as_object(event.get("usage")) or {})}
            body |= as_object(event.get("delta")) or {}
    if not any(event.get("type") == "message_stop" for event in events):
        notes.warn(path, "the stream has no end; what came of it was read")
    for block in blocks.values():
        if "partial_json" in block:
            block["input"] = block.pop("partial_json")
    return {**body, "content": list(blocks.values())}


def _grow(block: dict[str, Any], delta: _Fields) -> None:
    for key in ("text", "thinking", "partial_json"):
        piece = delta.get(key)
        if isinstance(piece, str):
            block[key] = block.get(key, "") + piece


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else ()
