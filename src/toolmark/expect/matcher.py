"""Base class of the matchers, and expected values that contain matchers.

A matcher is written in JSON as an object with the key `$is`: `{"$is": "approx", "value": 100, "rel": 0.01}`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, ClassVar

from toolmark._internal.json import MAX_DEPTH, to_json_value
from toolmark._internal.text import short_json, shorten
from toolmark.errors import InvalidDataError
from toolmark.matching.argument_pattern import ONE, ZERO, Ratio, ValuePattern
from toolmark.matching.json_compare import ABSENT, Absent

MARK = "$is"
"""The key that marks the JSON form of a matcher."""

LONGEST = 80
"""Longest text of an expected value in messages."""


class Matcher(ValuePattern):
    """Base of all matchers. They are frozen, and equal if they accept the same.

    Attributes:
        kind: The name of its JSON form.
    """

    kind: ClassVar[str]

    @abstractmethod
    def accepts(self, value: Any) -> bool:
        """Return whether a JSON value is accepted."""

    def credit(self, value: Any) -> Ratio | None:
        """Return 1 if a value is accepted, else 0; 0 where there is none."""
        return ONE if not isinstance(value, Absent) and self.accepts(value) else ZERO

    @property
    def complete(self) -> bool:
        """Whether it has its value; a matcher without one takes the value at its place in the arguments."""
        return getattr(self, "value", None) is not ABSENT

    def bind(self, value: Any) -> Matcher:
        """Return it with this value, if it has none."""
        return self if self.complete else replace(self, value=value)  # type: ignore[type-var]

    def to_json(self) -> dict[str, Any]:
        """Return its JSON form: `$is` and the fields that differ from their defaults."""
        plain: dict[str, Any] = {MARK: self.kind}
        for entry in fields(self):  # type: ignore[arg-type]
            value = getattr(self, entry.name)
            if entry.init and value is not ABSENT and (entry.default is MISSING or value != entry.default):
                plain[entry.name] = to_plain(value)
        return plain

    def describe(self) -> str:
        """Return in a few words what it accepts."""
        return self.kind.replace("_", " ")


def tree_of(value: Any, depth: int = 0) -> Any:
    """Return an expected value as JSON values with matchers among them.

    Raises:
        InvalidDataError: It is nested too deeply, or contains itself.
    """
    if isinstance(value, Matcher):
        return value
    if depth > MAX_DEPTH:
        message = f"deeper than {MAX_DEPTH} levels of lists and objects, or containing itself; flatten it first"
        raise InvalidDataError(message)
    if isinstance(value, Mapping):
        return {str(key): tree_of(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [tree_of(item, depth + 1) for item in value]
    return to_json_value(value)


def to_plain(value: Any) -> Any:
    """Return the JSON form of what `tree_of` returned."""
    if isinstance(value, ValuePattern):
        return value.to_json()
    if isinstance(value, dict):
        plain = {key: to_plain(item) for key, item in value.items()}
        return {MARK: "exact", "value": plain} if MARK in value else plain
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def value_text(value: Any) -> str:
    """Return an expected value as text for messages."""
    if isinstance(value, ValuePattern):
        return value.describe()
    return shorten(short_json(to_plain(value)), LONGEST)


def set_field(matcher: Matcher, name: str, value: Any) -> None:
    """Set a field of a frozen matcher in its constructor."""
    object.__setattr__(matcher, name, value)  # the dataclass is frozen


def value_tree(matcher: Any) -> Any:
    """Return the value of a matcher as JSON values with matchers, or `ABSENT`."""
    return ABSENT if matcher.value is ABSENT else tree_of(matcher.value)
