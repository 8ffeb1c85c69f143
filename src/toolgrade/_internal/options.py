"""Validation of options, their texts in labels, and functions with the same options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field
from typing import ParamSpec, TypeVar

from toolgrade._internal.json import is_number, short_repr
from toolgrade.errors import ConfigurationError

_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")


def with_arguments_of(
    model: Callable[_Arguments, object],
) -> Callable[[Callable[..., _Returned]], Callable[_Arguments, _Returned]]:
    """Give a function the signature of another one, which has the same arguments, so that they are written once."""

    def decorate(function: Callable[..., _Returned]) -> Callable[_Arguments, _Returned]:
        signature = inspect.signature(model)
        returned = inspect.signature(function).return_annotation
        function.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
        return function

    return decorate


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


def require_one_name(option: str, value: object, alias: str, alias_value: object) -> None:
    """Raise if an option with two names is given under both.

    Raises:
        ConfigurationError: Neither value is `None`.
    """
    if value is not None and alias_value is not None:
        raise ConfigurationError(f"{option} and {alias} are two names of one option; give one of them")


def read_share(value: object, option: str) -> float:
    """Return an option as a float.

    Raises:
        ConfigurationError: It is not a number from 0 to 1.
    """
    if not is_number(value) or not 0 <= value <= 1:
        raise ConfigurationError(f"{option} must be a number from 0 to 1, got {value!r}")
    return float(value)


def label_text(name: str, options: Sequence[str]) -> str:
    """Return `name(option, option)`, or the name alone."""
    return f"{name}({', '.join(options)})" if options else name


def enabled(options: Mapping[str, object]) -> list[str]:
    """Return the texts of the options that are set, for a label."""
    return [text for text, is_set in options.items() if is_set]
