"""Optimal one-to-one assignment, and which of several optimal ones is shown.

`assign` finds the cheapest assignment by shortest augmenting paths (Jonker & Volgenant 1987; Crouse 2016, "On
implementing 2D rectangular assignment algorithms"): rows are added one at a time along the cheapest alternating path,
found by Dijkstra's algorithm over reduced costs. The dual prices `u, v` left by one row shorten the next search. Costs
are integers, so optimal means optimal, and a tie is a tie.

`smallest` then walks from one optimal assignment to the lexicographically smallest one. By complementary slackness the
optimal assignments are exactly those that use only *tight* edges (cost = u + v) and leave only columns of price 0 free,
so the walk needs no further optimisation: it swaps along alternating paths of tight edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from operator import itemgetter
from typing import NamedTuple

Edges = Sequence[Sequence[tuple[int, int]]]
"""For each row, the columns that it can have with their costs."""

_FREE = -1


def heaviest_partners(weights: Sequence[Sequence[int]], width: int, *, is_turned: bool = False) -> list[int]:
    """Return the partners like `best_partners`, by the weights of rows that can have every column."""
    columns = _single_heaviest(weights)
    # Rows with one heaviest column each, no two the same, have the only heaviest assignment.
    if len(set(columns)) < len(weights):
        edges = [[(column, -weight) for column, weight in enumerate(row)] for row in weights]
        return best_partners(edges, width, is_turned=is_turned)
    if not is_turned:
        return columns
    row_of = {column: row for row, column in enumerate(columns)}
    return [row_of.get(column, _FREE) for column in range(width)]


def _single_heaviest(weights: Sequence[Sequence[int]]) -> list[int]:
    """Return the heaviest column of each row that has only one."""
    columns: list[int] = []
    for row in weights:
        greatest = max(row)
        if row.count(greatest) == 1:
            columns.append(row.index(greatest))
    return columns


def best_partners(edges: Edges, width: int, *, is_turned: bool = False) -> list[int]:
    """Return the partners in the lexicographically smallest cheapest assignment.

    Args:
        edges: The edges of each row; an assignment of all rows exists.
        width: The number of columns.
        is_turned: Compare assignments as lists of columns with their rows.

    Returns:
        The column of each row; if `is_turned`, the row of each column, or -1.
    """
    column_of, row_price, column_price = assign(edges, width)
    tight = [
        [column for column, cost in row if cost == price + column_price[column]]
        for row, price in zip(edges, row_price, strict=True)
    ]
    may_be_free = {column for column, price in enumerate(column_price) if price == 0}
    return smallest_partners(column_of, tight, may_be_free, width, is_turned=is_turned)


def assign(edges: Edges, width: int) -> tuple[list[int], list[int], list[int]]:
    """Return the cheapest assignment of every row to a column of its own, with its prices.

    Args:
        edges: The edges of each row; an assignment of all rows exists.
        width: The number of columns.

    Returns:
        The column of each row, the price of each row, and the price (<= 0) of each column. For all edges
        `cost >= row price + column price`, with equality for the assigned ones; unassigned columns have price 0.
    """
    prices = _Prices(edges, width)
    prices.reduce()
    # The cheap steps came first: an augmentation looks at every row on its way.
    for row, column in enumerate(prices.column_of):
        if column == _FREE:
            prices.augment(row)
    return prices.column_of, prices.row_price, prices.column_price


_REDUCTIONS = 2
"""Steps of the reduction for each row; rows that are still free then are augmented."""


class _Path(NamedTuple):
    """An alternating path to a free column, and the search that led to it.

    Attributes:
        column: The free column.
        length: The length of the path, in reduced costs.
        came_from: The row from which each column was reached.
        settled: The distance of each column on the way; all have rows.
    """

    column: int
    length: int
    came_from: dict[int, int]
    settled: dict[int, int]


class _Prices:
    """An assignment of some rows, with the prices that prove it cheapest."""

    def __init__(self, edges: Edges, width: int) -> None:
        """Serve rows whose cheapest column is still free."""
        self.edges = edges
        self.row_price: list[int] = []
        self.column_price = [0] * width
        self.column_of = [_FREE] * len(edges)
        self.row_of = [_FREE] * width
        for row, row_edges in enumerate(edges):
            column, lowest = min(row_edges, key=itemgetter(1))
            self.row_price.append(lowest)
            if self.row_of[column] == _FREE:
                self.row_of[column], self.column_of[row] = row, column

    def reduce(self) -> None:
        """Let free rows take their cheapest column from its holder, as long as that is worth it.

        The column's price falls by what the second cheapest column would cost more, so that it stays as good a choice
        for the row as that one. A step takes one look at a row; an alternating path takes one at every row on its way.
        """
        free = [row for row, column in enumerate(self.column_of) if column == _FREE and len(self.edges[row]) > 1]
        row_of, column_of, column_price = self.row_of, self.column_of, self.column_price
        for _ in range(_REDUCTIONS * len(column_of)):
            if not free:
                return
            row = free.pop()
            (lowest, column), (second, _) = sorted((cost - column_price[at], at) for at, cost in self.edges[row])[:2]
            holder = row_of[column]
            # Two equally cheap columns: without a price to change, the rows would swap for ever.
            if holder != _FREE and lowest == second:
                continue
            column_price[column] -= second - lowest
            self.row_price[row] = second
            row_of[column], column_of[row] = row, column
            if holder != _FREE:
                column_of[holder] = _FREE
                if len(self.edges[holder]) > 1:
                    free.append(holder)

    def augment(self, start: int) -> None:
        """Give `start` a column by the cheapest alternating path, and adjust the prices so that they stay optimal."""
        path = self._cheapest_path(start)
        # The prices of the tree change so that its edges stay tight; all others stay at least as dear.
        self.row_price[start] += path.length
        for other, distance in path.settled.items():
            self.column_price[other] -= path.length - distance
            self.row_price[self.row_of[other]] += path.length - distance
        row, column = _FREE, path.column
        while row != start:
            row = path.came_from[column]
            self.row_of[column] = row
            self.column_of[row], column = column, self.column_of[row]

    def _cheapest_path(self, start: int) -> _Path:
        """Return the cheapest alternating path from a row to a free column."""
        column_price = self.column_price
        distances: dict[int, int] = {}
        came_from: dict[int, int] = {}
        queue: list[tuple[int, int]] = []
        settled: dict[int, int] = {}
        row, reached = start, 0
        # Dijkstra's algorithm: reduced costs are not negative.
        while True:
            base = reached - self.row_price[row]
            for column, cost in self.edges[row]:
                distance = base + cost - column_price[column]
                if distance < distances.get(column, inf):
                    distances[column] = distance
                    came_from[column] = row
                    heappush(queue, (distance, column))
            reached, column = heappop(queue)
            while column in settled:
                reached, column = heappop(queue)
            row = self.row_of[column]
            if row == _FREE:
                return _Path(column, reached, came_from, settled)
            settled[column] = reached


def smallest_partners(
    column_of: list[int], tight: list[list[int]], may_be_free: set[int], width: int, *, is_turned: bool
) -> list[int]:
    """Return the partners in the lexicographically smallest optimal assignment, like `best_partners`.

    Args:
        column_of: The column of each row in an optimal assignment.
        tight: For each row, ascending, the columns that it has in some optimal assignments.
        may_be_free: Columns that some optimal assignments leave free.
        width: The number of columns.
        is_turned: Compare assignments as lists of columns with their rows.
    """
    if not is_turned:
        return smallest(column_of, tight, may_free_left=set(), may_free_right=may_be_free, right_size=width)
    partner = [_FREE] * width
    rows_of: list[list[int]] = [[] for _ in range(width)]
    for row, column in enumerate(column_of):
        partner[column] = row
        for other in tight[row]:
            rows_of[other].append(row)
    return smallest(partner, rows_of, may_free_left=may_be_free, may_free_right=set(), right_size=len(tight))


def smallest(
    partner: list[int],
    tight: list[list[int]],
    *,
    may_free_left: set[int],
    may_free_right: set[int],
    right_size: int,
) -> list[int]:
    """Return the lexicographically smallest of all optimal assignments.

    Left nodes are decided in order; each takes the smallest right node that some optimal assignment, agreeing with all
    earlier decisions, gives it. Being assigned at all goes before staying free.

    Args:
        partner: An optimal assignment: for each left node its right node, or -1.
        tight: For each left node, ascending, the right nodes it may have in an optimal assignment.
        may_free_left: Left nodes that some optimal assignment may leave free (empty where none is free).
        may_free_right: The same of right nodes. Not both sides have free nodes.
        right_size: Number of right nodes.
    """
    # Free nodes get partners, too: further nodes behind all others.
    height = len(tight)
    free_right = sorted(set(range(right_size)).difference(partner))
    further = count(right_size)
    partner = [next(further) if node == _FREE else node for node in partner] + free_right
    takers = _takers(tight, right_size)
    for node in may_free_right:
        takers[node] |= (1 << len(free_right)) - 1 << height
    takers += [sum(1 << left for left in may_free_left)] * (next(further) - right_size)
    walk = _Walk(partner, takers)
    for left, nodes in enumerate(tight):
        walk.decide(left, nodes)
    return [node if node < right_size else _FREE for node in walk.partner[:height]]


def _takers(tight: list[list[int]], right_size: int) -> list[int]:
    """Return the mask of the left nodes that each right node may have."""
    takers = [0] * right_size
    for left, nodes in enumerate(tight):
        for node in nodes:
            takers[node] |= 1 << left
    return takers


class _Walk:
    """The state of `smallest`: the partner of each left node, the holder of each right node, and who may take it.

    `takers` has a bit for each left node that a right node may have.
    """

    def __init__(self, partner: list[int], takers: list[int]) -> None:
        self.partner = partner
        self.takers = takers
        self.holder = [_FREE] * len(partner)
        for left, node in enumerate(partner):
            self.holder[node] = left

    def decide(self, left: int, nodes: list[int]) -> None:
        """Move a left node to the first of its nodes that it can have; those of earlier left nodes are decided."""
        target = self.partner[left]
        candidates = [node for node in nodes if node < target and self.holder[node] > left]
        if not candidates:
            return
        moves_to = self._moves_to(target, left)
        for node in candidates:
            mover = self.holder[node]
            if mover in moves_to:
                self._place(left, node)
                while mover != left:
                    mover = self._place(mover, moves_to[mover])
                return

    def _place(self, left: int, node: int) -> int:
        """Give a left node another right node, and return who held that."""
        holder, self.holder[node] = self.holder[node], left
        self.partner[left] = node
        return holder

    def _moves_to(self, target: int, left: int) -> dict[int, int]:
        """Return where each left node behind `left` moves, if it is on a way to `target`, searched backwards."""
        moves_to: dict[int, int] = {}
        unvisited = -2 << left
        places = [target]
        while places:
            place = places.pop()
            movers = self.takers[place] & unvisited
            unvisited ^= movers
            while movers:
                mover = movers.bit_length() - 1
                movers ^= 1 << mover
                moves_to[mover] = place
                places.append(self.partner[mover])
        return moves_to
