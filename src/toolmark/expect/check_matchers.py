"""Matchers that ask somebody else: a JSON Schema, or a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from toolmark._internal.json import short_repr, to_json_value
from toolmark._internal.json_schema import build_validator
from toolmark._internal.text import short_json, shorten
from toolmark.errors import ConfigurationError, ToolmarkError
from toolmark.expect.matcher import LONGEST, MARK, Matcher, set_field


@dataclass(frozen=True)
class Schema(Matcher):
    """A value that fits a JSON Schema (draft 2020-12, or the one it names). Needs the package jsonschema.

    Args:
        schema: The schema; a `$ref` that leads out of it is never fetched.
        formats: Check `format` too: date, date-time, email, ipv4, ipv6, regex, uuid.

    Raises:
        ConfigurationError: It is no valid schema.
        MissingPackageError: jsonschema is not installed.
    """

    kind: ClassVar[str] = "schema"
    schema: Mapping[str, Any]
    formats: bool = True
    _validator: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the schema."""
        set_field(self, "schema", to_json_value(self.schema))
        made = (
            build_validator(dict(self.schema), formats=self.formats) if isinstance(self.schema, dict) else "no object"
        )
        if isinstance(made, str):
            message = f"Schema needs a valid JSON Schema, got {short_repr(self.schema)}: {made}"
            raise ConfigurationError(message)
        set_field(self, "_validator", made)

    def __reduce__(self) -> tuple[type[Schema], tuple[Any, bool]]:
        """Make the validator anew in another process."""
        return type(self), (self.schema, self.formats)

    def accepts(self, value: Any) -> bool:
        """Return whether a value fits.

        Raises:
            ToolmarkError: The schema cannot be used, since it refers to what is not in it.
        """
        try:
            return bool(self._validator.is_valid(value))
        except ToolmarkError:
            raise
        except Exception as error:
            message = f"the schema {short_repr(self.schema)} cannot be used ({type(error).__name__}: {error})"
            raise ToolmarkError(message) from error

    def describe(self) -> str:
        """Return the schema."""
        return f"what fits {shorten(short_json(self.schema), LONGEST)}"


@dataclass(frozen=True)
class Predicate(Matcher):
    """A value of which a function says that it is right. In Python only: JSON has no functions.

    Args:
        test: A function of the value; what it returns is taken as true or false.
        name: What it is called for people; by default the name of the function.

    Raises:
        ConfigurationError: It cannot be called.
    """

    kind: ClassVar[str] = "predicate"
    test: Callable[[Any], object]
    name: str = ""

    def __post_init__(self) -> None:
        """Check the function."""
        if not callable(self.test):
            message = f"Predicate needs a function, got {self.test!r}"
            raise ConfigurationError(message)
        set_field(self, "name", self.name or getattr(self.test, "__name__", type(self.test).__name__))

    def accepts(self, value: Any) -> bool:
        """Return what the function says.

        Raises:
            ToolmarkError: The function raised.
        """
        try:
            return bool(self.test(value))
        except Exception as error:
            message = f"the predicate {self.name!r} raised {type(error).__name__} on {short_repr(value)}: {error}"
            raise ToolmarkError(message) from error

    def to_json(self) -> dict[str, Any]:
        """Return what can be told of it; it cannot be read back."""
        return {MARK: self.kind, "name": self.name}

    def describe(self) -> str:
        """Return its name."""
        return f"what {self.name} accepts"
