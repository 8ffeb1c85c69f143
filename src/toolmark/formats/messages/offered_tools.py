"""Which tools could the model choose from? The `tools` of a request, with the names that its calls have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolmark.calls import ToolCallType, ToolSpec, read_tool_spec
from toolmark.errors import InvalidDataError
from toolmark.formats.messages.field_readers import as_object

if TYPE_CHECKING:
    from toolmark.formats.messages.transcript import FormatName

_DATED = re.compile(r"_\d{8}$|_preview(_\d{4}_\d{2}_\d{2})?$|_\d{4}_\d{2}_\d{2}$")
"""Ends of the types of provider's tools that their calls do not have."""

_LOCAL = ("local_shell", "shell", "apply_patch", "computer", "computer_use")
"""Tools that OpenAI describes and the agent runs."""

_SERVER_TOOLS = ("web_search", "web_fetch", "code_execution", "tool_search", "advisor")
"""Beginnings of the types of Anthropic's tools that Anthropic runs."""


def offered_tools(format: FormatName, tools: Sequence[object]) -> tuple[list[ToolSpec], bool]:
    """Return the tools as specifications, and whether they are all that could be called.

    They are not where a server, a search or a set brings tools that are not named here. What cannot be read counts as
    such, since a tool that nobody understood may well have been called.
    """
    specs: list[ToolSpec] = []
    all_known = True
    for tool in tools:
        try:
            found = _specs(format, as_object(tool) or {})
        except InvalidDataError:
            found = []
        specs += found
        all_known &= bool(found) and all(spec.type in (ToolCallType.FUNCTION, ToolCallType.CUSTOM) for spec in found)
    return specs, all_known


def _specs(format: FormatName, tool: Mapping[str, object]) -> list[ToolSpec]:
    kind = str(tool.get("type") or "")
    if format == "anthropic":
        return _anthropic(tool, kind)
    if kind == "namespace":
        inner = tool.get("tools")
        return [
            spec
            for entry in (inner if isinstance(inner, (list, tuple)) else ())
            for spec in _specs(format, as_object(entry) or {})
        ]
    body = as_object(tool.get(kind)) if kind in ("function", "custom") else None
    if kind in ("", "function", "custom") or "input_schema" in tool:
        return [_spec(body or tool, ToolCallType.CUSTOM if kind == "custom" else ToolCallType.FUNCTION)]
    name = _DATED.sub("", kind)
    if name in ("mcp", "tool_search"):
        return []
    if name in ("computer", "computer_use"):
        name = "computer_use_preview"
    return [ToolSpec(name=name, type=ToolCallType.FUNCTION if _DATED.sub("", kind) in _LOCAL else ToolCallType.HOSTED)]


def _anthropic(tool: Mapping[str, object], kind: str) -> list[ToolSpec]:
    if "name" not in tool:  # a set of tools, or those of a server
        return []
    hosted = kind.startswith(_SERVER_TOOLS)
    return [_spec(tool, ToolCallType.HOSTED if hosted else ToolCallType.FUNCTION)]


def _spec(tool: Mapping[str, object], kind: ToolCallType) -> ToolSpec:
    fields: dict[str, Any] = {key: value for key, value in tool.items() if key != "type"}
    return read_tool_spec({**fields, "type": kind.value})
