"""Matchers of the presence of an argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from toolmark.expect.matcher import Matcher, set_field, value_text, value_tree
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
    """Any value, `null` too, but there must be one."""

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
    """No such argument; one that is there counts as an extra argument does."""

    kind: ClassVar[str] = "absent"
    looks: ClassVar[bool] = False

    def credit(self, value: Any) -> Ratio | None:
        """Return `None` where there is no value, else 0."""
        return None if value is ABSENT else ZERO

    def accepts(self, value: Any) -> bool:
        """Return False."""
        del value
        return False

    def describe(self) -> str:
        """Return `nothing`."""
        return "nothing"


@dataclass(frozen=True)
class Optional(Matcher):
    """The value, or no such argument: one that is left out does not count.

    Args:
        value: What it must be if it is there, such as its default; may be a matcher.
    """

    kind: ClassVar[str] = "optional"
    value: Any = ABSENT

    def __post_init__(self) -> None:
        """Make the value a JSON value."""
        set_field(self, "value", value_tree(self))

    @property
    def complete(self) -> bool:
        """Whether it has a value, and that is complete."""
        return self.value.complete if isinstance(self.value, Matcher) else self.value is not ABSENT

    def bind(self, value: Any) -> Matcher:
        """Return it with a value, if it lacks one."""
        return (
            Optional(self.value.bind(value) if isinstance(self.value, Matcher) else value)
            if not self.complete
            else self
        )

    def credit(self, value: Any) -> Ratio | None:
        """Return the credit of the value, `None` where there is none."""
        return None if value is ABSENT else credit_of(self.value, value)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is the expected one."""
        return fits(self.value, value)

    def describe(self) -> str:
        """Return `1 or nothing`."""
        return f"{value_text(self.value)} or nothing"
