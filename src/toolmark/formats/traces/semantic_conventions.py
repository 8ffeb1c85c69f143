"""The meaning of OpenTelemetry spans, in the conventions that are in use.

These are the GenAI conventions of OpenTelemetry, from the events of their first years to the messages of today, and
those of OpenInference, OpenLLMetry, the Vercel AI SDK, Pydantic AI, Google's ADK, Haystack, LlamaIndex, MLflow and
any-agent. The tables here, in `span_kinds`, `tool_spans`, `span_messages` and `attribute_aliases` name every attribute
that is read; any other attribute is ignored. Within a table the more specific name comes first, since many libraries
write two conventions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from toolmark._internal.message_content import Fields, as_object, first_of, object_of, parts_of, text_of
from toolmark.formats.messages.field_readers import decoded, id_of, list_of
from toolmark.formats.traces.attribute_aliases import with_common_names
from toolmark.formats.traces.attribute_readers import json_list, json_object, object_under, string_of, token_counts
from toolmark.formats.traces.span_kinds import kind_of, name_in
from toolmark.formats.traces.span_messages import (
    LLAMA_INDEX_PROMPT,
    Attributes,
    Event,
    RawSpan,
    indexed,
    prompt_of,
    reply_of,
    surroundings_of,
)
from toolmark.formats.traces.span_tree import ModelCall, Span
from toolmark.formats.traces.tool_spans import handoff_target, tool_run_of
from toolmark.formats.traces.trace_messages import Message, Speaker, last_text, tools_beside_messages

_AGENTS = ("gen_ai.agent.name", "agent_name", "agent.name")
_NODES = ("graph.node.name", "graph.node.id")
"""Where OpenInference keeps the name of a CrewAI agent."""
_SESSIONS = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "gcp.vertex.agent.session_id",
    "traceloop.association.properties.thread_id",
    "traceloop.association.properties.session_id",
    "ai.telemetry.metadata.sessionId",
    "mlflow.trace.session",
)
_MODELS = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
    "ai.response.model",
    "ai.model.id",
    "mlflow.llm.model",
)
_USAGE = {
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    "total_tokens": ("gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total"),
}
_FINISH_REASONS = (
    "gen_ai.response.finish_reasons",
    "gen_ai.response.finish_reason",
    "llm.finish_reason",
    "ai.response.finishReason",
    "anthropic.message.stop_reason",
)
_RESPONSES = ("output.value", "mlflow.spanOutputs", "haystack.agent.step.llm.output", "haystack.component.output")
_TOOL_REASONS = frozenset({"tool_calls", "tool_call", "tool_use", "function_call"})
_GOOGLE = ("gemini", "gcp", "google", "vertex")
"""Prefixes of Google's provider names. Its models report `STOP` also when they ask for tools."""
_TOOLS = ("gen_ai.tool.definitions", "ai.prompt.tools", "gen_ai.request.tools", "mlflow.chat.tools")
_PROMPTS_WITH_TOOLS = ("langfuse.observation.input", "haystack.agent.step.llm.input", "haystack.component.input")


def interpret(raw: RawSpan) -> Span:
    """Return the span with its kind, its messages and its event, read from attributes and events."""
    span = raw.span
    raw.attributes = with_common_names(raw.attributes, span.name)
    span.kind = kind_of(raw)
    span.agent = _agent_of(span, raw.attributes)
    span.session = span.session or id_of(first_of(raw.attributes, *_SESSIONS))
    span.error = _error_of(raw)
    if span.kind == "tool":
        _read_tool(raw)
    elif span.kind == "model":
        _read_model(raw)
    else:
        _read_surroundings(raw)
    return span


def _agent_of(span: Span, attributes: Attributes) -> str | None:
    agent = text_of(first_of(attributes, *_AGENTS))
    if span.kind == "agent":
        agent = agent or name_in(span.name) or text_of(first_of(attributes, *_NODES))
    # LangChain's `create_agent` puts the name of the agent into the metadata of every run.
    return agent or text_of(object_under(attributes, "metadata").get("lc_agent_name"))


def _error_of(raw: RawSpan) -> str | None:
    """Return why a span failed, with the exception of its events first; `None` where it did not fail."""
    error, attributes = raw.span.error, raw.attributes
    if error is None and attributes.get("error.type") is None:
        return None
    error = error or str(first_of(attributes, "exception.message", "error.message", "error.type"))
    exceptions = (event.attributes for event in raw.events if _is_exception(event))
    return _exception_text(next(exceptions, {})) or error


def _is_exception(event: Event) -> bool:
    return event.name == "exception" or "exception.type" in event.attributes


def _exception_text(attributes: Attributes) -> str:
    """Return an exception as `"TypeName: text"`."""
    name = string_of(attributes.get("exception.type")).rpartition(".")[2]
    return ": ".join(map(str, filter(None, (name, attributes.get("exception.message")))))


def _read_tool(raw: RawSpan) -> None:
    span, handoff_to = raw.span, handoff_target(raw)
    if handoff_to is None:
        span.tool_run = tool_run_of(raw)
    else:
        span.kind, span.handoff_to = "handoff", handoff_to


def _read_model(raw: RawSpan) -> None:
    span, attributes = raw.span, raw.attributes
    span.model_call = ModelCall(
        text_of(first_of(attributes, *_MODELS)),
        text_of(attributes.get("gen_ai.response.id")),
        _stopped_for_tools(raw),
        token_counts(attributes, _USAGE),
    )
    span.offered = list(_offered(attributes))
    for event in raw.events_named(LLAMA_INDEX_PROMPT):
        span.offered += json_list(event.attributes.get("additional_kwargs.tools"))
    span.prompt, span.reply = prompt_of(raw), reply_of(raw)


def _stopped_for_tools(raw: RawSpan) -> bool | None:
    """Return whether a model stopped to have tools called; `None` where the span gives no reason for the stop."""
    reasons = [str(reason) for value in filter(None, _finish_reasons(raw)) for reason in parts_of(value)]
    if any(map(_means_tools, ",".join(reasons).split(","))):
        return True
    provider = str(first_of(raw.attributes, "gen_ai.provider.name", "gen_ai.system"))
    # Google's models stop for the same reason with tools and without, so it means nothing there.
    return False if set(reasons) - {"STOP"} and not provider.startswith(_GOOGLE) else None


def _finish_reasons(raw: RawSpan) -> Iterator[object]:
    """Yield the finish reasons of a span, its events, and the responses that its attributes hold."""
    yield decoded(first_of(raw.attributes, *_FINISH_REASONS))
    for event in raw.events:
        yield event.attributes.get("finish_reason")
        yield json_object(event.body).get("finish_reason")
    for key in _RESPONSES:
        response = json_object(raw.attributes.get(key))
        # OpenAI's choices, which MLflow keeps too, or Haystack's replies.
        for entry in map(object_of, (*list_of(response.get("choices")), *list_of(response.get("replies")))):
            yield entry.get("finish_reason") or object_of(entry.get("meta")).get("finish_reason")


def _means_tools(reason: str) -> bool:
    # Semantic Kernel writes the names of a Python enum: `FinishReason.TOOL_CALLS`.
    return reason.rpartition(".")[2].replace("-", "_").lower() in _TOOL_REASONS


def _offered(attributes: Attributes) -> Iterator[Any]:
    """Yield the tools that a model could choose from; an empty object means that there are tools without a name."""
    for key in _TOOLS:
        yield from map(decoded, json_list(attributes.get(key)))
    yield from _pydantic_ai_tools(attributes)
    for key in _PROMPTS_WITH_TOOLS:
        yield from tools_beside_messages(attributes.get(key))
    yield from _adk_tools(attributes)
    yield from map(_openinference_tool, indexed(attributes, "llm.tools."))
    for entry in indexed(attributes, "llm.request.functions."):
        yield {**entry, "parameters": decoded(entry.get("parameters"))}


def _pydantic_ai_tools(attributes: Attributes) -> Iterator[Fields]:
    parameters = json_object(attributes.get("model_request_parameters"))
    for tool in (*list_of(parameters.get("function_tools")), *list_of(parameters.get("output_tools"))):
        fields = object_of(tool)
        yield {**fields, "parameters": fields.get("parameters_json_schema")}


def _adk_tools(attributes: Attributes) -> Iterator[Any]:
    request = json_object(attributes.get("gcp.vertex.agent.llm_request"))
    for group in list_of(object_of(request.get("config")).get("tools")):
        yield from list_of(object_of(group).get("function_declarations")) or [{}]


def _openinference_tool(entry: Attributes) -> Fields:
    schema = json_object(first_of(entry, "tool.json_schema", "json_schema"))
    tool = as_object(first_of(schema, "function", "toolSpec")) or schema
    if "toolSpec" in schema:  # Amazon Bedrock wraps the JSON Schema once more
        tool = {**tool, "inputSchema": object_of(tool.get("inputSchema")).get("json")}
    name = text_of(entry.get("tool.name")) or text_of(tool.get("name"))
    return {"type": "function", "function": {**tool, "name": name}} if name else {}


def _read_surroundings(raw: RawSpan) -> None:
    """Read the input and output of an agent or chain; the messages in it repeat those of its models."""
    span = raw.span
    if span.kind == "agent":
        span.offered = list(_offered(raw.attributes))
    span.prompt, reply = surroundings_of(raw)
    span.reply = reply
    span.input_text = _plain_text(span.prompt, "user") or _plain_text(reply, "user")
    span.output_text = text_of(raw.attributes.get("final_result")) or _plain_text(reply, "model")


def _plain_text(messages: Iterable[Message], speaker: Speaker) -> str | None:
    """Return the last text of one speaker, unless it is JSON: a structured state is not what was said."""
    text = last_text(messages, speaker)
    return None if text is None or text.lstrip().startswith(("{", "[")) else text
