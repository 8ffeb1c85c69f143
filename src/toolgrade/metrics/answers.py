"""Comparison of what an agent said with what it should have said: required texts and the final answer.

Texts are compared without regard to case, white space, Unicode forms and thousands separators.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any, Final

from toolgrade._internal.json import is_number
from toolgrade.expect import AnyOf, Approx, Contains, ContainsAll, Matcher
from toolgrade.expect.meaning import meaning_key
from toolgrade.expect.value_matchers import normalized_text

_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NUMBER: Final = re.compile(r"(?:(?<![\w.])[-+])?\d{1,300}(?:\.\d{1,300})?")
_WORD: Final = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")


def contains_text(required: str, texts: Sequence[str]) -> bool:
    """Return whether one of the texts contains a required text; a number is contained if it is one of the numbers."""
    number = meaning_key(required)
    if isinstance(number, (int, float)):
        return any(number in _numbers(text) for text in texts)
    return any(_plain(required) in _plain(text) for text in texts)


def answer_credit(expected: str | Matcher, answer: str) -> Fraction:
    """Return how far an answer fits the expected one, from 0 to 1.

    For a text, this is the share of its distinct words and numbers that the answer has. `Contains`, `ContainsAll`,
    `AnyOf` and `Approx` look for their texts and numbers inside the answer; `ContainsAll` gives the share of those that
    it has. All other matchers look at the whole answer.
    """
    if isinstance(expected, str):
        words = _words(expected)
        if not words:
            return Fraction(contains_text(expected, [answer]))
        return Fraction(len(words & _words(answer)), len(words))
    return _part_credit(expected, answer)


def _part_credit(part: Any, answer: str) -> Fraction:  # noqa: ANN401 - a matcher or a value inside one
    """Return how far an answer has what a matcher, or a value inside a matcher, describes."""
    if isinstance(part, str):
        return Fraction(contains_text(part, [answer]))
    if isinstance(part, Contains):
        return _part_credit(part.value, answer)
    if isinstance(part, ContainsAll):
        return sum((_part_credit(one, answer) for one in part.values), Fraction(0)) / len(part.values)
    if isinstance(part, AnyOf):
        return max(_part_credit(one, answer) for one in part.values)
    if isinstance(part, Approx):
        return Fraction(any(map(part.accepts, _numbers(answer))))
    if isinstance(part, Matcher):
        credit = part.credit(answer)
        return Fraction(1) if credit is None else Fraction(*credit)
    return Fraction(is_number(part) and part in _numbers(answer))


def _plain(text: str) -> str:
    return _THOUSANDS.sub("", normalized_text(text))


def _words(text: str) -> set[Hashable]:
    return set(map(meaning_key, _WORD.findall(_plain(text))))


def _numbers(text: str) -> list[int | float]:
    texts = _NUMBER.findall(_plain(text))
    return [float(number) if "." in number else int(number) for number in texts]
