"""Similarities of many argument objects at once.

The similarity of two objects is a sum over their *leaves*: the values that are not objects (or are empty ones), each
identified by its path. Where two objects have an equal leaf at the same path, it adds 1 / (u1 * u2 * ... * uk), u being
the number of keys that either side names at each of the levels down to it. These shares depend only on which paths the
two objects have, their *shapes*, of which many calls of one tool have few. So the shares are computed once for a pair
of shapes. The objects that have one leaf are one packed row, so a row of similarities is a sum of such rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from math import lcm
from typing import Any, Final, NamedTuple

from toolgrade.matching.json_compare import frozen
from toolgrade.matching.packed_assignment import greatest_price
from toolgrade.matching.packed_rows import Lanes

Leaves = dict[Hashable, Hashable]
"""The values of an object by their paths, so frozen that they are equal where `json_equal` says so. A path is a key, or
a key with the path that goes on inside of it."""


class PackedMatrix(NamedTuple):
    """Similarities of all pairs of two groups, as packed rows of multiples of 1 / `unit`."""

    rows: list[int]
    lanes: Lanes
    unit: int


_NOTHING: Final[Leaves] = {(): ()}
"""The leaves of an empty object, which is equal to another one."""


def leaves_of(arguments: dict[str, Any]) -> Leaves:
    """Return the leaves of an argument object. Two objects are equal exactly where their leaves are."""
    if not arguments:
        return _NOTHING
    leaves: Leaves = {}
    for key, value in arguments.items():
        kind = type(value)
        if kind is str or kind is int or value is None or (kind is float and value == value):  # noqa: PLR0124 - NaN
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
    for key in a.keys() & b.keys():
        value, other = a[key], b[key]
        inner, outer = _has_leaves(value), _has_leaves(other)
        if inner and outer:
            for path, parts in shares(value, other):
                yield (key, path), parts * union
        elif not inner and not outer:
            yield key, union


def _has_leaves(value: object) -> bool:
    """Return whether a value is an object with leaves of its own; an empty object is a leaf."""
    return type(value) is dict and bool(value)


def common(left: Sequence[dict[str, Any]], right: Sequence[dict[str, Any]]) -> PackedMatrix:
    """Return the similarities of all pairs of two groups of argument objects.

    Cost: one step for each leaf of either side, for each pair of shapes and path, and for each row and path.

    Args:
        left: One side; a row each.
        right: The other; a column each.
    """
    left_leaves, right_leaves = list(map(leaves_of, left)), list(map(leaves_of, right))
    left_groups, right_groups = _by_shape(left_leaves), _by_shape(right_leaves)
    right_shapes = [right[group[0]] for group in right_groups]
    parts_of = [_parts(left[group[0]], right_shapes) for group in left_groups]
    unit = _common_unit(parts_of)
    lanes = Lanes(len(right), greatest_price(unit))
    shape_of = [0] * len(right)
    for shape, group in enumerate(right_groups):
        for column in group:
            shape_of[column] = shape
    rows = [0] * len(left)
    for path, holders in _columns_by_leaf(right_leaves).items():
        masks: dict[Hashable, int] = {}
        for group, parts in zip(left_groups, parts_of, strict=True):
            if path not in parts:
                continue
            share_row = lanes.packed(_shares_of_columns(parts[path], unit, shape_of))
            for index in group:
                value = left_leaves[index][path]
                if value not in masks:
                    masks[value] = lanes.filled_at(holders.get(value, ()))
                rows[index] += share_row & masks[value]
    return PackedMatrix(rows, lanes, unit)


def _parts(one: dict[str, Any], others: Sequence[dict[str, Any]]) -> dict[Hashable, dict[int, int]]:
    """Return, by path and position of the other object, the number that a share of `one` with it is one part of."""
    parts: dict[Hashable, dict[int, int]] = {}
    for shape, other in enumerate(others):
        for path, number in shares(one, other):
            parts.setdefault(path, {})[shape] = number
    return parts


def _common_unit(parts_of: Sequence[dict[Hashable, dict[int, int]]]) -> int:
    """Return the least number for which every share is a multiple of 1 / number."""
    return lcm(*{number for parts in parts_of for by_shape in parts.values() for number in by_shape.values()})


def _shares_of_columns(parts: dict[int, int], unit: int, shape_of: Sequence[int]) -> list[int]:
    """Return the share of one path for each column, from the number that it is one part of for each shape."""
    share_of = {shape: unit // number for shape, number in parts.items()}
    return [share_of.get(shape, 0) for shape in shape_of]


def _columns_by_leaf(leaves: Sequence[Leaves]) -> dict[Hashable, dict[Hashable, list[int]]]:
    """Return, by path and value, the positions of the objects that have this leaf."""
    columns: dict[Hashable, dict[Hashable, list[int]]] = {}
    for column, values in enumerate(leaves):
        for path, value in values.items():
            columns.setdefault(path, {}).setdefault(value, []).append(column)
    return columns


def _by_shape(leaves: Sequence[Leaves]) -> list[list[int]]:
    """Return the positions of the objects of each shape."""
    shapes: dict[frozenset[Hashable], list[int]] = {}
    for index, paths in enumerate(leaves):
        shapes.setdefault(frozenset(paths), []).append(index)
    return list(shapes.values())
