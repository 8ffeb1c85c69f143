"""The best alignment in any order: an optimal assignment of calls to the slots that accept them.

Similarities are exact fractions. Over their common denominator the aims of `engine` are one integer for each pair, so
the searches work without rounding, and a tie is a tie. Equal calls are paired first where that loses nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, chain
from math import lcm
from typing import TYPE_CHECKING, Final, NamedTuple

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
        arguments: Whether argument objects are compared.
        output: Whether outputs are compared.

    Attributes:
        size: The number of slots.
        sides: The comparison of all patterns with all calls.
        in_optional_parts: The slots of those parts that have an optional slot: how many of them count depends on the
            calls that take them.
        with_limit: The calls that fit a slot with a greatest number of times. If `search` may be called twice at most
            and was called three times, the third call has no slot, and counts as one more expected call.
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
        # The position of the first pattern of each slot among the patterns of all.
        self._first = [*accumulate((len(slot.patterns) for slot in slots), initial=0)]
        # Whether slots state their turn, so that a call in another turn is another call.
        self._has_turns = any(item.turn is not None for item in patterns)
        self._keys = list(map(self._key, called))
        self._accepted = self._accepted_keys() if slots else [(self._key(item),) for item in patterns]
        accepted = set(chain.from_iterable(self._accepted))
        names = {item.name for item, one in zip(called, self._keys, strict=True) if one in accepted}
        self.sides = CallScores(patterns, called, names, arguments=arguments, output=output)
        has_optional = not all(slot.required for slot in slots)
        self.in_optional_parts: frozenset[int] = self._slots_of_optional_parts() if has_optional else frozenset()
        self.with_limit: frozenset[int] = self._calls_with_limit() if has_optional else frozenset()

    def _slots_of_optional_parts(self) -> frozenset[int]:
        parts = [members for members, _ in self.parts(range(self.size), range(len(self.called)))]
        optional = (part for part in parts if not all(self.slots[slot].required for slot in part))
        return frozenset[int]().union(*optional)

    def _calls_with_limit(self) -> frozenset[int]:
        one_of_each_family = {slot.family: index for index, slot in enumerate(self.slots) if slot.is_limited}.values()
        calls = range(len(self.called))
        return frozenset([call for call in calls if any(self.fits(slot, call) for slot in one_of_each_family)])

    def _key(self, item: CallItem) -> Hashable:
        """Return the key of a call, its name (and turn): calls with one key are accepted by the same slots."""
        return (item.name, item.turn) if self._has_turns else item.name

    def _accepted_keys(self) -> list[Sequence[Hashable]]:
        """Return, for each slot, the keys of the calls that it accepts by name and turn."""
        by_key = dict(zip(self._keys, self.called, strict=True))
        keys: list[Sequence[Hashable]] = []
        for index, slot in enumerate(self.slots):
            if index and self.slots[index - 1].patterns is slot.patterns:  # of one family
                keys.append(keys[-1])
            elif self._has_one_key(slot):
                keys.append((self._key(slot.patterns[0].item),))
            else:
                current_budget().spend(len(by_key) * len(slot.patterns), "a plan with these calls")
                keys.append([key for key, call in by_key.items() if any(one.takes(call) for one in slot.patterns)])
        return keys

    def _has_one_key(self, slot: Slot) -> bool:
        """Return whether a slot is one exact name (and turn), so that its pattern has the key of each call it accepts.

        Where others state a turn and it does not, it accepts the name in any turn, which are several keys.
        """
        first = slot.patterns[0]
        is_exact = first.pattern is None and (first.item.turn is not None) == self._has_turns
        return is_exact and len(slot.patterns) == 1

    def best_pattern(self, slot: int, call: int) -> tuple[int, Ratio]:
        """Return the position of the pattern of a plan's slot that is most similar to a call, and the similarity.

        The slot must accept the call.
        """
        best, best_ratio = self._first[slot], (-1, 1)
        for position, pattern in enumerate(self.slots[slot].patterns, best):
            if pattern.takes(self.called[call]):
                ratio = self.sides.ratio(position, call)
                if ratio[0] * best_ratio[1] > best_ratio[0] * ratio[1]:
                    best, best_ratio = position, ratio
        return best, best_ratio

    def ratio(self, slot: int, call: int) -> Ratio:
        """Return the similarity of a call to a slot of a plan, which must accept it."""
        return self.best_pattern(slot, call)[1]

    def ratios(self, slots: Sequence[int], calls: Sequence[int]) -> dict[int, Sequence[Ratio | None]]:
        """Return, for each slot of one part, the similarity of each call; `None` where the slot cannot take it."""
        if not self.slots:
            return dict(zip(slots, self.sides.ratios(slots, calls), strict=True))
        kinds = {slot: (self.slots[slot].family, self.slots[slot].required) for slot in slots}
        rows: dict[tuple[int, bool], list[Ratio | None]] = {}  # slots of one kind have the same
        for slot, kind in kinds.items():
            if kind not in rows:
                rows[kind] = [self.ratio(slot, call) if self._can_take(slot, call) else None for call in calls]
        return {slot: rows[kind] for slot, kind in kinds.items()}

    def _can_take(self, slot: int, call: int) -> bool:
        """Return whether a slot accepts a call by name; an optional slot takes none of another type or turn."""
        return self._keys[call] in self._accepted[slot] and (self.slots[slot].required or self.fits(slot, call))

    def fits(self, slot: int, call: int) -> bool:
        """Return whether a slot accepts a call by its name and, where these are set, by its type and turn."""
        item = self.called[call]
        patterns = self.slots[slot].patterns
        return any(one.takes(item) and not self.sides.are_apart(one.item, item) for one in patterns)

    def parts(self, slots: Iterable[int], calls: Iterable[int]) -> list[tuple[list[int], list[int]]]:
        """Return the connected parts of these slots and calls: slots and calls linked by which slot accepts which call.

        Parts are solved one by one, since an assignment is cubic in their size. For a list, each name is a part.
        """
        calls_of: dict[Hashable, list[int]] = {}
        for call in calls:
            calls_of.setdefault(self._keys[call], []).append(call)
        part_of: dict[Hashable, _Part] = {}
        for slot in slots:
            keys = [key for key in self._accepted[slot] if key in calls_of]
            if not keys:
                continue
            part = part_of.setdefault(keys[0], _Part([], [keys[0]]))
            part.slots.append(slot)
            for key in keys[1:]:
                other = part_of.get(key, _Part([], [key]))
                if other is not part:  # the slot joins two parts
                    part.slots.extend(other.slots)
                    part.keys.extend(other.keys)
                    part_of.update(dict.fromkeys(other.keys, part))
        return [
            (sorted(part.slots), sorted(chain.from_iterable(map(calls_of.__getitem__, part.keys))))
            for key, part in part_of.items()
            if key == part.keys[0]  # each part once
        ]


class _Part(NamedTuple):
    """The slots of a connected part, and the keys of its calls."""

    slots: list[int]
    keys: list[Hashable]


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
    if len(members) == 1 == len(reached):  # they are a pair, equal or not
        return _assigned_part(board, members, reached, {})
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

    The greatest sum of weights is best by the first aim, of these by the second, and so on: the aims are like the
    digits of one number, each in a place of its own. From the least to the greatest, the places are

    - 1 for each position that slot and call are apart, subtracted (in any order, `cheapest` sees to it instead);
    - `per_pair` for a pair, more than the distances of all pairs together;
    - `per_equal` for an equal pair, more than `per_pair` for all pairs;
    - `whole` for similarity 1: the least difference of two sums of similarities is more than all equal pairs;
    - `levels` for a slot in an optional part: more than the similarities of all pairs.

    Example: 2 slots and 3 calls, in order, similarities in halves, an equal pair. There are at most 2 pairs, so 3 of a
    place never come together: `per_pair` is 3 x 3 positions = 9, `per_equal` 9 x 3 = 27, and `whole` 2 x 27 x 3 = 162.
    Slot 0 with call 1 and similarity 1/2 weighs 81 + 9 - 1 = 89.

    Args:
        board: The slots and calls.
        parts: The parts; there is at least one.
        equal: The partners of equal calls.
        any_order: Whether pairs may cross. Only then the first aim of `engine` counts here.
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
        more_than_pairs = sum(min(len(members), len(reached)) for members, reached in parts) + 1
        positions = max(max(members[-1], reached[-1]) for members, reached in parts) + 1
        unit = lcm(*{ratio[1] for row in self.ratios.values() for ratio in filter(None, row)})
        self.nearness, self.per_pair = (0, 1) if any_order else (1, more_than_pairs * positions)
        # In any order, a list has as many pairs as names allow, whatever the assignment.
        has_fixed_pairs = any_order and not board.slots
        self.per_equal = self.per_pair if has_fixed_pairs else self.per_pair * more_than_pairs
        self.whole = unit * self.per_equal * (more_than_pairs if equal else 1)
        level = 2 * self.whole * more_than_pairs  # similarity and the lesser aims add less than `2 * whole` to a pair
        self.levels: tuple[int, ...] = (level, level * more_than_pairs, level * more_than_pairs**2) if any_order else ()
        """For a call with a limit, for an optional slot, and for a required slot."""

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
        if self.levels and slot in self.board.in_optional_parts:
            for index, call in enumerate(own_calls):
                if weights[index]:
                    weights[index] += self._level(slot, call)
        return weights

    def _level(self, slot: int, call: int) -> int:
        """Return what the first aim of `engine` adds to a pair."""
        if not self.board.fits(slot, call):
            return 0
        extra = self.levels[0] if call in self.board.with_limit else 0
        return self.levels[2 if self.board.slots[slot].required else 1] + extra

    def within(self, slot: int, calls: Sequence[int]) -> list[int]:
        """Return the weights of a slot with these calls, such as those of one step."""
        if calls is self.calls[slot]:
            return self.row(slot)
        if slot not in self._by_call:
            self._by_call[slot] = dict(zip(self.calls[slot], self.row(slot), strict=True))
        by_call = self._by_call[slot]
        return [by_call.get(call, 0) for call in calls]
