"""Optimal alignment of expected and called tools, in any order or in the expected order.

Theory. An alignment is a set of pairs (expected position, called position), one-to-one, of calls with equal names.
Unordered, it is a maximum-weight assignment; ordered, a maximum-weight common subsequence. Five aims decide, in this
order, so that exactly one alignment is the best:

1. the greatest sum of similarities;
2. the most *equal pairs*: the k-th of several equal expected calls with the k-th of the equal called ones, where equal
   means that every compared field is set on both sides and equal as a JSON value;
3. the most pairs (a pair of similarity 0 explains more than one missing and one unexpected call);
4. the smallest sum of distances between the positions of a pair;
5. the lexicographically smallest list of pairs.

Similarities are exact fractions. Over their common denominator the first four aims are one integer for each pair
(`_Weights`), so both searches work without rounding, and a tie is a tie.

Two shortcuts give the same answer sooner:

- The unordered problem separates into one assignment for each name.
- Within a name, equal pairs are taken out first if every call has values (`Comparison.exact_values`). The distance
  d = 1 - similarity then keeps the triangle inequality: for an equal pair (e, c) and any calls x and y,
  d(x, y) <= d(x, c) + d(e, y), so that (e, c) and (x, y) weigh no less than (x, c) and (e, y). A field left open, a
  matcher or a text output that may equal a value breaks the inequality; such a group is assigned as a whole.
- Equal pairs that do not cross, and are as many as names allow, are the whole answer, in any order and in order.

Cost: near-linear if names differ or calls are equal; O(k^3) at worst for k unequal calls of one name (shortest
augmenting paths); ordered, O(p log n) for p pairs of equal name.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from math import lcm
from typing import TypeAlias

from toolmark.matching import assignment_scipy
from toolmark.matching.alignment import Alignment, Item
from toolmark.matching.argument_pattern import ONE, Ratio
from toolmark.matching.assignment import Costs, assign, smallest
from toolmark.matching.call_similarity import Comparison, ExactValues, Matrix
from toolmark.matching.json_compare import frozen, json_equal

_Pairs: TypeAlias = "dict[tuple[int, int], Ratio]"
"""Pairs of positions with their similarity."""

_FEW_PAIRS = 64
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
    every_expected, every_called = range(len(expected)), range(len(called))
    pairs = _in_order(sides) if ordered else _in_any_order(sides, every_expected, every_called)
    paired_expected, paired_called = {e for e, _ in pairs}, {c for _, c in pairs}
    missing = [index for index in every_expected if index not in paired_expected]
    unexpected = [index for index in every_called if index not in paired_called]
    # A call in the wrong place explains one missing and one unexpected call, and adds nothing to the score.
    displaced = _in_any_order(sides, missing, unexpected) if ordered and missing and unexpected else {}
    displaced_expected, displaced_called = {e for e, _ in displaced}, {c for _, c in displaced}
    return Alignment(
        expected_count=len(expected),
        called_count=len(called),
        ordered=ordered,
        matched=total(pairs.values()),
        pairs=tuple(sides.pair(e, c, ratio) for (e, c), ratio in sorted(pairs.items())),
        out_of_order=tuple(sides.pair(e, c, ratio) for (e, c), ratio in sorted(displaced.items())),
        missing=tuple(index for index in missing if index not in displaced_expected),
        unexpected=tuple(index for index in unexpected if index not in displaced_called),
    )


def total(ratios: Iterable[Ratio]) -> Fraction:
    """Return the exact sum of similarities."""
    numerators: dict[int, int] = {}
    for numerator, denominator in ratios:
        numerators[denominator] = numerators.get(denominator, 0) + numerator
    # One fraction at the end: adding fractions one by one reduces each sum.
    common = lcm(*numerators)
    return Fraction(sum(part * (common // denominator) for denominator, part in numerators.items()), common)


def _in_any_order(sides: Comparison, expected: Sequence[int], called: Sequence[int]) -> _Pairs:
    """Return the best pairs of the given positions, whatever their order."""
    pairs: _Pairs = {}
    for left, right in _by_name(sides, expected, called):
        if len(left) == 1 == len(right):
            pairs[left[0], right[0]] = sides.ratio(sides.expected[left[0]], sides.called[right[0]])
        else:
            pairs.update(_of_one_name(sides, left, right))
    return pairs


def _by_name(
    sides: Comparison, expected: Sequence[int], called: Sequence[int]
) -> Iterable[tuple[list[int], list[int]]]:
    """Return the positions of each name that both sides have."""
    names: dict[str, tuple[list[int], list[int]]] = {}
    for e in expected:
        names.setdefault(sides.expected[e].name, ([], []))[0].append(e)
    for c in called:
        # A called name that nothing expects forms no group; its calls are unexpected.
        group = names.get(sides.called[c].name)
        if group is not None:
            group[1].append(c)
    return (group for group in names.values() if group[1])


def _of_one_name(sides: Comparison, left: list[int], right: list[int]) -> _Pairs:
    """Return the best pairs of one name."""
    values = sides.exact_values(left, right)
    equal = _equal_pairs(left, right, values)
    if not values.complete:
        return _assigned(sides.matrix(left, right), left, right, equal)
    pairs = dict.fromkeys(equal.items(), ONE)
    # The triangle inequality of the module's docstring: taking the equal pairs out loses no weight.
    paired = set(equal.values())
    left = [e for e in left if e not in equal]
    right = [c for c in right if c not in paired]
    if len(left) == 1 == len(right):
        pairs[left[0], right[0]] = sides.ratio(sides.expected[left[0]], sides.called[right[0]])
    elif left and right:
        pairs.update(_assigned(sides.matrix(left, right), left, right, {}))
    return pairs


def _equal_pairs(left: Sequence[int], right: Sequence[int], values: ExactValues) -> dict[int, int]:
    """Return the partners of equal calls: the k-th of several equal expected calls gets the k-th called one."""
    called = [(c, value) for c, value in zip(right, values.called, strict=True) if value is not None]
    expected = [(e, value) for e, value in zip(left, values.expected, strict=True) if value is not None]
    partners: dict[int, int] = {}
    # A few values are compared with each other sooner than a key of each is made.
    if len(left) * len(right) <= _FEW_PAIRS:
        for e, value in expected:
            for index, (c, other) in enumerate(called):
                if json_equal(value, other):
                    partners[e] = c
                    del called[index]
                    break
        return partners
    waiting: dict[Hashable, deque[int]] = {}
    for c, value in called:
        waiting.setdefault(frozen(value), deque()).append(c)
    for e, value in expected:
        queue = waiting.get(frozen(value))
        if queue:
            partners[e] = queue.popleft()
    return partners


def _in_order(sides: Comparison) -> _Pairs:
    """Return the maximum-weight common subsequence.

    Equal calls at the beginning are paired at once: no pair weighs more, and nothing crosses them.
    """
    expected, called = range(len(sides.expected)), range(len(sides.called))
    equal: dict[int, int] = {}
    most = 0
    for left, right in _by_name(sides, expected, called):
        equal.update(_equal_pairs(left, right, sides.exact_values(left, right)))
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


def _subsequence(sides: Comparison, expected: range, called: range, equal: dict[int, int]) -> _Pairs:
    """Return the best subsequence, by sparse dynamic programming over the pairs of equal name.

    The value of a pair is its own weight plus the greatest value of a pair that lies after it on both sides. From the
    last expected call to the first, `_Staircase` answers that question for every column, in O(log n) a pair. The first
    pair of the answer is the first one that has the greatest value of all, and so on.
    """
    cells: dict[int, tuple[list[int], list[Ratio]]] = {}
    for left, right in _by_name(sides, expected, called):
        cells.update((e, (right, row)) for e, row in zip(left, sides.matrix(left, right), strict=True))
    weights = _Weights(
        [row for _, row in cells.values()],
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
        columns, ratios = cells[e]
        own = weights.row(e, columns, ratios)
        row = [weight + after.at(c + 1) for c, weight in zip(columns, own, strict=True)]
        values[e] = array("q", row) if compact else row
        # The row is added after it was computed: two pairs of one expected call exclude each other.
        for c, value in zip(columns, row, strict=True):
            after.raise_to(c, value)
    pairs: _Pairs = {}
    goal, column = after.at(called.start), called.start
    for e in sorted(cells):
        for c, ratio, value in zip(*cells[e], values[e], strict=True):
            if value == goal and c >= column:
                pairs[e, c] = ratio
                goal, column = goal - weights.row(e, [c], [ratio])[0], c + 1
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


class _Weights:
    """The weight of a pair: similarity, equal pair, number of pairs and nearness as one integer, in that order.

    With k pairs at most and positions below `size`, distances add up to less than `per_pair`, pairs to less than
    `per_equal`, and equal pairs to less than the smallest difference between two sums of similarities.
    """

    def __init__(self, rows: Iterable[Sequence[Ratio]], *, pairs: int, size: int, equal: dict[int, int]) -> None:
        distinct: set[Ratio] = set().union(*rows)
        scale = lcm(*(denominator for _, denominator in distinct))
        per_pair = pairs * size + 1
        self.per_equal = per_pair * (pairs + 1) if equal else 0
        unit = (self.per_equal or per_pair) * (pairs + 1)
        self.equal = equal
        self.of_ratio: dict[Ratio, int] = {
            ratio: ratio[0] * (scale // ratio[1]) * unit + per_pair for ratio in distinct
        }
        self.greatest = scale * unit + self.per_equal + per_pair

    def row(self, e: int, columns: Sequence[int], ratios: Sequence[Ratio]) -> list[int]:
        """Return the weights of the pairs of one expected call; always more than 0."""
        of_ratio = self.of_ratio
        weights = [of_ratio[ratio] - abs(e - c) for c, ratio in zip(columns, ratios, strict=True)]
        # Only the k-th with the k-th counts as equal; other equal calls are ordinary pairs of similarity 1.
        partner = self.equal.get(e)
        if partner is not None and partner in columns:
            weights[columns.index(partner)] += self.per_equal
        return weights


def _assigned(ratios: Matrix, left: list[int], right: list[int], equal: dict[int, int]) -> _Pairs:
    """Return the optimal assignment of one name's expected and called positions."""
    weights = _Weights(
        ratios,
        pairs=min(len(left), len(right)),
        size=max(left[-1], right[-1]) + 1,
        equal=equal,
    )
    partner = None
    # The solver of scipy knows no extra weight for equal pairs.
    if len(left) * len(right) >= assignment_scipy.PAIRS_FROM and not equal:
        cost = {ratio: -weight for ratio, weight in weights.of_ratio.items()}
        partner = assignment_scipy.best_partners(ratios, cost, left, right)
    if partner is None:
        rows: list[Sequence[int]] = []
        # Small groups stay lists, which are faster to read than arrays.
        compact = len(left) * len(right) >= _ARRAY_FROM and weights.greatest < _INT64
        for e, row in zip(left, ratios, strict=True):
            costs = [-weight for weight in weights.row(e, right, row)]
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
