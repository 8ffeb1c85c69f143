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
from itertools import accumulate
from math import lcm
from typing import NamedTuple

from toolmark._internal.budget import current_budget
from toolmark.matching.alignment import Item
from toolmark.matching.argument_pattern import ONE, Ratio, ValuePattern
from toolmark.matching.assignment import best_partners
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


_WHAT = "a plan with these calls"
_STEPS = 4
"""Steps of one comparison of an expected call with a called one."""
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
                if call not in ratios or ratio[0] * ratios[call][1] > ratios[call][0] * ratio[1]:
                    ratios[call], best[call] = ratio, number
        return _Compared(ratios, {call: ratio for call, ratio in ratios.items() if ratio[0]}, best)

    def pattern_at(self, slot: int, call: int) -> int:
        """Return which want of a slot a call fits best, as its position among those of all slots."""
        return self._first[slot] + self._best[slot][call]

    def in_parts(self, slots: Iterable[int], calls: Iterable[int]) -> list[tuple[list[int], list[int]]]:
        """Return the connected parts of who can take whom among these slots and calls."""
        # Separate parts are solved separately: the assignment is cubic in the size of a part.
        usable = set(calls)
        reach = {slot: [call for call in self.ratios[slot] if call in usable] for slot in slots}
        roots = _Roots()
        for partners in reach.values():
            roots.join(partners)
        parts: dict[int, tuple[list[int], set[int]]] = {}
        self._budget.spend(sum(map(len, reach.values())) // _CHEAP, _WHAT)
        for slot, partners in reach.items():
            if partners:
                members, reached = parts.setdefault(roots.of(partners[0]), ([], set()))
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

    def join(self, calls: Sequence[int]) -> None:
        """Join the sets of calls."""
        for call in calls[1:]:
            self.parent[self.of(call)] = self.of(calls[0])


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
    current_budget().spend(_STEPS + len(members) * len(reached), _WHAT)
    # One more column for each slot, at which it stays alone for nothing.
    edges = [
        [
            *((at, -worth.of(slot, call)) for at, call in enumerate(reached) if call in board.ratios[slot]),
            (len(reached) + number, 0),
        ]
        for number, slot in enumerate(members)
    ]
    chosen = best_partners(edges, len(reached) + len(members))
    pairs = {slot: reached[at] for slot, at in zip(members, chosen, strict=True) if at < len(reached)}
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
        end = _step_end(board.steps, start)
        most = _best_of_stretch(board, worth, block, range(start, end))[0]
        for stop in range(start + 1, end + 1):
            if stop - 1 in usable:
                partners[start, stop] = _best_of_stretch(board, worth, block, range(start, stop))
                if partners[start, stop][0] == most:
                    break  # a longer stretch leaves fewer calls to the next blocks, and is worth no more
    return partners


def _step_end(steps: Sequence[int | None], start: int) -> int:
    """Return where another step begins than that of the calls from `start` on; unknown steps may be any."""
    step: int | None = None
    for call in range(start, len(steps)):
        if None not in (step, steps[call]) and step != steps[call]:
            return call
        step = steps[call] if step is None else step
    return len(steps)


def _best_of_stretch(board: Board, worth: Worth, block: Sequence[int], calls: range) -> tuple[int, Partners]:
    """Return the weight and the pairs of a group of slots with a stretch of calls."""
    assigned = [_assigned(board, worth, members, reached) for members, reached in board.in_parts(block, calls)]
    return sum(value for value, _ in assigned), {slot: call for _, part in assigned for slot, call in part.items()}
