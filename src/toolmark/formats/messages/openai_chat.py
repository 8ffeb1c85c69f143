"""Reader of the messages of OpenAI's Chat Completions API.

Roles are `user`, `assistant` (whose `tool_calls` are the calls) and `tool` (whose `tool_call_id` names the call that it
answers); `system` and `developer` are skipped. The older `function_call` with role `function` is read too, with a
warning. What cannot be read is an error with its JSON path; what is read only in part is a warning. No call is ever
left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolmark._internal.json import short_repr
from toolmark._internal.message_content import Fields, as_object, object_of, text_of
from toolmark.calls import ToolCallType
from toolmark.capture import Request
from toolmark.formats.messages.content_parts import call_body
from toolmark.formats.messages.field_readers import (
    Notes,
    output_of,
    read_arguments,
    read_content,
    read_id,
    read_list,
    read_name,
)
from toolmark.formats.messages.transcript import Answer, Entry, TranscriptBuilder, messages_with_role, read_user_input
from toolmark.matching.json_compare import ABSENT

_ROLES = ("user", "assistant", "tool", "system", "developer", "function")

_CALL_IN_TEXT = "<tool_call>"
"""The form in which several open models write calls; servers that do not parse it leave it in the text."""


def read_messages(entries: Iterable[Entry], transcript: TranscriptBuilder) -> None:
    """Add messages to a transcript; problems go to its notes."""
    notes = transcript.notes
    for path, role, fields in messages_with_role(entries, _ROLES, notes):
        if role == "assistant":
            _read_assistant(fields, path, transcript)
        elif fields.get("tool_calls") or fields.get("function_call"):
            notes.problem(path, f"a message of role {role!r} has calls; only an assistant's message can have them")
        elif role == "user":
            transcript.add_user_input(read_user_input(fields.get("content"), f"{path}.content", notes))
        elif role in ("tool", "function"):
            transcript.add_answer(_read_answer(fields, path, notes), path, legacy=role == "function")


def _read_assistant(fields: Fields, path: str, transcript: TranscriptBuilder) -> None:
    notes = transcript.notes
    calls = _read_calls(fields["tool_calls"], path, notes) if "tool_calls" in fields else []
    legacy_calls = _read_legacy_call(fields["function_call"], path, calls, notes) if "function_call" in fields else []
    text = read_content(fields, path, notes)
    if text is None:
        # A refusal and the transcript of speech stand beside the content, which is then empty.
        text = text_of(fields.get("refusal")) or text_of(object_of(fields.get("audio")).get("transcript"))
    elif _CALL_IN_TEXT in text and not (calls or legacy_calls):
        notes.warn(f"{path}.content", f"{_CALL_IN_TEXT!r} in the text was not read as a call; parse it into tool_calls")
    transcript.add_model_message([text or "", *calls, *legacy_calls], legacy=not calls)


def _read_calls(value: object, path: str, notes: Notes) -> list[Request]:
    """Return the calls in the `tool_calls` of the message at `path`."""
    if value is None:
        return []
    place = f"{path}.tool_calls"
    entries = read_list(value, place, notes, "a list of calls")
    return [_read_call(entry, f"{place}[{index}]", notes) for index, entry in enumerate(entries)]


def _read_legacy_call(value: object, path: str, others: list[Request], notes: Notes) -> list[Request]:
    """Return the `function_call` of the message at `path` as a list; an empty one if it is empty or repeats another."""
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


def _read_call(entry: object, path: str, notes: Notes) -> Request:
    fields = as_object(entry)
    if fields is None:
        notes.problem(path, f"expected a call (an object), got {short_repr(entry)}")
        return Request("", source=path)
    body, kind = call_body(fields)
    call_id = read_id(fields, "id", path, notes)
    request = _read_body(body, f"{path}.function" if "function" in fields else path, path, kind, notes)
    request.id = call_id
    return request


def _read_body(body: Fields, path: str, source: str, type: ToolCallType, notes: Notes) -> Request:
    """Return the request that the body of a call at `path` describes: its name and arguments."""
    request = Request(read_name(body, path, notes))
    request.type, request.source = type, source
    if type is ToolCallType.CUSTOM:
        request.arguments = {} if body.get("input") is None else {"input": body["input"]}
    else:
        value = body["arguments"] if "arguments" in body else body.get("args")
        request.arguments, request.error = read_arguments(value, source, notes)
        request.is_parsed = isinstance(request.arguments, dict)
    return request


def _read_answer(fields: Fields, path: str, notes: Notes) -> Answer:
    content = fields.get("content")
    return Answer(
        read_id(fields, "tool_call_id", path, notes),
        text_of(fields.get("name", fields.get("tool_name"))),
        ABSENT if content is None else output_of(content),
    )
