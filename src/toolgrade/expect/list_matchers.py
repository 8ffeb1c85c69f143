"""Matchers of lists as multisets, and of objects as sets of keys."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from toolgrade._internal.budget import Budget, current_budget
from toolgrade._internal.json import MAX_DEPTH, is_deeper
from toolgrade._internal.options import require
from toolgrade.expect.matcher import ValueMatcher
from toolgrade.matching.argument_pattern import fits, holds_matcher
from toolgrade.matching.json_compare import ABSENT, frozen, has_mark

_CHEAP = 64
"""Choices of an item that are looked at again in about the time of one comparison."""


@dataclass(frozen=True)
class _CollectionMatcher(ValueMatcher):
    """Base of the matchers of lists as multisets: each item pairs with one item of the other side."""

    nested: ClassVar[bool] = True
    _needs: ClassVar[str] = "a list or an object"
    _types: ClassVar[tuple[type, ...]] = (list, dict)

    def __post_init__(self) -> None:
        """Normalize and check the value."""
        super().__post_init__()
        valid = not self.complete or isinstance(self.value, self._types)
        require(valid, f"{type(self).__name__} needs {self._needs}", self.value)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is a collection of the same type, and has the expected items."""
        # No call has a deeper value, and looking into one would overflow the stack.
        return type(value) is type(self.value) and not is_deeper(value, MAX_DEPTH) and self._agrees(value)

    @abstractmethod
    def _agrees(self, value: Any) -> bool:
        """Return whether a collection of the expected type has the expected items."""


@dataclass(frozen=True)
class Unordered(_CollectionMatcher, kind="unordered"):
    """A list with the same items, each the same number of times, in any order.

    Args:
        value: The list; its items may be matchers.

    Raises:
        ConfigurationError: The value is not a list.

    Example:
        >>> from toolgrade.expect import Expect, Unordered
        >>> cities = Unordered(["Paris", "Rome"])
        >>> expected = Expect("compare_weather", {"cities": cities})
        >>> [names for names in (["Rome", "Paris"], ["Paris"], ["Paris", "Rome", "Rome"]) if cities.accepts(names)]
        [['Rome', 'Paris']]
    """

    _words: ClassVar[str] = "unordered {}"
    _needs: ClassVar[str] = "a list"
    _types: ClassVar[tuple[type, ...]] = (list,)

    def _agrees(self, value: Any) -> bool:
        return len(value) == len(self.value) and _each_has_one(self.value, value, fits)


@dataclass(frozen=True)
class Subset(_CollectionMatcher, kind="subset"):
    """A list with no other items than these, or an object with no other keys than these, and their values.

    Args:
        value: A list or an object; items and values may be matchers.

    Raises:
        ConfigurationError: The value is neither a list nor an object.

    Example:
        >>> from toolgrade.expect import Expect, Subset
        >>> extras = Subset(["window seat", "meal", "bag"])
        >>> expected = Expect("book_flight", {"to": "Paris", "extras": extras})
        >>> [items for items in ([], ["bag", "meal"], ["bag", "insurance"]) if extras.accepts(items)]
        [[], ['bag', 'meal']]
    """

    _words: ClassVar[str] = "subset {}"

    def _agrees(self, value: Any) -> bool:
        if isinstance(value, dict):
            return all(fits(self.value.get(key, ABSENT), item) for key, item in value.items())
        return _each_has_one(value, self.value, lambda item, expected: fits(expected, item))


@dataclass(frozen=True)
class Superset(_CollectionMatcher, kind="superset"):
    """A list with at least these items, or an object with at least these keys, and their values.

    Args:
        value: A list or an object; items and values may be matchers.

    Raises:
        ConfigurationError: The value is neither a list nor an object.

    Example:
        >>> from toolgrade.expect import Expect, Superset
        >>> cities = Superset(["Paris", "Rome"])
        >>> expected = Expect("compare_weather", {"cities": cities})
        >>> [names for names in (["Rome", "Paris", "Oslo"], ["Paris"]) if cities.accepts(names)]
        [['Rome', 'Paris', 'Oslo']]
    """

    _words: ClassVar[str] = "superset {}"

    def _agrees(self, value: Any) -> bool:
        if isinstance(value, dict):
            return all(fits(item, value.get(key, ABSENT)) for key, item in self.value.items())
        return _each_has_one(self.value, value, fits)


def _each_has_one(items: Sequence[Any], partners: Sequence[Any], pair: Callable[[Any, Any], bool]) -> bool:
    """Return whether each item can be paired with a partner of its own.

    Raises:
        LimitError: The comparisons need more steps than the case has left.
    """
    if len(items) > len(partners):
        return False
    if not any(holds_matcher(value) or has_mark(value) for value in (*items, *partners)):
        # Values that only equal ones fit: counting them is enough.
        return not Counter(map(frozen, items)) - Counter(map(frozen, partners))
    budget = current_budget()
    budget.spend(len(items) * len(partners), "a matcher of lists")
    choices = [{index for index, partner in enumerate(partners) if pair(item, partner)} for item in items]
    holders: dict[int, int] = {}
    return all(_assign(item, choices, holders, budget) for item in range(len(items)))


def _assign(start: int, choices: Sequence[set[int]], holders: dict[int, int], budget: Budget) -> bool:
    """Give an item a partner that `holders` maps to it, and move others where needed; return whether that is possible.

    A breadth-first augmenting path (Kuhn 1955): an item may fit several partners, so the first one could be wrong.
    """
    came_from: dict[int, int] = {}
    partners: dict[int, int] = {}
    queue = [start]
    for item in queue:
        new = choices[item].difference(came_from)
        budget.spend(1 + len(new) // _CHEAP, "a matcher of lists")
        came_from.update(dict.fromkeys(new, item))
        free = new.difference(holders)
        if free:
            partner = free.pop()
            while True:
                mover = came_from[partner]
                holders[partner] = mover
                if mover == start:
                    return True
                partner = partners[mover]
        partners.update((holders[partner], partner) for partner in new)
        queue += [holders[partner] for partner in new]
    return False
