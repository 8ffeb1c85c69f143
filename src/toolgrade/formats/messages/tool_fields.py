"""Reader of tool calls in records, e.g. `{"name": "add", "args": {"a": 1}, "output": "2"}`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toolgrade._internal.json import JsonObject, short_repr, to_json_value
from toolgrade._internal.message_content import Fields, as_object, object_of, text_of
from toolgrade.calls import CallStatus, ToolCall, ToolCallType
from toolgrade.errors import InvalidDataError
from toolgrade.formats.messages.content_parts import call_body
from toolgrade.formats.messages.field_readers import Notes, arguments_of, present_keys, read_id, read_list, read_name
from toolgrade.matching.json_compare import ABSENT

_ARGUMENT_KEYS = ("input_parameters", "inputParameters", "args", "arguments")
_ID_KEYS = ("id", "tool_call_id")
_PLAIN_KEYS = ("description", "reasoning", "turn", "execution", "output")
_FLAT_KEYS = frozenset({"name", "type", "kind", "index", *_ARGUMENT_KEYS, *_ID_KEYS, *_PLAIN_KEYS})
_KEYS = _FLAT_KEYS | {"function", "custom"}

_TYPES = frozenset(member.value for member in ToolCallType)
_STEP_KINDS = frozenset({"tool_call", "tool", "tool_use", "function_call"})
"""Kinds of steps in other libraries; they mean that the step is a call, and do not name a type of call."""


def read_tools(value: object, path: str, notes: Notes, *, expected: bool) -> list[ToolCall]:
    """Return the calls of a list of tools; problems and warnings go to `notes`.

    Each tool is a `ToolCall`, which stays as it is, or an object with `name`, arguments (`args`, `arguments`,
    `input_parameters` or `inputParameters`, as an object or as JSON text), and optionally `output`, `id` or
    `tool_call_id`, `type` or `kind`, `description`, `reasoning`, `turn`, `execution`; or OpenAI's `{"id": ..., "type":
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
        fields = as_object(entry)
        if fields is None:
            notes.problem(place, f"expected a tool (an object with a name), got {short_repr(entry)}")
            continue
        try:
            tool = _read_tool(fields, place, notes, expected=expected)
            if tool is not None:
                tools.append(ToolCall(**tool))
        except InvalidDataError as error:
            notes.add_error(error, place)
        if None in fields.values() or not _FLAT_KEYS.issuperset(fields):
            for message, ignored_at in _ignored_fields(fields, place):
                places.setdefault(message, []).append(ignored_at)
    for message, paths in places.items():
        notes.warn_once(paths, message)
    return tools


def _read_tool(fields: Fields, path: str, notes: Notes, *, expected: bool) -> JsonObject | None:
    """Return the fields of the `ToolCall` that an entry describes; `None`, with a problem, if it has no name."""
    body, kind = call_body(fields)
    name = read_name(body, path, notes)
    if not name:
        return None
    tool: JsonObject = {"name": name}
    for key in _PLAIN_KEYS:
        if fields.get(key) is not None:
            tool[key] = fields[key]
    call_id = read_id({"id": _one_of(_ID_KEYS, fields, path, notes)}, "id", path, notes)
    if call_id is not None:
        tool["id"] = call_id
    call_type: str | None = None
    if body is fields:
        call_type = _read_type(fields, path, notes, expected=expected)
    elif not expected:  # in an expectation of OpenAI's form the type belongs to the form
        call_type = kind
    if call_type is not None:
        tool["type"] = call_type
    arguments = _one_of(_ARGUMENT_KEYS, body, path, notes)
    if kind is ToolCallType.CUSTOM and body.get("input") is not None:
        arguments = {"input": body["input"]}
    if isinstance(arguments, dict):
        tool["input_parameters"] = arguments
    elif arguments is not None:
        _set_other_arguments(tool, arguments, path, notes, expected=expected)
    return tool


def _one_of(keys: tuple[str, ...], fields: Fields, path: str, notes: Notes) -> object:
    """Return the value under one of several names for the same field, `None` if there is none."""
    if fields.keys().isdisjoint(keys):
        return None
    names = present_keys(fields, keys)
    if len(names) > 1:
        first, *others = (to_json_value(fields[key]) for key in names)
        if others != [first] * len(others):
            notes.problem(path, f"{' and '.join(map(repr, names))} are the same field with different values; give one")
    return fields[names[0]] if names else None


def _read_type(fields: Fields, path: str, notes: Notes, *, expected: bool) -> str | None:
    """Return the type of a call, if the entry has one."""
    call_type = _type_under("type", fields, path, notes, is_required=expected)
    kind = _type_under("kind", fields, path, notes, is_required=False)
    # A kind describes a recorded step; in an expectation it would demand what nobody meant to demand.
    return kind if call_type is None and not expected else call_type


def _type_under(key: str, fields: Fields, path: str, notes: Notes, *, is_required: bool) -> str | None:
    """Return the value under a key if it is a type of call; another one is a warning or (`is_required`) a problem."""
    value = fields.get(key)
    if value is None:
        return None
    kind = str(text_of(value)).lower()
    if kind in _TYPES:
        return kind
    if kind in _STEP_KINDS:
        return None
    if is_required:
        notes.problem(f"{path}.{key}", f"expected one of {', '.join(sorted(_TYPES))}, got {short_repr(value)}")
    else:
        notes.warn(f"{path}.{key}", f"{short_repr(value)} is not a type of call; it was left out")
    return None


def _set_other_arguments(tool: JsonObject, value: object, path: str, notes: Notes, *, expected: bool) -> None:
    """Set the arguments that a text means; text that is not an object is a problem or a warning."""
    tool["input_parameters"], reason = arguments_of(value)
    if reason is None:
        return
    name = tool["name"]
    tool["input_parameters"] = {}
    if expected:
        notes.problem(path, f"the arguments of {name!r} are not a JSON object: {reason}")
        return
    tool["execution"] = {**object_of(tool.get("execution")), "requested_parameters": value}
    notes.warn(path, f"the arguments of {name!r} are not a JSON object ({reason}); they count as {{}}")
    _set_invalid(tool)


def _set_invalid(tool: JsonObject) -> None:
    """Set that the arguments of a called tool are invalid; it cannot have run, even if the model saw an answer."""
    tool["execution"]["status"] = CallStatus.INVALID_ARGUMENTS
    if "output" in tool:
        tool["execution"]["model_output"] = tool.pop("output")


def _ignored_fields(fields: Fields, path: str) -> Iterator[tuple[str, str]]:
    """Yield a message and a path for each field of an entry that is null or that a call does not have."""
    body, _ = call_body(fields)
    for key in _null_keys(fields, ("output", "type")) + _null_keys(body, _ARGUMENT_KEYS):
        yield f"{key!r} is null and was read as not set", f"{path}.{key}"
    for key in fields:
        if key not in _KEYS:
            yield f"{key!r} is not a field of a call and was left out", path


def _null_keys(fields: Fields, keys: Iterable[str]) -> list[str]:
    return [key for key in keys if fields.get(key, ABSENT) is None]
