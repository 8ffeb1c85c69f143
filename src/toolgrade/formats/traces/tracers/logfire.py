"""Pydantic AI and Logfire, which come from one maker and write the same attributes.

Sources: Pydantic AI documentation, "Pydantic Logfire", section "OpenTelemetry Semantic Conventions"; Logfire
documentation, "Integrations", sections "OpenAI" (agents) and "MCP".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolgrade._internal.message_content import object_of, text_of
from toolgrade.formats.messages.field_readers import list_of
from toolgrade.formats.traces.span_tree import Span
from toolgrade.formats.traces.tracers.tracer import CONVERSATION, HANDOFF, NO_OUTPUT, Attributes, Tracer
from toolgrade.formats.traces.values import json_object, string_of
from toolgrade.matching.json_compare import ABSENT

_ALL_MESSAGES = ("pydantic_ai.all_messages", "all_messages_events")
_TEMPLATES: dict[str, tuple[str, str, dict[str, str]]] = {
    "Agent run: ": ("invoke_agent", "gen_ai.system", {"name": "gen_ai.agent.name"}),
    "Function: ": (
        "execute_tool",
        "gen_ai.system",
        {"name": "gen_ai.tool.name", "input": "gen_ai.tool.call.arguments", "output": "gen_ai.tool.call.result"},
    ),
    "Handoff: ": ("execute_tool", "gen_ai.system", {"to_agent": HANDOFF}),
    "Chat completion with ": (
        "chat",
        "gen_ai.system",
        {"input": "gen_ai.input.messages", "output": "gen_ai.output.messages"},
    ),
    "Responses API with ": ("chat", "gen_ai.system", {"response": "gen_ai.output.messages"}),
    "OpenAI Agents trace: ": ("invoke_workflow", "agent_trace_id", {"group_id": "gen_ai.conversation.id"}),
}
"""Spans of the OpenAI Agents SDK by the start of their message template: the operation, an attribute that such a span
always has (user code may log messages with the same start), and the common name of each attribute."""


def _translate(attributes: Attributes, _: str) -> Attributes:
    template = string_of(attributes.get("logfire.msg_template"))
    if not template:
        return attributes
    request = json_object(attributes.get("request"))
    if request.get("method") == "tools/call":  # of MCP
        params = object_of(request.get("params"))
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": params.get("name"),
            "gen_ai.tool.call.arguments": params.get("arguments"),
            "gen_ai.tool.call.result": attributes.get("response"),
            "mcp.method.name": "tools/call",
            **attributes,
        }
    for start, (operation, marker, names) in _TEMPLATES.items():
        if template.startswith(start) and marker in attributes:
            # Logfire writes the text `null` for a value that was not captured.
            renamed = {new: attributes[old] for old, new in names.items() if attributes.get(old) not in (None, "null")}
            return {"gen_ai.operation.name": operation, **renamed, **attributes}
    return attributes


def _offered(span: Span) -> Iterator[Any]:
    parameters = json_object(span.attributes.get("model_request_parameters"))
    for tool in (*list_of(parameters.get("function_tools")), *list_of(parameters.get("output_tools"))):
        fields = object_of(tool)
        yield {**fields, "parameters": fields.get("parameters_json_schema")}


def _complete(span: Span) -> None:
    if span.kind not in ("model", "tool", "handoff"):
        span.output_text = text_of(span.attributes.get("final_result")) or span.output_text


def _complete_tool(span: Span) -> None:
    if span.attributes.get("output") == "null" != span.attributes.get("input"):
        span.tool_run.status = NO_OUTPUT
    span.error = span.error or text_of(span.attributes.get("pydantic_ai.tool.deferral.name"))
    # The key under which a tool span keeps a text that is not JSON; the tool received nothing.
    if set(json_object(span.tool_run.arguments)) == {"INVALID_JSON"}:
        span.tool_run.arguments = ABSENT


LOGFIRE = Tracer(
    names={
        "gen_ai.agent.name": ("agent_name",),
        "gen_ai.tool.call.arguments": ("tool_arguments",),
        "gen_ai.tool.call.result": ("tool_response",),
        CONVERSATION: (*_ALL_MESSAGES, "events"),
    },
    marks={"tool": ("tool_arguments",), "agent": (*_ALL_MESSAGES, "agent_name")},
    translate=_translate,
    offered=_offered,
    complete=_complete,
    complete_tool=_complete_tool,
)
