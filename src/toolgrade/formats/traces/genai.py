"""Reader of OpenTelemetry spans in the GenAI conventions; `tracers` translates what is written in others.

Sources: OpenTelemetry, "Semantic conventions for generative client AI spans" (sections "Inference" and "Execute tool
span"), "Semantic Conventions for GenAI agent and framework spans" (sections "Invoke agent span" and "Create agent
span"), "Semantic conventions for Model Context Protocol (MCP)". Any attribute that neither is named here nor by a
tracer is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from toolgrade._internal.message_content import Fields, as_object, first_of, object_of, parts_of, text_of
from toolgrade.calls import ToolCallType
from toolgrade.capture import Request
from toolgrade.formats.messages.content_parts import content_of, with_arguments
from toolgrade.formats.messages.envelopes import LOST_CALLS
from toolgrade.formats.messages.field_readers import decoded, id_of, list_of
from toolgrade.formats.messages.message import Answer
from toolgrade.formats.traces.genai_messages import read_messages
from toolgrade.formats.traces.messages import Speaker, TraceMessage, langchain_answer, last_text
from toolgrade.formats.traces.span_tree import ModelCall, Span, SpanEvent, SpanKind, ToolRecord, has_interrupt, is_wait
from toolgrade.formats.traces.tracers import TRACERS, lists_of, marks_of, names_of
from toolgrade.formats.traces.tracers.tracer import CALL_STATUS, HANDOFF, INPUT, MCP_SERVER, OUTPUT
from toolgrade.formats.traces.values import (
    first_key,
    is_hidden,
    json_list,
    json_object,
    object_under,
    read_literal,
    string_of,
    token_counts,
)
from toolgrade.matching.json_compare import ABSENT, json_equal

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
_TOOL_REASONS = frozenset({"tool_calls", "tool_call", "tool_use", "function_call", *map(str.lower, LOST_CALLS)})
_GOOGLE = ("gemini", "gcp", "google", "vertex")
"""Prefixes of Google's provider names. Its models report `STOP` also when they ask for tools."""

_NAMES = (*names_of("gen_ai.tool.name"), "tool_name")
_CALL_IDS = (*names_of("gen_ai.tool.call.id"), "tool_call_id")
_NO_IDS = (None, "", "<not specified>", "unknown")
"""Placeholders for an id that the tracer does not know."""
# The conventions' own name is exact. Names for any input and output, of a tool or not, come last.
_ARGUMENTS = (*names_of("gen_ai.tool.call.arguments", "gen_ai.tool.args"), *names_of(INPUT))
_RESULTS = (*names_of("gen_ai.tool.call.result"), "gen_ai.output", *names_of(OUTPUT))
_FUNCTION_RESPONSE = frozenset({"id", "name", "response"})
"""Keys of Google's part around the result of a tool (Gemini API reference, `FunctionResponse`)."""
_NAME_IN_SPAN = re.compile(r"^(?:execute_tool|running tool:|invoke_agent|agent run|agent_run)\s*\[?(.*?)\]?$")
_PASSED_ON = re.compile(r"(?:[\w.]+\.)?ParentCommand\b")
"""LangGraph's exception for a tool or a node that returns a command to the graph around it."""
_PYTHON_CALL = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})
"""Keys that instrumentations of Python functions write; the last one is an argument of a framework's own wrapper."""


def interpret(span: Span) -> Span:
    """Return the span with its kind, its messages and its event, read from attributes and events."""
    for tracer in TRACERS:
        span.attributes = tracer.translate(span.attributes, span.name)
    span.kind = _kind_of(span)
    span.agent = text_of(first_of(span.attributes, *_AGENTS))
    if span.kind == "agent":
        span.agent = span.agent or name_in(span.name)
    span.session = span.session or id_of(first_of(span.attributes, *_SESSIONS))
    span.error = _error_of(span)
    if HANDOFF in span.attributes:
        span.kind, span.handoff_to = "handoff", text_of(span.attributes[HANDOFF])
    elif span.kind == "tool":
        read_tool_run(span)
    elif span.kind == "model":
        _read_model(span)
    else:
        _read_surroundings(span)
    for tracer in TRACERS:
        tracer.complete(span)
    return span


def _kind_of(span: Span) -> SpanKind:
    """Return the kind of a span: the one that it names, else the one that its attributes imply."""
    operations = [string_of(span.attributes.get(key)).lower() for key in _OPERATIONS]
    if operations[0] == "create_agent":
        return "other"  # another name may say that it is an agent, but no agent runs in it
    kinds: list[SpanKind] = [_KINDS[name] for name in operations if name in _KINDS]
    # `other` is weak: a span that is called a chain may still be a tool or an agent by its attributes.
    named = next(filter(lambda kind: kind != "other", kinds), None)
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
    exception = next(filter(None, map(_exception_in, span.events)), error)
    if error is None and attributes.get("error.type") is None:
        return exception if is_wait(exception) else None  # some tracers do not mark it as a failure
    text = exception or str(first_of(attributes, "exception.message", "error.message", "error.type"))
    return None if _PASSED_ON.match(text) else text


def _exception_in(event: SpanEvent) -> str | None:
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
        yield from tracer.offered(span)


def _read_surroundings(span: Span) -> None:
    """Read the input and output of an agent or chain; the messages in it repeat those of its models."""
    if span.kind == "agent":
        span.offered = list(_offered(span))
    read_messages(span)
    span.interrupted = any(has_interrupt(span.attributes.get(key)) for key in _RESPONSES)
    span.input_text = _plain_text(span.prompt, "user") or _plain_text(span.reply_messages, "user")
    span.output_text = _plain_text(span.reply_messages, "model")


def _plain_text(messages: Iterable[TraceMessage], speaker: Speaker) -> str | None:
    """Return the last text of one speaker, unless it is JSON: a structured state is not what was said."""
    text = last_text(messages, speaker)
    return None if text is None or text.lstrip().startswith(("{", "[")) else text


def name_in(span_name: str) -> str:
    """Return the name of a tool or an agent in the name of its span; empty where there is none."""
    return "".join(_NAME_IN_SPAN.findall(span_name))


def read_tool_run(span: Span) -> None:
    """Set the run of a tool that a span records in its attributes and events."""
    attributes = span.attributes
    is_mcp = attributes.get("mcp.method.name") is not None or attributes.get("gen_ai.tool.type") == "mcp"
    call_id = first_of(attributes, *_CALL_IDS)
    run = span.tool_run = ToolRecord(
        text_of(first_of(attributes, *_NAMES)) or name_in(span.name) or span.name.removesuffix(".__call__"),
        None if call_id in _NO_IDS else str(call_id),
        _first_captured(attributes, _ARGUMENTS),
        decoded(_first_captured(attributes, _RESULTS)),
        parameters=_parameter_names(attributes),
        type=ToolCallType.MCP if is_mcp else None,
        server=text_of(attributes.get(MCP_SERVER)),
        status=text_of(attributes.get(CALL_STATUS)),
    )
    _complete_from_events(run, span.events)
    for tracer in TRACERS:
        tracer.complete_tool(span)
    if isinstance(run.result, str) and run.result.strip() == "null":  # as `[]` and `{}`, it is a value
        run.result = None
    unwrap_result(run)


def _complete_from_events(run: ToolRecord, events: Iterable[SpanEvent]) -> None:
    """Complete a run with the events that the conventions had until 2025."""
    for event in events:
        if run.arguments is ABSENT:
            run.arguments = _arguments_in(event)
        if run.result is ABSENT:
            run.result = _result_in(event)


def _parameter_names(attributes: Fields) -> tuple[str, ...]:
    """Return the names of the tool's parameters, from its JSON Schema or from an object with a key for each."""
    schema = object_under(attributes, "tool.parameters")
    properties = object_under(schema, "properties") or schema
    return tuple(dict.fromkeys(name.partition(".")[0] for name in properties))


def _arguments_in(event: SpanEvent) -> Any:  # noqa: ANN401 - a JSON value
    if event.name == "gen_ai.tool.message" and event.fields.get("content") is not None:
        return event.fields["content"]
    return _first_captured(event.attributes, _ARGUMENTS[:1])


def _result_in(event: SpanEvent) -> Any:  # noqa: ANN401 - a JSON value
    if event.name == "gen_ai.choice" and event.fields.get("message") is not None:
        return content_of(event.fields["message"])
    return _first_captured(event.attributes, _RESULTS[:1])


def _first_captured(attributes: Fields, keys: Iterable[str]) -> Any:  # noqa: ANN401 - a JSON value
    """Return the first of these attributes that has a value; `ABSENT` where there is none, or where it was hidden."""
    value = first_of(attributes, *keys)
    return ABSENT if value is None or is_hidden(value) else value


def unwrap_result(run: ToolRecord) -> None:
    """Replace the object that a framework returns for a tool with the result inside of it.

    The object may also have the id of the call, and whether the tool failed.
    """
    wrapper = json_object(run.result)
    if set(wrapper) == {"output"}:
        wrapper = as_object(wrapper["output"]) or wrapper
    answer = _answer_in(wrapper, run.tool)
    if answer is not None:
        run.result, run.failed = answer.content, run.failed or answer.failed
        run.call_id = run.call_id or answer.call_id


def _answer_in(wrapper: Fields, tool: str) -> Answer | None:
    """Return the answer of the tool in an object of a framework; `None` in any other object."""
    keys = wrapper.keys()
    if {"name", "response"} <= keys <= _FUNCTION_RESPONSE and wrapper["name"] == tool:
        return Answer(None, tool, wrapper["response"])
    if isinstance(wrapper.get("content"), list) and "isError" in keys:  # MCP's CallToolResult
        return Answer(None, tool, content_of(wrapper["content"]), wrapper["isError"] is True)
    answers = (tracer.unwrap(wrapper, tool) for tracer in TRACERS)
    return next(filter(None, answers), None) or langchain_answer(wrapper)


def received_arguments(span: Span, requested: object = ABSENT) -> object:
    """Return the arguments that a tool received; `ABSENT`, and maybe a warning, where the span does not show them.

    An object that equals the requested arguments is not unwrapped, since a model may call a tool whose parameters are
    named `input`, or `args` and `kwargs`.
    """
    value = span.tool_run.arguments
    if value is ABSENT:
        return ABSENT
    fields = _object_in(value)
    if fields is None:
        return _argument_of_text(span, requested)
    if json_equal(fields, requested):
        return fields
    is_python_call = isinstance(fields.get("kwargs"), dict) and isinstance(fields.get("args", []), list)
    if is_python_call and fields.keys() <= _PYTHON_CALL:  # {"args": [1], "kwargs": {"b": 2}}
        return _arguments_by_name(fields, span, requested)
    if isinstance(value, dict) and fields.keys() == {"input"}:
        return _argument_of_input(fields, requested, is_wrapped=span.tool_run.input_wrapped)
    return fields


def _argument_of_input(fields: Fields, requested: object, *, is_wrapped: bool) -> object:
    """Return the arguments of `{"input": ...}`: a framework's object around them, or the arguments themselves."""
    inner = _object_in(fields["input"])
    if inner is None:
        return ABSENT if is_wrapped and requested is not ABSENT else fields
    return inner if is_wrapped or json_equal(inner, requested) else fields


def _argument_of_text(span: Span, requested: object) -> object:
    """Return the arguments of a tool whose span holds a value that is not an object."""
    value = span.tool_run.arguments
    text = str(value).strip()
    if requested is not ABSENT:
        return ABSENT  # the requested object is more exact than a summary of it
    if text.startswith("{"):
        tool = span.tool_run.tool
        span.doubt(span.path, f"the JSON text of the arguments of {tool!r} is cut off; they count as not captured")
        return ABSENT
    # A LangChain tool with one parameter is traced with that argument alone, as a text.
    return {} if value is None or not text else {"input": value}


def _arguments_by_name(fields: Fields, span: Span, requested: object) -> object:
    """Return the arguments of a Python call by their names; positional ones need the parameters of the tool."""
    positional, names = fields.get("args") or [], span.tool_run.parameters
    if len(positional) <= len(names):
        return {**dict(zip(names, positional, strict=False)), **fields["kwargs"]}
    if requested is ABSENT:
        message = f"the arguments of {span.tool_run.tool!r} are positional and their names are unknown"
        span.doubt(span.path, f"{message}; they count as not captured")
    return ABSENT


def _object_in(value: object) -> dict[str, Any] | None:
    """Return the object that a value is, or that its text means as JSON or as a Python literal."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, str) or not value.strip():
        return None
    arguments = with_arguments(Request("_"), value).arguments
    return arguments if isinstance(arguments, dict) else read_literal(value)
