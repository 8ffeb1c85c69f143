"""Cheapest one-to-one assignment of rows to columns.

Method: shortest augmenting paths (Jonker & Volgenant 1987; Crouse 2016, "On implementing 2D rectangular assignment
algorithms"). Rows first take their cheapest column, and compete by prices for those that several want; each row that
stays free is then added along the cheapest alternating path. Costs are integers, so a tie is a tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import combinations
from math import inf
from operator import sub

_FREE = -1
_REDUCTIONS = 2
"""Steps of the competition for each row; rows that are still free are then added one by one."""


def cheapest(costs: Sequence[Sequence[int]], left: Sequence[int], right: Sequence[int]) -> list[int]:
    """Return the column of each row in a cheapest assignment of the shorter side; -1 for rows without a column.

    Of the cheapest ones it is one of the smallest sum of distances. Of two pairs whose columns can be exchanged without
    loss, the first row has the first column.

    Args:
        costs: The cost of each row and column; at least one of each. A pair of cost 0 has no distance.
        left: The position of each row.
        right: The position of each column.
    """
    if len(costs) > len(costs[0]):
        rows = cheapest(list(zip(*costs, strict=True)), right, left)
        columns = [_FREE] * len(costs)
        for column, row in enumerate(rows):
            columns[row] = column
        return columns
    first = _Assignment(costs)
    columns = first.columns
    distances = first.tight_distances(left, right)
    if distances:
        columns = _Assignment(distances).columns
        for one, other in combinations(range(len(columns)), 2):
            before, after = columns[other], columns[one]
            if before < after and (
                distances[one][after] + distances[other][before] == distances[one][before] + distances[other][after]
            ):
                columns[one], columns[other] = before, after
    return columns


class _Assignment:
    """The cheapest assignment of at least as many columns as rows.

    Attributes:
        columns: The column of each row.
        rows: The row of each column.
        prices: The price (<= 0) of each column: each row has a column of least cost minus price, and free columns have
            price 0. This proves that the assignment is the cheapest.
    """

    def __init__(self, costs: Sequence[Sequence[int]]) -> None:
        self.costs = costs
        self.columns = [_FREE] * len(costs)
        self.rows = [_FREE] * len(costs[0])
        self.prices = [0] * len(costs[0])
        free: list[int] = []
        for row, row_costs in enumerate(costs):
            column = row_costs.index(min(row_costs))
            if self.rows[column] == _FREE:
                self._pair(row, column)
            else:
                free.append(row)
        for row in self._compete(free):
            self._augment(row)

    def tight_distances(self, left: Sequence[int], right: Sequence[int]) -> list[list[int]]:
        """Return distances as costs by which only cheapest assignments are compared; empty if there is one alone.

        By complementary slackness these are the assignments of tight pairs, whose costs are the prices of row and
        column, in which no column with a price below 0 is free. One number for both aims would do, too, but ties then
        make alternating paths long.
        """
        reduced = [list(map(sub, row_costs, self.prices)) for row_costs in self.costs]
        least = [row_costs[column] for row_costs, column in zip(reduced, self.columns, strict=True)]
        if all(row_costs.count(cost) == 1 for row_costs, cost in zip(reduced, least, strict=True)):
            return []
        most = len(least) * (max(left[-1], right[-1]) + 1)
        has_free = len(left) < len(right)
        bonuses = [most if price and has_free else 0 for price in self.prices]
        forbidden = 2 * most * len(least)
        return [
            [
                forbidden if value != tight else (abs(position - other) if cost else 0) - bonus
                for value, cost, other, bonus in zip(row_reduced, row_costs, right, bonuses, strict=True)
            ]
            for position, row_reduced, row_costs, tight in zip(left, reduced, self.costs, least, strict=True)
        ]

    def _pair(self, row: int, column: int) -> None:
        self.rows[column], self.columns[row] = row, column

    def _compete(self, free: list[int]) -> list[int]:
        """Let free rows take their cheapest column from its holder, as long as that is worth it; return the losers.

        The column's price falls by what the second cheapest column would cost more, so that it stays as good a choice
        for the row as that one.
        """
        losers: list[int] = []
        for _ in range(_REDUCTIONS * len(self.costs)):
            if not free:
                break
            row = free.pop()
            reduced = list(map(sub, self.costs[row], self.prices))
            lowest = min(reduced)
            column = reduced.index(lowest)
            holder = self.rows[column]
            reduced[column] = max(reduced)
            margin = min(reduced) - lowest
            # Two equally cheap columns: without a price to change, the rows would swap for ever.
            if holder != _FREE and not margin:
                losers.append(row)
                continue
            self.prices[column] -= margin
            self._pair(row, column)
            if holder != _FREE:
                self.columns[holder] = _FREE
                free.append(holder)
        return losers + free

    def _augment(self, start: int) -> None:
        """Give a free row a column along the cheapest alternating path, by Dijkstra's algorithm on reduced costs."""
        free = [column for column, row in enumerate(self.rows) if row == _FREE]  # whose price is 0
        distances: dict[int, int] = {}
        came_from: dict[int, int] = {}
        final: dict[int, int] = {}
        queue: list[tuple[float, int]] = [(inf, _FREE)]
        row, added, end, bound = start, 0, _FREE, inf
        while True:
            costs = self.costs[row]
            nearest = min(free, key=costs.__getitem__)
            if costs[nearest] + added < bound:
                end, bound = nearest, costs[nearest] + added
                came_from[end] = row
            # Only what is nearer than the nearest free column can lead to a nearer one.
            limit = bound - added
            for column in [column for column, cost in enumerate(map(sub, costs, self.prices)) if cost < limit]:
                distance = costs[column] - self.prices[column] + added
                if distance < distances.get(column, bound):
                    distances[column], came_from[column] = distance, row
                    heappush(queue, (distance, column))
            while queue[0][1] in final:
                heappop(queue)
            length, column = heappop(queue)
            if length >= bound:
                break
            final[column] = int(length)
            row = self.rows[column]
            added = final[column] - self.costs[row][column] + self.prices[column]
        for column, distance in final.items():
            self.prices[column] += distance - int(bound)
        self._shift(came_from, end)

    def _shift(self, came_from: dict[int, int], end: int) -> None:
        """Give each row of an alternating path its next column; the path leads to the free column `end`."""
        while end != _FREE:
            row = came_from[end]
            before = self.columns[row]
            self._pair(row, end)
            end = before
