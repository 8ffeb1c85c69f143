"""Recorded traces as spans of OpenTelemetry's SDK, and what its exporter of OTLP writes of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import ReadableLogRecord, ReadWriteLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from toolgrade._internal.message_content import first_of
from toolgrade.formats.messages.field_readers import Notes, plain
from toolgrade.formats.traces import otel
from toolgrade.formats.traces.read import trace_format_of
from toolgrade.formats.traces.span_tree import Span
from toolgrade.formats.traces.values import entries_of, time_of
from toolgrade.live.otel import SpanRecorder

EMITTED = Path(__file__).parent / "formats" / "emitted"
SAMPLED = TraceFlags(TraceFlags.SAMPLED)


def documents_of(name: str) -> list[Any]:
    """Return the documents of a file of `formats/emitted`."""
    documents: list[Any] = json.loads((EMITTED / f"{name}.json").read_text(encoding="utf-8"))["documents"]
    return documents


def otel_files() -> list[str]:
    """Return the names of the files that hold spans of OpenTelemetry."""
    names = sorted(path.stem for path in EMITTED.glob("*.json"))
    return [name for name in names if trace_format_of(documents_of(name)) == "otel"]


def sdk_items(documents: Sequence[Any]) -> list[ReadableSpan | ReadWriteLogRecord]:
    """Return the spans and log records of documents as processors of the SDK receive them, in their order."""
    notes = Notes()
    entries = [
        entry for index, document in enumerate(documents) for entry in entries_of(plain(document), f"$[{index}]")
    ]
    items: list[tuple[int, ReadableSpan | ReadWriteLogRecord]] = []
    for record in otel._records(entries, notes):
        span = None if record.is_log else otel._span(record, notes)
        if span is not None:
            items.append((_nanoseconds(span.ended_at), _sdk_span(span)))
        elif record.is_log:
            log = _sdk_log(record)
            items.append((log.log_record.timestamp or 0, log))
    # What has no time of its own was written before its span ended.
    ends = {item.get_span_context().span_id: end - 1 for end, item in items if isinstance(item, ReadableSpan)}
    for index, (at, item) in enumerate(items):
        if not at and isinstance(item, ReadWriteLogRecord):
            item.log_record.timestamp = ends.get(item.log_record.span_id, 0)
            items[index] = item.log_record.timestamp, item
    return [item for _, item in sorted(items, key=lambda entry: entry[0])]


def _sdk_log(record: otel._SpanRecord) -> ReadWriteLogRecord:
    fields = record.fields
    event = otel._event(fields, record.path, "eventName", "event_name")
    ids = [otel._id(first_of(fields, *keys)) for keys in (("traceId", "trace_id"), ("spanId", "span_id"))]
    parent = NonRecordingSpan(_context(*ids))
    at = first_of(fields, "timeUnixNano", "time_unix_nano", "observedTimeUnixNano", "observed_time_unix_nano")
    return ReadWriteLogRecord(
        LogRecord(
            timestamp=_nanoseconds(time_of(at)),
            context=set_span_in_context(parent),
            body=event.body,
            attributes=dict(event.attributes),
            event_name=event.name,
        )
    )


def _sdk_span(span: Span) -> ReadableSpan:
    failed = span.error is not None
    return ReadableSpan(
        span.name,
        _context(span.trace, span.id),
        None if span.parent is None else _context(span.trace, span.parent),
        attributes={key: value for key, value in span.attributes.items() if value is not None},
        events=[Event(event.name, event.attributes, 1) for event in span.events],
        status=Status(StatusCode.ERROR, span.error) if failed else Status(),
        start_time=_nanoseconds(span.started_at),
        end_time=_nanoseconds(span.ended_at),
    )


def _context(trace: str, span: str) -> SpanContext:
    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=SAMPLED)


def _nanoseconds(moment: datetime | None) -> int:
    if moment is None:
        return 0
    passed = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return ((passed.days * 86400 + passed.seconds) * 1_000_000 + passed.microseconds) * 1000


def exported(items: Iterable[ReadableSpan | ReadWriteLogRecord]) -> list[Any]:
    """Return spans and log records as an exporter writes them to a file of OTLP, one by one."""
    documents: list[Any] = []
    for item in items:
        if isinstance(item, ReadableSpan):
            written = MessageToDict(encode_spans([item]))
            documents.append(written["resourceSpans"][0]["scopeSpans"][0]["spans"][0])
        else:
            readable = ReadableLogRecord(item.log_record, Resource({}), item.instrumentation_scope)
            documents.append(MessageToDict(encode_logs([readable])))
    return documents


def replay(items: Sequence[ReadableSpan | ReadWriteLogRecord], recorder: SpanRecorder) -> None:
    """Let a recorder see spans begin and end, and log records, in the order of their times."""
    moments: list[tuple[int, int, int, ReadableSpan | ReadWriteLogRecord]] = []
    for index, item in enumerate(items):
        if isinstance(item, ReadableSpan):
            moments.append((item.start_time or 0, 0, -(item.end_time or 0), item))
            moments.append((item.end_time or 0, 1, index, item))
        else:
            moments.append((item.log_record.timestamp or 0, 1, index, item))
    for _, is_later, _, item in sorted(moments, key=lambda moment: moment[:3]):
        if not isinstance(item, ReadableSpan):
            recorder.on_emit(item)
        elif is_later:
            recorder.on_end(item)
        else:
            recorder.on_start(item)
