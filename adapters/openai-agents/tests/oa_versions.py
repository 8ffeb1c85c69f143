"""Which scenario can a version of the SDK not have, and why? Asserted in every environment, never skipped."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from feature_table import Feature, attribute, parameter, version_of

VERSION = version_of("openai-agents")

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


def _field(module: str, name: str, field: str) -> Callable[[], object]:
    return lambda: getattr(importlib.import_module(module), name).__dataclass_fields__[field]


def _feature(why: str, since: tuple[int, ...], probe: Callable[[], object]) -> Feature:
    return Feature(why, "openai-agents", since, probe)


FEATURES = {
    "approvals": _feature("runs that wait for a person came later", (0, 8), attribute("agents", "RunState")),
    "not_found": _feature(
        "a call of an unknown tool always ends the run",
        (0, 18),
        parameter("agents", "RunConfig", "tool_not_found_behavior"),
    ),
    "images": _feature("tools that return images came later", (0, 4), attribute("agents", "ToolOutputImage")),
    "custom": _feature("custom tools came later", (0, 14), attribute("agents", "CustomTool")),
    "shell": _feature("the shell tool came later", (0, 6), attribute("agents", "ShellTool")),
    "realtime": _feature(
        "sessions of older releases report texts and usage in other events",
        (0, 24),
        attribute("agents.realtime.model_events", "RealtimeModelOutputTextDeltaEvent"),
    ),
    "sandbox": _feature("sandboxes came later", (0, 14), attribute("agents.sandbox", "SandboxAgent")),
    "timeout": _feature("tools with a timeout came later", (0, 14), parameter("agents", "function_tool", "timeout")),
    "formatter": _feature(
        "a formatter is not asked for failures of tools",
        (0, 24),
        _field("agents.run_config", "ToolErrorFormatterArgs", "error"),
    ),
    "error_handlers": _feature(
        "handlers for runs out of turns came later", (0, 8), parameter("agents", "Runner.run", "error_handlers")
    ),
}
