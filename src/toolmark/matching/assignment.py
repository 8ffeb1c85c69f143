"""Optimal one-to-one assignment, and which of several optimal ones is shown.

`assign` finds the cheapest assignment by shortest augmenting paths (Jonker & Volgenant 1987; Crouse 2016, "On
implementing 2D rectangular assignment algorithms"): rows are added one at a time along the cheapest alternating path,
found by Dijkstra's algorithm over reduced costs. Worst case O(rows^2 * columns); typically far less, since the dual
prices `u, v` left by one row shorten the next search. Costs are integers, so optimal means optimal, and a tie is a tie.

`smallest` then walks from one optimal assignment to the lexicographically smallest one. By complementary slackness the
optimal assignments are exactly those that use only *tight* edges (cost = u + v) and leave only columns of price 0 free,
so the walk needs no further optimisation: it swaps along alternating paths of tight edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub

Costs = Sequence[Sequence[int]]
"""Rows of costs; every row has the same length, at least the number of rows."""

_FREE = -1


def assign(costs: Costs) -> tuple[list[int], list[int], list[int]]:
    """Return the cheapest assignment of every row to a column of its own, with its prices.

    Args:
        costs: At least one row; no more rows than columns.

    Returns:
        The column of each row, the price of each row, and the price (<= 0) of each column. For all pairs
        `cost >= row price + column price`, with equality for the assigned ones; unassigned columns have price 0.
    """
    columns = len(costs[0])
    row_price = [min(row) for row in costs]
    column_price = [0] * columns
    column_of = [_FREE] * len(costs)
    row_of = [_FREE] * columns
    for row, values in enumerate(costs):  # rows whose cheapest column is still free are served at once
        column = values.index(row_price[row])
        if row_of[column] == _FREE:
            row_of[column], column_of[row] = row, column
    # The cheap steps first: an augmentation looks at every row on its way.
    _reduce(costs, row_price, column_price, column_of, row_of)
    for row, column in enumerate(column_of):
        if column == _FREE:
            _augment(costs, row, row_price, column_price, column_of, row_of)
    return column_of, row_price, column_price


_REDUCTIONS = 2
"""Steps of the reduction for each row; rows that are still free then are augmented."""


def _reduce(
    costs: Costs, row_price: list[int], column_price: list[int], column_of: list[int], row_of: list[int]
) -> None:
    """Let free rows take their cheapest column from its holder, as long as that is worth it.

    The column's price falls by what the second cheapest column would cost more, so that it stays as good a choice for
    the row as that one. A step takes one look at a row; an alternating path takes one at every row on its way.
    """
    free = [row for row, column in enumerate(column_of) if column == _FREE]
    if len(column_price) == 1:
        return
    for _ in range(_REDUCTIONS * len(costs)):
        if not free:
            return
        row = free.pop()
        reduced = list(map(sub, costs[row], column_price))
        lowest = min(reduced)
        column = reduced.index(lowest)
        reduced[column] = max(reduced) + 1
        second = min(reduced)
        holder = row_of[column]
        # Two equally cheap columns: without a price to change, the rows would swap for ever.
        if holder != _FREE and lowest == second:
            continue  # taking it would only move the conflict
        column_price[column] -= second - lowest
        row_price[row] = second
        row_of[column], column_of[row] = row, column
        if holder != _FREE:
            column_of[holder] = _FREE
            free.append(holder)


def _augment(
    costs: Costs, start: int, row_price: list[int], column_price: list[int], column_of: list[int], row_of: list[int]
) -> None:
    """Give `start` a column by the cheapest alternating path, and adjust the prices so that they stay optimal."""
    columns = len(column_price)
    open_columns = list(range(columns))
    came_from = [start] * columns
    base = row_price[start]
    distance = [cost - base - price for cost, price in zip(costs[start], column_price, strict=True)]
    settled: list[tuple[int, int]] = []  # (column, its distance), in the order reached
    while True:
        # Dijkstra's step: no later path can reach this column more cheaply, since reduced costs are not negative.
        column = min(open_columns, key=distance.__getitem__)
        reached = distance[column]
        row = row_of[column]
        if row == _FREE:
            break
        open_columns.remove(column)
        settled.append((column, reached))
        values = costs[row]
        base = row_price[row] - reached
        for other in open_columns:
            through = values[other] - base - column_price[other]
            if through < distance[other]:
                distance[other] = through
                came_from[other] = row
    row_price[start] += reached
    # The prices of the tree change so that its pairs stay tight; all others stay at least as dear.
    for settled_column, at in settled:
        column_price[settled_column] -= reached - at
        row_price[row_of[settled_column]] += reached - at
    while True:
        row = came_from[column]
        row_of[column] = row
        column_of[row], column = column, column_of[row]
        if row == start:
            return


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
        partner: An optimal assignment: for each left node its right node, or -1. Changed in place.
        tight: For each left node, ascending, the right nodes it may have in an optimal assignment.
        may_free_left: Left nodes that some optimal assignment may leave free (empty where none is free).
        may_free_right: The same of right nodes. Not both sides have free nodes.
        right_size: Number of right nodes.
    """
    return _Walk(partner, tight, may_free_left, may_free_right, right_size).run()


class _Walk:
    """The state of `smallest`. Left node -1 stands for whoever holds the free right nodes, right node -1 for 'free'."""

    def __init__(
        self, partner: list[int], tight: list[list[int]], may_free_left: set[int], may_free_right: set[int], right: int
    ) -> None:
        self.partner = partner
        self.tight = tight
        self.may_free_left = may_free_left
        self.may_free_right = may_free_right
        self.holder = [_FREE] * right
        for left, node in enumerate(partner):
            if node != _FREE:
                self.holder[node] = left
        self.reverse: list[list[int]] = [[] for _ in range(right)]
        for left, nodes in enumerate(tight):
            for node in nodes:
                self.reverse[node].append(left)

    def run(self) -> list[int]:
        for left, nodes in enumerate(self.tight):
            now = self.partner[left]
            candidates = [
                node
                for node in nodes
                # A right node held by an earlier left node is decided.
                if (now == _FREE or node < now) and (self.holder[node] == _FREE or self.holder[node] > left)
            ]
            if candidates:
                self._improve(left, now, candidates)
        return self.partner

    def _improve(self, left: int, target: int, candidates: list[int]) -> None:
        """Move `left` to the first of `candidates` whose holder can be moved on, in the end to `target`."""
        moves_to, leaves_free = self._who_can_move(left, target)
        for node in candidates:
            mover = self.holder[node]
            if mover not in moves_to:
                continue
            self.partner[left], self.holder[node] = node, left
            while True:
                place = moves_to[mover]
                if mover != _FREE:
                    self.partner[mover] = place
                next_mover = leaves_free
                if place != _FREE:
                    next_mover, self.holder[place] = self.holder[place], mover
                if place == target:
                    return
                mover = next_mover

    def _who_can_move(self, left: int, target: int) -> tuple[dict[int, int], int]:
        """Search backwards from `target`: where each left node that can be moved goes, and who then leaves 'free'."""
        moves_to: dict[int, int] = {}
        leaves_free = _FREE
        places = [target]
        visited = {target}
        while places:
            place = places.pop()
            for mover in self._candidates(place, left):
                if mover in moves_to:
                    continue
                moves_to[mover] = place
                holdings = self._holdings(mover)
                if holdings == [_FREE] and _FREE not in visited:
                    leaves_free = mover
                for node in holdings:
                    if node not in visited:
                        visited.add(node)
                        places.append(node)
        return moves_to, leaves_free

    def _candidates(self, place: int, left: int) -> list[int]:
        if place == _FREE:
            return [node for node in self.may_free_left if node > left and self.partner[node] != _FREE]
        movers = [node for node in self.reverse[place] if node > left and self.partner[node] != place]
        if place in self.may_free_right and self.holder[place] != _FREE:
            movers.append(_FREE)
        return movers

    def _holdings(self, mover: int) -> list[int]:
        if mover != _FREE:
            return [self.partner[mover]]
        return [node for node, holder in enumerate(self.holder) if holder == _FREE]
