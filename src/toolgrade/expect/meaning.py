"""Comparison of values by meaning: the matcher `SameMeaning`, and its use for every plain value of an expectation.

Where the tool's schema is known, the default of an optional argument, `null` and no argument at all are the same call:
strict tools send `null` for every optional argument.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

from toolgrade._internal.json import MAX_DEPTH, is_deeper
from toolgrade.expect.argument_defaults import ANY_VALUE, ArgumentSchema
from toolgrade.expect.matcher import Matcher, ValueMatcher
from toolgrade.expect.value_matchers import Absent, normalized_text
from toolgrade.matching.argument_pattern import ONE, ZERO, Ratio, ValuePattern, holds_matcher, is_pattern
from toolgrade.matching.json_compare import ABSENT, AbsentType, frozen
from toolgrade.matching.value_text import text_of

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


def by_meaning(expected: Any, schema: ArgumentSchema = ANY_VALUE, *, extras: bool = False) -> Any:
    """Return an expected value in which each plain value, and each list of plain values, is a `SameMeaning`.

    Matchers stay as they are. Objects, and lists with objects, lists or matchers in them, are compared in their parts.
    With the JSON Schema of the value, each argument that may be left out also accepts what means the same. With
    `extras`, a call may have further keys at the top level.
    """
    if isinstance(expected, dict):
        values = {key: by_meaning(item, schema.property(key)) for key, item in expected.items()}
        for key, same in schema.omissible().items():
            value = expected.get(key, ABSENT)
            if _may_mean_omission(value, same) and not (extras and key not in expected):
                values[key] = _Omissible(ABSENT if isinstance(value, Absent) else value, same)
        return values
    if isinstance(expected, list) and not is_plain_list(expected):
        return [by_meaning(item, schema.items()) for item in expected]
    return expected if holds_matcher(expected) else SameMeaning(expected)


def _may_mean_omission(expected: Any, same: tuple[Any, ...]) -> bool:
    """Return whether what is expected of an argument can be met by leaving it out, or by what means the same."""
    if is_pattern(expected):
        return expected.reads_value or isinstance(expected, Absent)
    return not holds_matcher(expected) and _is_one_of(expected, same)


def _is_one_of(value: Any, same: tuple[Any, ...]) -> bool:
    if isinstance(value, AbsentType) or is_deeper(value, MAX_DEPTH):
        return value is ABSENT
    return any(meaning_key(value) == meaning_key(one) for one in same if one is not ABSENT)


@dataclass(frozen=True)
class _Omissible(ValuePattern):
    """An argument that may be left out: what means the same as leaving it out is accepted as if it were left out.

    Attributes:
        value: What is expected: a matcher, one of `same`, or `ABSENT` for no argument.
        same: What means the same: `ABSENT`, and the values that a tool takes for it.
    """

    by_meaning: ClassVar[bool] = True

    value: Any
    same: tuple[Any, ...]

    def credit(self, value: Any) -> Ratio | None:
        """Return the credit of a value; all spellings of one call score alike.

        A matcher that accepts no argument accepts all that means the same; of a missing argument, another one is asked
        about the value that the tool takes.
        """
        is_omission = _is_one_of(value, self.same)
        if not isinstance(self.value, Matcher):
            return None if is_omission else ZERO
        if is_omission and self.value.credit(ABSENT) is None:
            return None
        default = next((one for one in self.same if one is not ABSENT and one is not None), None)
        return self.value.credit(default if isinstance(value, AbsentType) and self.value.reads_value else value)

    def describe(self) -> str:
        """Return the expected value, or `nothing`."""
        return "nothing" if self.value is ABSENT else text_of(self.value)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the matcher that the expectation could have."""
        if self.value is ABSENT:
            return Absent().to_json()
        matcher = self.value if isinstance(self.value, Matcher) else SameMeaning(self.value)
        return matcher.to_json()
