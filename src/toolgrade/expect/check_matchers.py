"""Matchers that call a validator: a JSON Schema, or a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolgrade._internal.budget import current_budget
from toolgrade._internal.json import short_repr, to_json_value
from toolgrade._internal.markers import MARK
from toolgrade._internal.options import require, require_flags
from toolgrade._internal.text import short_json
from toolgrade.errors import ConfigurationError, ToolgradeError
from toolgrade.expect.json_schema import BrokenSchemaError, Validator, build_validator
from toolgrade.expect.matcher import Matcher, set_field


@dataclass(frozen=True)
class Schema(Matcher, kind="schema"):
    """A value that is valid under a JSON Schema (draft 2020-12, or the one it names).

    Args:
        schema: The schema. A `$ref` to another document is never fetched.
        formats: Check `format` too: date, date-time, email, ipv4, ipv6, regex, uuid.

    Raises:
        ConfigurationError: The schema is not valid.

    Example:
        >>> from toolgrade.expect import Expect, Schema
        >>> days = Schema({"type": "integer", "minimum": 1, "maximum": 7})
        >>> expected = Expect("get_weather", {"city": "Paris", "days": days})
        >>> [value for value in (3, 10, "3") if days.accepts(value)]
        [3]
    """

    schema: Mapping[str, Any]
    formats: bool = True
    _validator: Validator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the flag and the schema."""
        require_flags(self)
        set_field(self, "schema", to_json_value(self.schema))
        is_object = isinstance(self.schema, dict)
        validator = build_validator(dict(self.schema), formats=self.formats) if is_object else "not an object"
        if isinstance(validator, str):
            raise ConfigurationError(f"Schema needs a valid JSON Schema, got {short_repr(self.schema)}: {validator}")
        set_field(self, "_validator", validator)

    def __reduce__(self) -> tuple[type[Schema], tuple[Any, bool]]:
        """Build the validator again in another process."""
        return type(self), (self.schema, self.formats)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is valid.

        Raises:
            LimitError: The case has no steps or no time left for the check.
            ToolgradeError: The schema cannot be used, such as one with a `$ref` to another document.
        """
        try:
            return not self._validator.broken_rules(value)
        except BrokenSchemaError as error:
            raise ToolgradeError(f"the schema {short_repr(self.schema)} cannot be used: {error}") from error

    def describe(self) -> str:
        """Return the schema as short text."""
        return f"a value that fits {short_json(self.schema)}"


@dataclass(frozen=True)
class Predicate(Matcher, kind="predicate"):
    """A value that a function accepts. Python only, since JSON cannot store functions.

    Args:
        test: A function of the value; its result is interpreted as true or false.
        name: The name to display; by default that of the function.

    Raises:
        ConfigurationError: `test` is not callable.

    Example:
        >>> from toolgrade.expect import Expect, Predicate
        >>> even = Predicate(lambda seats: seats % 2 == 0, name="an even number")
        >>> expected = Expect("book_flight", {"to": "Paris", "seats": even})
        >>> [seats for seats in (1, 2, 3, 4) if even.accepts(seats)]
        [2, 4]
    """

    test: Callable[[Any], object]
    name: str = ""

    def __post_init__(self) -> None:
        """Check the function."""
        require(callable(self.test), "Predicate needs a function", self.test)
        require(isinstance(self.name, str), "name of Predicate must be text", self.name)
        set_field(self, "name", self.name or getattr(self.test, "__name__", type(self.test).__name__))

    def accepts(self, value: Any) -> bool:
        """Return the result of the function as true or false; while a case is measured, it is called once for a value.

        Raises:
            ToolgradeError: The function raised.
        """
        verdicts = current_budget().verdicts
        key = id(self.test), id(value)
        if key not in verdicts:
            verdicts[key] = value, self._verdict(value)
        return verdicts[key][1]

    def _verdict(self, value: Any) -> bool:
        try:
            return bool(self.test(value))
        except Exception as error:
            message = f"the predicate {self.name!r} raised {type(error).__name__} on {short_repr(value)}: {error}"
            raise ToolgradeError(message) from error

    def to_json(self) -> dict[str, Any]:
        """Return the name of the function, which cannot be read back."""
        return {MARK: self.kind, "name": self.name}

    def describe(self) -> str:
        """Return the name of the function."""
        return f"a value that {self.name} accepts"
