"""Reader of the messages of Anthropic's Messages API.

Calls and results are blocks of a message's content: `tool_use` and its variants in the assistant's, `tool_result` in
the user's, and the results of tools that Anthropic runs in the assistant's, too. A message of the user with nothing but
results is not a turn of the user. A search for tools is not a call.

Source: Anthropic API reference, "Create a Message", `messages` and `content`; Anthropic documentation, "Server tools",
"MCP connector" (`server_name`) and "Programmatic tool calling" (`caller`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from toolgrade._internal.message_content import Fields, is_tool_search, object_of, part_type, parts_of, text_of
from toolgrade.calls import ToolCallType
from toolgrade.capture import Request
from toolgrade.formats.messages.field_readers import (
    Notes,
    output_of,
    plain,
    read_arguments,
    read_id,
    read_name,
    read_objects,
    read_role,
    read_text,
    reasoning_in,
)
from toolgrade.formats.messages.message import (
    Answer,
    Entry,
    Instructions,
    ModelMessage,
    NeutralMessage,
    append_part,
    read_user_input,
)

_ROLES = ("user", "assistant", "system")

_CALL_TYPES = {
    "tool_use": ToolCallType.FUNCTION,
    "server_tool_use": ToolCallType.HOSTED,
    "mcp_tool_use": ToolCallType.MCP,
}

_BREAK = ""
"""A text before and after which texts are not joined."""

_SILENT_BLOCKS = frozenset({"container_upload", "compaction", "mcp_tool_listing", "fallback"})
"""Blocks of the assistant that are neither text nor calls."""


def read_messages(entries: Iterable[Entry], notes: Notes, key: str = "content") -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the messages; problems go to `notes`.

    Gemini's and Bedrock's readers turn their messages into this form, with the blocks under another `key`.
    """
    for path, fields in read_objects(entries, notes, "a message (an object with a role)"):
        role = read_role(fields, _ROLES, path, notes)
        blocks = [(f"{path}.{key}[{index}]", block) for index, block in enumerate(parts_of(fields.get(key)))]
        if role == "assistant":
            yield from read_assistant(blocks, path, notes)
        elif role == "user":
            yield from read_user(blocks, path, notes)
        elif role == "system":
            yield path, Instructions(read_text([block for _, block in blocks], path, notes) or "")


def read_assistant(blocks: Sequence[Entry], path: str, notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the message with these blocks of the assistant, then the results of tools that Anthropic ran."""
    parts: list[str | Request] = []
    answers: list[tuple[str, Answer]] = []
    reasoning: str | None = None
    for place, block in blocks:
        kind = str(part_type(block))
        reasoning = reasoning_in(object_of(block)) or reasoning  # of all calls up to the next reasoning
        if is_tool_search(kind) or (kind == "server_tool_use" and is_tool_search(object_of(block).get("name"))):
            parts.append(_BREAK)
        elif kind.endswith("tool_use"):
            parts.append(replace(_read_call(object_of(block), place, notes), reasoning=reasoning))
        elif kind.endswith("tool_result"):
            answers.append((place, _read_answer(object_of(block), place, notes)))
            parts.append(_BREAK)
        elif kind not in _SILENT_BLOCKS:
            append_part(parts, read_text([block], place, notes) or "")
    yield path, ModelMessage(parts)
    yield from answers


def read_user(blocks: Sequence[Entry], path: str, notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the results among these blocks of the user, then the message with the others."""
    others: list[object] = []
    for place, block in blocks:
        kind = str(part_type(block))
        if kind.endswith("tool_result"):
            yield place, _read_answer(object_of(block), place, notes)
        elif kind.endswith("tool_use"):
            message = "a message of role 'user' has a call; only an assistant's message can have one"
            notes.problem(place, message)
        else:
            others.append(block)
    user = read_user_input(others, path, notes)
    if user is not None:
        yield path, user


def _read_call(fields: Fields, path: str, notes: Notes) -> Request:
    name, kind = read_name(fields, path, notes), str(fields.get("type"))
    if name and kind not in _CALL_TYPES:
        notes.warn(path, f"the type {kind!r} is unknown; it was read as a call of {name!r}")
    arguments, error = read_arguments(fields.get("input"), path, notes)
    return Request(
        name,
        arguments,
        read_id(fields, "id", path, notes),
        _CALL_TYPES.get(kind),
        server=text_of(fields.get("server_name") or fields.get("toolset_name")),
        error=error,
        source=path,
        caller=read_id(object_of(fields.get("caller")), "tool_id", f"{path}.caller", notes),
    )


def _read_answer(fields: Fields, path: str, notes: Notes) -> Answer:
    call_id = read_id(fields, "tool_use_id", path, notes)
    content = fields.get("content")
    ran = fields.get("type") != "tool_result"  # Anthropic ran the tool itself
    name, failed = text_of(fields.get("name")), fields.get("is_error") is True
    if "output" in fields:  # the readers of Gemini and Bedrock give the value itself
        return Answer(call_id, name, fields["output"], failed=failed, ran=ran)
    error = object_of(content)
    if str(error.get("type")).endswith("_error"):
        code = error.get("error_message") or error.get("error_code")
        return Answer(call_id, None, error, failed=True, error=None if code is None else str(code), ran=ran)
    output = "" if content is None else plain(output_of(content))
    return Answer(call_id, name, output, failed=failed, error=None if output else "failed", ran=ran)
