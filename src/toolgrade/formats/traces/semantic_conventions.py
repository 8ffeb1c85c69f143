"""The meaning of OpenTelemetry spans, in the conventions that are in use.

These are the GenAI conventions of OpenTelemetry, from the events of their first years to the messages of today, and
those of OpenInference, OpenLLMetry, the Vercel AI SDK, Pydantic AI, Google's ADK, Haystack, LlamaIndex, MLflow and
any-agent. The tables here, in `tool_runs`, `span_messages` and `attribute_aliases` name every attribute
that is read; any other attribute is ignored. Within a table the more specific name comes first, since many libraries
write two conventions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from toolgrade._internal.message_content import Fields, as_object, first_of, object_of, parts_of, text_of
from toolgrade.formats.messages.field_readers import decoded, id_of, list_of
from toolgrade.formats.traces.attribute_aliases import with_common_names
from toolgrade.formats.traces.span_messages import (
    INDEXED,
    LLAMA_INDEX_PROMPT,
    LLAMA_INDEX_REPLY,
    indexed,
    read_messages,
)
from toolgrade.formats.traces.span_tree import Event, ModelCall, Span, SpanKind
from toolgrade.formats.traces.tool_runs import handoff_target, name_in, tool_run_of
from toolgrade.formats.traces.trace_messages import Message, Speaker, last_text, tools_beside_messages
from toolgrade.formats.traces.values import first_key, json_list, json_object, object_under, string_of, token_counts

_AGENTS = ("gen_ai.agent.name", "agent_name", "agent.name")
_NODES = ("graph.node.name", "graph.node.id")
"""Where OpenInference keeps the name of a CrewAI agent."""
_SESSIONS = (
    *("gen_ai.conversation.id", "session.id", "langfuse.session.id", "gcp.vertex.agent.session_id"),
    *("traceloop.association.properties.thread_id", "traceloop.association.properties.session_id"),
    *("ai.telemetry.metadata.sessionId", "mlflow.trace.session"),
)
_MODELS = (
    *("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
    *("ai.response.model", "ai.model.id", "mlflow.llm.model"),
)
_USAGE = {
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    "total_tokens": ("gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total"),
}
_FINISH_REASONS = (
    *("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason", "llm.finish_reason"),
    *("ai.response.finishReason", "anthropic.message.stop_reason"),
)
_RESPONSES = ("output.value", "mlflow.spanOutputs", "haystack.agent.step.llm.output", "haystack.component.output")
_TOOL_REASONS = frozenset({"tool_calls", "tool_call", "tool_use", "function_call"})
_GOOGLE = ("gemini", "gcp", "google", "vertex")
"""Prefixes of Google's provider names. Its models report `STOP` also when they ask for tools."""
_TOOLS = ("gen_ai.tool.definitions", "ai.prompt.tools", "gen_ai.request.tools", "mlflow.chat.tools")
_PROMPTS_WITH_TOOLS = ("langfuse.observation.input", "haystack.agent.step.llm.input", "haystack.component.input")


_KIND_NAMES: dict[SpanKind, tuple[str, ...]] = {
    "model": (
        *("chat", "call_llm", "text_completion", "completion"),
        *("generate_content", "llm", "generation", "chat_model"),
    ),
    "tool": ("execute_tool", "tool"),
    "agent": ("invoke_agent", "agent"),
    "other": ("create_agent", "invoke_workflow", "chain", "workflow", "task"),
}
_KINDS: dict[str, SpanKind] = {name: kind for kind, names in _KIND_NAMES.items() for name in names}
_KIND_KEYS = (
    *("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind"),
    *("langfuse.observation.type", "langsmith.span.kind", "mlflow.spanType"),
)
_VERCEL_KINDS: dict[str, SpanKind] = {"toolCall": "tool", "generate": "model", "stream": "model"}
"""Kinds by the start of an operation of the Vercel AI SDK, such as `ai.generateText.doGenerate`."""
_VERCEL_OPERATION = re.compile(r"^ai\.(toolCall$|generate|stream)")
_HAYSTACK_SPANS: dict[str, SpanKind] = {
    "haystack.agent.run": "agent",
    "haystack.agent.step.llm": "model",
    "haystack.agent.step.tool": "tool",
}
"""Names of Haystack's spans, which have no attribute for their kind."""

_TOOL_HINTS = ("gen_ai.tool.call.id", "gen_ai.tool.call.arguments", "tool_arguments", "tool.arguments")
_MODEL_HINTS = ("gen_ai.output.messages", "llm.request.type", "gcp.vertex.agent.llm_request")
_AGENT_HINTS = ("pydantic_ai.all_messages", "all_messages_events")
_ADK_AGENT = re.compile(r"^agent_run \[.+\]$")
"""Name of an agent span of Google's ADK 1, which says nothing else about the agent."""
_MERGED_TOOLS = "(merged tools)"
"""The tool name of spans of Google's ADK that repeat the results of several other spans."""


def interpret(span: Span) -> Span:
    """Return the span with its kind, its messages and its event, read from attributes and events."""
    span.attributes = with_common_names(span.attributes, span.name)
    span.kind = _kind_of(span)
    span.agent = _agent_of(span, span.attributes)
    span.session = span.session or id_of(first_of(span.attributes, *_SESSIONS))
    span.error = _error_of(span)
    if span.kind == "tool":
        span.handoff_to = handoff_target(span)
        if span.handoff_to is None:
            span.tool_run = tool_run_of(span)
        else:
            span.kind = "handoff"
    elif span.kind == "model":
        _read_model(span)
    else:
        _read_surroundings(span)
    return span


def _kind_of(span: Span) -> SpanKind:
    """Return the kind of a span: the one that it names, else the one that its attributes imply."""
    attributes = span.attributes
    names = [string_of(attributes.get(key)).lower() for key in _KIND_KEYS]
    if names[0] == "create_agent" or _repeats_results(span):
        return "other"  # Phoenix calls `create_agent` an agent, but no agent runs in it
    operations = _VERCEL_OPERATION.findall(str(attributes.get("ai.operationId")))
    kinds: list[SpanKind | None] = [*map(_VERCEL_KINDS.get, operations), *map(_KINDS.get, names)]
    # `other` is weak: OpenInference calls a span a chain that may still be a tool or an agent by its attributes.
    named: SpanKind | None = next((kind for kind in kinds if kind not in (None, "other")), None)
    return named or _implied_kind(span, is_chain="other" in kinds) or "other"


def _repeats_results(span: Span) -> bool:
    return span.attributes.get("gen_ai.tool.name") == _MERGED_TOOLS or span.name.endswith(_MERGED_TOOLS)


def _implied_kind(span: Span, *, is_chain: bool) -> SpanKind | None:
    """Return the kind that the attributes of a span imply; `None` if they imply none."""
    if _names_tool(span):
        return "tool"
    if span.name in _HAYSTACK_SPANS:
        return _HAYSTACK_SPANS[span.name]
    if first_key(span.attributes, *_AGENT_HINTS):
        return "agent"
    if _has_model_attributes(span.attributes, is_chain=is_chain):
        return "model"
    if span.attributes.get("agent_name") is not None or _ADK_AGENT.match(span.name):
        return "agent"
    return "model" if span.events_named(LLAMA_INDEX_PROMPT, LLAMA_INDEX_REPLY) else None


def _names_tool(span: Span) -> bool:
    """Return whether the attributes of a span are those of a tool run."""
    # The requests of Google's ADK to models name a tool, too.
    hints = _TOOL_HINTS if span.name.startswith(("call_llm", "chat")) else ("gen_ai.tool.name", *_TOOL_HINTS)
    return first_key(span.attributes, *hints) is not None


def _has_model_attributes(attributes: Fields, *, is_chain: bool) -> bool:
    """Return whether attributes are those of a model."""
    if str(attributes.get("haystack.component.type")).endswith("Generator"):
        return True
    # An OpenInference chain keeps its prompt as a model does; only a model has a reply.
    prefixes = INDEXED["model"] if is_chain else (*INDEXED["model"], *INDEXED["user"])
    return any(key in _MODEL_HINTS or key.startswith(prefixes) for key in attributes)


def _agent_of(span: Span, attributes: Fields) -> str | None:
    agent = text_of(first_of(attributes, *_AGENTS))
    if span.kind == "agent":
        agent = agent or name_in(span.name) or text_of(first_of(attributes, *_NODES))
    # LangChain's `create_agent` puts the name of the agent into the metadata of every run.
    return agent or text_of(object_under(attributes, "metadata").get("lc_agent_name"))


def _error_of(span: Span) -> str | None:
    """Return why a span failed, with the exception of its events first; `None` where it did not fail."""
    error, attributes = span.error, span.attributes
    if error is None and attributes.get("error.type") is None:
        return None
    exceptions = filter(None, map(_exception_in, span.events))
    return next(exceptions, error) or str(first_of(attributes, "exception.message", "error.message", "error.type"))


def _exception_in(event: Event) -> str | None:
    """Return the exception that an event records; empty if its type and text were not captured."""
    name = string_of(event.attributes.get("exception.type")).rpartition(".")[2]
    return ": ".join(map(str, filter(None, (name, event.attributes.get("exception.message")))))


def _read_model(span: Span) -> None:
    attributes = span.attributes
    model, response_id = text_of(first_of(attributes, *_MODELS)), text_of(attributes.get("gen_ai.response.id"))
    span.model_call = ModelCall(model, response_id, _stopped_for_tools(span), token_counts(attributes, _USAGE))
    span.offered = list(_offered(attributes))
    for event in span.events_named(LLAMA_INDEX_PROMPT):
        span.offered += json_list(event.attributes.get("additional_kwargs.tools"))
    read_messages(span)


def _stopped_for_tools(span: Span) -> bool | None:
    """Return whether a model stopped to have tools called; `None` where the span gives no reason for the stop."""
    reasons = [str(reason) for value in filter(None, _finish_reasons(span)) for reason in parts_of(value)]
    # Semantic Kernel writes the names of a Python enum: `FinishReason.TOOL_CALLS`.
    names = [reason.rpartition(".")[2].replace("-", "_").lower() for reason in ",".join(reasons).split(",")]
    if not _TOOL_REASONS.isdisjoint(names):
        return True
    provider = str(first_of(span.attributes, "gen_ai.provider.name", "gen_ai.system"))
    # Google's models stop for the same reason with tools and without, so it means nothing there.
    return False if set(reasons) - {"STOP"} and not provider.startswith(_GOOGLE) else None


def _finish_reasons(span: Span) -> Iterator[object]:
    """Yield the finish reasons of a span, its events, and the responses that its attributes hold."""
    yield decoded(first_of(span.attributes, *_FINISH_REASONS))
    for event in span.events:
        yield event.attributes.get("finish_reason")
        yield json_object(event.body).get("finish_reason")
    for key in _RESPONSES:
        response = json_object(span.attributes.get(key))
        # OpenAI's choices, which MLflow keeps too, or Haystack's replies.
        for entry in map(object_of, (*list_of(response.get("choices")), *list_of(response.get("replies")))):
            yield first_of({**object_of(entry.get("meta")), **entry}, "finish_reason")


def _offered(attributes: Fields) -> Iterator[Any]:
    """Yield the tools that a model could choose from; an empty object means that there are tools without a name."""
    for key in _TOOLS:
        yield from map(decoded, json_list(attributes.get(key)))
    for name in json_list(attributes.get("gen_ai.agent.tools")):  # Strands has the names only
        yield {"type": "function", "function": {"name": name}}
    parameters = json_object(attributes.get("model_request_parameters"))  # Pydantic AI's
    for tool in (*list_of(parameters.get("function_tools")), *list_of(parameters.get("output_tools"))):
        fields = object_of(tool)
        yield {**fields, "parameters": fields.get("parameters_json_schema")}
    for key in _PROMPTS_WITH_TOOLS:
        yield from tools_beside_messages(attributes.get(key))
    request = json_object(attributes.get("gcp.vertex.agent.llm_request"))  # Google ADK's
    for group in list_of(object_of(request.get("config")).get("tools")):
        yield from list_of(object_of(group).get("function_declarations")) or [{}]
    yield from map(_openinference_tool, indexed(attributes, "llm.tools."))
    for entry in indexed(attributes, "llm.request.functions."):
        yield {**entry, "parameters": decoded(entry.get("parameters"))}


def _openinference_tool(entry: Fields) -> Fields:
    schema = json_object(first_of(entry, "tool.json_schema", "json_schema"))
    tool = as_object(first_of(schema, "function", "toolSpec")) or schema
    if "toolSpec" in schema:  # Amazon Bedrock wraps the JSON Schema once more
        tool = {**tool, "inputSchema": object_of(tool.get("inputSchema")).get("json")}
    name = text_of(entry.get("tool.name")) or text_of(tool.get("name"))
    return {"type": "function", "function": {**tool, "name": name}} if name else {}


def _read_surroundings(span: Span) -> None:
    """Read the input and output of an agent or chain; the messages in it repeat those of its models."""
    if span.kind == "agent":
        span.offered = list(_offered(span.attributes))
    read_messages(span)
    span.input_text = _plain_text(span.prompt, "user") or _plain_text(span.reply_messages, "user")
    span.output_text = text_of(span.attributes.get("final_result")) or _plain_text(span.reply_messages, "model")


def _plain_text(messages: Iterable[Message], speaker: Speaker) -> str | None:
    """Return the last text of one speaker, unless it is JSON: a structured state is not what was said."""
    text = last_text(messages, speaker)
    return None if text is None or text.lstrip().startswith(("{", "[")) else text
