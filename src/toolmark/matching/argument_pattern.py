"""Argument objects with patterns in the place of some values.

The rules are those of `similarity`: every key that either side names counts, equal values 1, objects recurse, anything
else 0. A `ValuePattern` in the place of a value may count less than a whole key: it can accept a missing value
(`Ignore`, `Optional`); the key is then left out on both sides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, TypeGuard

from toolmark.matching.json_compare import ABSENT, Absent, Difference, Path, json_equal
from toolmark.matching.redacted_values import has_mark, is_hidden

Ratio = tuple[int, int]
"""An exact similarity: (numerator, denominator), from (0, n) to (1, 1)."""

ONE: Ratio = (1, 1)
ZERO: Ratio = (0, 1)


_JSON_TYPES = frozenset({str, int, float, bool, type(None), dict, list})


class ValuePattern(ABC):
    """Stands in the place of an expected value, and says what it accepts there.

    Attributes:
        looks: Whether it looks at the value, and not only at whether there is one; a redacted value cannot be looked
            at.
        by_meaning: Whether it accepts other spellings of one value, which results then list.
    """

    looks: ClassVar[bool] = True
    by_meaning: ClassVar[bool] = False
    __toolmark_matcher__: ClassVar[bool] = True

    @abstractmethod
    def credit(self, value: Any) -> Ratio | None:
        """Return how far a value fits, from (0, 1) to (1, 1); `None` if the place does not count.

        Args:
            value: A JSON value, or `ABSENT` where there is none.
        """

    @abstractmethod
    def describe(self) -> str:
        """Return the accepted values in a few words, such as `100 within 1%`."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return its JSON form."""


@dataclass(slots=True)
class Mismatches:
    """What speaks against a called argument object.

    Attributes:
        differences: Where the called object differs.
        hidden: Places that could not be compared because a value there is redacted.
        respelled: Where the called object has another spelling of the expected value, which counts as equal.
    """

    differences: list[Difference] = field(default_factory=list[Difference])
    hidden: list[Path] = field(default_factory=list[Path])
    respelled: list[Difference] = field(default_factory=list[Difference])


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """An expected argument object with `ValuePattern` values in it.

    Attributes:
        tree: The object; its values are JSON values and `ValuePattern` ones, at any depth.
        extras: Whether keys at the top that it does not name are left out, where otherwise they count as wrong.
        by_meaning: Whether its values are compared by meaning, so that even a full match may have other spellings.
    """

    tree: Mapping[str, Any]
    extras: bool = False
    by_meaning: bool = False

    def ratio(self, called: dict[str, Any]) -> Ratio:
        """Return how similar a called argument object is; keys with redacted values are left out."""
        return _objects(self.tree, called, extras=self.extras)

    def only_object(self) -> Mapping[str, Any] | None:
        """Return the argument object that alone fits; `None` if a matcher or an extra key leaves room for others."""
        return None if self.extras or holds_matcher(self.tree) else self.tree

    def mismatches(self, called: dict[str, Any]) -> Mismatches:
        """Return every place where a called argument object differs, or cannot be compared."""
        mismatches = Mismatches()
        _objects(self.tree, called, extras=self.extras, mismatches=mismatches)
        return mismatches


def is_pattern(value: object) -> TypeGuard[ValuePattern]:
    """Return whether an expected value is a `ValuePattern`; of an abstract class, `isinstance` alone is slow."""
    return type(value) not in _JSON_TYPES and isinstance(value, ValuePattern)


def holds_matcher(value: object) -> bool:
    """Return whether a value is a `ValuePattern` or holds one."""
    if isinstance(value, Mapping):
        return any(map(holds_matcher, value.values()))
    if isinstance(value, list):
        return any(map(holds_matcher, value))
    return is_pattern(value)


def credit_of(expected: Any, value: Any) -> Ratio | None:
    """Return how far a value fits an expected value, which may be a `ValuePattern` or hold some."""
    if is_pattern(expected):
        return expected.credit(value)
    if type(expected) is dict and type(value) is dict:
        return _objects(expected, value)
    return ONE if fits(expected, value) else ZERO


def json_of(expected: Any) -> Any:
    """Return the JSON form of an expected value: that of the `ValuePattern` ones in it, and the rest as it is."""
    if type(expected) is dict:
        return {key: json_of(item) for key, item in expected.items()}
    if type(expected) is list:
        return list(map(json_of, expected))
    return expected.to_json() if is_pattern(expected) else expected


def fits(expected: Any, value: Any) -> bool:
    """Return whether a value fits an expected value fully."""
    if is_pattern(expected):
        return expected.credit(value) in (None, ONE)
    kind = type(expected)
    if kind is dict and type(value) is dict:
        return _objects(expected, value) == ONE
    if kind is list and type(value) is list:
        return len(expected) == len(value) and all(map(fits, expected, value))
    return not isinstance(value, Absent) and json_equal(expected, value)


def _objects(
    expected: Mapping[str, Any],
    called: dict[str, Any],
    path: Path = (),
    *,
    extras: bool = False,
    mismatches: Mismatches | None = None,
) -> Ratio:
    """Return the similarity of two objects, and note in `mismatches` what speaks against it."""
    size, whole = 0, 0
    parts: list[Fraction] = []
    for key, want in expected.items():
        credit = _at(want, called.get(key, ABSENT), (*path, key), mismatches)
        if credit is None:
            continue
        # The place counts in the denominator only now: a pattern may take itself out.
        size += 1
        if credit == ONE:
            whole += 1
        elif credit[0]:
            parts.append(Fraction(*credit))
    if not extras:
        # A key that nobody asked for costs as much as one that is missing.
        size += _extra(expected, called, path, mismatches)
    if whole == size:
        return ONE
    total = sum(parts, Fraction(whole)) / size
    return total.numerator, total.denominator


def _at(want: Any, value: Any, path: Path, mismatches: Mismatches | None) -> Ratio | None:
    """Return the credit of one key, `None` if it does not count."""
    if type(want) is dict and type(value) is dict:
        return _objects(want, value, path, mismatches=mismatches)
    if _hidden(want, value):
        if mismatches is not None:
            mismatches.hidden.append(path)
        return None
    credit = credit_of(want, value)
    if mismatches is None:
        return credit
    if credit in (None, ONE):
        mismatches.respelled.extend(_respelled(want, value, path))
    else:
        mismatches.differences.append(_difference(want, value, path))
    return credit


def _respelled(want: Any, value: Any, path: Path) -> Iterator[Difference]:
    """Yield the places of a fitting value that have another spelling of the expected one."""
    if is_pattern(want):
        if want.by_meaning and not isinstance(value, Absent) and not json_equal(getattr(want, "value", None), value):
            yield Difference("equal_by_meaning", path, want, value)
    elif type(want) is list:
        for index, (item, other) in enumerate(zip(want, value, strict=True)):
            yield from _respelled(item, other, (*path, index))
    elif type(want) is dict:
        for key, item in want.items():
            yield from _respelled(item, value.get(key, ABSENT), (*path, key))


def _extra(expected: Mapping[str, Any], called: dict[str, Any], path: Path, mismatches: Mismatches | None) -> int:
    """Return how many keys of an object nobody asked for; one that is redacted cannot be counted."""
    amount = 0
    for key, value in called.items():
        if key in expected:
            continue
        counts = not is_hidden(value)
        amount += counts
        if mismatches is not None and counts:
            mismatches.differences.append(Difference("extra_argument", (*path, key), ABSENT, value))
        elif mismatches is not None:
            mismatches.hidden.append((*path, key))
    return amount


def _hidden(want: Any, value: Any) -> bool:
    """Return whether two values cannot be compared because of what is redacted in one of them."""
    if is_pattern(want):
        return want.looks and has_mark(value)
    return is_hidden(want) or is_hidden(value)


def _difference(want: Any, value: Any, path: Path) -> Difference:
    if isinstance(value, Absent):
        return Difference("missing_argument", path, want, ABSENT)
    if is_pattern(want) and want.credit(ABSENT) is None and not want.looks:
        return Difference("extra_argument", path, ABSENT, value)
    return Difference("wrong_argument", path, want, value)
