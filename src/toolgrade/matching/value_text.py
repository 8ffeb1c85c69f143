"""Expected and called values as text for people: one alone, or two such that their difference is visible.

A long value is cut; of two values the part around their first difference stays. Of texts that look alike a note names
the code points in which they differ.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from toolgrade._internal.json import REDACTED, json_text
from toolgrade._internal.text import code_points_note, printable, shorten, shorten_pair
from toolgrade.matching.argument_pattern import holds_matcher, is_pattern

_WORDS: Final = 40
"""Characters that a matcher may have beside those of its value."""
_REWRITTEN: Final = ('"NaN"', 'Infinity"', '"0x')
"""What JSON text has in place of numbers that it cannot have, and of texts that are equal to these."""


class PairText(NamedTuple):
    """Two different values as text, and a note such as ` (they look alike: ...)`, empty if the difference is seen."""

    expected: str
    called: str
    note: str


def text_of(value: Any) -> str:  # noqa: ANN401 - a JSON value, a matcher, or a value with matchers in it
    """Return an expected value as JSON text in which matchers stand in their own words."""
    if is_pattern(value):
        return value.describe()
    text = "" if holds_matcher(value) else json_text(value)
    if text and not any(part in text for part in _REWRITTEN):
        return text
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json_text(key)}: {text_of(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(text_of, value))}]"
    return text if isinstance(value, str) else text.strip('"')


def value_text(value: Any, limit: int) -> str:  # noqa: ANN401 - as above
    """Return a value on one line, shortened."""
    return shorten(printable(text_of(value)), _limit(value, limit))


def pair_text(expected: Any, called: Any, limit: int, words: int = _WORDS) -> PairText:  # noqa: ANN401 - as above
    """Return two different values on one line each, shortened around their first difference.

    A matcher may have `words` characters more than the limit.
    """
    one, other = (printable(text_of(value)) for value in (expected, called))
    if one == other:
        note = "" if REDACTED in one else " (they are written alike)"
    else:
        note = code_points_note(_plain_text(expected), _plain_text(called))
    left, right = shorten_pair(one, other, _limit(expected, limit, words), _limit(called, limit, words))
    return PairText(left, right, note)


def _limit(value: object, limit: int, words: int = _WORDS) -> int:
    return limit + (words if is_pattern(value) and not value.by_meaning else 0)


def _plain_text(value: Any) -> str:  # noqa: ANN401 - as above
    """Return the text of a value, without quotation marks and escapes if it is one."""
    content = getattr(value, "value", None) if is_pattern(value) else value
    return content if isinstance(content, str) else text_of(value)
