"""Messages in the attributes and events of an OpenTelemetry span.

Libraries keep messages as JSON in one attribute, spread over indexed attributes
(`llm.input_messages.0.message.role`), or as events. Content that was not captured is distinguished from content that
is empty: a model that said nothing asked for no calls, while one whose reply was dropped may have asked for some.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from toolgrade._internal.message_content import Fields, as_object, first_of, object_of
from toolgrade._internal.model import drop_none
from toolgrade.capture import Request
from toolgrade.formats.messages.content_parts import cut_off
from toolgrade.formats.messages.field_readers import decoded
from toolgrade.formats.traces.span_tree import Event, Span
from toolgrade.formats.traces.trace_messages import (
    Message,
    Speaker,
    answers_in,
    call_names,
    is_nameless,
    messages_in,
    read_once,
    requests_in,
    texts_of,
    with_arguments_of,
)
from toolgrade.formats.traces.values import first_key, first_text
from toolgrade.matching.json_compare import ABSENT, json_equal

INPUTS = ("input.value", "langfuse.observation.input", "traceloop.entity.input", "mlflow.spanInputs")
OUTPUTS = ("output.value", "langfuse.observation.output", "traceloop.entity.output", "mlflow.spanOutputs")
"""Attributes that hold the input and the output of any span, of a model or a tool or anything else."""

_PLACES: dict[Speaker, tuple[str, ...]] = {
    "user": (
        *("gen_ai.input.messages", "ai.prompt.messages", "ai.prompt", "gcp.vertex.agent.llm_request", "gen_ai.prompt"),
        *INPUTS,
        *("haystack.agent.step.llm.input", "haystack.agent.input", "haystack.component.input"),
    ),
    "model": (
        *("gen_ai.output.messages", "gen_ai.output", "gcp.vertex.agent.llm_response", "gen_ai.completion"),
        *OUTPUTS,
        *("haystack.agent.step.llm.output", "haystack.agent.output", "haystack.component.output"),
    ),
}
"""Attributes that hold one side of a model call: the prompt (of the user, by default) or the reply of the model."""
INDEXED: dict[Speaker, tuple[str, ...]] = {
    "user": ("gen_ai.prompt.", "llm.input_messages.", "llm.prompts."),
    "model": ("gen_ai.completion.", "llm.output_messages.", "llm.completions."),
}
"""Prefixes of attributes that hold one message each."""
_WHOLE: dict[Speaker, str] = {"user": "input.value", "model": "output.value"}
"""Attributes in which OpenInference has the messages as the library wrote them, next to the indexed ones."""
_EVENT_KEYS: dict[Speaker, tuple[str, ...]] = {
    "user": ("gen_ai.input.messages", "gen_ai.prompt"),
    "model": ("gen_ai.output.messages", "gen_ai.completion"),
}
_CONVERSATIONS = ("pydantic_ai.all_messages", "all_messages_events", "events")
"""Attributes of Pydantic AI that hold a whole conversation, prompts and replies."""

_HIDDEN = frozenset({"__REDACTED__", "<redacted>", "[REDACTED]"})
"""Placeholders that instrumentations write for content that they were configured to drop."""

LLAMA_INDEX_PROMPT, LLAMA_INDEX_REPLY = "LLMChatStartEvent", "LLMChatEndEvent"
"""Events that LlamaIndex's own tracing emits at the start and end of a chat."""

_EMPTY = frozenset({"", "{}", "[]", "null", "<not serializable>"})
"""Texts that instrumentations write where they have nothing to keep."""

_SAYS_FAILED = re.compile(r'"(?:status": ?"error"|is_error": ?true)')
_HAS_INVALID_CALLS = re.compile(r'"invalid_tool_calls": ?\[\{')
"""JSON text of a LangChain message with calls whose arguments are not JSON."""

_INDEX = re.compile(r"\.?(\d+)\.")


def indexed(attributes: Fields, prefix: str) -> list[dict[str, Any]]:
    """Return the entries of a list that is spread over attributes: `llm.tools.0.name`, `llm.tools.1.name`.

    A hidden field is left out of its entry.
    """
    entries: dict[int, dict[str, Any]] = {}
    pattern = re.compile(re.escape(prefix) + r"([0-9]+)\.(.*)", re.DOTALL)
    for match in filter(None, map(pattern.match, attributes)):
        entry = entries.setdefault(int(match[1]), {})
        if not is_hidden(attributes[match[0]]):
            entry[match[2]] = attributes[match[0]]
    return [entries[number] for number in sorted(entries)]


def is_hidden(value: object) -> bool:
    """Return whether a value is a placeholder for content that was not captured."""
    return isinstance(value, str) and value in _HIDDEN


def read_messages(span: Span) -> None:
    """Set the messages that went into a model, an agent or a chain, and those that came out."""
    key = first_key(span.attributes, *_CONVERSATIONS)
    if span.kind == "model":
        _read_model_messages(span)
    elif key is None:
        span.prompt, span.reply = _messages_of(span, "user"), _messages_of(span, "model")
    else:  # a whole conversation counts as output
        span.reply = _messages_at(span, key, "user")


def _read_model_messages(span: Span) -> None:
    span.prompt = _messages_of(span, "user") or _split_conversation(span)[0]
    span.reply = _messages_of(span, "model") or _vercel_reply(span) or _split_conversation(span)[1]
    if not span.reply and _is_reply_missing(span.attributes):
        span.reply = None


def _is_reply_missing(attributes: Fields) -> bool:
    """Return whether no part of a reply was captured."""
    if any(key.startswith(INDEXED["model"]) for key in attributes):
        return False
    values = [_captured(attributes, key) for key in (*_PLACES["model"], "ai.response.text", "ai.response.object")]
    # A text that was cut off held a reply, which can no longer be read.
    return all(str(value) in _EMPTY or cut_off(value) for value in filter(None, values))


def _messages_of(span: Span, speaker: Speaker) -> list[Message]:
    """Return one side of a model call from the attributes of its span, else from its events.

    The GenAI conventions had one event for each message until 2025, and have one event with all messages since.
    """
    messages = _messages_in_lists(span, speaker) or _messages_in_values(span, speaker)
    return messages or [message for event in span.events for message in _messages_in_event(event, speaker)]


def _messages_in_lists(span: Span, speaker: Speaker) -> list[Message]:
    """Return one side of a model call from the first list of indexed attributes that has messages."""
    role = "assistant" if speaker == "model" else "user"

    def read(entry: Fields) -> list[Message]:
        return messages_in({"role": role, **_nested(entry)}, "", speaker)

    for prefix in INDEXED[speaker]:
        messages: list[Message] = []
        for index, entry in enumerate(indexed(span.attributes, prefix)):
            path = f"{span.path}.attributes.{prefix}{index}"
            messages += read_once(entry, path, ("indexed", speaker), partial(read, entry))
        if messages:
            return _complete(messages, span, speaker)
    return []


def _messages_in_values(span: Span, speaker: Speaker) -> list[Message]:
    """Return one side of a model call from the first attribute that holds all of it, else from the first of any."""
    # OpenLLMetry leaves out calls that come with text; they are in the framework's output, another attribute.
    needs_calls = speaker == "model" and span.model_call.stopped_for_tools
    partial_reply: list[Message] = []
    for key in _PLACES[speaker]:
        messages = _messages_at(span, key, speaker)
        if _is_method_input(messages, span.attributes.get(key)):
            continue
        if messages and (requests_in(messages) or not needs_calls):
            return messages
        partial_reply = partial_reply or messages
    return partial_reply


def _messages_at(span: Span, key: str, speaker: Speaker) -> list[Message]:
    """Return the messages in one attribute; a text whose end is missing is a warning."""
    value = whole_value(_captured(span.attributes, key), span, span.place_of(key))
    return [] if value is None else messages_in(value, span.place_of(key), speaker)


def _captured(attributes: Fields, key: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return the content of an attribute; `None` where it was hidden."""
    value = attributes.get(key)
    is_dropped = key == "output.value" and _names_response_only(value, attributes)
    return None if is_dropped or is_hidden(value) else value


def _names_response_only(output: object, attributes: Fields) -> bool:
    """Return whether an output has the id and the model of a response alone: Phoenix writes it without the content."""
    named = drop_none({name: attributes.get(f"gen_ai.response.{name}") for name in ("id", "model")})
    return bool(named) and decoded(output) == named


def whole_value(value: object, span: Span, path: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value; `None`, with a warning, for messages whose end is missing, since SDKs may limit attributes."""
    if not cut_off(value):
        return value
    span.doubt(path, "the JSON text is cut off; its messages, and any calls in them, were not read")
    return None


def _is_method_input(messages: list[Message], value: object) -> bool:
    """Return whether an object without messages was read as one text: the arguments of the traced method.

    It is JSON, or a printed Python object where Haystack cannot write JSON.
    """
    return texts_of(messages, "user") == [value] and (
        as_object(decoded(value)) is not None or str(value).startswith("{'")
    )


def _complete(messages: list[Message], span: Span, speaker: Speaker) -> list[Message]:
    """Complete indexed messages with the same messages as the library had them.

    OpenInference leaves out arguments that are `{}`, that an answer reports a failure, sometimes the call that it
    answers, and calls that LangChain lists separately because their arguments are not JSON.
    """
    text = span.attributes.get(_WHOLE[speaker])
    # Parsing the whole messages of every span is slow, and few of them lack anything.
    if not isinstance(text, str) or not _may_be_incomplete(messages, text):
        return messages
    whole = messages_in(text, span.place_of(_WHOLE[speaker]), speaker)
    if _is_better(whole, messages, speaker):
        return whole
    matches = iter(_matches(requests_in(messages), requests_in(whole)))
    failed = {answer.call_id for answer in answers_in(whole) if answer.failed} - {None}
    return [_completed(message, matches, failed) for message in messages]


def _is_better(whole: list[Message], messages: list[Message], speaker: Speaker) -> bool:
    """Return whether the whole messages have more calls than the indexed ones, or say alone which calls they answer."""
    names, whole_names = call_names(messages), call_names(whole)
    if speaker == "model" and len(whole_names) > len(names) and set(names) <= set(whole_names):
        return True
    has_names = bool(answers_in(whole)) and not _has_nameless_answer(whole)
    return has_names and _has_nameless_answer(messages) and whole_names == names


def _matches(calls: list[Request], others: list[Request]) -> list[Request | None]:
    """Return the other record of each call; `None` where there is none."""
    if len(calls) == len(others) and all(map(_may_be_equal, calls, others)):
        return [*others]
    # The two lists do not correspond one to one, so only an id identifies a call in the other list.
    by_id = {(other.name, other.id): other for other in others}
    return [None if call.id is None else by_id.get((call.name, call.id)) for call in calls]


def _may_be_incomplete(messages: list[Message], text: str) -> bool:
    """Return whether a text may complete the messages; cheap, so that most texts are never parsed."""
    if any(request.arguments is ABSENT or request.id is None for request in requests_in(messages)):
        return True
    if _HAS_INVALID_CALLS.search(text) or _has_nameless_answer(messages):
        return True
    return bool(answers_in(messages)) and _SAYS_FAILED.search(text) is not None


def _has_nameless_answer(messages: Iterable[Message]) -> bool:
    """Return whether an answer names neither a call nor a tool."""
    return any(map(is_nameless, answers_in(messages)))


def _may_be_equal(call: Request, other: Request) -> bool:
    """Return whether two records may be of one call: the fields that both have are equal."""
    if call.name != other.name or call.id not in (None, other.id):
        return False
    return call.arguments is ABSENT or json_equal(call.arguments, other.arguments)


def _completed(message: Message, matches: Iterator[Request | None], failed: Collection[str | None]) -> Message:
    """Return a message with the fields that only the next matching calls have, and with its answer's failure."""
    requests: list[Request] = []
    for request in message.requests:
        other = next(matches)
        if other is not None and request.id is None:
            request = replace(request, id=other.id)  # noqa: PLW2901 - the same call, completed
        requests.append(with_arguments_of(request, other))
    answer = message.answer
    if answer is not None and answer.call_id in failed:
        answer = replace(answer, failed=True)
    return replace(message, requests=tuple(requests), answer=answer)


def _nested(entry: Fields) -> dict[str, Any]:
    """Return an indexed message as the object that it was; the `message.` in front of its keys is dropped."""
    message: dict[str, Any] = {}
    for key, value in entry.items():
        name = key.removeprefix("message.")
        if not _INDEX.search(f".{name}."):
            message[name] = value
    for name in ("tool_calls", "contents"):
        # OpenInference writes `message.tool_calls.0...`, OpenLLMetry `tool_calls.0...`.
        parts = indexed(entry, f"{name}.") or indexed(entry, f"message.{name}.")
        if parts:
            message[name] = list(map(_nested_part, parts))
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


def _messages_in_event(event: Event, speaker: Speaker) -> list[Message]:
    """Return the messages of one side in an event."""
    fields = event.fields
    if fields.keys() & {*_EVENT_KEYS["user"], *_EVENT_KEYS["model"]}:
        value = first_of(fields, *_EVENT_KEYS[speaker])
        return messages_in(value, f"{event.path}['{_EVENT_KEYS[speaker][0]}']", speaker)
    read = _EVENT_READERS[speaker].get(event.name)
    return [] if read is None else read(event)


def _llama_index_prompt(event: Event) -> list[Message]:
    return messages_in(event.attributes.get("messages"), f"{event.path}['messages']", "user")


def _llama_index_reply(event: Event) -> list[Message]:
    blocks = decoded(event.attributes.get("response.message.blocks"))
    return _event_message({"role": "assistant", "blocks": blocks}, event.path)


def _prompt_message(event: Event) -> list[Message]:
    """Return the message in an event whose name has its role: `gen_ai.user.message`."""
    return _event_message({"role": event.name.split(".")[1], **event.fields}, event.path)


def _choice(event: Event) -> list[Message]:
    fields = event.fields
    content = decoded(fields.pop("message", None))
    return _event_message({"role": "assistant", "content": content, **fields, **object_of(content)}, event.path)


_EVENT_READERS: dict[Speaker, dict[str, Callable[[Event], list[Message]]]] = {
    "user": {
        LLAMA_INDEX_PROMPT: _llama_index_prompt,
        **{f"gen_ai.{role}.message": _prompt_message for role in ("system", "user", "assistant", "tool")},
    },
    "model": {LLAMA_INDEX_REPLY: _llama_index_reply, "gen_ai.choice": _choice},
}
"""Readers of the events that hold one side of a model call, by their names."""


def _event_message(fields: Fields, path: str) -> list[Message]:
    def read() -> list[Message]:
        message = {"content": None, **fields}
        if "tool_calls" in message:
            message["tool_calls"] = decoded(message["tool_calls"])
        if message.get("role") == "tool" and message.get("tool_call_id") is None:
            message["tool_call_id"] = message.get("id")
        return messages_in(message, "", "user")

    return read_once(fields, path, "event", read)


def _vercel_reply(span: Span) -> list[Message]:
    """Return what a model of the Vercel AI SDK answered: calls and text have an attribute each."""
    key = "ai.response.toolCalls"
    calls = messages_in(span.attributes.get(key), span.place_of(key), "model")
    text = first_text(span.attributes.get("ai.response.text"), span.attributes.get("ai.response.object"))
    if text is None or calls:
        return calls
    return [Message("model", span.place_of("ai.response.text"), text)]


def _split_conversation(span: Span) -> tuple[list[Message], list[Message]]:
    """Return the prompt and the reply of a model span that keeps a whole conversation.

    The reply begins after the last message that is not the model's.
    """
    key = first_key(span.attributes, *_CONVERSATIONS)
    messages = _messages_at(span, key, "user") if key else []
    start = len(messages)
    while start and messages[start - 1].speaker == "model":
        start -= 1
    return messages[:start], messages[start:]
