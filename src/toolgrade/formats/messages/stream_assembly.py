"""Assembly of the events of streams into the responses that they transport.

Streams are chunks of Chat Completions, events of the Responses API, and events of Anthropic's Messages API, in the
order in which they came. A list may hold several streams of one API, one after the other; chunks of Chat Completions
have the id of their response, so their streams may also be interleaved.

A broken stream gives what it has: argument text that ends too early is not JSON, so the call has invalid arguments. A
piece of a call whose beginning is missing is a warning with the number of such calls.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolgrade._internal.json import parse_json, short_repr
from toolgrade._internal.message_content import (
    Fields,
    as_object,
    object_of,
    part_type,
    parts_of,
    text_of,
    text_or_empty,
)
from toolgrade._internal.text import plural
from toolgrade.errors import InvalidDataError
from toolgrade.formats.messages.field_readers import Notes, list_of, present_keys

_JsonObject: TypeAlias = dict[str, Any]

_CHUNK = "chat.completion.chunk"
_SILENT_EVENTS = frozenset({"ping", "keepalive", "error"})
"""Types of events that belong to any stream and hold nothing of the response; an error is a warning of its own."""
_END_OF_STREAM = "[DONE]"

_ENDS = frozenset({"response.completed", "response.failed", "response.incomplete", "response.cancelled"})
_ITEM_EVENTS = frozenset({"response.output_item.added", "response.output_item.done"})
_ARGUMENT_EVENT = re.compile(
    r"response\.(?:(?:function|mcp)_call_(arguments)|custom_tool_call_(input))\.(?:delta|done)"
)

_GROWING_TEXTS = frozenset({"content", "refusal", "arguments", "input"})
"""Keys of a chunk's message whose texts arrive in pieces."""
_BLOCK_KEYS = {"text": "text", "thinking": "thinking", "partial_json": "input"}
"""Keys of the texts in the deltas of Anthropic's blocks, each with the key of the block that grows by it."""


@dataclass
class _Stream:
    """The response of one stream, which grows event by event.

    Attributes:
        path: JSON path of the first event.
        is_complete: Whether the end of the stream was read.
        doubts: Warnings.
        calls_without_start: Places of calls of which only later pieces were read.
        mixed_keys: Keys whose pieces have types that cannot be joined; the last piece counts.
    """

    path: str
    is_complete: bool = False
    doubts: list[str] = field(default_factory=list)
    calls_without_start: set[str] = field(default_factory=set)
    mixed_keys: list[str] = field(default_factory=list)

    def takes(self, _event: Fields) -> bool:
        """Return whether an event belongs to this stream; otherwise it begins the next one."""
        return True

    def add(self, event: Fields) -> None:
        """Add the next event."""

    def response(self) -> _JsonObject:
        """Return the body of the response so far."""
        return {}

    def objects(self, value: object, key: str) -> list[Fields]:
        """Return the objects in a list; anything else is a doubt about `key`."""
        if value is not None and not isinstance(value, (list, tuple)):
            self.doubts.append(f"{key!r} must be a list, got {short_repr(value)}; it was left out")
        return [self.object(item, key) for item in list_of(value)]

    def object(self, value: object, key: str) -> Fields:
        """Return an object; anything else but `None` is a doubt about `key`."""
        fields = as_object(value)
        if fields is None and value is not None:
            self.doubts.append(f"{key!r} must hold objects, got {short_repr(value)}; it was left out")
        return fields or {}

    def warn(self, path: str, notes: Notes) -> None:
        """Add all doubts to the notes."""
        for key in dict.fromkeys(self.mixed_keys):
            notes.warn(path, f"the pieces of {key!r} have different types; the last was read")
        for doubt in dict.fromkeys(self.doubts):
            notes.warn(path, doubt)
        if self.calls_without_start:
            number = plural(len(self.calls_without_start), "call")
            notes.warn(path, f"the beginning of {number} is missing, so {number} could not be read")
        if not self.is_complete:
            notes.warn(path, "the stream has no end; the part before was read")


def assemble_responses(values: Sequence[object], path: str, notes: Notes) -> list[tuple[str, _JsonObject]] | None:
    """Return the body of each response that events add up to, with its path; `None` if these are not events.

    Several streams, an error that the provider sent, values that are not events, and a missing end are warnings.
    """
    events = [object_of(value) for value in values]
    if not any(map(_stream_type_of, events)):
        return None
    _warn_of_events(values, events, path, notes)
    streams = _split_streams(events, path)
    if len(streams) > 1:
        notes.warn(path, f"holds {len(streams)} streams; each was read as one response, in the order of their starts")
    responses: list[tuple[str, _JsonObject]] = []
    for stream in streams:
        place = path if len(streams) == 1 else stream.path
        responses.append((place, stream.response()))
        stream.warn(place, notes)
    return responses


def _split_streams(events: Sequence[Fields], path: str) -> list[_Stream]:
    """Return the streams that the events belong to, with their events, in the order of their starts."""
    has_ids = _ids_identify_streams(events)
    streams: list[_Stream] = []
    latest: dict[tuple[type[_Stream], str | None], _Stream] = {}
    response_id: str | None = None
    for index, event in enumerate(events):
        stream_type = _stream_type_of(event)
        if stream_type is None:
            continue
        if stream_type is _ChatStream and has_ids:
            response_id = text_of(event.get("id")) or response_id
        stream = latest.get((stream_type, response_id))
        if stream is None or not stream.takes(event):
            stream = latest[stream_type, response_id] = stream_type(f"{path}[{index}]")
            streams.append(stream)
        stream.add(event)
    return streams


def _warn_of_events(values: Sequence[object], events: Sequence[Fields], path: str, notes: Notes) -> None:
    """Warn of errors that the provider sent, and of values that are not events."""
    others: list[str] = []
    for index, event in enumerate(events):
        place = f"{path}[{index}]"
        if event.get("error") or _type_of(event) == "error":
            reason = event.get("error") or event.get("message") or dict(event)
            notes.warn(place, f"the stream broke off with an error: {short_repr(reason, 500)}")
        elif not _is_event(event) and values[index] != _END_OF_STREAM:
            others.append(place)
    notes.warn_once(others, "is not an event of a stream; it was left out")


def _is_event(event: Fields) -> bool:
    return _stream_type_of(event) is not None or _type_of(event) in _SILENT_EVENTS


def _stream_type_of(event: Fields) -> type[_Stream] | None:
    """Return the type of the stream with this event; `None` for an event of any stream, and other values."""
    kind = _type_of(event)
    if event.get("object") == _CHUNK:
        return _ChatStream
    if kind in _ANTHROPIC_EVENTS:
        return _AnthropicStream
    return _ResponsesStream if kind.startswith("response.") else None


def _type_of(event: Fields) -> str:
    return text_or_empty(event.get("type"))


def _ids_identify_streams(events: Sequence[Fields]) -> bool:
    """Return whether the ids of chunks are those of responses; some servers give each chunk an id of its own."""
    counts = Counter(text_of(event.get("id")) for event in events if event.get("object") == _CHUNK)
    del counts[None]
    return any(count > 1 for count in counts.values())


@dataclass
class _Choice:
    """One choice of a stream of Chat Completions, which grows piece by piece."""

    message: _JsonObject = field(default_factory=lambda: {"role": "assistant"})
    calls: list[_JsonObject] = field(default_factory=list)
    finish_reason: object = None
    _latest: dict[str | None, _JsonObject] = field(default_factory=dict)
    """The last call of each index; under `None` that of any index."""
    _by_id: dict[tuple[str | None, str], _JsonObject] = field(default_factory=dict)

    def add(self, piece: Fields, stream: _ChatStream) -> None:
        """Add one entry of a chunk's `choices`."""
        delta = stream.object(self._delta_of(piece, stream), "delta")
        message = {key: value for key, value in delta.items() if key != "tool_calls"}
        if _begins_call({"function": delta.get("function_call")}, {"function": self.message.get("function_call")}):
            stream.doubts.append("'function_call' names another call; at least one call is missing")
        _merge(self.message, message, stream.mixed_keys)
        for call in stream.objects(delta.get("tool_calls"), "tool_calls"):
            _merge(self._call_of(call), call, stream.mixed_keys)
        self.finish_reason = piece.get("finish_reason") or self.finish_reason

    def _delta_of(self, piece: Fields, stream: _ChatStream) -> object:
        """Return the delta of an entry; some servers send a message in its place, which is read if it is the first."""
        if piece.get("delta") is None and piece.get("message") is not None:
            if self.message.keys() <= {"role"} and not self.calls:
                return piece["message"]
            stream.doubts.append("holds a whole message after pieces of one; the message was left out")
        return piece.get("delta")

    def _call_of(self, piece: Fields) -> _JsonObject:
        """Return the call that a piece belongs to: by id and index where it has them, else the last one."""
        call_id = text_of(piece.get("id"))
        index = None if piece.get("index") is None else str(piece["index"])
        call = self._latest.get(index)
        if call_id is not None:
            call = self._by_id.get((index, call_id), call)
        if call is None or _begins_call(piece, call):
            call = {}
            self.calls.append(call)
        self._latest[index] = self._latest[None] = call
        if call_id is not None:
            self._by_id[index, call_id] = self._by_id[None, call_id] = call
        return call

    def has_call_of(self, delta: Fields) -> bool:
        """Return whether a delta begins a call that was read already."""
        calls = map(object_of, list_of(delta.get("tool_calls")))
        named = [call for call in calls if object_of(call.get("function")).get("name")]
        return any((None, text_or_empty(call.get("id"))) in self._by_id for call in named)

    def assembled(self) -> _JsonObject:
        """Return the choice of a response."""
        return {"message": {**self.message, "tool_calls": self.calls}, "finish_reason": self.finish_reason}


def _begins_call(piece: Fields, call: Fields) -> bool:
    """Return whether a piece begins another call: some servers give every call the index 0, or none an id."""
    piece_id, call_id = text_of(piece.get("id")), text_of(call.get("id"))
    if piece_id and call_id and piece_id != call_id:
        return True
    function, old_function = object_of(piece.get("function")), object_of(call.get("function"))
    name, old_name = text_of(function.get("name")), text_of(old_function.get("name"))
    if not name:
        return False
    if name != old_name:
        return bool(old_name or old_function.get("arguments"))
    # Other servers repeat the name in each piece of a call. Text after a whole object is another call.
    return not piece_id and bool(function.get("arguments")) and _is_whole_object(old_function.get("arguments"))


def _is_whole_object(arguments: object) -> bool:
    if not isinstance(arguments, str):
        return isinstance(arguments, Mapping)
    if not arguments.rstrip().endswith("}"):
        return False
    try:
        return isinstance(parse_json(arguments, allow_nan=True), dict)
    except InvalidDataError:
        return False


@dataclass
class _ChatStream(_Stream):
    """A stream of Chat Completions."""

    body: _JsonObject = field(default_factory=dict)
    choices: dict[str, _Choice] = field(default_factory=dict)
    has_id: bool = False

    def takes(self, event: Fields) -> bool:
        """Return whether a chunk belongs to this stream: it does not if it goes on after the end of its choice."""
        is_same_id = self.has_id and text_of(event.get("id")) is not None
        for piece in map(object_of, list_of(event.get("choices"))):
            choice = self.choices.get(str(piece.get("index", 0)))
            if choice is None or not choice.finish_reason:
                continue
            delta = object_of(piece.get("delta"))
            # Some servers end each call with a reason, so within one id only the same calls again are another stream.
            if choice.has_call_of(delta) if is_same_id else _has_content(delta):
                return False
        return True

    def add(self, event: Fields) -> None:
        """Add a chunk."""
        self.has_id = self.has_id or text_of(event.get("id")) is not None
        self.body |= {key: event[key] for key in present_keys(event, ("model", "usage"))}
        for piece in self.objects(event.get("choices"), "choices"):
            self.choices.setdefault(str(piece.get("index", 0)), _Choice()).add(piece, self)
        self.is_complete = all(choice.finish_reason for choice in self.choices.values())

    def response(self) -> _JsonObject:
        """Return a response of Chat Completions."""
        return {**self.body, "choices": [choice.assembled() for choice in self.choices.values()]}


def _has_content(delta: Fields) -> bool:
    """Return whether a delta has text, or a name or arguments of a call."""
    calls = [object_of(delta.get("function_call"))]
    calls += [object_of(object_of(call).get("function")) for call in list_of(delta.get("tool_calls"))]
    return bool(delta.get("content")) or any(call.get("name") or call.get("arguments") for call in calls)


def _merge(message: _JsonObject, delta: Fields, mixed_keys: list[str]) -> None:
    """Add one delta to a message."""
    for key, value in delta.items():
        old = message.get(key)
        new = message[key] = _merged(key, old, value, mixed_keys)
        if old and type(new) is not type(old) and not isinstance(new, list):
            mixed_keys.append(key)


def _merged(key: str, old: object, value: object, mixed_keys: list[str]) -> object:
    """Return a value with one more piece: texts and content parts grow, objects are merged, others are replaced."""
    if key == "content" and (isinstance(value, list) or isinstance(old, list)):
        # Mistral sends thoughts as lists of parts, and the answer after them as text.
        return _content_parts(old) + _content_parts(value)
    if isinstance(value, Mapping):
        merged = dict(old) if isinstance(old, dict) else {}
        _merge(merged, value, mixed_keys)
        return merged
    if key in _GROWING_TEXTS and isinstance(value, str):
        return text_or_empty(old) + value
    # Later chunks of some servers have empty names and ids, which replace nothing.
    return old if old and value in (None, "") else value


def _content_parts(content: object) -> list[Any]:
    """Return the content of a message as a list of parts; texts become text parts."""
    parts = parts_of(content)
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts if part != ""]


@dataclass
class _ResponsesStream(_Stream):
    """A stream of the Responses API."""

    body: _JsonObject = field(default_factory=dict)
    items: list[object] = field(default_factory=list)
    is_begun: bool = False
    _positions: dict[tuple[str, str | None], int] = field(default_factory=dict)
    """Positions of the items by output index and id; under the id `None` that of the last one."""
    _unfinished: set[int] = field(default_factory=set)

    def takes(self, event: Fields) -> bool:
        """Return whether an event belongs to this response; most events do not name the response."""
        old_id, new_id = self.body.get("id"), object_of(event.get("response")).get("id")
        if old_id and new_id:
            return bool(old_id == new_id)
        return not self.is_complete and not (self.is_begun and _type_of(event) == "response.created")

    def add(self, event: Fields) -> None:
        """Add an event."""
        kind = _type_of(event)
        self.is_begun = True
        if event.get("response") is not None:
            self.body |= self.object(event["response"], "response")
            self.is_complete = self.is_complete or kind in _ENDS
        growing = _ARGUMENT_EVENT.fullmatch(kind)
        if kind in _ITEM_EVENTS:
            self._add_item(event, is_done=kind.endswith("done"))
        elif growing is not None:
            self._add_arguments(event, growing[1] or growing[2])

    def _add_item(self, event: Fields, *, is_done: bool) -> None:
        """Add an item, or replace the beginning of the same item."""
        item, index = event.get("item"), str(event.get("output_index"))
        item_id = text_of(object_of(item).get("id"))
        position = self._begun_position(index, item_id)
        if position is None:
            position = len(self.items)
            self.items.append(item)
        self.items[position] = item
        self._positions[index, item_id] = self._positions[index, None] = position
        if is_done:
            self._unfinished.discard(position)
        else:
            self._unfinished.add(position)

    def _begun_position(self, index: str, item_id: str | None) -> int | None:
        """Return the position of the beginning of an item, `None` if the item has none."""
        position, last = self._positions.get((index, item_id)), self._positions.get((index, None))
        if item_id is None:
            return last if last in self._unfinished else None
        if position is None and last is not None and text_of(object_of(self.items[last]).get("id")) is None:
            return last  # any other item with this index has an id
        return position

    def _add_arguments(self, event: Fields, key: str) -> None:
        """Add a piece of the arguments of a call, or all of them, to its item."""
        index = str(event.get("output_index"))
        item_id = text_of(event.get("item_id"))
        position = self._positions.get((index, item_id), self._positions.get((index, None)))
        item = {} if position is None else object_of(self.items[position])
        # Some servers change ids while a call grows; once it has ended, another id is another call.
        is_other = position not in self._unfinished and None not in (item_id, item.get("id")) and item_id != item["id"]
        if position is None or is_other or not str(item.get("type")).endswith("_call"):
            self.calls_without_start.add(f"{index} {item_id}")
        elif position in self._unfinished:
            longer = text_or_empty(item.get(key)) + text_or_empty(event.get("delta"))
            self.items[position] = {**item, key: text_of(event.get(key)) or longer}

    def response(self) -> _JsonObject:
        """Return the response; items that its last form does not have are added."""
        output = self.body.get("output")
        if not output or (self.items and not isinstance(output, list)):
            output = self.items
        elif self.items:
            missing = _items_beyond(self.items, list_of(output))
            if missing:
                text = plural(len(missing), "item")
                self.doubts.append(f"the last form of the response lacks {text} of the stream; {text} added")
            output = [*list_of(output), *missing]
        return {"object": "response", **self.body, "output": output}


def _items_beyond(items: Sequence[object], output: Sequence[object]) -> list[object]:
    """Return the items of which the output has fewer, by type and name; some servers change ids at the end."""
    counts = Counter(map(_item_kind, output))
    missing: list[object] = []
    for item in items:
        kind = _item_kind(item)
        if counts[kind]:
            counts[kind] -= 1
        else:
            missing.append(item)
    return missing


def _item_kind(item: object) -> tuple[str, str]:
    fields = object_of(item)
    return str(fields.get("type")), str(fields.get("name"))


@dataclass
class _AnthropicStream(_Stream):
    """A stream of Anthropic's Messages API."""

    body: _JsonObject = field(default_factory=lambda: {"role": "assistant", "stop_reason": None})
    blocks: list[_JsonObject] = field(default_factory=list)
    is_begun: bool = False
    _open: dict[str, _JsonObject] = field(default_factory=dict)
    """The block of each index that has no end yet."""

    def takes(self, event: Fields) -> bool:
        """Return whether an event belongs to this message; only the first one names the message."""
        return not self.is_complete and not (self.is_begun and _type_of(event) == "message_start")

    def add(self, event: Fields) -> None:
        """Add an event."""
        self.is_begun = True
        _ANTHROPIC_EVENTS[_type_of(event)](self, event)

    def start_message(self, event: Fields) -> None:
        """Read the message, which may already have content."""
        self.body |= self.object(event.get("message"), "message")
        self.blocks += map(dict, self.objects(parts_of(self.body.get("content")), "content"))

    def change_message(self, event: Fields) -> None:
        """Read the usage and the reason of the end."""
        self.body["usage"] = {**object_of(self.body.get("usage")), **object_of(event.get("usage"))}
        self.body |= self.object(event.get("delta"), "delta")

    def end_message(self, _event: Fields) -> None:
        """End the stream."""
        self.is_complete = True

    def start_block(self, event: Fields) -> None:
        """Begin a block."""
        self._begin(event, dict(self.object(event.get("content_block"), "content_block")))

    def extend_block(self, event: Fields) -> None:
        """Add the texts of a delta to the open block with its index; a text may begin one."""
        delta = self.object(event.get("delta"), "delta")
        block = self._open.get(str(event.get("index")))
        if "partial_json" in delta and not str(part_type(block)).endswith("tool_use"):
            self.calls_without_start.add(str(event.get("index")))
            return
        if block is None:
            block = self._begin(event, {"type": "text"})
        for key in _BLOCK_KEYS:
            if isinstance(delta.get(key), str):
                self._extend(block, key, delta[key])

    def end_block(self, event: Fields) -> None:
        """End the block with this index."""
        self._open.pop(str(event.get("index")), None)

    def _begin(self, event: Fields, block: _JsonObject) -> _JsonObject:
        self._open[str(event.get("index"))] = block
        self.blocks.append(block)
        return block

    def _extend(self, block: _JsonObject, key: str, text: str) -> None:
        """Add a text to the value of a block that grows by this key of a delta."""
        old = block.get(_BLOCK_KEYS[key])
        if old and not isinstance(old, str):
            self.mixed_keys.append(key)
        block[_BLOCK_KEYS[key]] = text_or_empty(old) + text

    def response(self) -> _JsonObject:
        """Return a message of Anthropic's Messages API."""
        return {**self.body, "content": self.blocks}


_ANTHROPIC_EVENTS: dict[str, Callable[[_AnthropicStream, Fields], None]] = {
    "message_start": _AnthropicStream.start_message,
    "message_delta": _AnthropicStream.change_message,
    "message_stop": _AnthropicStream.end_message,
    "content_block_start": _AnthropicStream.start_block,
    "content_block_delta": _AnthropicStream.extend_block,
    "content_block_stop": _AnthropicStream.end_block,
}
"""Readers of Anthropic's events, by their type."""
