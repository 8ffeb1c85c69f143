"""Messages in the attributes and events of a span.

Sources: OpenTelemetry, "Semantic conventions for generative client AI spans", sections "Inference" and "Capturing
instructions, inputs, and outputs"; "Semantic Conventions for GenAI events" in versions up to 1.36 for events with one
message each. Libraries keep messages as JSON in one attribute, spread over indexed attributes
(`gen_ai.prompt.0.role`), or as events. Of two copies of a message the more complete one counts. Content that was not
captured is distinguished from content that is empty: a model that said nothing asked for no calls, while one whose
reply was dropped may have asked for some.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from itertools import takewhile
from operator import ge
from typing import Any

from toolgrade._internal.message_content import Fields, as_object, first_of, object_of, parts_of
from toolgrade.capture import Request
from toolgrade.formats.messages.content_parts import cut_off
from toolgrade.formats.messages.field_readers import decoded
from toolgrade.formats.messages.message import RUN_BY_PROVIDER
from toolgrade.formats.traces.messages import (
    NOTHING,
    Speaker,
    TraceMessage,
    answers_in,
    automatic_calls_in,
    event_message,
    is_nameless,
    is_unread,
    messages_in,
    read_once,
    requests_in,
    texts_of,
)
from toolgrade.formats.traces.span_tree import Span, SpanEvent
from toolgrade.formats.traces.tracers import TRACERS, lists_of, names_of
from toolgrade.formats.traces.tracers.tracer import CONVERSATION, INPUT, OUTPUT
from toolgrade.formats.traces.values import first_key, indexed, is_hidden
from toolgrade.matching.json_compare import ABSENT, json_equal

_PLACES: dict[Speaker, tuple[str, ...]] = {
    "user": (*names_of("gen_ai.input.messages"), "gen_ai.prompt", *names_of(INPUT)),
    "model": (*names_of("gen_ai.output.messages", "gen_ai.output"), "gen_ai.completion", *names_of(OUTPUT)),
}
"""Attributes that hold one side of a model call: the prompt (of the user, by default) or the reply of the model."""
_LISTS: dict[Speaker, tuple[str, ...]] = {"user": lists_of("user"), "model": lists_of("model")}
_EVENT_KEYS: dict[Speaker, tuple[str, ...]] = {
    "user": ("gen_ai.input.messages", "gen_ai.prompt"),
    "model": ("gen_ai.output.messages", "gen_ai.completion"),
}
_SYSTEM = "gen_ai.system_instructions"
_MESSAGE_EVENTS = frozenset(f"gen_ai.{role}.message" for role in ("system", "user", "assistant", "tool"))
_CONVERSATIONS = names_of(CONVERSATION)
_SAYS_MORE = re.compile(
    r'"status": ?"error"|"is_error": ?true|"invalid_tool_calls": ?\[\{'
    r'|"executable_?[cC]ode"|"tool_?[tT]ype"|MALFORMED_FUNCTION_CALL|UNEXPECTED_TOOL_CALL'
    r'|"type": ?"(?:server_tool_use|mcp_tool_use|mcp_approval_request|(?!function|custom|tool)\w+_call)"'
)
"""Text of what indexed messages lack: failures, calls of LangChain whose arguments are not JSON, who ran a call."""
_INDEX = re.compile(r"\.?(\d+)\.")
_TEXT = re.compile(r"(?:message\.)?contents?\.\d+")
"""Key of one text of a message, without an object around it."""


def read_messages(span: Span) -> None:
    """Set the messages that went into a model, an agent or a chain, and those that came out."""
    _read_instructions(span)
    key = first_key(span.attributes, *_CONVERSATIONS)
    conversation = _messages_at(span, key, "user") if key else []
    if key and span.kind != "model":  # a whole conversation counts as output
        span.reply = conversation
        return
    span.prompt, span.reply = _messages_of(span, "user"), _messages_of(span, "model")
    if span.kind == "model":
        # The reply in a conversation begins after the last message that is not the model's.
        reply = list(takewhile(lambda message: message.speaker == "model", reversed(conversation)))[::-1]
        span.prompt = span.prompt or conversation[: len(conversation) - len(reply)]
        span.reply = span.reply or reply
        if not span.reply and _is_reply_missing(span.attributes):
            span.reply = None
    for index, message in enumerate(span.reply_messages):
        if is_unread(message):
            span.reply_messages[index] = replace(message, text=None)
            if span.kind in ("model", "agent"):  # others repeat what these said
                span.doubt(message.path, "a printed Python object could not be read; calls in it may be missing")


def _read_instructions(span: Span) -> None:
    for fields in (span.attributes, *(event.fields for event in span.events)):
        value = fields.get(_SYSTEM)
        for part in () if is_hidden(value) else parts_of(decoded(value)):
            span.instructions += messages_in({"role": "system", "content": [part]}, span.place_of(_SYSTEM), "system")


def _is_reply_missing(attributes: Fields) -> bool:
    """Return whether no part of a reply was captured."""
    if any(key.startswith(_LISTS["model"]) for key in attributes):
        return False
    values = filter(None, map(attributes.get, _PLACES["model"]))
    # A text that was cut off held a reply, which can no longer be read.
    return all(is_hidden(value) or str(value) in NOTHING or cut_off(value) for value in values)


def _messages_of(span: Span, speaker: Speaker) -> list[TraceMessage]:
    """Return one side of a model call from the attributes of its span, else from its events.

    The GenAI conventions had one event for each message until 2025, and have one event with all messages since.
    """
    messages = _messages_in_lists(span, speaker)
    for key in _PLACES[speaker]:
        if messages:
            messages = _completed_by(key, messages, span, speaker)
        else:
            copy = _messages_at(span, key, speaker)
            messages = [] if _is_method_input(copy, span.attributes.get(key)) else copy
    messages = messages or [message for event in span.events for message in _messages_in_event(event, speaker)]
    for tracer in TRACERS:
        messages = messages or tracer.messages(span, speaker)
    if speaker == "user":
        for key in names_of(OUTPUT):
            messages = automatic_calls_in(span.attributes.get(key), span.place_of(key)) or messages
    return messages


def _messages_in_lists(span: Span, speaker: Speaker) -> list[TraceMessage]:
    """Return one side of a model call from the first list of indexed attributes that has messages."""
    role = "assistant" if speaker == "model" else "user"

    def read(entry: Fields) -> list[TraceMessage]:
        return messages_in({"role": role, **_nested(entry)}, "", speaker)

    for prefix in _LISTS[speaker]:
        messages: list[TraceMessage] = []
        for index, entry in enumerate(indexed(span.attributes, prefix)):
            path = f"{span.path}.attributes.{prefix}{index}"
            messages += read_once(entry, path, ("indexed", speaker), partial(read, entry))
        if messages:
            return messages
    return []


def _messages_at(span: Span, key: str, speaker: Speaker) -> list[TraceMessage]:
    """Return the messages in one attribute; a text whose end is missing is a warning."""
    value = span.attributes.get(key)
    value = None if is_hidden(value) else span.uncut(value, span.place_of(key))
    return [] if value is None else messages_in(value, span.place_of(key), speaker)


def _is_method_input(messages: list[TraceMessage], value: object) -> bool:
    """Return whether an object without messages was read as one text: the arguments of the traced method.

    It is JSON, or a printed Python object where a library cannot write JSON.
    """
    return texts_of(messages, "user") == [value] and (
        as_object(decoded(value)) is not None or str(value).startswith("{'")
    )


def _completed_by(key: str, messages: list[TraceMessage], span: Span, speaker: Speaker) -> list[TraceMessage]:
    """Return the messages, or another copy of them in an attribute if it is more complete.

    Indexed messages may lack arguments that are `{}`, that an answer reports a failure, the call that it answers, and
    calls that LangChain lists separately because their arguments are not JSON. Others lack calls that come with text.
    """
    value = span.attributes.get(key)
    if value is None or is_hidden(value):
        return messages
    if speaker == "model" == span.kind and not requests_in(messages):
        if span.model_call.stopped_for_tools is False and not _SAYS_MORE.search(str(value)):
            return messages
        copy = _messages_at(span, key, speaker)  # which warns if it is cut off: it may hold the calls
    elif _is_complete(messages, value):
        return messages
    else:
        copy = messages_in(value, span.place_of(key), speaker)
    return copy if _is_better(copy, messages) else messages


def _is_complete(messages: list[TraceMessage], value: object) -> bool:
    """Return whether messages lack nothing that another copy may have: to parse all histories twice takes long."""
    has_all = all(request.arguments is not ABSENT and request.id is not None for request in requests_in(messages))
    return has_all and not any(map(is_nameless, answers_in(messages))) and not _SAYS_MORE.search(str(value))


def _is_better(copy: list[TraceMessage], messages: list[TraceMessage]) -> bool:
    """Return whether a copy of messages lacks nothing of what they have, and has more."""
    content, copied = _content_of(messages), _content_of(copy)
    if content == copied or not all(map(ge, copied, content)):
        return False
    copies = iter(requests_in(copy))  # further calls may stand between these
    return all(any(_may_be_equal(request, other) for other in copies) for request in requests_in(messages))


def _content_of(messages: list[TraceMessage]) -> tuple[int, ...]:
    """Return how many calls, arguments, ids and runners messages have, and how many answers, names and failures."""
    requests, answers = requests_in(messages), answers_in(messages)
    return (
        len(requests),
        sum(request.arguments is not ABSENT for request in requests),
        sum(request.id is not None for request in requests),
        sum(request.type in RUN_BY_PROVIDER for request in requests),
        len(answers),
        sum(not is_nameless(answer) for answer in answers),
        sum(answer.failed for answer in answers),
    )


def _may_be_equal(call: Request, other: Request) -> bool:
    """Return whether two records may be of one call: the fields that both have are equal."""
    # A tracer may write the type of an item in place of the name: `web_search_call`.
    if call.name.removesuffix("_call") != other.name.removesuffix("_call") or call.id not in (None, other.id):
        return False
    return call.arguments is ABSENT or json_equal(call.arguments, other.arguments)


def _nested(entry: Fields) -> dict[str, Any]:
    """Return an indexed message as the object that it was; the `message.` in front of its keys is dropped."""
    message: dict[str, Any] = {}
    for key, value in entry.items():
        name = key.removeprefix("message.")
        if not _INDEX.search(f".{name}."):
            message[name] = value
    for name in ("tool_calls", "contents"):
        parts = indexed(entry, f"{name}.") or indexed(entry, f"message.{name}.")
        if parts:
            message[name] = list(map(_nested_part, parts))
    texts = [entry[key] for key in sorted(filter(_TEXT.fullmatch, entry), key=lambda key: int(key.rpartition(".")[2]))]
    if texts:
        message["content"] = texts
    name = first_of(message, "function_call_name", "function_call.name")
    if name:
        arguments = first_of(message, "function_call_arguments_json", "function_call.arguments")
        message["function_call"] = {"name": name, "arguments": arguments}
    return message


def _nested_part(entry: Fields) -> dict[str, Any]:
    """Return one part of an indexed message: `tool_call.function.name` and the like become an object."""
    part: dict[str, Any] = {}
    for key, value in entry.items():
        head, dot, name = key.removeprefix("message_content.").removeprefix("tool_call.").partition(".")
        if not dot:
            part[head] = value
        elif isinstance(part.setdefault(head, {}), dict):
            part[head][name.removeprefix("function.")] = value
    url = object_of(part.get("image")).get("image.url")  # `message_content.image.image.url`
    return {"type": "image", "url": url} if url else part


def _messages_in_event(event: SpanEvent, speaker: Speaker) -> list[TraceMessage]:
    """Return the messages of one side in an event."""
    fields = event.fields
    if fields.keys() & {*_EVENT_KEYS["user"], *_EVENT_KEYS["model"]}:
        value = first_of(fields, *_EVENT_KEYS[speaker])
        return messages_in(value, f"{event.path}['{_EVENT_KEYS[speaker][0]}']", speaker)
    if speaker == "user" and event.name in _MESSAGE_EVENTS:  # the name has the role
        return event_message({"role": event.name.split(".")[1], **fields}, event.path)
    if speaker == "model" and event.name == "gen_ai.choice":
        content = decoded(fields.pop("message", None))
        return event_message({"role": "assistant", "content": content, **fields, **object_of(content)}, event.path)
    return []
