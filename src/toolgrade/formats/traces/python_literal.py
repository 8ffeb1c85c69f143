"""Reader of Python objects that a tracer printed with `repr`, e.g. `{'city': 'Paris', 'days': None}`."""

from __future__ import annotations

import ast
import re
import warnings
from types import NoneType
from typing import Final

from toolgrade._internal.json import MAX_DEPTH, JsonObject, parse_json_value, to_json_value
from toolgrade.errors import InvalidDataError

LONGEST: Final = 100_000
"""Most characters of a text that is read: Python needs much more memory for a literal than for JSON."""


def read_literal(text: object) -> JsonObject | None:
    """Return the object that a text means as JSON or as a Python literal with JSON's types; `None` if it means none."""
    if not isinstance(text, str) or len(text) > LONGEST:
        return None
    try:
        value = parse_json_value(text, unique_keys=False)
    except InvalidDataError:
        return _python_object(text.strip())
    return value if isinstance(value, dict) else None


def _python_object(text: str) -> JsonObject | None:
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
