"""What all readers of foreign data share: notes on what was found, and the small values they all hold."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from dataclasses import fields as fields_of
from typing import Any

from pydantic import BaseModel

from toolmark._internal.json import JsonObject, parse_json, to_json_value
from toolmark.errors import InvalidDataError, Problem

TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
"""Types of content parts whose `text` is plain text."""

_UNSPOKEN_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Types of content parts that are no part of what was said."""


@dataclass
class Notes:
    """What a reader has to say about the data; errors are collected, so that all of them are told at once."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    tolerant: bool = False
    """Arguments that are no JSON object may be read in other ways; see `_tolerant`."""

    def problem(self, path: str, message: str) -> None:
        """Note something that makes the data unreadable."""
        self.problems.append(Problem(path, message))

    def adopt(self, error: InvalidDataError, path: str) -> None:
        """Note the problems of a value that stands at `path`, and whose own paths start at `$`."""
        for problem in error.problems or (Problem("$", str(error)),):
            self.problem(path + problem.path.removeprefix("$"), problem.message)

    def warn(self, path: str, message: str) -> None:
        """Note something that was understood only in part."""
        self.warnings.append(f"{path}: {message}")

    def warn_once(self, paths: list[str], message: str) -> None:
        """Note one thing that was found at several places; without a place there is nothing to note."""
        if paths:
            more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
            self.warn(paths[0] + more, message)

    def raise_problems(self) -> None:
        """Raise the problems found so far, all in one `InvalidDataError`; do nothing if there is none."""
        if self.problems:
            raise InvalidDataError("\n".join(map(str, self.problems)), self.problems)


_SHOWN = 80
"""Characters of a value that a message repeats."""

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = _SHOWN - 4


def shown(value: object) -> str:
    """Return the `repr` of a value, cut to a length that fits into a message, whatever its size and depth."""
    text = _REPR.repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def as_object(value: object) -> Mapping[str, object] | None:
    """Return a mapping as it is, the fields of an SDK object, and `None` for anything else.

    An SDK object is one with `model_dump`, or a dataclass; fields that are `None` were not given, and are left out.
    """
    if type(value) is dict or isinstance(value, Mapping):  # asking a class of its own is slow, and asked most often
        return value
    if isinstance(value, BaseModel):
        # Clients build their objects unchecked, so that a field may hold what its type rules out.
        return value.model_dump(exclude_none=True, warnings=False)
    if is_dataclass(value) and not isinstance(value, type):
        given = {field.name: getattr(value, field.name) for field in fields_of(value)}
        return {name: item for name, item in given.items() if item is not None}
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        fields = dump()
        return fields if isinstance(fields, Mapping) else None
    return None


def identifier(value: object, path: str, notes: Notes) -> str | None:
    """Return an id as text; a number is read as its text, `None` and `""` mean that there is none."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    notes.problem(path, f"expected an id as text, got {shown(value)}")
    return None


def read_arguments(value: object) -> tuple[JsonObject, str | None]:
    """Return the argument object of a call, and why it cannot be read where it cannot.

    Args:
        value: An object, or the JSON text of one. `None` and blank text, which some providers send for a call without
            arguments, read as `{}`.

    Returns:
        The object and `None`; or `{}` and the reason, when it is no object or no text of one.

    Raises:
        InvalidDataError: An object (not a text) is deeper than toolmark keeps.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}, None
    if isinstance(value, str):
        try:
            plain = to_json_value(parse_json(value))
        except InvalidDataError as error:
            return {}, str(error)
    else:
        plain = to_json_value(value)
    if isinstance(plain, dict):
        return plain, None
    return {}, f"expected a JSON object, got {shown(plain)}"


def read_text(content: object) -> tuple[str | None, list[str]]:
    """Return the text of a message's content, and the types of the parts that hold something else.

    Args:
        content: Text, or a list of content parts; the texts of parts are joined as they are.

    Returns:
        The text (`None` where there is none) and the types left out, e.g. `["image_url"]`.
    """
    if content is None or isinstance(content, str):
        return content, []
    if not isinstance(content, (list, tuple)):
        return None, [type(content).__name__]
    texts: list[str] = []
    left_out: list[str] = []
    for part in content:
        text = part_text(part)
        kind = part_type(part)
        if text is not None:
            texts.append(text)
        elif kind not in _UNSPOKEN_PARTS:
            left_out.append(kind or type(part).__name__)
    return ("".join(texts) if texts else None), left_out


def said_in(content: object, path: str, notes: Notes) -> str | None:
    """Return what a message says, `None` if nothing; what is no text is left out with a warning, and leaves `""`."""
    text, left_out = read_text(content)
    if left_out:
        kinds = ", ".join(dict.fromkeys(map(repr, left_out)))
        notes.warn(path, f"holds more than text ({kinds}); only the text was kept")
        return text or ""
    return text or None


def read_output(content: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return what a tool answered: parts that are all text as one text, a list with other parts with its texts plain.

    Anything else stays as it is.
    """
    if not isinstance(content, (list, tuple)) or not content:
        return content
    texts = [part_text(part) for part in content]
    if None not in texts:
        return "".join(text for text in texts if text is not None)
    return [plain(part) if text is None else text for part, text in zip(content, texts, strict=True)]


def plain(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return SDK objects inside lists, and one itself, as plain objects; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    fields = None if isinstance(value, Mapping) else as_object(value)
    return value if fields is None else dict(fields)


def part_text(part: object) -> str | None:
    """Return the text of a content part that is text or a refusal, `None` for any other."""
    if isinstance(part, str):
        return part
    fields = as_object(part)
    if fields is None:
        return None
    kind = str(fields.get("type", "text"))
    text = fields.get("text") if kind in TEXT_PARTS else (fields.get("refusal") if kind == "refusal" else None)
    return text if isinstance(text, str) else None


def part_type(part: object) -> str | None:
    """Return the `type` that a content part names, if it names one."""
    fields = as_object(part)
    kind = None if fields is None else fields.get("type")
    return kind if isinstance(kind, str) else None
