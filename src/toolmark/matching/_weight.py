"""The sum of similarities alone, of calls that say everything that is compared of them.

`align` finds which call stands for which; its sum is what scores are made of. Where nobody asks for the pairs, the sum
is had for less, and it is the same number:

- *Equal calls may be paired first, in any order.* The distance d = 1 - similarity keeps the triangle inequality. So if
  e and c are equal, d(x, y) <= d(x, c) + d(e, y): instead of the pairs (x, c) and (e, y), the pairs (e, c) and (x, y)
  are worth no less, and some best assignment pairs e with c.
- *An equal beginning and an equal end may be cut off, in order*, since no pair is worth more than 1.
- *Pairs of similarity 0 add nothing*, so only values that are equal are ever looked at (`_leaves`).

All of it rests on similarities that are 1 exactly where calls are equal. Fields that an expected call leaves open,
values that were redacted, matchers and outputs break that, and calls with any of them are left to `align`.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from itertools import chain
from math import gcd, lcm
from typing import Any, Final, TypeAlias, TypeVar

from toolmark.matching._heaviest import heaviest_matching, heaviest_subsequence, longest_subsequence
from toolmark.matching._kinds import Equal, Kinds
from toolmark.matching._leaves import Row, common, key_of, leaves_of
from toolmark.matching.argument_pattern import Ratio
from toolmark.matching.json_compare import json_equal, similarity
from toolmark.matching.redacted_values import has_mark

Arguments: TypeAlias = dict[str, Any]
Calls: TypeAlias = tuple[list[str], list[Arguments]]
"""Calls of which only names and arguments are compared: the names of all, and in a list beside it the arguments."""

Group: TypeAlias = tuple[list[Arguments], list[Arguments]]
T = TypeVar("T")
ByName: TypeAlias = dict[str, list[Arguments]]

_ANY: Final = Kinds(json_equal, marked=True)
"""What there is to say of objects that nobody looked at."""
_FEW = 200
"""Calls of one name up to which each of the other side is looked for among them one by one."""
_FEW_PAIRS = 1600
"""Pairs of one name up to which equal calls are found by comparing each with each."""
_FEW_UNEQUAL = 36
"""Pairs that remain up to which they are compared one by one."""
_CELLS_EACH = 16
"""Pairs for each call, up to which they are gone through one by one when only names are compared."""


def weight(
    expected: Calls,
    called: Calls,
    *,
    ordered: bool = False,
    arguments: bool = False,
    kinds: Kinds = _ANY,
) -> Ratio | None:
    """Return the sum of similarities of the best alignment, which is `align(...).matched` without the alignment.

    Args:
        expected: What should have been called.
        called: What was called.
        ordered: Pairs must keep the order of both sides.
        arguments: Compare the argument objects, with partial credit.
        kinds: What `kinds_of` says of the arguments; it saves time to know it.

    Returns:
        A numerator and a denominator, not reduced; `None` where a value is redacted, so that `align` has to decide.
    """
    if not arguments:
        return (_names_in_order if ordered else _names)(expected[0], called[0]), 1
    return _in_order(expected, called, kinds) if ordered else _any_order(expected, called, kinds)


def _names(expected: list[str], called: list[str]) -> int:
    left: dict[str, int] = {}
    for name in expected:
        left[name] = left.get(name, 0) + 1
    found = 0
    for name in called:
        amount = left.get(name, 0)
        if amount:
            found += 1
            left[name] = amount - 1
    return found


def _names_in_order(expected: list[str], called: list[str]) -> int:
    ours, theirs = without_ends(expected, called, str.__eq__)
    cut = len(expected) - len(ours)
    places: dict[str, list[int]] = {}
    for index, name in enumerate(theirs):
        places.setdefault(name, []).append(index)
    if sum(len(places.get(name, ())) for name in ours) > _CELLS_EACH * (len(ours) + len(theirs)):
        return cut + longest_subsequence(ours, theirs)
    return cut + heaviest_subsequence([dict.fromkeys(places.get(name, ()), 1) for name in ours])


def _any_order(expected: Calls, called: Calls, kinds: Kinds) -> Ratio | None:
    wanted = by_name(expected)
    is_easy = kinds.equal is operator.eq and not kinds.marked
    paired: tuple[int, ByName] | None
    if is_easy and (len(expected[0]) <= _FEW or max(map(len, wanted.values())) <= _FEW):
        paired = _paired_at_once(wanted, called)
    else:
        paired = _paired_by_name(wanted, called, kinds)
    if paired is None:
        return None
    numerator, made = paired
    denominator = 1
    for name, theirs in made.items():
        ours = wanted[name]
        if ours and theirs:
            ratio = _greatest(ours, theirs, kinds.equal)
            if ratio[1] == denominator:
                numerator += ratio[0]
            else:
                numerator, denominator = _add((numerator, denominator), ratio)
    return numerator, denominator


def by_name(calls: Calls) -> ByName:
    """Return the arguments of the calls of each name."""
    found: ByName = {}
    for name, arguments in zip(*calls):  # noqa: B905 - equally long, and asked of every case
        if name in found:
            found[name].append(arguments)
        else:
            found[name] = [arguments]
    return found


def _add(a: Ratio, b: Ratio) -> Ratio:
    """Return the sum of two exact ratios, over their least common denominator."""
    shared = gcd(a[1], b[1])
    return a[0] * (b[1] // shared) + b[0] * (a[1] // shared), a[1] // shared * b[1]


def _paired_at_once(wanted: ByName, called: Calls) -> tuple[int, ByName]:
    """Pair equal calls, in the interpreter's own loops; take those that are expected out of `wanted`.

    Returns:
        How many pairs there are, and the arguments of the other called tools; only names that are wanted.
    """
    found = 0
    made: ByName = {}
    for name, arguments in zip(*called):  # noqa: B905 - as above
        if name in wanted:
            ours = wanted[name]
            if arguments in ours:
                ours.remove(arguments)
                found += 1
            elif name in made:
                made[name].append(arguments)
            else:
                made[name] = [arguments]
    return found, made


def _paired_by_name(wanted: ByName, called: Calls, kinds: Kinds) -> tuple[int, ByName] | None:
    """Return the same of many calls, and of values that are harder to compare; `None` where `align` has to decide."""
    made = {name: theirs for name, theirs in by_name(called).items() if name in wanted}
    found = 0
    for name, theirs in made.items():
        ours = wanted[name]
        rest, others = without_ends(ours, theirs, kinds.equal)
        few = len(rest) * len(others) <= _FEW_PAIRS
        rest, others = _unequal(rest, others, kinds.equal) if few else _unequal_of_many(rest, others)
        if rest and others and kinds.marked and any(map(has_mark, chain(ours, theirs))):
            return None
        found += len(ours) - len(rest)
        wanted[name], made[name] = rest, others
    return found, made


def _greatest(ours: list[Arguments], theirs: list[Arguments], equal: Equal) -> Ratio:
    """Return the greatest sum of similarities of the calls of one name; there are some on both sides."""
    if len(ours) > len(theirs):
        ours, theirs = theirs, ours  # similarity is the same both ways
    if len(ours) == 1 and len(theirs) <= _FEW_UNEQUAL:
        return _best(ours[0], theirs, equal)
    rows, unit = _rows(ours, theirs, equal)
    return heaviest_matching(rows, len(theirs)), unit


def _best(one: Arguments, others: list[Arguments], equal: Equal) -> Ratio:
    """Return the greatest similarity of one object with any of several."""
    best = similarity(one, others[0], equal)
    for other in others[1:]:
        ratio = similarity(one, other, equal)
        if ratio[0] * best[1] > best[0] * ratio[1]:
            best = ratio
    return best


def _unequal(ours: list[Arguments], theirs: list[Arguments], equal: Equal) -> Group:
    """Return the objects of both sides that remain when equal ones are paired, by comparing one with the other."""
    rest: list[Arguments] = []
    others = theirs[:]
    for one in ours:
        for index, other in enumerate(others):
            if equal(one, other):
                del others[index]
                break
        else:
            rest.append(one)
    return rest, others


def _unequal_of_many(ours: list[Arguments], theirs: list[Arguments]) -> Group:
    """Return the same by looking objects up."""
    waiting: dict[Hashable, list[Arguments]] = {}
    for one in theirs:
        waiting.setdefault(key_of(one), []).append(one)
    rest: list[Arguments] = []
    for one in ours:
        found = waiting.get(key_of(one))
        if found:
            found.pop()
        else:
            rest.append(one)
    return rest, [one for several in waiting.values() for one in several]


def _rows(left: list[Arguments], right: list[Arguments], equal: Equal) -> tuple[list[Row], int]:
    """Return the similarities of all pairs, as `common` does; a few pairs by comparing each object with each."""
    if len(left) * len(right) > _FEW_UNEQUAL:
        return common(left, right, list(map(leaves_of, left)), list(map(leaves_of, right)))
    ratios = [[similarity(a, b, equal) for b in right] for a in left]
    unit = lcm(*{ratio[1] for row in ratios for ratio in row})
    return [{index: top * (unit // bottom) for index, (top, bottom) in enumerate(row) if top} for row in ratios], unit


def _ends(a: Sequence[Any], b: Sequence[Any], same: Equal) -> tuple[int, int]:
    """Return how many items at the beginning are the same on both sides, and how many of the rest at the end."""
    shorter = min(len(a), len(b))
    start = stop = 0
    while start < shorter and same(a[start], b[start]):
        start += 1
    while stop < shorter - start and same(a[-1 - stop], b[-1 - stop]):
        stop += 1
    return start, stop


def without_ends(a: list[T], b: list[T], same: Equal) -> tuple[list[T], list[T]]:
    """Return the items of both sides between an equal beginning and an equal end."""
    start, stop = _ends(a, b, same)
    return a[start : len(a) - stop], b[start : len(b) - stop]


def _in_order(expected: Calls, called: Calls, kinds: Kinds) -> Ratio | None:
    start, stop = _ends(list(zip(*expected, strict=True)), list(zip(*called, strict=True)), equal_calls(kinds.equal))
    groups: dict[str, tuple[list[int], list[int]]] = {}
    for index in range(start, len(expected[0]) - stop):
        groups.setdefault(expected[0][index], ([], []))[0].append(index)
    for index in range(start, len(called[0]) - stop):
        name = called[0][index]
        if name in groups:
            groups[name][1].append(index)
    parts: list[tuple[list[int], list[int], list[Row], int]] = []
    for left, right in groups.values():
        if right:
            a, b = [expected[1][index] for index in left], [called[1][index] for index in right]
            if kinds.marked and any(map(has_mark, chain(a, b))):
                return None
            parts.append((left, right, *_rows(a, b, kinds.equal)))
    unit = 1
    for *_, own in parts:
        unit = unit // gcd(unit, own) * own
    cells: list[Row] = [{} for _ in expected[0]]
    for left, right, rows, own in parts:
        scale = unit // own
        for index, row in zip(left, rows, strict=True):
            cells[index] = {right[column]: worth * scale for column, worth in row.items()}
    return (start + stop) * unit + heaviest_subsequence(cells), unit


def equal_calls(equal: Equal) -> Equal:
    """Return what says whether two calls, pairs of name and arguments, are equal."""
    return equal if equal is operator.eq else lambda a, b: a[0] == b[0] and equal(a[1], b[1])
