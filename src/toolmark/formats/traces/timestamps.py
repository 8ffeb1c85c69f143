"""Times as traces write them: ISO 8601 texts, counts since 1970, and pairs of seconds and nanoseconds."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d+))?\s*(?:Z|z|UTC|([+-]\d\d):?(\d\d))?\s*$", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_PARTS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_SIZES = {"ms": (10**11, 10**14), "us": (10**14, 10**17)}
"""Counts that can only be milliseconds or microseconds: each range begins in March 1973."""


def time_of(value: object, *, unit: str = "ns") -> datetime | None:
    """Return the UTC time of a value; `None` where it is not a time.

    Args:
        value: An ISO 8601 text, a count since 1970 as a number or its text, or `[seconds, nanoseconds]`.
        unit: The unit of a count: `"s"`, `"ms"`, `"us"` or `"ns"`.
    """
    try:
        if isinstance(value, (list, tuple)):  # the SDK for JavaScript
            seconds, nanoseconds = value
            return _after_epoch(int(seconds) * 1_000_000 + int(nanoseconds) // 1000)
        if isinstance(value, str):
            text = value.strip()
            if not text.lstrip("-").isdigit():
                return _from_text(text)
            value = int(text)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        # OTLP writes 0 for a time that was not set.
        return _after_epoch(int(value * 1_000_000 // _PARTS_PER_SECOND[unit])) if value else None
    except (OverflowError, TypeError, ValueError):
        return None


def unit_of(count: object) -> str:
    """Return the unit of a count since 1970, judged by its size: `"ms"`, `"us"`, else `"ns"`."""
    if isinstance(count, (int, float)):
        for unit, (least, end) in _SIZES.items():
            if least <= count < end:
                return unit
    return "ns"


def _after_epoch(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _from_text(text: str) -> datetime | None:
    match = _ISO.match(text)
    if match is None:
        return None
    # Python 3.10 reads neither `Z` nor fractions of any length.
    date, time, fraction, hours, minutes = match.groups(default="")
    text = f"{date}T{time}.{fraction[:6]:0<6}{hours or '+00'}:{minutes or '00'}"
    return datetime.fromisoformat(text).astimezone(timezone.utc)
