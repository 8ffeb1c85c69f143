"""Comparison of values by meaning: the matcher `SameMeaning`, and its use for every plain value of an expectation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

from toolgrade._internal.json import MAX_DEPTH, is_deeper
from toolgrade.expect.matcher import ValueMatcher
from toolgrade.expect.value_matchers import normalized_text
from toolgrade.matching.argument_pattern import ONE, ZERO, Ratio, holds_matcher
from toolgrade.matching.json_compare import AbsentType, frozen

_NUMBER: Final = re.compile(r"[+-]?(0|[1-9][0-9]{0,299})(\.[0-9]{1,300})?")
"""A decimal number. A text with leading zeros, such as a postal code, is not a number."""


@dataclass(frozen=True)
class SameMeaning(ValueMatcher, kind="same_meaning"):
    """The value by its meaning, regardless of its spelling.

    - Texts may differ in case, white space and Unicode forms, as for `Normalized`.
    - A text that is a decimal number without leading zeros equals the number: `"12.50"` equals `12.5`.
    - In a list of plain values (no lists and objects), order does not matter, but the number of times does. The credit
      is the share of the items that both lists have, in the longer one.
    - Other lists are compared item by item in order, objects key by key; keys are exact. Truth values and null equal
      only themselves.

    Example:
        >>> from toolgrade.expect import Expect, SameMeaning
        >>> days = SameMeaning(3)
        >>> expected = Expect("get_weather", {"city": SameMeaning("Paris"), "days": days})
        >>> [value for value in (3, "3", "3.0", "three", "03") if days.accepts(value)]
        [3, '3', '3.0']
    """

    by_meaning: ClassVar[bool] = True

    def credit(self, value: Any) -> Ratio | None:
        """Return 1 for the same meaning, the share of common items for two lists of plain values, else 0."""
        if isinstance(value, AbsentType):
            return ZERO
        if not (is_plain_list(self.value) and is_plain_list(value)):
            return ONE if self.accepts(value) else ZERO
        expected, called = (Counter(map(meaning_key, items)) for items in (self.value, value))
        size = max(len(self.value), len(value))
        return Fraction((expected & called).total(), size).as_integer_ratio() if size else ONE

    def accepts(self, value: Any) -> bool:
        """Return whether a value has the same meaning."""
        # No call has a deeper value, and looking into one would overflow the stack.
        return not is_deeper(value, MAX_DEPTH) and meaning_key(self.value) == meaning_key(value)

    def accepts_part(self, text: str) -> bool:
        """Return whether a text contains the value, which must be text."""
        return isinstance(self.value, str) and normalized_text(self.value) in normalized_text(text)


def is_plain_list(value: object) -> bool:
    """Return whether a value is a list without lists, objects and matchers in it."""
    return isinstance(value, list) and not any(isinstance(item, (list, dict)) or holds_matcher(item) for item in value)


def meaning_key(value: Any) -> Hashable:
    """Return a key that is equal for two JSON values exactly if they have the same meaning."""
    if isinstance(value, str):
        number = value.strip()
        if _NUMBER.fullmatch(number):
            return float(number) if "." in number else int(number)
        return normalized_text(value)
    if isinstance(value, dict):
        return "object", frozenset((key, meaning_key(item)) for key, item in value.items())
    if isinstance(value, list):
        keys = [meaning_key(item) for item in value]
        return ("plain", frozenset(Counter(keys).items())) if is_plain_list(value) else ("list", tuple(keys))
    return frozen(value)


def by_meaning(expected: Any) -> Any:
    """Return an expected value in which each plain value, and each list of plain values, is a `SameMeaning`.

    Matchers stay as they are. Objects, and lists with objects, lists or matchers in them, are compared in their parts.
    """
    if isinstance(expected, dict):
        return {key: by_meaning(item) for key, item in expected.items()}
    if isinstance(expected, list) and not is_plain_list(expected):
        return list(map(by_meaning, expected))
    return expected if holds_matcher(expected) else SameMeaning(expected)
