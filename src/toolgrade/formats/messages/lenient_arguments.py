"""Lenient reader of argument texts that are not JSON objects; used only on request, and every use is a warning.

Models and the programs around them write arguments as Python literals, as JSON text inside JSON text, in a code fence,
with a comma after the last entry, or with a key twice, of which parsers take the last value. Each of these has one
reading, so nothing is guessed; any other text stays as it is.
"""

from __future__ import annotations

import ast
import re
import warnings
from types import NoneType
from typing import Any, Final

from toolgrade._internal.json import MAX_DEPTH, JsonObject, parse_json_value, to_json_value
from toolgrade.errors import InvalidDataError
from toolgrade.formats.messages.field_readers import Notes

LONGEST: Final = 100_000
"""Most characters of a text that is read leniently."""

_LAYERS: Final = 4
"""Most wrappers (fences, JSON texts) around an object."""

_FENCE: Final = re.compile(r"```(\w*\s*)(.*)```", re.DOTALL)
_STRING_OR_COMMA: Final = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


def read_tolerantly(raw: object) -> tuple[JsonObject, str] | None:
    """Return the argument object that a text means, and how it was read, such as `as a Python literal`.

    The result is `None` for anything but text, and for a text that has none of these forms, is longer than `LONGEST`
    characters, or is too deeply nested.
    """
    if not isinstance(raw, str) or len(raw) > LONGEST:
        return None
    value: Any = raw
    steps: list[str] = []
    for _ in range(_LAYERS):
        value, how = _unwrapped(value.strip())
        steps += how
        if isinstance(value, dict):
            return value, ", ".join(steps) or "as JSON"
        if not isinstance(value, str):
            return None
    return None


def _unwrapped(text: str) -> tuple[Any, list[str]]:
    """Return the text inside a code fence or the value of a text, and how it was read."""
    fence = _FENCE.fullmatch(text)
    if fence is not None:
        return fence[2], ["inside a code fence"]
    value, how = _value_of(text)
    return value, [*how, "as JSON text inside JSON text"] if isinstance(value, str) else how


def repair_arguments(raw: object, name: str, path: str, notes: Notes) -> JsonObject | None:
    """Return the argument object that a text means, with a warning that says how it was read; `None` if it has none.

    `raw` is the value in place of the arguments of a call of the tool `name`. Without `notes.tolerant`, no text is
    read.
    """
    result = read_tolerantly(raw) if notes.tolerant else None
    if result is None:
        return None
    arguments, how = result
    notes.warn(path, f"the arguments of {name!r} are not a JSON object; they were read {how}")
    return arguments


def _value_of(text: str) -> tuple[Any, list[str]]:
    """Return the value of a text, `None` if it has none, and how it was read."""
    value = _json(text)
    if value is not None:
        return value, []
    value = _json(text, unique_keys=False)
    if value is not None:
        return value, ["with the last value of each key"]
    value = _json(_STRING_OR_COMMA.sub(lambda match: "" if match[0] == "," else match[0], text))
    if isinstance(value, dict):
        return value, ["without trailing commas"]
    return _literal(text), ["as a Python literal"]


def _json(text: str, *, unique_keys: bool = True) -> Any:  # noqa: ANN401 - a JSON value
    try:
        return parse_json_value(text, unique_keys=unique_keys)
    except InvalidDataError:
        return None


def _literal(text: str) -> JsonObject | None:
    """Return the object that a Python literal with values of JSON's types stands for."""
    if not text.startswith("{") or _is_too_deep(text):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of invalid escapes and keeps them as they are
            value = ast.literal_eval(text)
        return to_json_value(value) if isinstance(value, dict) and _is_json(value) else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, InvalidDataError):
        return None


def _is_too_deep(text: str) -> bool:
    """Return whether more brackets are open at once than a value may have levels; those in texts count, too."""
    depth = 0
    for bracket in re.findall(r"[\[\](){}]", text):
        depth += 1 if bracket in "[({" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _is_json(value: object) -> bool:
    """Return whether a literal has only values of JSON's types: no bytes, sets, complex numbers, or non-text keys."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_json, value))
    return isinstance(value, (str, bool, int, float, NoneType))
