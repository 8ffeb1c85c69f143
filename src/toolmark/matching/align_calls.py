"""Aligns expected and called tools: ordered (maximum-weight common subsequence) or unordered (optimal assignment).

Both maximise, in this order: the sum of similarities; the number of pairs of equal name (a pair of similarity 0
explains better than one missing and one unexpected call); the nearness of the positions; and then take the
lexicographically smallest list of (expected, called) pairs. So there is exactly one answer, and it does not depend on
the order in which the work is done. Similarities are exact rationals; over their common denominator the first three
aims become one integer per pair, which both algorithms maximise without rounding.

Only calls of equal name can be paired, so the unordered problem falls apart into one assignment per name.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from math import lcm

from toolmark.matching import assignment_scipy as _compiled
from toolmark.matching.alignment import Alignment, Item
from toolmark.matching.argument_pattern import ONE, Ratio
from toolmark.matching.assignment import Costs, assign, match_on_line, smallest
from toolmark.matching.call_similarity import Comparison, Matrix

_Found = dict[tuple[int, int], Ratio]
"""Pairs of positions with their similarity."""

_ARRAY_FROM = 1 << 16
"""Cells from which a matrix of costs is kept in machine integers: a list of 4 million ints takes 160 MB."""
_INT64 = 1 << 62
"""Sums below this fit machine integers."""


def align(
    expected: Sequence[Item],
    called: Sequence[Item],
    *,
    ordered: bool = False,
    arguments: bool = False,
    output: bool = False,
) -> Alignment:
    """Return the best alignment of the called tools with the expected ones.

    Args:
        expected: What should have been called.
        called: What was called.
        ordered: Pairs must keep the order of both sides.
        arguments: Compare the argument objects, with partial credit.
        output: Compare the outputs, all or nothing.
    """
    sides = Comparison(expected, called, arguments=arguments, output=output)
    every_e, every_c = range(len(expected)), range(len(called))
    found = _in_order(sides) if ordered else _any_order(sides, every_e, every_c)
    taken, used = {e for e, _ in found}, {c for _, c in found}
    missing = [index for index in every_e if index not in taken]
    unexpected = [index for index in every_c if index not in used]
    displaced = _any_order(sides, missing, unexpected) if ordered and missing and unexpected else {}
    left, right = {e for e, _ in displaced}, {c for _, c in displaced}
    return Alignment(
        expected_count=len(expected),
        called_count=len(called),
        ordered=ordered,
        matched=total(found.values()),
        pairs=tuple(sides.pair(e, c, ratio) for (e, c), ratio in sorted(found.items())),
        out_of_order=tuple(sides.pair(e, c, ratio) for (e, c), ratio in sorted(displaced.items())),
        missing=tuple(index for index in missing if index not in left),
        unexpected=tuple(index for index in unexpected if index not in right),
    )


def total(ratios: Iterable[Ratio]) -> Fraction:
    """Return the exact sum of similarities."""
    whole = 0
    parts: dict[int, int] = {}
    for numerator, denominator in ratios:
        if denominator == 1:
            whole += numerator
        else:
            parts[denominator] = parts.get(denominator, 0) + numerator
    return sum((Fraction(numerator, denominator) for denominator, numerator in parts.items()), Fraction(whole))


def _any_order(sides: Comparison, left: Sequence[int], right: Sequence[int]) -> _Found:
    """Return the best pairs of the given positions, whatever their order."""
    found: _Found = {}
    for ours, theirs in _by_name(sides, left, right):
        if len(ours) == 1 == len(theirs):
            found[ours[0], theirs[0]] = sides.ratio(sides.expected[ours[0]], sides.called[theirs[0]])
        else:
            found.update(_one_name(sides, ours, theirs))
    return found


def _by_name(sides: Comparison, left: Sequence[int], right: Sequence[int]) -> Iterable[tuple[list[int], list[int]]]:
    """Yield the positions of each name that both sides have."""
    names: dict[str, tuple[list[int], list[int]]] = {}
    for e in left:
        names.setdefault(sides.expected[e].name, ([], []))[0].append(e)
    for c in right:
        group = names.get(sides.called[c].name)
        if group is not None:
            group[1].append(c)
    return (group for group in names.values() if group[1])


def _one_name(sides: Comparison, left: list[int], right: list[int]) -> _Found:
    """Return the best pairs within one name.

    Shortcut: if so many calls are equal that every pair can have similarity 1, no optimal answer has any other pair,
    so the problem falls apart once more, into one question of nearness per distinct call.
    """
    keys = sides.keys(left, right)
    if keys is not None:
        buckets: dict[Hashable, tuple[list[int], list[int]]] = {}
        for e, key in zip(left, keys[0], strict=True):
            buckets.setdefault(key, ([], []))[0].append(e)
        for c, key in zip(right, keys[1], strict=True):
            buckets.setdefault(key, ([], []))[1].append(c)
        if sum(min(len(a), len(b)) for a, b in buckets.values()) == min(len(left), len(right)):
            return {pair: ONE for a, b in buckets.values() for pair in match_on_line(a, b)}
    return _assign_group(sides.matrix(left, right), left, right)


def _in_order(sides: Comparison) -> _Found:
    """Return the maximum-weight common subsequence.

    An equal beginning is paired at once: no pair is worth more than 1 and none is nearer than the same position. With
    as many calls on both sides the same holds of an equal end.
    """
    m, n = len(sides.expected), len(sides.called)
    start, stop = 0, 0
    while start < min(m, n) and _certain(sides, start):
        start += 1
    while m == n and stop < m - start and _certain(sides, m - 1 - stop):
        stop += 1
    found = {(index, index): ONE for index in [*range(start), *range(m - stop, m)]}
    if start + stop < m and start + stop < n:
        found.update(_subsequence(sides, range(start, m - stop), range(start, n - stop)))
    return found


def _certain(sides: Comparison, index: int) -> bool:
    a, b = sides.expected[index], sides.called[index]
    return a.name == b.name and sides.ratio(a, b) == ONE


def _subsequence(sides: Comparison, left: range, right: range) -> _Found:
    """Return the best subsequence, by sparse dynamic programming over the pairs of equal name.

    The value of a pair is its own worth plus the greatest value of a pair that lies after it on both sides. Going
    through the expected calls from the last to the first, `_Steps` answers that question for every column, in
    O(log n) a pair. The first pair of the answer is the first one that has the greatest value of all, and so on.
    """
    cells: dict[int, tuple[list[int], list[Ratio]]] = {}
    groups = list(_by_name(sides, left, right))
    if len(groups) == 1 and _all_equal(sides, *groups[0]):  # only the positions count, and the nearest do not cross
        return dict.fromkeys(match_on_line(*groups[0]), ONE)
    for ours, theirs in groups:
        cells.update((e, (theirs, row)) for e, row in zip(ours, sides.matrix(ours, theirs), strict=True))
    pairs = min(len(left), len(right))
    worth = _Worth((ratio for _, row in cells.values() for ratio in row), pairs, max(left.stop, right.stop))
    own = {ratio: value + worth.per_pair for ratio, value in worth.of_ratio.items()}
    compact = worth.greatest * pairs < _INT64
    after = _Steps()
    values: dict[int, Sequence[int]] = {}
    for e in sorted(cells, reverse=True):
        row = [own[ratio] - abs(e - c) + after.at(c + 1) for c, ratio in zip(*cells[e], strict=True)]
        values[e] = array("q", row) if compact else row
        for c, value in zip(cells[e][0], row, strict=True):
            after.raise_to(c, value)
    found: _Found = {}
    goal, column = after.at(right.start), right.start
    for e in sorted(cells):
        for c, ratio, value in zip(*cells[e], values[e], strict=True):
            if value == goal and c >= column:
                found[e, c] = ratio
                goal, column = goal - own[ratio] + abs(e - c), c + 1
                break
    return found


def _all_equal(sides: Comparison, left: list[int], right: list[int]) -> bool:
    keys = sides.keys(left, right)
    return keys is not None and len({*keys[0], *keys[1]}) == 1


class _Steps:
    """A function of the column that never rises to the right: the greatest value at that column or beyond."""

    def __init__(self) -> None:
        self.columns: list[int] = []
        self.values: list[int] = []

    def at(self, column: int) -> int:
        index = bisect_left(self.columns, column)
        return self.values[index] if index < len(self.values) else 0

    def raise_to(self, column: int, value: int) -> None:
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


class _Worth:
    """Turns similarity, number of pairs and nearness into one integer, in that order of importance.

    With k pairs at most and positions below `size`, distances add up to less than `per_pair`, and pairs to less than
    the smallest difference between two sums of similarities.
    """

    def __init__(self, ratios: Iterable[Ratio], pairs: int, size: int) -> None:
        distinct = set(ratios)
        scale = lcm(*(denominator for _, denominator in distinct))
        self.per_pair = pairs * size + 1
        unit = self.per_pair * (pairs + 1)
        self.of_ratio: dict[Ratio, int] = {ratio: ratio[0] * (scale // ratio[1]) * unit for ratio in distinct}
        self.greatest = scale * unit + self.per_pair


def _assign_group(ratios: Matrix, left: list[int], right: list[int]) -> _Found:
    """Return the optimal assignment of one name's expected and called positions."""
    worth = _Worth((ratio for row in ratios for ratio in row), min(len(left), len(right)), max(left[-1], right[-1]) + 1)
    cost = {ratio: -value for ratio, value in worth.of_ratio.items()}
    if len(left) * len(right) >= _compiled.PAIRS_FROM:
        partner = _compiled.best_partners(ratios, cost, left, right)
        if partner is not None:
            return {(left[i], right[j]): ratios[i][j] for i, j in enumerate(partner) if j >= 0}
    rows: list[Sequence[int]] = []
    compact = len(left) * len(right) >= _ARRAY_FROM and worth.greatest < _INT64
    for e, row in zip(left, ratios, strict=True):
        costs = [cost[ratio] + abs(e - c) for ratio, c in zip(row, right, strict=True)]
        rows.append(array("q", costs) if compact else costs)
    partner = _best_partners(rows, len(right))
    return {(left[i], right[j]): ratios[i][j] for i, j in enumerate(partner) if j >= 0}


def _best_partners(rows: Costs, width: int) -> list[int]:
    """Return, for each row, its column in the lexicographically smallest cheapest assignment, or -1."""
    height = len(rows)
    if height <= width:
        partner, row_price, column_price = assign(rows)
    else:
        columns = [[row[j] for row in rows] for j in range(width)]
        row_of, column_price, row_price = assign(columns)
        partner = [-1] * height
        for j, i in enumerate(row_of):
            partner[i] = j
    tight = [
        [j for j, (cost, price) in enumerate(zip(row, column_price, strict=True)) if cost == base + price]
        for row, base in zip(rows, row_price, strict=True)
    ]
    return smallest(
        partner,
        tight,
        may_free_left={i for i, price in enumerate(row_price) if price == 0} if height > width else set(),
        may_free_right={j for j, price in enumerate(column_price) if price == 0} if width > height else set(),
        right_size=width,
    )
