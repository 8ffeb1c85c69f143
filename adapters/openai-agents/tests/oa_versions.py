"""Which scenario can a version of the SDK not have, and why? Asserted in every environment, never skipped."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

VERSION = tuple(int(part) for part in metadata.version("openai-agents").split(".")[:3])

ENFORCES_IDS = VERSION >= (0, 22)
"""A call without an id, or with that of another call, ends the run."""

TELLS_EXCEPTIONS = VERSION >= (0, 14)
"""The exception of a tool that was handled can be seen; before, only its text can."""

TELLS_TEXTS = VERSION < (0, 23)
"""The tool's span has the text of a handled exception."""

HANDLES_MCP_EXCEPTIONS = VERSION >= (0, 8)
"""An MCP server that raises is a failed call; before, it ended the run."""

SHOWS_WORDED_EXCEPTIONS = VERSION >= (0, 14)
"""The exception of a tool can be seen, however the tool words it for the model."""

RESUMES_HANDOFFS = VERSION >= (0, 23)
"""A hand-over beside a call that waits takes place when the run resumes; before, it was dropped."""

KEEPS_MCP_HINTS = VERSION >= (0, 24)
"""A tool of a local MCP server keeps its hints."""


@dataclass(frozen=True)
class Feature:
    """Something that not every supported release has.

    Attributes:
        why: Why an older release cannot run the scenario.
        since: The first matrix version that has it.
        probe: Raises where it is absent.
    """

    why: str
    since: tuple[int, ...]
    probe: Callable[[], object]

    def is_due(self) -> bool:
        """Whether the installed release should have the feature."""
        return self.since <= VERSION


def _attribute(module: str, name: str) -> Callable[[], object]:
    return lambda: getattr(importlib.import_module(module), name)


def _field(module: str, name: str, field: str) -> Callable[[], object]:
    return lambda: getattr(importlib.import_module(module), name).__dataclass_fields__[field]


def _parameter(module: str, path: str, name: str) -> Callable[[], object]:
    def probe() -> object:
        member: Any = importlib.import_module(module)
        for part in path.split("."):
            member = getattr(member, part)
        return inspect.signature(member).parameters[name]

    return probe


FEATURES = {
    "approvals": Feature("runs that wait for a person came later", (0, 8), _attribute("agents", "RunState")),
    "not_found": Feature(
        "a call of an unknown tool always ends the run",
        (0, 18),
        _parameter("agents", "RunConfig", "tool_not_found_behavior"),
    ),
    "images": Feature("tools that return images came later", (0, 4), _attribute("agents", "ToolOutputImage")),
    "custom": Feature("custom tools came later", (0, 14), _attribute("agents", "CustomTool")),
    "shell": Feature("the shell tool came later", (0, 6), _attribute("agents", "ShellTool")),
    "timeout": Feature("tools with a timeout came later", (0, 14), _parameter("agents", "function_tool", "timeout")),
    "formatter": Feature(
        "a formatter is not asked for failures of tools",
        (0, 24),
        _field("agents.run_config", "ToolErrorFormatterArgs", "error"),
    ),
    "error_handlers": Feature(
        "handlers for runs out of turns came later", (0, 8), _parameter("agents", "Runner.run", "error_handlers")
    ),
}
