"""What did the agent of these messages of OpenAI's Chat Completions API do?

Roles are `user`, `assistant` (whose `tool_calls` are the calls) and `tool` (whose `tool_call_id` names the call it
answers); `system` and `developer` say nothing about calls. The older `function_call` with role `function` is read too,
with a warning. What cannot be read is an error with its JSON path; what was understood only in part is a warning. No
call is ever left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from toolmark._internal.json import short_repr
from toolmark.calls import ToolCallType
from toolmark.capture import Request
from toolmark.errors import InvalidDataError
from toolmark.formats.messages.detect import sign_of
from toolmark.formats.messages.field_readers import (
    Notes,
    arguments_of,
    as_object,
    output_of,
    read_id,
    read_text,
)
from toolmark.formats.messages.transcript import Answer, Entry, Telling
from toolmark.matching.json_compare import ABSENT

_SILENT_ROLES = ("system", "developer")
_ROLES = ("user", "assistant", "tool", *_SILENT_ROLES, "function")

_CALL_IN_TEXT = "<tool_call>"
"""How several open models write a call when the server that runs them was not told to parse it."""


def tell_messages(messages: Iterable[Entry], telling: Telling) -> None:
    """Tell what messages say; what is wrong goes into the notes, with its path."""
    for path, message in messages:
        _tell_message(message, path, telling)


def _tell_message(message: object, path: str, telling: Telling) -> None:
    notes = telling.notes
    fields = as_object(message)
    if fields is None:
        notes.problem(path, f"expected a message (an object with a role), got {short_repr(message)}")
        return
    sign, role = sign_of(fields), fields.get("role")
    if sign is not None and sign.sure and sign.format != "openai-chat":
        notes.problem(path, f"expected an OpenAI chat message; this looks like {sign.phrase}")
    elif role not in _ROLES:
        notes.problem(f"{path}.role", f"expected one of {', '.join(_ROLES)}, got {short_repr(role)}")
    elif role == "assistant":
        _tell_assistant(fields, path, telling)
    elif fields.get("tool_calls") or fields.get("function_call"):
        notes.problem(path, f"calls stand in a message of role {role!r}; only an assistant's message can hold them")
    elif role in ("tool", "function"):
        telling.answer(_answer(fields, path, notes), path, legacy=role == "function")
    elif role == "user":
        text = read_text(fields.get("content"), f"{path}.content", notes)
        if text is not None:
            telling.user(text)


def _tell_assistant(fields: Mapping[str, object], path: str, telling: Telling) -> None:
    notes = telling.notes
    requests: list[Request] = []
    calls = fields.get("tool_calls")
    if isinstance(calls, (list, tuple)):
        read = (_request(entry, f"{path}.tool_calls[{position}]", notes) for position, entry in enumerate(calls))
        requests += [request for request in read if request is not None]
    elif calls is not None:
        notes.problem(f"{path}.tool_calls", f"expected a list of calls, got {short_repr(calls)}")
    legacy = _legacy_request(fields.get("function_call"), f"{path}.function_call", requests, notes)
    text = read_text(fields.get("content"), f"{path}.content", notes)
    spoken = (as_object(fields.get("audio")) or {}).get("transcript")
    said = [text, fields.get("refusal"), spoken]
    parts: list[str | Request] = [next((words for words in said if isinstance(words, str) and words), ""), *requests]
    if text is not None and _CALL_IN_TEXT in text and not requests and legacy is None:
        notes.warn(f"{path}.content", f"{_CALL_IN_TEXT!r} in the text was not read as a call; parse it into tool_calls")
    telling.model(parts if legacy is None else [*parts, legacy], legacy=legacy is not None and not requests)


def _legacy_request(value: object, path: str, others: list[Request], notes: Notes) -> Request | None:
    body = as_object(value)
    if value is None or (body is not None and not any(body.values())):  # some servers fill in what was not said
        return None
    request = _request({"type": "function", "function": value}, path, notes, legacy=True)
    for other in others:
        if request is not None and (other.name, other.arguments) == (request.name, request.arguments):
            notes.warn(path, f"repeats the call {other.source}; it counts once")
            return None
    return request


def _request(entry: object, path: str, notes: Notes, *, legacy: bool = False) -> Request | None:
    fields = as_object(entry)
    if fields is None:
        notes.problem(path, f"expected a call (an object), got {short_repr(entry)}")
        return None
    body, kind = call_body(fields)
    name = body.get("name")
    if not isinstance(name, str) or not name:
        where = f"{path}.function.name" if "function" in fields and not legacy else f"{path}.name"
        notes.problem(where, f"a call needs the name of its tool, got {short_repr(name)}")
        return None
    call_id = read_id(fields.get("id"), f"{path}.id", notes)
    if kind is ToolCallType.CUSTOM:
        given = {} if body.get("input") is None else {"input": body["input"]}
        return Request(name, given, call_id, kind, source=path)
    raw = body.get("arguments", body.get("args"))
    try:
        arguments, reason = arguments_of(raw)
    except InvalidDataError as error:
        notes.add_error(error, path)
        return None
    return Request(name, arguments if reason is None else raw, call_id, kind, error=reason, source=path)


def call_body(fields: Mapping[str, object]) -> tuple[Mapping[str, object], ToolCallType]:
    """Return the object that has the name and the arguments of a call, and the call's type.

    That is the value of `function` or of `custom`, or the entry itself where a framework has flattened it.
    """
    custom = as_object(fields.get("custom"))
    if custom is not None and as_object(fields.get("function")) is None:
        return custom, ToolCallType.CUSTOM
    return as_object(fields.get("function")) or fields, ToolCallType.FUNCTION


def _answer(fields: Mapping[str, object], path: str, notes: Notes) -> Answer:
    name = fields.get("name", fields.get("tool_name"))
    content = fields.get("content")
    return Answer(
        read_id(fields.get("tool_call_id"), f"{path}.tool_call_id", notes),
        name if isinstance(name, str) and name else None,
        ABSENT if content is None else output_of(content),
    )
