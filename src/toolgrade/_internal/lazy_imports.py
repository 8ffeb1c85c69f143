"""Lazy imports: public names of a package loaded on first use (PEP 562), optional packages, the installed version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from sys import modules
from typing import Any


def lazy_package(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package whose names are imported when they are first read.

    `names` has them by the module that holds them, separated by blanks.
    """
    homes = {name: module for module, listed in names.items() for name in listed.split()}

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(modules[package], name, value)  # later reads find it without calling this function
        return value

    return load, lambda: sorted(homes)


def import_extra(module: str, package: str, purpose: str) -> Any:  # noqa: ANN401 - a module without types
    """Import a module of a package that toolgrade does not install by itself.

    Raises:
        MissingPackageError: It is not installed; the message names the package and the purpose.
    """
    try:
        return import_module(module)
    except ImportError as error:
        from toolgrade.errors import MissingPackageError  # noqa: PLC0415 - keeps `toolgrade --version` fast

        raise MissingPackageError.of(package, purpose, module=module.partition(".")[0]) from error


def installed_version() -> str:
    """Return the installed version; `0+unknown` if toolgrade runs from a source tree that is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow, and rarely asked for

    try:
        return version("toolgrade")
    except PackageNotFoundError:
        return "0+unknown"
