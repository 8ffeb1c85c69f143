"""Parsing of days and moments in texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import NamedTuple

_DAY = re.compile(r"\d{4}-?\d\d-?\d\d", re.ASCII)
_MOMENT = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)[Tt ](\d\d):?(\d\d)(?::?(\d\d)(?:[.,](\d{1,9}))?)?\s?([Zz]|[+-]\d\d(?::?\d\d)?)?", re.ASCII
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
        with suppress(ValueError):
            return Moment(datetime.strptime(text, form), timed=bool(re.search(r"%[HIMSfpXcz]", form)))  # noqa: DTZ007
    with suppress(ValueError):
        if _DAY.fullmatch(text):
            digits = text.replace("-", "")
            day = date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
            return Moment(datetime(day.year, day.month, day.day), timed=False)  # noqa: DTZ001 - a day has no offset
        match = _MOMENT.fullmatch(text)
        if match is not None:
            return Moment(_moment(match), timed=True)
    return None


def _moment(match: re.Match[str]) -> datetime:
    # Rewritten in the one form that `fromisoformat` accepts in all supported versions of Python.
    year, month, day, hour, minute, second, part, offset = match.groups()
    zone = (offset or "").upper().replace("Z", "+00:00")
    if zone and ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:] or '00'}"
    return datetime.fromisoformat(
        f"{year}-{month}-{day}T{hour}:{minute}:{second or '00'}.{(part or '').ljust(6, '0')[:6]}{zone}"
    )
