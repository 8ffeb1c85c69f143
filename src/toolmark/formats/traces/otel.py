"""Which spans are in this file of OpenTelemetry? OTLP as JSON, Jaeger, Tempo, Phoenix, and what SDKs write themselves.

Spans and log records of one file belong together, whatever line they stand on. Ids are hexadecimal, base64 or numbers;
keys are in camelCase or snake_case; times are counts or texts. What the spans mean is read by `_conventions`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from toolmark._internal.json import short_repr
from toolmark.formats.messages.field_readers import Notes, as_object, first_of, list_of, text_of
from toolmark.formats.traces.semantic_conventions import flat, interpret
from toolmark.formats.traces.span_messages import Event, RawSpan
from toolmark.formats.traces.span_tree import Span
from toolmark.formats.traces.timestamps import time_of, unit_of

_RESOURCES = ("resourceSpans", "resource_spans", "batches", "resourceLogs", "resource_logs")
_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "ilSpans", "scopeLogs", "scope_logs")
_WRAPPERS = ("trace", "traces", "data", "spans")
_HEX = re.compile(r"^(?:0x)?[0-9a-fA-F]+$")
_VALUES = frozenset({"stringValue", "intValue", "boolValue", "doubleValue", "bytesValue", "arrayValue", "kvlistValue"})
_FAILED = frozenset({"2", "STATUS_CODE_ERROR", "ERROR", "error", "StatusCode.ERROR"})
_ID_KEYS = ("context", "spanContext", "span_context", "context.span_id", "parentSpanContext")


def looks_like_spans(value: object) -> bool:
    """Return whether a value is one of the things that `spans_in` reads."""
    if isinstance(value, list):
        return bool(value) and all(looks_like_spans(entry) for entry in value)
    fields = as_object(value)
    if fields is None:
        return False
    if any(isinstance(fields.get(key), list) for key in (*_RESOURCES, *_SCOPES)) or _is_span(fields):
        return True
    inner = next((fields[key] for key in _WRAPPERS if isinstance(fields.get(key), (list, dict))), None)
    if isinstance(inner, list):
        return bool(inner) and all(looks_like_spans(entry) for entry in inner)
    return isinstance(inner, dict) and "observations" not in fields and looks_like_spans(inner)


def spans_in(documents: list[tuple[str, Any]], notes: Notes) -> list[Span]:
    """Return the spans of the documents of a file; what cannot be read is a problem.

    Args:
        documents: Each with its path, which begins the paths of its spans.
        notes: Takes the problems.
    """
    raw: list[RawSpan] = []
    logs: list[tuple[str, str, Event, object]] = []
    for path, value in documents:
        for place, kind, entry in _entries(value, path, notes):
            if kind == "span":
                read = _span(entry, place, notes)
                raw += [] if read is None else [read]
            else:
                logs.append(_log(entry, place))
    by_id = {(one.span.trace, one.span.id): one for one in raw}
    for trace, span_id, event, at in logs:
        if not event.name.startswith("gen_ai."):
            continue
        owner = by_id.get((trace, span_id))
        if owner is None:  # logs alone, or ahead of a span that never ended
            span = Span(span_id or event.path, trace, event.path, name=event.name, started_at=time_of(at))
            owner = by_id[trace, span.id] = RawSpan(span, {"gen_ai.operation.name": "chat"})
            raw.append(owner)
        owner.events.append(event)
    return [interpret(one) for one in raw]


def _is_span(fields: Mapping[str, Any]) -> bool:
    if "operationName" in fields and ("spanID" in fields or "traceID" in fields):
        return True
    if "name" not in fields and "eventName" not in fields and "event_name" not in fields:
        return False
    if any(key in fields for key in _ID_KEYS):
        return "attributes" in fields or "context.span_id" in fields or "start_time" in fields or "startTime" in fields
    named = first_of(fields, "spanId", "span_id") is not None
    timed = ("startTimeUnixNano", "start_time_unix_nano", "start_time", "attributes", "timestamp")
    return named and any(key in fields for key in timed)


def _entries(value: object, path: str, notes: Notes) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the spans and log records in a value, each with its path and its kind, in their order."""
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _entries(entry, f"{path}[{index}]", notes)
        return
    fields = as_object(value)
    if fields is None:
        notes.problem(path, f"expected a span, or an object that holds spans, got {short_repr(value)}")
        return
    held = [key for key in (*_RESOURCES, *_SCOPES, "logRecords", "log_records") if isinstance(fields.get(key), list)]
    for key in held:
        for index, entry in enumerate(list_of(fields[key])):
            place = f"{path}.{key}[{index}]"
            if key in ("logRecords", "log_records"):
                yield place, "log", as_object(entry) or {}
            else:
                yield from _entries(entry, place, notes)
    if _is_span(fields) and not held:
        yield path, "span", fields
        return
    inner = next((key for key in ("spans", *_WRAPPERS) if isinstance(fields.get(key), (list, dict))), None)
    if inner is not None:
        session = _session_beside(fields)
        for place, kind, entry in _entries(fields[inner], f"{path}.{inner}", notes):
            yield place, kind, entry if session is None else {**entry, "attributes.mlflow.trace.session": session}
    elif not held and (fields.keys() - {"resource", "scope", "schemaUrl", "schema_url"}):
        notes.problem(path, f"expected a span (an object with a name and ids), got {short_repr(dict(fields))}")


def _session_beside(fields: Mapping[str, Any]) -> str | None:
    """Return the session that MLflow tells of a trace, beside its spans."""
    info = as_object(fields.get("info")) or {}
    told = as_object(first_of(info, "trace_metadata", "request_metadata")) or {}
    return text_of(told.get("mlflow.trace.session"))


def _span(fields: Mapping[str, Any], path: str, notes: Notes) -> RawSpan | None:
    context = as_object(first_of(fields, "context", "spanContext", "span_context")) or {}
    parent = as_object(first_of(fields, "parent", "parentSpanContext", "parent_span_context")) or {}
    ids = ("spanId", "span_id", "spanID")
    span_id = _id(first_of(context, *ids) or first_of(fields, *ids, "context.span_id", "id"))
    trace = _id(
        first_of(context, "traceId", "trace_id")
        or first_of(fields, "traceId", "trace_id", "traceID", "context.trace_id")
    )
    if span_id is None:
        notes.problem(path, "a span needs its id")
        return None
    outer = first_of(parent, *ids) or first_of(fields, "parentSpanId", "parent_span_id", "parentId", "parent_id")
    outer = outer or _child_of(fields.get("references"), trace)
    attributes = _attributes(first_of(fields, "attributes", "tags"))
    columns = {key.removeprefix("attributes."): fields[key] for key in fields if key.startswith("attributes.")}
    attributes |= {key: value for key, value in flat(columns) if value is not None}
    kind = fields.get("span_kind")
    if isinstance(kind, str) and "openinference.span.kind" not in attributes:
        attributes["openinference.span.kind"] = kind
    name = str(first_of(fields, "name", "operationName") or "")
    span = Span(span_id, trace or "", path, _id(outer), name)
    _read_times(fields, span)
    span.error = _error(fields, attributes)
    return RawSpan(span, attributes, list(_events(first_of(fields, "events", "logs"), path)))


def _child_of(references: object, trace: str | None) -> object:
    """Return the id of the span around it, as Jaeger has it."""
    for entry in references if isinstance(references, list) else ():
        fields = as_object(entry) or {}
        if fields.get("refType") == "CHILD_OF" and _id(fields.get("traceID")) in (None, trace):
            return fields.get("spanID")
    return None


def _read_times(fields: Mapping[str, Any], span: Span) -> None:
    if "operationName" in fields:
        start, duration = fields.get("startTime"), fields.get("duration")
        span.started_at = time_of(start, unit="us")
        if isinstance(start, int) and isinstance(duration, int):
            span.ended_at = time_of(start + duration, unit="us")
        return
    span.started_at = _time(fields, ("startTimeUnixNano", "start_time_unix_nano"), ("start_time", "startTime"))
    span.ended_at = _time(fields, ("endTimeUnixNano", "end_time_unix_nano"), ("end_time", "endTime"))
    if span.started_at is None:  # the exporter of the SDK for JavaScript that writes to the console
        span.started_at = time_of(fields.get("timestamp"), unit="us")


def _time(fields: Mapping[str, Any], nanoseconds: tuple[str, ...], any_unit: tuple[str, ...]) -> datetime | None:
    """Return a time under one of these keys; the second do not say what they count, so that its size tells it."""
    known, other = first_of(fields, *nanoseconds), first_of(fields, *any_unit)
    return time_of(known) if known is not None else time_of(other, unit=unit_of(other))


def _error(fields: Mapping[str, Any], attributes: Mapping[str, Any]) -> str | None:
    """Return why a span failed; `None` where its status does not say so."""
    given = fields.get("status")
    status = as_object(given) or {}
    code = first_of(status, "code", "status_code") or first_of(fields, "status_code", "statusCode")
    code = code or (given if isinstance(given, str) else None) or attributes.get("otel.status_code")
    if str(code) not in _FAILED and attributes.get("error") is not True:
        return None
    told = first_of(status, "message", "description") or first_of(fields, "status_message", "statusMessage")
    return text_of(told) or text_of(attributes.get("otel.status_description")) or "failed"


def _events(value: object, path: str) -> Iterator[Event]:
    for index, entry in enumerate(value if isinstance(value, list) else ()):
        fields = as_object(entry) or {}
        attributes = _attributes(first_of(fields, "attributes", "fields"))
        name = fields.get("name") or attributes.get("event.name") or attributes.get("event") or ""
        yield Event(str(name), attributes, None, f"{path}.events[{index}]")


def _log(fields: Mapping[str, Any], path: str) -> tuple[str, str, Event, object]:
    attributes = _attributes(fields.get("attributes"))
    name = first_of(fields, "eventName", "event_name") or attributes.get("event.name") or ""
    body = _value(fields.get("body"))
    trace, span = _id(first_of(fields, "traceId", "trace_id")), _id(first_of(fields, "spanId", "span_id"))
    at = first_of(fields, "timeUnixNano", "time_unix_nano", "observedTimeUnixNano", "observed_time_unix_nano")
    return trace or "", span or "", Event(str(name), attributes, body, path), at


def _attributes(value: object) -> dict[str, Any]:
    """Return attributes under their dotted names: a list of keys and values, or an object, also a nested one."""
    if isinstance(value, list):
        pairs: dict[str, Any] = {}
        for entry in value:
            fields = as_object(entry) or {}
            key = fields.get("key")
            if isinstance(key, str):
                pairs[key] = _value(fields.get("value"))
        return pairs
    return dict(flat(value)) if isinstance(value, Mapping) else {}


def _value(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return the plain value of an `AnyValue` of OTLP; any other value as it is."""
    fields = as_object(value)
    if fields is None:
        return value
    named = {_camel(key): fields[key] for key in fields}
    if not named.keys() <= _VALUES:
        return dict(fields)
    held = [key for key in named if named[key] is not None]  # Phoenix names every kind, all but one of them null
    if len(held) != 1:
        return dict(fields) if held else None
    kind, inner = held[0], named[held[0]]
    if kind == "intValue":
        return int(inner) if isinstance(inner, str) and inner.lstrip("-").isdigit() else inner
    if kind == "arrayValue":
        return [_value(entry) for entry in list_of((as_object(inner) or {}).get("values"))]
    if kind == "kvlistValue":
        return _attributes(list_of((as_object(inner) or {}).get("values")))
    return inner


def _camel(key: str) -> str:
    head, *rest = key.split("_")
    return head + "".join(part.title() for part in rest)


def _id(value: object) -> str | None:
    """Return an id as lower-case hexadecimal digits where it is one in any form, else as its text."""
    if value is None or value == "" or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return f"{value:x}".zfill(16 if value < 1 << 64 else 32) if value else None
    text = str(value)
    if _HEX.match(text):
        text = text.removeprefix("0x").lower()
        return text if text.strip("0") else None
    if len(text) in (12, 24) and text.endswith("="):
        try:
            return base64.b64decode(text, validate=True).hex()
        except (binascii.Error, ValueError):
            return text
    return text
