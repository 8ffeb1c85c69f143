"""Messages inside the values of a trace, in the form of any provider or framework.

A span holds messages as JSON, as JSON text, inside of a request or a response, or as a list of calls alone. Nothing
is refused here: a value without a message gives none. Each model span repeats the whole history, so traces contain most
messages many times; `remember_messages` makes the reader parse each distinct message once.

Sources: those of `content_parts`; LangChain reference, `LLMResult` (`generations`); Gemini API reference,
`GenerateContentResponse` (`candidates`); OpenTelemetry, JSON schemas of `gen_ai.input.messages` and
`gen_ai.output.messages`.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, takewhile
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from toolgrade._internal.message_content import Fields, as_object, first_of, object_of, parts_of, text_of
from toolgrade.capture import Request
from toolgrade.capture.input_parts import read_image, texts_with_images
from toolgrade.cases import MLLMImage
from toolgrade.formats.messages import langchain
from toolgrade.formats.messages.content_parts import answer_of, call_of, piece_of
from toolgrade.formats.messages.envelopes import HISTORY_KEYS, LOST_CALLS, with_lost_call
from toolgrade.formats.messages.field_readers import Notes, decoded, list_of, present_keys
from toolgrade.formats.messages.message import RUN_BY_PROVIDER, Answer
from toolgrade.formats.messages.openai_responses import read_responses_answer, read_responses_call
from toolgrade.formats.traces.values import all_entries, first_key, json_list, json_object, read_literal, string_of
from toolgrade.matching.json_compare import ABSENT

Speaker: TypeAlias = Literal["user", "model", "tool", "system"]

_MAX_DEPTH = 12
"""Levels of wrappers around messages. State objects of frameworks nest, but a limit keeps hostile input cheap."""

_ROLE_NAMES: dict[Speaker, tuple[str, ...]] = {
    "user": ("user", "human"),
    "model": ("assistant", "ai", "model", "tool-call"),
    "tool": ("tool", "function", "tool-response"),
    "system": ("system", "developer"),
}
_ROLES: dict[str, Speaker] = {role: speaker for speaker, roles in _ROLE_NAMES.items() for role in roles}

_WRAPPERS: dict[str, Speaker | None] = {
    "messages": None,
    "generations": "model",
    "choices": "model",
    "candidates": "model",
    "replies": "model",
    "contents": "user",
    "message": None,
    "new_message": "user",
    "output_messages": "model",
    "toolCalls": "model",
    "prompt": "user",
    "input": "user",
    "output": "model",
    "response": "model",
    "content": None,
}
"""Keys of objects that hold messages, best first, with the speaker of messages under them that name none."""

NOTHING = frozenset({"", "{}", "[]", "null", "<not serializable>"})
"""Texts that instrumentations write if there is no value."""
_CONTENT_KEYS = ("content", "parts", "contents", "blocks")
_MARKS_OF_REPLY = ("content", "message", "finishReason", "finish_reason")
"""Keys of a choice of OpenAI, or of a candidate of Gemini."""
_PART_KEYS = frozenset({"type", "text", "toolUse", "toolResult"})
_FRAMED_ANSWER = re.compile(r"(?:Call id: ([^\n]*)\n)?(Error|Observation):\n(.*)", re.DOTALL)
"""The text that a framework puts around an observation or an error before it shows it to the model."""
_HOSTED_TOOL = re.compile(
    r"(?:web_search|web_fetch|file_search|code_(?:interpreter|execution)|computer|image_generation|mcp|tool_search)(?:_|$)"
)
"""Start of the type of a tool of the provider, in its definition."""
_PRINTED = re.compile(r"\s*[\[(]?(?:\{'|(?:\w+\.)*[A-Z]\w*\(\w+=|<[\w.]+ object at 0x|content=['\"\[])")
"""Start of a printed object, of a list of them, or of the fields of a message that LangChain prints."""
_MARK_OF_PRINTED = re.compile(
    r"\b(?:role|tool_calls?|call_id|arguments|additional_kwargs)'?(?:=|: )|type'?(?:=|: )'\w|object at 0x"
)
"""Text that printed messages, responses and calls have, unlike what a model writes itself."""
_ENUM = re.compile(r"<\w+\.\w+: ('[^'\n]*')>")
"""A printed member of an enumeration, with its value."""
_CLASS_OF_SDK = re.compile(
    r"\s*[\[(]?(?:\w+\.)*(Part|TextBlock|ToolUseBlock|GenerateContentResponse|Candidate|Content|FunctionCall|Agent(?:Finish|Action)"
    r"|(?:AI|Human|Tool|System)Message(?:Chunk)?|ChatGeneration|LLMResult)\(\w+="
)
"""Start of a printed object, or of a list of them, of a class whose name shows that it is a reply or a part of one."""


@dataclass(frozen=True, slots=True)
class TraceMessage:
    """One message of a trace.

    Attributes:
        speaker: Who speaks; a message of `"tool"` is the answer to a call.
        path: JSON path of the message.
        text: The text, `None` if the message has none.
        requests: The calls that the model asks for, in their order; the `source` of each is its path.
        answer: The answer to a call.
        bare: Whether this is a call in a list without a message around it; adjacent ones become one message.
        parts: The texts and images of a user's message in their order, `None` if it has no image.
    """

    speaker: Speaker
    path: str
    text: str | None = None
    requests: tuple[Request, ...] = ()
    answer: Answer | None = None
    bare: bool = False
    parts: Sequence[str | MLLMImage] | None = None

    def below(self, path: str) -> TraceMessage:
        """Return the same message with `path` in front of its paths."""
        requests = tuple([replace(request, source=f"{path}{request.source or ''}") for request in self.requests])
        return TraceMessage(self.speaker, f"{path}{self.path}", self.text, requests, self.answer, self.bare, self.parts)


_MEMORY: ContextVar[dict[tuple[bytes, Hashable] | None, tuple[TraceMessage, ...]]] = ContextVar("_MEMORY")
_JSON_TYPES = frozenset({str, int, float, bool, type(None)})


@contextmanager
def remember_messages() -> Generator[None, None, None]:
    """Parse equal messages once inside this block; the memory is dropped at its end."""
    token = _MEMORY.set({})
    try:
        yield
    finally:
        _MEMORY.reset(token)


def read_once(
    value: Any,  # noqa: ANN401 - a JSON value, as a rule
    path: str,
    variant: Hashable,
    read: Callable[[], Iterable[TraceMessage]],
) -> list[TraceMessage]:
    """Return the messages that `read` parses, from memory where an equal value was parsed before.

    Args:
        value: The value as the trace has it.
        path: JSON path of the value, put in front of the paths that `read` returns.
        variant: Whatever else the result of `read` depends on.
        read: Parses the value, with paths relative to the value itself.
    """
    memory = _MEMORY.get({})
    key: tuple[bytes, Hashable] | None = None
    # SDK objects, and values deeper than marshal goes, raise ValueError: they are parsed each time.
    with suppress(ValueError):
        # Unlike JSON text, marshal distinguishes every type from every other. Version 2 writes equal values equally.
        key = (marshal.dumps(value, 2), variant)
    messages = memory.get(key)
    if messages is None:
        messages = tuple(read())
        if key is not None and _is_json(value):
            memory[key] = messages
    return [message.below(path) for message in messages]


def messages_in(value: object, path: str, default: Speaker, depth: int = 0) -> list[TraceMessage]:
    """Return the messages in a value, in their order; none where it holds no message.

    Args:
        value: A message, a list of them, an object that holds them, the JSON text of any of these, or a plain text.
        path: JSON path of the value.
        default: The speaker of a message that names none.
        depth: Number of wrappers around the value.
    """
    if depth > _MAX_DEPTH:
        return []
    if isinstance(value, str):
        return _messages_in_text(value, path, default, depth)
    if isinstance(value, (list, tuple)):
        return _messages_in_list(value, path, default, depth)
    return _object(object_of(value), path, default, depth)


def event_message(fields: Fields, path: str) -> list[TraceMessage]:
    """Return the message in the fields of an event, with calls as JSON text decoded."""

    def read() -> list[TraceMessage]:
        message = {"content": None, **fields}
        if "tool_calls" in message:
            message["tool_calls"] = decoded(message["tool_calls"])
        if message.get("role") == "tool" and message.get("tool_call_id") is None:
            message["tool_call_id"] = message.get("id")
        return messages_in(message, "", "user")

    return read_once(fields, path, "event", read)


def automatic_calls_in(value: object, path: str) -> list[TraceMessage]:
    """Return what google-genai sent in all for a response: the contents of the request, and the calls that it made."""
    is_other = isinstance(value, str) and not any(key in value for key in HISTORY_KEYS)
    fields = {} if is_other else json_object(value)
    key = first_key(fields, *HISTORY_KEYS)
    return messages_in(fields[key], f"{path}.{key}", "user") if key else []


def langchain_answer(fields: Fields) -> Answer | None:
    """Return the answer in LangChain's message of a tool; `None` in any other object."""
    if "lc" not in fields and fields.get("type") not in ("tool", "ToolMessage"):
        return None
    answers = answers_in(messages_in(fields, "$", "tool"))
    return answers[0] if len(answers) == 1 else None


def tools_beside_messages(value: object) -> Iterator[Fields]:
    """Yield the tool definitions in a prompt: under `tools`, or among its messages."""
    prompt = decoded(value)
    if isinstance(prompt, list):
        # Some tracers append the definitions to the messages, with role `tool`.
        return filter(None, map(_tool_definition, map(object_of, prompt)))
    return map(_tool_in_list, list_of(object_of(prompt).get("tools")))


def is_response(value: object) -> bool:
    """Return whether a value is the reply of a model in the form of an API; one without words and calls is no text."""
    fields = json_object(value)
    message = object_of(object_of(fields.get("output")).get("message")) or fields
    lists = (fields.get("candidates"), fields.get("choices"))
    return (
        (_ROLES.get(str(message.get("role"))) == "model" and not message.keys().isdisjoint(_CONTENT_KEYS))
        or fields.get("object") == "response"
        or as_object(first_of(fields, "promptFeedback", "prompt_feedback")) is not None
        or any(all_entries(entries or [], lambda one: not one.keys().isdisjoint(_MARKS_OF_REPLY)) for entries in lists)
    )


def is_unread(message: TraceMessage) -> bool:
    """Return whether the text of the model is a printed object that cannot be read, and so not its answer."""
    text = message.text or ""
    if message.speaker != "model" or not _PRINTED.match(text):
        return False
    if _CLASS_OF_SDK.match(text):
        return True
    return _printed_value(text) is None and _MARK_OF_PRINTED.search(text) is not None


def requests_in(messages: Iterable[TraceMessage]) -> list[Request]:
    """Return the calls that messages ask for."""
    return [request for message in messages for request in message.requests]


def call_names(messages: Iterable[TraceMessage]) -> list[tuple[str, str | None]]:
    """Return the names and ids of the calls that messages ask for."""
    return [(request.name, request.id) for request in requests_in(messages)]


def answers_in(messages: Iterable[TraceMessage]) -> list[Answer]:
    """Return the answers of messages to calls."""
    return [message.answer for message in messages if message.answer is not None]


def is_nameless(answer: Answer) -> bool:
    """Return whether an answer names neither a call nor a tool."""
    return answer.call_id is None and answer.name is None


def texts_of(messages: Iterable[TraceMessage], speaker: Speaker) -> list[str]:
    """Return the texts of one speaker that are not empty."""
    return [message.text for message in messages if message.speaker == speaker and message.text]


def speakers_of(messages: Iterable[TraceMessage]) -> set[Speaker]:
    """Return who speaks in messages."""
    return {message.speaker for message in messages}


def last_text(messages: Iterable[TraceMessage], speaker: Speaker) -> str | None:
    """Return the last text of one speaker."""
    return [None, *texts_of(messages, speaker)][-1]


def last_input(messages: Sequence[TraceMessage]) -> TraceMessage | None:
    """Return the last message of the user that has a text or an image."""
    return next((one for one in reversed(messages) if one.speaker == "user" and (one.text or one.parts)), None)


def final_text(messages: Sequence[TraceMessage]) -> str | None:
    """Return the last text of the model, unless a call or an answer comes with or after it."""
    for message in reversed(messages):
        if message.speaker != "system":
            return message.text if message.speaker == "model" and not message.requests else None
    return None


def _is_json(value: object) -> bool:
    """Return whether a value has JSON types only; marshal writes any other buffer as if it were bytes."""
    stack = [value]
    while stack:
        item = stack.pop()
        if type(item) is dict:
            stack += [*item, *item.values()]
        elif type(item) is list:
            stack += item
        elif type(item) not in _JSON_TYPES:
            return False
    return True


def _messages_in_text(value: str, path: str, default: Speaker, depth: int) -> list[TraceMessage]:
    if value.strip() in NOTHING:
        return []
    text = content = decoded(value)
    if not isinstance(content, str):
        messages = messages_in(content, path, default, depth + 1)
        # Tracers that drop content leave messages with a role and nothing else; a list of them is not a text.
        if messages or all_entries(list_of(content), lambda entry: "role" in entry) or is_response(content):
            return messages
        text = value
    objects = _objects_in(text, path) if default == "model" else []
    return objects or ([TraceMessage(default, path, text)] if text else [])


def _messages_in_list(values: Sequence[Any], path: str, default: Speaker, depth: int) -> list[TraceMessage]:
    """Return the messages of a list; adjacent calls outside of messages are one message."""
    entries: list[TraceMessage] = []
    for index, entry in enumerate(values):
        place = f"{path}[{index}]"
        if isinstance(entry, (list, tuple)):  # its entries are remembered one by one
            entries += messages_in(entry, place, default, depth + 1)
        else:
            entries += read_once(entry, place, ("entry", default, depth), partial(_entry, entry, default, depth))
    messages: list[TraceMessage] = []
    for are_calls, group in groupby(entries, attrgetter("bare")):
        if are_calls:
            messages.append(TraceMessage("model", path, None, tuple(requests_in(group))))
        else:
            messages.extend(group)
    return messages


def _entry(entry: object, default: Speaker, depth: int) -> list[TraceMessage]:
    """Return the messages of one list entry, with paths relative to the entry."""
    call = _bare_call(object_of(entry), "")
    if call is None:
        return messages_in(entry, "", default, depth + 1)
    return [TraceMessage("model", "", None, (call,), bare=True)]


def _object(fields: Fields, path: str, default: Speaker, depth: int) -> list[TraceMessage]:
    """Return the messages in an object: those it is by the first form that fits, else those under its wrapper keys."""
    chain = langchain.message_fields(fields)
    if chain is not None:
        return _langchain_message(chain, path)
    call = _bare_call(fields, path)
    if call is not None:
        return [TraceMessage("model", path, None, (call,))]
    if str(fields.get("type")).endswith("_output") and "call_id" in fields:
        answer = read_responses_answer(fields)
        return [TraceMessage("tool", path, answer=answer)] if answer else []
    reason = string_of(first_of(fields, "finishReason", "finish_reason", "stopReason"))
    if reason in LOST_CALLS:
        fields = _with_lost_call(fields, reason)
    if fields.get("role") is not None and not isinstance(fields.get("message"), dict):
        return _message(fields, path)
    if isinstance(fields.get("parts"), list):
        return _message({**fields, "role": default}, path)
    return _wrapped_messages(fields, path, default, depth)


def _bare_call(fields: Fields, path: str) -> Request | None:
    """Return an object as a call, in any form without a message around it; `None` if it is not one."""
    if "role" in fields or "content" in fields:
        return None
    if _is_plain_call(fields):
        return call_of(fields, path=path)
    if string_of(fields.get("type")).endswith(("_call", "mcp_approval_request")) and "lc" not in fields:
        item = read_responses_call(fields)
        return item and replace(item, source=path)
    piece = piece_of(fields, path)
    return piece if isinstance(piece, Request) else None


def _is_plain_call(fields: Fields) -> bool:
    """Return whether an object is a call in the form of a framework, without an envelope for its fields."""
    return (
        "tool.name" in fields
        or ("toolCallId" in fields and not fields.keys() & {"result", "output"})
        or as_object(fields.get("function")) is not None
        or (fields.get("type") in ("tool_call", "tool-call") and "name" in fields)
    )


def _with_lost_call(fields: Fields, reason: str) -> Fields:
    """Return a candidate of Gemini, a response of Bedrock or a message with the call that the API left out of it."""
    content = object_of(first_of(fields, "content", "output"))
    content = as_object(content.get("message")) or content or (fields if "role" in fields else {})
    message = {"role": "model", **({} if "content" in content else {"parts": []}), **content}
    has_call = any(isinstance(piece_of(part, ""), Request) for part in parts_of(first_of(message, "content", "parts")))
    details = string_of(first_of(fields, "finishMessage", "finish_message"))
    return message if has_call else with_lost_call(message, reason, details)


def _wrapped_messages(fields: Fields, path: str, default: Speaker, depth: int) -> list[TraceMessage]:
    """Return the messages that an object holds under the first of the usual keys that has any."""
    for key in present_keys(fields, _WRAPPERS):
        speaker, value = _WRAPPERS[key], fields[key]
        if key == "generations":
            # LangChain keeps alternatives for each prompt.
            value = [next(iter(list_of(entry)), entry) for entry in list_of(value)] or value
        # A text is a message only where the key names the speaker: `content` and `message` may be anyone's.
        if speaker or isinstance(decoded(value), (dict, list)):
            messages = messages_in(value, f"{path}.{key}", speaker or default, depth + 1)
            if messages:
                return messages
    return []


def _langchain_message(fields: Fields, path: str) -> list[TraceMessage]:
    """Return a message of LangChain; one of the model is followed by the answers in it."""
    kind, notes = fields["type"], Notes()
    if kind in ("tool", "function"):
        return [TraceMessage("tool", path, answer=langchain.result_of(fields, path, notes))]
    if kind != "ai":
        text = "".join(_pieces_of(fields.get("content"), path)[0]) or None
        parts = _parts_with_images(fields.get("content"), path) if kind == "human" else None
        return [TraceMessage(_ROLES.get(kind, "system"), path, text, parts=parts)]
    pieces, answers = langchain.content_of(fields, path, notes)
    text = "".join(piece for piece in pieces if isinstance(piece, str)) or None
    requests = [piece for piece in pieces if isinstance(piece, Request)]
    # A call without a name is a problem in a list of messages; a trace keeps it, as an unnamed call.
    requests += [Request("", ABSENT, source=problem.path) for problem in notes.problems]
    message = TraceMessage("model", path, text, tuple(requests))
    closing = list(takewhile(lambda piece: isinstance(piece, str), reversed(pieces)))[::-1]
    return _with_closing_text(message, [TraceMessage("tool", path, answer=answer) for answer in answers], closing)


def _message(fields: Fields, path: str) -> list[TraceMessage]:
    """Return a message with a role, and the answers in it."""
    if _tool_definition(fields):
        return []
    speaker = _speaker_of(fields)
    content, place = _content_of(fields, path)
    content, calls_in_text = _structure_in_text(content, place, speaker)
    calls = [*_calls_of_message(fields, path), *calls_in_text]
    if speaker == "tool" and not calls:
        return _answers(fields, content, place)
    printed = _printed_messages(content, path) if speaker == "model" and not calls else []
    return printed or _message_of_parts(content, place, path, speaker, calls)


def _tool_in_list(entry: object) -> Fields:
    fields = object_of(entry)
    return object_of(fields.get("data")) or fields  # some write {"type": its class, "data": the definition}


def _tool_definition(message: Fields) -> Fields | None:
    """Return the tool that a message of role `tool` defines; `None` where it is an answer."""
    if message.get("role") != "tool" or "tool_call_id" in message:
        return None
    content = json_object(message.get("content"))
    function = object_of(content.get("function"))
    if "name" not in message and _HOSTED_TOOL.match(string_of(content.get("type"))):
        return content
    return content if text_of(function.get("name")) and "arguments" not in function else None


def _speaker_of(fields: Fields) -> Speaker:
    """Return who speaks in a message with a role; a role that is not in use is the name of a tool."""
    speaker = _ROLES.get(str(fields["role"]), "tool")
    # Anthropic's answers on Bedrock may have the role of the user.
    return "tool" if speaker == "user" and text_of(fields.get("tool_call_id")) else speaker


def _content_of(fields: Fields, path: str) -> tuple[Any, str]:
    """Return the content of a message, which may be wrapped once more, and its path."""
    key = first_key(fields, *_CONTENT_KEYS) or "content"
    key = key if fields.get(key) or fields.get("refusal") is None else "refusal"
    content = fields.get(key)
    parts = object_of(content).get("parts")
    return (parts, f"{path}.{key}.parts") if isinstance(parts, list) else (content, f"{path}.{key}")


def _structure_in_text(content: Any, path: str, speaker: Speaker) -> tuple[Any, list[Request]]:  # noqa: ANN401 - JSON
    """Return the parts or the calls that frameworks write as the text of a message; any other content as it is."""
    entries = json_list(content) if isinstance(content, str) else []
    if _are_parts(entries, speaker):
        return entries, []
    # Some frameworks write a list of calls and nothing else.
    calls = [_bare_call(object_of(entry), f"{path}[{index}]") for index, entry in enumerate(entries)]
    is_list_of_calls = speaker in ("model", "tool") and entries and None not in calls
    return (None, list(filter(None, calls))) if is_list_of_calls else (content, [])


def _are_parts(entries: list[Any], speaker: Speaker) -> bool:
    """Return whether a list is the parts of a message, which some tracers write as its text."""
    # The output of a tool may look like the parts of a message, so only a part that is an answer counts there.
    expected_type = Answer if speaker == "tool" else str
    is_like_parts = all(_PART_KEYS & object_of(entry).keys() for entry in entries)
    return is_like_parts and any(isinstance(piece_of(entry, ""), expected_type) for entry in entries)


def _calls_of_message(fields: Fields, path: str) -> list[Request]:
    """Return the calls under the keys that messages have for them."""
    calls: list[Request | None] = []
    for key in ("tool_calls", "toolCalls"):
        for index, entry in enumerate(json_list(fields.get(key))):
            inner = json_object(entry)
            # Each call may be nested in an object with the key `tool_call`.
            call = as_object(inner.get("tool_call")) or inner
            calls.append(call_of(call, path=f"{path}.{key}[{index}]", sure=True))
    legacy = object_of(fields.get("function_call"))
    if legacy.get("name") and not calls:
        calls.append(call_of(legacy, path=f"{path}.function_call"))
    return list(filter(None, calls))


def _answers(fields: Fields, content: object, path: str) -> list[TraceMessage]:
    """Return the answers of a tool message: those among its parts, else the message itself."""
    texts, _, answers, _ = _pieces_of(content, path)
    if answers:
        return answers
    # Texts may be in OpenTelemetry's form, {"type": "text", "content": ...}, next to the id of the call.
    if texts and len(texts) == len(list_of(content)):
        content = "".join(texts)
    # A role that is not in use is the name of a tool.
    role_name = None if str(fields["role"]) in _ROLES else str(fields["role"])
    answer = answer_of({"content": content, **fields}, name=text_of(fields.get("name")) or role_name)
    if fields["role"] == "tool-response":
        answer = _without_frame(answer)
    return [TraceMessage("tool", path, answer=answer)]


def _without_frame(answer: Answer) -> Answer:
    """Return an answer without the text that a framework puts before it, with the call's id and whether it failed."""
    match = _FRAMED_ANSWER.fullmatch(str(answer.content))
    if match is None:
        return answer
    call_id, kind, text = match.groups()
    return replace(answer, call_id=answer.call_id or call_id, content=text, failed=answer.failed or kind == "Error")


def _message_of_parts(
    content: object, place: str, path: str, speaker: Speaker, calls: list[Request]
) -> list[TraceMessage]:
    texts, requests, answers, number = _pieces_of(content, place)
    text, requests = "".join(texts) or None, _merge_calls(calls, requests)
    if requests:  # the model's message, whatever its role
        return _with_closing_text(TraceMessage("model", path, text, tuple(requests)), answers, texts[number:])
    parts = _parts_with_images(content, place) if speaker == "user" else None
    is_empty = text is None and parts is None and not isinstance(content, str)
    messages = [] if is_empty else [TraceMessage(speaker, path, text, parts=parts)]
    # Anthropic's answers come in a message of the user, ahead of the user's own words.
    return [*answers, *messages] if speaker == "user" else [*messages, *answers]


def _pieces_of(content: object, path: str) -> tuple[list[str], list[Request], list[TraceMessage], int]:
    """Return the texts and the calls among the parts of a content, and its answers as messages.

    The last value is the number of texts before the last call or answer.
    """
    texts: list[str] = []
    requests: list[Request] = []
    answers: list[TraceMessage] = []
    texts_before = 0
    for index, part in enumerate(parts_of(content)):
        place = f"{path}[{index}]"
        piece = piece_of(part, place)  # `None` for reasoning and media
        if isinstance(piece, str):
            texts.append(piece)
        elif piece is not None:
            texts_before = len(texts)
            if isinstance(piece, Request):
                requests.append(piece)
            else:
                answers.append(TraceMessage("tool", place, answer=piece))
    return texts, requests, answers, texts_before


def _merge_calls(calls: list[Request], part_calls: list[Request]) -> list[Request]:
    """Return the calls of a message and those among its parts, each once."""
    blocks = {call.id: call for call in part_calls}
    if blocks.keys() <= {call.id for call in calls}:
        # Some converters keep the provider's blocks next to the calls they derive from them. Empty arguments are in
        # the blocks only.
        return [_with_arguments_of(call, blocks.get(call.id or "")) for call in calls]
    return [*calls, *part_calls]


def _with_arguments_of(request: Request, other: Request | None) -> Request:
    """Return a call with the arguments of another record of it, where it has none itself."""
    if other is None or request.arguments is not ABSENT:
        return request
    return replace(request, arguments=other.arguments, error=other.error)


def _with_closing_text(
    message: TraceMessage, answers: list[TraceMessage], closing_texts: Sequence[object]
) -> list[TraceMessage]:
    """Return a message of the model, the answers in it, and its last texts as a message if they may be the answer.

    They may be the answer if no call of the message is left to the agent: each was run by the provider, or has its
    answer in the message.
    """
    text, answered = "".join(map(str, closing_texts)), {answer.call_id for answer in answers_in(answers)}
    is_done = all(call.type in RUN_BY_PROVIDER or call.id in answered for call in message.requests)
    if not (text and message.requests and is_done):
        return [message, *answers]
    before = (message.text or "").removesuffix(text) or None
    return [replace(message, text=before), *answers, TraceMessage("model", message.path, text)]


def _parts_with_images(content: object, path: str) -> list[str | MLLMImage] | None:
    """Return the texts and images among the parts of a content in their order, `None` if there is no image."""
    return texts_with_images(read_image(part) or piece_of(part, path) for part in parts_of(content))


def _printed_messages(content: object, path: str) -> list[TraceMessage]:
    """Return the messages and calls of Python objects that a tracer printed into the texts of the model.

    Two instrumentations of the OpenAI Agents SDK do that: one prints the response, one each item of it.
    """
    messages: list[TraceMessage] = []
    has_printed = False
    for text in (piece_of(part, path) for part in parts_of(content)):
        objects = _objects_in(text, path)
        own = [TraceMessage("model", path, text)] if isinstance(text, str) else []
        messages += objects or own
        has_printed = has_printed or bool(objects) or any(map(is_unread, own))
    return messages if has_printed else []


def _objects_in(text: object, path: str) -> list[TraceMessage]:
    """Return the messages and calls of a printed object, or of a list; none if it is the model's own text."""
    printed = _printed_value(text)
    entries = list(map(object_of, printed if isinstance(printed, list) else [printed]))
    name = _CLASS_OF_SDK.match(str(text))
    if name and name[1].endswith(("Part", "Block")):
        printed = {"role": "assistant", "content": printed}
    elif name and all("content" in entry and "role" not in entry for entry in entries):
        printed = [
            {**entry, "type": name[1].removesuffix("Chunk").removesuffix("Message").lower()} for entry in entries
        ]
    # A printed object has few wrappers around its messages: at most 5 levels if its class is known, else 3.
    if name:
        return messages_in(printed, path, "model", _MAX_DEPTH - 5)
    return messages_in(printed, path, "model", _MAX_DEPTH - 3) if any(map(_is_printed_message, entries)) else []


def _printed_value(text: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return the object or the list that a text was printed from; `None` for any other text."""
    is_printed = isinstance(text, str) and _PRINTED.match(text)
    plain = _ENUM.sub(r"\1", f"{{'output': {text}}}") if is_printed else None
    return object_of(read_literal(plain)).get("output")


def _is_printed_message(fields: Fields) -> bool:
    """Return whether the fields of a printed object are those of a message, a response or a call with its id."""
    call = _bare_call(fields, "")  # models without a template for tools write calls as text, but no ids
    is_response = any(isinstance(fields.get(key), list) for key in ("output", "choices"))
    return is_response or fields.get("role") == "assistant" or (call is not None and call.id is not None)
