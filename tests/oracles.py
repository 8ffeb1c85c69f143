"""Slow, obvious answers to what the library answers fast.

Nothing here is clever: a score is the best of all alignments, and all of them are listed. So a difference between an
oracle and the library is an error of the library, or a rule that is not written clearly enough.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from toolgrade.matching.alignment import CallItem
from toolgrade.matching.json_compare import ABSENT

Positions = tuple[tuple[int, int], ...]
"""Pairs (expected position, called position), ascending."""


def equal(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal: numbers by value, NaN as itself, true and false as nothing but themselves."""
    if a is None or b is None or isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or (a != a and b != b)  # noqa: PLR0124 - only NaN differs from itself
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return isinstance(a, str) and isinstance(b, str) and a == b


def outputs_equal(a: Any, b: Any) -> bool:
    """Whether two outputs are equal, or are when one text or both are read as JSON."""
    return any(equal(one, other) for one in (a, _read(a)) for other in (b, _read(b)))


def _read(output: Any) -> Any:
    try:
        return json.loads(output) if isinstance(output, str) else output
    except ValueError:
        return output


def object_similarity(a: dict[str, Any], b: dict[str, Any]) -> Fraction:
    """1 if equal, else over the union of the keys: equal values 1, objects recurse, otherwise 0."""
    if equal(a, b):
        return Fraction(1)
    union = a.keys() | b.keys()
    return sum((_credit(a[key], b[key]) for key in a.keys() & b.keys()), Fraction()) / len(union)


def _credit(a: Any, b: Any) -> Fraction:
    if isinstance(a, dict) and isinstance(b, dict):
        return object_similarity(a, b)
    return Fraction(equal(a, b))


def call_similarity(e: CallItem, c: CallItem, *, arguments: bool, output: bool) -> Fraction:
    """What an expected and a called tool are worth to each other; a field that either side lacks is not compared."""
    if e.name != c.name:
        return Fraction(0)
    if e.type is not None and c.type is not ABSENT and e.type != c.type:
        return Fraction(0)
    worth = Fraction(1)
    if output and e.output is not ABSENT and c.output is not ABSENT:
        worth *= outputs_equal(e.output, c.output)
    if isinstance(e.arguments, str) or isinstance(c.arguments, str):  # broken argument text
        worth *= not arguments or ABSENT in (e.arguments, c.arguments) or e.arguments == c.arguments
    elif arguments and e.arguments is not ABSENT and c.arguments is not ABSENT:
        worth *= object_similarity(e.arguments, c.arguments)  # type: ignore[arg-type]
    return worth


Rank = tuple[Fraction, int, int, int]
"""Of an alignment: its weight, equal pairs (k-th with k-th), number of pairs, and the sum of distances, negative.

Where some expected calls state their turn and others do not, equal pairs do not come first.
"""


def ranks(
    expected: Sequence[CallItem],
    called: Sequence[CallItem],
    left: Sequence[int],
    right: Sequence[int],
    *,
    crossing: bool,
    arguments: bool,
    output: bool,
) -> dict[Positions, Rank]:
    """Return the rank of each one-to-one alignment of calls of equal name, and turn if stated, at these positions."""
    worth = {
        (i, j): call_similarity(e, c, arguments=arguments, output=output)
        for i, e in enumerate(expected)
        for j, c in enumerate(called)
        if e.name == c.name and e.turn in (None, c.turn)
    }
    is_mixed = len({item.turn is None for item in expected}) > 1

    equal = equal_pairs(expected, called, left, right, arguments=arguments, output=output)

    def rank(pairs: Positions) -> Rank:
        weight = sum((worth[pair] for pair in pairs), Fraction())
        return weight, 0 if is_mixed else len(equal.intersection(pairs)), len(pairs), -sum(abs(e - c) for e, c in pairs)

    return {pairs: rank(pairs) for pairs in _alignments(worth, left, right, crossing=crossing)}


def equal_pairs(
    expected: Sequence[CallItem],
    called: Sequence[CallItem],
    left: Sequence[int],
    right: Sequence[int],
    *,
    arguments: bool,
    output: bool,
) -> set[tuple[int, int]]:
    """Return the k-th of several equal expected calls with the k-th of the equal called ones."""
    pairs: set[tuple[int, int]] = set()
    for e in left:
        same = [other for other in left if expected[other].name == expected[e].name]
        fields = [
            field
            for field, compared in (("type", True), ("turn", True), ("arguments", arguments), ("output", output))
            if compared
            and any(
                getattr(expected[other], field) not in (None, ABSENT)
                or (field == "output" and expected[other].output is None)
                for other in same
            )
        ]

        def is_equal(one: CallItem, other: CallItem, fields: Sequence[str] = fields) -> bool:
            return one.name == other.name and all(
                _set_and_equal(field, getattr(one, field), getattr(other, field)) for field in fields
            )

        rank = sum(is_equal(expected[other], expected[e]) for other in left if other < e)
        partners = [c for c in right if is_equal(expected[e], called[c])]
        if is_equal(expected[e], expected[e]) and rank < len(partners):
            pairs.add((e, partners[rank]))
    return pairs


def _set_and_equal(field: str, a: Any, b: Any) -> bool:
    is_set = all(value is not ABSENT and (field == "output" or value is not None) for value in (a, b))
    return is_set and equal(a, b)


def _alignments(
    worth: dict[tuple[int, int], Fraction], left: Sequence[int], right: Sequence[int], *, crossing: bool
) -> Iterator[Positions]:
    if not left:
        yield ()
        return
    first, rest = left[0], left[1:]
    yield from _alignments(worth, rest, right, crossing=crossing)
    for place, other in enumerate(right):
        if (first, other) in worth:
            free = [*right[:place], *right[place + 1 :]] if crossing else right[place + 1 :]
            for pairs in _alignments(worth, rest, free, crossing=crossing):
                yield ((first, other), *pairs)


#: Fields whose value is one of our objects or a list of them; every other value belongs to the user.
NESTED = frozenset(
    {"available_tools", "calls", "children", "execution", "expected_tools", "handoffs", "run", "tools_called", "turns"}
)


def camel_form(plain: dict[str, Any]) -> dict[str, Any]:
    """Return the object with camelCase field names; the user's keys stay unchanged."""
    return {_camel(name): _camel_value(value) if name in NESTED else value for name, value in plain.items()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _camel_value(value: Any) -> Any:
    if isinstance(value, list):
        return [camel_form(item) if isinstance(item, dict) else item for item in value]
    return camel_form(value) if isinstance(value, dict) else value


def fields_set(model: Any) -> Any:
    """The names of the fields that were set, here and in every object inside."""
    if isinstance(model, list):
        return [fields_set(item) for item in model]
    if not hasattr(model, "model_fields_set"):
        return None
    return {name: fields_set(getattr(model, name)) for name in model.model_fields_set}
