"""How much can be matched at most? Sums alone, in any order and in order, where nobody asks for the pairs.

`heaviest_matching` is the Hungarian method over the pairs that are worth something (Kuhn 1955; in phases from all free
rows at once, as Hopcroft & Karp 1973 do). Each row starts at the price of the most that any pair is worth, each column
at 0. A phase matches as many free rows as it can along *tight* pairs, those worth exactly what their two prices add up
to, and then lowers the prices of all rows it could reach, and raises those of the columns, by as much as makes another
pair tight. When the price of the free rows has come down to 0, what is matched is worth the sum of all prices, and no
matching is worth more than that. Similarities have few different values, so there are few phases. Worst case
O(rows * rows * pairs); typically a small multiple of the pairs.

`heaviest_subsequence` is the maximum-weight common subsequence, by sparse dynamic programming, O(log columns) a pair.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping, Sequence

from toolmark.matching._leaves import Row

_FREE = -1


def heaviest_matching(rows: Sequence[Row], columns: int) -> int:
    """Return the greatest sum of a one-to-one matching.

    Args:
        rows: For each row, by column, what the pair is worth; more than 0.
        columns: How many columns there are.
    """
    if len(rows) == 1:
        return max(rows[0].values(), default=0)
    most = [max(row.values(), default=0) for row in rows]
    if sum(most) == 0:
        return 0
    cheap = _all_their_best(rows, most)
    return cheap if cheap is not None else _Prices(rows, columns, max(most)).run()


def _all_their_best(rows: Sequence[Row], most: Sequence[int]) -> int | None:
    """Return the sum of the best of each row, if no two of them need the same column to have it."""
    taken: set[int] = set()
    for row, best in zip(rows, most, strict=True):
        if best:
            column = next((column for column, worth in row.items() if worth == best and column not in taken), None)
            if column is None:
                return None
            taken.add(column)
    return sum(most)


class _Prices:
    """The state of `heaviest_matching`."""

    def __init__(self, rows: Sequence[Row], columns: int, most: int) -> None:
        self.pairs = [[*row.items()] for row in rows]
        self.row_price = [most] * len(rows)
        self.column_price = [0] * columns
        self.column_of = [_FREE] * len(rows)
        self.row_of = [_FREE] * columns
        self.free = [index for index, row in enumerate(rows) if row]
        self.most = most
        for index, row in enumerate(rows):
            if not row:
                self.row_price[index] = 0

    def run(self) -> int:
        """Return the greatest sum."""
        while True:
            seen = self._match()
            if not self.free:
                break
            reached = [*self.free, *(self.row_of[column] for column in seen)]
            step = min(self.row_price[self.free[0]], self._slack(reached, seen))
            for row in reached:
                self.row_price[row] -= step
            for column in seen:
                self.column_price[column] += step
            if not self.row_price[self.free[0]]:
                break
        return sum(self.row_price) + sum(self.column_price)

    def _match(self) -> set[int]:
        """Match free rows along tight pairs until none can be; return the columns that can be reached from the rest."""
        while True:
            seen: set[int] = set()
            left = [row for row in self.free if not self._extend(row, seen)]
            if len(left) == len(self.free):
                return seen
            self.free = left
            if not left:
                return set()

    def _extend(self, start: int, seen: set[int]) -> bool:
        """Find a free column for a row, along an alternating path of tight pairs through columns not yet seen."""
        row_price, column_price, row_of = self.row_price, self.column_price, self.row_of
        came_from: dict[int, int] = {}
        rows = [start]
        while rows:
            row = rows.pop()
            price = row_price[row]
            for column, worth in self.pairs[row]:
                if price + column_price[column] == worth and column not in seen:
                    seen.add(column)
                    came_from[column] = row
                    holder = row_of[column]
                    if holder != _FREE:
                        rows.append(holder)
                        continue
                    self._turn(column, start, came_from)
                    return True
        return False

    def _turn(self, column: int, start: int, came_from: Mapping[int, int]) -> None:
        """Match along the path that leads from a row to a free column."""
        while True:
            row = came_from[column]
            self.row_of[column] = row
            self.column_of[row], column = column, self.column_of[row]
            if row == start:
                return

    def _slack(self, reached: Iterable[int], seen: set[int]) -> int:
        """Return by how much prices can change until another pair is tight."""
        column_price = self.column_price
        least = self.most
        for row in reached:
            price = self.row_price[row]
            for column, worth in self.pairs[row]:
                slack = price + column_price[column] - worth
                if slack < least and column not in seen:
                    least = slack
        return least


def heaviest_subsequence(cells: Iterable[Mapping[int, int]]) -> int:
    """Return the greatest sum of a common subsequence.

    Args:
        cells: For each row in order, by column, what the pair is worth; more than 0.
    """
    # `values` at or before a column: the greatest sum so far that ends there. Both lists ascend.
    columns: list[int] = []
    values: list[int] = []
    for row in cells:
        for column in sorted(row, reverse=True):  # from the right, so that a row cannot build on itself
            place = bisect_left(columns, column)
            value = row[column] + (values[place - 1] if place else 0)
            stop = place
            while stop < len(columns) and values[stop] <= value:
                stop += 1
            if stop > place:
                columns[place:stop] = [column]
                values[place:stop] = [value]
            elif stop == len(columns) or columns[stop] != column:
                columns.insert(place, column)
                values.insert(place, value)
    return values[-1] if values else 0


def longest_subsequence(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence.

    A column of the table of lengths is one integer whose bits are the steps in it, so that a row costs a few operations
    on long integers (Crochemore, Iliopoulos, Pinzon & Reid 2001, "A fast and practical bit-vector algorithm for the
    longest common subsequence problem").
    """
    places: dict[Hashable, int] = {}
    for index, key in enumerate(right):
        places[key] = places.get(key, 0) | 1 << index
    every = (1 << len(right)) - 1
    steps = every
    for key in left:
        hits = steps & places.get(key, 0)
        steps = ((steps + hits) | (steps - hits)) & every
    return len(right) - steps.bit_count()
