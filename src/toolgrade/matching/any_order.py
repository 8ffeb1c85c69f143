"""The best alignment in any order: an optimal assignment of calls to the slots that accept them.

Similarities are exact fractions. Over their common denominator the aims of `engine` are one integer for each pair, so
the searches work without rounding, and a tie is a tie. Equal calls are paired first where that loses nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, chain
from math import lcm
from typing import TYPE_CHECKING, Final

from toolgrade._internal.budget import current_budget
from toolgrade.errors import LimitError
from toolgrade.matching.alignment import CallItem, Partners
from toolgrade.matching.argument_pattern import ONE, ZERO, Ratio
from toolgrade.matching.assignment import cheapest
from toolgrade.matching.call_similarity import CallScores

if TYPE_CHECKING:
    from toolgrade.matching.alignment import Slot

MOST_PAIRS: Final = 1_000_000
"""Pairs of unequal calls of one tool that are compared; a thousand with a thousand take some seconds."""


class Board:
    """Slots and calls, and what each call is worth to each slot.

    Args:
        patterns: The patterns of all slots.
        called: The calls.
        slots: The slots; none for a list, in which each pattern is a required slot.
        steps: The step of each call of a plan; `None` where it is not known.
        arguments: As for `align`.
        output: As for `align`.

    Attributes:
        size: The number of slots.
        sides: The comparison of all patterns with all calls.
        leveled: The slots of the parts with optional slots, which count only once a call takes them.
        limited: The calls that count although no slot is left for them: `times` has a greatest number.
    """

    def __init__(
        self,
        patterns: Sequence[CallItem],
        called: Sequence[CallItem],
        slots: Sequence[Slot] = (),
        steps: Sequence[int | None] = (),
        *,
        arguments: bool,
        output: bool,
    ) -> None:
        self.slots = slots
        self.called = called
        self.steps = steps
        self.size = len(slots) or len(patterns)
        self._first = [*accumulate((len(slot.patterns) for slot in slots), initial=0)]
        """The position of the first pattern of each slot among those of all."""
        self._has_turns = any(item.turn is not None for item in patterns)
        """Whether slots state their turn, so that a call in another turn is another call."""
        self._keys = list(map(self._key, called))
        self._accepted = self._accepted_keys() if slots else [(self._key(item),) for item in patterns]
        accepted = set(chain.from_iterable(self._accepted))
        names = {item.name for item, one in zip(called, self._keys, strict=True) if one in accepted}
        self.sides = CallScores(patterns, called, names, arguments=arguments, output=output)
        has_optional = not all(slot.required for slot in slots)
        self.leveled: frozenset[int] = self._slots_of_optional_parts() if has_optional else frozenset()
        self.limited: frozenset[int] = self._calls_of_limited_slots() if has_optional else frozenset()

    def _slots_of_optional_parts(self) -> frozenset[int]:
        parts = [members for members, _ in self.parts(range(self.size), range(len(self.called)))]
        optional = (part for part in parts if not all(self.slots[slot].required for slot in part))
        return frozenset[int]().union(*optional)

    def _calls_of_limited_slots(self) -> frozenset[int]:
        slots = {slot.family: index for index, slot in enumerate(self.slots) if slot.is_limited}.values()
        return frozenset([call for call in range(len(self.called)) if any(self.fits(slot, call) for slot in slots)])

    def _key(self, item: CallItem) -> Hashable:
        """Return what calls share that are accepted by the same slots."""
        return (item.name, item.turn) if self._has_turns else item.name

    def _accepted_keys(self) -> list[Sequence[Hashable]]:
        """Return, for each slot, the keys of the calls that it accepts by name and turn."""
        by_key = dict(zip(self._keys, self.called, strict=True))
        keys: list[Sequence[Hashable]] = []
        for index, slot in enumerate(self.slots):
            if index and self.slots[index - 1].patterns is slot.patterns:
                keys.append(keys[-1])
            elif self._has_one_key(slot):
                keys.append((self._key(slot.patterns[0].item),))
            else:
                current_budget().spend(len(by_key) * len(slot.patterns), "a plan with these calls")
                keys.append([key for key, call in by_key.items() if any(one.takes(call) for one in slot.patterns)])
        return keys

    def _has_one_key(self, slot: Slot) -> bool:
        first = slot.patterns[0]
        is_exact = first.pattern is None and (first.item.turn is not None) == self._has_turns
        return is_exact and len(slot.patterns) == 1

    def best_pattern(self, slot: int, call: int) -> tuple[int, Ratio]:
        """Return the position of the pattern of a plan's slot that is most similar to a call, and the similarity."""
        best, best_ratio = self._first[slot], (-1, 1)
        for position, pattern in enumerate(self.slots[slot].patterns, best):
            if pattern.takes(self.called[call]):
                ratio = self.sides.ratio(position, call)
                if ratio[0] * best_ratio[1] > best_ratio[0] * ratio[1]:
                    best, best_ratio = position, ratio
        return best, best_ratio

    def ratio(self, slot: int, call: int) -> Ratio:
        """Return the similarity of a call to a slot of a plan that accepts its name."""
        return self.best_pattern(slot, call)[1]

    def ratios(self, slots: Sequence[int], calls: Sequence[int]) -> dict[int, Sequence[Ratio | None]]:
        """Return, for each slot of one part, the similarity of each call; `None` where the slot cannot take it."""
        if not self.slots:
            return dict(zip(slots, self.sides.ratios(slots, calls), strict=True))
        rows: dict[tuple[int, bool], list[Ratio | None]] = {}
        keys = {slot: (self.slots[slot].family, self.slots[slot].required) for slot in slots}  # those are alike
        for slot, key in keys.items():
            if key not in rows:
                rows[key] = [self.ratio(slot, call) if self._can_take(slot, call) else None for call in calls]
        return {slot: rows[key] for slot, key in keys.items()}

    def _can_take(self, slot: int, call: int) -> bool:
        """Return whether a slot accepts a call by name; an optional slot takes none of another type or turn."""
        return self._keys[call] in self._accepted[slot] and (self.slots[slot].required or self.fits(slot, call))

    def fits(self, slot: int, call: int) -> bool:
        """Return whether a slot accepts a call by its name and, where these are set, by its type and turn."""
        item = self.called[call]
        patterns = self.slots[slot].patterns
        return any(one.takes(item) and not self.sides.are_apart(one.item, item) for one in patterns)

    def parts(self, slots: Iterable[int], calls: Iterable[int]) -> list[tuple[list[int], list[int]]]:
        """Return the connected parts of these slots and calls: who can take whom by name and turn.

        Parts are solved one by one, since an assignment is cubic in their size. For a list, each name is a part.
        """
        calls_of: dict[Hashable, list[int]] = {}
        for call in calls:
            calls_of.setdefault(self._keys[call], []).append(call)
        part_of: dict[Hashable, tuple[list[int], list[Hashable]]] = {}
        for slot in slots:
            part: tuple[list[int], list[Hashable]] | None = None
            for name in filter(calls_of.__contains__, self._accepted[slot]):
                other = part_of.get(name) or ([], [name])
                if part is None:
                    part = part_of[name] = other
                    part[0].append(slot)
                elif other is not part:
                    part[0].extend(other[0])
                    part[1].extend(other[1])
                    part_of.update(dict.fromkeys(other[1], part))
        parts: list[tuple[list[int], list[int]]] = []
        for name, (members, names) in part_of.items():
            if len(names) == 1:
                parts.append((members, calls_of[name]))
            elif name == names[0]:
                parts.append((sorted(members), sorted([call for one in names for call in calls_of[one]])))
        return parts


def positions_left(positions: Iterable[int], occupied: Iterable[int]) -> list[int]:
    """Return the positions that are not occupied."""
    used = set(occupied)
    return [position for position in positions if position not in used]


def total(ratios: Iterable[Ratio]) -> Ratio:
    """Return the exact sum of similarities, as numerator and denominator."""
    # One fraction at the end: adding fractions one by one reduces each sum.
    total, unit = 0, 1
    for numerator, denominator in ratios:
        if unit % denominator:
            common = lcm(unit, denominator)
            total, unit = total * (common // unit), common
        total += numerator * (unit // denominator)
    return total, unit


def in_any_order(board: Board, slots: Sequence[int], calls: Sequence[int]) -> Partners:
    """Return the best pairs of these slots and calls, whatever their order: an optimal assignment of each part."""
    partners: Partners = {}
    for members, reached in board.parts(slots, calls):
        if not board.slots:
            partners.update(_equal_first(board, members, reached))
        elif len({board.slots[member].family for member in members}) == 1:
            partners.update(_one_family(board, members, reached))
        else:
            partners.update(_assigned_part(board, members, reached, {}))
    return partners


def _one_family(board: Board, members: list[int], reached: list[int]) -> Partners:
    """Return the best pairs of interchangeable slots: the best calls, in their order."""
    # An optional slot takes no call of another type, and a required one only if there is no better one.
    usable = [call for call in reached if board.fits(members[0], call)]
    others = positions_left(reached, usable)
    ratios = {call: board.ratio(members[0], call) for call in reached}
    usable.sort(key=lambda call: (-Fraction(*ratios[call]), call))
    required = sum(board.slots[slot].required for slot in members)
    chosen = [*usable[: len(members)], *others[: max(required - len(usable), 0)]]
    return {slot: (call, ratios[call]) for slot, call in zip(members, sorted(chosen), strict=False)}


def _equal_first(board: Board, members: list[int], reached: list[int]) -> Partners:
    """Return the best pairs of expected calls of one name; equal ones are paired first where that loses nothing."""
    if len(members) == 1 == len(reached):
        return {members[0]: (reached[0], board.sides.ratio(members[0], reached[0]))}
    equal, is_complete = board.sides.equal_pairs(members, reached)
    if not is_complete:
        return _assigned_part(board, members, reached, equal)
    partners: Partners = {slot: (call, ONE) for slot, call in equal.items()}
    if len(equal) < min(len(members), len(reached)):
        members, reached = positions_left(members, equal), positions_left(reached, equal.values())
        partners.update(_assigned_part(board, members, reached, {}))
    return partners


def _assigned_part(board: Board, members: list[int], reached: list[int], equal: Mapping[int, int]) -> Partners:
    """Return the optimal assignment of one part."""
    if len(members) == 1 == len(reached) and not board.slots:
        return {members[0]: (reached[0], board.sides.ratio(members[0], reached[0]))}
    return assigned(PairWeights(board, [(members, reached)], equal, any_order=True), members, reached)


def assigned(weights: PairWeights, slots: Sequence[int], calls: Sequence[int]) -> Partners:
    """Return the optimal assignment of slots to calls."""
    costs = [[-weight for weight in weights.within(slot, calls)] for slot in slots]
    partners: Partners = {}
    for slot, row, column in zip(slots, costs, cheapest(costs, slots, calls), strict=True):
        if column >= 0 and row[column]:
            partners[slot] = calls[column], weights.ratio(slot, calls[column])
    return partners


def check_size(board: Board, members: Sequence[int], reached: Sequence[int]) -> None:
    """Raise `LimitError` if there are too many pairs of one part."""
    if len(members) * len(reached) > MOST_PAIRS:
        name = board.called[reached[0]].name
        raise LimitError(
            f"{len(members):,} expected and {len(reached):,} called calls of {name!r} are unequal: at most "
            f"{MOST_PAIRS:,} pairs are compared; expect fewer of them, compare names alone, or split the case"
        )


class PairWeights:
    """The aims of the pairs of some parts as one integer for each pair; 0 where a slot cannot take a call.

    No sum of a lesser aim reaches the smallest step of a greater one: with k pairs at most and positions below `size`,
    distances add up to less than `per_pair`, pairs to less than `per_equal`, equal pairs to less than the smallest
    difference between two sums of similarities, and all that to less than the smallest level. In any order, distances
    are left to `cheapest`.

    Args:
        board: The slots and calls.
        parts: The parts; there is at least one.
        equal: The partners of equal calls.
        any_order: Whether pairs may cross. Then slots that count only once a call takes them come before similarity.
    """

    def __init__(
        self, board: Board, parts: Sequence[tuple[list[int], list[int]]], equal: Mapping[int, int], *, any_order: bool
    ) -> None:
        self.board = board
        self.equal = equal
        self._by_call: dict[int, dict[int, int]] = {}
        self.calls: dict[int, list[int]] = {}
        self.ratios: dict[int, Sequence[Ratio | None]] = {}
        for members, reached in parts:
            check_size(board, members, reached)
            self.calls.update(dict.fromkeys(members, reached))
            self.ratios.update(board.ratios(members, reached))
        pairs = sum(min(len(members), len(reached)) for members, reached in parts) + 1
        size = max(max(members[-1], reached[-1]) for members, reached in parts) + 1
        unit = lcm(*{ratio[1] for row in self.ratios.values() for ratio in filter(None, row)})
        # In any order, a list has as many pairs as names allow, whatever the assignment.
        self.nearness, self.per_pair = (0, 1) if any_order else (1, pairs * size)
        self.per_equal = self.per_pair if any_order and not board.slots else self.per_pair * pairs
        self.whole = unit * self.per_equal * (pairs if equal else 1)
        lowest = 2 * self.whole * pairs
        self.levels: tuple[int, ...] = (lowest, lowest * pairs, lowest * pairs**2) if any_order else ()

    def ratio(self, slot: int, call: int) -> Ratio:
        """Return the similarity of a pair."""
        return self.ratios[slot][self.calls[slot].index(call)] or ZERO

    def row(self, slot: int) -> list[int]:
        """Return the weights of a slot with the calls of its part."""
        own_calls = self.calls[slot]
        per_pair, whole, nearness = self.per_pair, self.whole, self.nearness
        weights = [
            0 if ratio is None else ratio[0] * (whole // ratio[1]) + per_pair - nearness * abs(slot - call)
            for ratio, call in zip(self.ratios[slot], own_calls, strict=True)
        ]
        # Only the k-th with the k-th counts as equal; other equal calls are ordinary pairs of similarity 1.
        partner = self.equal.get(slot)
        if partner is not None and partner in own_calls:
            weights[own_calls.index(partner)] += self.per_equal
        if self.levels and slot in self.board.leveled:
            return [
                weight and weight + self._level(slot, call) for weight, call in zip(weights, own_calls, strict=True)
            ]
        return weights

    def _level(self, slot: int, call: int) -> int:
        """Return what the first aim adds to a pair, whose slot counts only if a call takes it."""
        if not self.board.fits(slot, call):
            return 0
        extra = self.levels[0] if call in self.board.limited else 0
        return self.levels[2 if self.board.slots[slot].required else 1] + extra

    def within(self, slot: int, calls: Sequence[int]) -> list[int]:
        """Return the weights of a slot with these calls, such as those of one step."""
        if calls is self.calls[slot]:
            return self.row(slot)
        if slot not in self._by_call:
            self._by_call[slot] = dict(zip(self.calls[slot], self.row(slot), strict=True))
        by_call = self._by_call[slot]
        return [by_call.get(call, 0) for call in calls]
