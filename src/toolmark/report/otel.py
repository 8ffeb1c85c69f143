"""How do scores get to a collector? Through an OpenTelemetry SDK that somebody else configured; needs `toolmark[otel]`.

What is sent are the events and spans that `toolmark.report.feedback` writes to files, with the same names, values and
times, about the same spans. Of OpenTelemetry only the API is used. Where things go, which resource they are of and
when they leave is up to the provider, the global one or one's own; nothing is sent where none is configured, which is
an error here.
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

Record = TypeVar("Record", EvaluationEvent, EvaluationSpan)

_AT_ONCE = 100
"""Records after which the provider sends what it holds, since one whose queue is full drops what comes next."""


def emit_events(
    report: Report,
    *,
    provider: LoggerProvider | None = None,
    at: datetime | None = None,
    redactor: Redactor = DEFAULT,
) -> int:
    """Emit a report as `gen_ai.evaluation.result` events, each in the context of the span that it is about.

    The events are those of `toolmark.report.feedback.evaluation_events`. Either all are emitted, and the provider was
    asked to send them, or an error says what was not. What the collector then says only the SDK knows, which tells its
    log; `toolmark feedback --send` asks for it.

    Args:
        report: Its cases were read from traces of OpenTelemetry.
        provider: What makes the logger; the global one, by default.
        at: When the events happened; now, by default.
        redactor: Takes secrets out of reasons and errors.

    Returns:
        How many events were emitted: one for each result that was not skipped.

    Raises:
        MissingPackageError: opentelemetry-api is not installed.
        ConfigurationError: The provider sends nothing, as none is configured, or it is turned off.
        InvalidDataError: A case names no trace, or one whose ids are none of OpenTelemetry; nothing was emitted.
        NotSentError: The provider turned some events away, or could not send them in time.
    """
    logs = import_extra("opentelemetry._logs", "otel", "emitting events")
    return sent_events(events_of(report, at, redactor), logs.get_logger_provider() if provider is None else provider)


def emit_spans(
    report: Report,
    *,
    provider: TracerProvider | None = None,
    at: datetime | None = None,
    redactor: Redactor = DEFAULT,
) -> int:
    """Emit the scores of a report as spans of OpenInference, each with one link to the span that it is about.

    The spans are those of `toolmark.report.feedback.evaluation_spans`, with ids that the provider makes: each is a
    trace of its own, wherever this is called, and emitting again adds to what is there.

    Args:
        report: Its cases were read from traces of OpenTelemetry.
        provider: What makes the tracer; the global one, by default.
        at: When the spans began and ended; now, by default.
        redactor: Takes secrets out of reasons.

    Returns:
        How many spans were emitted: one for each score.

    Raises:
        MissingPackageError: opentelemetry-api is not installed.
        ConfigurationError: The provider sends nothing, as none is configured, or it is turned off.
        InvalidDataError: A case names no trace, or one whose ids are none of OpenTelemetry; nothing was emitted.
        NotSentError: The sampler of the provider left out some spans, or it could not send them in time.
    """
    trace = import_extra("opentelemetry.trace", "otel", "emitting spans")
    return sent_spans(spans_of(report, at, redactor), trace.get_tracer_provider() if provider is None else provider)


def sent_events(events: Sequence[EvaluationEvent], provider: Any) -> int:  # noqa: ANN401 - any class may be one
    """Emit these events by a provider of loggers, and return how many they are; errors are those of `emit_events`."""
    logs = import_extra("opentelemetry._logs", "otel", "emitting events")
    logger = _made(provider, "get_logger", "opentelemetry._logs.LoggerProvider")
    # Newer loggers know whether anybody takes what they emit.
    is_enabled: Callable[..., bool] = getattr(logger, "enabled", _always)
    if not is_enabled(event_name=EVENT_NAME):
        raise ConfigurationError(_NOBODY.format(kind="logs"))

    def emit(event: EvaluationEvent) -> bool:
        number, text = WARN
        severity = {"severity_number": logs.SeverityNumber(number), "severity_text": text} if event.warns else {}
        context = _context(event.trace, event.span)
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
    """Emit these spans by a provider of tracers, and return how many they are; errors are those of `emit_spans`."""
    trace = import_extra("opentelemetry.trace", "otel", "emitting spans")
    empty = import_extra("opentelemetry.context", "otel", "emitting spans").Context()
    tracer = _made(provider, "get_tracer", "opentelemetry.trace.TracerProvider")

    def emit(span: EvaluationSpan) -> bool:
        made = tracer.start_span(
            span.name,
            context=empty,  # whatever is under way here is not what they are about
            attributes=dict(span.attributes),
            links=[trace.Link(_span_context(*span.target))],
            start_time=span.moment,
        )
        made.end(end_time=span.moment)
        return bool(made.get_span_context().trace_flags.sampled)

    return _all_sent(spans, emit, provider, "span")


def _always(**_: object) -> bool:
    return True


_NOBODY = (
    "nothing would be sent: no OpenTelemetry SDK is configured to send {kind}, or it is turned off. Install "
    "opentelemetry-sdk and an exporter, and give provider= or set the global one (docs/traces.md shows how)"
)


def _made(provider: Any, method: str, wanted: str) -> Any:  # noqa: ANN401 - whatever class the SDK has
    """Return the logger or tracer of a provider, which sends something."""
    make = getattr(provider, method, None)
    if not callable(make):
        raise ConfigurationError(f"provider must be an {wanted}, got {type(provider).__name__!r}")
    made = make(SCOPE)
    # What the API brings itself does nothing, so that libraries may be instrumented where no SDK is.
    if type(made).__module__.startswith(("opentelemetry._logs", "opentelemetry.trace")):
        raise ConfigurationError(_NOBODY.format(kind="logs" if method == "get_logger" else "spans"))
    return made


def _all_sent(records: Sequence[Record], emit: Callable[[Record], bool], provider: Any, what: str) -> int:  # noqa: ANN401 - as above
    """Emit records, have them sent, and return how many they are.

    Raises:
        NotSentError: `emit` says of some that they were not taken, or the provider could not send.
    """
    taken = 0
    for start in range(0, len(records), _AT_ONCE):
        taken += sum([emit(record) for record in records[start : start + _AT_ONCE]])
        flush = getattr(provider, "force_flush", None)  # of SDKs; the API has none
        if callable(flush) and flush() is False:
            raise NotSentError(
                f"the provider was shut down, or its collector is too slow: it did not send what it holds, and all "
                f"{what}s from #{start + 1} on may be lost"
            )
    if taken < len(records):
        lost = f"{len(records) - taken} of {plural(len(records), what)}"
        raise NotSentError(f"{lost} were left out by the provider, {_REMEDIES[what]}; the others are sent")
    return taken


_REMEDIES = {
    "event": "which is set to drop such records",
    "span": "whose sampler drops traces: give one that samples all, provider=TracerProvider(sampler=ALWAYS_ON)",
}


def _context(trace_id: str, span_id: str) -> Any:  # noqa: ANN401 - a context of OpenTelemetry
    """Return the context of a span that was recorded elsewhere, and nothing of the one under way here."""
    trace = import_extra("opentelemetry.trace", "otel", "emitting events")
    empty = import_extra("opentelemetry.context", "otel", "emitting events").Context()
    return trace.set_span_in_context(trace.NonRecordingSpan(_span_context(trace_id, span_id)), empty)


def _span_context(trace_id: str, span_id: str) -> Any:  # noqa: ANN401 - as above
    trace = import_extra("opentelemetry.trace", "otel", "emitting")
    sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)  # somebody exported it
    return trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=sampled)
