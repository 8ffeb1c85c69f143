"""Kinds of OpenTelemetry spans: those that tracers name, and those that attributes imply."""

from __future__ import annotations

import re

from toolmark.formats.traces.attribute_readers import first_key, string_of
from toolmark.formats.traces.span_messages import (
    INDEXED_PROMPTS,
    INDEXED_REPLIES,
    LLAMA_INDEX_PROMPT,
    LLAMA_INDEX_REPLY,
    Attributes,
    RawSpan,
)
from toolmark.formats.traces.span_tree import SpanKind

_KIND_NAMES: dict[SpanKind, tuple[str, ...]] = {
    "model": (
        "chat",
        "call_llm",
        "text_completion",
        "completion",
        "generate_content",
        "llm",
        "generation",
        "chat_model",
    ),
    "tool": ("execute_tool", "tool"),
    "agent": ("invoke_agent", "agent"),
    "other": ("create_agent", "invoke_workflow", "chain", "workflow", "task"),
}
_KINDS: dict[str, SpanKind] = {name: kind for kind, names in _KIND_NAMES.items() for name in names}
_KIND_KEYS = (
    "gen_ai.operation.name",
    "openinference.span.kind",
    "traceloop.span.kind",
    "langfuse.observation.type",
    "langsmith.span.kind",
    "mlflow.spanType",
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

_TOOL_HINTS = (
    "gen_ai.tool.call.id",
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "tool.arguments",
    "gen_ai.tool.name",
)
_MODEL_HINTS = ("gen_ai.output.messages", "llm.request.type", "gcp.vertex.agent.llm_request")
_AGENT_HINTS = ("pydantic_ai.all_messages", "all_messages_events")
_ADK_AGENT = re.compile(r"^agent_run \[.+\]$")
"""Name of an agent span of Google's ADK 1, which says nothing else about the agent."""
_MERGED_TOOLS = "(merged tools)"
"""The tool name of spans of Google's ADK that repeat the results of several other spans."""
_NAME_IN_SPAN = re.compile(r"^(?:execute_tool|running tool:|invoke_agent|agent run|agent_run)\s*\[?(.*?)\]?$")


def kind_of(raw: RawSpan) -> SpanKind:
    """Return the kind of a span: the one that it names, else the one that its attributes imply."""
    if string_of(raw.attributes.get("gen_ai.operation.name")).lower() == "create_agent":
        return "other"  # Phoenix calls it an agent, but no agent runs in it
    kinds = _named_kinds(raw.attributes)
    # `other` is weak: OpenInference calls a span a chain that may still be a tool or an agent by its attributes.
    strong_kinds: list[SpanKind | None] = [kind for kind in kinds if kind not in (None, "other")]
    kind = strong_kinds[0] if strong_kinds else _implied_kind(raw, is_chain="other" in kinds)
    if kind is None or (kind == "tool" and _is_merged(raw)):
        return "other"
    return kind


def _named_kinds(attributes: Attributes) -> list[SpanKind | None]:
    """Return the kinds that a span names, the most reliable name first; `None` for a name without a kind."""
    operations = _VERCEL_OPERATION.findall(str(attributes.get("ai.operationId")))
    names = [string_of(attributes.get(key)).lower() for key in _KIND_KEYS]
    return [*map(_VERCEL_KINDS.get, operations), *map(_KINDS.get, names)]


def _implied_kind(raw: RawSpan, *, is_chain: bool) -> SpanKind | None:
    """Return the kind that the attributes of a span imply; `None` if they imply none."""
    attributes, name = raw.attributes, raw.span.name
    is_request = name.startswith(("call_llm", "chat"))  # Google's ADK names a tool there, too
    if first_key(attributes, *_TOOL_HINTS[: -1 if is_request else None]):
        return "tool"
    if name in _HAYSTACK_SPANS:
        return _HAYSTACK_SPANS[name]
    if first_key(attributes, *_AGENT_HINTS):
        return "agent"
    if _has_model_attributes(attributes, is_chain=is_chain):
        return "model"
    if attributes.get("agent_name") is not None or _ADK_AGENT.match(name):
        return "agent"
    return "model" if raw.events_named(LLAMA_INDEX_PROMPT, LLAMA_INDEX_REPLY) else None


def _has_model_attributes(attributes: Attributes, *, is_chain: bool) -> bool:
    """Return whether attributes are those of a model."""
    if str(attributes.get("haystack.component.type")).endswith("Generator"):
        return True
    # An OpenInference chain keeps its prompt as a model does; only a model has a reply.
    prefixes = INDEXED_REPLIES if is_chain else (*INDEXED_REPLIES, *INDEXED_PROMPTS)
    return any(key in _MODEL_HINTS or key.startswith(prefixes) for key in attributes)


def _is_merged(raw: RawSpan) -> bool:
    return raw.attributes.get("gen_ai.tool.name") == _MERGED_TOOLS or raw.span.name.endswith(_MERGED_TOOLS)


def name_in(span_name: str) -> str:
    """Return the name of a tool or an agent in the name of its span; empty where there is none."""
    return "".join(_NAME_IN_SPAN.findall(span_name))
