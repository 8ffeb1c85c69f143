"""Which spans are in this export of Langfuse? Traces with their observations, and observations alone.

An observation has a type, an input and an output; one that came in over OpenTelemetry also has the attributes of its
span, in its metadata. Keys are in camelCase (the application and its API) or in snake_case (exports to a blob storage).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolmark._internal.json import short_repr
from toolmark.formats.messages.content_parts import call_of, cut_off
from toolmark.formats.messages.field_readers import Notes, as_object, decoded, first_of, text_of
from toolmark.formats.traces.semantic_conventions import flat, interpret, take_result
from toolmark.formats.traces.span_messages import RawSpan, note_cut_off
from toolmark.formats.traces.span_tree import Span, SpanKind
from toolmark.formats.traces.timestamps import time_of
from toolmark.formats.traces.trace_messages import Said, messages_in, tools_beside
from toolmark.matching.json_compare import ABSENT

_KINDS: dict[str, SpanKind] = {"GENERATION": "model", "TOOL": "tool", "AGENT": "agent"}
_TYPES = frozenset(
    {"SPAN", "EVENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL", "GENERATION", "TOOL", "AGENT"}
)
_USAGE = {"input": "input_tokens", "output": "output_tokens", "total": "total_tokens"}


def looks_like_langfuse(value: object) -> bool:
    """Return whether a value is one of the things that `spans_in` reads."""
    if isinstance(value, list):
        return bool(value) and all(map(looks_like_langfuse, value))
    fields = as_object(value)
    if fields is None:
        return False
    if isinstance(fields.get("data"), list) and "meta" in fields:
        return looks_like_langfuse(fields["data"])
    return isinstance(fields.get("observations"), list) or _is_observation(fields)


def _is_observation(fields: Mapping[str, Any]) -> bool:
    return str(fields.get("type")) in _TYPES and "id" in fields and _get(fields, "traceId") is not None


def spans_in(documents: list[tuple[str, Any]], notes: Notes) -> list[Span]:
    """Return the spans of the documents of a file; what cannot be read is a problem.

    Args:
        documents: Each with its path, which begins the paths of its spans.
        notes: Takes the problems.
    """
    return [span for path, value in documents for span in _spans(value, path, notes)]


def _spans(value: object, path: str, notes: Notes) -> Iterator[Span]:
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _spans(entry, f"{path}[{index}]", notes)
        return
    fields = as_object(value) or {}
    if isinstance(fields.get("data"), list):
        yield from _spans(fields["data"], f"{path}.data", notes)
    elif isinstance(fields.get("observations"), list):
        yield from _trace(fields, path, notes)
    elif _is_observation(fields):
        yield _observation(fields, path)
    else:
        notes.problem(path, f"expected an observation of Langfuse (id, traceId, type), got {short_repr(value)}")


def _trace(fields: Mapping[str, Any], path: str, notes: Notes) -> Iterator[Span]:
    trace = as_object(fields.get("trace")) or fields
    session = text_of(_get(trace, "sessionId"))
    listed = trace.get("tags")
    tags = [str(tag) for tag in (listed if isinstance(listed, list) else ())]
    for index, entry in enumerate(fields["observations"]):
        place = f"{path}.observations[{index}]"
        observation = as_object(entry)
        if observation is None or "type" not in observation:
            notes.problem(place, f"expected an observation with its type, got {short_repr(entry)}")
            continue
        span = _observation({"traceId": trace.get("id"), **observation}, place)
        span.session = session or span.session
        if span.parent is None:
            span.tags = tags
            span.given = span.given or _words(trace.get("input"), "user")
            span.gave = span.gave or _words(trace.get("output"), "model")
        yield span


def _observation(fields: Mapping[str, Any], path: str) -> Span:
    metadata = as_object(decoded(fields.get("metadata"))) or {}
    given = as_object(decoded(metadata.get("attributes"))) or {}
    attributes = dict(flat(given)) if any(isinstance(value, Mapping) for value in given.values()) else dict(given)
    span = Span(
        str(fields.get("id")),
        str(_get(fields, "traceId") or ""),
        path,
        text_of(_get(fields, "parentObservationId")),
        str(fields.get("name") or ""),
        started_at=time_of(_get(fields, "startTime")),
        ended_at=time_of(_get(fields, "endTime")),
        session=text_of(_get(fields, "sessionId")),
    )
    kind = _KINDS.get(str(fields.get("type")))
    if kind is not None:
        attributes.pop("ai.operationId", None)
        attributes["gen_ai.operation.name"] = {"model": "chat", "tool": "execute_tool", "agent": "invoke_agent"}[kind]
    span = interpret(RawSpan(span, attributes))
    if fields.get("level") == "ERROR":
        span.error = text_of(_get(fields, "statusMessage")) or span.error or "failed"
    if kind is None and span.kind == "other" and _is_tool(fields):
        span.kind, span.tool = "tool", span.name
    if span.kind == "tool":
        _read_tool(fields, span)
    else:
        _read_messages(fields, metadata, span)
    return span


def _is_tool(fields: Mapping[str, Any]) -> bool:
    """Return whether a span of no type of its own is one of a tool: it returned LangChain's message of that tool."""
    output = as_object(decoded(fields.get("output"))) or {}
    if not ("lc" in output or output.get("type") == "tool"):
        return False
    found = messages_in(output, "$", "tool")
    return len(found) == 1 and found[0].answer is not None and found[0].answer.name in (None, fields.get("name"))


def _read_tool(fields: Mapping[str, Any], span: Span) -> None:
    for name, key in (("arguments", "input"), ("result", "output")):
        value = fields.get(key)
        if value is not None:
            setattr(span, name, decoded(value))
    if span.result is None:
        span.result = ABSENT
    take_result(span)


def _read_messages(fields: Mapping[str, Any], metadata: Mapping[str, Any], span: Span) -> None:
    given = {key: fields.get(key) for key in ("input", "output")}
    for key in [key for key in given if cut_off(given[key])]:
        note_cut_off(span, f"{span.path}.{key}")
        del given[key]
    asked = messages_in(given.get("input"), f"{span.path}.input", "user")
    said = messages_in(given.get("output"), f"{span.path}.output", "model")
    span.given, span.gave = _words(given.get("input"), "user"), span.gave or _words(given.get("output"), "model")
    span.asked = asked or span.asked
    if _calls(said) >= _calls(span.said or []):
        span.said = said or span.said
    if span.kind != "model":
        return
    if not _calls(span.said or []):
        told = _told_apart(fields, span.path)
        span.said = [*(span.said or []), *told] if told else span.said
    span.model = text_of(fields.get("model")) or span.model
    usage = as_object(decoded(_get(fields, "usageDetails"))) or {}
    span.usage = {
        name: count for key, name in _USAGE.items() if isinstance(count := usage.get(key), int) and count > 0
    } or span.usage
    span.offered += [*_offered(fields, metadata), *tools_beside(given.get("input"))]


def _told_apart(fields: Mapping[str, Any], path: str) -> list[Said]:
    """Return the calls that Langfuse has found in an output whose form is not read here; without them, their names."""
    calls = decoded(_get(fields, "toolCalls"))
    names = decoded(_get(fields, "toolCallNames"))
    listed = calls if isinstance(calls, list) and calls else names if isinstance(names, list) else []
    plain = [as_object(decoded(entry)) or {"name": entry} for entry in listed]
    found = [call_of(entry, path=f"{path}.toolCalls[{index}]") for index, entry in enumerate(plain)]
    requests = tuple(call for call in found if call is not None)
    return [Said("model", f"{path}.toolCalls", None, requests)] if requests else []


def _offered(fields: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[Any]:
    tools = as_object(decoded(_get(fields, "toolDefinitions"))) or {}
    for name, definition in tools.items():
        yield {"name": name, **(as_object(decoded(definition)) or {})}
    listed = decoded(metadata.get("tools"))
    for tool in listed if isinstance(listed, list) else ():
        plain = as_object(decoded(tool))
        if plain is not None:
            yield plain


def _words(value: object, by: str) -> str | None:
    """Return what a value says in words, where it is words or messages."""
    plain = decoded(decoded(value))  # the whole trace is exported as JSON text inside of JSON text
    if isinstance(plain, str):
        return plain or None
    found = messages_in(plain, "$", "user" if by == "user" else "model")
    words = [said.text for said in found if said.who == by and said.text]
    return words[-1] if words else None


def _calls(said: list[Said]) -> int:
    return sum(len(one.requests) for one in said)


def _get(fields: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value by its key in camelCase, or by the same key in snake_case."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
    return first_of(fields, key, snake)
