"""Slots: the places of a plan that one call each can take."""

from __future__ import annotations

from typing import NamedTuple

from toolgrade.matching.alignment import CallItem
from toolgrade.matching.argument_pattern import ONE, ValuePattern


class CallPattern(NamedTuple):
    """A call that a slot accepts.

    Attributes:
        item: The call; its name is exact unless there is a pattern.
        pattern: A pattern of names, where any of several names is accepted.
    """

    item: CallItem
    pattern: ValuePattern | None = None

    def named(self, name: str) -> bool:
        """Return whether it accepts calls of a name."""
        return self.item.name == name if self.pattern is None else self.pattern.credit(name) == ONE


class Slot(NamedTuple):
    """A place that one call can take.

    Attributes:
        patterns: The calls that it accepts; the most similar one counts.
        text: Its name for people.
        family: Slots of one expected call with a number of `times` share it.
        required: Whether it counts although it is empty. An optional slot counts once a call takes it.
        is_limited: Whether `times` has a greatest number, beyond which a call counts and adds no weight.
        least: How many slots of the family are required.
        labels: Names under which others refer to it.
        after: Names of those that must have been called before.
        group: Slots of one group must be called in one step; `None` for none.
    """

    patterns: tuple[CallPattern, ...]
    text: str
    family: int
    required: bool = True
    is_limited: bool = False
    least: int = 1
    labels: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    group: int | None = None
