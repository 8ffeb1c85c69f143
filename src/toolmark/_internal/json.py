"""What becomes of a Python value on its way into a call: a JSON value, once, at construction.

A JSON value here is `None`, `bool`, `int`, `float`, `str`, `list` or `dict` with text keys, of exactly these types and
built anew (a deep copy), so that a tool which changes its argument later does not change the record. NaN and the
infinities are allowed in memory; `json_text` writes them as the texts "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime
import enum
import json
import math
import numbers
import reprlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from pydantic import BaseModel

from toolmark.errors import InvalidDataError, Problem, ToolmarkWarning

MAX_DEPTH = 200
"""Levels of lists and objects inside each other that a value may have; a flat list has one."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object. Its values are JSON values; they are typed `Any` because Python's invariant `dict` would otherwise
refuse a caller's `dict[str, int]`."""

_Trail: TypeAlias = "tuple[_Trail, str | int] | None"

_MAX_BITS = 13_000

_PLAIN = frozenset({str, int, float, bool, type(None)})


def json_path(parts: tuple[str | int, ...]) -> str:
    """Return the JSON path of `parts`, e.g. `$.tools_called[0].name`; keys that are no identifiers are quoted."""
    path = "$"
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
    dataclasses objects, bytes `{"type": "bytes", "encoding": "base64", "size": ..., "data": ...}`, keys that are no
    text their JSON text. Other integers and reals (`numbers.Integral`, `numbers.Real`, which numpy's scalars are)
    become `int` and `float`. Anything else becomes its `repr`, with a `ToolmarkWarning` that names its path.

    Args:
        value: Any value.
        notes: Where the warnings go instead, for recorders, which must not disturb the program they watch.

    Raises:
        InvalidDataError: The value is deeper than `MAX_DEPTH` levels, or contains itself.
    """
    if type(value) in _PLAIN:
        return value
    try:
        return _convert(value, None, 0, notes)
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> InvalidDataError:
    message = f"deeper than {MAX_DEPTH} levels of lists and objects, or containing itself; flatten it first"
    return InvalidDataError(message, [Problem("$", message)])


def _convert(value: object, trail: _Trail, depth: int, notes: list[str] | None) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is not dict and kind is not list:
        value = _to_plain(value, trail, notes)
        kind = type(value)
        if kind not in (dict, list):
            return value
    if depth >= MAX_DEPTH:
        raise _too_deep()
    if kind is list:
        return [_convert(item, (trail, index), depth + 1, notes) for index, item in enumerate(value)]  # type: ignore[arg-type, var-annotated]
    result: dict[str, Any] = {}
    for key, item in value.items():  # type: ignore[attr-defined]
        text = key if type(key) is str else _key_text(key)
        if text in result or (not isinstance(key, str) and text in value):  # type: ignore[operator]
            text = _free_key(f"{text} ({type(key).__name__})", result, trail, notes)
        result[text] = _convert(item, (trail, text), depth + 1, notes)
    return result


def _to_plain(value: object, trail: _Trail, notes: list[str] | None) -> Any:
    """Return a value whose outer layer is of a JSON type; what is inside is converted by the caller."""
    if isinstance(value, enum.Enum):
        return _one_layer(value.value, trail, notes)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, numbers.Real):
        return int(value) if isinstance(value, numbers.Integral) else _float(value, trail, notes)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, (set, frozenset)):
        return sorted((_convert(item, trail, 0, notes) for item in value), key=_sort_key)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        text = base64.b64encode(data).decode("ascii")
        return {"type": "bytes", "encoding": "base64", "size": len(data), "data": text}
    if isinstance(value, BaseModel):
        return value.model_dump()
    item = getattr(value, "item", None)
    if getattr(value, "shape", None) == () and callable(item):
        return _one_layer(item(), trail, notes)  # a scalar of numpy or of an array library like it
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return _repr(value, trail, notes)


def _float(value: numbers.Real, trail: _Trail, notes: list[str] | None) -> float | str:
    try:
        return float(value)
    except OverflowError:
        return _repr(value, trail, notes)


def _one_layer(value: object, trail: _Trail, notes: list[str] | None) -> Any:
    return value if type(value) in _PLAIN or type(value) in (dict, list) else _to_plain(value, trail, notes)


def _repr(value: object, trail: _Trail, notes: list[str] | None) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a broken __repr__ must not break the recording of a call
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    where, kind = json_path(_parts(trail)), type(value).__name__
    _note(
        f"{where}: a {kind} is no JSON value and was kept as its repr {text[:60]!r}; "
        "convert it before recording if it should be compared",
        notes,
    )
    return text


def _key_text(key: object) -> str:
    plain = _one_layer(key, None, [])
    return plain if isinstance(plain, str) else json.dumps(plain, default=repr)


def _free_key(wanted: str, taken: dict[str, Any], trail: _Trail, notes: list[str] | None) -> str:
    """Return a key for an entry whose text another entry already has, so that neither is lost."""
    text = wanted
    number = 2
    while text in taken:
        text, number = f"{wanted} {number}", number + 1
    _note(f"{json_path(_parts(trail))}: two keys have the same text; one was kept as {text!r}", notes)
    return text


def _note(text: str, notes: list[str] | None) -> None:
    if notes is None:
        warnings.warn(text, ToolmarkWarning, stacklevel=2)
    else:
        notes.append(text)


def _sort_key(value: object) -> tuple[int, float, str]:
    """Sort numbers by size, then texts, then the rest by its JSON text; equal values get equal keys."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            return 0, float(value), ""
    if isinstance(value, str):
        return 1, 0.0, value
    return 2, 0.0, json_text(value)


def _parts(trail: _Trail) -> tuple[str | int, ...]:
    parts: list[str | int] = []
    while trail is not None:
        trail, part = trail
        parts.append(part)
    return tuple(reversed(parts))


def short_repr(value: object, limit: int = 60) -> str:
    """Return at most about `limit` characters of a value's repr, for messages; never fails, however deep it is."""
    shorten = reprlib.Repr()
    shorten.maxstring = shorten.maxother = limit
    try:
        text = shorten.repr(value)
    except Exception as error:  # noqa: BLE001 - a broken __repr__ must not hide what the message is about
        return f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def parse_json(text: str | bytes, *, allow_nan: bool = False) -> Any:
    """Return the value of a JSON text.

    Args:
        text: UTF-8 bytes or text.
        allow_nan: Accept bare NaN, Infinity and -Infinity, which JSON does not have, as floats.

    Raises:
        InvalidDataError: It is no JSON, is nested too deeply to be read, or holds a bare NaN or infinity (each is
            named with its path).
    """
    constants: list[str] = []

    def constant(name: str) -> float:
        constants.append(name)
        return float(name)

    try:
        value = json.loads(text, parse_constant=constant)
    except RecursionError:
        message = "nested too deeply to be read"
        raise InvalidDataError(message, [Problem("$", message)]) from None
    except ValueError as error:
        message = f"not JSON: {error}"
        raise InvalidDataError(message, [Problem("$", message)]) from None
    if constants and not allow_nan:
        problems = [
            Problem(json_path(path), f"bare {_finite_text(number)} is no JSON; write it as text, or allow NaN")
            for path, number in _non_finite(value, ())
        ]
        raise InvalidDataError("; ".join(map(str, problems)), problems)
    return value


def _non_finite(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], float]]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _non_finite(item, (*path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _non_finite(item, (*path, key))


def _finite_text(number: float) -> str:
    return "NaN" if math.isnan(number) else ("Infinity" if number > 0 else "-Infinity")


def replace_nonfinite(value: Any) -> Any:
    """Return a JSON value that can be written: NaN and the infinities are the texts "NaN", "Infinity", "-Infinity".

    An integer of more than 4,000 digits, which Python refuses to write in decimal, becomes its hexadecimal text.
    """
    if type(value) is str or value is None:
        return value
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return hex(value)
    if isinstance(value, float) and not math.isfinite(value):
        return _finite_text(value)
    if isinstance(value, list):
        return [replace_nonfinite(item) for item in value]
    if isinstance(value, dict):
        return {key: replace_nonfinite(item) for key, item in value.items()}
    return value


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return `value` as JSON text that every reader accepts.

    Text stays readable (letters are not escaped); a text with lone surrogates, which UTF-8 cannot hold, is escaped.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    except ValueError:
        text = json.dumps(replace_nonfinite(value), ensure_ascii=False, allow_nan=False, indent=indent)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(replace_nonfinite(value), allow_nan=False, indent=indent)
    return text


def canonical_json(value: Any) -> str:
    """Return the JSON text that stands for `value` in a hash: ASCII, keys sorted, no spaces."""
    try:
        return json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":"))
    except ValueError:  # NaN, an infinity or an integer of thousands of digits
        return json.dumps(replace_nonfinite(value), allow_nan=False, sort_keys=True, separators=(",", ":"))
