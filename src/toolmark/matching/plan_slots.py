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
from math import lcm
from typing import NamedTuple

from toolmark.matching.alignment import Item
from toolmark.matching.argument_pattern import ONE, Ratio, ValuePattern
from toolmark.matching.assignment import assign
from toolmark.matching.call_similarity import Comparison

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
        patterns = [(index, pattern) for index, slot in enumerate(slots) for pattern in slot.patterns]
        self._first: dict[int, int] = {index: at for at, (index, _) in reversed(list(enumerate(patterns)))}
        items = [pattern.item for _, pattern in patterns]
        self.sides = Comparison(items, called, arguments=arguments, output=output)
        self._best: dict[tuple[int, int], int] = {}
        self.ratios: list[dict[int, Ratio]] = []
        same: dict[tuple[int, ...], tuple[dict[int, Ratio], dict[int, int]]] = {}
        for index, slot in enumerate(slots):
            key = tuple(map(id, slot.patterns))  # slots of one family share their patterns, and so their similarities
            if key not in same:
                same[key] = self._compared(slot)
            ratios, best = same[key]
            self.ratios.append({call: ratio for call, ratio in ratios.items() if slot.required or ratio[0]})
            self._best.update({(index, call): pattern for call, pattern in best.items()})

    def _compared(self, slot: Slot) -> tuple[dict[int, Ratio], dict[int, int]]:
        ratios: dict[int, Ratio] = {}
        best: dict[int, int] = {}
        for number, pattern in enumerate(slot.patterns):
            for call, item in enumerate(self.called):
                if not pattern.named(item.name):
                    continue
                ratio = self.sides.ratio(pattern.item, item)
                if call not in ratios or ratio[0] * ratios[call][1] > ratios[call][0] * ratio[1]:
                    ratios[call], best[call] = ratio, number
        return ratios, best

    def pattern_at(self, slot: int, call: int) -> int:
        """Return which want of a slot a call fits best, as its position among those of all slots."""
        return self._first[slot] + self._best[slot, call]

    def in_parts(self, slots: Iterable[int], calls: Iterable[int]) -> list[tuple[list[int], list[int]]]:
        """Return the connected parts of who can take whom among these slots and calls."""
        # Separate parts are solved separately: the assignment is cubic in the size of a part.
        left, right = list(slots), set(calls)
        root: dict[int, int] = {}

        def find(call: int) -> int:
            while root.setdefault(call, call) != call:
                root[call] = root[root[call]]
                call = root[call]
            return call

        reach = {slot: [call for call in self.ratios[slot] if call in right] for slot in left}
        for partners in reach.values():
            for call in partners[1:]:
                root[find(call)] = find(partners[0])
        parts: dict[int, tuple[list[int], set[int]]] = {}
        for slot, partners in reach.items():
            if partners:
                part = parts.setdefault(find(partners[0]), ([], set()))
                part[0].append(slot)
                part[1].update(partners)
        return [(members, sorted(reached)) for members, reached in parts.values()]


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
            partners.update(_assigned(board, worth, members, reached)[1])
    return partners


def _one_family(board: Board, members: list[int], reached: list[int]) -> Partners:
    """Return the best pairs of interchangeable slots: the best calls, in their order."""
    # Slots of one family accept the same calls, so only which calls are used is open.
    required = [slot for slot in members if board.slots[slot].required]
    ratios = board.ratios[(required or members)[0]]
    best = sorted(reached, key=lambda call: (-Fraction(*ratios[call]), call))
    used = best[: len(members)]
    good = [call for call in used if ratios[call][0]]
    some = good if len(good) >= len(required) else used[: len(required)]
    order = required + [slot for slot in members if not board.slots[slot].required]
    return dict(zip(order, sorted(some), strict=False))


def _assigned(board: Board, worth: Worth, members: Sequence[int], reached: Sequence[int]) -> tuple[int, Partners]:
    """Return the best pairs of one part, and their weight."""
    # `assign` wants no more rows than columns.
    rows, columns = (members, reached) if len(members) <= len(reached) else (reached, members)

    def pair(row: int, column: int) -> tuple[int, int]:
        return (row, column) if rows is members else (column, row)

    def cost(slot: int, call: int) -> int:
        return -worth.of(slot, call) if call in board.ratios[slot] else 0

    # One more column for each row, at which it stays alone for nothing; a pair that cannot be costs as much.
    alone = [0] * len(rows)
    chosen, _, _ = assign([[*(cost(*pair(row, column)) for column in columns), *alone] for row in rows])
    partners = [pair(row, columns[at]) for row, at in zip(rows, chosen, strict=True) if at < len(columns)]
    pairs = {slot: call for slot, call in sorted(partners) if call in board.ratios[slot]}
    return sum(worth.of(slot, call) for slot, call in pairs.items()), pairs


def in_order(board: Board) -> Partners:
    """Return the best pairs that keep the order of slots and calls; within a group of slots any order will do.

    Dynamic programming over blocks, a block being a slot or a group, and positions among the calls. A group takes its
    calls from a stretch of one step (or of calls whose step is not known), by assignment. O(slots * calls) without
    groups.
    """
    worth = Worth(board)
    blocks = _blocks(board.slots)
    count = len(board.called)
    best = [[0] * (count + 1) for _ in range(len(blocks) + 1)]
    stretches: list[dict[tuple[int, int], tuple[int, Partners]]] = []
    for number in reversed(range(len(blocks))):
        block, here, after = blocks[number], best[number], best[number + 1]
        used = _stretches(board, worth, block) if len(block) > 1 else {}
        stretches.append(used)
        ends: dict[int, list[tuple[int, int]]] = {}
        for (start, stop), (value, _) in used.items():
            ends.setdefault(start, []).append((stop, value))
        # A block may leave calls unused before it, take some at this call, or take none at all.
        for call in range(count, -1, -1):
            top = after[call]
            if call < count:
                top = max(top, here[call + 1])
                if len(block) == 1 and call in board.ratios[block[0]]:
                    top = max(top, worth.of(block[0], call) + after[call + 1])
            for stop, value in ends.get(call, ()):
                top = max(top, value + after[stop])
            here[call] = top
    return _walk(board, worth, blocks, best, stretches[::-1])


def _walk(
    board: Board,
    worth: Worth,
    blocks: Sequence[Sequence[int]],
    best: Sequence[Sequence[int]],
    stretches: Sequence[Mapping[tuple[int, int], tuple[int, Partners]]],
) -> Partners:
    """Return the pairs behind the greatest value of the table."""
    partners: Partners = {}
    call = 0
    for number, block in enumerate(blocks):
        goal, after = best[number][call], best[number + 1]
        # The block adds nothing here: leaving it empty is the smaller list.
        if goal == after[call]:
            continue
        while True:  # the first call with which the goal can be reached
            used = _block_pairs(board, worth, block, stretches[number], call, goal, after)
            if used is not None:
                break
            call += 1
        pairs, call = used
        partners.update(pairs)
    return partners


def _block_pairs(
    board: Board,
    worth: Worth,
    block: Sequence[int],
    stretches: Mapping[tuple[int, int], tuple[int, Partners]],
    call: int,
    goal: int,
    after: Sequence[int],
) -> tuple[Partners, int] | None:
    """Return the pairs of a block that begin at a call and reach the goal, and where the calls go on."""
    slot = block[0]
    if len(block) == 1:
        reaches = call in board.ratios[slot] and worth.of(slot, call) + after[call + 1] == goal
        return ({slot: call}, call + 1) if reaches else None
    for (start, stop), (value, pairs) in stretches.items():
        if start == call and value + after[stop] == goal:
            return pairs, stop
    return None


def _blocks(slots: Sequence[Slot]) -> list[list[int]]:
    blocks: list[list[int]] = []
    for index, slot in enumerate(slots):
        if blocks and slot.group is not None and slots[blocks[-1][0]].group == slot.group:
            blocks[-1].append(index)
        else:
            blocks.append([index])
    return blocks


def _stretches(board: Board, worth: Worth, block: Sequence[int]) -> dict[tuple[int, int], tuple[int, Partners]]:
    """Return the best pairs of a group of slots with each stretch of calls that may be one step."""
    usable = {call for slot in block for call in board.ratios[slot]}
    partners: dict[tuple[int, int], tuple[int, Partners]] = {}
    for start in sorted(usable):
        step: int | None = None
        for stop in range(start + 1, len(board.called) + 1):
            here = board.steps[stop - 1]
            # Parallel calls stand in one step; a stretch ends where another step begins.
            if here is not None and step is not None and here != step:
                break
            step = here if step is None else step
            if stop - 1 in usable:
                parts = board.in_parts(block, range(start, stop))
                assigned = [_assigned(board, worth, members, reached) for members, reached in parts]
                pairs = {slot: call for _, part in assigned for slot, call in part.items()}
                partners[start, stop] = sum(value for value, _ in assigned), pairs
    return partners
