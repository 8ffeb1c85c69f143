"""What does a span of OpenTelemetry say about models, tools and agents? In the conventions that are in use.

Read are the GenAI conventions of OpenTelemetry, from the events of their first years to the messages of today, and
those of OpenInference, OpenLLMetry, the Vercel AI SDK, Pydantic AI, Google's ADK and any-agent. The names of attributes
stand in tables here and nowhere else; an attribute that is not there says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolmark.calls import ToolCallType
from toolmark.formats._parts import cut_off, decoded, first_of, text_of
from toolmark.formats._reading import as_object
from toolmark.formats._said import Said, Who, messages_in
from toolmark.formats._spans import Span, SpanKind
from toolmark.matching import ABSENT

Attributes: TypeAlias = Mapping[str, Any]

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
    "chain": "other",
    "workflow": "other",
    "task": "other",
}
_KIND_KEYS = ("openinference.span.kind", "traceloop.span.kind", "langfuse.observation.type", "langsmith.span.kind")

_TOOL_NAMES = (
    "gen_ai.tool.name",
    "tool.name",
    "ai.toolCall.name",
    "traceloop.entity.name",
    "tool_name",
    "tool_call.function.name",
)
_CALL_IDS = ("gen_ai.tool.call.id", "tool.id", "tool_call.id", "ai.toolCall.id", "tool_call_id")
_ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.args",
    "tool_arguments",
    "ai.toolCall.args",
    "gcp.vertex.agent.tool_call_args",
    "tool_call.function.arguments",
    "input.value",
    "langfuse.observation.input",
    "traceloop.entity.input",
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
)
_ASKED = (
    "gen_ai.input.messages",
    "ai.prompt.messages",
    "ai.prompt",
    "gcp.vertex.agent.llm_request",
    "gen_ai.prompt",
    "input.value",
    "langfuse.observation.input",
    "traceloop.entity.input",
)
_SAID = (
    "gen_ai.output.messages",
    "gen_ai.output",
    "gcp.vertex.agent.llm_response",
    "gen_ai.completion",
    "output.value",
    "langfuse.observation.output",
    "traceloop.entity.output",
)
_ALL_MESSAGES = ("pydantic_ai.all_messages", "all_messages_events", "events")
"""A whole conversation in one attribute, what was asked and what was answered."""

_INDEXED_ASKED = ("gen_ai.prompt.", "llm.input_messages.", "llm.prompts.")
_INDEXED_SAID = ("gen_ai.completion.", "llm.output_messages.", "llm.completions.")
_AGENTS = ("gen_ai.agent.name", "agent_name", "agent.name", "recipient_agent_type", "graph.node.name")
_SESSIONS = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "gcp.vertex.agent.session_id",
    "traceloop.association.properties.thread_id",
    "traceloop.association.properties.session_id",
    "ai.telemetry.metadata.sessionId",
    "langsmith.trace.session_id",
)
_MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.response.model", "ai.model.id")
_USAGE = {
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    "total_tokens": ("gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total"),
}
_TOOLS = ("gen_ai.tool.definitions", "ai.prompt.tools", "gen_ai.request.tools")
_HIDDEN = frozenset({"__REDACTED__", "<redacted>", "[REDACTED]"})
"""What instrumentations write in the place of what they were told not to keep."""

_EMPTY = frozenset({"", "{}", "[]", "null", "<not serializable>"})
"""What they write where there is nothing to keep."""

_MERGED = "(merged tools)"
"""The tool of a span in which Google's ADK repeats the results of several others."""

_STEP = re.compile(r"\.?(\d+)\.")
_NAMED = re.compile(r"^(?:execute_tool|running tool:|invoke_agent|agent run|agent_run)\s*\[?(.*?)\]?$")
_EVENT = re.compile(r"^gen_ai\.(system|user|assistant|tool)\.message$")


@dataclass(slots=True)
class Event:
    """An event of a span, or a log record that names one."""

    name: str
    attributes: Attributes
    body: Any = None
    path: str = "$"


@dataclass(slots=True)
class RawSpan:
    """A span as OpenTelemetry has it, whatever file it was in; see `Span` for the fields of the same names."""

    span: Span
    attributes: dict[str, Any]
    events: list[Event] = field(default_factory=list)


def interpret(raw: RawSpan) -> Span:
    """Return the span with what its attributes and events say."""
    span, said = raw.span, raw.attributes
    span.kind = _kind(raw)
    span.agent = text_of(first_of(said, *_AGENTS)) or (_after(span.name) if span.kind == "agent" else None)
    session = first_of(said, *_SESSIONS)
    span.session = span.session or (None if session is None else str(session))
    if span.error is None and said.get("error.type") is not None:
        span.error = str(first_of(said, "exception.message", "error.message", "error.type"))
    if span.error is not None:
        span.error = _exception(raw) or span.error
    if span.kind == "tool":
        _read_tool(raw)
    elif span.kind == "model":
        _read_model(raw)
        span.asked, span.said = _asked(raw), _answered(raw)
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


def _kind(raw: RawSpan) -> SpanKind:
    """Return what a span is of: what it says itself, else what its attributes are about."""
    said, name = raw.attributes, raw.span.name
    told = str(said.get("gen_ai.operation.name") or "").lower()
    kind = _OPERATIONS.get(told)
    if kind in (None, "other"):
        kinds = [str(said[key]).lower() for key in _KIND_KEYS if said.get(key) is not None]
        kind = next((_KINDS[one] for one in kinds if one in _KINDS), kind)
    operation = str(said.get("ai.operationId") or "")
    if operation:
        kind = _vercel(operation) or kind
    if kind is None or kind == "other":
        kind = _by_attributes(said, name) or kind or "other"
    if kind == "tool" and (said.get("gen_ai.tool.name") == _MERGED or name.endswith(_MERGED)):
        return "other"
    return kind


def _vercel(operation: str) -> SpanKind | None:
    if operation == "ai.toolCall":
        return "tool"
    if "embed" in operation:
        return "other"
    return "model" if operation.startswith(("ai.generate", "ai.stream")) else None


def _by_attributes(said: Attributes, name: str) -> SpanKind | None:
    if any(
        said.get(key) is not None for key in ("gen_ai.tool.call.id", "gen_ai.tool.call.arguments", "tool_arguments")
    ):
        return "tool"
    if said.get("gen_ai.tool.name") is not None and not name.startswith(("call_llm", "chat")):
        return "tool"
    if any(said.get(key) is not None for key in ("pydantic_ai.all_messages", "all_messages_events")):
        return "agent"
    if any(key in said for key in ("gen_ai.output.messages", "llm.request.type", "gcp.vertex.agent.llm_request")):
        return "model"
    if any(key.startswith((*_INDEXED_SAID, *_INDEXED_ASKED)) for key in said):
        return "model"
    return "agent" if said.get("agent_name") is not None else None


def _after(name: str) -> str | None:
    found = _NAMED.match(name)
    return found.group(1) or None if found else None


def _read_tool(raw: RawSpan) -> None:
    span, said = raw.span, raw.attributes
    span.tool = text_of(first_of(said, *_TOOL_NAMES)) or _after(span.name) or span.name
    call_id = first_of(said, *_CALL_IDS)
    span.call_id = None if call_id is None or call_id == "" else str(call_id)
    span.arguments = _inside(_first_seen(said, _ARGUMENTS), "inputs", beside="input_str")
    span.result = _inside(decoded(_first_seen(said, _RESULTS)), "output", beside="kwargs")
    span.wrapped = any(key.startswith("langsmith.") for key in said)
    for event in raw.events:  # what some instrumentations tell only there
        span.arguments = _first_seen(event.attributes, _ARGUMENTS[:1]) if span.arguments is ABSENT else span.arguments
        span.result = _first_seen(event.attributes, _RESULTS[:1]) if span.result is ABSENT else span.result
    kind = str(said.get("gen_ai.tool.type") or "")
    if said.get("mcp.method.name") is not None or kind == "mcp":
        span.type = ToolCallType.MCP
    take_result(span)


def take_result(span: Span) -> None:
    """Read what a tool returned: LangChain's message of a tool says the call's id, and whether it failed."""
    holder = as_object(decoded(span.result)) if span.result is not ABSENT else None
    if holder is not None and set(holder) == {"output"} and as_object(holder["output"]) is not None:
        holder = as_object(holder["output"])
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
            return ABSENT if isinstance(said[key], str) and said[key] in _HIDDEN else said[key]
    return ABSENT


def _read_model(raw: RawSpan) -> None:
    span, said = raw.span, raw.attributes
    span.model = text_of(first_of(said, *_MODELS))
    for name, keys in _USAGE.items():
        count = first_of(said, *keys)
        if isinstance(count, str) and count.isdigit():
            count = int(count)
        if isinstance(count, int) and not isinstance(count, bool) and count > 0:
            span.usage[name] = count
    span.offered = list(_offered(said))


def _offered(said: Attributes) -> Iterator[Any]:
    for key in _TOOLS:
        tools = decoded(said.get(key))
        for tool in tools if isinstance(tools, list) else ():
            yield decoded(tool)
    parameters = as_object(decoded(said.get("model_request_parameters"))) or {}
    for tool in parameters.get("function_tools") or ():
        fields = as_object(tool) or {}
        yield {**fields, "parameters": fields.get("parameters_json_schema")}
    asked = as_object(decoded(said.get("gcp.vertex.agent.llm_request"))) or {}
    for group in (as_object(asked.get("config")) or {}).get("tools") or ():
        yield from (as_object(group) or {}).get("function_declarations") or ()
    for entry in indexed(said, "llm.tools."):
        schema = as_object(decoded(first_of(entry, "tool.json_schema", "json_schema"))) or {}
        inner = as_object(schema.get("function")) or schema
        named = text_of(entry.get("tool.name")) or text_of(inner.get("name"))
        if named:
            yield {"type": "function", "function": {**inner, "name": named}}
    for entry in indexed(said, "llm.request.functions."):
        yield {**entry, "parameters": decoded(entry.get("parameters"))}


def indexed(said: Attributes, prefix: str) -> list[dict[str, Any]]:
    """Return the entries of a list that attributes spell out one by one: `llm.tools.0.name`, `llm.tools.1.name`."""
    found: dict[int, dict[str, Any]] = {}
    for key, value in said.items():
        if key.startswith(prefix):
            number, dot, rest = key.removeprefix(prefix).partition(".")
            if dot and number.isdigit():
                found.setdefault(int(number), {})[rest] = value
    return [found[number] for number in sorted(found)]


def _asked(raw: RawSpan) -> list[Said]:
    return _spoken(raw, _INDEXED_ASKED, _ASKED, "user") or _from_events(raw, answers=False) or _all(raw, answers=False)


def _answered(raw: RawSpan) -> list[Said] | None:
    found = _spoken(raw, _INDEXED_SAID, _SAID, "model") or _from_events(raw, answers=True) or _vercel_said(raw)
    return found or _all(raw, answers=True) or (None if _silent(raw) else [])


def _silent(raw: RawSpan) -> bool:
    """Return whether nothing of what the model said was kept."""
    said = raw.attributes
    if any(key.startswith(_INDEXED_SAID) for key in said):
        return False
    kept = [said[key] for key in (*_SAID, "ai.response.text", "ai.response.object") if said.get(key) is not None]
    return all(
        value in _HIDDEN or value in _EMPTY or cut_off(value) for value in kept if isinstance(value, str)
    ) and not any(value and not isinstance(value, str) for value in kept)


def _spoken(raw: RawSpan, prefixes: Iterable[str], keys: Iterable[str], by: Who) -> list[Said]:
    said, path = raw.attributes, f"{raw.span.path}.attributes"
    for prefix in prefixes:
        entries = indexed(said, prefix)
        if entries:
            messages = [nested(entry) for entry in entries]
            default = "assistant" if by == "model" else "user"
            plain = [{"role": default, **message} for message in messages]
            return [
                one for index, entry in enumerate(plain) for one in messages_in(entry, f"{path}.{prefix}{index}", by)
            ]
    for key in keys:
        value = said.get(key)
        if value is None or (isinstance(value, str) and value in _HIDDEN):
            continue
        if cut_off(value):
            note_cut_off(raw.span, f"{path}['{key}']")
            continue
        found = messages_in(value, f"{path}['{key}']", by)
        if found:
            return found
    return []


def note_cut_off(span: Span, path: str) -> None:
    """Note messages of which the end is missing, once."""
    doubt = f"{path}: is no JSON text, as if cut off; what it says, calls too, was not read"
    if doubt not in span.doubts:
        span.doubts.append(doubt)


def nested(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message that attributes spell out, as the object that it was; `message.` in front of keys is dropped."""
    told: dict[str, Any] = {}
    for key, value in entry.items():
        plain = key.removeprefix("message.")
        if _STEP.search(f".{plain}."):
            continue
        told[plain] = value
    for name, inner in (("tool_calls", "tool_call."), ("contents", "message_content.")):
        for prefix in (f"message.{name}.", f"{name}."):
            listed = indexed(entry, prefix)
            if listed:
                told[name] = [_nested_part({key.removeprefix(inner): part[key] for key in part}) for part in listed]
    if told.get("function_call_name"):
        told["function_call"] = {
            "name": told["function_call_name"],
            "arguments": told.get("function_call_arguments_json"),
        }
    return told


def _nested_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return one part of such a message: `function.name` and the like become an object."""
    plain: dict[str, Any] = {}
    for key, value in part.items():
        head, dot, rest = key.partition(".")
        if dot:
            plain.setdefault(head, {})
            if isinstance(plain[head], dict):
                plain[head][rest.removeprefix("function.")] = value
        else:
            plain[key] = value
    return plain


def _from_events(raw: RawSpan, *, answers: bool) -> list[Said]:
    """Return what events say: a message each, as it was until 2025, or all of them in one, as it is now."""
    found: list[Said] = []
    for event in raw.events:
        body = as_object(decoded(event.body)) or {}
        fields = {**event.attributes, **body}
        whole = _whole_event(event, fields, answers=answers)
        if whole is not None:
            found += whole
            continue
        match = _EVENT.match(event.name)
        if match is not None and not answers:
            found += _event_message({"role": match.group(1), **fields}, event.path)
        elif event.name == "gen_ai.choice" and answers:
            message = as_object(decoded(fields.get("message")))
            told = {**fields, **(message or {})}
            told.pop("message", None)
            found += _event_message({"role": "assistant", **told}, event.path)
    return found


def _whole_event(event: Event, fields: Mapping[str, Any], *, answers: bool) -> list[Said] | None:
    """Return what an event says that holds several messages; `None` if it does not."""
    keys = ("gen_ai.output.messages", "gen_ai.completion") if answers else ("gen_ai.input.messages", "gen_ai.prompt")
    if not any(key in fields for key in (*_ASKED[:1], *_SAID[:1], "gen_ai.prompt", "gen_ai.completion")):
        return None
    value = first_of(fields, *keys)
    return [] if value is None else messages_in(value, f"{event.path}['{keys[0]}']", "model" if answers else "user")


def _event_message(fields: Mapping[str, Any], path: str) -> list[Said]:
    told = {key: decoded(value) if key == "tool_calls" else value for key, value in fields.items()}
    if told.get("role") == "tool" and told.get("tool_call_id") is None:
        told["tool_call_id"] = told.get("id")
    return messages_in({"content": None, **told}, path, "user")


def _vercel_said(raw: RawSpan) -> list[Said]:
    said, path = raw.attributes, f"{raw.span.path}.attributes"
    calls = messages_in(said.get("ai.response.toolCalls"), f"{path}['ai.response.toolCalls']", "model")
    text = text_of(said.get("ai.response.text")) or text_of(said.get("ai.response.object"))
    if text is None or calls:
        return calls
    return [Said("model", f"{path}['ai.response.text']", text)]


def _all(raw: RawSpan, *, answers: bool) -> list[Said]:
    """Return one side of a whole conversation: what came after the last words that were no answer, or what before."""
    said = raw.attributes
    for key in _ALL_MESSAGES:
        if said.get(key) is None:
            continue
        if cut_off(said[key]):
            note_cut_off(raw.span, f"{raw.span.path}.attributes['{key}']")
            continue
        found = messages_in(said[key], f"{raw.span.path}.attributes['{key}']", "user")
        cut = max((index + 1 for index, one in enumerate(found) if one.who != "model"), default=0)
        return found[cut:] if answers else found[:cut]
    return []


def _read_around(raw: RawSpan) -> None:
    """Read what went into an agent or chain, and what came out; messages in it repeat what models said."""
    span, said = raw.span, raw.attributes
    whole = next((said[key] for key in _ALL_MESSAGES if said.get(key) is not None), None)
    path = f"{span.path}.attributes"
    if cut_off(whole):
        note_cut_off(span, f"{path}['{_ALL_MESSAGES[0]}']")
    elif whole is not None:
        span.said = messages_in(whole, f"{path}['{_ALL_MESSAGES[0]}']", "user")
    else:
        span.asked = _spoken(raw, _INDEXED_ASKED, _ASKED, "user")
        span.said = _spoken(raw, _INDEXED_SAID, _SAID, "model")
    span.given = _plain_words(span.asked, "user")
    span.gave = text_of(said.get("final_result")) or _plain_words(span.said, "model")


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
