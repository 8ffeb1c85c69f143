"""Reader of Langfuse exports: traces with their observations, and observations alone.

An observation has a type, an input and an output; one that came in over OpenTelemetry also has the attributes of its
span, in its metadata. Keys are in camelCase (the application and its API) or in snake_case (exports to blob storage).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolmark._internal.json import short_repr
from toolmark.formats.messages.content_parts import call_of, cut_off
from toolmark.formats.messages.field_readers import (
    Fields,
    Notes,
    as_object,
    decoded,
    first_of,
    list_of,
    object_of,
    text_of,
)
from toolmark.formats.traces.attribute_readers import (
    all_entries,
    entries_of,
    json_list,
    json_object,
    string_of,
    token_counts,
)
from toolmark.formats.traces.semantic_conventions import flat, interpret, unwrap_result
from toolmark.formats.traces.span_messages import RawSpan, note_cut_off
from toolmark.formats.traces.span_tree import Span, ToolRun
from toolmark.formats.traces.timestamps import time_of
from toolmark.formats.traces.trace_messages import (
    Message,
    Speaker,
    last_text,
    messages_in,
    requests_in,
    tools_beside_messages,
)
from toolmark.matching.json_compare import ABSENT

_OPERATIONS = {"GENERATION": "chat", "TOOL": "execute_tool", "AGENT": "invoke_agent"}
_TYPES = _OPERATIONS.keys() | {"SPAN", "EVENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"}
_USAGE = {"input_tokens": ("input",), "output_tokens": ("output",), "total_tokens": ("total",)}
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
    session, tags = text_of(_get(trace, "sessionId")), list(map(str, list_of(trace.get("tags"))))
    for index, entry in enumerate(fields["observations"]):
        place, observation = f"{path}.observations[{index}]", object_of(entry)
        if "type" not in observation:
            notes.problem(place, f"expected an observation with its type, got {short_repr(entry)}")
            continue
        span = _span({"traceId": trace.get("id"), **observation}, place)
        span.session = session or span.session
        if span.parent is None:
            span.tags = tags
            span.input_text = span.input_text or _text_in(trace.get("input"), "user")
            span.output_text = span.output_text or _text_in(trace.get("output"), "model")
        yield span


def _span(fields: Fields, path: str) -> Span:
    metadata = json_object(fields.get("metadata"))
    attributes = dict(json_object(metadata.get("attributes")))
    if any(isinstance(value, Mapping) for value in attributes.values()):
        attributes = dict(flat(attributes))
    span = Span(
        str(fields.get("id")),
        string_of(_get(fields, "traceId")),
        path,
        text_of(_get(fields, "parentObservationId")),
        string_of(fields.get("name")),
        started_at=time_of(_get(fields, "startTime")),
        ended_at=time_of(_get(fields, "endTime")),
        session=text_of(_get(fields, "sessionId")),
    )
    operation = _OPERATIONS.get(str(fields.get("type")))
    if operation is not None:  # Langfuse's own type wins over the attributes of the span
        attributes.pop("ai.operationId", None)
        attributes["gen_ai.operation.name"] = operation
    span = interpret(RawSpan(span, attributes))
    if fields.get("level") == "ERROR":
        span.error = text_of(_get(fields, "statusMessage")) or span.error or "failed"
    if operation is None and span.kind == "other" and _returns_tool_message(fields):
        span.kind, span.tool_run.tool = "tool", span.name
    if span.kind == "tool":
        _read_tool(fields, span.tool_run)
    else:
        _read_messages(fields, span)
    if span.kind == "model":
        _read_model(fields, metadata, span)
    return span


def _returns_tool_message(fields: Fields) -> bool:
    """Return whether a span without a type returned LangChain's tool message, so that it is the span of that tool."""
    output = json_object(fields.get("output"))
    if "lc" not in output and output.get("type") != "tool":
        return False
    answers = [message.answer for message in messages_in(output, "$", "tool")]
    return len(answers) == 1 and answers[0] is not None and answers[0].name in (None, fields.get("name"))


def _read_tool(fields: Fields, run: ToolRun) -> None:
    # The observation has its input and output also where its span had no such attributes.
    if fields.get("input") is not None:
        run.arguments = decoded(fields["input"])
    if fields.get("output") is not None:
        run.result = decoded(fields["output"])
    if run.result is None:  # the JSON text `null`
        run.result = ABSENT
    unwrap_result(run)


def _read_messages(fields: Fields, span: Span) -> None:
    contents: dict[str, Any] = {}
    for key in ("input", "output"):
        if cut_off(fields.get(key)):
            note_cut_off(span, f"{span.path}.{key}")
        else:
            contents[key] = fields.get(key)
    prompt = messages_in(contents.get("input"), f"{span.path}.input", "user")
    reply = messages_in(contents.get("output"), f"{span.path}.output", "model")
    span.input_text = _text_in(contents.get("input"), "user")
    span.output_text = span.output_text or _text_in(contents.get("output"), "model")
    span.prompt = prompt or span.prompt
    # The output counts, unless the attributes of the span show more calls.
    if reply and len(requests_in(reply)) >= len(requests_in(span.reply_messages)):
        span.reply = reply


def _read_model(fields: Fields, metadata: Fields, span: Span) -> None:
    calls = _listed_calls(fields, span.path)
    if calls and not requests_in(span.reply_messages):
        span.reply = [*span.reply_messages, *calls]
    call = span.model_call
    call.model = text_of(fields.get("model")) or call.model
    call.usage = token_counts(json_object(_get(fields, "usageDetails")), _USAGE) or call.usage
    span.offered += [*_offered(fields, metadata), *tools_beside_messages(fields.get("input"))]


def _listed_calls(fields: Fields, path: str) -> list[Message]:
    """Return the calls that Langfuse lists next to an output whose form is not read here, or at least their names."""
    calls = json_list(_get(fields, "toolCalls")) or json_list(_get(fields, "toolCallNames"))
    entries = [as_object(decoded(entry)) or {"name": entry} for entry in calls]
    requests = [call_of(entry, path=f"{path}.toolCalls[{index}]") for index, entry in enumerate(entries)]
    named = tuple(filter(None, requests))
    return [Message("model", f"{path}.toolCalls", None, named)] if named else []


def _offered(fields: Fields, metadata: Fields) -> Iterator[Any]:
    for name, definition in json_object(_get(fields, "toolDefinitions")).items():
        yield {"name": name, **json_object(definition)}
    for tool in json_list(metadata.get("tools")):
        definition = as_object(decoded(tool))
        if definition is not None:
            yield definition


def _text_in(value: object, speaker: Speaker) -> str | None:
    """Return the last text of a speaker in a value that is a text or messages."""
    # The export of a whole trace has JSON text inside of JSON text.
    return last_text(messages_in(decoded(decoded(value)), "$", speaker), speaker)


def _get(fields: Fields, key: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value by its key in camelCase, or by the same key in snake_case."""
    return first_of(fields, key, _CAPITAL.sub(r"_\g<0>", key).lower())
