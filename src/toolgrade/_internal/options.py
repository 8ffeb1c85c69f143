"""Validation of options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field

from toolgrade._internal.json import short_repr
from toolgrade.errors import ConfigurationError


def require(valid: object, requirement: str, value: object) -> None:
    """Raise unless an option is valid; `requirement` says what must hold, such as `trials must be a whole number`.

    Raises:
        ConfigurationError: `valid` is false; the message has the requirement and the value.
    """
    if not valid:
        raise ConfigurationError(f"{requirement}, got {short_repr(value)}")


def require_flags(options: object) -> None:
    """Raise unless every field of a dataclass that is annotated as `bool` is `True` or `False`.

    Raises:
        ConfigurationError: One is not; `"false"` would mean the same as `True`.
    """
    entries: Mapping[str, Field[object]] = getattr(options, "__dataclass_fields__", {})
    for name, entry in entries.items():
        if entry.type in {"bool", bool}:
            value = getattr(options, name)
            require(isinstance(value, bool), f"{name} must be True or False", value)


def require_one_of(option: str, value: object, choices: Iterable[str]) -> None:
    """Raise unless the value of an option is one of the choices.

    Raises:
        ConfigurationError: It is not; the message lists the choices.
    """
    names = tuple(choices)
    if value not in names:
        raise ConfigurationError(f"{option} must be one of {', '.join(names)}, got {value!r}")
