"""Readers of single fields, shared by all formats, and the `Notes` that collect problems and warnings.

Two families: `*_of` takes any value and never fails, for data that may have any form; `read_*` also takes the JSON path
of the value and notes a problem or a warning when the type is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolgrade._internal.json import parse_json, parse_json_value, short_repr, to_json_value
from toolgrade._internal.message_content import (
    Fields,
    as_object,
    first_of,
    object_of,
    part_text,
    part_type,
    parts_of,
    text_of,
)
from toolgrade.capture.input_parts import image_parts, read_image
from toolgrade.errors import InvalidDataError, Problem
from toolgrade.matching.json_compare import ABSENT

_GROWING_TEXTS = frozenset({"content", "text", "thinking", "args", "name", "partial_json"})
"""Keys of texts of which each piece of a stream has a part."""

_SILENT_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Types of content parts that are not part of the message's text."""


@dataclass
class Notes:
    """Problems and warnings of one reading; problems are collected, so that all of them are raised at once."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

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

    def check_stream(self, path: str, *, is_several: bool, has_end: bool = True) -> None:
        """Note that a list of streamed events has several streams, or that the end of the one is missing."""
        if is_several:
            self.problem(path, "holds several streams; log each response by itself, as the client assembles it")
        elif not has_end:
            self.warn(path, "the stream has no end; the part before was read")

    def raise_problems(self) -> None:
        """Raise all problems in one `InvalidDataError`; do nothing without any."""
        if self.problems:
            raise InvalidDataError("\n".join(map(str, self.problems)), self.problems)


def list_of(value: object) -> list[Any]:
    """Return the items of a list or tuple; none of anything else."""
    return list(value) if isinstance(value, (list, tuple)) else []


def id_of(value: object) -> str | None:
    """Return an id as text, whatever its type; `None` for `None` and `""`."""
    return None if value in (None, "") else str(value)


def reasoning_in(fields: Fields) -> str | None:
    """Return the reasoning in a block or an item, `""` if it is hidden, `None` if it is of another kind."""
    # A streamed block of text of LangChain may hold the reasoning before it: blocks are joined by their index.
    text = first_of(fields, "thinking", "reasoning") or object_of(fields.get("reasoning_content")).get("text")
    if fields.get("type") != "reasoning":
        return text_of(text)
    pieces = map(object_of, [*list_of(fields.get("content")), *list_of(fields.get("summary"))])
    return "\n".join(filter(None, map(text_of, [text, *(piece.get("text") for piece in pieces)])))


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


def sum_of(first: Any, second: Any, key: str = "") -> Any:  # noqa: ANN401 - JSON values
    """Return the sum of two pieces of a streamed value: texts and lists are joined, tokens added, others replaced.

    An entry of a list continues the one of its index, unless it has another id.
    """
    if not first or not second:
        return first or second
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return {name: sum_of(first.get(name), second.get(name), name) for name in {**first, **second}}
    if type(first) is type(second) and _adds_up(first, key):
        return first + second
    if isinstance(first, list) or isinstance(second, list):
        return _sum_of_lists(parts_of(first), parts_of(second))
    return first if key == "type" else second


def _adds_up(value: object, key: str) -> bool:
    """Return whether the pieces under a key are added: a text that grows, or a number of tokens."""
    return key.endswith("_tokens") or (key in _GROWING_TEXTS and type(value) is str)


def _sum_of_lists(first: list[object], second: list[object]) -> list[object]:
    total = [*first]
    for entry in second:
        piece = object_of(entry)
        place = next((n for n, one in enumerate(total) if _continues(piece, object_of(one))), None)
        if place is None:
            total.append(entry)
        else:
            total[place] = sum_of(total[place], piece)
    return total


def _continues(piece: Fields, entry: Fields) -> bool:
    is_same = piece.get("index") is not None and piece.get("index") == entry.get("index")
    return is_same and (not piece.get("id") or not entry.get("id") or piece["id"] == entry["id"])


def plain(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return SDK objects inside lists, and one itself, as plain objects; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return value
    fields = as_object(value)
    return value if fields is None else dict(fields)


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


def output_or_absent(content: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return the output of a tool as `output_of` does, `ABSENT` if there is none."""
    return ABSENT if content is None else output_of(content)


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


def read_objects(entries: Iterable[tuple[str, object]], notes: Notes, expected: str) -> Iterator[tuple[str, Fields]]:
    """Yield the objects among values with their paths; anything else is a problem that says what was expected."""
    for path, value in entries:
        fields = read_object(value, path, notes, expected)
        if fields is not None:
            yield path, fields


def read_list(value: object, path: str, notes: Notes, expected: str) -> list[Any]:
    """Return the items of a list; none, with a problem that says what was expected, of anything else."""
    if isinstance(value, (list, tuple)):
        return list(value)
    notes.problem(path, f"expected {expected}, got {short_repr(value)}")
    return []


def read_role(fields: Fields, roles: Collection[str], path: str, notes: Notes) -> str | None:
    """Return the role of the message at `path`; `None`, with a problem, if it is not one of these."""
    role = fields.get("role")
    if role in roles:
        return str(role)
    notes.problem(f"{path}.role", f"expected one of {', '.join(roles)}, got {short_repr(role)}")
    return None


def read_name(fields: Fields, path: str, notes: Notes) -> str:
    """Return the `name` of a call's tool; `""`, with a problem, if there is none."""
    name = fields.get("name")
    if isinstance(name, str) and name:
        return name
    notes.problem(f"{path}.name", f"a call needs the name of its tool, got {short_repr(name)}")
    return ""


def read_id(fields: Fields, key: str, path: str, notes: Notes) -> str | None:
    """Return the id under a key as text; `None` for `None` and `""`, and for others than text and integers.

    The last is a problem.
    """
    value = fields.get(key)
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    notes.problem(f"{path}.{key}", f"expected an id as text, got {short_repr(value)}")
    return None


def read_arguments(value: object, path: str, notes: Notes) -> tuple[Any, str | None]:
    """Return what `arguments_of` does; arguments that are too deeply nested are a problem."""
    try:
        return arguments_of(value)
    except InvalidDataError as error:
        notes.add_error(error, path)
        return None, None


def read_content(message: Fields, path: str, notes: Notes) -> str | None:
    """Return the text of the `content` of the message at `path`; see `read_text`."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or None
    return read_text(content, f"{path}.content", notes)


def read_text(content: object, path: str, notes: Notes, *, keeps_images: bool = False) -> str | None:
    """Return the text of a message's content, its text parts concatenated; `None` where it has none.

    Parts that are not text are left out with a warning; content of nothing else gives `""`. There is no warning of
    images if the caller `keeps_images`.
    """
    if content is None or isinstance(content, str):
        return content or None
    text, left_out = _text_of_parts(content, keeps_images=keeps_images)
    if not left_out:
        return text or None
    kinds = ", ".join(dict.fromkeys(map(repr, left_out)))
    rest = "the text and the images were" if keeps_images and image_parts(content) else "the text was"
    notes.warn(path, f"holds more than text ({kinds}); only {rest} kept")
    return text


def _text_of_parts(content: object, *, keeps_images: bool) -> tuple[str, list[str]]:
    """Return the text of a list of content parts, and the types of the parts that are left out of it."""
    if not isinstance(content, (list, tuple)):
        return "", [type(content).__name__]
    texts: list[str] = []
    left_out: list[str] = []
    for part in content:
        text, kind = part_text(part), part_type(part) or type(part).__name__
        if text is not None:
            texts.append(text)
        elif kind not in _SILENT_PARTS and not (keeps_images and read_image(part)):
            left_out.append(kind)
    return "".join(texts), left_out
