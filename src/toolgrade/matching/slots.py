"""Slots: the places of an expectation that one call each can take, and what each call is worth to them.

A list of expected calls is a plan whose slots have one pattern each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from toolgrade._internal.budget import current_budget
from toolgrade.matching.alignment import Item
from toolgrade.matching.argument_pattern import ONE, ZERO, Ratio, ValuePattern
from toolgrade.matching.call_similarity import Comparison


class CallPattern(NamedTuple):
    """A call that a slot accepts.

    Attributes:
        item: The call; its name is exact unless there is a pattern.
        pattern: A pattern of names, where any of several names is accepted.
    """

    item: Item
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
        is_excess: Whether it takes a call beyond the greatest number of `times`, which counts and adds no weight.
        least: How many slots of the family are required.
        labels: Names under which others refer to it.
        after: Names of those that must have been called before.
        group: Slots of one group must be called in one step; `None` for none.
    """

    patterns: tuple[CallPattern, ...]
    text: str
    family: int
    required: bool = True
    is_excess: bool = False
    least: int = 1
    labels: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    group: int | None = None


class Board:
    """Slots and calls, and what each call is worth to each slot.

    Attributes:
        slots: The slots.
        called: The calls.
        steps: The step of each call; `None` where it is not known.
        sides: The comparison of all patterns with all calls.
        listed: Whether each slot is one required call with an exact name and no rules, as in a list.
        leveled: Whether there are slots that count only once a call takes them.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        called: Sequence[Item],
        steps: Sequence[int | None],
        *,
        arguments: bool,
        output: bool,
    ) -> None:
        self.slots = slots
        self.called = called
        self.steps = steps
        patterns = [pattern for slot in slots for pattern in slot.patterns]
        self.leveled = any(not slot.required for slot in slots)
        self.listed = len(patterns) == len(slots) and all(map(_is_listed, slots))
        self._first = range(len(slots)) if self.listed else [*accumulate(map(_size, slots), initial=0)]
        """The position of the first pattern of each slot among those of all."""
        self._names: list[Sequence[str]] = self._accepted_names()
        names = {name for names in self._names for name in names}
        items = [pattern.item for pattern in patterns]
        self.sides = Comparison(items, called, names, arguments=arguments, output=output)

    def _accepted_names(self) -> list[Sequence[str]]:
        """Return, for each slot, the called names that it accepts."""
        called_names = dict.fromkeys([item.name for item in self.called])
        names: list[Sequence[str]] = []
        for index, slot in enumerate(self.slots):
            pattern, *others = slot.patterns
            if pattern.pattern is None and not others:
                names.append((pattern.item.name,))
            elif index and self.slots[index - 1].patterns is slot.patterns:
                names.append(names[-1])
            else:
                current_budget().spend(len(called_names) * len(slot.patterns), "a plan with these calls")
                names.append([name for name in called_names if any(one.named(name) for one in slot.patterns)])
        return names

    def best_pattern(self, slot: int, call: int) -> tuple[int, Ratio]:
        """Return the position of the pattern of a slot that is most similar to a call, and the similarity."""
        first = self._first[slot]
        patterns = self.slots[slot].patterns
        if len(patterns) == 1:
            return first, self.sides.ratio(first, call)
        best, best_ratio = first, (-1, 1)
        for position, pattern in enumerate(patterns, first):
            if pattern.named(self.called[call].name):
                ratio = self.sides.ratio(position, call)
                if ratio[0] * best_ratio[1] > best_ratio[0] * ratio[1]:
                    best, best_ratio = position, ratio
        return best, best_ratio

    def ratio(self, slot: int, call: int) -> Ratio:
        """Return the similarity of a call to a slot that accepts its name."""
        return ZERO if self.slots[slot].is_excess else self.best_pattern(slot, call)[1]

    def fits(self, slot: int, call: int) -> bool:
        """Return whether a slot accepts a call by its name and, where that is set, by its type."""
        name = self.called[call].name
        return any(
            pattern.named(name) and not self.sides.types_differ(pattern.item, self.called[call])
            for pattern in self.slots[slot].patterns
        )

    def can_take(self, slot: int, call: int) -> bool:
        """Return whether a slot accepts a call by name; an optional slot takes none of another type."""
        return self.called[call].name in self._names[slot] and (self.slots[slot].required or self.fits(slot, call))

    def parts(self, slots: Iterable[int], calls: Iterable[int]) -> list[tuple[list[int], list[int]]]:
        """Return the connected parts of these slots and calls: who can take whom by name.

        Parts are solved one by one, since an assignment is cubic in their size. For a list, each name is a part.
        """
        calls_of: dict[str, list[int]] = {}
        for call in calls:
            calls_of.setdefault(self.called[call].name, []).append(call)
        part_of: dict[str, tuple[list[int], list[str]]] = {}
        for slot in slots:
            names = [name for name in self._names[slot] if name in calls_of]
            if not names:
                continue
            members, part_names = part = part_of.setdefault(names[0], ([], names[:1]))
            members.append(slot)
            for name in names[1:]:
                other = part_of.get(name, ([], [name]))
                if other is not part:
                    members += other[0]
                    part_names += other[1]
                    part_of.update(dict.fromkeys(other[1], part))
        return [
            (sorted(members), sorted([call for one in names for call in calls_of[one]]))
            for name, (members, names) in part_of.items()
            if name == names[0]
        ]


def _is_listed(slot: Slot) -> bool:
    return slot.required and slot.patterns[0].pattern is None and not slot.after and slot.group is None


def _size(slot: Slot) -> int:
    return len(slot.patterns)
