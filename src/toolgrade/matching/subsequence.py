"""Maximum-weight common subsequence of expected and called calls: pairs that do not cross."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import lcm
from typing import Final, TypeAlias

from toolgrade.matching.argument_pattern import ONE
from toolgrade.matching.call_similarity import Comparison
from toolgrade.matching.name_group import Pairs, Weights, equal_pairs, reduced

_Cells: TypeAlias = "dict[int, tuple[list[int], Sequence[int], int]]"
"""For each expected call, the called ones of its name, and its similarities with them as multiples of 1 / unit."""

_INT64: Final = 1 << 62
"""Sums below this fit machine integers."""


def pairs_in_order(sides: Comparison) -> Pairs:
    """Return the maximum-weight common subsequence.

    Equal calls at the beginning are paired at once: no pair weighs more, and nothing crosses them.
    """
    expected, called = range(len(sides.expected)), range(len(sides.called))
    equal: dict[int, int] = {}
    most = 0
    for left, right in sides.by_name(expected, called):
        equal.update(equal_pairs(sides, left, right)[0])
        most += min(len(left), len(right))
    partners = [equal[e] for e in sorted(equal)]
    # No alignment has more pairs than the names allow, and none weighs more than equal ones.
    if len(equal) == most and partners == sorted(partners):
        return dict.fromkeys(equal.items(), ONE)
    # Only the beginning is cut off: the end of the lists may have to move to let more pairs in.
    start = 0
    while equal.get(start) == start:
        start += 1
    pairs = {(index, index): ONE for index in range(start)}
    if start < len(expected) and start < len(called):
        pairs.update(_subsequence(sides, expected[start:], called[start:], equal))
    return pairs


def _subsequence(sides: Comparison, expected: range, called: range, equal: dict[int, int]) -> Pairs:
    """Return the best subsequence, by sparse dynamic programming over the pairs of equal name.

    The value of a pair is its own weight plus the greatest value of a pair that lies after it on both sides. From the
    last expected call to the first, `_Staircase` answers that question for every column, in O(log n) a pair. The first
    pair of the answer is the first one that has the greatest value of all, and so on.
    """
    cells: _Cells = {}
    for left, right in sides.by_name(expected, called):
        rows, unit = sides.matrix(left, right)
        cells.update((e, (right, row, unit)) for e, row in zip(left, rows, strict=True))
    weights = Weights(
        lcm(*{unit for _, _, unit in cells.values()}),
        pairs=min(len(expected), len(called)),
        size=max(expected.stop, called.stop),
        equal=equal,
    )
    # Sums must fit too, not only single weights.
    compact = weights.greatest * min(len(expected), len(called)) < _INT64
    after = _Staircase()
    values: dict[int, Sequence[int]] = {}
    # From the end, so that the choice at each call already knows the best of what follows.
    for e in sorted(cells, reverse=True):
        columns = cells[e][0]
        row = [weight + after.at(c + 1) for c, weight in zip(columns, weights.row(e, *cells[e]), strict=True)]
        values[e] = array("q", row) if compact else row
        # The row is added after it was computed: two pairs of one expected call exclude each other.
        for c, value in zip(columns, row, strict=True):
            after.raise_to(c, value)
    return _first_pairs(cells, values, weights, after.at(called.start), called.start)


def _first_pairs(cells: _Cells, values: Mapping[int, Sequence[int]], weights: Weights, goal: int, column: int) -> Pairs:
    """Return the pairs behind the greatest value: each is the first from which the rest of it can be reached."""
    pairs: Pairs = {}
    for e in sorted(cells):
        columns, similarities, unit = cells[e]
        for c, similarity, value in zip(columns, similarities, values[e], strict=True):
            if value == goal and c >= column:
                pairs[e, c] = reduced(similarity, unit)
                goal, column = goal - weights.row(e, [c], [similarity], unit)[0], c + 1
                break
    return pairs


class _Staircase:
    """A function of the column that never rises to the right: the greatest value at that column or beyond."""

    def __init__(self) -> None:
        self.columns: list[int] = []
        self.values: list[int] = []

    def at(self, column: int) -> int:
        """Return the greatest value at this column or beyond; 0 if there is none."""
        index = bisect_left(self.columns, column)
        return self.values[index] if index < len(self.values) else 0

    def raise_to(self, column: int, value: int) -> None:
        """Let the function be at least this value up to this column."""
        columns, values = self.columns, self.values
        stop = bisect_left(columns, column)
        if stop < len(columns):
            if values[stop] >= value:
                return
            if columns[stop] == column:
                stop += 1
        start = stop
        while start and values[start - 1] <= value:
            start -= 1
        columns[start:stop] = [column]
        values[start:stop] = [value]
