"""Langfuse: exports of traces with their observations, and of observations alone; its attributes on any span.

Sources: Langfuse API reference, "Trace" and "Observations"; Langfuse documentation, "Export via Blob Storage", and
"OpenTelemetry", section "Property Mapping". An observation has a type, an input and an output; one that came in over
OpenTelemetry also has the attributes of its span, in its metadata. Keys are in camelCase (the application and its API)
or in snake_case (exports to blob storage).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolgrade._internal.json import short_repr
from toolgrade._internal.message_content import Fields, as_object, first_of, object_of, text_of
from toolgrade.formats.messages.content_parts import call_of
from toolgrade.formats.messages.field_readers import Notes, decoded, list_of
from toolgrade.formats.traces.messages import (
    Speaker,
    TraceMessage,
    automatic_calls_in,
    is_response,
    langchain_answer,
    last_text,
    messages_in,
    requests_in,
    tools_beside_messages,
)
from toolgrade.formats.traces.span_tree import Span, has_interrupt, is_wait
from toolgrade.formats.traces.tracers.tracer import INPUT, OUTPUT, Attributes, Tracer
from toolgrade.formats.traces.values import (
    all_entries,
    entries_of,
    first_text,
    flat,
    json_list,
    json_object,
    string_of,
    time_of,
    token_counts,
)
from toolgrade.matching.json_compare import ABSENT

_OPERATIONS = {"GENERATION": "chat", "TOOL": "execute_tool", "AGENT": "invoke_agent"}
_TYPES = _OPERATIONS.keys() | {"SPAN", "EVENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"}
_USAGE = {"input_tokens": ("input",), "output_tokens": ("output",), "total_tokens": ("total",)}
_TRACE = "toolgrade.trace"
"""Key of the trace in the record of a root, since only the trace has some texts."""
_STATUS = "langfuse.observation.status_message"
_BLANK: tuple[Any, ...] = ("", "null", {}, [])
_CAPITAL = re.compile(r"[A-Z]")


def is_langfuse(fields: Fields) -> bool:
    """Return whether `spans_in` reads an object."""
    if isinstance(fields.get("data"), list) and "meta" in fields:  # a page of the API
        return all_entries(fields["data"], is_langfuse)
    return isinstance(fields.get("observations"), list) or _is_observation(fields)


def _is_observation(fields: Fields) -> bool:
    return str(fields.get("type")) in _TYPES and "id" in fields and _get(fields, "traceId") is not None


def spans_in(entries: list[tuple[str, Any]], notes: Notes) -> list[Span]:
    """Return the spans of a file.

    Args:
        entries: The values in the file, each with its path.
        notes: Receives a problem for everything that cannot be read.
    """
    spans: list[Span] = []
    for path, value in entries:
        fields = object_of(value)
        if isinstance(fields.get("data"), list):
            spans += spans_in(list(entries_of(fields["data"], f"{path}.data")), notes)
        elif isinstance(fields.get("observations"), list):
            spans += _trace(fields, path, notes)
        elif _is_observation(fields):
            spans.append(_span(fields, path))
        else:
            notes.problem(path, f"expected a Langfuse observation (id, traceId, type), got {short_repr(value)}")
    return spans


def _trace(fields: Fields, path: str, notes: Notes) -> Iterator[Span]:
    trace = as_object(fields.get("trace")) or fields
    session = text_of(_get(trace, "sessionId"))
    for index, entry in enumerate(fields["observations"]):
        place, observation = f"{path}.observations[{index}]", object_of(entry)
        if "type" not in observation:
            notes.problem(place, f"expected an observation with its type, got {short_repr(entry)}")
            continue
        span = _span({"traceId": trace.get("id"), **observation}, place)
        span.session = session or span.session
        if span.parent is None:
            span.tags = list(map(str, list_of(trace.get("tags"))))
            span.record = {**span.record, _TRACE: trace}
        yield span


def _span(fields: Fields, path: str) -> Span:
    return Span(
        str(fields.get("id")),
        string_of(_get(fields, "traceId")),
        path,
        text_of(_get(fields, "parentObservationId")),
        string_of(fields.get("name")),
        started_at=time_of(_get(fields, "startTime")),
        ended_at=time_of(_get(fields, "endTime")),
        error=first_text(_get(fields, "statusMessage"), "failed") if fields.get("level") == "ERROR" else None,
        session=text_of(_get(fields, "sessionId")),
        attributes=_attributes_of(fields),
        exporter="langfuse",
        record=fields,
    )


def _attributes_of(fields: Fields) -> Attributes:
    """Return the attributes of the OpenTelemetry span that an observation came from, and its type as an operation."""
    attributes = json_object(json_object(fields.get("metadata")).get("attributes"))
    is_nested = any(isinstance(value, Mapping) for value in attributes.values())
    attributes = dict(flat(attributes) if is_nested else attributes)
    operation = _OPERATIONS.get(str(fields.get("type")))
    if operation is not None:  # the type wins over the attributes
        return {**attributes, "gen_ai.operation.name": operation}
    # LangChain's message of a tool shows what returned it.
    answer = langchain_answer(json_object(fields.get("output")))
    is_tool = answer is not None and answer.name in (None, fields.get("name"))
    return {"gen_ai.tool.name": string_of(fields.get("name")), **attributes} if is_tool else attributes


def _complete_tool(span: Span) -> None:
    """Complete a tool with the input and output of its observation, which its attributes may lack."""
    if span.exporter != "langfuse":
        return
    run = span.tool_run
    run.arguments = _observed(span.record.get("input"), run.arguments)
    run.result = _observed(span.record.get("output"), run.result)
    if run.result is None:  # the JSON text `null`
        run.result = ABSENT


def _observed(observed: object, of_span: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return the input or output that an observation has, else that of its span.

    They are blank where Langfuse did not read those of the span, which then count.
    """
    value = decoded(observed)
    is_blank = value in _BLANK and of_span not in (ABSENT, None)
    return of_span if value is None or is_blank else value


def _complete(span: Span) -> None:
    status = first_of({**span.attributes, **span.record}, _STATUS, "statusMessage", "status_message")
    if is_wait(text_of(status)):  # no failure for Langfuse
        span.error = span.error or text_of(status)
    if span.exporter != "langfuse":
        return
    if span.kind != "tool":
        _read_messages(span.record, span)
    if span.kind == "model":
        _read_model(span.record, span)
    trace = object_of(span.record.get(_TRACE))
    if span.kind not in ("tool", "model"):
        outputs = (span.record.get("output"), trace.get("output"))
        span.interrupted |= any(has_interrupt(decoded(decoded(output))) for output in outputs)
    if trace:
        span.input_text = span.input_text or _text_in(trace.get("input"), "user")
        span.output_text = span.output_text or _text_in(trace.get("output"), "model")


def _read_messages(fields: Fields, span: Span) -> None:
    input_path, output_path = f"{span.path}.input", f"{span.path}.output"
    inputs = span.uncut(fields.get("input"), input_path)
    outputs = span.uncut(fields.get("output"), output_path)
    reply = messages_in(outputs, output_path, "model")
    span.input_text = _text_in(inputs, "user")
    span.output_text = span.output_text or _text_in(outputs, "model")
    automatic = automatic_calls_in(outputs, output_path)
    span.prompt = automatic or messages_in(inputs, input_path, "user") or span.prompt
    # The output counts, unless the attributes of the span show more calls.
    if reply and len(requests_in(reply)) >= len(requests_in(span.reply_messages)):
        span.reply = reply
    if span.reply is None and is_response(outputs):  # one that says nothing
        span.reply = []


def _read_model(fields: Fields, span: Span) -> None:
    # Langfuse lists the calls next to an output whose form is not read here, or at least their names.
    entries = json_list(_get(fields, "toolCalls")) or json_list(_get(fields, "toolCallNames"))
    bodies = [json_object(entry) or {"name": entry} for entry in entries]
    path = f"{span.path}.toolCalls"
    calls = tuple(filter(None, [call_of(body, path=f"{path}[{index}]") for index, body in enumerate(bodies)]))
    if calls and not requests_in(span.reply_messages):
        span.reply = [*span.reply_messages, TraceMessage("model", path, requests=calls)]
    call = span.model_call
    call.model = first_text(fields.get("model"), call.model)
    call.usage = token_counts(json_object(_get(fields, "usageDetails")), _USAGE) or call.usage
    for name, definition in json_object(_get(fields, "toolDefinitions")).items():
        span.offered.append({"name": name, **json_object(definition)})
    tools = json_list(json_object(fields.get("metadata")).get("tools"))
    span.offered += filter(None, map(as_object, map(decoded, tools)))
    span.offered += tools_beside_messages(fields.get("input"))


def _offered(span: Span) -> Iterator[Any]:
    return tools_beside_messages(span.attributes.get("langfuse.observation.input"))


def _text_in(value: object, speaker: Speaker) -> str | None:
    """Return the last text of a speaker in a value that is a text or messages."""
    # The export of a whole trace has JSON text inside of JSON text.
    return last_text(messages_in(decoded(decoded(value)), "$", speaker), speaker)


def _get(fields: Fields, key: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value by its key in camelCase, or by the same key in snake_case."""
    return first_of(fields, key, _CAPITAL.sub(r"_\g<0>", key).lower())


LANGFUSE = Tracer(
    names={
        "gen_ai.operation.name": ("langfuse.observation.type",),
        "gen_ai.conversation.id": ("langfuse.session.id",),
        INPUT: ("langfuse.observation.input",),
        OUTPUT: ("langfuse.observation.output",),
    },
    offered=_offered,
    complete=_complete,
    complete_tool=_complete_tool,
)
