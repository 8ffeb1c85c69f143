"""Reader of the `tools` of a request: the tools that the model could choose from, with the names that calls have.

Sources: OpenAI API reference, "Create a model response", `tools`, and "Create chat completion", `tools`; Anthropic API
reference, "Create a Message", `tools`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toolgrade._internal.json import to_json_value
from toolgrade._internal.message_content import Fields, as_object, is_tool_search, object_of
from toolgrade.calls import ToolCallType, ToolSpec, read_tool_spec
from toolgrade.errors import InvalidDataError
from toolgrade.formats.messages.field_readers import list_of
from toolgrade.formats.messages.gemini import camel_keys

if TYPE_CHECKING:
    from toolgrade.formats.messages.transcript import FormatName

_DATED = re.compile(r"_\d{8}$|_preview(_\d{4}_\d{2}_\d{2})?$|_\d{4}_\d{2}_\d{2}$")
"""Ends of the types of provider's tools that their calls do not have."""

_RUN_BY_AGENT = frozenset({"local_shell", "shell", "apply_patch", "computer", "computer_use"})
"""Tools that OpenAI describes and the agent runs."""

_CALL_NAMES = {"computer": "computer_use_preview", "computer_use": "computer_use_preview"}
"""Tools of OpenAI whose calls have another name."""

_DESCRIBED = {"": ToolCallType.FUNCTION, "function": ToolCallType.FUNCTION, "custom": ToolCallType.CUSTOM}
"""Types of tools that come with their name, each with the type of their calls."""

_SERVER_TOOLS = ("web_search", "web_fetch", "code_execution", "advisor")
"""Beginnings of the types of Anthropic's tools that Anthropic runs."""


def offered_tools(format: FormatName, tools: Sequence[object]) -> tuple[list[ToolSpec], bool]:
    """Return the tools as specifications, and whether no other tool could be called.

    Others could be called where a server, a search or a set brings tools that are not named here. A tool that cannot be
    read counts as such: it may well have been called.
    """
    read_specs = _READERS.get(format, _openai_specs)
    specs: list[ToolSpec] = []
    all_known = True
    for tool in tools:
        if "cachePoint" in object_of(tool):  # of Bedrock, and not a tool
            continue
        try:
            read = read_specs(object_of(tool))
        except InvalidDataError:
            read = []
        specs += read
        all_known &= bool(read) and all(spec.type in (ToolCallType.FUNCTION, ToolCallType.CUSTOM) for spec in read)
    return specs, all_known


def _openai_specs(tool: Fields) -> list[ToolSpec]:
    kind = _kind_of(tool)
    if kind == "namespace":
        return [spec for entry in list_of(tool.get("tools")) for spec in _openai_specs(object_of(entry))]
    if kind in _DESCRIBED or "input_schema" in tool:
        return [_spec(as_object(tool.get(kind)) or tool, _DESCRIBED.get(kind, ToolCallType.FUNCTION))]
    if kind == "mcp" and "inputSchema" in tool:  # one tool, as toolgrade's recorder of MCP sessions writes it
        return [_spec(tool, ToolCallType.MCP)]
    return _provider_specs(_DATED.sub("", kind))


def _provider_specs(name: str) -> list[ToolSpec]:
    """Return the tool of OpenAI with this type; none for a set of tools."""
    if name == "mcp" or is_tool_search(name):
        return []
    runner = ToolCallType.FUNCTION if name in _RUN_BY_AGENT else ToolCallType.HOSTED
    return [ToolSpec(name=_CALL_NAMES.get(name, name), type=runner)]


def _anthropic_specs(tool: Fields) -> list[ToolSpec]:
    if "name" not in tool or is_tool_search(_kind_of(tool)):  # a set of tools, or those of a server
        return []
    is_hosted = _kind_of(tool).startswith(_SERVER_TOOLS)
    return [_spec(tool, ToolCallType.HOSTED if is_hosted else ToolCallType.FUNCTION)]


def _bedrock_specs(tool: Fields) -> list[ToolSpec]:
    if "systemTool" in tool:
        return [ToolSpec(name=str(object_of(tool["systemTool"]).get("name")), type=ToolCallType.HOSTED)]
    spec = object_of(tool.get("toolSpec"))
    return [_spec({**spec, "inputSchema": object_of(spec.get("inputSchema")).get("json")}, ToolCallType.FUNCTION)]


def _gemini_specs(tool: Fields) -> list[ToolSpec]:
    tools = camel_keys(tool)
    functions = map(camel_keys, list_of(tools.pop("functionDeclarations", None)))
    schemas = [(one, one.get("parametersJsonSchema") or _json_schema(one.get("parameters"))) for one in functions]
    specs = [_spec({**one, "parameters": schema}, ToolCallType.FUNCTION) for one, schema in schemas]
    return specs + [ToolSpec(name=name, type=ToolCallType.HOSTED) for name in tools]


def _json_schema(schema: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Return a `Schema` of Gemini, whose types are in upper case, as a JSON Schema."""
    if isinstance(schema, list):
        return [_json_schema(one) for one in schema]
    if as_object(schema) is None:
        return schema
    fields = {**camel_keys(schema)}
    kind = str(to_json_value(fields.get("type"))).lower()
    types = {"type": [kind, "null"] if fields.pop("nullable", False) else kind} if "type" in fields else {}
    properties = {name: _json_schema(one) for name, one in object_of(fields.get("properties")).items()}
    fields |= {key: _json_schema(fields[key]) for key in ("items", "anyOf") if key in fields}
    return fields | types | ({"properties": properties} if properties else {})


_READERS = {"anthropic": _anthropic_specs, "bedrock": _bedrock_specs, "gemini": _gemini_specs}


def _kind_of(tool: Fields) -> str:
    return str(tool.get("type") or "")


def _spec(tool: Fields, type: ToolCallType) -> ToolSpec:
    return read_tool_spec({**tool, "type": type.value})
