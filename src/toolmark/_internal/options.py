"""Validation of options."""

from __future__ import annotations

from toolmark._internal.json import short_repr
from toolmark.errors import ConfigurationError


def require(valid: object, requirement: str, value: object) -> None:
    """Raise unless an option is valid; `requirement` says what must hold, such as `trials must be a whole number`.

    Raises:
        ConfigurationError: `valid` is false; the message has the requirement and the value.
    """
    if not valid:
        raise ConfigurationError(f"{requirement}, got {short_repr(value)}")
