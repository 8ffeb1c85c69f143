"""Names of DeepEval that can be imported, so that the rest of a file runs, and that say so when they are used."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from toolgrade.errors import ConfigurationError, ToolgradeWarning


class Unsupported:
    """What DeepEval has and toolgrade does not measure."""

    def __init__(self, *_: object, **__: object) -> None:
        """Say that it is not here.

        Raises:
            ConfigurationError: Always; the message has the import that works.
        """
        name, module = type(self).__name__, type(self).__module__.removeprefix("toolgrade.compat.")
        raise ConfigurationError(
            f"{name} is not part of toolgrade; with deepeval installed, `from {module} import {name}` has DeepEval's, "
            "and evaluate and assert_test of toolgrade.compat.deepeval take its metrics beside their own"
        )


Getter: TypeAlias = Callable[[str], Any]
"""The `__getattr__` of a module."""


def getter(module: str, functions: str = "") -> Getter:
    """Return the `__getattr__` by which a module has any other class, and these functions, separated by blanks."""
    known = frozenset(functions.split())

    def get(name: str) -> type[Unsupported]:
        if not name[:1].isupper() and name not in known:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return type(name, (Unsupported,), {"__module__": module})

    return get


def warn_of(options: Mapping[str, object], where: str) -> None:
    """Warn of the options that are set and have no effect here."""
    given = sorted(name for name, value in options.items() if value)
    if given:
        warnings.warn(f"{', '.join(given)} of {where} has no effect in toolgrade", ToolgradeWarning, stacklevel=4)
