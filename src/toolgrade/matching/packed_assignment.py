"""Optimal assignment of hundreds of rows and columns, for several aims in turn, on packed rows.

Method: the Hungarian algorithm with bit scaling (Gabow 1985). The prices of a row and a column add up to at least the
weight of the pair; where they add up to just that, the pair is *tight*. An assignment of all rows by tight pairs has
the greatest weight. Rows take free columns along alternating paths of tight pairs until no path is left; then the
prices of the rows that were reached fall and those of their columns rise, until new pairs are tight. Weights come in
bit by bit, from the highest: from the prices of the bits before it is only a few such steps to the next ones.

By complementary slackness the optimal assignments are exactly those of tight pairs. So the next aim may use only these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from toolgrade.matching.packed_rows import Lanes

_FREE: Final = -1
_FIRST_BITS: Final = 4
"""Bits of the weights that come in together at first."""


class PackedAssignment:
    """Assignments of as many rows as columns, of which each aim leaves only the best.

    Attributes:
        lanes: The form of masks.
        allowed: For each row, a mask of columns; assignments that use only these are the best.
        column_of: The column of each row in one of them.
    """

    def __init__(self, lanes: Lanes) -> None:
        """Allow all pairs."""
        self.column_of = list(range(lanes.count))
        self.count = lanes.count
        self.lanes = lanes
        self.allowed = [lanes.all] * lanes.count

    def use(self, lanes: Lanes) -> None:
        """Change the form of masks."""
        self.allowed = [self.lanes.converted(mask, lanes) for mask in self.allowed]
        self.lanes = lanes

    def maximize(self, weights: Sequence[int], most: int) -> None:
        """Keep only assignments of the greatest weight.

        Args:
            weights: Packed rows of values from 0 to `most`; further rows weigh nothing.
            most: The greatest value; the lanes hold `greatest_price` of it.
        """
        rows = [*weights, *[0] * (self.count - len(weights))]
        shift = max(most.bit_length() - _FIRST_BITS, 0)
        prices = _Prices(self, most >> shift)
        prices.assign(_shifted(rows, shift, self.lanes))
        while shift:
            shift -= 1
            prices.refine()
            prices.assign(_shifted(rows, shift, self.lanes))
        self.allowed, self.column_of = prices.tight, prices.column_of


def greatest_price(most: int, count: int | None = None) -> int:
    """Return a bound of the numbers that come up in an assignment with weights up to `most`.

    Where all pairs are allowed, the prices of two columns differ by `most` at most. Else they may differ by that much
    for each step of an alternating path, and `count` limits the steps.
    """
    return 8 * most * (most.bit_length() + 1 if count is None else count)


def _shifted(rows: Sequence[int], shift: int, lanes: Lanes) -> Sequence[int]:
    """Return rows without the lowest bits of their values."""
    if not shift:
        return rows
    kept_bits = lanes.ones * ((1 << (lanes.bits - shift)) - 1)
    return [row >> shift & kept_bits for row in rows]


class _Prices:
    """The prices of rows and columns, and the assignment that they allow.

    Attributes:
        tight: For each row, the mask of the allowed columns to which it is tight.
        column_of: The column of each row.
    """

    def __init__(self, pairs: PackedAssignment, row_price: int) -> None:
        """Begin with the same price of each row, and columns without a price."""
        self.lanes = pairs.lanes
        self.allowed = pairs.allowed
        self.rows = range(pairs.count)
        self.weights: Sequence[int] = ()
        self.row_price = [row_price] * pairs.count
        self.column_prices = 0
        self.tight = [0] * pairs.count
        self.column_of = [_FREE] * pairs.count
        self.row_of = [_FREE] * pairs.count

    def refine(self) -> None:
        """Double the prices for weights with one bit more."""
        self.row_price = [2 * price + 1 for price in self.row_price]
        self.column_prices *= 2

    def assign(self, weights: Sequence[int]) -> None:
        """Assign all rows at the greatest weight."""
        self.weights = weights
        self._tighten(self.rows)
        free, free_columns = list(self.rows), self.lanes.all
        while free:
            free, free_columns, reached = self._augment(free, free_columns)
            if free:
                self._change_prices([*free, *(self.row_of[column] for column in self.lanes.columns(reached))], reached)

    def _tighten(self, rows: Iterable[int]) -> None:
        """Find out to which columns rows are tight."""
        base = self.lanes.all + self.column_prices - self.lanes.ones
        base_of_price: dict[int, int] = {}
        for row in rows:
            price = self.row_price[row]
            if price not in base_of_price:
                base_of_price[price] = base + self.lanes.ones * price
            # Only where prices exceed the weight, the highest bit of the lane is still there.
            self.tight[row] = self.allowed[row] & ~(base_of_price[price] - self.weights[row])

    def _augment(self, free: list[int], free_columns: int) -> tuple[list[int], int, int]:
        """Give columns to free rows along tight pairs.

        Returns the rows that stay free, the columns that do, and the columns that were reached from these rows.
        """
        while True:
            unvisited = self.lanes.all
            failed: list[int] = []
            for start in free:
                unvisited, end = self._search(start, unvisited, free_columns)
                free_columns ^= end
                if not end:
                    failed.append(start)
            if not failed or len(failed) == len(free):
                return failed, free_columns, self.lanes.all ^ unvisited
            free = failed

    def _search(self, start: int, unvisited: int, free_columns: int) -> tuple[int, int]:
        """Move rows along an alternating path from a free row to a free column, depth first.

        Returns the columns that are still unvisited, and the mask of the free column; 0 if there is no path.
        """
        bits, tight, row_of = self.lanes.bits, self.tight, self.row_of
        path, columns = [start], [_FREE]
        while path:
            pairs = tight[path[-1]]
            end = pairs & free_columns
            if end:
                end &= -end
                columns.append(end.bit_length() // bits - 1)
                for row, column in zip(path, columns[1:], strict=True):
                    self.column_of[row] = column
                    row_of[column] = row
                return unvisited, end
            pairs &= unvisited
            if pairs:
                step = pairs & -pairs
                unvisited ^= step
                columns.append(step.bit_length() // bits - 1)
                path.append(row_of[columns[-1]])
            else:
                path.pop()
                columns.pop()
        return unvisited, 0

    def _change_prices(self, rows: list[int], columns: int) -> None:
        """Let the prices of the reached rows fall and those of the reached columns rise, until new pairs are tight."""
        lanes = self.lanes
        others = lanes.all ^ columns
        step = self._greatest_step(rows, others)
        self.column_prices += (columns >> (lanes.bits - 1)) * step
        for row in rows:
            self.row_price[row] -= step
        for row in set(self.rows).difference(rows):
            self.tight[row] &= others
        self._tighten(rows)

    def _greatest_step(self, rows: list[int], columns: int) -> int:
        """Return the greatest power of two by which rows can fall before they are tight to one of the columns."""
        lanes = self.lanes
        step = 1
        while True:
            base = lanes.all + self.column_prices - lanes.ones * (2 * step)
            for row in rows:
                price = lanes.ones * self.row_price[row]
                if self.allowed[row] & columns & ~(base + price - self.weights[row]):
                    return step
            step *= 2
