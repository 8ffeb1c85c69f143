"""When was that? Times as traces write them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?\s*(Z|z|UTC|[+-]\d\d:?\d\d)?\s*$", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_PARTS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_SIZES = {"ms": (10**11, 10**14), "us": (10**14, 10**17)}
"""From which count on, and up to which, milliseconds and microseconds are counted: each from March 1973 on."""


def time_of(value: object, *, unit: str = "ns") -> datetime | None:
    """Return the time that a value stands for, in UTC; `None` where it is none.

    Args:
        value: An ISO 8601 text, a count since 1970 as a number or its text, or `[seconds, nanoseconds]`.
        unit: What is counted: `"s"`, `"ms"`, `"us"` or `"ns"`.
    """
    if isinstance(value, str) and not value.strip().lstrip("-").isdigit():
        return _from_text(value.strip())
    try:
        if isinstance(value, (list, tuple)):
            seconds, nanoseconds = value
            return _after(int(seconds) * 1_000_000 + int(nanoseconds) // 1000)
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            return None
        count = int(value) if isinstance(value, str) else value
        if not count:  # what OTLP writes for a time that nobody set
            return None
        return _after(int(count * 1_000_000 // _PARTS_PER_SECOND[unit]))
    except (OverflowError, TypeError, ValueError):
        return None


def unit_of(count: object) -> str:
    """Return what a number counts since 1970, told by its size: `"ms"`, `"us"`, else `"ns"`; also for what is none."""
    if isinstance(count, bool) or not isinstance(count, (int, float)):
        return "ns"
    return next((unit for unit, (least, most) in _SIZES.items() if least <= count < most), "ns")


def _after(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _from_text(text: str) -> datetime | None:
    found = _ISO.match(text)
    if found is None:
        return None
    *parts, fraction, zone = found.groups()
    try:
        moment = datetime(*map(int, parts), tzinfo=timezone.utc)  # type: ignore[misc, arg-type]  # six numbers
    except ValueError:
        return None
    moment += timedelta(microseconds=int((fraction or "0")[:6].ljust(6, "0")))
    if zone and zone[0] in "+-":
        away = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
        moment += away if zone[0] == "-" else -away
    return moment
