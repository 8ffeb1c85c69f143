"""Which tools does an agent have, and what was a tool handed? LlamaIndex's tools in, `ToolSpec`s and arguments out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from llama_index.core.tools import BaseTool, FunctionTool
from llama_index.core.workflow import Context

from toolmark.calls import ToolCallType, ToolSpec
from toolmark.errors import InvalidDataError

_MCP: Final = "llama_index.tools.mcp"


async def available_tools(agent: object) -> list[ToolSpec]:
    """Return the tools that an agent's model can choose from.

    Tools of a retriever are those that it finds for an empty question. Of an `AgentWorkflow` these are the tools of all
    its agents, each name once, and the tool by which they hand over. Descriptions are those the model reads, which
    LlamaIndex begins with the function's signature.

    Args:
        agent: A FunctionAgent, ReActAgent or CodeActAgent, an `AgentWorkflow`, or a list of tools.

    Raises:
        InvalidDataError: It is none of these.
    """
    if isinstance(agent, (list, tuple)):
        return specs_of(agent)
    get_tools = getattr(agent, "get_tools", None)
    if get_tools is None:
        raise InvalidDataError(
            f"expected an agent, an AgentWorkflow or a list of tools, got {type(agent).__name__}; "
            "of a workflow written by hand, pass the tools"
        )
    members = getattr(agent, "agents", None)
    if not isinstance(members, Mapping):
        return specs_of(await get_tools(""))
    found: dict[str, ToolSpec] = {}
    for name in members:
        for spec in specs_of(await get_tools(name, "")):
            found.setdefault(spec.name, spec)
    return list(found.values())


def specs_of(tools: Iterable[object]) -> list[ToolSpec]:
    """Return what is known of tools, without those that have no name."""
    return [spec_of(tool) for tool in tools if isinstance(tool, BaseTool) and tool.metadata.name]


def spec_of(tool: BaseTool) -> ToolSpec:
    """Return what is known of a tool."""
    about = tool.metadata
    given: dict[str, Any] = {"type": ToolCallType.MCP} if is_mcp(tool) else {}
    return ToolSpec(
        name=about.get_name(), description=about.description, input_schema=about.get_parameters_dict(), **given
    )


def is_mcp(tool: object) -> bool:
    """Return whether a tool is one of an MCP server."""
    if not isinstance(tool, FunctionTool):
        return False
    return str(getattr(tool.real_fn, "__module__", "")).startswith(_MCP)


def kind_of(tool: object) -> ToolCallType | None:
    """Return the type of a tool, as far as it shows."""
    return ToolCallType.MCP if is_mcp(tool) else None


def is_same(tool: object, outer: object) -> bool:
    """Return whether a tool that runs inside another one is that very tool: by a method of its own, or wrapped."""
    return outer is not None and (tool is outer or getattr(outer, "base_tool", None) is tool)


def arguments_of(tool: BaseTool, bound: inspect.BoundArguments) -> dict[str, Any]:
    """Return the arguments that a tool was called with, without a workflow's context."""
    context = tool.ctx_param_name if isinstance(tool, FunctionTool) else None

    def names() -> list[str]:
        return list(tool.metadata.get_parameters_dict().get("properties", {}))

    return named_arguments(bound, names, context)


def named_arguments(
    bound: inspect.BoundArguments, names: Callable[[], Iterable[str]], context: str | None = None
) -> dict[str, Any]:
    """Return bound arguments by name.

    Args:
        bound: What a function was called with.
        names: Returns the names of the function's arguments, for those that were given by position only.
        context: The name of an argument to leave out.
    """
    found: dict[str, Any] = {}
    positional: list[Any] = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            positional += value
        else:
            found[name] = value
    if positional:
        free = [name for name in names() if name not in found and name != context]
        more = [f"argument_{index}" for index in range(len(positional) - len(free))]
        found.update(zip([*free, *more], positional, strict=False))
    return {name: value for name, value in found.items() if name != context and not isinstance(value, Context)}
