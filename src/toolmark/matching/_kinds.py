"""What kinds of values stand in these objects, and how may they be compared?

Told of many objects at once, level by level and in the interpreter's own loops, so that it costs a fraction of looking
at each value in turn.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

from toolmark._marker import REDACTED
from toolmark.matching._values import json_equal

Equal: TypeAlias = Callable[[Any, Any], bool]
"""Says whether two JSON values are equal."""

_JSON: Final[frozenset[type]] = frozenset({str, int, float, bool, type(None), list, dict})
_INNER: Final[frozenset[type]] = frozenset({dict, list})
_TEXT: Final[frozenset[type]] = frozenset({str})
_NUMBERS: Final[frozenset[type]] = frozenset({int, float})
_LEVELS: Final = 50
"""Levels that are looked into; what is deeper is left to others. A JSON value may have 200."""


class Kinds(NamedTuple):
    """What stands in some objects.

    Attributes:
        equal: The fastest function that says of their values what `json_equal` says. Python's own `==` does not where
            truth values stand beside numbers, since `True == 1`, nor of a NaN.
        marked: Whether a text among them, at any depth, holds the mark of redacted values; see `has_mark`.
    """

    equal: Equal
    marked: bool


def kinds_of(objects: Sequence[dict[Any, Any]]) -> Kinds | None:
    """Return what stands in some objects.

    Returns:
        `None` if something in them is no JSON value of the exact types, or stands very deep.
    """
    found: set[type] = set()
    inside: Sequence[dict[Any, Any]] = objects
    listed: Sequence[list[Any]] = ()
    marked = unequal = False
    for _ in range(_LEVELS):
        if not _TEXT.issuperset(map(type, set().union(*inside))):
            return None
        values = list(chain.from_iterable([*map(dict.values, inside), *listed]))
        types = set(map(type, values))
        found |= types
        if not types <= _JSON:
            return None
        if str in types:
            marked = marked or REDACTED in "\n".join([value for value in values if type(value) is str])
        if float in types:
            total = sum([value for value in values if type(value) is float])
            unequal = unequal or total != total  # noqa: PLR0124 - a NaN makes it one; so may infinities, which is no harm
        if types.isdisjoint(_INNER):
            break
        inside = [value for value in values if type(value) is dict] if dict in types else ()
        listed = [value for value in values if type(value) is list] if list in types else ()
    else:
        return None
    if unequal:
        return Kinds(json_equal, marked)
    return Kinds(strictly_equal if bool in found and not found.isdisjoint(_NUMBERS) else operator.eq, marked)


def strictly_equal(a: object, b: object) -> bool:
    """Return whether two JSON values without NaN are equal; quick where they are not."""
    return bool(a == b) and json_equal(a, b)
