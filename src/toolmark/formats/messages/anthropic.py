"""What did the agent of these messages of Anthropic's Messages API do?

Calls and results are blocks of a message's content: `tool_use` and its relatives in the assistant's, `tool_result` in
the user's, and those of tools that Anthropic runs in the assistant's as well. A message of the user that holds nothing
but results is no turn of the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

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
    plain,
    read_id,
    read_text,
)
from toolmark.formats.messages.transcript import Answer, Entry, Telling

_Fields: TypeAlias = Mapping[str, object]

_ROLES = ("user", "assistant", "system")

_TYPES = {
    "tool_use": ToolCallType.FUNCTION,
    "server_tool_use": ToolCallType.HOSTED,
    "mcp_tool_use": ToolCallType.MCP,
}

_UNSPOKEN = frozenset({"container_upload", "compaction", "mcp_tool_listing", "fallback"})
"""Blocks of the assistant that are neither said nor called."""


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
    sign, role, content = sign_of(fields), fields.get("role"), fields.get("content")
    if sign is not None and sign.sure and sign.format != "anthropic":
        notes.problem(path, f"expected an Anthropic message; this looks like {sign.phrase}")
    elif role not in _ROLES:
        notes.problem(f"{path}.role", f"expected one of {', '.join(_ROLES)}, got {short_repr(role)}")
    elif role == "assistant":
        _tell_assistant(_blocks(content), f"{path}.content", telling)
    elif role == "user":
        _tell_user(_blocks(content), f"{path}.content", telling)


def _blocks(content: object) -> list[object]:
    if content is None:
        return []
    return list(content) if isinstance(content, (list, tuple)) else [content]


def _tell_assistant(blocks: list[object], path: str, telling: Telling) -> None:
    parts: list[str | Request] = []
    answers: list[tuple[Answer, str]] = []
    joined = False
    for index, block in enumerate(blocks):
        place, fields = f"{path}[{index}]", as_object(block) or {}
        kind = fields.get("type")
        if isinstance(kind, str) and kind.endswith("tool_use"):
            request = _request(fields, place, telling.notes)
            parts += [] if request is None else [request]
            joined = False
        elif isinstance(kind, str) and kind.endswith("tool_result"):
            answers.append((_answer(fields, place, telling.notes), place))
            joined = False
        elif kind not in _UNSPOKEN:
            text = read_text([block], place, telling.notes)
            if text and joined and isinstance(parts[-1], str):
                parts[-1] += text
            elif text:
                parts.append(text)
                joined = True
    telling.model(parts)
    for answer, place in answers:
        telling.answer(answer, place)


def _tell_user(blocks: list[object], path: str, telling: Telling) -> None:
    said: list[object] = []
    for index, block in enumerate(blocks):
        fields = as_object(block) or {}
        kind = fields.get("type")
        if isinstance(kind, str) and kind.endswith("tool_result"):
            telling.answer(_answer(fields, f"{path}[{index}]", telling.notes), f"{path}[{index}]")
        elif isinstance(kind, str) and kind.endswith("tool_use"):
            message = "a call stands in a message of role 'user'; only an assistant's message can hold one"
            telling.notes.problem(f"{path}[{index}]", message)
        else:
            said.append(block)
    text = read_text(said, path, telling.notes)
    if text is not None:
        telling.user(text)


def _request(fields: _Fields, path: str, notes: Notes) -> Request | None:
    name, raw, kind = fields.get("name"), fields.get("input"), fields.get("type")
    if not isinstance(name, str) or not name:
        notes.problem(f"{path}.name", f"a call needs the name of its tool, got {short_repr(name)}")
        return None
    if kind not in _TYPES:
        notes.warn(path, f"the type {kind!r} is not known; it was read as a call of {name!r}")
    try:
        arguments, reason = arguments_of(raw)
    except InvalidDataError as error:
        notes.add_error(error, path)
        return None
    caller = as_object(fields.get("caller")) or {}
    group = fields.get("server_name") or fields.get("toolset_name")
    return Request(
        name,
        arguments if reason is None else raw,
        read_id(fields.get("id"), f"{path}.id", notes),
        _TYPES.get(str(kind)),
        group if isinstance(group, str) else None,
        error=reason,
        caller=read_id(caller.get("tool_id"), f"{path}.caller.tool_id", notes),
        source=path,
    )


def _answer(fields: _Fields, path: str, notes: Notes) -> Answer:
    call_id = read_id(fields.get("tool_use_id"), f"{path}.tool_use_id", notes)
    content = fields.get("content")
    ran = fields.get("type") != "tool_result"
    known = as_object(content)
    if known is not None and str(known.get("type")).endswith("_error"):
        code = known.get("error_message") or known.get("error_code")
        return Answer(call_id, None, plain(known), failed=True, error=None if code is None else str(code), ran=ran)
    failed = fields.get("is_error") is True
    said = "" if content is None else plain(output_of(content))
    return Answer(call_id, None, said, failed=failed, error=None if said else "failed", ran=ran)
