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


@dataclass(frozen=True)
class Feature:
    """Something that not every supported version has.

    Attributes:
        why: Why an older version cannot run the scenario.
        package: The package that brings it.
        since: Its first version that has it.
        probe: Raises where it is absent.
    """

    why: str
    package: str
    since: tuple[int, ...]
    probe: Callable[[], object]

    def is_due(self) -> bool:
        """Whether the installed version is said to have it."""
        return version_of(self.package) >= self.since


def _attribute(module: str, name: str) -> Callable[[], object]:
    return lambda: getattr(importlib.import_module(module), name)


def _parameter(module: str, path: str, name: str) -> Callable[[], object]:
    def probe() -> object:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
        return inspect.signature(found).parameters[name]

    return probe


def _literal(module: str, name: str, value: str) -> Callable[[], object]:
    def probe() -> object:
        from typing import get_args

        values = get_args(getattr(importlib.import_module(module), name))
        if value not in values:
            raise LookupError(values)
        return values

    return probe


def _events_v3() -> object:
    from langchain_core.runnables import Runnable

    text = inspect.getsource(Runnable.astream_events)
    if '"v3"' not in text:
        raise LookupError("v3")
    return text


FEATURES = {
    "middleware": Feature(
        "agents with middleware came with langchain 1.0",
        "langchain",
        (1, 0, 0),
        _attribute("langchain.agents.middleware", "HumanInTheLoopMiddleware"),
    ),
    "tool_strategy": Feature(
        "structured output through a pseudo-tool of the agent came with langchain 1.0",
        "langchain",
        (1, 0, 0),
        _attribute("langchain.agents.structured_output", "ToolStrategy"),
    ),
    "wrap_tool_call": Feature(
        "middleware round a tool call came with langchain 1.0",
        "langchain",
        (1, 0, 0),
        _attribute("langchain.agents.middleware", "wrap_tool_call"),
    ),
    "retry": Feature(
        "ToolRetryMiddleware came with langchain 1.0",
        "langchain",
        (1, 0, 0),
        _attribute("langchain.agents.middleware", "ToolRetryMiddleware"),
    ),
    "limit_continue": Feature(
        "a limit that blocks single calls and lets the run go on came with langchain 1.0.5",
        "langchain",
        (1, 0, 5),
        _literal("langchain.agents.middleware.tool_call_limit", "ExitBehavior", "continue"),
    ),
    "respond": Feature(
        "answering in the tool's place is a decision since langchain 1.3",
        "langchain",
        (1, 3, 0),
        _literal("langchain.agents.middleware.human_in_the_loop", "DecisionType", "respond"),
    ),
    "events_v3": Feature(
        "astream_events v3 came with langchain-core 1.4",
        "langchain-core",
        (1, 4, 0),
        _events_v3,
    ),
}


def scenario(*ids: str, needs: str | None = None) -> Callable[[Any], Any]:
    """Name a test after its scenario, `S01` or, of several variants, `S05-v1`.

    Args:
        ids: The ids.
        needs: The feature without which the scenario cannot be.
    """

    def decorate(function: Any) -> Any:
        takes = "variant" in inspect.signature(function).parameters

        @functools.wraps(function)
        def test(variant: str) -> None:
            feature = None if needs is None else FEATURES[needs]
            if feature is not None and not feature.is_due():
                with pytest.raises((ImportError, AttributeError, LookupError)):
                    feature.probe()
                return
            function(variant.partition("-")[2]) if takes else function()

        test.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter("variant", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        )
        return pytest.mark.parametrize("variant", ids)(test)

    return decorate
