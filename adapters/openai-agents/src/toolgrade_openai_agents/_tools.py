"""Tools of agents: their specs, names and servers, and the arguments that they receive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import agents
from agents import RunContextWrapper
from agents.agent import AgentBase
from pydantic import BaseModel, ValidationError

from toolgrade import ToolCallType, ToolSpec
from toolgrade.calls import read_tool_spec

_PROVIDER_TOOLS: Final = {
    "WebSearchTool": "web_search",
    "FileSearchTool": "file_search",
    "CodeInterpreterTool": "code_interpreter",
    "ImageGenerationTool": "image_generation",
}
_LOCAL_TOOLS: Final = {
    "ComputerTool": "computer_use_preview",
    "ShellTool": "shell",
    "LocalShellTool": "local_shell",
    "ApplyPatchTool": "apply_patch",
}
_CUSTOM: Final[Any] = getattr(agents, "CustomTool", ())
"""The class of tools of free text; none in older releases."""
# Groups of tools with separate names, or settings that are not tools.
_PLACEHOLDERS: Final = frozenset({"HostedMCPTool", "ToolSearchTool", "ProgrammaticToolCallingTool"})


async def available_tools(agent: Any, *, context: Any = None, handoffs: bool = True) -> list[ToolSpec]:
    """Return the tools of an agent, as its model is offered them.

    The agent's MCP servers are asked for theirs and must be connected. Tools that are not enabled and tools that hand
    over to other agents are left out. Of tools with the same name, the first one counts.

    Args:
        agent: The agent.
        context: The `context` that `Runner.run` would receive, for tools that are enabled by it.
        handoffs: Also return the tools of the agents that it can hand over to, directly or through others.

    Example:
        >>> import asyncio
        >>> from agents import Agent, function_tool
        >>> from toolgrade_openai_agents import available_tools
        >>> @function_tool
        ... def get_weather(city: str) -> str:
        ...     '''Return the weather in a city.'''
        ...     return f"sunny in {city}"
        >>> [tool] = asyncio.run(available_tools(Agent(name="Weather", tools=[get_weather])))
        >>> tool.name, tool.description, list(tool.input_schema["properties"])
        ('get_weather', 'Return the weather in a city.', ['city'])
    """
    specs: dict[str, ToolSpec] = {}
    wrapper = RunContextWrapper(context=context)
    agents = [agent]
    for member in agents:  # grows while it is walked
        for tool in await member.get_all_tools(wrapper):
            spec = spec_of(member, tool)
            if spec is not None:
                specs.setdefault(spec.name, spec)
        for handoff in getattr(member, "handoffs", ()) if handoffs else ():
            target = _target(handoff)
            if target is not None and not any(target is other for other in agents):
                agents.append(target)
    return list(specs.values())


def _target(handoff: Any) -> Any:
    """Return the agent that a handoff leads to; `None` if only its name is known."""
    if isinstance(handoff, AgentBase):
        return handoff
    reference = getattr(handoff, "_agent_ref", None)
    return reference() if callable(reference) else None


def spec_of(agent: Any, tool: Any) -> ToolSpec | None:
    """Return the spec that the model receives of a tool; `None` for a placeholder of tools listed elsewhere."""
    kind, name = type(tool).__name__, tool_name(tool)
    if kind in _PLACEHOLDERS or not name:
        return None
    call_type: ToolCallType | None = None
    if kind in _PROVIDER_TOOLS:
        call_type = ToolCallType.HOSTED
    elif isinstance(tool, _CUSTOM):
        call_type = ToolCallType.CUSTOM
    elif mcp_server(agent, tool) is not None:
        call_type = ToolCallType.MCP
    description, schema = getattr(tool, "description", None), getattr(tool, "params_json_schema", None)
    return _spec(name, call_type, description, schema, getattr(tool, "mcp_annotations", None))  # hints: since 0.24


def listed_tools(item: Any) -> list[ToolSpec]:
    """Return the tools that a hosted MCP server lists, if the provider's item is such a list."""
    if field_of(item, "type") != "mcp_list_tools":
        return []
    fields = ("description", "input_schema", "annotations")
    return [
        _spec(field_of(tool, "name"), ToolCallType.MCP, *(field_of(tool, name) for name in fields))
        for tool in field_of(item, "tools") or ()
    ]


def _spec(name: str, call_type: ToolCallType | None, description: Any, schema: Any, hints: Any) -> ToolSpec:
    fields: dict[str, Any] = {"name": name}
    if call_type is not None:
        fields["type"] = call_type
    if isinstance(description, str) and description:
        fields["description"] = description
    if isinstance(schema, Mapping):
        fields["input_schema"] = schema if type(schema) is dict else dict(schema)
    return ToolSpec(**fields) if hints is None else read_tool_spec({**fields, "annotations": hints})


def field_of(item: Any, name: str) -> Any:
    """Return a field of a dict or an attribute of an object; `None` where it is missing."""
    if item is None:
        return None
    # Most are dicts, and the check for any other mapping takes long.
    return item.get(name) if type(item) is dict or isinstance(item, Mapping) else getattr(item, name, None)


def tool_name(tool: Any) -> str:
    """Return the name under which a tool's calls are recorded."""
    kind = type(tool).__name__
    return _LOCAL_TOOLS.get(kind) or _PROVIDER_TOOLS.get(kind) or str(getattr(tool, "name", "") or "")


def has_output_item(tool: Any) -> bool:
    """Return whether the item of a tool's result holds more than the hook, which receives only its text."""
    return type(tool).__name__ in ("ShellTool", "ComputerTool")


def mcp_server(agent: Any, tool: Any) -> str | None:
    """Return the name of the MCP server that a tool of an agent comes from; `None` for any other tool."""
    origin = getattr(tool, "_tool_origin", None)
    if origin is not None:
        name = getattr(origin, "mcp_server_name", None)
        return name if isinstance(name, str) else None
    # Older releases do not say where a tool comes from: it is a function tool that is not among the agent's own, and
    # its callable is a partial of (server, tool).
    servers = getattr(agent, "mcp_servers", None) or ()
    own = any(tool is other for other in getattr(agent, "tools", ()))
    if not servers or own or type(tool).__name__ != "FunctionTool":
        return None
    bound = getattr(vars(tool).get("on_invoke_tool"), "args", ())  # not a double, while a recording is replayed
    name = getattr(bound[0] if bound else None, "name", None)
    return name if isinstance(name, str) else str(getattr(servers[0], "name", "mcp"))


def arguments_of(tool: Any, context: Any) -> dict[str, Any] | None:
    """Return the arguments that a tool receives; `None` if they cannot be seen or are not a JSON object."""
    text, kind = getattr(context, "tool_arguments", None), type(tool).__name__
    # The SDK's local tools receive parsed objects, and not the text that the model wrote.
    if not isinstance(text, str) or tool is None or kind in _LOCAL_TOOLS:
        return None
    if isinstance(tool, _CUSTOM):
        return {"input": text}
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def refuses_arguments(tool: Any, context: Any, output: Any) -> bool:
    """Return whether a tool of a sandbox was called with arguments that it refuses, which it says by a text."""
    arguments: type[BaseModel] | None = getattr(tool, "args_model", None)  # as `ExecCommandTool` has, since 0.14
    if arguments is None:
        return False
    try:
        arguments.model_validate_json(getattr(context, "tool_arguments", None) or "")
    except ValidationError:
        return True
    return str(output).startswith(("Invalid workdir. ", "Invalid path. "))


def carries_answer(name: str, agent: Any) -> bool:
    """Return whether a tool of this name only carries the structured answer of an agent.

    Models behind LiteLLM answer by a call of `json_tool_call`, which the SDK runs although no agent has such a tool.
    """
    if name != "json_tool_call" or getattr(agent, "output_type", None) in (None, str):
        return False
    return name not in [tool_name(tool) for tool in getattr(agent, "tools", None) or ()]


def handoff_targets(agent: Any) -> dict[str, str]:
    """Return the names of the agents that an agent can hand over to, by the names of the tools that do it."""
    targets: dict[str, str] = {}
    for handoff in getattr(agent, "handoffs", None) or ():
        if isinstance(handoff, AgentBase):
            targets[_default_handoff_tool(handoff)] = handoff.name
        else:
            targets[str(handoff.tool_name)] = str(handoff.agent_name)
    return targets


def refused_target(name: str, agent: Any) -> str | None:
    """Return the agent that a call led to which the SDK took for a call of a tool; `None` if it was one of a tool."""
    own = [tool_name(tool) for tool in getattr(agent, "tools", None) or ()]
    return None if name in own else handoff_targets(agent).get(name)


def handoffs_around(agent: Any) -> dict[str, str]:
    """Return the handoff tools from an agent, and the default one to it, with the agents that they lead to."""
    return {**handoff_targets(agent), _default_handoff_tool(agent): agent.name} if isinstance(agent, AgentBase) else {}


def _default_handoff_tool(agent: Any) -> str:
    from agents.handoffs import Handoff  # noqa: PLC0415 - a package or a module, by release

    return str(Handoff.default_tool_name(agent))
