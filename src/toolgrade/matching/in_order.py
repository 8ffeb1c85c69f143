"""The maximum-weight common subsequence of slots and calls: pairs that do not cross.

Dynamic programming over blocks and positions among the calls; a block is a slot, or a group of slots that are called in
one step, among which any order will do. A group takes its calls from a stretch of one step, by assignment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

from toolgrade._internal.budget import current_budget
from toolgrade.matching.alignment import Partners
from toolgrade.matching.any_order import Board, PairWeights, assigned
from toolgrade.matching.argument_pattern import ONE

_STEPS: Final = 4
"""Steps of one assignment of a group, beside its pairs."""


def in_order(board: Board) -> Partners:
    """Return the maximum-weight common subsequence, by the aims of `engine`.

    Of equally good ones, each slot in turn takes the first call that leaves the rest of the weight in reach. Equal
    calls at the beginning of lists are paired at once: no pair weighs more, and nothing crosses them.
    """
    slots = range(board.size)
    calls = range(len(board.called))
    equal: dict[int, int] = {}
    start = 0
    if not board.slots:
        most = 0
        for members, reached in board.parts(slots, calls):
            equal.update(board.sides.equal_pairs(members, reached)[0])
            most += min(len(members), len(reached))
        partners = [equal[slot] for slot in sorted(equal)]
        # No alignment has more pairs than the names allow, and none weighs more than equal ones.
        if len(equal) == most and partners == sorted(partners):
            return {slot: (call, ONE) for slot, call in equal.items()}
        while equal.get(start) == start:
            start += 1
    pairs: Partners = {slot: (slot, ONE) for slot in range(start)}
    if start < len(slots) and start < len(calls):
        pairs.update(_subsequence(board, slots[start:], calls[start:], equal))
    return pairs


def _subsequence(board: Board, slots: Sequence[int], calls: range, equal: dict[int, int]) -> Partners:
    """Return the best subsequence of the slots and calls from these on."""
    parts = board.parts(slots, calls)
    if not parts:
        return {}
    weights = PairWeights(board, parts, equal, any_order=False)
    blocks = [_Block(board, weights, block) for block in _blocks(board, slots)]
    best = [[0] * (calls.stop + 1)]
    for block in reversed(blocks):
        # A block may take no call at all, take a stretch of calls that begins here, or leave calls unused before it.
        after = best[-1]
        here = list(after)
        for start, stop, value in block.stretches():
            here[start] = max(here[start], value + after[stop])
        best.append([*accumulate(reversed(here), max)][::-1])
    partners: Partners = {}
    call = calls.start
    for block, (here, after) in zip(blocks, pairwise(reversed(best)), strict=True):
        for start, stop, value in block.stretches():
            if start >= call and value + after[stop] == here[call]:
                partners.update(block.pairs(start, stop))
                call = stop
                break
    return partners


def _blocks(board: Board, slots: Sequence[int]) -> list[list[int]]:
    blocks: list[list[int]] = []
    for index in slots:
        group = board.slots[index].group if board.slots else None
        if blocks and group is not None and board.slots[blocks[-1][0]].group == group:
            blocks[-1].append(index)
        else:
            blocks.append([index])
    return blocks


class _Block:
    """A slot, or a group of slots, and what it can take."""

    def __init__(self, board: Board, weights: PairWeights, slots: list[int]) -> None:
        self.weights = weights
        self.slots = [slot for slot in slots if slot in weights.calls]
        self._row = weights.row(self.slots[0]) if len(self.slots) == 1 else []
        self._of_group = list(self._group_stretches(board.steps)) if len(self.slots) > 1 else []

    def stretches(self) -> Iterable[tuple[int, int, int]]:
        """Return where each stretch of calls starts and stops that the block can take, and the weight of its pairs."""
        if len(self.slots) != 1:
            return self._of_group
        row = zip(self.weights.calls[self.slots[0]], self._row, strict=True)
        return ((call, call + 1, weight) for call, weight in row if weight)

    def _group_stretches(self, steps: Sequence[int | None]) -> Iterator[tuple[int, int, int]]:
        usable = set[int]().union(*(self.weights.calls[slot] for slot in self.slots))
        for start in sorted(usable):
            end = _step_end(steps, start)
            most = self._value(start, end)
            for stop in range(start + 1, end + 1):
                if stop - 1 in usable:
                    value = self._value(start, stop)
                    yield start, stop, value
                    if value == most:
                        break  # a longer stretch leaves fewer calls to the next blocks, and is worth no more

    def pairs(self, start: int, stop: int) -> Partners:
        """Return the best pairs with a stretch of calls."""
        if len(self.slots) == 1 == stop - start:
            return {self.slots[0]: (start, self.weights.ratio(self.slots[0], start))}
        return assigned(self.weights, self.slots, range(start, stop))

    def _value(self, start: int, stop: int) -> int:
        calls = range(start, stop)
        current_budget().spend(_STEPS + len(self.slots) * len(calls), "a plan with these calls")
        pairs = self.pairs(start, stop)
        return sum(self.weights.within(slot, calls)[call - start] for slot, (call, _) in pairs.items())


def _step_end(steps: Sequence[int | None], start: int) -> int:
    """Return where another step begins than that of the calls from `start` on; unknown steps may be any."""
    own = None
    for call, step in enumerate(steps[start:], start):
        if own is None:
            own = step
        elif step not in (None, own):
            return call
    return len(steps)
