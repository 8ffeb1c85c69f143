"""Reader of Langfuse exports: traces with their observations, and observations alone.

An observation has a type, an input and an output; one that came in over OpenTelemetry also has the attributes of its
span, in its metadata. Keys are in camelCase (the application and its API) or in snake_case (exports to blob storage).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolgrade._internal.json import short_repr
from toolgrade._internal.message_content import Fields, as_object, first_of, object_of, text_of
from toolgrade.formats.messages.content_parts import call_of
from toolgrade.formats.messages.field_readers import Notes, decoded, list_of
from toolgrade.formats.traces.semantic_conventions import interpret
from toolgrade.formats.traces.span_messages import whole_value
from toolgrade.formats.traces.span_tree import Span, ToolRun
from toolgrade.formats.traces.tool_runs import langchain_answer, unwrap_result
from toolgrade.formats.traces.trace_messages import (
    Message,
    Speaker,
    last_text,
    messages_in,
    requests_in,
    tools_beside_messages,
)
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
_OWN_KINDS = {kind: {"gen_ai.operation.name": name, "ai.operationId": None} for kind, name in _OPERATIONS.items()}
"""Attributes for Langfuse's own type of an observation, which wins over the attributes of its span."""
_TYPES = _OPERATIONS.keys() | {"SPAN", "EVENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"}
_USAGE = {"input_tokens": ("input",), "output_tokens": ("output",), "total_tokens": ("total",)}
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
            _complete_root(span, trace)
        yield span


def _complete_root(span: Span, trace: Fields) -> None:
    """Complete a root span with what only the trace has."""
    span.tags = list(map(str, list_of(trace.get("tags"))))
    span.input_text = span.input_text or _text_in(trace.get("input"), "user")
    span.output_text = span.output_text or _text_in(trace.get("output"), "model")


def _span(fields: Fields, path: str) -> Span:
    metadata = json_object(fields.get("metadata"))
    span = interpret(
        Span(
            str(fields.get("id")),
            string_of(_get(fields, "traceId")),
            path,
            text_of(_get(fields, "parentObservationId")),
            string_of(fields.get("name")),
            started_at=time_of(_get(fields, "startTime")),
            ended_at=time_of(_get(fields, "endTime")),
            session=text_of(_get(fields, "sessionId")),
            attributes={**_attributes_in(metadata), **_OWN_KINDS.get(str(fields.get("type")), {})},
        )
    )
    if fields.get("level") == "ERROR":
        span.error = first_text(_get(fields, "statusMessage"), span.error, "failed")
    if span.kind == "other" and _is_untyped_tool(fields):
        span.kind, span.tool_run.tool = "tool", span.name
    if span.kind == "tool":
        _read_tool(fields, span.tool_run)
    else:
        _read_messages(fields, span)
    if span.kind == "model":
        _read_model(fields, metadata, span)
    return span


def _attributes_in(metadata: Fields) -> dict[str, Any]:
    """Return the attributes of the OpenTelemetry span that an observation came from."""
    attributes = json_object(metadata.get("attributes"))
    is_nested = any(isinstance(value, Mapping) for value in attributes.values())
    return dict(flat(attributes) if is_nested else attributes)


def _is_untyped_tool(fields: Fields) -> bool:
    """Return whether an observation without the type of a tool returned LangChain's message of that tool."""
    if str(fields.get("type")) in _OPERATIONS:
        return False
    answer = langchain_answer(json_object(fields.get("output")))
    return answer is not None and answer.name in (None, fields.get("name"))


def _read_tool(fields: Fields, run: ToolRun) -> None:
    run.arguments = _observed(fields.get("input"), run.arguments)
    run.result = _observed(fields.get("output"), run.result)
    if run.result is None:  # the JSON text `null`
        run.result = ABSENT
    unwrap_result(run)


def _observed(observed: object, of_span: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return the input or output that an observation has, else that of its span.

    The observation has them also where its span had no such attributes. They are blank where Langfuse did not read
    those of the span, which then count.
    """
    value = decoded(observed)
    is_blank = value in _BLANK and of_span not in (ABSENT, None)
    return of_span if value is None or is_blank else value


def _read_messages(fields: Fields, span: Span) -> None:
    input_path, output_path = f"{span.path}.input", f"{span.path}.output"
    inputs = whole_value(fields.get("input"), span, input_path)
    outputs = whole_value(fields.get("output"), span, output_path)
    reply = messages_in(outputs, output_path, "model")
    span.input_text = _text_in(inputs, "user")
    span.output_text = span.output_text or _text_in(outputs, "model")
    span.prompt = messages_in(inputs, input_path, "user") or span.prompt
    # The output counts, unless the attributes of the span show more calls.
    if reply and len(requests_in(reply)) >= len(requests_in(span.reply_messages)):
        span.reply = reply


def _read_model(fields: Fields, metadata: Fields, span: Span) -> None:
    calls = _listed_calls(fields, span.path)
    if calls and not requests_in(span.reply_messages):
        span.reply = [*span.reply_messages, *calls]
    call = span.model_call
    call.model = first_text(fields.get("model"), call.model)
    call.usage = token_counts(json_object(_get(fields, "usageDetails")), _USAGE) or call.usage
    span.offered += [*_offered(fields, metadata), *tools_beside_messages(fields.get("input"))]


def _listed_calls(fields: Fields, path: str) -> list[Message]:
    """Return the calls that Langfuse lists next to an output whose form is not read here, or at least their names."""
    entries = json_list(_get(fields, "toolCalls")) or json_list(_get(fields, "toolCallNames"))
    bodies = [json_object(entry) or {"name": entry} for entry in entries]
    calls = [call_of(body, path=f"{path}.toolCalls[{index}]") for index, body in enumerate(bodies)]
    requests = tuple(filter(None, calls))
    return [Message("model", f"{path}.toolCalls", requests=requests)] if requests else []


def _offered(fields: Fields, metadata: Fields) -> Iterator[Any]:
    for name, definition in json_object(_get(fields, "toolDefinitions")).items():
        yield {"name": name, **json_object(definition)}
    definitions = map(as_object, map(decoded, json_list(metadata.get("tools"))))
    yield from (definition for definition in definitions if definition is not None)


def _text_in(value: object, speaker: Speaker) -> str | None:
    """Return the last text of a speaker in a value that is a text or messages."""
    # The export of a whole trace has JSON text inside of JSON text.
    return last_text(messages_in(decoded(decoded(value)), "$", speaker), speaker)


def _get(fields: Fields, key: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value by its key in camelCase, or by the same key in snake_case."""
    return first_of(fields, key, _CAPITAL.sub(r"_\g<0>", key).lower())
