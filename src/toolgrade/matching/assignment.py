"""Cheapest one-to-one assignment of rows to columns.

Method: shortest augmenting paths (Jonker & Volgenant 1987; Crouse 2016, "On implementing 2D rectangular assignment
algorithms"). Rows first take their cheapest column, and compete by prices for those that several want; each row that
stays free is then added along the cheapest alternating path. Costs are integers, so a tie is a tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from operator import itemgetter, sub

_FREE = -1
_REDUCTIONS = 2
"""Steps of the competition for each row; rows that are still free are then added one by one."""


def cheapest(costs: Sequence[Sequence[int]]) -> list[int]:
    """Return the column of each row in a cheapest assignment of the shorter side; -1 for rows without a column.

    Of two pairs whose columns can be exchanged at equal cost, the first row has the first column.

    Args:
        costs: The cost of each row and column; at least one of each.
    """
    if len(costs) > len(costs[0]):
        rows = cheapest(list(zip(*costs, strict=True)))
        columns = [_FREE] * len(costs)
        for column, row in enumerate(rows):
            columns[row] = column
        return columns
    columns = _Assignment(costs).columns
    for one, other in combinations(range(len(costs)), 2):
        left, right = columns[one], columns[other]
        if left > right and costs[one][left] + costs[other][right] == costs[one][right] + costs[other][left]:
            columns[one], columns[other] = right, left
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
        costs, rows, prices = self.costs, self.rows, self.prices
        open_columns = list(range(len(prices)))
        open_prices = list(prices)
        distances = list(map(sub, costs[start], prices))
        settled: dict[int, tuple[int, int]] = {}  # by column: its distance, and what is added to the costs of its row
        while True:
            distance = min(distances)
            at = distances.index(distance)
            column = open_columns.pop(at)
            if rows[column] == _FREE:
                break
            del distances[at], open_prices[at]
            row_costs = costs[rows[column]]
            added = distance - row_costs[column] + prices[column]
            settled[column] = distance, added
            reached = zip(distances, itemgetter(*open_columns, 0)(row_costs), open_prices, strict=False)
            distances = [new if (new := cost - price + added) < old else old for old, cost, price in reached]
        path: list[tuple[int, int]] = []
        while True:
            row = self._row_before(column, distance if not path else settled[column][0], start, settled)
            path.append((row, column))
            if row == start:
                break
            column = self.columns[row]
        for one, (reached_at, _) in settled.items():
            prices[one] += reached_at - distance
        for row, column in path:
            self._pair(row, column)

    def _row_before(self, column: int, distance: int, start: int, settled: dict[int, tuple[int, int]]) -> int:
        """Return the row from which a column was reached at a distance."""
        costs, price = self.costs, self.prices[column]
        if costs[start][column] - price == distance:
            return start
        # The first of several such columns was settled before this one.
        rows = ((self.rows[one], added) for one, (_, added) in settled.items())
        return next(row for row, added in rows if costs[row][column] - price + added == distance)
