"""What kinds of values stand in these objects, and how may they be compared?

Told of many objects at once, level by level, so that each value is touched once and what is asked of all values of one
type is asked in the interpreter's own loops.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

from toolmark._internal.markers import REDACTED
from toolmark.matching.json_compare import json_equal

Equal: TypeAlias = Callable[[Any, Any], bool]
"""Says whether two JSON values are equal."""

_JSON: Final[frozenset[type]] = frozenset({str, int, float, bool, type(None), list, dict})
_TRUTH_LIKE: Final = frozenset({0, 1})
_TEXT: Final[frozenset[type]] = frozenset({str})
_LEVELS: Final = 50
"""Levels that are looked into; what is deeper is left to others. A JSON value may have 200."""


class Kinds(NamedTuple):
    """What stands in some objects.

    Attributes:
        equal: The fastest function that says of their values what `json_equal` says. Python's own `==` does not where
            truth values stand beside 0 or 1, since `True == 1`, nor of a NaN.
        marked: Whether a text among them, at any depth, holds the mark of redacted values; see `has_mark`.
    """

    equal: Equal
    marked: bool


def kinds_of(objects: Sequence[dict[Any, Any]]) -> Kinds | None:
    """Return what stands in some objects.

    Returns:
        `None` if something in them is no JSON value of the exact types, or stands very deep.
    """
    inside: Sequence[dict[Any, Any]] = objects
    listed: Sequence[list[Any]] = ()
    found: set[type] = set()
    numbers: list[list[float]] = []
    marked = unequal = False
    for _ in range(_LEVELS):
        if not _TEXT.issuperset(map(type, set().union(*inside))):
            return None
        level: defaultdict[type, list[Any]] = defaultdict(list)
        for several in chain(map(dict.values, inside), listed):
            for value in several:
                level[type(value)].append(value)
        found.update(level)
        if not found <= _JSON:
            return None
        marked = marked or REDACTED in "\n".join(level.get(str, ()))
        numbers += level.get(int, []), level.get(float, [])
        total = sum(numbers[-1])
        unequal = unequal or total != total  # noqa: PLR0124 - a NaN makes it one; so may infinities, which is no harm
        inside, listed = level.get(dict, ()), level.get(list, ())
        if not inside and not listed:
            break
    else:
        return None
    if unequal:
        return Kinds(json_equal, marked)
    strict = bool in found and not all(map(_TRUTH_LIKE.isdisjoint, numbers))
    return Kinds(strictly_equal if strict else operator.eq, marked)


def strictly_equal(a: object, b: object) -> bool:
    """Return whether two JSON values without NaN are equal; quick where they are not."""
    return bool(a == b) and json_equal(a, b)
