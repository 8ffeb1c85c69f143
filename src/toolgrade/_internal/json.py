"""JSON values: conversion of Python values, reading and writing of JSON text.

A JSON value here is `None`, `bool`, `int`, `float`, `str`, `list` or `dict` with text keys, of exactly these types. A
converted value is a deep copy, so that a tool which changes its argument later does not change the record. NaN and the
infinities are allowed in memory; `json_text` writes them as the texts "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime
import decimal
import enum
import json
import math
import numbers
import pathlib
import reprlib
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from itertools import islice
from typing import Any, Final, ParamSpec, TypeAlias, TypeGuard, TypeVar

from pydantic import BaseModel

from toolgrade.errors import InvalidDataError, Problem, ToolgradeWarning

MAX_DEPTH = 200
"""Levels of nested lists and objects that a value may have; a flat list has one."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object. Its values are JSON values; they are typed `Any` because Python's invariant `dict` would otherwise
refuse a caller's `dict[str, int]`."""

_Trail: TypeAlias = "tuple[_Trail, str | int] | None"
"""The keys that lead to a value, innermost first. It becomes a JSON path only if a warning needs one."""

_MAX_BITS = 13_000
_MAX_DIGITS = 3_900
"""Limits of an integer that Python writes in decimal."""

_TOO_MANY_DIGITS = "integer string conversion"
"""In Python's message about an integer that is too long to be converted from or to text."""

_P = ParamSpec("_P")
_T = TypeVar("_T")

_SCALARS = frozenset({str, int, float, bool, type(None)})
_are_scalars = _SCALARS.issuperset


def json_path(parts: tuple[str | int, ...], path: str = "$") -> str:
    """Return the JSON path of `parts` from another path on; keys that are not identifiers are quoted.

    One from the root is `$.tools_called[0].name`.
    """
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.isidentifier():
            path += f".{part}"
        else:
            path += f"[{json.dumps(part, ensure_ascii=False)}]"
    return path


def to_json_value(value: object, notes: list[str] | None = None) -> Any:
    """Return `value` as a JSON value, deep-copied.

    Tuples become lists, sets sorted lists, dates and times ISO 8601 text, enums their value, pydantic models and
    dataclasses objects, bytes `{"type": "bytes", "encoding": "base64", "size": ..., "data": ...}`, other keys than text
    their JSON text. Other integers and reals (`numbers.Integral`, `numbers.Real`, such as numpy's scalars) become `int`
    and `float`, a `Decimal` its number, a `UUID` or a path its text, a `timedelta` its seconds. Anything else becomes
    its `repr`, with a `ToolgradeWarning` that names its path.

    Args:
        value: Any value.
        notes: Collects the warnings instead, for recorders, which must not disturb the program they observe.

    Raises:
        InvalidDataError: The value is deeper than `MAX_DEPTH` levels, or contains itself; or it has a matcher of
            `toolgrade.expect`, which is not a value (with `notes` it is stored as an object).
    """
    if type(value) in _SCALARS:
        return value
    try:
        return _convert(value, None, 0, notes)
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> InvalidDataError:
    return InvalidDataError.of(
        f"deeper than {MAX_DEPTH} levels of lists and objects, or containing itself; flatten it first"
    )


def within_limits(read: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a reader that raises `InvalidDataError` where a value is nested too deeply or has an integer too large.

    Python raises `RecursionError` and `ValueError` for these wherever a reader first meets them, which may be anywhere.
    """

    @wraps(read)
    def checked(*args: _P.args, **options: _P.kwargs) -> _T:
        try:
            return read(*args, **options)
        except RecursionError:
            raise _too_deep() from None
        except ValueError as error:
            if _TOO_MANY_DIGITS not in str(error) or isinstance(error, InvalidDataError):
                raise
            raise _too_many_digits() from None

    return checked


def _too_many_digits() -> InvalidDataError:
    return InvalidDataError.of("an integer has more than 4,000 digits; write it as text")


def _convert(value: Any, trail: _Trail, depth: int, notes: list[str] | None) -> Any:
    kind = type(value)
    while kind is not dict and kind is not list:
        if kind in _SCALARS:
            return value
        value = _convert_foreign(value, trail, notes)  # a model may stand for a value that is not JSON either
        kind = type(value)
    if depth >= MAX_DEPTH:
        raise _too_deep()
    # Every recorded argument passes here: scalars, and lists of them, are taken without another call.
    if kind is list:
        if _are_scalars(map(type, value)):
            return value.copy()
        return [_convert(item, (trail, index), depth + 1, notes) for index, item in enumerate(value)]
    result: JsonObject = {}
    for key, item in value.items():
        if type(key) is not str:
            return _convert_entries(value, result, trail, depth, notes)
        result[key] = item if type(item) in _SCALARS else _convert(item, (trail, key), depth + 1, notes)
    return result


def _convert_entries(
    value: Mapping[Any, Any], result: JsonObject, trail: _Trail, depth: int, notes: list[str] | None
) -> JsonObject:
    """Return an object with some keys that are not text; `result` has the entries before the first of these."""
    for key, item in islice(value.items(), len(result), None):
        text = key if type(key) is str else _key_text(key)
        if text in result or (not isinstance(key, str) and text in value):
            text = _unused_key(f"{text} ({type(key).__name__})", result, trail, notes)
        result[text] = _convert(item, (trail, text), depth + 1, notes)
    return result


def _bytes_object(value: bytes | bytearray | memoryview) -> JsonObject:
    data = bytes(value)
    return {"type": "bytes", "encoding": "base64", "size": len(data), "data": base64.b64encode(data).decode("ascii")}


def _decimal_number(value: decimal.Decimal) -> int | float:
    """Return the number; raise `OverflowError` for one that is too large for both types."""
    if value.is_finite() and value.adjusted() < _MAX_DIGITS and value == value.to_integral_value():
        return int(value)
    number = float(value)
    if math.isinf(number) and not value.is_infinite():
        raise OverflowError
    return number


_CONVERTERS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (numbers.Integral, int),
    (numbers.Real, float),
    (decimal.Decimal, _decimal_number),
    ((uuid.UUID, pathlib.PurePath), str),
    (datetime.timedelta, datetime.timedelta.total_seconds),
    (Mapping, dict),
    ((list, tuple), list),
    ((datetime.date, datetime.time), lambda value: value.isoformat()),
    ((bytes, bytearray, memoryview), _bytes_object),
    (BaseModel, lambda value: value.model_dump()),
)
"""Conversions of the outermost layer of a value, tried in this order."""


def _convert_foreign(value: object, trail: _Trail, notes: list[str] | None) -> Any:
    """Return a value of foreign code with its outermost layer as a JSON type; what raises is stored as its repr."""
    try:
        return _convert_outer(value, trail, notes)
    except (InvalidDataError, RecursionError):
        raise
    except Exception:  # noqa: BLE001 - the code of an object must not disturb the program that is observed
        return _repr_with_note(value, trail, notes)


def _convert_outer(value: object, trail: _Trail, notes: list[str] | None) -> Any:
    """Return `value` with its outermost layer as a JSON type; the caller converts what is inside."""
    if type(value) in _SCALARS or type(value) in (dict, list):
        return value
    if isinstance(value, enum.Enum):
        return _convert_outer(value.value, trail, notes)
    if isinstance(value, (set, frozenset)):
        return sorted((_convert(item, trail, 0, notes) for item in value), key=_sort_key)
    for types, convert in _CONVERTERS:
        if isinstance(value, types):
            return convert(value)  # of a fraction that no float can hold it raises, and the caller stores the repr
    return _convert_unknown(value, trail, notes)


def _convert_unknown(value: object, trail: _Trail, notes: list[str] | None) -> Any:
    """Return a value of none of the known types, with its outermost layer as a JSON type; its repr, if nothing fits."""
    item = getattr(value, "item", None)
    if getattr(value, "shape", None) == () and callable(item):  # a scalar of numpy or of a similar array library
        return _convert_outer(item(), trail, notes)
    if notes is None and hasattr(type(value), MATCHER_MARK):
        message = f"{type(value).__name__} is a matcher, and a ToolCall has values only"
        message += "; use toolgrade.expect.Expect in place of ToolCall"
        raise InvalidDataError(message, [Problem(_path_of(trail), message)])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return _repr_with_note(value, trail, notes)


def _repr_with_note(value: object, trail: _Trail, notes: list[str] | None) -> str:
    text = _safe_repr(value, repr)
    message = (
        f"{_path_of(trail)}: a {type(value).__name__} is not a JSON value and was stored as its repr {text[:60]!r}; "
        "convert it before recording if it should be compared"
    )
    _note(message, notes)
    return text


def _safe_repr(value: object, to_text: Callable[[object], str]) -> str:
    try:
        return to_text(value)
    except Exception as error:  # noqa: BLE001 - a broken __repr__ must break neither a recording nor a message
        return f"<{type(value).__name__} whose repr raised {type(error).__name__}>"


def _key_text(key: object) -> str:
    plain = _convert_outer(key, None, [])
    return plain if isinstance(plain, str) else json.dumps(plain, default=repr)


def _unused_key(key: str, used: JsonObject, trail: _Trail, notes: list[str] | None) -> str:
    """Return `key`, numbered if it is in use, so that neither of two entries with the same text is lost."""
    text = key
    number = 2
    while text in used:
        text, number = f"{key} {number}", number + 1
    _note(f"{_path_of(trail)}: two keys have the same text; one was stored as {text!r}", notes)
    return text


def _note(text: str, notes: list[str] | None) -> None:
    if notes is None:
        warnings.warn(text, ToolgradeWarning, stacklevel=2)
    else:
        notes.append(text)


def json_items(value: Any) -> Iterable[tuple[str | int, Any]]:
    """Return the entries of an object or a list with their keys or positions; none of any other value."""
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def is_deeper(value: object, levels: int) -> bool:
    """Return whether a value has more than so many levels of lists and objects."""
    inside = [value]
    for _ in range(levels + 1):
        inside = [item for one in inside for _, item in json_items(one) if isinstance(item, (list, dict))]
        if not inside:
            return False
    return True


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number; true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _sort_key(value: object) -> tuple[int, float, str]:
    """Sort numbers by size, then texts, then other values by their JSON text; equal values get equal keys."""
    if is_number(value):
        with contextlib.suppress(OverflowError):
            return 0, float(value), ""
    if isinstance(value, str):
        return 1, 0.0, value
    return 2, 0.0, json_text(value)


def _path_of(trail: _Trail) -> str:
    parts: list[str | int] = []
    while trail is not None:
        trail, part = trail
        parts.append(part)
    return json_path(tuple(reversed(parts)))


def short_repr(value: object, limit: int = 60) -> str:
    """Return at most about `limit` characters of a value's repr, for messages; never fails, however deep it is."""
    shortener = reprlib.Repr()
    shortener.maxstring = shortener.maxother = limit
    text = _safe_repr(value, shortener.repr)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


class _ConstantError(Exception):
    """A JSON text holds NaN or an infinity."""


def _refuse_constant(_name: str) -> float:
    raise _ConstantError


class _DuplicateKeyError(Exception):
    """An object of a JSON text has a key twice."""


def _object_with_unique_keys(pairs: list[tuple[str, Any]]) -> JsonObject:
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    keys = [key for key, _ in pairs]
    raise _DuplicateKeyError(next(key for key in keys if keys.count(key) > 1))


_UNIQUE: Final[dict[str, Any]] = {"object_pairs_hook": _object_with_unique_keys}

_decoder = json.JSONDecoder(parse_constant=_refuse_constant, **_UNIQUE)
_lenient_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
"""One decoder for all: `json.loads` with an option makes a new one for each text."""


def parse_json(text: str | bytes, *, allow_nan: bool = False, unique_keys: bool = True) -> Any:
    """Return the value of a JSON text, which is text or UTF-8 bytes.

    `allow_nan` accepts bare NaN, Infinity and -Infinity, which JSON does not have, as floats. Without `unique_keys`,
    the last value of a key counts: for texts inside of data, which other programs have read in this way before.

    Raises:
        InvalidDataError: It is not JSON, is nested too deeply to be read, has a key twice in one object, or holds a
            bare NaN or infinity (each is named with its path).
    """
    options = _UNIQUE if unique_keys else {}
    try:
        try:
            if isinstance(text, str) and not text.startswith("\ufeff"):
                return (_decoder if unique_keys else _lenient_decoder).decode(text)
            return json.loads(text, parse_constant=_refuse_constant, **options)
        except _ConstantError:
            value = json.loads(text, **options)
    except RecursionError:
        raise InvalidDataError.of("nested too deeply to be read") from None
    except _DuplicateKeyError as error:
        raise InvalidDataError.of(
            f"the key {short_repr(error.args[0])} occurs twice in one object; remove one"
        ) from None
    except ValueError as error:
        raise _too_many_digits() if _TOO_MANY_DIGITS in str(error) else _not_json(error) from None
    if not allow_nan:
        problems = [
            Problem(json_path(path), f"bare {_nonfinite_text(number)} is not JSON; write it as text, or allow NaN")
            for path, number in _nonfinite_numbers(value, ())
        ]
        raise InvalidDataError("; ".join(map(str, problems)), problems)
    return value


def _not_json(error: ValueError) -> InvalidDataError:
    """Return the error of a text that is not JSON, in our words: Python's differ from version to version."""
    if not isinstance(error, json.JSONDecodeError):  # bytes in no encoding of JSON
        return InvalidDataError.of("not JSON: not UTF-8 text")
    text, start = error.doc, error.pos
    place = f"character {error.colno}"
    if "\n" in text.strip():
        place = f"line {error.lineno}, {place}"
    if not text.strip():
        problem = "the text is empty"
    elif error.msg.startswith("Unterminated string"):
        problem = f"the string that begins at {place} has no end"
    elif not text[start:].strip():
        problem = f"the text ends too early, at {place}"
    elif error.msg.startswith("Extra data"):
        problem = f"there is more text after the value, at {place}: {short_repr(text[start : start + 20])}"
    else:
        problem = f"unexpected {text[start]!r} at {place}"
    return InvalidDataError.of(f"not JSON: {problem}")


def parse_json_value(text: str | bytes, *, allow_nan: bool = False, unique_keys: bool = True) -> Any:
    """Return the value of a JSON text as `parse_json` does, at most `MAX_DEPTH` levels deep.

    Raises:
        InvalidDataError: As `parse_json` and `to_json_value`.
    """
    value = parse_json(text, allow_nan=allow_nan, unique_keys=unique_keys)
    # What a parser returns is JSON already; only a text with so many brackets can be too deep.
    return value if len(text) <= MAX_DEPTH or _brackets(text) <= MAX_DEPTH else to_json_value(value)


def _brackets(text: str | bytes) -> int:
    return text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")


def _nonfinite_numbers(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], float]]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _nonfinite_numbers(item, (*path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _nonfinite_numbers(item, (*path, key))


def _nonfinite_text(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def replace_nonfinite(value: Any) -> Any:
    """Return a JSON value that can be written: NaN and the infinities are the texts "NaN", "Infinity", "-Infinity".

    An integer of more than 4,000 digits, which Python refuses to write in decimal, becomes its hexadecimal text.
    """
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return hex(value)
    if isinstance(value, float) and not math.isfinite(value):
        return _nonfinite_text(value)
    if isinstance(value, list):
        return [replace_nonfinite(item) for item in value]
    if isinstance(value, dict):
        return {key: replace_nonfinite(item) for key, item in value.items()}
    return value


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False).encode
"""One encoder for all: `json.dumps` makes a new one for each value."""


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return `value` as JSON text that every reader accepts.

    Text stays readable (letters are not escaped); a text with lone surrogates, which UTF-8 cannot hold, is escaped.
    """
    # Most values in reasons are scalars; the encoder takes several times as long for a number.
    kind = type(value)
    if kind is int and value.bit_length() < _MAX_BITS:
        return str(value)
    if kind is float and math.isfinite(value):
        return repr(value)
    try:
        text = (
            _encode(value) if indent is None else json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
        )
    except ValueError:
        text = json.dumps(replace_nonfinite(value), ensure_ascii=False, allow_nan=False, indent=indent)
    return text if is_unicode(text) else json.dumps(replace_nonfinite(value), allow_nan=False, indent=indent)


def as_text(value: Any) -> str:
    """Return a text as it is, any other value as JSON text."""
    return value if isinstance(value, str) else json_text(value)


def is_unicode(text: str) -> bool:
    """Return whether UTF-8 can hold a text: it cannot hold lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def canonical_json(value: Any) -> str:
    """Return the JSON text that stands for `value` in a hash: ASCII, keys sorted, no spaces."""
    try:
        return json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":"))
    except ValueError:  # NaN, an infinity or an integer of thousands of digits
        return json.dumps(replace_nonfinite(value), allow_nan=False, sort_keys=True, separators=(",", ":"))


REDACTED: Final = "[redacted by toolgrade]"
"""Replaces a secret value, or the secret part of a text. Files and scores recognize it by this exact text."""

RESULTS_MARK: Final = "toolgrade_results"
"""Key of the header of a file of results."""

CANCEL_MARK: Final = b"\x18"
"""Ends a line of a file that was begun and never finished: the control character *cancel*. JSON text cannot contain
it, so no complete line is mistaken for a torn one."""

MATCHER_MARK: Final = "__toolgrade_matcher__"
"""Attribute of the classes whose objects stand for many values, so that they are not values of a call."""

MARK: Final = "$is"
"""The key that marks the JSON form of a matcher."""


def is_redacted(value: object) -> bool:
    """Return whether a value is a text that contains `REDACTED`; lists and objects are not searched."""
    return isinstance(value, str) and REDACTED in value
