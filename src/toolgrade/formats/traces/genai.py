"""Reader of OpenTelemetry spans in the GenAI conventions; `tracers` translates what is written in others.

Sources: OpenTelemetry, "Semantic conventions for generative client AI spans" (sections "Inference" and "Execute tool
span") and "Semantic Conventions for GenAI agent and framework spans" (sections "Invoke agent span" and "Create agent
span"); "Semantic Conventions for GenAI events" in versions up to 1.36 for the events with one message each. Any
attribute that neither is named here nor by a tracer is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from toolgrade._internal.message_content import first_of, object_of, parts_of, text_of
from toolgrade.formats.messages.field_readers import decoded, id_of, list_of
from toolgrade.formats.traces.genai_messages import read_messages
from toolgrade.formats.traces.genai_tools import name_in, read_tool_run
from toolgrade.formats.traces.messages import Message, Speaker, last_text
from toolgrade.formats.traces.span_tree import Event, ModelCall, Span, SpanKind
from toolgrade.formats.traces.tracers import TRACERS, lists_of, marks_of, names_of
from toolgrade.formats.traces.tracers.tracer import HANDOFF, OUTPUT
from toolgrade.formats.traces.values import first_key, json_list, json_object, string_of, token_counts

_OPERATIONS = names_of("gen_ai.operation.name")
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
_TOOL_MARKS = ("gen_ai.tool.call.id", "gen_ai.tool.call.arguments", *marks_of("tool"))
_MODEL_MARKS = frozenset({"gen_ai.output.messages", *marks_of("model")})
_AGENTS = names_of("gen_ai.agent.name")
_SESSIONS = names_of("gen_ai.conversation.id")
_MODELS = ("gen_ai.response.model", *names_of("gen_ai.request.model"), *names_of("gen_ai.response.model")[1:])
_USAGE = {
    "input_tokens": names_of("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "output_tokens": names_of("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "total_tokens": names_of("gen_ai.usage.total_tokens"),
}
_FINISH_REASONS = names_of("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason")
_RESPONSES = names_of(OUTPUT)
_DEFINITIONS = names_of("gen_ai.tool.definitions", "gen_ai.request.tools")
_TOOL_REASONS = frozenset({"tool_calls", "tool_call", "tool_use", "function_call"})
_GOOGLE = ("gemini", "gcp", "google", "vertex")
"""Prefixes of Google's provider names. Its models report `STOP` also when they ask for tools."""


def interpret(span: Span) -> Span:
    """Return the span with its kind, its messages and its event, read from attributes and events."""
    if span.is_interpreted:
        return span
    for tracer in TRACERS:
        if tracer.translate is not None:
            span.attributes = tracer.translate(span.attributes, span.name)
    span.kind = _kind_of(span)
    span.agent = text_of(first_of(span.attributes, *_AGENTS))
    if span.kind == "agent":
        span.agent = span.agent or name_in(span.name)
    span.session = span.session or id_of(first_of(span.attributes, *_SESSIONS))
    span.error = _error_of(span)
    span.handoff_to = text_of(span.attributes.get(HANDOFF))
    if span.handoff_to is not None:
        span.kind = "handoff"
    elif span.kind == "tool":
        read_tool_run(span)
    elif span.kind == "model":
        _read_model(span)
    else:
        _read_surroundings(span)
    for tracer in TRACERS:
        if tracer.complete is not None:
            tracer.complete(span)
    span.is_interpreted = True
    return span


def _kind_of(span: Span) -> SpanKind:
    """Return the kind of a span: the one that it names, else the one that its attributes imply."""
    operations = [string_of(span.attributes.get(key)).lower() for key in _OPERATIONS]
    if operations[0] == "create_agent":
        return "other"  # another name may say that it is an agent, but no agent runs in it
    kinds = list(map(_KINDS.get, operations))
    # `other` is weak: a span that is called a chain may still be a tool or an agent by its attributes.
    named: SpanKind | None = next((kind for kind in kinds if kind not in (None, "other")), None)
    return named or _implied_kind(span, is_chain="other" in kinds) or "other"


def _implied_kind(span: Span, *, is_chain: bool) -> SpanKind | None:
    """Return the kind that the attributes and events of a span imply; `None` if they imply none."""
    attributes = span.attributes
    # A request to a model may name a tool, too.
    names = () if span.name.startswith("chat") else ("gen_ai.tool.name",)
    if first_key(attributes, *names, *_TOOL_MARKS):
        return "tool"
    if first_key(attributes, *marks_of("agent")):
        return "agent"
    # A chain keeps its prompt as a model does; only a model has a reply.
    prefixes = lists_of("model") if is_chain else (*lists_of("model"), *lists_of("user"))
    if any(key in _MODEL_MARKS or key.startswith(prefixes) for key in attributes):
        return "model"
    return "model" if span.events_named(*_MODEL_MARKS) else None


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
    span.offered = list(_offered(span))
    read_messages(span)


def _stopped_for_tools(span: Span) -> bool | None:
    """Return whether a model stopped to have tools called; `None` where the span gives no reason for the stop."""
    reasons = [str(reason) for value in filter(None, _finish_reasons(span)) for reason in parts_of(value)]
    # Some write the names of a Python enum: `FinishReason.TOOL_CALLS`.
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
        # The choices of OpenAI's API, or replies of a framework.
        for entry in map(object_of, (*list_of(response.get("choices")), *list_of(response.get("replies")))):
            yield first_of({**object_of(entry.get("meta")), **entry}, "finish_reason")


def _offered(span: Span) -> Iterator[Any]:
    """Yield the tools that a model could choose from; an empty object means that there are tools without a name."""
    for key in _DEFINITIONS:
        yield from map(decoded, json_list(span.attributes.get(key)))
    for name in json_list(span.attributes.get("gen_ai.agent.tools")):  # the names only
        yield {"type": "function", "function": {"name": name}}
    for tracer in TRACERS:
        if tracer.offered is not None:
            yield from tracer.offered(span)


def _read_surroundings(span: Span) -> None:
    """Read the input and output of an agent or chain; the messages in it repeat those of its models."""
    if span.kind == "agent":
        span.offered = list(_offered(span))
    read_messages(span)
    span.input_text = _plain_text(span.prompt, "user") or _plain_text(span.reply_messages, "user")
    span.output_text = _plain_text(span.reply_messages, "model")


def _plain_text(messages: Iterable[Message], speaker: Speaker) -> str | None:
    """Return the last text of one speaker, unless it is JSON: a structured state is not what was said."""
    text = last_text(messages, speaker)
    return None if text is None or text.lstrip().startswith(("{", "[")) else text
