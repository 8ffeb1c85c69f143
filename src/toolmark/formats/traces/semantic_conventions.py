"""The meaning of OpenTelemetry spans, in the conventions that are in use.

These are the GenAI conventions of OpenTelemetry, from the events of their first years to the messages of today, and
those of OpenInference, OpenLLMetry, the Vercel AI SDK, Pydantic AI, Google's ADK, Haystack, LlamaIndex, MLflow and
any-agent. The tables here, in `span_messages` and in `attribute_aliases` name every attribute that is read; any other
attribute is ignored. Within a table the more specific name comes first, since many libraries write two conventions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolmark.calls import ToolCallType
from toolmark.formats.messages.content_parts import content_of
from toolmark.formats.messages.field_readers import (
    as_object,
    decoded,
    first_of,
    id_of,
    list_of,
    object_of,
    parts_of,
    text_of,
)
from toolmark.formats.traces.attribute_aliases import with_common_names
from toolmark.formats.traces.attribute_readers import first_key, json_list, json_object, string_of, token_counts
from toolmark.formats.traces.span_messages import (
    INDEXED_PROMPTS,
    INDEXED_REPLIES,
    INPUTS,
    LLAMA_INDEX_PROMPT,
    LLAMA_INDEX_REPLY,
    OUTPUTS,
    Attributes,
    Event,
    RawSpan,
    indexed,
    is_hidden,
    prompt_of,
    reply_of,
    surroundings_of,
)
from toolmark.formats.traces.span_tree import ModelCall, Span, SpanKind, ToolRun
from toolmark.formats.traces.trace_messages import (
    Message,
    Speaker,
    answers_in,
    last_text,
    messages_in,
    tools_beside_messages,
)
from toolmark.matching.json_compare import ABSENT

_OPERATION_NAMES: dict[SpanKind, tuple[str, ...]] = {
    "model": ("chat", "call_llm", "text_completion", "completion", "generate_content"),
    "tool": ("execute_tool",),
    "agent": ("invoke_agent",),
    "other": ("create_agent", "invoke_workflow", "chain"),
}
_KIND_NAMES: dict[SpanKind, tuple[str, ...]] = {
    "model": ("llm", "generation", "chat_model"),
    "tool": ("tool",),
    "agent": ("agent",),
    "other": ("chain", "workflow", "task"),
}
_OPERATIONS: dict[str, SpanKind] = {name: kind for kind, names in _OPERATION_NAMES.items() for name in names}
_KINDS: dict[str, SpanKind] = {name: kind for kind, names in _KIND_NAMES.items() for name in names}
_KIND_KEYS = (
    "openinference.span.kind",
    "traceloop.span.kind",
    "langfuse.observation.type",
    "langsmith.span.kind",
    "mlflow.spanType",
)
_HAYSTACK_SPANS: dict[str, SpanKind] = {
    "haystack.agent.run": "agent",
    "haystack.agent.step.llm": "model",
    "haystack.agent.step.tool": "tool",
}
"""Names of Haystack's spans, which have no attribute for their kind."""

_TOOL_NAMES = (
    "gen_ai.tool.name",
    "tool.name",
    "ai.toolCall.name",
    # OpenLLMetry puts the name of any entity here, so names that only tools have come first.
    "traceloop.entity.name",
    "tool_name",
    "tool_call.function.name",
    "haystack.tool.name",
)
_CALL_IDS = ("gen_ai.tool.call.id", "tool.id", "tool_call.id", "ai.toolCall.id", "tool_call_id")
_NO_IDS = (None, "", "<not specified>", "unknown")
"""Placeholders for an id that the tracer does not know; the last two are Google ADK's and Agent Framework's."""
_ARGUMENTS = (
    # The conventions' own name is exact. `input.value` and those below it hold any input, of a tool or not.
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.args",
    "tool_arguments",
    "ai.toolCall.args",
    "gcp.vertex.agent.tool_call_args",
    "tool_call.function.arguments",
    "tool.arguments",
    *INPUTS,
    "haystack.agent.step.tool.input",
)
_RESULTS = (
    "gen_ai.tool.call.result",
    "tool_response",
    "ai.toolCall.result",
    "gcp.vertex.agent.tool_response",
    "gen_ai.output",
    *OUTPUTS,
    "haystack.agent.step.tool.output",
)
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
_FUNCTION_RESPONSE = frozenset({"id", "name", "response"})
"""Keys of Google's part around the result of a tool, which OpenInference keeps whole."""
_MERGED_TOOLS = "(merged tools)"
"""The tool name of spans of Google's ADK that repeat the results of several other spans."""
_TOOL_HINTS = ("gen_ai.tool.call.id", "gen_ai.tool.call.arguments", "tool_arguments", "tool.arguments")
_MODEL_HINTS = ("gen_ai.output.messages", "llm.request.type", "gcp.vertex.agent.llm_request")

_ADK_AGENT = re.compile(r"^agent_run \[.+\]$")
"""Name of an agent span of Google's ADK 1, which says nothing else about the agent."""
_HANDOFF_PREFIX = "handoff to "
_NAME_IN_SPAN = re.compile(r"^(?:execute_tool|running tool:|invoke_agent|agent run|agent_run)\s*\[?(.*?)\]?$")


def interpret(raw: RawSpan) -> Span:
    """Return the span with its kind, its messages and its event, read from attributes and events."""
    raw.attributes = attributes = with_common_names(raw.attributes, raw.span.name)
    span = raw.span
    span.kind = _kind(raw)
    span.agent = _agent(span, attributes)
    span.session = span.session or id_of(first_of(attributes, *_SESSIONS))
    if span.error is None and attributes.get("error.type") is not None:
        span.error = str(first_of(attributes, "exception.message", "error.message", "error.type"))
    if span.error is not None:
        span.error = _exception(raw) or span.error
    handoff_to = _handoff_target(raw) if span.kind == "tool" else None
    if handoff_to is not None:
        span.kind, span.handoff_to = "handoff", handoff_to
    elif span.kind == "tool":
        span.tool_run = _tool_run(raw)
    elif span.kind == "model":
        span.model_call = ModelCall(
            text_of(first_of(attributes, *_MODELS)),
            text_of(attributes.get("gen_ai.response.id")),
            _stopped_for_tools(raw),
            token_counts(attributes, _USAGE),
        )
        span.offered = _offered_to_model(raw)
        span.prompt, span.reply = prompt_of(raw), reply_of(raw)
    else:
        _read_surroundings(raw)
    return span


def flat(value: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested attributes under dotted names; lists without objects stay lists."""
    if isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        yield prefix, value
        return
    for key, inner in value.items():
        yield from flat(inner, f"{prefix}.{key}" if prefix else str(key))


def _object_under(attributes: Attributes, key: str) -> Mapping[str, Any]:
    """Return the object that an attribute holds as JSON text, or that Phoenix spreads over several attributes."""
    whole = as_object(decoded(attributes.get(key)))
    if whole is not None:
        return whole
    prefix = f"{key}."
    inner = {name.removeprefix(prefix): attributes[name] for name in attributes if name.startswith(prefix)}
    heads = dict.fromkeys(name.partition(".")[0] for name in inner)
    return {head: inner[head] if head in inner else _object_under(inner, head) for head in heads}


def _kind(raw: RawSpan) -> SpanKind:
    """Return the kind of a span: the one that it names, else the one that its attributes imply."""
    attributes, name = raw.attributes, raw.span.name
    operation = string_of(attributes.get("gen_ai.operation.name")).lower()
    if operation == "create_agent":  # Phoenix calls it an agent, but no agent runs in it
        return "other"
    named: list[SpanKind | None] = [_vercel_kind(str(attributes.get("ai.operationId"))), _OPERATIONS.get(operation)]
    named.extend(_KINDS.get(string_of(attributes.get(key)).lower()) for key in _KIND_KEYS)
    # `other` is weak: OpenInference calls a span a chain that may still be a tool or an agent by its attributes.
    clear: list[SpanKind] = [kind for kind in named if kind and kind != "other"]
    kind = clear[0] if clear else _implied_kind(attributes, name, is_chain="other" in named)
    if kind is None and any(event.name in (LLAMA_INDEX_PROMPT, LLAMA_INDEX_REPLY) for event in raw.events):
        return "model"
    if kind == "tool" and (attributes.get("gen_ai.tool.name") == _MERGED_TOOLS or name.endswith(_MERGED_TOOLS)):
        return "other"
    return kind or "other"


def _vercel_kind(operation: str) -> SpanKind | None:
    if operation == "ai.toolCall":
        return "tool"
    return "model" if operation.startswith(("ai.generate", "ai.stream")) else None


def _implied_kind(attributes: Attributes, name: str, *, is_chain: bool) -> SpanKind | None:
    """Return the kind that the attributes of a span imply; `None` if they imply none."""
    is_request = name.startswith(("call_llm", "chat"))  # Google's ADK names a tool there, too
    if first_key(attributes, *_TOOL_HINTS, *(() if is_request else ("gen_ai.tool.name",))):
        return "tool"
    if name in _HAYSTACK_SPANS:
        return _HAYSTACK_SPANS[name]
    if str(attributes.get("haystack.component.type")).endswith("Generator"):
        return "model"
    if first_key(attributes, "pydantic_ai.all_messages", "all_messages_events"):
        return "agent"
    # An OpenInference chain keeps its prompt as a model does; only a model has a reply.
    prefixes = INDEXED_REPLIES if is_chain else (*INDEXED_REPLIES, *INDEXED_PROMPTS)
    if any(key in _MODEL_HINTS or key.startswith(prefixes) for key in attributes):
        return "model"
    return "agent" if attributes.get("agent_name") is not None or _ADK_AGENT.match(name) else None


def _agent(span: Span, attributes: Attributes) -> str | None:
    agent = text_of(first_of(attributes, *_AGENTS))
    if span.kind == "agent":
        agent = agent or _name_in(span.name) or text_of(first_of(attributes, *_NODES))
    # LangChain's `create_agent` puts the name of the agent into the metadata of every run.
    return agent or text_of(_object_under(attributes, "metadata").get("lc_agent_name"))


def _name_in(span_name: str) -> str:
    """Return the name of a tool or an agent in the name of its span; empty where there is none."""
    return "".join(_NAME_IN_SPAN.findall(span_name))


def _handoff_target(raw: RawSpan) -> str | None:
    """Return the agent that a hand-off names; OpenInference and Logfire write hand-offs as tool spans."""
    attributes, name = raw.attributes, raw.span.name
    if first_key(attributes, *_TOOL_NAMES):
        return None
    if str(attributes.get("logfire.msg_template")).startswith("Handoff: "):
        return text_of(attributes.get("to_agent"))
    return name.removeprefix(_HANDOFF_PREFIX) if name.startswith(_HANDOFF_PREFIX) else None


def _tool_run(raw: RawSpan) -> ToolRun:
    attributes, name = raw.attributes, raw.span.name
    call_id, schema = first_of(attributes, *_CALL_IDS), _object_under(attributes, "tool.parameters")
    run = ToolRun(
        text_of(first_of(attributes, *_TOOL_NAMES)) or _name_in(name) or name.removesuffix(".__call__"),
        None if call_id in _NO_IDS else str(call_id),
        _unwrap(_first_captured(attributes, _ARGUMENTS), "inputs", marker="input_str"),
        _unwrap(decoded(_first_captured(attributes, _RESULTS)), "output", marker="kwargs"),
        parameters=tuple(as_object(schema.get("properties")) or schema),
        input_wrapped=any(key.startswith("langsmith.") for key in attributes),
    )
    _unwrap_mcp(run)
    # Strands, and the conventions of 2024, keep arguments and results in events.
    for event in raw.events:
        _complete_from_event(run, event)
    if attributes.get("haystack.tool.error") is True:
        run.result, run.failed = json_object(run.result).get("error", run.result), True
    if attributes.get("mcp.method.name") is not None or attributes.get("gen_ai.tool.type") == "mcp":
        run.type = ToolCallType.MCP
    unwrap_result(run)
    return run


def _complete_from_event(run: ToolRun, event: Event) -> None:
    """Read arguments and result from an event where the attributes of the span have none, as with Strands."""
    if run.arguments is ABSENT:
        content = event.fields.get("content") if event.name == "gen_ai.tool.message" else None
        run.arguments = _first_captured(event.attributes, _ARGUMENTS[:1]) if content is None else content
    if run.result is ABSENT:
        message = event.fields.get("message") if event.name == "gen_ai.choice" else None
        run.result = _first_captured(event.attributes, _RESULTS[:1]) if message is None else content_of(message)


def _unwrap_mcp(run: ToolRun) -> None:
    """Unwrap an MCP call of OpenLLMetry: the arguments come with the name of the tool, the result in an object."""
    arguments = json_object(run.arguments)
    if set(arguments) != {"tool_name", "arguments"} or arguments["tool_name"] != run.tool:
        return
    run.arguments = arguments["arguments"]
    result = object_of(run.result)
    if "result" in result and result.keys() <= {"result", "is_error"}:
        run.result = result["result"]


def unwrap_result(run: ToolRun) -> None:
    """Replace the object that a framework returns for a tool with the result inside of it.

    The object may also have the id of the call, and whether the tool failed.
    """
    wrapper = json_object(run.result)
    if set(wrapper) == {"output"}:
        wrapper = as_object(wrapper["output"]) or wrapper
    if {"tool_id", "tool_output"} <= wrapper.keys():  # LlamaIndex's agent workflows
        run.call_id, wrapper = run.call_id or text_of(wrapper["tool_id"]), object_of(wrapper["tool_output"])
    if {"raw_output", "tool_name", "is_error"} <= wrapper.keys():  # LlamaIndex's ToolOutput
        run.result, run.failed = wrapper["raw_output"], wrapper["is_error"] is True
    elif {"name", "response"} <= wrapper.keys() <= _FUNCTION_RESPONSE and wrapper["name"] == run.tool:
        run.result = wrapper["response"]
    elif isinstance(wrapper.get("content"), list) and "isError" in wrapper:  # MCP's CallToolResult
        run.result, run.failed = content_of(wrapper["content"]), wrapper["isError"] is True
    elif "lc" in wrapper or wrapper.get("type") in ("tool", "ToolMessage"):  # LangChain's ToolMessage
        answers = answers_in(messages_in(wrapper, "$", "tool"))
        if len(answers) == 1:
            run.result, run.failed = answers[0].content, answers[0].failed
            run.call_id = run.call_id or answers[0].call_id


def _unwrap(value: object, key: str, *, marker: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return the value under `key` of an object of OpenLLMetry, which `marker` identifies; any other value as it is."""
    wrapper = json_object(value)
    return wrapper[key] if marker in wrapper and wrapper.get(key) is not None else value


def _first_captured(attributes: Attributes, keys: Iterable[str]) -> Any:  # noqa: ANN401 - a JSON value
    """Return the first of these attributes that has a value; `ABSENT` where there is none, or where it was hidden."""
    value = first_of(attributes, *keys)
    return ABSENT if value is None or is_hidden(value) else value


def _stopped_for_tools(raw: RawSpan) -> bool | None:
    """Return whether a model stopped to have tools called; `None` where the span gives no reason for the stop."""
    values: list[object] = [decoded(first_of(raw.attributes, *_FINISH_REASONS))]
    for event in raw.events:
        values += [event.attributes.get("finish_reason"), json_object(event.body).get("finish_reason")]
    for key in _RESPONSES:
        values += _finish_reasons_in(json_object(raw.attributes.get(key)))
    texts = [str(text) for value in filter(None, values) for text in parts_of(value)]
    for text in ",".join(texts).split(","):
        # Semantic Kernel joins the names of a Python enum: `FinishReason.TOOL_CALLS`.
        if text.rpartition(".")[2].replace("-", "_").lower() in _TOOL_REASONS:
            return True
    provider = str(first_of(raw.attributes, "gen_ai.provider.name", "gen_ai.system"))
    # Google's models stop for the same reason with tools and without, so it means nothing there.
    return False if set(texts) - {"STOP"} and not provider.startswith(_GOOGLE) else None


def _finish_reasons_in(response: Mapping[str, Any]) -> Iterator[object]:
    """Yield the finish reasons in a response of OpenAI, which MLflow keeps too, or of Haystack."""
    for entry in (*list_of(response.get("choices")), *list_of(response.get("replies"))):
        fields = object_of(entry)
        yield fields.get("finish_reason") or object_of(fields.get("meta")).get("finish_reason")


def _offered_to_model(raw: RawSpan) -> list[Any]:
    offered = list(_offered(raw.attributes))
    for event in raw.events:
        if event.name == LLAMA_INDEX_PROMPT:
            offered += json_list(event.attributes.get("additional_kwargs.tools"))
    return offered


def _offered(attributes: Attributes) -> Iterator[Any]:
    """Yield the tools that a model could choose from; an empty object means that there are tools without a name."""
    for key in _TOOLS:
        yield from map(decoded, json_list(attributes.get(key)))
    parameters = json_object(attributes.get("model_request_parameters"))  # Pydantic AI
    for tool in (*list_of(parameters.get("function_tools")), *list_of(parameters.get("output_tools"))):
        fields = object_of(tool)
        yield {**fields, "parameters": fields.get("parameters_json_schema")}
    for key in _PROMPTS_WITH_TOOLS:
        yield from tools_beside_messages(attributes.get(key))
    request = json_object(attributes.get("gcp.vertex.agent.llm_request"))
    for group in list_of(object_of(request.get("config")).get("tools")):
        yield from list_of(object_of(group).get("function_declarations")) or [{}]
    for entry in indexed(attributes, "llm.tools."):
        yield _openinference_tool(entry)
    for entry in indexed(attributes, "llm.request.functions."):
        yield {**entry, "parameters": decoded(entry.get("parameters"))}


def _openinference_tool(entry: Attributes) -> dict[str, Any]:
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


def _exception(raw: RawSpan) -> str | None:
    """Return the exception that an event records, as `"TypeName: text"`."""
    for event in raw.events:
        if event.name == "exception" or "exception.type" in event.attributes:
            name = string_of(event.attributes.get("exception.type")).rpartition(".")[2]
            parts = filter(None, (name, event.attributes.get("exception.message")))
            return ": ".join(map(str, parts)) or None
    return None
