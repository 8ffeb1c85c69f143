"""Pairs of the expected and called calls of one name, in any order.

Equal calls are paired first where that loses no weight; see `align_calls`. The others are assigned: a few calls with
all aims as one number for each pair, many on packed rows with one aim after the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Sequence
from functools import cached_property
from math import gcd
from typing import TypeAlias

from toolgrade.matching.argument_pattern import ONE, Ratio
from toolgrade.matching.assignment import best_partners, heaviest_partners, smallest_partners
from toolgrade.matching.call_similarity import Comparison, ExactValues
from toolgrade.matching.json_compare import frozen, json_equal
from toolgrade.matching.packed_assignment import PackedAssignment, greatest_price
from toolgrade.matching.packed_rows import Lanes

Pairs: TypeAlias = "dict[tuple[int, int], Ratio]"
"""Pairs of positions with their similarity."""

_FEW_PAIRS = 2048
"""Pairs up to which values are compared with each other."""
_PACKED_FROM = 24
"""Calls on each side from which their rows are packed."""
_DENSE = 32
"""Optimal pairs for each call from which distances are optimized on packed rows, too."""


def pairs_of_name(sides: Comparison, left: list[int], right: list[int]) -> Pairs:
    """Return the best pairs of the calls of one name at these positions."""
    if len(left) == 1 == len(right):
        e, c = left[0], right[0]
        return {(e, c): ONE if sides.surely_equal(e, c) else sides.ratio(e, c)}
    equal, is_complete = equal_pairs(sides, left, right)
    if not is_complete:
        return _assigned(sides, left, right, equal)
    # The triangle inequality: taking the equal pairs out loses no weight.
    pairs = dict.fromkeys(equal.items(), ONE)
    if len(equal) < len(left) and len(equal) < len(right):
        paired = set(equal.values())
        rest = [e for e in left if e not in equal], [c for c in right if c not in paired]
        pairs.update(_assigned(sides, *rest, {}))
    return pairs


def equal_pairs(sides: Comparison, left: Sequence[int], right: Sequence[int]) -> tuple[dict[int, int], bool]:
    """Return the partners of equal calls, and whether they may be paired before all others.

    The k-th of several equal expected calls gets the k-th called one.
    """
    values = sides.exact_values(left, right)
    partners: dict[int, int] | None = None
    # A few values are compared with each other sooner than a key of each is made.
    if len(left) * len(right) <= _FEW_PAIRS and not sides.may_hold_nan:
        partners = _equal_values(sides, left, right, values)
    if partners is None:
        partners = _equal_keys(left, right, values)
    return partners, values.complete


def _equal_values(
    sides: Comparison, left: Sequence[int], right: Sequence[int], values: ExactValues
) -> dict[int, int] | None:
    """Return the partners of equal calls like `equal_pairs`; `None` if Python takes unequal JSON values for equal."""
    partners: dict[int, int] = {}
    positions, others = list(right), list(values.called)
    for e, value in zip(left, values.expected, strict=True):
        if value is None or value not in others:
            continue
        # Python's equality is that of JSON values, but for NaN, and for booleans that equal numbers.
        index = others.index(value)
        if not sides.surely_equal(e, positions[index]) and not json_equal(value, others[index]):
            return None
        partners[e] = positions.pop(index)
        del others[index]
    return partners


def _equal_keys(left: Sequence[int], right: Sequence[int], values: ExactValues) -> dict[int, int]:
    """Return the partners of equal calls like `equal_pairs`, by keys."""
    waiting: dict[Hashable, deque[int]] = {}
    for c, value in zip(right, values.called, strict=True):
        if value is not None:
            waiting.setdefault(frozen(value), deque()).append(c)
    partners: dict[int, int] = {}
    for e, value in zip(left, values.expected, strict=True):
        queue = None if value is None else waiting.get(frozen(value))
        if queue:
            partners[e] = queue.popleft()
    return partners


class Weights:
    """The weight of a pair: similarity, equal pair, number of pairs and nearness as one integer, in that order.

    With k pairs at most and positions below `size`, distances add up to less than `per_pair`, pairs to less than
    `per_equal`, and equal pairs to less than the smallest difference between two sums of similarities.
    """

    def __init__(self, unit: int, *, pairs: int, size: int, equal: dict[int, int]) -> None:
        self.unit = unit
        self.per_pair = pairs * size + 1
        self.per_equal = self.per_pair * (pairs + 1) if equal else 0
        self.whole = unit * (self.per_equal or self.per_pair) * (pairs + 1)
        self.equal = equal
        self.greatest = self.whole + self.per_equal + self.per_pair

    def row(self, e: int, columns: Sequence[int], similarities: Sequence[int], unit: int) -> list[int]:
        """Return the weights of the pairs of one expected call; always more than 0."""
        factor, per_pair = self.whole // unit, self.per_pair
        weights = [factor * value + per_pair - abs(e - c) for c, value in zip(columns, similarities, strict=True)]
        # Only the k-th with the k-th counts as equal; other equal calls are ordinary pairs of similarity 1.
        if self.equal:
            partner = self.equal.get(e)
            if partner is not None and partner in columns:
                weights[columns.index(partner)] += self.per_equal
        return weights


def reduced(numerator: int, denominator: int) -> Ratio:
    """Return a similarity in its lowest terms."""
    shared = gcd(numerator, denominator)
    return numerator // shared, denominator // shared


def _assigned(sides: Comparison, left: list[int], right: list[int], equal: dict[int, int]) -> Pairs:
    """Return the optimal assignment of calls of one name."""
    if len(left) == 1 == len(right):
        return {(left[0], right[0]): sides.ratio(left[0], right[0])}
    if min(len(left), len(right)) >= _PACKED_FROM:
        return _assigned_packed(sides, left, right, equal)
    matrix, unit = sides.matrix(left, right)
    weights = Weights(unit, pairs=min(len(left), len(right)), size=max(left[-1], right[-1]) + 1, equal=equal)
    rows: Sequence[Sequence[int]] = [weights.row(e, right, row, unit) for e, row in zip(left, matrix, strict=True)]
    is_turned = len(left) > len(right)
    if is_turned:
        rows = list(zip(*rows, strict=True))
    partner = heaviest_partners(rows, max(len(left), len(right)), is_turned=is_turned)
    return {(left[i], right[j]): reduced(matrix[i][j], unit) for i, j in enumerate(partner) if j >= 0}


def _assigned_packed(sides: Comparison, left: list[int], right: list[int], equal: dict[int, int]) -> Pairs:
    """Return the optimal assignment of many calls of one name."""
    matrix = sides.packed_matrix(left, right)
    group = _PackedGroup(left, right, PackedAssignment(matrix.lanes))
    group.assignment.maximize(matrix.rows, matrix.unit)
    if equal:
        group.maximize_equal_pairs(equal)
    pairs: Pairs = {}
    for e, j in zip(left, group.nearest_partners(), strict=True):
        if j >= 0:
            pairs[e, right[j]] = sides.ratio(e, right[j])
    return pairs


class _PackedGroup:
    """Many calls of one name, with the smaller side as rows of an assignment."""

    def __init__(self, left: list[int], right: list[int], assignment: PackedAssignment) -> None:
        self.assignment = assignment
        self.is_turned = len(left) > len(right)
        self.rows, self.columns = (right, left) if self.is_turned else (left, right)
        self.size = max(left[-1], right[-1])

    def maximize_equal_pairs(self, equal: dict[int, int]) -> None:
        """Keep only assignments with the most equal pairs."""
        column_at = {position: column for column, position in enumerate(self.columns)}
        partners = {c: e for e, c in equal.items()} if self.is_turned else equal
        lanes = self._lanes(1)
        equal_columns = [[column_at[partners[row]]] if row in partners else [] for row in self.rows]
        self.assignment.maximize(list(map(lanes.ones_at, equal_columns)), 1)

    def nearest_partners(self) -> list[int]:
        """Return the index of the partner of each expected call in the assignment of the nearest positions, or -1."""
        # Few pairs are usually left, and their distances are optimized pair by pair; many ties are packed again.
        is_dense = sum(map(int.bit_count, self.assignment.allowed)) > _DENSE * len(self.columns)
        if is_dense:
            lanes = self._lanes(self.size)
            self.assignment.maximize([self._nearness(row, lanes) for row in self.rows], self.size)
            column_of = self.assignment.column_of[: len(self.rows)]
            return smallest_partners(
                column_of, self._tight, self._may_be_free, len(self.columns), is_turned=self.is_turned
            )
        return best_partners(self._edges(), len(self.columns), is_turned=self.is_turned)

    def _lanes(self, most: int) -> Lanes:
        """Return the lanes for a further aim, now those of the assignment."""
        lanes = Lanes(len(self.columns), greatest_price(most, len(self.columns)))
        self.assignment.use(lanes)
        return lanes

    @property
    def _tight(self) -> list[list[int]]:
        """The columns that each row may have."""
        return list(map(self.assignment.lanes.columns, self.assignment.allowed[: len(self.rows)]))

    @property
    def _may_be_free(self) -> set[int]:
        """The columns that may be free: those of the last row, if there are more columns than rows of calls."""
        return set(self.assignment.lanes.columns(self.assignment.allowed[-1]))

    def _edges(self) -> list[list[tuple[int, int]]]:
        """Return the pairs that are left, with their distances as costs."""
        may_be_free, columns = self._may_be_free, self.columns
        # Columns that no optimal assignment leaves free must not become free for the sake of distances.
        bonus = len(self.rows) * self.size + 1
        bonuses = [0 if column in may_be_free else bonus for column in range(len(columns))]
        return [
            [(column, abs(row - columns[column]) - bonuses[column]) for column in tight]
            for row, tight in zip(self.rows, self._tight, strict=True)
        ]

    @cached_property
    def _packed_columns(self) -> int:
        """The positions of the columns as a packed row."""
        return self.assignment.lanes.packed(self.columns)

    def _nearness(self, row: int, lanes: Lanes) -> int:
        """Return the packed row of `size` minus the distances of the columns from a position."""
        # Distances to positions before, and to those from there on, so that no lane is negative.
        before = bisect_left(self.columns, row) * lanes.bits
        mask = (1 << before) - 1
        ones = lanes.ones * row
        near = (ones & mask) - (self._packed_columns & mask)
        far = (self._packed_columns >> before) - (ones >> before)
        return lanes.ones * self.size - near - (far << before)
