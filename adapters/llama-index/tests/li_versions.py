"""Which scenario can a version of the framework not have, and why? Asserted in every environment, never skipped.

A scenario that needs a feature runs wherever the feature is due. Where it is not, the test asserts that the feature is
really absent, so that this table cannot hide a scenario that could run.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import pytest


def version_of(package: str) -> tuple[int, ...]:
    """The installed version of a package; the lowest there is if it is not installed."""
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        return (0,)
    return tuple(int(part) for part in found.split(".")[:3] if part.isdigit())


WORKFLOWS_2 = version_of("llama-index-workflows") >= (2,)
"""Whether a step that waits for a person is run again from its beginning, and failures have events of their own."""


@dataclass(frozen=True)
class Feature:
    """Something that not every supported version has.

    Attributes:
        why: Why an older version cannot run the scenario.
        package: The package that brings it.
        since: The first version that surely has it.
        probe: Raises where it is absent.
    """

    why: str
    package: str
    since: tuple[int, ...]
    probe: Callable[[], object]

    def is_due(self) -> bool:
        """Whether the installed version is said to have it."""
        return version_of(self.package) >= self.since


def _early_stopping() -> object:
    from llama_index.core.agent.workflow import FunctionAgent

    return FunctionAgent.model_fields["early_stopping_method"]


def _empty_answers() -> object:
    text = inspect.getsource(importlib.import_module("llama_index.core.agent.workflow.react_agent"))
    return _found(text, "previous response was empty")


def _context_in_threads() -> object:
    return _found(inspect.getsource(importlib.import_module("llama_index.core.tools.function_tool")), "copy_context")


def _found(text: str, part: str) -> str:
    if part not in text:
        raise LookupError(part)
    return text


FEATURES = {
    "early_stopping": Feature(
        "one more answer at the limit of steps is an option of llama-index-core 0.14.15, and not of 0.14.10",
        "llama-index-core",
        (0, 14, 15),
        _early_stopping,
    ),
    "empty_answers": Feature(
        "a ReAct agent asks again after an empty answer in llama-index-core 0.14.15, and not in 0.14.10",
        "llama-index-core",
        (0, 14, 15),
        _empty_answers,
    ),
    "context_in_threads": Feature(
        "functions that are not async run in threads, which are given the context in 0.14.25, and not in 0.14.15",
        "llama-index-core",
        (0, 14, 25),
        _context_in_threads,
    ),
}


def scenario(*ids: str, needs: str | None = None) -> Callable[[Any], Any]:
    """Name a test after its scenario: `01-C` as recorded, `01-E` as its events show it, or `36` where there is one way.

    Args:
        ids: The ids.
        needs: The feature without which the scenario cannot be.
    """

    def decorate(function: Any) -> Any:
        takes = "mode" in inspect.signature(function).parameters

        @functools.wraps(function)
        def test(scenario_id: str) -> None:
            feature = None if needs is None else FEATURES[needs]
            if feature is not None and not feature.is_due():
                with pytest.raises((ImportError, AttributeError, LookupError)):
                    feature.probe()
                return
            function(scenario_id.partition("-")[2]) if takes else function()

        test.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter("scenario_id", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        )
        return pytest.mark.parametrize("scenario_id", ids)(test)

    return decorate
