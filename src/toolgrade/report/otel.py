"""Sending scores through an OpenTelemetry SDK that your program configured; needs `toolgrade[otel]`.

The events and spans are those that `toolgrade.report.feedback` writes to files: the same names, values and times, about
the same spans. Only the API of OpenTelemetry is used. The provider, the global one or your own, decides about
destination, resource and batching; if none is configured, nothing can be sent, which is an error here.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from toolgrade.redact import DEFAULT, Redactor
from toolgrade.report.export.evaluation_records import nanoseconds, records_of
from toolgrade.report.export.otel_emitter import emit_as_events, emit_as_spans
from toolgrade.report.report import Report

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["emit_events", "emit_spans"]


def emit_events(
    report: Report, *, provider: LoggerProvider | None = None, at: datetime | None = None, redactor: Redactor = DEFAULT
) -> int:
    """Emit a report as `gen_ai.evaluation.result` events, each in the context of the span that it is about.

    The events are those of `toolgrade.report.feedback.evaluation_events`. Either all are emitted and the provider is
    flushed, or an error says what was not. Only the SDK knows the answer of the collector, and logs it; use
    `toolgrade feedback --send` to have it checked.

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

    Example:
        >>> from opentelemetry.sdk._logs import LoggerProvider
        >>> from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
        >>> from toolgrade import Run, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.report.otel import emit_events
        >>> weather, provider = ToolCall(name="get_weather"), LoggerProvider()
        >>> provider.add_log_record_processor(SimpleLogRecordProcessor(InMemoryLogRecordExporter()))
        >>> run = Run(run_id="a" * 32, metadata={"span_id": "b" * 16}, calls=[weather])  # as `read_traces` returns it
        >>> report = evaluate([run.to_test_case(expected_tools=[weather])], [ToolCorrectnessMetric()])
        >>> emit_events(report, provider=provider)
        1
    """
    return emit_as_events(records_of(report, redactor, scores_only=False), nanoseconds(at), provider)


def emit_spans(
    report: Report, *, provider: TracerProvider | None = None, at: datetime | None = None, redactor: Redactor = DEFAULT
) -> int:
    """Emit the scores of a report as OpenInference spans, each with one link to the span that it is about.

    The spans are those of `toolgrade.report.feedback.evaluation_spans`, with ids from the provider: each is a trace of
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

    Example:
        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        >>> from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        >>> from toolgrade import Run, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.report.otel import emit_spans
        >>> weather, provider = ToolCall(name="get_weather"), TracerProvider()
        >>> provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
        >>> run = Run(run_id="a" * 32, metadata={"span_id": "b" * 16}, calls=[weather])  # as `read_traces` returns it
        >>> report = evaluate([run.to_test_case(expected_tools=[weather])], [ToolCorrectnessMetric()])
        >>> emit_spans(report, provider=provider)
        1
    """
    return emit_as_spans(records_of(report, redactor), nanoseconds(at), provider)
