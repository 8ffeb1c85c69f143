"""Argument objects with patterns in the place of some values.

The rules are those of `similarity`: every key that either side names counts. Equal values count 1, two objects count as
much as they are similar, anything else counts 0. A `ValuePattern` decides what counts in its place. It may give partial
credit, or take its key out of the comparison (`Ignore`, `Optional`); the key is then left out on both sides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeGuard

from toolgrade._internal.json import json_items
from toolgrade.matching.json_compare import ABSENT, AbsentType, Difference, Path, has_mark, is_hidden, json_equal, mean

Ratio = tuple[int, int]
"""An exact similarity: (numerator, denominator), from (0, n) to (1, 1)."""

ONE: Ratio = (1, 1)
ZERO: Ratio = (0, 1)

_JSON_TYPES = frozenset({str, int, float, bool, type(None), dict, list})


class ValuePattern(ABC):
    """Replaces an expected value and decides which values are accepted in its place. `Matcher` is its public subclass.

    Attributes:
        reads_value: Whether it reads the value, which is impossible if that is redacted. If not, it only checks whether
            there is a value.
        by_meaning: Whether it accepts values that are written differently but mean the same; results list these.
    """

    reads_value: ClassVar[bool] = True
    by_meaning: ClassVar[bool] = False
    # `redact` and `_internal.json` recognize a pattern by this attribute, because they cannot import this class.
    __toolgrade_matcher__: ClassVar[bool] = True

    @cached_property
    def holds_mark(self) -> bool:
        """Whether a value to compare with is redacted; `has_mark` reads this."""
        return any(has_mark(list(part) if isinstance(part, tuple) else part) for part in vars(self).values())

    @abstractmethod
    def credit(self, value: Any) -> Ratio | None:
        """Return how far a value fits, from (0, 1) to (1, 1); `None` if the key is left out of the comparison.

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
    """Comparison of a called argument object with the expected one, place by place.

    Attributes:
        differences: Where the called object differs.
        hidden: Places that could not be compared because a value there is redacted.
        respelled: Where the called object has the expected value in another spelling, which counts as equal.
    """

    differences: list[Difference] = field(default_factory=list[Difference])
    hidden: list[Path] = field(default_factory=list[Path])
    respelled: list[Difference] = field(default_factory=list[Difference])


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """An expected argument object with `ValuePattern` values in it.

    Attributes:
        tree: The object; its values are JSON values and `ValuePattern` ones, at any depth.
        extras: Whether further keys at the top level are allowed; otherwise each of them counts as wrong.
        by_meaning: Whether its values are compared by meaning, so that even a full match may have other spellings.
    """

    tree: Mapping[str, Any]
    extras: bool = False
    by_meaning: bool = False

    @staticmethod
    def of(arguments: Mapping[str, Any] | Template) -> Template:
        """Return a template as it is, and an argument object as a template."""
        return arguments if isinstance(arguments, Template) else Template(arguments)

    def ratio(self, called: dict[str, Any]) -> Ratio:
        """Return how similar a called argument object is; keys with redacted values are left out."""
        return _objects(self.tree, called, extras=self.extras)

    def only_object(self) -> Mapping[str, Any] | None:
        """Return the only argument object that fits; `None` if others fit too, because of a pattern or extra keys."""
        return None if self.extras or holds_matcher(self.tree) else self.tree

    def surely_fits(self, called: dict[str, Any]) -> bool:
        """Return whether a called argument object fits fully, and nothing in it is redacted."""
        return self.ratio(called) == ONE and not self.mismatches(called).hidden

    def mismatches(self, called: dict[str, Any]) -> Mismatches:
        """Return every place where a called argument object differs, or cannot be compared."""
        mismatches = Mismatches()
        _objects(self.tree, called, extras=self.extras, mismatches=mismatches)
        return mismatches


def is_pattern(value: object) -> TypeGuard[ValuePattern]:
    """Return whether an expected value is a `ValuePattern`."""
    # The type is checked first because `isinstance` is slow for an abstract class.
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
    kind = type(expected)
    if kind is type(value) is dict:
        return _objects(expected, value)
    if kind is type(value) is list:
        is_equal = len(expected) == len(value) and all(map(fits, expected, value))
    else:
        is_equal = json_equal(expected, value)
    return ONE if is_equal else ZERO


def fits(expected: Any, value: Any) -> bool:
    """Return whether a value fits an expected value fully."""
    return credit_of(expected, value) in (None, ONE)


def json_of(expected: Any) -> Any:
    """Return an expected value with every `ValuePattern` in it replaced by its JSON form."""
    if type(expected) is dict:
        return {key: json_of(item) for key, item in expected.items()}
    if type(expected) is list:
        return list(map(json_of, expected))
    return expected.to_json() if is_pattern(expected) else expected


def _objects(
    expected: Mapping[str, Any],
    called: dict[str, Any],
    path: Path = (),
    *,
    extras: bool = False,
    mismatches: Mismatches | None = None,
) -> Ratio:
    """Return the similarity of two objects, and add the differences to `mismatches`."""
    ratios: list[Ratio] = []
    # An extra key costs as much as a missing one.
    for key in expected if extras else {**expected, **called}:
        credit = _key_credit(expected.get(key, ABSENT), called.get(key, ABSENT), (*path, key), mismatches)
        if credit is not None:
            ratios.append(credit)
    return ONE if ratios.count(ONE) == len(ratios) else mean(0, ratios, len(ratios))


def _key_credit(expected: Any, value: Any, path: Path, mismatches: Mismatches | None) -> Ratio | None:
    """Return the credit of one key, `None` if it does not count."""
    if type(expected) is dict and type(value) is dict:
        return _objects(expected, value, path, mismatches=mismatches)
    if _hidden(expected, value):
        if mismatches is not None:
            mismatches.hidden.append(path)
        return None
    credit = credit_of(expected, value)
    if mismatches is None:
        return credit
    if credit in (None, ONE):
        mismatches.respelled.extend(_respelled(expected, value, path))
    else:
        mismatches.differences.append(_difference(expected, value, path))
    return credit


def _respelled(expected: Any, value: Any, path: Path) -> Iterator[Difference]:
    """Yield the places where a fitting value has another spelling than the expected one."""
    if is_pattern(expected):
        # An equal value has the same spelling. Patterns by meaning keep the expected value in `value`.
        if (
            expected.by_meaning
            and not isinstance(value, AbsentType)
            and not json_equal(getattr(expected, "value", None), value)
        ):
            yield Difference("equal_by_meaning", path, expected, value)
        return
    others = dict(json_items(value))
    for key, item in json_items(expected):
        yield from _respelled(item, others.get(key, ABSENT), (*path, key))


def _hidden(expected: Any, value: Any) -> bool:
    """Return whether two values cannot be compared because of what is redacted in one of them."""
    if is_pattern(expected):
        return expected.reads_value and (has_mark(value) or has_mark(expected))
    return is_hidden(expected) or is_hidden(value)


def _difference(expected: Any, value: Any, path: Path) -> Difference:
    if isinstance(value, AbsentType):
        return Difference("missing_argument", path, expected, ABSENT)
    # A pattern forbids the argument if it accepts a missing key, and rejects this value unread or expects none.
    is_forbidden = (
        is_pattern(expected)
        and expected.credit(ABSENT) is None
        and (not expected.reads_value or getattr(expected, "value", None) is ABSENT)
    )
    if is_forbidden or isinstance(expected, AbsentType):
        return Difference("extra_argument", path, ABSENT, value)
    return Difference("wrong_argument", path, expected, value)
