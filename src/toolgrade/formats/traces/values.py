"""Readers of values and times in traces that never fail, in addition to `field_readers`: each returns one type.

An attribute holds an object in one library, its JSON text in the next, and nothing in a third. With these readers the
rest of the package names a field and needs no test of its type.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from types import NoneType
from typing import Any, Final

from toolgrade._internal.json import MAX_DEPTH, JsonObject, is_number, parse_json_value, to_json_value
from toolgrade._internal.message_content import Fields, first_of, object_of, text_of
from toolgrade.errors import InvalidDataError
from toolgrade.formats.messages.field_readers import decoded, list_of

_INTEGER = re.compile(r"-?[0-9]{1,400}")
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d+))?\s*(?:Z|z|UTC|([+-]\d\d):?(\d\d))?\s*$", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_PARTS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

LONGEST: Final = 100_000
"""Most characters of a printed object that is read: Python needs much more memory for a literal than for JSON."""

_HIDDEN = frozenset({"__REDACTED__", "<redacted>", "[REDACTED]"})
"""Placeholders that instrumentations write for content that they were configured to drop."""

_SIZES = {"ms": (10**11, 10**14), "us": (10**14, 10**17)}
"""Counts that can only be milliseconds or microseconds: each range begins in March 1973."""


def json_object(value: object) -> Fields:
    """Return the object that a value is, or that its JSON text holds; an empty one for anything else."""
    return object_of(decoded(value))


def json_list(value: object) -> list[Any]:
    """Return the list that a value is, or that its JSON text holds; an empty one for anything else."""
    return list_of(decoded(value))


def string_of(value: object) -> str:
    """Return a value as text; the empty text for `None` and other empty values."""
    return str(value or "")


def first_text(*values: object) -> str | None:
    """Return the first of these values that is a text and not empty."""
    return next(filter(None, map(text_of, values)), None)


def integer_of(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return the integer that the ASCII digits of a text stand for; any other value as it is."""
    return int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else value


def first_key(fields: Fields, *keys: str) -> str | None:
    """Return the first of these keys that has a value."""
    return next((key for key in keys if fields.get(key) is not None), None)


def token_counts(fields: Fields, keys: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return counts of tokens under toolgrade's names, given the keys that a library has for each."""
    counts: dict[str, int] = {}
    for name, aliases in keys.items():
        count = integer_of(first_of(fields, *aliases))  # some exports write all attributes as text
        if type(count) is int and count >= 0:
            counts[name] = count
    return counts


def all_entries(value: object, test: Callable[[Fields], bool]) -> bool:
    """Return whether an object, or every object of a list that is not empty, passes a test."""
    if isinstance(value, list):
        return bool(value) and all(all_entries(entry, test) for entry in value)
    return test(object_of(value))


def entries_of(value: object, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a list, and of the lists in it, with their paths; anything else is the only entry."""
    if not isinstance(value, list):
        yield path, value
        return
    for index, entry in enumerate(value):
        yield from entries_of(entry, f"{path}[{index}]")


def is_hidden(value: object) -> bool:
    """Return whether a value is a placeholder for content that was not captured."""
    return isinstance(value, str) and value in _HIDDEN


def indexed(attributes: Fields, prefix: str) -> list[dict[str, Any]]:
    """Return the entries of a list that is spread over attributes: `llm.tools.0.name`, `llm.tools.1.name`.

    A hidden field is left out of its entry.
    """
    entries: dict[int, dict[str, Any]] = {}
    pattern = re.compile(re.escape(prefix) + r"([0-9]+)\.(.*)", re.DOTALL)
    for match in filter(None, map(pattern.match, attributes)):
        entry = entries.setdefault(int(match[1]), {})
        if not is_hidden(attributes[match[0]]):
            entry[match[2]] = attributes[match[0]]
    return [entries[number] for number in sorted(entries)]


def object_under(fields: Fields, key: str) -> Fields:
    """Return the object that a value holds as JSON text, or that is spread over several keys: `key.inner.name`.

    Such an object keeps the dotted names inside of it.
    """
    prefix = f"{key}."
    spread = {name.removeprefix(prefix): value for name, value in fields.items() if name.startswith(prefix)}
    return json_object(fields.get(key)) or spread


def flat(value: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested attributes under dotted names; lists without objects stay lists."""
    if isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        yield prefix.removesuffix("."), value
        return
    for key, inner in value.items():
        yield from flat(inner, f"{prefix}{key}.")


def time_of(value: object, *, unit: str | None = "ns") -> datetime | None:
    """Return the UTC time of a value; `None` where it is not a time.

    Args:
        value: An ISO 8601 text, a count since 1970 as a number or its text, or `[seconds, nanoseconds]`.
        unit: The unit of a count: `"s"`, `"ms"`, `"us"` or `"ns"`; `None` if its size decides.
    """
    try:
        if isinstance(value, (list, tuple)):  # the SDK for JavaScript
            seconds, nanoseconds = value
            return _EPOCH + timedelta(microseconds=int(seconds) * 1_000_000 + int(nanoseconds) // 1000)
        count = integer_of(value.strip()) if isinstance(value, str) else value
        if isinstance(count, str):
            return _from_text(count)
        # OTLP writes 0 for a time that was not set.
        if not is_number(count) or not count:
            return None
        return _EPOCH + timedelta(microseconds=int(count * 1_000_000 // _PARTS_PER_SECOND[unit or _unit_of(count)]))
    except (OverflowError, TypeError, ValueError):
        return None


def _unit_of(count: object) -> str:
    """Return the unit of a count since 1970, judged by its size: `"ms"`, `"us"`, else `"ns"`."""
    if isinstance(count, (int, float)):
        for unit, (least, end) in _SIZES.items():
            if least <= count < end:
                return unit
    return "ns"


def _from_text(text: str) -> datetime | None:
    match = _ISO.match(text)
    if match is None:
        return None
    # Python 3.10 reads neither `Z` nor fractions of any length.
    date, time, fraction, hours, minutes = match.groups(default="")
    text = f"{date}T{time}.{fraction[:6]:0<6}{hours or '+00'}:{minutes or '00'}"
    return datetime.fromisoformat(text).astimezone(timezone.utc)


def read_literal(text: object) -> JsonObject | None:
    """Return the object that a text means as JSON or as a Python literal with JSON's types; `None` if it means none.

    An object of a class inside of the literal, `Call(name='add')`, is read as the object of its fields.
    """
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
            value = ast.literal_eval(_ObjectsAsDicts().visit(ast.parse(text, mode="eval")))
        return to_json_value(value) if isinstance(value, dict) and _is_json(value) else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, InvalidDataError):
        return None


class _ObjectsAsDicts(ast.NodeTransformer):
    """Turns printed objects, such as those of data classes and Pydantic models, into dictionaries of their fields."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        names = [keyword.arg for keyword in node.keywords if keyword.arg is not None]
        if node.args or not names or len(names) < len(node.keywords):
            return node  # `literal_eval` refuses it
        values = [self.visit(keyword.value) for keyword in node.keywords]
        return ast.Dict([ast.Constant(name) for name in names], values)


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
