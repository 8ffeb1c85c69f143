"""Offered tools: each provider's description of a tool in a request, as a `ToolSpec`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from langchain_core.utils.function_calling import convert_to_openai_tool

from toolgrade.calls import ToolCallType, ToolSpec, read_tool_spec
from toolgrade.errors import InvalidDataError

# Tools that a provider defines and the agent's own code runs.
_RUN_BY_CLIENT: Final = (
    "bash",
    "text_editor",
    "computer",
    "memory",
    "str_replace",
    "local_shell",
    "shell",
    "apply_patch",
)
_GEMINI_FUNCTIONS: Final = ("function_declarations", "functionDeclarations")


def offered_tools(parameters: Mapping[str, Any]) -> list[object]:
    """Return the tools of a request: each as a `ToolSpec`, or unchanged if it cannot be read as one.

    Args:
        parameters: What LangChain passes to the provider (`invocation_params`).
    """
    specs: list[object] = []
    for key in ("tools", "functions"):
        tools = parameters.get(key)
        for tool in tools if isinstance(tools, (list, tuple)) else ():
            for description in _descriptions(tool) if tool is not None else ():
                try:
                    specs.append(read_tool_spec(description))
                except InvalidDataError:
                    specs.append(description)  # the builder warns of it
    return specs


def _descriptions(tool: object) -> Iterator[object]:
    """Yield the tools in one entry of a request, in a form that `read_tool_spec` reads."""
    if not isinstance(tool, Mapping):
        yield _converted(tool)
        return
    bedrock = tool.get("toolSpec")
    if isinstance(bedrock, Mapping):
        yield _bedrock_tool(bedrock)
    elif tool.get("type") == "namespace" and isinstance(tool.get("tools"), list):
        for item in tool["tools"]:
            yield from _descriptions(item)
    elif isinstance(tool.get("type"), str):
        yield from _typed(tool, tool["type"])
    elif "name" in tool or "function" in tool:
        yield dict(tool)
    else:
        yield from _gemini_tools(tool)


def _bedrock_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    schema = tool.get("inputSchema")
    schema = schema.get("json", schema) if isinstance(schema, Mapping) else None
    return {"name": tool.get("name"), "description": tool.get("description"), "input_schema": schema}


def _gemini_tools(tool: Mapping[str, Any]) -> Iterator[object]:
    """Yield the tools in an object whose keys are Gemini's own tools, next to the declared functions."""
    functions = tool.get("function_declarations", tool.get("functionDeclarations"))
    for item in functions if isinstance(functions, list) else ():
        yield from _descriptions(item)
    for name, options in tool.items():
        if options is not None and name not in _GEMINI_FUNCTIONS:
            yield ToolSpec(name=name, type=ToolCallType.HOSTED)


def _mcp_tools(tool: Mapping[str, Any]) -> Iterator[ToolSpec]:
    allowed = tool.get("allowed_tools")
    allowed = allowed.get("tool_names") if isinstance(allowed, Mapping) else allowed
    server = tool.get("server_label") or "mcp"
    for name in allowed if isinstance(allowed, list) and allowed else [server]:
        yield ToolSpec(name=str(name), type=ToolCallType.MCP)


def _typed(tool: Mapping[str, Any], kind: str) -> Iterator[object]:
    if kind == "mcp":
        yield from _mcp_tools(tool)
    elif kind in ("function", "custom"):
        body = tool.get("custom")
        yield {**tool, **body} if isinstance(body, Mapping) else dict(tool)
    elif kind.startswith(_RUN_BY_CLIENT) or "input_schema" in tool or "parameters" in tool:
        own = "computer_use_preview" if kind.startswith("computer") else kind  # calls of all versions have this name
        yield {**{key: value for key, value in tool.items() if key != "type"}, "name": tool.get("name") or own}
    else:
        yield ToolSpec(name=str(tool.get("name") or kind), type=ToolCallType.HOSTED)


def _converted(tool: object) -> object:
    """Return the description of a tool object: LangChain's own, a function, or a model of its arguments."""
    try:
        return convert_to_openai_tool(tool)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - of an unreadable object, its name may be all there is
        return {"name": str(getattr(tool, "name", None) or getattr(tool, "__name__", None) or type(tool).__name__)}
