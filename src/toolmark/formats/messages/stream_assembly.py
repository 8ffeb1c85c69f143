"""Assembly of the events of a stream into the response that they transport.

Streams are chunks of Chat Completions, events of the Responses API, and events of Anthropic's Messages API, in the
order in which they came. A broken stream gives what it has: argument text that ends too early is not JSON, so the call
has invalid arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolmark.formats.messages.field_readers import Fields, Notes, as_object, list_of, object_of, text_of

_CHUNK = "chat.completion.chunk"
_ANTHROPIC_EVENTS = frozenset(
    {
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
)
_SKIPPED_EVENTS = frozenset({"ping", "error"})
_UNFINISHED_EVENTS = frozenset({"response.created", "response.in_progress", "response.queued"})
_GROWING_TEXTS = frozenset({"content", "refusal", "arguments", "input"})
"""Keys of a chunk's message whose texts arrive in pieces."""


def assemble_response(values: Sequence[object], path: str, notes: Notes) -> dict[str, Any] | None:
    """Return the body of the response that events add up to; `None` if these are not the events of a stream.

    An error that the provider sent and a missing end are warnings.
    """
    events = [object_of(value) for value in values]
    if not any(map(_is_event, events)):
        return None
    for index, event in enumerate(events):
        if event.get("error"):
            notes.warn(f"{path}[{index}]", f"the stream broke off with an error: {event['error']!r}")
    events = [event for event in events if _type_of(event) not in _SKIPPED_EVENTS]
    if any(event.get("object") == _CHUNK for event in events):
        body, is_complete = _chat_response(events)
    elif any(_type_of(event) in _ANTHROPIC_EVENTS for event in events):
        body, is_complete = _anthropic_message(events)
    else:
        body, is_complete = _openai_response(events)
    if not is_complete:
        notes.warn(path, "the stream has no end; the part before was read")
    return body


def _is_event(event: Fields) -> bool:
    kind = _type_of(event)
    return event.get("object") == _CHUNK or kind in _ANTHROPIC_EVENTS or kind.startswith("response.")


def _type_of(event: Fields) -> str:
    return text_of(event.get("type")) or ""


def _chat_response(chunks: Sequence[Fields]) -> tuple[dict[str, Any], bool]:
    """Return a response of Chat Completions, and whether all of its choices have an end."""
    body: dict[str, Any] = {}
    choices: dict[str, dict[str, Any]] = {}
    for chunk in chunks:
        body |= {key: chunk[key] for key in ("model", "usage") if chunk.get(key) is not None}
        for entry in map(object_of, list_of(chunk.get("choices"))):
            choice = choices.setdefault(
                str(entry.get("index", 0)), {"message": {"role": "assistant"}, "finish_reason": None}
            )
            _merge(choice["message"], object_of(entry.get("delta")))
            choice["finish_reason"] = entry.get("finish_reason") or choice["finish_reason"]
    for choice in choices.values():
        if "tool_calls" in choice["message"]:
            choice["message"]["tool_calls"] = list(choice["message"]["tool_calls"].values())
    is_complete = all(choice["finish_reason"] for choice in choices.values())
    return {**body, "choices": list(choices.values())}, is_complete


def _merge(message: dict[str, Any], delta: Fields) -> None:
    """Add one delta to a message: texts grow, calls grow by their index, other values are replaced."""
    for key, value in delta.items():
        old = message.get(key)
        if value is None:
            continue
        if key == "tool_calls":
            calls = message.setdefault(key, {})
            for position, call in enumerate(map(object_of, list_of(value))):
                _merge(_call_slot(calls, call, position), {name: call[name] for name in call if name != "index"})
        elif isinstance(value, Mapping):
            message[key] = old if isinstance(old, dict) else {}
            _merge(message[key], value)
        elif isinstance(value, str) and key in _GROWING_TEXTS:
            message[key] = (text_of(old) or "") + value
        elif value != "" or not old:
            # Later chunks of some servers have empty names and ids, which replace nothing.
            message[key] = value


def _call_slot(calls: dict[object, dict[str, Any]], call: Fields, position: int) -> dict[str, Any]:
    """Return the call that a piece belongs to: by index; if a server sends none, a new id begins a new call."""
    index: object = str(call.get("index"))
    call_id = call.get("id")
    if call.get("index") is None:
        matching = [key for key, other in calls.items() if call_id in (None, "", other.get("id"))]
        index = matching[-1] if matching else ("no index", len(calls), position)
    slot_id = calls.get(index, {}).get("id")
    if call_id and slot_id and call_id != slot_id:
        index = (index, call_id)  # some servers give every call the index 0
    return calls.setdefault(index, {})


def _openai_response(events: Sequence[Fields]) -> tuple[dict[str, Any], bool]:
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


def _anthropic_message(events: Sequence[Fields]) -> tuple[dict[str, Any], bool]:
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
            block = blocks.setdefault(index, {"type": "text"})
            for key in ("text", "thinking", "partial_json"):
                if isinstance(delta.get(key), str):
                    block[key] = block.get(key, "") + delta[key]
        elif kind == "message_delta":
            body["usage"] = {**object_of(body.get("usage")), **object_of(event.get("usage"))}
            body |= delta
    for block in blocks.values():
        if "partial_json" in block:
            block["input"] = block.pop("partial_json")
    is_complete = any(event.get("type") == "message_stop" for event in events)
    return {**body, "content": list(blocks.values())}, is_complete
