"""Names and patterns of tools: `*`, `?` and `[...]` as in a shell; case counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from toolgrade._internal.options import require


def read_patterns(value: object, option: str) -> tuple[str, ...]:
    """Return names or patterns.

    Raises:
        ConfigurationError: The value is not a list of non-empty strings.
    """
    patterns: tuple[Any, ...] = tuple(value) if isinstance(value, Iterable) else (value,)
    valid = not isinstance(value, (str, bytes)) and all(isinstance(pattern, str) and pattern for pattern in patterns)
    require(valid, f"{option} must be a list of tool names or patterns", value)
    return patterns


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name equals or matches one of the patterns."""
    return first_match(name, patterns) is not None


def first_match(name: str, patterns: Iterable[str]) -> str | None:
    """Return the first pattern that a name equals or matches; `None` if there is none."""
    return next((pattern for pattern in patterns if name == pattern or fnmatchcase(name, pattern)), None)
