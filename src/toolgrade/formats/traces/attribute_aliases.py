"""Attributes of tracers that use names of their own, translated to the common conventions.

`semantic_conventions` reads the result like any other span.
"""

from __future__ import annotations

import re
from typing import Any

from toolgrade._internal.json import parse_json
from toolgrade._internal.message_content import object_of
from toolgrade.errors import InvalidDataError
from toolgrade.formats.traces.python_literal import read_literal
from toolgrade.formats.traces.values import json_object, string_of

TOOLS_OF_SMOLAGENTS = "smolagents.tools_names"
"""An attribute of agents of smolagents, in the spans of OpenInference."""

_MLFLOW_KIND = "mlflow.spanType"
_OPENINFERENCE_KIND = "openinference.span.kind"
_BEEAI_MARKS = frozenset({"metadata.class_name", "metadata.path"})
_LITELLM_SPAN = "raw_gen_ai_request"
"""Name of LiteLLM's span of a raw request; the span around it may have no messages."""
_LITELLM_REPLY = re.compile(r"(?:llm\.)?(.*)\.(choices|content)", re.DOTALL)
_LOGFIRE: dict[str, tuple[str, str, dict[str, str]]] = {
    "Agent run: ": ("invoke_agent", "gen_ai.system", {"name": "gen_ai.agent.name"}),
    "Function: ": (
        "execute_tool",
        "gen_ai.system",
        {"name": "gen_ai.tool.name", "input": "gen_ai.tool.call.arguments", "output": "gen_ai.tool.call.result"},
    ),
    "Handoff: ": ("execute_tool", "gen_ai.system", {"to_agent": "to_agent"}),
    "Chat completion with ": (
        "chat",
        "gen_ai.system",
        {"input": "gen_ai.input.messages", "output": "gen_ai.output.messages"},
    ),
    "OpenAI Agents trace: ": ("invoke_workflow", "agent_trace_id", {"group_id": "gen_ai.conversation.id"}),
}
"""Logfire's spans of the OpenAI Agents SDK by the start of their message template: the operation, an attribute that
such a span always has (user code may log messages with the same start), and the common name of each attribute."""


def with_common_names(attributes: dict[str, Any], span_name: str) -> dict[str, Any]:
    """Return the attributes of a span with the common names added where its tracer has others."""
    if _MLFLOW_KIND in attributes:
        return {key: _mlflow_value(value) for key, value in attributes.items()}
    if span_name == _LITELLM_SPAN:
        return {**_litellm_request(attributes), **attributes}
    if _OPENINFERENCE_KIND in attributes and _BEEAI_MARKS & attributes.keys():
        return {**attributes, **_beeai_names(attributes)}
    if TOOLS_OF_SMOLAGENTS in attributes:
        return {"gen_ai.agent.name": span_name.removesuffix(".run"), **attributes}
    template = string_of(attributes.get("logfire.msg_template"))
    return {**_logfire_names(attributes, template), **attributes} if template else attributes


def _beeai_names(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return what differs from OpenInference in a span of the BeeAI framework."""
    # Events of a tool or an agent (an error, a retry, an answer) have spans of their own, with the kind of the span
    # that they are of.
    if "metadata.path" in attributes and "metadata.id" in attributes:
        return {_OPENINFERENCE_KIND: "CHAIN"}
    arguments = json_object(attributes.get("input.value"))
    if "tool.name" in attributes and sorted(arguments) == ["input", "options"]:
        return {"input.value": arguments["input"]}
    return {}


def _logfire_names(attributes: dict[str, Any], template: str) -> dict[str, Any]:
    """Return the common names of a Logfire span of MCP or of the OpenAI Agents SDK."""
    request = json_object(attributes.get("request"))
    if request.get("method") == "tools/call":
        params = object_of(request.get("params"))
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": params.get("name"),
            "gen_ai.tool.call.arguments": params.get("arguments"),
            "gen_ai.tool.call.result": attributes.get("response"),
            "mcp.method.name": "tools/call",
        }
    for start, (operation, marker, names) in _LOGFIRE.items():
        if template.startswith(start) and marker in attributes:
            # Logfire writes the text `null` for a value that was not captured.
            renamed = {new: attributes[old] for old, new in names.items() if attributes.get(old) not in (None, "null")}
            return {"gen_ai.operation.name": operation, **renamed}
    return {}


def _litellm_request(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the messages of a request that LiteLLM printed with `repr`, in the form of OpenAI or Anthropic."""
    for match in filter(None, map(_LITELLM_REPLY.fullmatch, attributes)):
        provider, name = match.groups()
        reply = _printed_list(attributes.get(f"llm.{provider}.{name}"))
        prompt = _printed_list(attributes.get(f"llm.{provider}.messages"))
        if reply is not None and prompt is not None:
            return {
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": prompt,
                "gen_ai.output.messages": (
                    {"choices": reply} if name == "choices" else {"role": "assistant", "content": reply}
                ),
                "gen_ai.response.id": attributes.get(f"llm.{provider}.id"),
            }
    return {}


def _printed_list(text: object) -> list[Any] | None:
    value = object_of(read_literal(f"{{'_': {text}}}")).get("_")
    return value if isinstance(value, list) else None


def _mlflow_value(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return the value of an MLflow attribute: MLflow writes every value as JSON, also numbers and booleans."""
    try:
        return parse_json(value, unique_keys=False) if isinstance(value, str) else value
    except InvalidDataError:
        return value
