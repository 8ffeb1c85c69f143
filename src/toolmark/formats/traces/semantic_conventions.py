"""What does a span of OpenTelemetry say about models, tools and agents? In the conventions that are in use.

Read are the GenAI conventions of OpenTelemetry, from the events of their first years to the messages of today, and
those of OpenInference, OpenLLMetry, the Vercel AI SDK, Pydantic AI, Google's ADK, Haystack, LlamaIndex, MLflow and
any-agent. The names of attributes stand in tables here, in `_attribute_messages` and in `_dialects`, and nowhere else;
an attribute that is not there says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolmark.calls import ToolCallType
from toolmark.formats.messages.content_parts import content_of
from toolmark.formats.messages.field_readers import as_object, decoded, first_of, list_of, text_of
from toolmark.formats.traces.attribute_aliases import renamed
from toolmark.formats.traces.span_messages import (
    HIDDEN,
    INDEXED_ASKED,
    INDEXED_SAID,
    LLAMA_INDEX_ASKED,
    LLAMA_INDEX_SAID,
    Attributes,
    RawSpan,
    answered_of,
    around_of,
    asked_of,
    indexed,
)
from toolmark.formats.traces.span_tree import Span, SpanKind
from toolmark.formats.traces.trace_messages import Said, Who, messages_in, tools_beside
from toolmark.matching.json_compare import ABSENT

_OPERATIONS: dict[str, SpanKind] = {
    "chat": "model",
    "call_llm": "model",
    "text_completion": "model",
    "completion": "model",
    "generate_content": "model",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "create_agent": "other",
    "invoke_workflow": "other",
    "chain": "other",
}
_KINDS: dict[str, SpanKind] = {
    "llm": "model",
    "tool": "tool",
    "agent": "agent",
    "generation": "model",
    "chat_model": "model",
    "chain": "other",
    "workflow": "other",
    "task": "other",
}
_KIND_KEYS = (
    "openinference.span.kind",
    "traceloop.span.kind",
    "langfuse.observation.type",
    "langsmith.span.kind",
    "mlflow.spanType",
)
_OF_HAYSTACK: dict[str, SpanKind] = {
    "haystack.agent.run": "agent",
    "haystack.agent.step.llm": "model",
    "haystack.agent.step.tool": "tool",
}
"""Names of the spans of Haystack, which say of what they are in no other way."""

_TOOL_NAMES = (
    "gen_ai.tool.name",
    "tool.name",
    "ai.toolCall.name",
    "traceloop.entity.name",
    "tool_name",
    "tool_call.function.name",
    "haystack.tool.name",
)
_CALL_IDS = ("gen_ai.tool.call.id", "tool.id", "tool_call.id", "ai.toolCall.id", "tool_call_id")
_NO_IDS = (None, "", "<not specified>", "unknown")
"""What stands in the place of an id that is not known; the last are those of Google's ADK and of Agent Framework."""
_ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.args",
    "tool_arguments",
    "ai.toolCall.args",
    "gcp.vertex.agent.tool_call_args",
    "tool_call.function.arguments",
    "tool.arguments",
    "input.value",
    "langfuse.observation.input",
    "traceloop.entity.input",
    "haystack.agent.step.tool.input",
    "mlflow.spanInputs",
)
_RESULTS = (
    "gen_ai.tool.call.result",
    "tool_response",
    "ai.toolCall.result",
    "gcp.vertex.agent.tool_response",
    "gen_ai.output",
    "output.value",
    "langfuse.observation.output",
    "traceloop.entity.output",
    "haystack.agent.step.tool.output",
    "mlflow.spanOutputs",
)
_AGENTS = ("gen_ai.agent.name", "agent_name", "agent.name")
_NODES = ("graph.node.name", "graph.node.id")
"""What OpenInference calls an agent where it gives no other name, as of CrewAI."""
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
_FINISHED = (
    "gen_ai.response.finish_reasons",
    "gen_ai.response.finish_reason",
    "llm.finish_reason",
    "ai.response.finishReason",
    "anthropic.message.stop_reason",
)
_ANSWERS = ("output.value", "mlflow.spanOutputs", "haystack.agent.step.llm.output", "haystack.component.output")
_FOR_TOOLS = frozenset({"tool_calls", "tool_call", "tool_use", "function_call"})
_GOOGLE = ("gemini", "gcp", "google", "vertex")
"""How the names of Google's providers begin. Its models say `STOP` when they ask for tools, too."""
_TOOLS = ("gen_ai.tool.definitions", "ai.prompt.tools", "gen_ai.request.tools", "mlflow.chat.tools")
_TOOLS_BESIDE = ("langfuse.observation.input", "haystack.agent.step.llm.input", "haystack.component.input")
_RESULT = frozenset({"id", "name", "response"})
"""What Google's part has in which a tool's result is carried; OpenInference keeps it whole."""
_MERGED = "(merged tools)"
"""The tool of a span in which Google's ADK repeats the results of several others."""

_OF_ADK = re.compile(r"^agent_run \[.+\]$")
"""How Google's ADK names the spans of its agents, of which its first version says nothing else."""
_HANDOFF = "handoff to "
_NAMED = re.compile(r"^(?:execute_tool|running tool:|invoke_agent|agent run|agent_run)\s*\[?(.*?)\]?$")


def interpret(raw: RawSpan) -> Span:
    """Return the span with what its attributes and events say."""
    raw.attributes = renamed(raw.attributes, raw.span.name)
    span, said = raw.span, raw.attributes
    span.kind = _kind(raw)
    span.agent = text_of(first_of(said, *_AGENTS))
    if span.kind == "agent":
        span.agent = span.agent or _after(span.name) or text_of(first_of(said, *_NODES))
    span.agent = span.agent or text_of(_object_under(said, "metadata").get("lc_agent_name"))
    session = first_of(said, *_SESSIONS)
    span.session = span.session or (None if session is None else str(session))
    if span.error is None and said.get("error.type") is not None:
        span.error = str(first_of(said, "exception.message", "error.message", "error.type"))
    if span.error is not None:
        span.error = _exception(raw) or span.error
    handed_to = _handed_to(raw) if span.kind == "tool" else None
    if handed_to is not None:
        span.kind, span.handoff_to = "handoff", handed_to
    elif span.kind == "tool":
        _read_tool(raw)
    elif span.kind == "model":
        _read_model(raw)
        span.asked, span.said = asked_of(raw), answered_of(raw)
    else:
        _read_around(raw)
    return span


def flat(value: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested attributes under dotted names; lists that hold no objects stay lists."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat(inner, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        for index, inner in enumerate(value):
            yield from flat(inner, f"{prefix}.{index}")
    else:
        yield prefix, value


def _object_under(said: Attributes, key: str) -> Mapping[str, Any]:
    """Return the object that an attribute holds as JSON text, or several do field by field, as Phoenix exports it."""
    whole = as_object(decoded(said.get(key)))
    if whole is not None:
        return whole
    prefix = f"{key}."
    inside = {name.removeprefix(prefix): said[name] for name in said if name.startswith(prefix)}
    heads = dict.fromkeys(name.partition(".")[0] for name in inside)
    return {head: inside[head] if head in inside else _object_under(inside, head) for head in heads}


def _kind(raw: RawSpan) -> SpanKind:
    """Return what a span is of: what it says itself, else what its attributes are about."""
    said, name = raw.attributes, raw.span.name
    told = str(said.get("gen_ai.operation.name") or "").lower()
    kinds: list[SpanKind | None] = [_vercel(str(said.get("ai.operationId") or "")), _OPERATIONS.get(told)]
    kinds.extend(_KINDS.get(str(said[key]).lower()) for key in _KIND_KEYS if said.get(key) is not None)
    if told == "create_agent":  # also where Phoenix says that it is an agent
        return "other"
    clear: list[SpanKind] = [kind for kind in kinds if kind is not None and kind != "other"]
    found = clear[0] if clear else _by_attributes(said, name, around="other" in kinds)
    if found is None and any(event.name in (LLAMA_INDEX_ASKED, LLAMA_INDEX_SAID) for event in raw.events):
        found = "model"
    if found == "tool" and (said.get("gen_ai.tool.name") == _MERGED or name.endswith(_MERGED)):
        return "other"
    return found or "other"


def _vercel(operation: str) -> SpanKind | None:
    if operation == "ai.toolCall":
        return "tool"
    return "model" if operation.startswith(("ai.generate", "ai.stream")) else None


def _by_attributes(said: Attributes, name: str, *, around: bool) -> SpanKind | None:
    """Return what a span is of that does not say it, or says that it lies around others (`around`)."""
    if any(
        said.get(key) is not None
        for key in ("gen_ai.tool.call.id", "gen_ai.tool.call.arguments", "tool_arguments", "tool.arguments")
    ):
        return "tool"
    if said.get("gen_ai.tool.name") is not None and not name.startswith(("call_llm", "chat")):
        return "tool"
    if name in _OF_HAYSTACK:
        return _OF_HAYSTACK[name]
    if str(said.get("haystack.component.type")).endswith("Generator"):
        return "model"
    if any(said.get(key) is not None for key in ("pydantic_ai.all_messages", "all_messages_events")):
        return "agent"
    if any(key in said for key in ("gen_ai.output.messages", "llm.request.type", "gcp.vertex.agent.llm_request")):
        return "model"
    # A chain of OpenInference keeps what it was given as a model does; what a model answered only a model keeps.
    if any(key.startswith(INDEXED_SAID if around else (*INDEXED_SAID, *INDEXED_ASKED)) for key in said):
        return "model"
    return "agent" if said.get("agent_name") is not None or _OF_ADK.match(name) else None


def _handed_to(raw: RawSpan) -> str | None:
    """Return the agent that a span of a hand-off names, OpenInference's or Logfire's; it is told as one of a tool."""
    if first_of(raw.attributes, *_TOOL_NAMES) is not None:
        return None
    if str(raw.attributes.get("logfire.msg_template") or "").startswith("Handoff: "):
        return text_of(raw.attributes.get("to_agent"))
    if not raw.span.name.startswith(_HANDOFF):
        return None
    return raw.span.name.removeprefix(_HANDOFF)


def _after(name: str) -> str | None:
    found = _NAMED.match(name)
    return found.group(1) or None if found else None


def _read_tool(raw: RawSpan) -> None:
    span, said = raw.span, raw.attributes
    span.tool = text_of(first_of(said, *_TOOL_NAMES)) or _after(span.name) or span.name.removesuffix(".__call__")
    call_id = first_of(said, *_CALL_IDS)
    span.call_id = None if call_id in _NO_IDS else str(call_id)
    span.arguments = _inside(_first_seen(said, _ARGUMENTS), "inputs", beside="input_str")
    span.result = _inside(decoded(_first_seen(said, _RESULTS)), "output", beside="kwargs")
    _unwrap_mcp(span)
    schema = _object_under(said, "tool.parameters")
    span.parameters = tuple(as_object(schema.get("properties")) or schema)
    span.wrapped = any(key.startswith("langsmith.") for key in said)
    for event in raw.events:  # what some instrumentations tell only there, Strands as messages
        fields = {**event.attributes, **(as_object(decoded(event.body)) or {})}
        if event.name == "gen_ai.tool.message" and span.arguments is ABSENT and fields.get("content") is not None:
            span.arguments = fields["content"]
        elif event.name == "gen_ai.choice" and span.result is ABSENT and fields.get("message") is not None:
            span.result = content_of(fields["message"])
        span.arguments = _first_seen(event.attributes, _ARGUMENTS[:1]) if span.arguments is ABSENT else span.arguments
        span.result = _first_seen(event.attributes, _RESULTS[:1]) if span.result is ABSENT else span.result
    if said.get("haystack.tool.error") is True:
        told = as_object(decoded(span.result)) or {}
        span.result, span.result_failed = told.get("error", span.result), True
    kind = str(said.get("gen_ai.tool.type") or "")
    if said.get("mcp.method.name") is not None or kind == "mcp":
        span.type = ToolCallType.MCP
    take_result(span)


def _unwrap_mcp(span: Span) -> None:
    """Read what OpenLLMetry writes of a tool of MCP: its name beside the arguments, and an object that it returned."""
    given = as_object(decoded(span.arguments)) or {}
    if given.keys() != {"tool_name", "arguments"} or given["tool_name"] != span.tool:
        return
    span.arguments = given["arguments"]
    told = as_object(span.result) or {}
    if "result" in told and told.keys() <= {"result", "is_error"}:
        span.result = told["result"]


def take_result(span: Span) -> None:
    """Read what a tool returned out of what carries it, such as LangChain's message, which says the call's id."""
    holder = as_object(decoded(span.result)) if span.result is not ABSENT else None
    if holder is not None and set(holder) == {"output"} and as_object(holder["output"]) is not None:
        holder = as_object(holder["output"])
    if holder is not None and {"tool_id", "tool_output"} <= holder.keys():  # what LlamaIndex's agents make of it
        span.call_id, holder = span.call_id or text_of(holder["tool_id"]), as_object(holder["tool_output"])
    if holder is not None and {"raw_output", "tool_name", "is_error"} <= holder.keys():  # LlamaIndex's output of a tool
        span.result, span.result_failed = holder["raw_output"], holder["is_error"] is True
        return
    if holder is not None and holder.keys() <= _RESULT and holder.get("name") == span.tool and "response" in holder:
        span.result = holder["response"]
        return
    if holder is not None and isinstance(holder.get("content"), list) and "isError" in holder:  # what MCP answers
        span.result, span.result_failed = content_of(holder["content"]), holder["isError"] is True
        return
    if holder is None or not ("lc" in holder or holder.get("type") in ("tool", "ToolMessage")):
        return
    found = [said.answer for said in messages_in(holder, span.path, "tool") if said.answer is not None]
    if len(found) == 1:
        span.result, span.result_failed = found[0].content, found[0].failed
        span.call_id = span.call_id or found[0].call_id


def _inside(value: object, key: str, *, beside: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return what OpenLLMetry wraps, with what the framework passed along."""
    holder = as_object(decoded(value))
    return value if holder is None or beside not in holder or holder.get(key) is None else holder[key]


def _first_seen(said: Attributes, keys: Iterable[str]) -> Any:  # noqa: ANN401 - a JSON value
    for key in keys:
        if said.get(key) is not None:
            return ABSENT if isinstance(said[key], str) and said[key] in HIDDEN else said[key]
    return ABSENT


def _read_model(raw: RawSpan) -> None:
    span, said = raw.span, raw.attributes
    span.model = text_of(first_of(said, *_MODELS))
    span.response = text_of(said.get("gen_ai.response.id"))
    for name, keys in _USAGE.items():
        count = first_of(said, *keys)
        if isinstance(count, str) and count.isdigit():
            count = int(count)
        if isinstance(count, int) and not isinstance(count, bool) and count > 0:
            span.usage[name] = count
    span.offered = list(_offered(said))
    for event in raw.events:
        if event.name == LLAMA_INDEX_ASKED:
            span.offered += list_of(decoded(event.attributes.get("additional_kwargs.tools")))
    span.wants_tools = _wants_tools(raw)


def _wants_tools(raw: RawSpan) -> bool | None:
    """Return whether a model stopped to have tools called; `None` where nobody says why it stopped."""
    told = [
        decoded(first_of(raw.attributes, *_FINISHED)),
        *(event.attributes.get("finish_reason") for event in raw.events),
    ]
    told += [(as_object(decoded(event.body)) or {}).get("finish_reason") for event in raw.events]
    for key in _ANSWERS:
        told += _finished_in(as_object(decoded(raw.attributes.get(key))) or {})
    texts = [str(one) for entry in told if entry for one in (list_of(entry) or [entry])]
    # Semantic Kernel joins the names that Python has for them: `FinishReason.TOOL_CALLS`.
    reasons = [one.rpartition(".")[2].replace("-", "_").lower() for text in texts for one in text.split(",")]
    if any(reason in _FOR_TOOLS for reason in reasons):
        return True
    provider = str(first_of(raw.attributes, "gen_ai.provider.name", "gen_ai.system") or "")
    # What Google's models say in either case tells nothing.
    return False if any(text != "STOP" for text in texts) and not provider.startswith(_GOOGLE) else None


def _finished_in(response: Mapping[str, Any]) -> Iterator[object]:
    """Yield why each answer in a response stopped: OpenAI's, also as MLflow keeps it, or Haystack's."""
    for entry in (*list_of(response.get("choices")), *list_of(response.get("replies"))):
        fields = as_object(entry) or {}
        yield first_of(fields, "finish_reason") or (as_object(fields.get("meta")) or {}).get("finish_reason")


def _offered(said: Attributes) -> Iterator[Any]:
    """Yield the tools that a model could choose from; an empty object stands for some that are not named."""
    for key in _TOOLS:
        yield from map(decoded, list_of(decoded(said.get(key))))
    parameters = as_object(decoded(said.get("model_request_parameters"))) or {}
    for tool in (*list_of(parameters.get("function_tools")), *list_of(parameters.get("output_tools"))):
        fields = as_object(tool) or {}
        yield {**fields, "parameters": fields.get("parameters_json_schema")}
    for key in _TOOLS_BESIDE:
        yield from tools_beside(said.get(key))
    asked = as_object(decoded(said.get("gcp.vertex.agent.llm_request"))) or {}
    for group in list_of((as_object(asked.get("config")) or {}).get("tools")):
        yield from list_of((as_object(group) or {}).get("function_declarations")) or [{}]
    for entry in indexed(said, "llm.tools."):
        schema = as_object(decoded(first_of(entry, "tool.json_schema", "json_schema"))) or {}
        inner = as_object(first_of(schema, "function", "toolSpec")) or schema
        if "toolSpec" in schema:  # Amazon Bedrock's form
            inner = {**inner, "inputSchema": (as_object(inner.get("inputSchema")) or {}).get("json")}
        named = text_of(entry.get("tool.name")) or text_of(inner.get("name"))
        yield {"type": "function", "function": {**inner, "name": named}} if named else {}
    for entry in indexed(said, "llm.request.functions."):
        yield {**entry, "parameters": decoded(entry.get("parameters"))}


def _read_around(raw: RawSpan) -> None:
    """Read what went into an agent or chain, and what came out; messages in it repeat what models said."""
    span = raw.span
    if span.kind == "agent":
        span.offered = list(_offered(raw.attributes))
    span.asked, span.said = around_of(raw)
    span.given = _plain_words(span.asked, "user") or _plain_words(span.said or [], "user")
    span.gave = text_of(raw.attributes.get("final_result")) or _plain_words(span.said or [], "model")


def _plain_words(said: list[Said], who: Who) -> str | None:
    """Return the last words of one side, where they are words."""
    words = [one.text for one in said if one.who == who and one.text]
    return words[-1] if words and not words[-1].lstrip().startswith(("{", "[")) else None


def _exception(raw: RawSpan) -> str | None:
    """Return the exception that an event tells, as `"TypeName: text"`."""
    for event in raw.events:
        if event.name == "exception" or "exception.type" in event.attributes:
            kind, text = event.attributes.get("exception.type"), event.attributes.get("exception.message")
            known = [str(part) for part in (str(kind or "").rpartition(".")[2], text) if part]
            return ": ".join(known) or None
    return None
