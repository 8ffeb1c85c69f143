"""Readers of single fields, shared by all formats, and the `Notes` that collect problems and warnings.

Two families: `*_of` takes any value and never fails, for data that may have any form; `read_*` also takes the JSON path
of the value and notes a problem or a warning when the type is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from dataclasses import fields as fields_of
from typing import Any, TypeAlias

from pydantic import BaseModel

from toolmark._internal.json import parse_json, parse_json_value, short_repr, to_json_value
from toolmark._internal.model import drop_none
from toolmark.errors import InvalidDataError, Problem

Fields: TypeAlias = Mapping[str, Any]
"""An object as it was recorded, or the fields of an SDK object."""

_TEXT_KEYS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Types of content parts that are text, each with the key of the text."""

_NOT_OBJECTS = frozenset({type(None), str, int, float, bool, list})
"""Types of JSON values that are not objects. Most lookups end here, and `isinstance` of an abstract class is slow."""

_SILENT_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Types of content parts that are not part of the message's text."""


@dataclass
class Notes:
    """Problems and warnings of one reading; problems are collected, so that all of them are raised at once."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    tolerant: bool = False
    """Whether arguments that are not a JSON object may be read in other ways; see `lenient_arguments`."""

    def problem(self, path: str, message: str) -> None:
        """Add something that makes the data unreadable."""
        self.problems.append(Problem(path, message))

    def add_error(self, error: InvalidDataError, path: str) -> None:
        """Add the problems of a value at `path`, whose own paths start at `$`."""
        for problem in error.problems or (Problem("$", str(error)),):
            self.problem(path + problem.path.removeprefix("$"), problem.message)

    def warn(self, path: str, message: str) -> None:
        """Add something that was read only in part."""
        self.warnings.append(f"{path}: {message}")

    def warn_once(self, paths: list[str], message: str) -> None:
        """Add one warning for several places; none without a place."""
        if paths:
            more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
            self.warn(paths[0] + more, message)

    def raise_problems(self) -> None:
        """Raise all problems in one `InvalidDataError`; do nothing without any."""
        if self.problems:
            raise InvalidDataError("\n".join(map(str, self.problems)), self.problems)


def as_object(value: object) -> Fields | None:
    """Return a mapping as it is, the fields of an SDK object, and `None` for anything else.

    An SDK object is one with `model_dump`, or a dataclass; fields that are `None` were not set, and are left out.
    """
    if type(value) is dict:
        return value
    if type(value) in _NOT_OBJECTS or isinstance(value, type):
        return None
    return value if isinstance(value, Mapping) else _sdk_fields(value)


def _sdk_fields(value: Any) -> Fields | None:  # noqa: ANN401 - any value
    """Return the fields of an SDK object, `None` for anything else."""
    if isinstance(value, BaseModel):
        # Clients build their objects unchecked, so a field may hold what its type rules out.
        return value.model_dump(exclude_none=True, warnings=False)
    if is_dataclass(value):
        return drop_none({field.name: getattr(value, field.name) for field in fields_of(value)})
    dump = getattr(value, "model_dump", None)
    fields = dump() if callable(dump) else None
    return fields if isinstance(fields, Mapping) else None


def object_of(value: object) -> Fields:
    """Return an object as `as_object` does; an empty one for anything else."""
    return as_object(value) or {}


def list_of(value: object) -> list[Any]:
    """Return the items of a list or tuple; none of anything else."""
    return list(value) if isinstance(value, (list, tuple)) else []


def parts_of(content: object) -> list[Any]:
    """Return the parts of a message's content; anything but a list is one part, and `None` is none."""
    if isinstance(content, (list, tuple)):
        return list(content)
    return [] if content is None else [content]


def text_of(value: object) -> str | None:
    """Return a text that is not empty; `None` for anything else."""
    return value if isinstance(value, str) and value else None


def id_of(value: object) -> str | None:
    """Return an id as text, whatever its type; `None` for `None` and `""`."""
    return None if value in (None, "") else str(value)


def first_of(fields: Fields, *keys: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return the first value under one of these keys that is not `None`."""
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def present_keys(fields: Fields, keys: Iterable[str]) -> list[str]:
    """Return those of these keys whose value is not `None`."""
    return [key for key in keys if fields.get(key) is not None]


def decoded(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return the object, list or text that a JSON text stands for; any other value as it is.

    Numbers and the like stay texts: `"3"` is as likely the text of a tool.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
        return value
    try:
        return parse_json(value, unique_keys=False)
    except InvalidDataError:
        return value


def plain(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return SDK objects inside lists, and one itself, as plain objects; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return value
    fields = as_object(value)
    return value if fields is None else dict(fields)


def part_type(part: object) -> str | None:
    """Return the `type` of a content part, if it has one."""
    return text_of(object_of(part).get("type"))


def part_text(part: object) -> str | None:
    """Return the text of a content part that is text or a refusal, `None` for any other."""
    if isinstance(part, str):
        return part
    fields = object_of(part)
    key = _TEXT_KEYS.get(str(fields.get("type", "text")))
    text = fields.get(key) if key else None
    return text if isinstance(text, str) else None


def output_of(content: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return the output of a tool: parts that are all text as one text, other lists with the texts among them plain.

    Anything else stays as it is.
    """
    if not isinstance(content, (list, tuple)) or not content:
        return content
    texts = [part_text(part) for part in content]
    if None not in texts:
        return "".join(map(str, texts))
    return [plain(part) if text is None else text for part, text in zip(content, texts, strict=True)]


def arguments_of(value: object) -> tuple[Any, str | None]:
    """Return the argument object of a call and `None`, or the value as it is and the reason why it is not one.

    The value is an object or the JSON text of one. `None` and blank text, which some providers send for a call without
    arguments, read as `{}`. An object (not a text) that is too deeply nested raises `InvalidDataError`.
    """
    if value is None:
        return {}, None
    if isinstance(value, str):
        try:
            arguments = parse_json_value(value)
        except InvalidDataError as error:
            return (value, str(error)) if value.strip() else ({}, None)
    else:
        arguments = to_json_value(value)
    if isinstance(arguments, dict):
        return arguments, None
    return value, f"expected a JSON object, got {short_repr(arguments)}"


def read_object(value: object, path: str, notes: Notes, expected: str) -> Fields | None:
    """Return an object; `None`, with a problem that says what was expected, for anything else."""
    fields = as_object(value)
    if fields is None:
        notes.problem(path, f"expected {expected}, got {short_repr(value)}")
    return fields


def read_list(value: object, path: str, notes: Notes, expected: str) -> list[Any]:
    """Return the items of a list; none, with a problem that says what was expected, of anything else."""
    if not isinstance(value, (list, tuple)):
        notes.problem(path, f"expected {expected}, got {short_repr(value)}")
    return list_of(value)


def read_name(value: object, path: str, notes: Notes) -> str:
    """Return the name of a call's tool; `""`, with a problem, if there is none."""
    name = text_of(value)
    if name is None:
        notes.problem(path, f"a call needs the name of its tool, got {short_repr(value)}")
    return name or ""


def read_id(value: object, path: str, notes: Notes) -> str | None:
    """Return an id as text; `None` for `None` and `""`, and, with a problem, for what is neither text nor integer."""
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    notes.problem(path, f"expected an id as text, got {short_repr(value)}")
    return None


def read_arguments(value: object, path: str, notes: Notes) -> tuple[Any, str | None]:
    """Return what `arguments_of` does; arguments that are too deeply nested are a problem."""
    try:
        return arguments_of(value)
    except InvalidDataError as error:
        notes.add_error(error, path)
        return None, None


def read_text(content: object, path: str, notes: Notes) -> str | None:
    """Return the text of a message's content, its text parts concatenated; `None` where it has none.

    Parts that are not text are left out with a warning; content of nothing else gives `""`.
    """
    if content is None or isinstance(content, str):
        return content or None
    text, left_out = _text_of_parts(content)
    if not left_out:
        return text or None
    kinds = ", ".join(dict.fromkeys(map(repr, left_out)))
    notes.warn(path, f"holds more than text ({kinds}); only the text was kept")
    return text


def _text_of_parts(content: object) -> tuple[str, list[str]]:
    """Return the text of a list of content parts, and the types of the parts that are left out of it."""
    if not isinstance(content, (list, tuple)):
        return "", [type(content).__name__]
    texts: list[str] = []
    left_out: list[str] = []
    for part in content:
        text, kind = part_text(part), part_type(part) or type(part).__name__
        if text is not None:
            texts.append(text)
        elif kind not in _SILENT_PARTS:
            left_out.append(kind)
    return "".join(texts), left_out
