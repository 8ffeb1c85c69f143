"""Reader of tool calls in records, e.g. `{"name": "add", "args": {"a": 1}, "output": "2"}`."""

from __future__ import annotations

from collections.abc import Iterator

from toolmark._internal.json import JsonObject, short_repr, to_json_value
from toolmark.calls import CallStatus, ToolCall, ToolCallType
from toolmark.errors import InvalidDataError, Problem
from toolmark.formats.messages.content_parts import call_body
from toolmark.formats.messages.field_readers import (
    Fields,
    Notes,
    arguments_of,
    as_object,
    first_of,
    object_of,
    read_id,
    read_list,
    text_of,
)
from toolmark.formats.messages.lenient_arguments import repair_arguments

_ARGUMENT_KEYS = ("input_parameters", "inputParameters", "args", "arguments")
_ID_KEYS = ("id", "tool_call_id")
_PLAIN_KEYS = ("description", "reasoning", "execution", "output")
_KEYS = frozenset({"name", "function", "custom", "type", "kind", "index", *_ARGUMENT_KEYS, *_ID_KEYS, *_PLAIN_KEYS})

_TYPES = frozenset(member.value for member in ToolCallType)
_STEP_KINDS = frozenset({"tool_call", "tool", "tool_use", "function_call"})
"""Kinds of steps in other libraries; they mean that the step is a call, and do not name a type of call."""


def read_tools(value: object, path: str, notes: Notes, *, expected: bool) -> list[ToolCall]:
    """Return the calls of a list of tools; problems and warnings go to `notes`.

    Each tool is a `ToolCall`, which stays as it is, or an object with `name`, arguments (`args`, `arguments`,
    `input_parameters` or `inputParameters`, as an object or as JSON text), and optionally `output`, `id` or
    `tool_call_id`, `type` or `kind`, `description`, `reasoning`, `execution`; or OpenAI's `{"id": ..., "type":
    "function", "function": {"name": ..., "arguments": ...}}`. `null` reads as not set, and keys that a call does not
    have are left out, each with a warning.

    Arguments that are not an object are a problem in `expected` calls. In called tools they are what the model wrote,
    and give the status `invalid_arguments` and a warning.
    """
    tools: list[ToolCall] = []
    places: dict[str, list[str]] = {}
    for index, entry in enumerate(read_list(value, path, notes, "a list of tools")):
        if isinstance(entry, ToolCall):
            tools.append(entry)
            continue
        place = f"{path}[{index}]"
        try:
            tools.append(ToolCall.model_validate(_read_tool(entry, place, notes, expected=expected)))
        except InvalidDataError as error:
            notes.add_error(error, place)
        for message, ignored_at in _ignored_fields(object_of(entry), place):
            places.setdefault(message, []).append(ignored_at)
    for message, paths in places.items():
        notes.warn_once(paths, message)
    return tools


def readable_tool(tool: object, path: str, notes: Notes, *, called: bool) -> object:
    """Return a call in toolmark's own form with an argument object instead of a text that has only one meaning."""
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        return tool
    for key in _ARGUMENT_KEYS:
        raw = tool.get(key)
        if not isinstance(raw, str) or arguments_of(raw)[1] is None:
            continue
        arguments = repair_arguments(raw, tool["name"], path, notes)
        if arguments is None:
            continue
        execution = tool.get("execution") or {}
        if called and isinstance(execution, dict):
            return {**tool, key: arguments, "execution": {**execution, "requested_parameters": raw}}
        return {**tool, key: arguments}
    return tool


def _read_tool(entry: object, path: str, notes: Notes, *, expected: bool) -> JsonObject:
    """Return the fields of the `ToolCall` that an entry describes.

    Raises `InvalidDataError`, with paths that start at the entry, if it does not describe a call.
    """
    fields = as_object(entry)
    if fields is None:
        raise _invalid("$", f"expected a tool (an object with a name), got {short_repr(entry)}")
    body, kind = call_body(fields)
    name = text_of(body.get("name"))
    if name is None:
        raise _invalid("$.name", f"a call needs the name of its tool, got {short_repr(body.get('name'))}")
    tool: JsonObject = {key: fields[key] for key in _PLAIN_KEYS if fields.get(key) is not None}
    tool["name"] = name
    call_id = read_id(_one_of(_ID_KEYS, fields, path, notes), f"{path}.id", notes)
    if call_id is not None:
        tool["id"] = call_id
    if body is fields:
        tool |= _read_type(fields, path, notes, expected=expected)
    elif not expected:  # in OpenAI's form the type belongs to the form; it is not an expectation
        tool["type"] = kind
    arguments = _one_of(_ARGUMENT_KEYS, body, path, notes)
    if kind is ToolCallType.CUSTOM and body.get("input") is not None:
        tool["input_parameters"] = {"input": body["input"]}
    elif arguments is not None:
        _set_arguments(tool, arguments, path, notes, expected=expected)
    return tool


def _invalid(path: str, message: str) -> InvalidDataError:
    return InvalidDataError(message, [Problem(path, message)])


def _one_of(keys: tuple[str, ...], fields: Fields, path: str, notes: Notes) -> object:
    """Return the value under one of several names for the same field, `None` if there is none."""
    names = [key for key in keys if fields.get(key) is not None]
    value = first_of(fields, *keys)
    if any(to_json_value(fields[key]) != to_json_value(value) for key in names[1:]):
        notes.problem(path, f"{' and '.join(map(repr, names))} are the same field with different values; give one")
    return value


def _read_type(fields: Fields, path: str, notes: Notes, *, expected: bool) -> JsonObject:
    """Return the type of a call as a field, if the entry has one."""
    types: list[str] = []
    for key in ("type", "kind"):
        value = fields.get(key)
        kind = (text_of(value) or "").lower()
        if value is None or kind in _STEP_KINDS:
            continue
        if kind in _TYPES:
            # A kind describes a recorded step; in an expectation it would demand what nobody meant to demand.
            if key == "type" or not expected:
                types.append(kind)
        elif key == "type" and expected:
            notes.problem(f"{path}.type", f"expected one of {', '.join(sorted(_TYPES))}, got {short_repr(value)}")
        else:
            notes.warn(f"{path}.{key}", f"{short_repr(value)} is not a type of call; it was left out")
    return {"type": types[0]} if types else {}


def _set_arguments(tool: JsonObject, value: object, path: str, notes: Notes, *, expected: bool) -> None:
    tool["input_parameters"], reason = arguments_of(value)
    if reason is None:
        return
    name = tool["name"]
    arguments = repair_arguments(value, name, path, notes)
    execution = {**object_of(tool.get("execution")), "requested_parameters": value}
    if arguments is None and expected:
        notes.problem(path, f"the arguments of {name!r} are not a JSON object: {reason}")
    elif arguments is None:
        notes.warn(path, f"the arguments of {name!r} are not a JSON object ({reason}); they count as {{}}")
        execution["status"] = CallStatus.INVALID_ARGUMENTS
        if "output" in tool:  # the model saw an answer, but the tool cannot have run
            execution["model_output"] = tool.pop("output")
    tool["input_parameters"] = arguments or {}
    if not expected:
        tool["execution"] = execution


def _ignored_fields(fields: Fields, path: str) -> Iterator[tuple[str, str]]:
    """Yield a message and a path for each field of an entry that is null or that a call does not have."""
    body, _ = call_body(fields)
    nulls = [key for key in ("output", "type") if fields.get(key, "") is None]
    nulls += [key for key in _ARGUMENT_KEYS if body.get(key, "") is None]
    for key in nulls:
        yield f"{key!r} is null and was read as not set", f"{path}.{key}"
    for key in fields:
        if key not in _KEYS:
            yield f"{key!r} is not a field of a call and was left out", path
