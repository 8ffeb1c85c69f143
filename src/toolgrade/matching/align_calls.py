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
(`Weights`), so both searches work without rounding, and a tie is a tie.

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

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import lcm

from toolgrade.matching.alignment import Alignment, Item
from toolgrade.matching.argument_pattern import Ratio
from toolgrade.matching.call_similarity import Comparison
from toolgrade.matching.name_group import Pairs, pairs_of_name
from toolgrade.matching.subsequence import pairs_in_order


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
        expected: What should have been called, as `toolgrade.matching.alignment.Item`.
        called: What was called, likewise.
        ordered: Pairs must keep the order of both sides.
        arguments: Compare the argument objects, with partial credit.
        output: Compare the outputs, all or nothing.

    Example:
        >>> from toolgrade.matching import align
        >>> from toolgrade.matching.alignment import Item
        >>> weather = Item("get_weather", type=None, arguments={"city": "Paris"}, output=None)
        >>> flight = Item("book_flight", type=None, arguments={"to": "Paris"}, output=None)
        >>> align([weather, flight], [flight, weather]).recall
        1.0
        >>> align([weather, flight], [flight, weather], ordered=True).recall
        0.5
    """
    sides = Comparison(expected, called, arguments=arguments, output=output)
    every_expected, every_called = range(len(expected)), range(len(called))
    pairs = pairs_in_order(sides) if ordered else _in_any_order(sides, every_expected, every_called)
    missing, unexpected = _unpaired(every_expected, every_called, pairs)
    displaced: Pairs = {}
    if ordered and missing and unexpected:
        # A call in the wrong place explains one missing and one unexpected call, and adds nothing to the score.
        displaced = _in_any_order(sides, missing, unexpected)
        missing, unexpected = _unpaired(missing, unexpected, displaced)
    return Alignment(
        expected_count=len(expected),
        called_count=len(called),
        ordered=ordered,
        matched=total(pairs.values()),
        pairs=tuple([sides.pair(e, c, pairs[e, c]) for e, c in sorted(pairs)]),
        out_of_order=tuple([sides.pair(e, c, displaced[e, c]) for e, c in sorted(displaced)]),
        missing=tuple(missing),
        unexpected=tuple(unexpected),
    )


def _unpaired(expected: Sequence[int], called: Sequence[int], pairs: Pairs) -> tuple[list[int], list[int]]:
    """Return the positions that are in no pair."""
    paired_expected, paired_called = {e for e, _ in pairs}, {c for _, c in pairs}
    return [e for e in expected if e not in paired_expected], [c for c in called if c not in paired_called]


def total(ratios: Iterable[Ratio]) -> Fraction:
    """Return the exact sum of similarities."""
    # One fraction at the end: adding fractions one by one reduces each sum.
    total, unit = 0, 1
    for numerator, denominator in ratios:
        if unit % denominator:
            common = lcm(unit, denominator)
            total, unit = total * (common // unit), common
        total += numerator * (unit // denominator)
    return Fraction(total, unit)


def _in_any_order(sides: Comparison, expected: Sequence[int], called: Sequence[int]) -> Pairs:
    """Return the best pairs of the given positions, whatever their order."""
    pairs: Pairs = {}
    for left, right in sides.by_name(expected, called):
        pairs.update(pairs_of_name(sides, left, right))
    return pairs
