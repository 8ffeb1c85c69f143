"""Names of a package whose modules are loaded when one of their names is first used (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from sys import modules


def later(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package.

    Args:
        package: Its name.
        homes: The names it offers, each with the module below the package that has it.
    """

    def load(name: str) -> object:
        if name not in homes:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        value: object = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(modules[package], name, value)  # so that nobody asks again
        return value

    return load
