"""Reader of OpenTelemetry files: OTLP as JSON, Jaeger, Tempo, Phoenix, and what SDKs dump themselves.

Sources: OpenTelemetry, "OTLP Specification", section "JSON Protobuf Encoding", and its messages `ResourceSpans`,
`LogRecord` and `AnyValue`; Jaeger, "APIs", section "HTTP JSON"; the console exporters of the SDKs.
Spans and log records of one file belong together, whatever line they are on. Ids are hexadecimal, base64 or numbers;
keys are in camelCase or snake_case; times are counts or texts. `genai` interprets the spans.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from toolgrade._internal.json import short_repr
from toolgrade._internal.message_content import Fields, as_object, first_of, object_of, text_of
from toolgrade._internal.model import drop_none
from toolgrade.formats.messages.field_readers import Notes, list_of
from toolgrade.formats.traces.span_tree import Span, SpanEvent
from toolgrade.formats.traces.tracers import attributes_beside
from toolgrade.formats.traces.tracers.tracer import Attributes
from toolgrade.formats.traces.values import all_entries, entries_of, first_text, flat, integer_of, string_of, time_of

# A field of a span, as its exporters spell it; OTLP and the SDKs write camelCase or snake_case.
#
#   field       OTLP                     dumps of SDKs, Phoenix             Jaeger
#   span id     spanId                   id, or spanId in a context         spanID
#   trace id    traceId                  traceId, also in a context         traceID
#   parent id   parentSpanId             parentId, or spanId in a parent    spanID in references
#   name        name                     name                               operationName
#   start       startTimeUnixNano        startTime, timestamp               startTime
#   end         endTimeUnixNano          endTime                            startTime + duration
#   attributes  attributes: list         attributes: object                 tags: list
#   events      events                   events                             logs
#
# A data frame of Phoenix has flat columns, such as "context.span_id" and "attributes.llm.model_name".

_SPAN_IDS = ("spanId", "span_id", "spanID")
_TRACE_IDS = ("traceId", "trace_id", "traceID", "context.trace_id")
_PARENT_IDS = ("parentSpanId", "parent_span_id", "parentId", "parent_id")

_GROUPS = (
    *("resourceSpans", "resource_spans", "batches", "resourceLogs", "resource_logs"),
    *("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "ilSpans", "scopeLogs", "scope_logs"),
)
"""Keys of OTLP's lists of resources and scopes, also those of its early versions and of Tempo."""
_LOGS = ("logRecords", "log_records")
_WRAPPERS = ("spans", "trace", "traces", "data")
"""Keys of spans, or of what holds spans, outside of OTLP's lists; the first one of an object counts."""

_CONTEXTS = frozenset({"context", "spanContext", "span_context", "context.span_id", "parentSpanContext"})
_BESIDE_CONTEXT = frozenset({"attributes", "context.span_id", "start_time", "startTime"})
"""A span with a context has one of these keys, too."""
_BESIDE_ID = frozenset({"startTimeUnixNano", "start_time_unix_nano", "start_time", "attributes", "timestamp"})
"""A span or a log record with its id beside its name has one of these keys, too."""

_HEX = re.compile(r"^(?:0x)?[0-9a-fA-F]+$")
_VALUES = frozenset({"stringValue", "intValue", "boolValue", "doubleValue", "bytesValue", "arrayValue", "kvlistValue"})
_FAILED = frozenset({"2", "STATUS_CODE_ERROR", "ERROR", "error", "StatusCode.ERROR"})


@dataclass(frozen=True, slots=True)
class _SpanRecord:
    """The fields of a span or a log record, and the attributes that a span inherits from the objects around it."""

    path: str
    fields: Fields
    is_log: bool = False
    inherited: Attributes = field(default_factory=dict[str, Any])


def is_otel(fields: Fields) -> bool:
    """Return whether `spans_in` reads an object."""
    if _is_span(fields) or _keys_with(list, fields, _GROUPS):
        return True
    return any(all_entries(fields[key], is_otel) for key in _wrapper_in(fields))


def spans_in(entries: list[tuple[str, Any]], notes: Notes) -> list[Span]:
    """Return the spans of a file.

    Args:
        entries: The values in the file, each with its path.
        notes: Receives a problem for everything that cannot be read.
    """
    records = list(_records(entries, notes))
    parsed = [_span(record, notes) for record in records if not record.is_log]
    spans = [span for span in parsed if span is not None]
    # A file may have a log record on an earlier line than the span it belongs to.
    _add_logs([record for record in records if record.is_log], spans)
    return spans


def _is_span(fields: Fields) -> bool:
    """Return whether an object is a span or a log record; a name and an id alone may be those of a tool call."""
    keys = fields.keys()
    # {"operationName": "chat", "spanID": "2"}, of Jaeger
    if "operationName" in keys and keys & {"spanID", "traceID"}:
        return True
    if not keys & {"name", "eventName", "event_name"}:
        return False
    # {"name": "chat", "context": {"span_id": "2"}, "attributes": {}}, of SDKs and Phoenix
    if keys & _CONTEXTS:
        return bool(keys & _BESIDE_CONTEXT)
    # {"name": "chat", "spanId": "2", "startTimeUnixNano": "1"}, of OTLP
    return first_of(fields, "spanId", "span_id") is not None and bool(keys & _BESIDE_ID)


def _keys_with(types: type | tuple[type, ...], fields: Fields, keys: Iterable[str]) -> list[str]:
    """Return those of the keys that have a value of one of the types."""
    return [key for key in keys if isinstance(fields.get(key), types)]


def _wrapper_in(fields: Fields) -> list[str]:
    """Return the key of the spans in an object that is not OTLP's, in a list; an empty list if it has none."""
    return _keys_with((list, dict), fields, _WRAPPERS)[:1]


def _records(
    entries: Iterable[tuple[str, Any]], notes: Notes, inherited: Attributes | None = None
) -> Iterator[_SpanRecord]:
    """Yield the spans and log records of values in their order."""
    for path, entry in entries:
        fields = as_object(entry)
        if fields is None:
            notes.problem(path, f"expected a span, or an object that holds spans, got {short_repr(entry)}")
        elif _is_span(fields) and not _keys_with(list, fields, (*_GROUPS, *_LOGS)):
            yield _SpanRecord(path, fields, inherited=inherited or {})
        else:
            yield from _records_inside(fields, path, notes, inherited or {})


def _records_inside(fields: Fields, path: str, notes: Notes, inherited: Attributes) -> Iterator[_SpanRecord]:
    """Yield the spans and log records of an object that holds some."""
    inherited = {**attributes_beside(fields), **inherited}
    keys = _keys_with(list, fields, (*_GROUPS, *_LOGS)) + _wrapper_in(fields)
    for key in keys:
        entries = entries_of(fields[key], f"{path}.{key}")
        if key in _LOGS:
            yield from (_SpanRecord(place, object_of(entry), is_log=True) for place, entry in entries)
        else:
            yield from _records(entries, notes, inherited)
    if not keys and fields.keys() - {"resource", "scope", "schemaUrl", "schema_url"}:
        notes.problem(path, f"expected a span (an object with a name and ids), got {short_repr(dict(fields))}")


def _add_logs(records: Iterable[_SpanRecord], spans: list[Span]) -> None:
    """Add each log record of GenAI to its span, as an event; if the file does not have that span, add one for it."""
    by_id = {(span.trace, span.id): span for span in spans}
    for record in records:
        fields, event = record.fields, _event(record.fields, record.path, "eventName", "event_name")
        if not event.name.startswith("gen_ai."):
            continue
        trace = _id(first_of(fields, "traceId", "trace_id"))
        span_id = _id(first_of(fields, "spanId", "span_id")) or record.path
        span = by_id.get((trace, span_id))
        if span is None:  # some export log records alone, or before a span that never ended
            at = first_of(fields, "timeUnixNano", "time_unix_nano", "observedTimeUnixNano", "observed_time_unix_nano")
            span = Span(span_id, trace, record.path, name=event.name, started_at=time_of(at))
            span.attributes = {"gen_ai.operation.name": "chat"}
            by_id[trace, span_id] = span
            spans.append(span)
        span.events.append(event)


def _span(record: _SpanRecord, notes: Notes) -> Span | None:
    """Return the span of a record, not yet interpreted."""
    fields, path = record.fields, record.path
    ids = {**fields, **object_of(first_of(fields, "context", "spanContext", "span_context"))}
    span_id = _id(first_of(ids, *_SPAN_IDS, "context.span_id", "id"))
    if not span_id:
        notes.problem(path, "a span needs an id")
        return None
    trace = _id(first_of(ids, *_TRACE_IDS))
    attributes = _attributes_of_span(record)
    events = enumerate(list_of(first_of(fields, "events", "logs")))
    started_at, ended_at = _times(fields)
    return Span(
        span_id,
        trace,
        path,
        _parent_id(fields, trace) or None,
        string_of(first_of(fields, "name", "operationName")),
        started_at=started_at,
        ended_at=ended_at,
        error=_error_of(fields, attributes),
        attributes=attributes,
        events=[_event(entry, f"{path}.events[{index}]", "name") for index, entry in events],
    )


def _attributes_of_span(record: _SpanRecord) -> dict[str, Any]:
    """Return the attributes of a span, and those that exporters take out of them."""
    fields = record.fields
    columns = {key.removeprefix("attributes."): fields[key] for key in fields if key.startswith("attributes.")}
    return {
        **record.inherited,
        **attributes_beside(fields),
        **_attributes(first_of(fields, "attributes", "tags")),
        # A data frame has a column for each attribute, also where a span has no value.
        **drop_none(dict(flat(columns))),
    }


def _parent_id(fields: Fields, trace: str) -> str:
    """Return the id of the parent span; empty for a root."""
    parent = object_of(first_of(fields, "parent", "parentSpanContext", "parent_span_context"))
    parent_id = first_of(parent, *_SPAN_IDS) or first_of(fields, *_PARENT_IDS)
    return _id(parent_id) if parent_id else _jaeger_parent_id(fields, trace)


def _jaeger_parent_id(fields: Fields, trace: str) -> str:
    for reference in map(object_of, list_of(fields.get("references"))):
        if reference.get("refType") == "CHILD_OF" and _id(reference.get("traceID")) in ("", trace):
            return _id(reference.get("spanID"))
    return ""


def _times(fields: Fields) -> tuple[datetime | None, datetime | None]:
    """Return the start and the end of a span."""
    if "operationName" in fields:  # Jaeger counts microseconds, and has a duration in the place of an end
        start, duration = fields.get("startTime"), fields.get("duration")
        end = start + duration if isinstance(start, int) and isinstance(duration, int) else None
        return time_of(start, unit="us"), time_of(end, unit="us")
    started_at = _time(fields, "start_time", "startTime")
    if started_at is None:  # the console exporter of the SDK for JavaScript
        started_at = time_of(fields.get("timestamp"), unit="us")
    return started_at, _time(fields, "end_time", "endTime")


def _time(fields: Fields, snake: str, camel: str) -> datetime | None:
    nanoseconds = first_of(fields, f"{camel}UnixNano", f"{snake}_unix_nano")
    if nanoseconds is not None:
        return time_of(nanoseconds)
    return time_of(first_of(fields, snake, camel), unit=None)  # the name does not say the unit


def _error_of(fields: Fields, attributes: Fields) -> str | None:
    """Return why a span failed; `None` where its status is not an error."""
    status = object_of(fields.get("status"))
    code = first_of(status, "code", "status_code") or first_of(fields, "status_code", "statusCode")
    code = code or text_of(fields.get("status")) or attributes.get("otel.status_code")
    if attributes.get("error") is not True and str(code) not in _FAILED:
        return None
    message = first_of(status, "message", "description") or first_of(fields, "status_message", "statusMessage")
    return first_text(message, attributes.get("otel.status_description"), "failed")


def _event(value: object, path: str, *name_keys: str) -> SpanEvent:
    """Return an event of a span, or a log record; Jaeger names events in their fields."""
    fields = object_of(value)
    attributes = _attributes(first_of(fields, "attributes", "fields"))
    name = string_of(first_of(fields, *name_keys) or first_of(attributes, "event.name", "event"))
    return SpanEvent(name, attributes, _value(fields.get("body")), path)


def _attributes(value: object) -> dict[str, Any]:
    """Return attributes by their dotted names, given OTLP's list of keys and values, or an object, nested or not."""
    if isinstance(value, Mapping):
        return dict(flat(value))
    attributes: dict[str, Any] = {}
    for fields in map(object_of, list_of(value)):
        if isinstance(fields.get("key"), str):
            attributes[fields["key"]] = _value(fields.get("value"))
    return attributes


def _value(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return the plain value of an `AnyValue` of OTLP, such as 3 of `{"intValue": "3"}`; any other value as it is."""
    fields = as_object(value)
    if fields is None:
        return value
    # From snake_case to camelCase, string_value to stringValue: each known key has only this one underscore.
    kinds = {key.replace("_v", "V"): inner for key, inner in fields.items()}
    present = drop_none(kinds)
    # Phoenix writes all kinds as keys, with null for all but one.
    is_any_value = kinds.keys() <= _VALUES and len(present) <= 1
    if not is_any_value:
        return dict(fields)
    kind, inner = next(iter(present.items()), ("", None))
    return _VALUE_READERS[kind](inner) if kind in _VALUE_READERS else inner


_VALUE_READERS: dict[str, Callable[[object], object]] = {
    "intValue": integer_of,  # Protobuf's JSON mapping writes 64-bit integers as text
    "arrayValue": lambda value: list(map(_value, list_of(object_of(value).get("values")))),
    "kvlistValue": lambda value: _attributes(object_of(value).get("values")),
}
"""Readers of those values of an `AnyValue` that are not plain."""


def _id(value: object) -> str:
    """Return an id as lower-case hexadecimal digits where it is one in any form, else as its text; empty for none."""
    if value is None or isinstance(value, bool):
        return ""
    text = str(value)
    if isinstance(value, int):
        text = f"{value:x}".zfill(16 if value < 1 << 64 else 32)
    elif len(text) in (12, 24) and text.endswith("="):  # base64, as Protobuf's JSON writes it
        with suppress(ValueError):
            text = base64.b64decode(text, validate=True).hex()
    if not _HEX.match(text):
        return text
    text = text.removeprefix("0x").lower()
    return text if text.strip("0") else ""  # an id of zeros means that there is none
