"""Matchers of the presence of an argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from toolmark.expect.matcher import Matcher, ValueMatcher, value_text
from toolmark.matching.argument_pattern import ZERO, Ratio, credit_of, fits
from toolmark.matching.json_compare import ABSENT


@dataclass(frozen=True)
class Ignore(Matcher):
    """Anything, or nothing: the argument does not count on either side."""

    kind: ClassVar[str] = "ignore"
    looks: ClassVar[bool] = False

    def credit(self, value: Any) -> Ratio | None:
        """Return `None`: the argument does not count."""
        del value
        return None

    def accepts(self, value: Any) -> bool:
        """Return True."""
        del value
        return True

    def describe(self) -> str:
        """Return `anything`."""
        return "anything"


@dataclass(frozen=True)
class Present(Matcher):
    """Any value, including `null`; a missing argument is not accepted."""

    kind: ClassVar[str] = "present"
    looks: ClassVar[bool] = False

    def accepts(self, value: Any) -> bool:
        """Return True."""
        del value
        return True

    def describe(self) -> str:
        """Return `any value`."""
        return "any value"


@dataclass(frozen=True)
class Absent(Matcher):
    """No such argument; if it is present, it counts as an extra argument."""

    kind: ClassVar[str] = "absent"
    looks: ClassVar[bool] = False

    def credit(self, value: Any) -> Ratio | None:
        """Return `None` if the value is missing, else 0."""
        return None if value is ABSENT else ZERO

    def accepts(self, value: Any) -> bool:
        """Return False."""
        del value
        return False

    def describe(self) -> str:
        """Return `nothing`."""
        return "nothing"


@dataclass(frozen=True)
class Optional(ValueMatcher):
    """The value, or no such argument: a missing argument does not count.

    Args:
        value: The expected value of an argument that is present, such as its default; may be a matcher.
    """

    kind: ClassVar[str] = "optional"
    nested: ClassVar[bool] = True

    @property
    def complete(self) -> bool:
        """Whether the matcher has a value; a matcher as the value must be complete."""
        return self.value.complete if isinstance(self.value, Matcher) else self.value is not ABSENT

    def bind(self, value: Any) -> Matcher:
        """Return the matcher with this value, or unchanged if it has one."""
        if self.complete:
            return self
        return Optional(self.value.bind(value) if isinstance(self.value, Matcher) else value)

    def credit(self, value: Any) -> Ratio | None:
        """Return the credit of the value; `None` if it is missing."""
        return None if value is ABSENT else credit_of(self.value, value)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is the expected one."""
        return fits(self.value, value)

    def describe(self) -> str:
        """Return `1 or nothing`."""
        return f"{value_text(self.value)} or nothing"
