"""Optimal alignment of calls with the slots of a plan.

A *slot* is a place that one call can take. As `align` does for lists, this finds the greatest sum of
similarities, in any order (optimal assignment) or in order (maximum-weight common subsequence). Two things differ. A
slot can accept several names, so that slots and calls fall apart not by name but into the connected parts of who can
take whom. And a slot can be optional: it is only ever taken at a similarity above 0, and among alignments of equal sum
the one that takes the fewest optional slots is the best, since each one taken counts as an expected call.

So the aims are, in this order: sum of similarities, few optional slots, many pairs, near positions. Similarities are
exact rationals; over their common denominator the four aims are one integer for each pair, as in `align_calls`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise, starmap
from math import lcm
from typing import NamedTuple, TypeAlias

from toolgrade._internal.budget import current_budget
from toolgrade.matching.align_calls import total
from toolgrade.matching.alignment import Item
from toolgrade.matching.argument_pattern import ONE, Ratio, ValuePattern
from toolgrade.matching.assignment import best_partners
from toolgrade.matching.call_similarity import Comparison

Partners = dict[int, int]
"""The called position that each slot has taken."""


class CallPattern(NamedTuple):
    """A call that a slot accepts.

    Attributes:
        item: The call; its name is exact unless there is a pattern.
        pattern: What accepts names, where any of several will do.
    """

    item: Item
    pattern: ValuePattern | None = None

    def named(self, name: str) -> bool:
        """Return whether it accepts calls of a name."""
        return self.item.name == name if self.pattern is None else self.pattern.credit(name) == ONE


@dataclass(frozen=True, slots=True)
class Slot:
    """A place that one call can take.

    Attributes:
        patterns: The calls that it accepts; the one counts that fits best.
        text: What it is called for people.
        required: Whether it counts although it is empty.
        family: Slots that stem from one expected call with a number of `times` share it.
        least: How many slots of the family are required.
        labels: Names under which others refer to it.
        after: Names of those that must have been called before.
        group: Slots of one group must be called in one step; `None` for none.
    """

    patterns: tuple[CallPattern, ...]
    text: str
    required: bool = True
    family: int = 0
    least: int = 1
    labels: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    group: int | None = None


_WHAT = "a plan with these calls"
_STEPS = 4
"""Steps of one comparison of an expected call with a called one."""
_BELOW_ALL: Ratio = (-1, 1)
"""Less than every similarity."""
_CHEAP = 16
"""Pairs of a slot and a call that are listed in about the time of one step."""


class _Compared(NamedTuple):
    """What the calls are worth to a slot, those that are similar at all, and the pattern that each call fits best."""

    ratios: dict[int, Ratio]
    similar: dict[int, Ratio]
    best: dict[int, int]


class Board:
    """Slots and calls, and what each call is worth to each slot that it can take.

    Attributes:
        slots: The slots.
        called: The calls.
        steps: The step of each call; `None` where it is not known.
        ratios: For each slot, the similarity of each call that it accepts by name.
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
        """Compare every slot with every call that it accepts by name."""
        self.slots = slots
        self.called = called
        self.steps = steps
        counts = [len(slot.patterns) for slot in slots]
        self._first = list(accumulate(counts, initial=0))
        """The position of the first pattern of each slot among those of all."""
        items = [pattern.item for slot in slots for pattern in slot.patterns]
        self.sides = Comparison(items, called, arguments=arguments, output=output)
        self._best: list[dict[int, int]] = []
        self.ratios: list[dict[int, Ratio]] = []
        self._budget = current_budget()
        same: dict[tuple[int, ...], _Compared] = {}
        for slot, first in zip(slots, self._first, strict=False):
            key = tuple(map(id, slot.patterns))  # slots of one family share their patterns, and so their similarities
            if key not in same:
                same[key] = self._compared(slot, first)
            compared = same[key]
            self.ratios.append(compared.ratios if slot.required else compared.similar)
            self._best.append(compared.best)

    def _compared(self, slot: Slot, first: int) -> _Compared:
        ratios: dict[int, Ratio] = {}
        best: dict[int, int] = {}
        for number, pattern in enumerate(slot.patterns):
            for call, item in enumerate(self.called):
                if not pattern.named(item.name):
                    continue
                self._budget.spend(_STEPS, _WHAT)
                ratio = self.sides.ratio(first + number, call)
                numerator, denominator = ratios.get(call, _BELOW_ALL)
                if ratio[0] * denominator > numerator * ratio[1]:
                    ratios[call], best[call] = ratio, number
        return _Compared(ratios, {call: ratio for call, ratio in ratios.items() if ratio[0]}, best)

    def weight(self, pairs: Mapping[int, int]) -> Fraction:
        """Return the sum of the similarities of pairs of a slot and a call."""
        return total(self.ratios[slot][call] for slot, call in pairs.items())

    def pattern_at(self, slot: int, call: int) -> int:
        """Return which want of a slot a call fits best, as its position among those of all slots."""
        return self._first[slot] + self._best[slot][call]

    def in_parts(self, slots: Iterable[int], calls: Iterable[int]) -> list[tuple[list[int], list[int]]]:
        """Return the connected parts of who can take whom among these slots and calls."""
        # Separate parts are solved separately: the assignment is cubic in the size of a part.
        usable = set(calls)
        reach = {slot: usable.intersection(self.ratios[slot]) for slot in slots}
        roots = _Roots()
        for partners in reach.values():
            roots.join(partners)
        parts: dict[int, tuple[list[int], set[int]]] = {}
        self._budget.spend(sum(map(len, reach.values())) // _CHEAP, _WHAT)
        for slot, partners in reach.items():
            if partners:
                members, reached = parts.setdefault(roots.of(min(partners)), ([], set()))
                members.append(slot)
                reached.update(partners)
        return [(members, sorted(reached)) for members, reached in parts.values()]


class _Roots:
    """Disjoint sets of calls, each with one of its calls as root."""

    def __init__(self) -> None:
        self.parent: dict[int, int] = {}

    def of(self, call: int) -> int:
        """Return the root of the set of a call, and shorten the way to it."""
        parent = self.parent
        while parent.setdefault(call, call) != call:
            parent[call] = parent[parent[call]]
            call = parent[call]
        return call

    def join(self, calls: Iterable[int]) -> None:
        """Join the sets of calls."""
        for one, other in pairwise(calls):
            self.parent[self.of(other)] = self.of(one)


class Worth:
    """Turns the four aims into one integer for each pair."""

    def __init__(self, board: Board) -> None:
        """Find numbers great enough that no sum of a lesser aim outweighs a greater one."""
        size = max(len(board.slots), len(board.called)) + 1
        pairs = min(len(board.slots), len(board.called)) + 1
        self._scale = lcm(*{ratio[1] for ratios in board.ratios for ratio in ratios.values()})
        self._pair = pairs * size
        self._optional = pairs * self._pair
        self._unit = pairs * (self._optional + self._pair)
        self._board = board

    def of(self, slot: int, call: int) -> int:
        """Return the weight of a pair; always more than 0."""
        numerator, denominator = self._board.ratios[slot][call]
        value: int = numerator * (self._scale // denominator) * self._unit + self._pair - abs(slot - call)
        return value if self._board.slots[slot].required else value - self._optional


def in_any_order(board: Board, slots: Iterable[int], calls: Iterable[int]) -> Partners:
    """Return the best pairs of these slots and calls, whatever their order: an optimal assignment."""
    worth = Worth(board)
    partners: Partners = {}
    for members, reached in board.in_parts(slots, calls):
        if len({board.slots[slot].family for slot in members}) == 1:
            partners.update(_one_family(board, members, reached))
        else:
            partners.update(_assigned(board, worth, members, reached))
    return partners


def _one_family(board: Board, members: list[int], reached: list[int]) -> Partners:
    """Return the best pairs of interchangeable slots: the best calls, in their order."""
    # Slots of one family accept the same calls, so only which calls are used is open. The required slots come first.
    required = sum(board.slots[slot].required for slot in members)
    ratios = board.ratios[members[0]]
    best = sorted(reached, key=lambda call: (-Fraction(*ratios[call]), call))[: len(members)]
    similar = sum(ratios[call][0] > 0 for call in best)
    return dict(zip(members, sorted(best[: max(similar, required)]), strict=False))


def _assigned(board: Board, worth: Worth, members: Sequence[int], reached: Sequence[int]) -> Partners:
    """Return the best pairs of one part."""
    current_budget().spend(_STEPS + len(members) * len(reached), _WHAT)
    edges: list[list[tuple[int, int]]] = []
    for number, slot in enumerate(members):
        row = [(at, -worth.of(slot, call)) for at, call in enumerate(reached) if call in board.ratios[slot]]
        # One more column for each slot, at which it stays alone for nothing.
        edges.append([*row, (len(reached) + number, 0)])
    chosen = best_partners(edges, len(reached) + len(members))
    return {slot: reached[at] for slot, at in zip(members, chosen, strict=True) if at < len(reached)}


_Stretches: TypeAlias = "dict[tuple[int, int], tuple[int, Partners]]"
"""By stretch of calls, in order, its best pairs with the slots of a block, and their weight."""


def in_order(board: Board) -> Partners:
    """Return the best pairs that keep the order of slots and calls; within a group of slots any order will do.

    Dynamic programming over blocks, a block being a slot or a group, and positions among the calls. A group takes its
    calls from a stretch of one step (or of calls whose step is not known), by assignment. O(slots * calls) without
    groups.
    """
    worth = Worth(board)
    blocks = [_Block(board, worth, slots) for slots in _blocks(board.slots)]
    best = [[0] * (len(board.called) + 1)]
    for block in reversed(blocks):
        # A block may take no call at all, take a stretch of calls that begins here, or leave calls unused before it.
        after = best[-1]
        here = list(after)
        for (start, stop), (value, _) in block.stretches().items():
            here[start] = max(here[start], value + after[stop])
        best.append(list(accumulate(reversed(here), max))[::-1])
    return _walk(blocks, best[::-1])


def _walk(blocks: Sequence[_Block], best: Sequence[Sequence[int]]) -> Partners:
    """Return the pairs behind the greatest value of the table."""
    partners: Partners = {}
    call = 0
    for block, (here, after) in zip(blocks, pairwise(best), strict=True):
        goal = here[call]
        # The block adds nothing here: leaving it empty is the smaller list.
        if goal == after[call]:
            continue
        # The first stretch with which the goal can be reached
        for (start, stop), (value, pairs) in block.stretches().items():
            if start >= call and value + after[stop] == goal:
                partners.update(pairs)
                call = stop
                break
    return partners


def _blocks(slots: Sequence[Slot]) -> list[list[int]]:
    blocks: list[list[int]] = []
    for index, slot in enumerate(slots):
        if blocks and slot.group is not None and slots[blocks[-1][0]].group == slot.group:
            blocks[-1].append(index)
        else:
            blocks.append([index])
    return blocks


class _Block:
    """A slot, or a group of slots, and what it can take."""

    def __init__(self, board: Board, worth: Worth, slots: Sequence[int]) -> None:
        self.board = board
        self.worth = worth
        self.slots = slots
        self._of_group: _Stretches = self._group_stretches() if len(slots) > 1 else {}

    def stretches(self) -> _Stretches:
        """Return the best pairs of the block with each stretch of calls that it can take."""
        if len(self.slots) > 1:
            return self._of_group
        # Not stored: one slot after the other can take every call.
        (slot,) = self.slots
        return {(call, call + 1): (self.worth.of(slot, call), {slot: call}) for call in sorted(self.board.ratios[slot])}

    def _group_stretches(self) -> _Stretches:
        """Return the best pairs of a group with each stretch of calls that may be one step."""
        usable = set[int]().union(*(self.board.ratios[slot] for slot in self.slots))
        stretches: _Stretches = {}
        for start in sorted(usable):
            end = _step_end(self.board.steps, start)
            most, _ = self._best_of_stretch(start, end)
            for stop in range(start + 1, end + 1):
                if stop - 1 in usable:
                    stretches[start, stop] = self._best_of_stretch(start, stop)
                    if stretches[start, stop][0] == most:
                        break  # a longer stretch leaves fewer calls to the next blocks, and is worth no more
        return stretches

    def _best_of_stretch(self, start: int, stop: int) -> tuple[int, Partners]:
        """Return the weight and the pairs of a group with a stretch of calls."""
        partners: Partners = {}
        for members, reached in self.board.in_parts(self.slots, range(start, stop)):
            partners.update(_assigned(self.board, self.worth, members, reached))
        return sum(starmap(self.worth.of, partners.items())), partners


def _step_end(steps: Sequence[int | None], start: int) -> int:
    """Return where another step begins than that of the calls from `start` on; unknown steps may be any."""
    own = None
    for call, step in enumerate(steps[start:], start):
        if own is None:
            own = step
        elif step not in (None, own):
            return call
    return len(steps)
