"""Reader of the messages of OpenAI's Chat Completions API.

Roles are `user`, `assistant` (whose `tool_calls` are the calls) and `tool` (whose `tool_call_id` names the call that it
answers); `system` and `developer` have the system prompt. The older `function_call` with role `function` is read too,
with a warning. What cannot be read is an error with its JSON path; what is read only in part is a warning. No call is
ever left out.

Source: OpenAI API reference, "Create chat completion", `messages`, and "The chat completion object".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from toolgrade._internal.json import short_repr
from toolgrade._internal.message_content import Fields, as_object, object_of, text_of
from toolgrade.calls import ToolCallType
from toolgrade.capture import Request
from toolgrade.formats.messages.content_parts import call_body
from toolgrade.formats.messages.detect import CHAT_ROLES, can_only_be_chat, may_have_format
from toolgrade.formats.messages.field_readers import (
    Notes,
    output_of,
    read_arguments,
    read_content,
    read_id,
    read_list,
    read_name,
    read_object,
    read_role,
)
from toolgrade.formats.messages.message import (
    Answer,
    Entry,
    Instructions,
    ModelMessage,
    NeutralMessage,
    read_user_input,
)
from toolgrade.matching.json_compare import ABSENT

_CUSTOM: Final = ToolCallType.CUSTOM  # Python 3.11 takes long to look up a member of an enumeration

_BESIDE_CONTENT = frozenset({"refusal", "audio"})
"""Keys of a refusal and of the transcript of speech, which stand beside the content, which is then empty."""

_CALLS_IN_TEXT = ("<tool_call>", "<|tool_call_begin|>", "[TOOL_CALLS]", "<|python_tag|>")
"""How open models (Qwen, Kimi, Mistral, Llama) begin calls; servers that do not parse them leave them in the text."""


def read_messages(entries: Iterable[Entry], notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the messages; problems go to `notes`, and so does each message that has another format."""
    before, misfits = len(notes.problems), Notes()
    for path, message in entries:
        fields = message if can_only_be_chat(message) else _fields_of(message, path, notes, misfits)
        if fields is None:
            continue
        role = fields["role"]
        if role == "assistant":
            yield path, _read_assistant(fields, path, notes)
        elif fields.get("tool_calls") or fields.get("function_call"):
            notes.problem(path, f"a message of role {role!r} has calls; only an assistant's message can have them")
        elif role == "user":
            user = read_user_input(fields.get("content"), path, notes)
            if user is not None:
                yield path, user
        elif role in ("tool", "function"):
            yield path, _read_answer(fields, path, notes)
        else:
            yield path, Instructions(read_content(fields, path, notes) or "")
    notes.problems[before:before] = misfits.problems


def _fields_of(message: object, path: str, notes: Notes, misfits: Notes) -> Fields | None:
    """Return the fields of a message that may be one of a chat; anything else is a problem."""
    if not may_have_format("openai-chat", message, path, misfits):
        return None
    fields = read_object(message, path, notes, "a message (an object with a role)")
    return None if fields is None or read_role(fields, CHAT_ROLES, path, notes) is None else fields


def _read_assistant(fields: Fields, path: str, notes: Notes) -> ModelMessage:
    calls = _read_calls(fields["tool_calls"], f"{path}.tool_calls", notes) if "tool_calls" in fields else []
    legacy_calls = _read_legacy_call(fields["function_call"], path, calls, notes) if "function_call" in fields else []
    text = read_content(fields, path, notes)
    if text is None and not _BESIDE_CONTENT.isdisjoint(fields):
        text = text_of(fields.get("refusal")) or text_of(object_of(fields.get("audio")).get("transcript"))
    elif text is not None and not (calls or legacy_calls):
        for mark in filter(text.__contains__, _CALLS_IN_TEXT):
            notes.warn(f"{path}.content", f"{mark!r} in the text was not read as a call; parse it into tool_calls")
    return ModelMessage([text or "", *calls, *legacy_calls], without_ids=not calls)


def _read_calls(value: object, path: str, notes: Notes) -> list[Request]:
    """Return the calls in the list at `path`."""
    requests: list[Request] = []
    for index, entry in enumerate(() if value is None else read_list(value, path, notes, "a list of calls")):
        place = f"{path}[{index}]"
        fields = as_object(entry)
        if fields is None:
            notes.problem(place, f"expected a call (an object), got {short_repr(entry)}")
            continue
        body, kind = call_body(fields)
        call_id = read_id(fields, "id", place, notes)
        request = _read_body(body, f"{place}.function" if "function" in fields else place, place, kind, notes)
        request.id = call_id
        requests.append(request)
    return requests


def _read_legacy_call(value: object, path: str, others: list[Request], notes: Notes) -> list[Request]:
    """Return the `function_call` of the message at `path` as a list; an empty one if it is empty or repeats another.

    Source: the same page, "Assistant message": `function_call` is deprecated and replaced by `tool_calls`.
    """
    if value is None:
        return []
    body = as_object(value)
    if body is not None and not any(body.values()):  # some servers send an empty object
        return []
    place = f"{path}.function_call"
    request = _read_body(body or {}, place, place, ToolCallType.FUNCTION, notes)
    for other in others:
        if (other.name, other.arguments) == (request.name, request.arguments):
            notes.warn(place, f"repeats the call {other.source}; it counts once")
            return []
    return [request]


def _read_body(body: Fields, path: str, source: str, type: ToolCallType, notes: Notes) -> Request:
    """Return the request that the body of a call at `path` describes: its name and arguments."""
    name = read_name(body, path, notes)
    if type is _CUSTOM:
        return Request(name, {} if body.get("input") is None else {"input": body["input"]}, type=type, source=source)
    value = body["arguments"] if "arguments" in body else body.get("args")
    arguments, error = read_arguments(value, source, notes)
    request = Request(name, arguments, None, type, None, error)
    request.source = source
    return request


def _read_answer(fields: Fields, path: str, notes: Notes) -> Answer:
    call_id, content = read_id(fields, "tool_call_id", path, notes), fields.get("content")
    name = text_of(fields.get("name", fields.get("tool_name")))
    output = ABSENT if content is None else output_of(content)
    return Answer(call_id, name, output, without_ids=fields["role"] == "function")
