"""Tools of agents: their specs, and the arguments that they receive."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from llama_index.core.tools import BaseTool, FunctionTool
from llama_index.core.workflow import Context

from toolgrade.calls import ToolCallType, ToolSpec
from toolgrade.errors import InvalidDataError
from toolgrade_llama_index._track import Tracked

_MCP_PACKAGE: Final = "llama_index.tools.mcp"
_PROGRAMS: Final = ("llama_index.core.program.", "llama_index.program.")


async def available_tools(agent: object) -> list[ToolSpec]:
    """Return the tools that an agent's model can choose from.

    Tools of a retriever are those that it returns for an empty question. The tools of an `AgentWorkflow` are those of
    all its agents, each name once, and the handoff tool. Descriptions are those that the model reads, which LlamaIndex
    begins with the signature of the function.

    Args:
        agent: A FunctionAgent, ReActAgent or CodeActAgent, an `AgentWorkflow`, or a list of tools.

    Raises:
        InvalidDataError: `agent` is none of these.

    Example:
        >>> import asyncio
        >>> from llama_index.core.tools import FunctionTool
        >>> from toolgrade_llama_index import available_tools
        >>> def get_weather(city: str) -> str:
        ...     '''Return the weather in a city.'''
        ...     return f"sunny in {city}"
        >>> [tool] = asyncio.run(available_tools([FunctionTool.from_defaults(get_weather)]))
        >>> tool.name, list(tool.input_schema["properties"])
        ('get_weather', ['city'])
    """
    if isinstance(agent, (list, tuple)):
        return specs_of(agent)
    get_tools = getattr(agent, "get_tools", None)
    if get_tools is None:
        raise InvalidDataError(
            f"expected an agent, an AgentWorkflow or a list of tools, got {type(agent).__name__}; "
            "for a workflow of your own, pass its tools"
        )
    members = getattr(agent, "agents", None)
    if not isinstance(members, Mapping):
        return specs_of(await get_tools(""))
    specs: dict[str, ToolSpec] = {}
    for name in members:
        for spec in specs_of(await get_tools(name, "")):
            specs.setdefault(spec.name, spec)
    return list(specs.values())


def specs_of(tools: Iterable[object]) -> list[ToolSpec]:
    """Return the specs of the tools that have a name."""
    specs: list[ToolSpec] = []
    for tool in tools:
        if isinstance(tool, BaseTool) and tool.metadata.name:
            metadata, call_type = tool.metadata, call_type_of(tool)
            spec = ToolSpec(
                name=metadata.get_name(), description=metadata.description, input_schema=metadata.get_parameters_dict()
            )
            specs.append(spec if call_type is ToolCallType.FUNCTION else spec.model_copy(update={"type": call_type}))
    return specs


def is_pseudo_tool(tool: object) -> bool:
    """Return whether a tool only carries the structured answer of a model, as those of LlamaIndex's programs do."""
    return module_of(tool).startswith(_PROGRAMS)


def call_type_of(tool: object) -> ToolCallType:
    """Return `MCP` for a tool of an MCP server, else `FUNCTION`: LlamaIndex reports no tools that providers run."""
    return ToolCallType.MCP if module_of(tool).startswith(_MCP_PACKAGE) else ToolCallType.FUNCTION


def module_of(tool: object) -> str:
    """Return the module that defines the function of a tool; empty for a tool without one."""
    return str(getattr(tool.real_fn, "__module__", "")) if isinstance(tool, FunctionTool) else ""


def call_of(tool: BaseTool | Tracked, bound: inspect.BoundArguments) -> tuple[str, dict[str, Any]]:
    """Return the name of a tool, and the arguments that it was called with, without the context of its workflow."""
    if isinstance(tool, Tracked):
        return tool.name, _bound_arguments(bound, tool.names)
    context = tool.ctx_param_name if isinstance(tool, FunctionTool) else None

    def names() -> list[str]:
        return list(tool.metadata.get_parameters_dict().get("properties", {}))

    return tool.metadata.name or "", _bound_arguments(bound, names, context)


def _bound_arguments(
    bound: inspect.BoundArguments, names: Callable[[], Iterable[str]], context: str | None = None
) -> dict[str, Any]:
    """Return bound arguments by name.

    Args:
        bound: The arguments of the call.
        names: Returns the names of the function's parameters, for arguments that were passed by position only.
        context: The name of an argument to leave out.
    """
    arguments: dict[str, Any] = {}
    positional: list[Any] = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            arguments.update(value)
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            positional += value
        else:
            arguments[name] = value
    if positional:
        free = [name for name in names() if name not in arguments and name != context]
        more = [f"argument_{index}" for index in range(len(positional) - len(free))]
        arguments.update(zip([*free, *more], positional, strict=False))
    return {name: value for name, value in arguments.items() if name != context and not isinstance(value, Context)}
