"""Names of tools as options give them: exact, or with the wildcards of a shell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from toolmark._internal.json import short_repr
from toolmark.errors import ConfigurationError


def read_patterns(value: object, option: str) -> tuple[str, ...]:
    """Return names or patterns.

    Raises:
        ConfigurationError: It is no list of texts, or one of them is empty.
    """
    found = list(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else None
    if found is None or not all(isinstance(item, str) and item for item in found):
        message = f"{option} must be a list of names or patterns of tools, got {short_repr(value)}"
        raise ConfigurationError(message)
    return tuple(found)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name is one of these, or fits one: `*`, `?` and `[...]` as in a shell; case counts."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)
