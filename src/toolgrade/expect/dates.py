"""Parsing of days and moments in texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

_MOMENT = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)"
    r"(?:[Tt ](\d\d):?(\d\d)(?::?(\d\d)(?:[.,](\d{1,9}))?)?\s?([Zz]|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)


class Moment(NamedTuple):
    """A day, with a time if the text has one."""

    at: datetime
    timed: bool

    def same(self, other: Moment) -> bool:
        """Return whether another moment is the same, or on this day if this has no time."""
        if not self.timed:
            return self.at.date() == other.at.date()
        return other.timed and self.at == other.at  # a time without an offset never equals one with


def read_moment(value: object, formats: Sequence[str]) -> Moment | None:
    """Parse a day or moment in ISO 8601, or in one of the formats of `strptime`; return `None` if that fails."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    for form in formats:
        with suppress(ValueError, OverflowError, re.error):  # texts and formats may be anything
            return Moment(datetime.strptime(text, form), timed=bool(re.search(r"%[HIMSfpXcz]", form)))  # noqa: DTZ007
    match = _MOMENT.fullmatch(text)
    if match is not None:
        with suppress(ValueError):
            return _moment(match)
    return None


def _moment(match: re.Match[str]) -> Moment:
    # Rewritten in the one form that `fromisoformat` accepts in all supported versions of Python.
    year, month, day, hour, minute, second, fraction, offset = match.groups("")
    zone = offset.upper().replace("Z", "+00").replace(":", "")
    text = f"{year}-{month}-{day}T{hour or '00'}:{minute or '00'}:{second or '00'}.{fraction[:6]:0<6}"
    return Moment(datetime.fromisoformat(text + (zone and f"{zone[:3]}:{zone[3:] or '00'}")), timed=bool(hour))
