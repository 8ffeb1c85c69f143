"""One tool call as records write it, e.g. `{"name": "add", "args": {"a": 1}, "output": "2"}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmark._internal.json import short_repr, to_json_value
from toolmark.calls import CallStatus, ToolCall, ToolCallType
from toolmark.errors import InvalidDataError
from toolmark.formats.messages.field_readers import Notes, arguments_of, as_object, read_id
from toolmark.formats.messages.lenient_arguments import repaired
from toolmark.formats.messages.openai_chat import call_body

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeAlias

    from toolmark._internal.json import JsonObject

    _Said: TypeAlias = dict[str, list[str]]

_ARGUMENT_KEYS = ("input_parameters", "inputParameters", "args", "arguments")
_ID_KEYS = ("id", "tool_call_id")
_PLAIN_KEYS = ("description", "reasoning", "execution")
_KNOWN_KEYS = frozenset(
    {"name", "function", "custom", "type", "kind", "output", "index", *_ARGUMENT_KEYS, *_ID_KEYS, *_PLAIN_KEYS}
)

_TYPES = frozenset(member.value for member in ToolCallType)
_STEP_KINDS = frozenset({"tool_call", "tool", "tool_use", "function_call"})
"""What other libraries write as a step's kind to say that it is a call; it says nothing about the call's type."""


def read_tools(value: object, path: str, notes: Notes, *, expected: bool) -> list[ToolCall]:
    """Return the calls of a list of tools; what is wrong or doubtful goes into `notes`.

    `null` reads as not set, and keys that a call does not have are left out; a warning tells of either.

    Args:
        value: The list. Each tool is a `ToolCall`, which is kept as it is, or an object with `name`, arguments (`args`,
            `arguments`, `input_parameters` or `inputParameters`, as an object or as JSON text), and optionally
            `output`, `id` or `tool_call_id`, `type` or `kind`, `description`, `reasoning`, `execution`; or OpenAI's
            `{"id": ..., "type": "function", "function": {"name": ..., "arguments": ...}}`.
        path: JSON path of the list.
        notes: Takes the problems and warnings.
        expected: The calls are expectations: arguments that are no object are then a problem. In a called tool they
            are what the model did, and give the status `invalid_arguments` and a warning.
    """
    if not isinstance(value, (list, tuple)):
        notes.problem(path, f"expected a list of tools, got {short_repr(value)}")
        return []
    tools: list[ToolCall] = []
    said: _Said = {}
    for index, entry in enumerate(value):
        if isinstance(entry, ToolCall):
            tools.append(entry)
            continue
        place = f"{path}[{index}]"
        try:
            fields = _read_tool(entry, place, notes, said, expected=expected)
            if fields is not None:
                tools.append(ToolCall.model_validate(fields))
        except InvalidDataError as error:
            notes.add_error(error, place)
    for message, places in said.items():
        notes.warn_once(places, message)
    return tools


def readable_tool(tool: object, path: str, notes: Notes, *, called: bool) -> object:
    """Return a call in toolmark's own form with an argument object in the place of a text that can only mean one."""
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        return tool
    for key in _ARGUMENT_KEYS:
        raw = tool.get(key)
        if isinstance(raw, str) and arguments_of(raw)[1] is not None:
            arguments = repaired(raw, tool["name"], path, notes)
            if arguments is not None:
                known = tool.get("execution") or {}
                if called and isinstance(known, dict):
                    return {**tool, key: arguments, "execution": {**known, "requested_parameters": raw}}
                return {**tool, key: arguments}
    return tool


def _read_tool(entry: object, path: str, notes: Notes, said: _Said, *, expected: bool) -> JsonObject | None:
    """Return the fields of the `ToolCall` that an entry describes."""
    given = as_object(entry)
    if given is None:
        notes.problem(path, f"expected a tool (an object with a name), got {short_repr(entry)}")
        return None
    body, kind = call_body(given)
    name = body.get("name")
    if not isinstance(name, str) or not name:
        notes.problem(f"{path}.name", f"a call needs the name of its tool, got {short_repr(name)}")
        return None
    fields: JsonObject = {"name": name}
    fields |= {key: given[key] for key in (*_PLAIN_KEYS, "output") if given.get(key) is not None}
    call_id = read_id(_one_of(_ID_KEYS, given, path, notes), f"{path}.id", notes)
    if call_id is not None:
        fields["id"] = call_id
    if body is given:
        _read_type(given, fields, path, notes, expected=expected)
    elif not expected:  # in OpenAI's form the type tells the form; it is no demand on the call
        fields["type"] = kind
    reason = _read_arguments(body, kind, fields, path, notes)
    raw = None if reason is None else _one_of(_ARGUMENT_KEYS, body, path, notes)
    arguments = None if reason is None else repaired(raw, name, path, notes)
    if arguments is not None:
        fields["input_parameters"] = arguments
        if not expected:
            fields["execution"] = {**(as_object(fields.get("execution")) or {}), "requested_parameters": raw}
    elif reason is not None and expected:
        notes.problem(path, f"the arguments of {name!r} are no JSON object: {reason}")
    elif reason is not None:
        notes.warn(path, f"the arguments of {name!r} are no JSON object ({reason}); they count as {{}}")
        _mark_invalid(fields, raw)
    _say_what_was_left_out(given, body, path, said)
    return fields


def _one_of(keys: Iterable[str], given: Mapping[str, object], path: str, notes: Notes) -> object:
    """Return the value that stands under one of several names for the same thing, `None` where there is none."""
    found = [key for key in keys if given.get(key) is not None]
    if any(to_json_value(given[key]) != to_json_value(given[found[0]]) for key in found[1:]):
        notes.problem(path, f"{' and '.join(map(repr, found))} say the same thing differently; give it once")
    return given[found[0]] if found else None


def _read_type(given: Mapping[str, object], fields: JsonObject, path: str, notes: Notes, *, expected: bool) -> None:
    for key in ("type", "kind"):
        kind = given.get(key)
        plain = kind.lower() if isinstance(kind, str) else ""
        if kind is None or plain in _STEP_KINDS:
            continue
        if plain in _TYPES:
            # A kind describes a step that was seen; in an expectation it would demand what nobody meant to demand.
            if key == "type" or not expected:
                fields.setdefault("type", plain)
        elif key == "type" and expected:
            notes.problem(f"{path}.type", f"expected one of {', '.join(sorted(_TYPES))}, got {short_repr(kind)}")
        else:
            notes.warn(f"{path}.{key}", f"{short_repr(kind)} is no type of call that toolmark knows; it was left out")


def _read_arguments(
    body: Mapping[str, object], kind: ToolCallType, fields: JsonObject, path: str, notes: Notes
) -> str | None:
    """Put the arguments into `fields`, if there are any, and return why they cannot be read, if so."""
    if kind is ToolCallType.CUSTOM and body.get("input") is not None:
        fields["input_parameters"] = {"input": body["input"]}
        return None
    raw = _one_of(_ARGUMENT_KEYS, body, path, notes)
    if raw is None:
        return None
    fields["input_parameters"], reason = arguments_of(raw)
    return reason


def _mark_invalid(fields: JsonObject, raw: object) -> None:
    execution = {**(as_object(fields.get("execution")) or {})}
    execution |= {"status": CallStatus.INVALID_ARGUMENTS, "requested_parameters": raw}
    if "output" in fields:
        execution["model_output"] = fields.pop("output")
    fields["execution"] = execution


def _say_what_was_left_out(given: Mapping[str, object], body: Mapping[str, object], path: str, said: _Said) -> None:
    for key in ("output", "type"):
        if key in given and given[key] is None:
            said.setdefault(f"{key!r} is null and was read as not set", []).append(f"{path}.{key}")
    for key in _ARGUMENT_KEYS:
        if key in body and body[key] is None:
            said.setdefault(f"{key!r} is null and was read as not set", []).append(f"{path}.{key}")
    for key in given:
        if key not in _KNOWN_KEYS:
            said.setdefault(f"{key!r} is no field of a call and was left out", []).append(path)
