"""Sending scores through an OpenTelemetry SDK that your program configured; needs `toolmark[otel]`.

The events and spans are those that `toolmark.report.feedback` writes to files: the same names, values and times, about
the same spans. Only the API of OpenTelemetry is used. The provider, the global one or your own, decides about
destination, resource and batching; if none is configured, nothing can be sent, which is an error here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from toolmark._internal.lazy_imports import import_extra
from toolmark._internal.text import plural
from toolmark.errors import ConfigurationError, NotSentError
from toolmark.redact import DEFAULT, Redactor
from toolmark.report.export.evaluation_records import (
    EVENT_NAME,
    SCOPE,
    WARN,
    EvaluationEvent,
    EvaluationSpan,
    events_of,
    spans_of,
)
from toolmark.report.report import Report

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["emit_events", "emit_spans"]

Record = TypeVar("Record", EvaluationEvent, EvaluationSpan)

_AT_ONCE = 100
"""Records between two flushes of the provider, which drops records while its queue is full."""


def emit_events(
    report: Report, *, provider: LoggerProvider | None = None, at: datetime | None = None, redactor: Redactor = DEFAULT
) -> int:
    """Emit a report as `gen_ai.evaluation.result` events, each in the context of the span that it is about.

    The events are those of `toolmark.report.feedback.evaluation_events`. Either all are emitted and the provider is
    flushed, or an error says what was not. Only the SDK knows the answer of the collector, and logs it; use
    `toolmark feedback --send` to have it checked.

    Args:
        report: A report of cases that were read from OpenTelemetry traces.
        provider: The logger provider; the global one by default.
        at: Time of the events; now by default.
        redactor: Redacts reasons and errors.

    Returns:
        The number of events: one for each result that was not skipped.

    Raises:
        MissingPackageError: opentelemetry-api is not installed.
        ConfigurationError: The provider sends nothing, because none is configured or it is turned off.
        InvalidDataError: A case names no trace, or one whose ids are not OpenTelemetry ids; nothing was emitted.
        NotSentError: The provider rejected some events, or could not send them in time.
    """
    return sent_events(events_of(report, at, redactor), provider)


def emit_spans(
    report: Report, *, provider: TracerProvider | None = None, at: datetime | None = None, redactor: Redactor = DEFAULT
) -> int:
    """Emit the scores of a report as OpenInference spans, each with one link to the span that it is about.

    The spans are those of `toolmark.report.feedback.evaluation_spans`, with ids from the provider: each is a trace of
    its own, wherever this is called, and emitting again adds spans.

    Args:
        report: A report of cases that were read from OpenTelemetry traces.
        provider: The tracer provider; the global one by default.
        at: Start and end of the spans; now by default.
        redactor: Redacts reasons.

    Returns:
        The number of spans: one for each score.

    Raises:
        MissingPackageError: opentelemetry-api is not installed.
        ConfigurationError: The provider sends nothing, because none is configured or it is turned off.
        InvalidDataError: A case names no trace, or one whose ids are not OpenTelemetry ids; nothing was emitted.
        NotSentError: The sampler of the provider dropped some spans, or it could not send them in time.
    """
    return sent_spans(spans_of(report, at, redactor), provider)


def sent_events(events: Sequence[EvaluationEvent], provider: Any) -> int:  # noqa: ANN401 - any class may be one
    """Emit events through a logger provider, the global one by default; result and errors as in `emit_events`."""
    logs, trace, empty = _api("_logs"), _api("trace"), _api("context").Context()
    if provider is None:
        provider = logs.get_logger_provider()
    logger = _instrument(provider, "get_logger", "opentelemetry._logs.LoggerProvider")
    # Newer loggers know whether anything processes their records.
    is_enabled: Callable[..., bool] = getattr(logger, "enabled", _always)
    if not is_enabled(event_name=EVENT_NAME):
        raise ConfigurationError(_NOBODY.format(kind="logs"))

    def emit(event: EvaluationEvent) -> bool:
        number, text = WARN
        severity = {"severity_number": logs.SeverityNumber(number), "severity_text": text} if event.warns else {}
        # The context of the recorded span, without the span that is current here.
        context = trace.set_span_in_context(trace.NonRecordingSpan(_span_context(event.trace, event.span)), empty)
        if not is_enabled(context=context, severity_number=severity.get("severity_number"), event_name=EVENT_NAME):
            return False
        record = logs.LogRecord(
            timestamp=event.moment,
            observed_timestamp=event.moment,
            context=context,
            attributes=dict(event.attributes),
            event_name=EVENT_NAME,
            **severity,
        )
        logger.emit(record)
        return True

    return _all_sent(events, emit, provider, "event")


def sent_spans(spans: Sequence[EvaluationSpan], provider: Any) -> int:  # noqa: ANN401 - any class may be one
    """Emit spans through a tracer provider, the global one by default; result and errors as in `emit_spans`."""
    trace, empty = _api("trace"), _api("context").Context()
    if provider is None:
        provider = trace.get_tracer_provider()
    tracer = _instrument(provider, "get_tracer", "opentelemetry.trace.TracerProvider")

    def emit(span: EvaluationSpan) -> bool:
        sent = tracer.start_span(
            span.name,
            context=empty,  # the span that is current here is not the one that was scored
            attributes=dict(span.attributes),
            links=[trace.Link(_span_context(*span.target))],
            start_time=span.moment,
        )
        sent.end(end_time=span.moment)
        return bool(sent.get_span_context().trace_flags.sampled)

    return _all_sent(spans, emit, provider, "span")


def _always(**_: object) -> bool:
    return True


_NOBODY = (
    "nothing would be sent: no OpenTelemetry SDK is configured to send {kind}, or it is turned off. Install "
    "opentelemetry-sdk and an exporter, and pass provider= or set the global one (see docs/traces.md)"
)


def _instrument(provider: Any, method: str, expected: str) -> Any:  # noqa: ANN401 - a class of the SDK
    """Return the logger or tracer of a provider; the no-op ones of the API are an error."""
    make = getattr(provider, method, None)
    if not callable(make):
        raise ConfigurationError(f"provider must be an {expected}, got {type(provider).__name__!r}")
    instrument = make(SCOPE)
    # The API alone has no-op classes, so that libraries can be instrumented without an SDK.
    if type(instrument).__module__.startswith(("opentelemetry._logs", "opentelemetry.trace")):
        raise ConfigurationError(_NOBODY.format(kind="logs" if method == "get_logger" else "spans"))
    return instrument


def _all_sent(records: Sequence[Record], emit: Callable[[Record], bool], provider: Any, what: str) -> int:  # noqa: ANN401 - as above
    """Emit records, flush the provider after every hundred, and return their number.

    Raises:
        NotSentError: `emit` returned `False` for some records, or the provider could not send.
    """
    accepted = 0
    for start in range(0, len(records), _AT_ONCE):
        accepted += sum([emit(record) for record in records[start : start + _AT_ONCE]])
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


_REMEDIES = {
    "event": "which is set to drop such records",
    "span": "whose sampler drops traces: pass one that samples all, provider=TracerProvider(sampler=ALWAYS_ON)",
}


def _span_context(trace_id: str, span_id: str) -> Any:  # noqa: ANN401 - as above
    trace = _api("trace")
    sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)  # the span was exported, so it was sampled
    return trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=sampled)


def _api(module: str) -> Any:  # noqa: ANN401 - a module
    return import_extra(f"opentelemetry.{module}", "otel", "emitting scores")
