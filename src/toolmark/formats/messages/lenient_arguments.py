"""Which argument object did a model mean by a text that is no JSON object? Read only if asked for, and told.

Models and the programs around them write arguments as Python literals, as JSON text inside of JSON text, inside of a
code fence, or with a comma after the last entry. Each of these has one reading, so nothing here has to be guessed; any
other text stays what it is.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any, Final

from toolmark._internal.json import MAX_DEPTH, JsonObject, parse_json, to_json_value
from toolmark.errors import InvalidDataError
from toolmark.formats.messages.field_readers import Notes

LONGEST: Final = 100_000
"""Characters of a text that is read tolerantly."""

_LAYERS: Final = 4
"""Ways of wrapping that a text may have inside each other."""

_LANGUAGE: Final = re.compile(r"\w*\s*")
_STRING_OR_COMMA: Final = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


def read_tolerantly(raw: object) -> tuple[JsonObject, str] | None:
    """Return the argument object that a text means, and how it was read, such as `as a Python literal`.

    Returns:
        `None` for what is no text, and for a text that means none in any of these ways, is longer than `LONGEST`
        characters, or deeper than values may be.
    """
    if not isinstance(raw, str) or len(raw) > LONGEST:
        return None
    text, told = raw, list[str]()
    for _ in range(_LAYERS):
        text = text.strip()
        inner = _inside_fence(text)
        if inner is not None:
            told.append("inside a code fence")
            text = inner
            continue
        value, how = _value_of(text)
        told += [how] if how else []
        if isinstance(value, str):
            told.append("as JSON text inside of JSON text")
            text = value
        elif isinstance(value, dict):
            return value, ", ".join(told) or "as JSON"
        else:
            return None
    return None


def repaired(raw: object, name: str, path: str, notes: Notes) -> JsonObject | None:
    """Return the argument object that a text means, with a warning that says how it was read; `None` if it means none.

    Args:
        raw: What stands in the place of the arguments, and is no object.
        name: The tool's.
        path: JSON path of the call.
        notes: Takes the warning, and says whether texts are read tolerantly at all.
    """
    found = read_tolerantly(raw) if notes.tolerant else None
    if found is None:
        return None
    notes.warn(path, f"the arguments of {name!r} are no JSON object; they were read {found[1]}")
    return found[0]


def _inside_fence(text: str) -> str | None:
    """Return what stands in a code fence; `None` where there is none."""
    if not text.startswith("```") or not text.endswith("```") or len(text) < 6:  # noqa: PLR2004 - both fences
        return None
    body = text[3:-3]
    language = _LANGUAGE.match(body)
    return body[language.end() :] if language else body


def _value_of(text: str) -> tuple[Any, str]:
    """Return the value of a text and how it was read; `None` where it cannot be."""
    value = _json(text)
    if value is not None:
        return value, ""
    value = _json(_STRING_OR_COMMA.sub(lambda match: "" if match[0] == "," else match[0], text))
    if isinstance(value, dict):
        return value, "without trailing commas"
    return _literal(text), "as a Python literal"


def _json(text: str) -> Any:  # noqa: ANN401 - a JSON value
    try:
        return to_json_value(parse_json(text))
    except InvalidDataError:
        return None


def _literal(text: str) -> JsonObject | None:
    """Return the object that a Python literal of JSON's kinds of values stands for."""
    if not text.startswith("{") or _too_deep(text):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a doubtful escape, which Python reads as it stands
            value = ast.literal_eval(text)
        return to_json_value(value) if isinstance(value, dict) and _is_json(value) else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, InvalidDataError):
        return None


def _too_deep(text: str) -> bool:
    """Return whether brackets are open inside each other beyond what a value may have; those in texts count, too."""
    depth = 0
    for sign in re.findall(r"[\[\](){}]", text):
        depth += 1 if sign in "[({" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _is_json(value: object) -> bool:
    """Return whether a literal has only what JSON has: no bytes, sets, complex numbers, or keys that are no texts."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_json, value))
    return value is None or isinstance(value, (str, bool, int, float))
