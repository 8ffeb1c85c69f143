"""Similarities of many argument objects at once.

The similarity of two objects is a sum over their *leaves*: the values that are not objects (or are empty ones), each
identified by its path. Where two objects have an equal leaf at the same path, it adds 1 / (u1 * u2 * ... * uk), u being
the number of keys that either side names at each of the levels down to it. These shares depend only on which paths the
two objects have, their *shapes*, of which many calls of one tool have few. So the shares are computed once for a pair
of shapes, an index lists the objects that have each leaf, and only equal leaves cost anything after that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from math import lcm
from typing import Any, Final

from toolmark.matching.json_compare import frozen

Leaves = dict[Hashable, Hashable]
"""The values of an object by their paths, so frozen that they are equal where `json_equal` says so. A path is a key, or
a key with the path that goes on inside of it."""

Row = dict[int, int]
"""By position on the other side what an object has in common with it; those that share nothing are left out."""


_NOTHING: Final[Leaves] = {(): ()}
"""The leaves of an empty object, which is equal to another one."""


def leaves_of(arguments: dict[str, Any]) -> Leaves:
    """Return the leaves of an argument object. Two objects are equal exactly where their leaves are."""
    if not arguments:
        return _NOTHING
    leaves: Leaves = {}
    for key, value in arguments.items():
        kind = type(value)
        if kind is str or kind is int or value is None:
            leaves[key] = value
        elif kind is dict and value:
            for path, leaf in leaves_of(value).items():
                leaves[key, path] = leaf
        else:
            leaves[key] = frozen(value)
    return leaves


def shares(a: dict[str, Any], b: dict[str, Any]) -> Iterator[tuple[Hashable, int]]:
    """Yield each path at which both objects have a leaf, with the number that its share is one part of.

    Args:
        a: An object of the one shape.
        b: An object of the other.
    """
    if not a and not b:
        yield (), 1
    union = len(a.keys() | b.keys())
    for key, value in a.items():
        if key not in b:
            continue
        other = b[key]
        inner, outer = type(value) is dict and bool(value), type(other) is dict and bool(other)
        if inner and outer:
            for path, parts in shares(value, other):
                yield (key, path), parts * union
        elif not inner and not outer:
            yield key, union


def common(
    left: Sequence[dict[str, Any]],
    right: Sequence[dict[str, Any]],
    left_leaves: Sequence[Leaves],
    right_leaves: Sequence[Leaves],
) -> tuple[list[Row], int]:
    """Return the similarities of all pairs of two groups of argument objects, those of similarity 0 left out.

    Cost: one step for each leaf of either side, for each pair of shapes, and for each equal leaf of a pair.

    Args:
        left: One side; a row each.
        right: The other.
        left_leaves: The leaves of each object of the one side.
        right_leaves: Of each of the other.

    Returns:
        The rows, and the unit by which a number in a row is divided to get the similarity.
    """
    shared_paths = [
        (left_group, right_group, list(shares(left[left_group[0]], right[right_group[0]])))
        for left_group in _by_shape(left_leaves)
        for right_group in _by_shape(right_leaves)
    ]
    unit = lcm(*{parts for _, _, paths in shared_paths for _, parts in paths})
    rows: list[defaultdict[int, int]] = [defaultdict(int) for _ in left]
    for left_group, right_group, paths in shared_paths:
        for path, parts in paths:
            # Only columns with an equal value get a share, so that unequal pairs cost nothing.
            holders: dict[Hashable, list[int]] = {}
            for column in right_group:
                holders.setdefault(right_leaves[column][path], []).append(column)
            share = unit // parts
            for index in left_group:
                row = rows[index]
                for column in holders.get(left_leaves[index][path], ()):
                    row[column] += share
    return [dict(row) for row in rows], unit


def _by_shape(leaves: Sequence[Leaves]) -> list[list[int]]:
    """Return the positions of the objects of each shape."""
    shapes: dict[frozenset[Hashable], list[int]] = {}
    for index, paths in enumerate(leaves):
        shapes.setdefault(frozenset(paths), []).append(index)
    return list(shapes.values())
