"""Has each call of one side an equal one on the other? A question that is often answered by the first call.

It is what scores of 1 or 0 ask: were all expected calls made, or were all that were made expected? Similarities need
not be added up to see whether they come to the greatest possible sum: one call without an equal says that they do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

from toolmark.matching._kinds import Equal, Kinds
from toolmark.matching._leaves import key_of
from toolmark.matching._weight import Arguments, Calls, by_name, equal_calls, without_ends
from toolmark.matching.redacted_values import has_mark

_FEW: Final = 40
"""Calls of one name up to which equal ones are looked for one by one."""
_PROBES: Final = 8
"""Of more, so many are looked for one by one before all are made ready to be looked up."""


def contained(inner: Calls, outer: Calls, *, ordered: bool, arguments: bool, kinds: Kinds) -> bool | None:
    """Return whether each call of one side has an equal one on the other, one for one.

    Args:
        inner: The calls of which each needs another.
        outer: Where they are looked for.
        ordered: Pairs must keep the order of both sides.
        arguments: Compare the argument objects, not only names.
        kinds: What `kinds_of` says of the arguments.

    Returns:
        `None` where a value is redacted, so that `align` has to decide.
    """
    if len(inner[0]) > len(outer[0]):
        return False
    if arguments and kinds.marked and any(map(has_mark, chain(inner[1], outer[1]))):
        return None
    if not arguments:
        return _in_order(inner[0], outer[0], str.__eq__) if ordered else not Counter(inner[0]) - Counter(outer[0])
    if not ordered:
        return _in_any_order(inner, outer, kinds.equal)
    return _in_order(list(zip(*inner, strict=True)), list(zip(*outer, strict=True)), equal_calls(kinds.equal))


def _in_order(inner: Sequence[Any], outer: Sequence[Any], same: Equal) -> bool:
    """Take the first that is equal for each; where that does not do, nothing does."""
    spare = len(outer) - len(inner)
    place = 0
    for one in inner:
        while not same(one, outer[place]):
            if not spare:
                return False
            spare -= 1
            place += 1
        place += 1
    return True


def _in_any_order(inner: Calls, outer: Calls, equal: Equal) -> bool:
    offered, wanted = by_name(outer), by_name(inner)
    if not wanted.keys() <= offered.keys():
        return False
    return all(_has_equals(ours, offered[name], equal) for name, ours in wanted.items())


def _has_equals(ours: list[Arguments], theirs: list[Arguments], equal: Equal) -> bool:
    if len(ours) > len(theirs):
        return False
    if len(theirs) > _FEW:
        ours, theirs = without_ends(ours, theirs, equal)
    is_many = len(theirs) > _FEW
    for one in ours[:_PROBES] if is_many else ours:
        place = next((place for place, other in enumerate(theirs) if equal(one, other)), None)
        if place is None:
            return False
        if not is_many:
            del theirs[place]
    return not is_many or not Counter(map(key_of, ours)) - Counter(map(key_of, theirs))
