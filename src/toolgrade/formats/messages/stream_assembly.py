"""Assembly of a list of streamed events into the response that they transport.

The list holds one stream: chunks of Chat Completions, events of Anthropic's Messages API, events of the Responses API,
whose last event holds the whole response, or those of another vendor, which its file assembles. Programs that log
streams have the assembled response, too, so anything else is an error that says to log that.

Chat servers number and name pieces of calls in many ways: no id or a repeated one, the index 0 for all calls, the name
in each piece, or the name itself in pieces (`get_`, `weather`).

Sources: OpenAI API reference, "The chat completion chunk object" and "Streaming events" of Responses
(`response.completed`); Anthropic documentation, "Streaming Messages", section "Event types".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from toolgrade._internal.json import JsonObject, json_text, parse_json, short_repr, to_json_value
from toolgrade._internal.message_content import Fields, object_of, part_type, parts_of, text_of, text_or_empty
from toolgrade.errors import InvalidDataError
from toolgrade.formats.messages import bedrock, gemini, ollama
from toolgrade.formats.messages.detect import RESPONSES_END, SILENT_EVENTS, stream_of
from toolgrade.formats.messages.field_readers import Notes, list_of, present_keys, read_list, read_object

_END_OF_STREAM: Final = "[DONE]"

_Assembler: TypeAlias = Callable[[Sequence[tuple[str, Fields]], str, Notes], JsonObject]
"""Returns the response of the events of one stream, each with its path."""


def assemble_response(values: Sequence[object], path: str, notes: Notes) -> JsonObject | None:
    """Return the response that a list of events adds up to; `None` if these are not events.

    What cannot be assembled is a problem, an error of the provider and a missing end are warnings.
    """
    if all("role" in object_of(value) for value in values):
        return None  # messages, as nearly always
    streams = list(filter(None, map(stream_of, map(object_of, values))))
    if not streams:
        return None
    stream = streams[0]
    own: list[tuple[str, Fields]] = []
    others: list[str] = []
    for index, value in enumerate(values):
        place, event = f"{path}[{index}]", object_of(value)
        reason = _error_in(event)
        if reason:
            notes.warn(place, reason)
        if reason or _belongs_to(stream, event):
            own.append((place, event))
        elif _type_of(event) not in SILENT_EVENTS and value != _END_OF_STREAM:
            others.append(place)
    if others:
        remedy = "log a list of messages, with the message of the response in place of the response or its events"
        notes.problem(others[0], f"is not an event of the stream of {own[0][0]}; {remedy}")
    return _ASSEMBLERS[stream](own, path, notes)


def _belongs_to(stream: str, event: Fields) -> bool:
    # Azure's chunks with the results of its filter have another object.
    return stream_of(event) == stream or (stream == "openai-chat" and "choices" in event)


def _error_in(event: Fields) -> str | None:
    """Return what the provider said if the stream broke off: Anthropic nests it, Responses has it in the event."""
    if not event.get("error") and _type_of(event) != "error":
        return None
    reason = event.get("error") or event.get("message") or dict(event)
    return f"the stream broke off with an error: {short_repr(reason, 500)}"


def _type_of(event: Fields) -> str:
    return text_or_empty(event.get("type"))


# Chat Completions


@dataclass(eq=False)
class _Call:
    """One call of a choice, which grows piece by piece."""

    key: str
    id: str | None = None
    name: str = ""
    text: str = ""

    def continues(self, call_id: str | None, name: str, text: str) -> bool:
        """Return whether a piece with the index or the id of this call belongs to it."""
        if call_id and self.id and call_id != self.id:
            return False
        if not name or (call_id and self.id and text == self.text):  # some servers repeat a whole call
            return True
        if not self.text.strip():  # a name comes before the arguments; only an id tells its pieces from other calls
            return bool(self.id) or name == self.name
        return name == self.name and not (text.strip() and _is_object(self.text))

    def add(self, call_id: str | None, name: str, text: str) -> None:
        self.id = self.id or call_id
        # Each piece has the whole name, or the name so far, or a part of it.
        self.name = name if name.startswith(self.name) else self.name + name
        if not name and self.text == "{}" and text.strip():
            self.text = ""  # a placeholder, which some servers send with the name
        is_repeated = bool(call_id and name and self.text) and text.startswith(self.text)  # they send all so far
        self.text = text if is_repeated else self.text + text

    def assembled(self) -> JsonObject:
        argument_key = "input" if self.key == "custom" else "arguments"
        return {"id": self.id, "type": self.key, self.key: {"name": self.name, argument_key: self.text}}


def _is_object(text: str) -> bool:
    try:
        return text.rstrip().endswith("}") and isinstance(parse_json(text, allow_nan=True), dict)
    except InvalidDataError:
        return False


@dataclass
class _Choice:
    """One choice of a stream, which grows by the deltas of its chunks."""

    finish_reason: object = None
    content: list[Any] = field(default_factory=list[Any])
    refusal: str = ""
    calls: list[_Call] = field(default_factory=list[_Call])
    _latest: dict[tuple[str, str], _Call] = field(default_factory=dict[tuple[str, str], _Call])
    """The last call of each id and of each index; under the index `None` that of any index."""

    def add(self, piece: Fields, path: str, notes: Notes) -> bool:
        """Add a piece of a choice; return whether it begins a text or a call after the end of the choice."""
        if piece.get("message") and piece.get("delta") is None:
            notes.problem(path, "holds a message in place of a delta; log the messages, without the chunks")
        is_late = self._add_delta(object_of(piece.get("delta")), path, notes) and bool(self.finish_reason)
        self.finish_reason = piece.get("finish_reason") or self.finish_reason
        return is_late

    def _add_delta(self, delta: Fields, path: str, notes: Notes) -> bool:
        """Add a delta; return whether it begins a text or a call."""
        parts = [part for part in parts_of(delta.get("content")) if part != ""]
        self.content += parts
        self.refusal += text_or_empty(delta.get("refusal"))
        pieces = read_list(delta.get("tool_calls") or [], f"{path}.tool_calls", notes, "a list of pieces of calls")
        if delta.get("function_call"):
            pieces.append({"function": delta["function_call"]})
        begun: list[_Call] = []  # two pieces of one delta with a name are two calls
        for piece in pieces:
            self._add_piece(read_object(piece, path, notes, "a piece of a call") or {}, begun)
        return bool(parts or begun)

    def _add_piece(self, piece: Fields, begun: list[_Call]) -> None:
        """Add a piece to its call, by id, then index; `begun` are those whose name this delta has."""
        call_id, index = text_of(piece.get("id")), str(piece.get("index"))
        key = "custom" if piece.get("custom") else "function"
        body = object_of(piece.get(key))
        name, value = text_or_empty(body.get("name")), body.get("input" if key == "custom" else "arguments")
        text = value if isinstance(value, str) else "" if value is None else json_text(to_json_value(value))
        call = self._latest.get(("id", str(call_id)), self._latest.get(("index", index)))
        if call is None or not call.continues(call_id, name, text) or (name and call in begun):
            call = _Call(key)
            self.calls.append(call)
        call.add(call_id, name, text)
        if name:
            begun.append(call)
        self._latest["index", index] = self._latest["index", "None"] = self._latest["id", str(call.id)] = call

    def assembled(self) -> JsonObject:
        texts = [part for part in self.content if isinstance(part, str)]
        # Mistral sends thoughts as lists of parts, and the answer after them as text.
        content = "".join(texts) if len(texts) == len(self.content) else self.content
        message = {"role": "assistant", "content": content, "refusal": self.refusal or None}
        calls = [call.assembled() for call in self.calls]
        return {"message": {**message, "tool_calls": calls}, "finish_reason": self.finish_reason}


def _chat_response(events: Sequence[tuple[str, Fields]], path: str, notes: Notes) -> JsonObject:
    """Return the response of the chunks of Chat Completions."""
    ids = Counter(filter(None, (text_of(event.get("id")) for _, event in events)))
    is_several = len(ids) > 1 and max(ids.values()) > 1  # some servers give each chunk an id of its own
    body: JsonObject = {}
    choices: dict[str, _Choice] = {}
    for place, event in events:
        body |= {key: event[key] for key in present_keys(event, ("model", "usage"))}
        for piece in map(object_of, read_list(event.get("choices") or [], place, notes, "'choices', a list")):
            choice = choices.setdefault(str(piece.get("index", 0)), _Choice())
            # Some servers end each call of a response with a reason.
            is_several |= choice.add(piece, place, notes) and len(ids) != 1
    # Some servers end with the tokens, without a reason.
    has_end = all(choice.finish_reason for choice in choices.values()) or _ends_with_usage([e for _, e in events])
    notes.check_stream(path, is_several=is_several, has_end=has_end)
    return {**body, "choices": [choice.assembled() for choice in choices.values()]}


def _ends_with_usage(events: Sequence[Fields]) -> bool:
    return bool(events[-1].get("usage")) and not any(event.get("usage") for event in events[:-1])


# Responses


def _last_response(events: Sequence[tuple[str, Fields]], path: str, notes: Notes) -> JsonObject:
    """Return the response in the last event of a stream of the Responses API."""
    kinds = Counter(_type_of(event) for _, event in events)
    ends = [object_of(event.get("response")) for _, event in events if RESPONSES_END.fullmatch(_type_of(event))]
    if len(ends) > 1 or kinds["response.created"] > 1:
        notes.check_stream(path, is_several=True)
    elif not ends:
        notes.problem(path, "has no 'response.completed', of which the response is read; log the items of the output")
        for place, reason in [(place, _error_in(event)) for place, event in events]:
            if reason:
                notes.problem(place, reason)
    else:
        size, count = len(list_of(ends[0].get("output"))), kinds["response.output_item.done"]
        if size < count:
            lacks = f"the response at the end has {size} of the {count} items of the stream"
            notes.problem(path, f"{lacks}; log the items, which are in the events 'response.output_item.done'")
    return {"object": "response", "output": [], **(ends[0] if ends else {})}


# Anthropic


def _anthropic_message(events: Sequence[tuple[str, Fields]], path: str, notes: Notes) -> JsonObject:
    """Return the message of the events of Anthropic's Messages API."""
    kinds = Counter(_type_of(event) for _, event in events)
    notes.check_stream(path, is_several=kinds["message_start"] > 1, has_end=kinds["message_stop"] > 0)
    message: JsonObject = {"role": "assistant", "stop_reason": None}
    blocks: list[JsonObject] = []
    open_blocks: dict[str, JsonObject] = {}
    for place, event in events:
        kind, index, delta = _type_of(event), str(event.get("index")), object_of(event.get("delta"))
        if kind == "message_start":
            message |= object_of(event.get("message"))
        elif kind == "message_delta":
            message |= {**delta, "usage": {**object_of(message.get("usage")), **object_of(event.get("usage"))}}
        elif kind == "content_block_start":
            open_blocks[index] = dict(object_of(event.get("content_block")))
            blocks.append(open_blocks[index])
        elif kind == "content_block_delta":
            _extend_block(open_blocks.get(index), delta, place, notes)
        elif kind == "content_block_stop":
            open_blocks.pop(index, None)
    return {**message, "content": [*parts_of(message.get("content")), *blocks]}


def _extend_block(block: JsonObject | None, delta: Fields, path: str, notes: Notes) -> None:
    """Add the text, or the text of the arguments, in a delta to its block."""
    for delta_key, key, kind in (("text", "text", "text"), ("partial_json", "input", "tool_use")):
        text = text_of(delta.get(delta_key))
        if text is not None and (block is None or not str(part_type(block)).endswith(kind)):
            notes.problem(path, f"is a piece of a block of type {kind!r} whose beginning is missing; log the message")
        elif text is not None and block is not None:
            block[key] = text_or_empty(block.get(key)) + text


_ASSEMBLERS: dict[str, _Assembler] = {
    "openai-chat": _chat_response,
    "openai-responses": _last_response,
    "anthropic": _anthropic_message,
    "gemini": gemini.assemble,
    "bedrock": bedrock.assemble,
    "ollama": ollama.assemble,
}
