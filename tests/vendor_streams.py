"""Lists of streamed events of each API, and the law that a reader of them must keep.

Lists hold one or more streams of one API, torn at both ends, with indexes that repeat or are missing, and interleaved
where the ids of the API allow it. Every call that such a list begins is read, or a warning counts it.
"""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any, NamedTuple

from toolgrade.errors import InvalidDataError
from toolgrade.formats import read

Plain = dict[str, Any]


class Event(NamedTuple):
    """An event, and the calls that it has a piece of, by number."""

    plain: Plain
    calls: tuple[int, ...] = ()
    begins: bool = False
    """Whether it has the name of its call."""


class Call(NamedTuple):
    """A call that a model makes in a stream."""

    number: int
    arguments: str
    index: int | None

    @property
    def id(self) -> str:
        """Its id."""
        return f"c{self.number}"


def pieces(text: str) -> list[str]:
    """A text in pieces of three characters."""
    return [text[start : start + 3] for start in range(0, len(text), 3)]


def chat(calls: list[Call], stream: int, *, with_ids: bool) -> list[Event]:
    """Chunks of Chat Completions."""

    def chunk(delta: Plain, reason: str | None = None) -> Plain:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        name = {"id": f"chatcmpl-{stream}"} if with_ids else {}
        return {**name, "object": "chat.completion.chunk", "choices": [choice]}

    events = [Event(chunk({"role": "assistant", "content": ""}))]
    for call in calls:
        index = {} if call.index is None else {"index": call.index}
        head = {**index, "id": call.id, "function": {"name": "add", "arguments": ""}}
        events.append(Event(chunk({"tool_calls": [head]}), (call.number,), begins=True))
        for piece in pieces(call.arguments):
            more = {**index, "function": {"arguments": piece}}
            events.append(Event(chunk({"tool_calls": [more]}), (call.number,)))
    return [*events, Event(chunk({}, "tool_calls" if calls else "stop"))]


def responses(calls: list[Call], stream: int, *, with_ids: bool) -> list[Event]:
    """Events of the Responses API."""
    body = {"object": "response", "output": [], **({"id": f"resp_{stream}"} if with_ids else {})}
    events = [Event({"type": "response.created", "response": {**body, "status": "in_progress"}})]
    for call in calls:
        place = {} if call.index is None else {"output_index": call.index}
        item = {"type": "function_call", "id": f"fc_{call.number}", "call_id": call.id, "name": "add", "arguments": ""}
        added = {"type": "response.output_item.added", **place, "item": item}
        events.append(Event(added, (call.number,), begins=True))
        for piece in pieces(call.arguments):
            delta = {"type": "response.function_call_arguments.delta", **place, "item_id": item["id"], "delta": piece}
            events.append(Event(delta, (call.number,)))
        done = {"type": "response.output_item.done", **place, "item": {**item, "arguments": call.arguments}}
        events.append(Event(done, (call.number,), begins=True))
    return [*events, Event({"type": "response.completed", "response": {**body, "status": "completed"}})]


def anthropic(calls: list[Call], stream: int, *, with_ids: bool) -> list[Event]:
    """Events of Anthropic's Messages API."""
    message = {"role": "assistant", "content": [], **({"id": f"msg_{stream}"} if with_ids else {})}
    events = [Event({"type": "message_start", "message": message})]
    for call in calls:
        place = {} if call.index is None else {"index": call.index}
        block = {"type": "tool_use", "id": call.id, "name": "add", "input": {}}
        start = {"type": "content_block_start", **place, "content_block": block}
        events.append(Event(start, (call.number,), begins=True))
        for piece in pieces(call.arguments):
            delta = {"type": "input_json_delta", "partial_json": piece}
            events.append(Event({"type": "content_block_delta", **place, "delta": delta}, (call.number,)))
        events.append(Event({"type": "content_block_stop", **place}))
    reason = "tool_use" if calls else "end_turn"
    return [
        *events,
        Event({"type": "message_delta", "delta": {"stop_reason": reason}}),
        Event({"type": "message_stop"}),
    ]


VENDORS = {"openai-chat": chat, "openai-responses": responses, "anthropic": anthropic}


def random_streams(name: str, chance: random.Random) -> tuple[list[Event], bool]:
    """Return the events of one to three streams of one API in one list, and whether each of them is whole."""
    counts_well = chance.random() < 0.5
    with_ids = chance.random() < 0.5
    streams: list[list[Event]] = []
    number = 0
    is_whole = True
    for stream in range(chance.randint(1, 3)):
        calls: list[Call] = []
        for position in range(chance.randint(0, 3)):
            index = position if counts_well else chance.choice((0, 1, None))
            arguments = {key: chance.randint(0, 9) for key in "abc" if chance.random() < 0.5}
            calls.append(Call(number, json.dumps(arguments), index))
            number += 1
        events = VENDORS[name](calls, stream, with_ids=with_ids)
        start = chance.randint(0, 2) if chance.random() < 0.5 else 0
        end = len(events) - (chance.randint(0, len(events) - 1) if chance.random() < 0.5 else 0)
        is_whole = is_whole and (start, end) == (0, len(events))
        streams.append(events[start:end])
    if name == "openai-chat" and with_ids and chance.random() < 0.5:
        return _interleaved(streams, chance), is_whole
    return [event for events in streams for event in events], is_whole


def _interleaved(streams: list[list[Event]], chance: random.Random) -> list[Event]:
    """Return the events of all streams, in any order that keeps that of each stream."""
    order = [place for place, events in enumerate(streams) for _ in events]
    chance.shuffle(order)
    queues = [list(events) for events in streams]
    return [queues[place].pop(0) for place in order]


def check_streams(name: str, events: list[Event], *, is_whole: bool) -> None:
    """Check that each call with a name is read once, and that others are counted in a warning, or an error."""
    begun = {number for event in events if event.begins for number in event.calls}
    numbers = {number for event in events for number in event.calls}
    if not events:
        return

    try:
        run = read([event.plain for event in events], format=name).run  # type: ignore[arg-type]
    except InvalidDataError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        is_nameless = "a call needs the name of its tool" in refusal and numbers != begun
        assert is_nameless or ("holds no message" in refusal and not begun)
        return

    assert sorted(call.id or "" for call in run.calls) == sorted(f"c{number}" for number in begun)
    if numbers != begun:
        signs = ("could not be read", "not a JSON object", "has no end")
        counted = any(sign in text for text in run.warnings for sign in signs)
        assert counted or _is_ambiguous(events, begun)
    if is_whole:
        arguments = [call.execution and call.execution.status.value for call in run.calls]
        assert arguments == ["not_executed"] * len(begun)
        assert not any("no end" in text for text in run.warnings)


def _is_ambiguous(events: list[Event], begun: set[int]) -> bool:
    """Return whether pieces of a call that was not begun follow the beginning of another, as its own pieces would.

    Events without calls may stand between them: some servers repeat the role in each event.
    """
    for event, following in pairwise(event for event in events if event.calls):
        if event.begins and not begun & set(following.calls):
            return True
    return False
