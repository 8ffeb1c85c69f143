"""Emission of records through an OpenTelemetry provider; only the API of OpenTelemetry is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.text import plural
from toolgrade.errors import ConfigurationError, NotSentError
from toolgrade.report.export.evaluation_records import EVENT_NAME, SCOPE, WARN, Record

_AT_ONCE = 100
"""Records between two flushes of the provider, which drops records while its queue is full."""

_NOBODY = (
    "nothing would be sent: no OpenTelemetry SDK is configured to send {kind}, or it is turned off. Install "
    "opentelemetry-sdk and an exporter, and pass provider= or set the global one (see docs/traces.md)"
)
_REMEDIES = {
    "event": "which is set to drop such records",
    "span": "whose sampler drops traces: pass one that samples all, provider=TracerProvider(sampler=ALWAYS_ON)",
}


def emit_as_events(records: Sequence[Record], moment: int, provider: Any) -> int:  # noqa: ANN401 - any class may be one
    """Emit events through a logger provider, the global one by default; see `toolgrade.report.otel.emit_events`."""
    logs, trace, empty = _api("_logs"), _api("trace"), _api("context").Context()
    if provider is None:
        provider = logs.get_logger_provider()
    logger = _instrument(provider, "get_logger", "opentelemetry._logs.LoggerProvider", "logs")
    # Newer loggers know whether anything processes their records.
    is_enabled: Callable[..., bool] = getattr(logger, "enabled", _always)
    if not is_enabled(event_name=EVENT_NAME):
        raise ConfigurationError(_NOBODY.format(kind="logs"))

    def emit(record: Record) -> bool:
        number, text = WARN
        severity = {} if record.is_scored else {"severity_number": logs.SeverityNumber(number), "severity_text": text}
        # The context of the recorded span, without the span that is current here.
        context = trace.set_span_in_context(trace.NonRecordingSpan(_span_context(record)), empty)
        if not is_enabled(context=context, severity_number=severity.get("severity_number"), event_name=EVENT_NAME):
            return False
        log_record = logs.LogRecord(
            timestamp=moment,
            observed_timestamp=moment,
            context=context,
            attributes=record.event_attributes(),
            event_name=EVENT_NAME,
            **severity,
        )
        logger.emit(log_record)
        return True

    return _emit_all(records, emit, provider, "event")


def _always(**_: object) -> bool:
    return True


def emit_as_spans(records: Sequence[Record], moment: int, provider: Any) -> int:  # noqa: ANN401 - any class may be one
    """Emit spans through a tracer provider, the global one by default; see `toolgrade.report.otel.emit_spans`."""
    trace, empty = _api("trace"), _api("context").Context()
    if provider is None:
        provider = trace.get_tracer_provider()
    tracer = _instrument(provider, "get_tracer", "opentelemetry.trace.TracerProvider", "spans")

    def emit(record: Record) -> bool:
        span = tracer.start_span(
            record.span_name,
            context=empty,  # the span that is current here is not the one that was scored
            attributes=record.span_attributes(),
            links=[trace.Link(_span_context(record))],
            start_time=moment,
        )
        span.end(end_time=moment)
        return bool(span.get_span_context().trace_flags.sampled)

    return _emit_all(records, emit, provider, "span")


def _instrument(provider: Any, method: str, expected: str, kind: str) -> Any:  # noqa: ANN401 - classes of the SDK
    """Return the logger or tracer of a provider; the no-op ones of the API are an error."""
    make = getattr(provider, method, None)
    if not callable(make):
        raise ConfigurationError(f"provider must be an {expected}, got {type(provider).__name__!r}")
    instrument = make(SCOPE)
    # The API alone has no-op classes, so that libraries can be instrumented without an SDK.
    if type(instrument).__module__.startswith(("opentelemetry._logs", "opentelemetry.trace")):
        raise ConfigurationError(_NOBODY.format(kind=kind))
    return instrument


def _emit_all(records: Sequence[Record], emit: Callable[[Record], bool], provider: Any, what: str) -> int:  # noqa: ANN401 - as above
    """Emit records, flush the provider after every hundred, and return their number.

    Raises:
        NotSentError: `emit` returned `False` for some records, or the provider could not send.
    """
    accepted = 0
    for start in range(0, len(records), _AT_ONCE):
        accepted += sum(map(emit, records[start : start + _AT_ONCE]))
        flush = getattr(provider, "force_flush", None)  # a method of SDKs; the API has none
        if callable(flush) and flush() is False:
            raise NotSentError(
                f"the provider was shut down, or its collector is too slow: it did not send what it holds, and all "
                f"{what}s from #{start + 1} on may be lost"
            )
    if accepted < len(records):
        lost = f"{len(records) - accepted} of {plural(len(records), what)}"
        raise NotSentError(f"{lost} were left out by the provider, {_REMEDIES[what]}; the others are sent")
    return accepted


def _span_context(record: Record) -> Any:  # noqa: ANN401 - a class of the API
    """Return the context of the span that a result is about."""
    trace = _api("trace")
    sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)  # the span was exported, so it was sampled
    return trace.SpanContext(int(record.trace, 16), int(record.span, 16), is_remote=True, trace_flags=sampled)


def _api(module: str) -> Any:  # noqa: ANN401 - a module
    return import_extra(f"opentelemetry.{module}", "otel", "emitting scores")
