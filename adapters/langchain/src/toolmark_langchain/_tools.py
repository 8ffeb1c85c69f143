"""Which tools was the model offered? Every provider's way of writing them in a request becomes a `ToolSpec`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_tool

from toolmark.calls import ToolCallType, ToolSpec, read_tool_spec
from toolmark.errors import InvalidDataError

# Tools of a provider's making that the agent's own code runs.
_RUN_BY_CLIENT = ("bash", "text_editor", "computer", "memory", "str_replace", "local_shell", "shell", "apply_patch")


def offered_tools(parameters: Mapping[str, Any]) -> list[object]:
    """Return the tools of a request: each as a `ToolSpec`, or as it is where it cannot be read as one.

    Args:
        parameters: What LangChain hands to the provider (`invocation_params`).
    """
    found: list[object] = []
    for key in ("tools", "functions"):
        tools = parameters.get(key)
        for tool in tools if isinstance(tools, (list, tuple)) else ():
            found += [_spec(shape) for shape in _shapes(tool)] if tool is not None else []
    return found


def declared_arguments(specs: Iterable[object], name: str) -> list[str]:
    """Return the names of the arguments that a tool declares, if it is among these."""
    for spec in specs:
        if isinstance(spec, ToolSpec) and spec.name == name:
            properties = (spec.input_schema or {}).get("properties")
            return list(properties) if isinstance(properties, dict) else []
    return []


def _spec(shape: object) -> object:
    try:
        return read_tool_spec(shape)
    except InvalidDataError:
        return shape  # the builder says so


def _shapes(tool: object) -> Iterator[object]:
    if not isinstance(tool, Mapping):
        yield _converted(tool)
        return
    body = tool.get("toolSpec")
    declarations = tool.get("function_declarations", tool.get("functionDeclarations"))
    inner = tool.get("tools")
    if isinstance(body, Mapping):  # Bedrock
        schema = body.get("inputSchema")
        schema = schema.get("json", schema) if isinstance(schema, Mapping) else None
        yield _named(body.get("name"), body.get("description"), schema)
    elif tool.get("type") == "namespace" and isinstance(inner, list):
        for item in inner:
            yield from _shapes(item)
    elif isinstance(tool.get("type"), str):
        yield from _typed(tool)
    elif "name" in tool or "function" in tool:
        yield dict(tool)
    else:  # Gemini: one object whose keys are its own tools, beside the declared functions
        for item in declarations if isinstance(declarations, list) else ():
            yield from _shapes(item)
        for name, options in tool.items():
            if options is not None and name not in ("function_declarations", "functionDeclarations"):
                yield ToolSpec(name=name, type=ToolCallType.HOSTED)


def _typed(tool: Mapping[str, Any]) -> Iterator[object]:
    kind = str(tool["type"])
    if kind == "mcp":
        label, allowed = tool.get("server_label") or "mcp", tool.get("allowed_tools")
        allowed = allowed.get("tool_names") if isinstance(allowed, Mapping) else allowed
        for name in allowed if isinstance(allowed, list) and allowed else [label]:
            yield ToolSpec(name=str(name), type=ToolCallType.MCP)
    elif kind in ("function", "custom"):
        body = tool.get("custom")
        yield {**tool, **body} if isinstance(body, Mapping) else dict(tool)
    elif kind.startswith(_RUN_BY_CLIENT) or "input_schema" in tool or "parameters" in tool:
        yield {**{key: value for key, value in tool.items() if key != "type"}, "name": tool.get("name") or kind}
    else:
        yield ToolSpec(name=str(tool.get("name") or kind), type=ToolCallType.HOSTED)


def _named(name: object, description: object, schema: object) -> object:
    given: dict[str, Any] = {"name": name, "description": description, "input_schema": schema}
    return {key: value for key, value in given.items() if value is not None}


def _converted(tool: object) -> object:
    """Return a tool that is no plain object: LangChain's own, a function, or a model of its arguments."""
    try:
        return convert_to_openai_tool(tool)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - whatever was offered, its name may be all that can be known
        return {"name": str(getattr(tool, "name", None) or getattr(tool, "__name__", None) or type(tool).__name__)}
