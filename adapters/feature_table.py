"""Features that not every supported version of a framework has, shared by the adapters' tests.

A scenario that needs a feature runs wherever the feature is due. Where it is not, the test asserts that the feature is
really absent, so that a table of features cannot hide a scenario that could run.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import pytest


def version_of(package: str) -> tuple[int, ...]:
    """Return the installed version of a package; `(0,)` if it is not installed."""
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        return (0,)
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


@dataclass(frozen=True)
class Feature:
    """Something that not every supported version has.

    Attributes:
        why: Why an older version cannot run the scenario.
        package: The package that has it.
        since: The first version that surely has it.
        probe: Raises if it is absent.
    """

    why: str
    package: str
    since: tuple[int, ...]
    probe: Callable[[], object]

    def is_due(self) -> bool:
        """Return whether the installed version should have it."""
        return version_of(self.package) >= self.since

    def check(self) -> None:
        """Assert that the feature is there if and only if it is due."""
        if self.is_due():
            self.probe()
        else:
            self.check_absent()

    def check_absent(self) -> None:
        """Assert that the feature is absent."""
        with pytest.raises((ImportError, AttributeError, LookupError)):
            self.probe()


def attribute(module: str, name: str) -> Callable[[], object]:
    """Return a probe for an attribute of a module."""
    return lambda: getattr(importlib.import_module(module), name)


def parameter(module: str, path: str, name: str) -> Callable[[], object]:
    """Return a probe for a parameter of a function or a class."""

    def probe() -> object:
        target: Any = importlib.import_module(module)
        for part in path.split("."):
            target = getattr(target, part)
        return inspect.signature(target).parameters[name]

    return probe


def scenarios(features: Mapping[str, Feature], argument: str, variant: str) -> Callable[..., Callable[[Any], Any]]:
    """Return the `scenario` decorator of an adapter's tests.

    Args:
        features: The table of features.
        argument: The name under which pytest passes the id of a scenario, such as `S05-v1`.
        variant: The parameter of a test that receives the part after the hyphen, if the test has it.
    """

    def scenario(*ids: str, needs: str | None = None) -> Callable[[Any], Any]:
        def decorate(function: Any) -> Any:
            takes_variant = variant in inspect.signature(function).parameters

            @functools.wraps(function)
            def test(**arguments: str) -> None:
                feature = None if needs is None else features[needs]
                if feature is not None and not feature.is_due():
                    feature.check_absent()
                elif takes_variant:
                    function(arguments[argument].partition("-")[2])
                else:
                    function()

            parameters = [inspect.Parameter(argument, inspect.Parameter.POSITIONAL_OR_KEYWORD)]
            test.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
            return pytest.mark.parametrize(argument, ids)(test)

        return decorate

    return scenario
