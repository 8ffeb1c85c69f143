"""Matchers of lists as multisets, and of objects as sets of keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from toolmark._internal.json import short_repr
from toolmark.errors import ConfigurationError
from toolmark.expect.matcher import ValueMatcher, value_text
from toolmark.matching.argument_pattern import fits
from toolmark.matching.json_compare import ABSENT


@dataclass(frozen=True)
class _CollectionMatcher(ValueMatcher):
    """Base of the matchers of lists as multisets: each item pairs with one item of the other side."""

    nested: ClassVar[bool] = True
    _takes: ClassVar[tuple[type, ...]] = (list, dict)
    _or_object: ClassVar[str] = " or an object"

    def __post_init__(self) -> None:
        """Normalize and check the value."""
        super().__post_init__()
        if self.complete and not isinstance(self.value, self._takes):
            message = f"{type(self).__name__} needs a list{self._or_object}, got {short_repr(self.value)}"
            raise ConfigurationError(message)

    def describe(self) -> str:
        """Return such as `unordered [1, 2]`."""
        return f"{self.kind} {value_text(self.value)}"


@dataclass(frozen=True)
class Unordered(_CollectionMatcher):
    """A list with the same items, each the same number of times, in any order.

    Args:
        value: The list; its items may be matchers.

    Raises:
        ConfigurationError: The value is not a list.
    """

    kind: ClassVar[str] = "unordered"
    _takes: ClassVar[tuple[type, ...]] = (list,)
    _or_object: ClassVar[str] = ""

    def accepts(self, value: Any) -> bool:
        """Return whether the items of a list are these."""
        return isinstance(value, list) and len(value) == len(self.value) and _each_has_one(self.value, value)


@dataclass(frozen=True)
class Subset(_CollectionMatcher):
    """A list with no other items than these, or an object with no other keys than these, and their values.

    Args:
        value: A list or an object; items and values may be matchers.

    Raises:
        ConfigurationError: The value is neither a list nor an object.
    """

    kind: ClassVar[str] = "subset"

    def accepts(self, value: Any) -> bool:
        """Return whether everything in a value is expected."""
        if isinstance(value, dict) and isinstance(self.value, dict):
            return all(key in self.value and fits(self.value[key], item) for key, item in value.items())
        return (
            isinstance(value, list) and isinstance(self.value, list) and _each_has_one(self.value, value, called=True)
        )


@dataclass(frozen=True)
class Superset(_CollectionMatcher):
    """A list with at least these items, or an object with at least these keys, and their values.

    Args:
        value: A list or an object; items and values may be matchers.

    Raises:
        ConfigurationError: The value is neither a list nor an object.
    """

    kind: ClassVar[str] = "superset"

    def accepts(self, value: Any) -> bool:
        """Return whether everything expected is in a value."""
        if isinstance(value, dict) and isinstance(self.value, dict):
            return all(fits(item, value.get(key, ABSENT)) for key, item in self.value.items())
        return isinstance(value, list) and isinstance(self.value, list) and _each_has_one(self.value, value)


def _each_has_one(expected: Sequence[Any], values: Sequence[Any], *, called: bool = False) -> bool:
    """Return whether each expected item pairs with a different value; with `called`, each value with an item.

    Augmenting paths (Kuhn 1955): a matcher may accept several values, so pairing with the first one could fail.
    """
    rows, columns = (len(values), len(expected)) if called else (len(expected), len(values))
    rows_by_column: dict[int, int] = {}

    def place(row: int, visited: set[int]) -> bool:
        for column in range(columns):
            item, value = (column, row) if called else (row, column)
            if column in visited or not fits(expected[item], values[value]):
                continue
            visited.add(column)
            if column not in rows_by_column or place(rows_by_column[column], visited):
                rows_by_column[column] = row
                return True
        return False

    return rows <= columns and all(place(row, set()) for row in range(rows))
