"""What kinds of values stand in these objects? Told of many objects at once, level by level and in the interpreter's own
loops, so that it costs a fraction of looking at each value in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

_JSON: Final[frozenset[type]] = frozenset({str, int, float, bool, type(None), list, dict})
_INNER: Final[frozenset[type]] = frozenset({dict, list})
_TEXT: Final[frozenset[type]] = frozenset({str})
_NUMBERS: Final[frozenset[type]] = frozenset({int, float})
_LEVELS: Final = 50
"""Levels that are looked into; what is deeper is left to others. A JSON value may have 200."""


def python_equal(objects: Sequence[dict[Any, Any]]) -> bool | None:
    """Return whether Python's `==` says of all values in some objects what `json_equal` says of them, but for NaN.

    It does not where truth values stand beside numbers, since `True == 1`.

    Returns:
        `None` if something in them is no JSON value of the exact types, or stands very deep.
    """
    found: set[type] = set()
    inside: Sequence[dict[Any, Any]] = objects
    listed: Sequence[list[Any]] = ()
    for _ in range(_LEVELS):
        if not _TEXT.issuperset(map(type, chain.from_iterable(inside))):
            return None
        values = list(chain.from_iterable([*map(dict.values, inside), *listed]))
        found.update(map(type, values))
        if not found <= _JSON:
            return None
        values = [value for value in values if value.__class__ in _INNER] if not found.isdisjoint(_INNER) else []
        if not values:
            return bool not in found or found.isdisjoint(_NUMBERS)
        inside = [value for value in values if value.__class__ is dict]
        listed = [value for value in values if value.__class__ is list]
    return None
