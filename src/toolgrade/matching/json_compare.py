"""Equality and similarity of JSON values, and where two of them differ.

Rules: `1 == 1.0`, but `True != 1` and `1 != "1"`; NaN equals NaN; strings are exact; lists are ordered and all or
nothing. Argument objects are similar in part: a key whose values are equal counts 1, one whose values are two objects
counts their similarity, any other key counts 0, and the sum is divided by the number of keys that either side names. So
a wrong, a missing and an extra argument all cost: `{"a": 1, "b": 2}` and `{"a": 1, "b": 3, "c": 4}` have 1/3.

Similarities are exact rationals (numerator, denominator), not floats: a sum of them does not depend on the order in
which it is made, and two equal sums are seen to be equal.

Values are JSON values of the exact types `None, bool, int, float, str, list, dict`. Scoring spends most of its time
here, so each function that visits keys compares values of `SELF_FROZEN` types in place, and calls `json_equal` for the
rest: a call costs more than the comparison.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Hashable, Sequence
from math import gcd
from typing import Any, Final, Literal, NamedTuple

from toolgrade._internal.json import is_redacted

Path = tuple["str | int", ...]
"""Keys and positions that lead to a place in a value."""


class AbsentType:
    """The type of `ABSENT`."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return `ABSENT`."""
        return "ABSENT"

    def __reduce__(self) -> str:
        """Stay one object when pickled."""
        return "ABSENT"


SELF_FROZEN: Final = frozenset({str, int, type(None)})
"""Types whose values are equal as JSON exactly if they are in Python: `True == 1`, and a float may be NaN."""

SCALARS: Final = frozenset({str, int, float, bool, type(None)})
"""Types of values that are neither lists nor objects."""

_JSON_STARTS: Final = frozenset('{["-0123456789tfnNI')
"""First characters of JSON texts as Python reads them, with NaN and Infinity; other texts are not parsed in vain."""

ABSENT: Final = AbsentType()
"""Stands where there is no value: a field that was never set or not captured, a key that one side lacks."""

_TRUE, _FALSE, _NAN = object(), object(), object()
"""Stand for `True`, `False` and NaN in `frozen`, since Python has `True == 1` and `nan != nan`."""


class Difference(NamedTuple):
    """One place where an expected and a called value differ.

    Attributes:
        kind: What is wrong; `missing_argument` and `extra_argument` are keys that one side lacks. `equal_by_meaning` is
            not wrong: two spellings of one value.
        path: Where, from the argument object (or from the output) down.
        expected: The expected value; `ABSENT` for an extra argument.
        called: The value in the call; `ABSENT` for a missing argument.
    """

    kind: Literal[
        "wrong_argument",
        "missing_argument",
        "extra_argument",
        "wrong_output",
        "wrong_type",
        "equal_by_meaning",
    ]
    path: Path
    expected: Any
    called: Any


def json_equal(a: Any, b: Any) -> bool:
    """Return whether two JSON values are equal.

    Numbers are equal if their values are, so `3` equals `3.0`; NaN equals itself. Values of different JSON types are
    never equal: `1` equals neither `"1"` nor `True`. The order of keys does not matter.

    Example:
        >>> from toolgrade.capture import json_equal
        >>> expected = {"city": "Paris", "days": 3}
        >>> json_equal(expected, {"days": 3.0, "city": "Paris"}), json_equal(expected, {"days": "3", "city": "Paris"})
        (True, False)
    """
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return {kind, type(b)} == {int, float} and bool(a == b)
    if kind is dict:
        return len(a) == len(b) and _has_entries(a, b)
    if kind is list:
        return len(a) == len(b) and all(map(json_equal, a, b))
    return bool(a == b or (a != a and b != b))  # noqa: PLR0124 - only NaN differs from itself


def _has_entries(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Return whether all entries of `b` are entries of `a`."""
    for key, value in b.items():
        other = a.get(key, ABSENT)
        # Leaves are often the same Python object on both sides.
        if value is other or (type(value) in SELF_FROZEN and type(value) is type(other) and value == other):
            continue
        if not json_equal(value, other):
            return False
    return True


def outputs_equal(a: Any, b: Any) -> bool:
    """Return whether two outputs are equal as JSON values, or become equal when texts are read as JSON.

    Some frameworks keep the value that a tool returned, `{"sum": 3}`, others the text that the model was shown,
    `'{"sum":3}'`, and they write that text in different ways.
    """
    return json_equal(a, b) or forms_equal(json_forms(a), json_forms(b))


def forms_equal(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Return whether two outputs with these `json_forms` are equal."""
    return any(json_equal(one, other) for one in a for other in b)


def json_forms(output: Any) -> Sequence[Any]:
    """Return an output, and if it is a JSON text also the value of that text."""
    if type(output) is str and output.lstrip()[:1] in _JSON_STARTS:
        with contextlib.suppress(ValueError, RecursionError):
            return output, json.loads(output)
    return (output,)


def similarity(a: dict[str, Any], b: dict[str, Any]) -> tuple[int, int]:
    """Return how similar two argument objects are, as an exact rational in [0, 1], such as (1, 3).

    Cost: one visit of every value that both name.
    """
    union = len(b)
    equal = 0
    parts: list[tuple[int, int]] = []
    for key, value in a.items():
        other = b.get(key, ABSENT)
        kind = type(value)
        if other is ABSENT:
            union += 1
        elif kind is type(other) in SELF_FROZEN:
            equal += value == other
        elif kind is dict and type(other) is dict:
            part = similarity(value, other)
            if part == (1, 1):
                equal += 1
            elif part[0]:
                parts.append(part)
        elif json_equal(value, other):
            equal += 1
    if parts:
        return mean(equal, parts, union)
    return (1, 1) if equal == union else (equal, union)


def mean(equal: int, parts: list[tuple[int, int]], count: int) -> tuple[int, int]:
    """Return the mean over `count` values, of which `equal` count 1, some count `parts`, and the others count 0.

    The result is in its lowest terms.
    """
    numerator, denominator = equal, 1
    for part in parts:
        numerator, denominator = numerator * part[1] + part[0] * denominator, denominator * part[1]
    denominator *= count
    shared = gcd(numerator, denominator)
    return numerator // shared, denominator // shared


def argument_differences(expected: dict[str, Any], called: dict[str, Any], path: Path = ()) -> list[Difference]:
    """Return every place where two argument objects differ: the keys of `expected` in their order, then extra keys."""
    differences: list[Difference] = []
    for key, value in expected.items():
        other = called.get(key, ABSENT)
        kind = type(value)
        if kind is type(other) in SELF_FROZEN and value == other:
            continue
        if other is ABSENT:
            differences.append(Difference("missing_argument", (*path, key), value, ABSENT))
        elif kind is dict and type(other) is dict:
            differences += argument_differences(value, other, (*path, key))
        elif not json_equal(value, other):
            differences.append(Difference("wrong_argument", (*path, key), value, other))
    for key, value in called.items():
        if key not in expected:
            differences.append(Difference("extra_argument", (*path, key), ABSENT, value))
    return differences


def frozen(value: Any) -> Hashable:
    """Return a hashable key of a JSON value; two values have equal keys exactly if `json_equal` says they are equal."""
    kind = type(value)
    if kind in SELF_FROZEN:
        return value  # type: ignore[no-any-return]
    if kind is dict:
        return "dict", frozenset(zip(value, map(frozen, value.values()), strict=True))
    if kind is list:
        return "list", tuple(map(frozen, value))
    if kind is bool:
        return _TRUE if value else _FALSE
    return value if value == value else _NAN  # noqa: PLR0124 - NaN


def has_mark(value: Any) -> bool:
    """Return whether a value is or contains the mark of a redacted secret, also in a matcher; keys do not count."""
    if type(value) is not dict and type(value) is not list:
        return is_redacted(value) or (type(value) not in SCALARS and getattr(value, "holds_mark", False))
    for item in value.values() if type(value) is dict else value:  # noqa: SIM110 - `any` would take more stack
        if has_mark(item):
            return True
    return False


def is_hidden(value: object) -> bool:
    """Return whether a value is redacted, so that it cannot be compared.

    An object is compared key by key, so it is never hidden as a whole.
    """
    return type(value) is not dict and has_mark(value)


def place(field: str, path: Path) -> str:
    """Return a field of a call and a path in it as one text, such as `input_parameters.filters[0]["max-price"]`."""
    return field + "".join(
        f".{part}" if isinstance(part, str) and part.isidentifier() else f"[{json.dumps(part)}]" for part in path
    )
