"""Scores that leave through the user's own OpenTelemetry SDK: what its exporters are given is what files say."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from processes import run_python
from toolgrade import InvalidDataError, LLMTestCase, ToolCall, ToolCorrectnessMetric, ToolEfficiencyMetric, evaluate
from toolgrade.errors import ConfigurationError, NotSentError
from toolgrade.formats import read_traces
from toolgrade.redact import DEFAULT, REDACTED, Redactor
from toolgrade.report import Report
from toolgrade.report.feedback import evaluation_events, evaluation_spans
from toolgrade.report.otel import emit_events, emit_spans
from toolgrade.result import MetricResult, ResultStatus
from tracing import Script, ScriptedCall, Step, otlp

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed here")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the exporter of OTLP is not installed here")

from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export as logs_export
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased
from opentelemetry.trace import NoOpTracerProvider, SpanKind

from collectors import collecting, records_in

AT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
NANOSECONDS = 1767323045000006000
SCRIPT = Script("Go.", [Step("boss", [ScriptedCall("add", "c1", {"token": "s3cr3t"}, "3")]), Step("boss", [], "Done.")])
ROOT_SPAN = 1

#: The name was another one before 1.39.
InMemoryLogs = getattr(logs_export, "InMemoryLogRecordExporter", None) or logs_export.InMemoryLogExporter


def report(*, copies: int = 1) -> Report:
    """A report of two scores of a case that was read from a trace, and one result that could not be measured."""
    (run,) = read_traces(otlp(SCRIPT)).runs
    case = run.to_test_case(expected_tools=[ToolCall(name="add", input_parameters={"token": "other"})])
    metrics = [ToolCorrectnessMetric(evaluation_params=["input_parameters"]), ToolEfficiencyMetric(max_seconds=1)]
    return evaluate([*[case] * copies, run.to_test_case()], metrics[: 2 if copies == 1 else 1])


def logging_to(exporter: Any) -> LoggerProvider:
    """Return a provider that exports each record immediately."""
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(logs_export.SimpleLogRecordProcessor(exporter))
    return provider


def tracing_to(exporter: Any, **options: Any) -> TracerProvider:
    """Return a provider that exports each span immediately."""
    provider = TracerProvider(shutdown_on_exit=False, **options)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    """Attributes of OTLP as an object."""
    return {pair["key"]: next(iter(pair["value"].values())) for pair in attributes}


def test_events_are_those_of_the_file() -> None:
    """The same attributes, severities and times, in the trace and on the span."""
    memory = InMemoryLogs()
    source = report()

    emitted = emit_events(source, provider=logging_to(memory), at=AT)

    written = evaluation_events(source, at=AT)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    records = [data.log_record for data in memory.get_finished_logs()]
    assert emitted == len(records) == len(written) == 4
    for record, file in zip(records, written, strict=True):
        assert dict(record.attributes) == plain(file["attributes"])
        assert (f"{record.trace_id:032x}", f"{record.span_id:016x}") == (file["traceId"], file["spanId"])
        assert record.timestamp == record.observed_timestamp == int(file["timeUnixNano"]) == NANOSECONDS
        assert (record.event_name, record.body) == (file["eventName"], None)
        number = record.severity_number and record.severity_number.value
        assert (number, record.severity_text) == (file.get("severityNumber"), file.get("severityText"))
        assert record.trace_flags.sampled
    assert [record.severity_text for record in records] == [None, None, "WARN", None]
    assert {data.instrumentation_scope.name for data in memory.get_finished_logs()} == {"toolgrade"}


def test_spans_are_those_of_the_file() -> None:
    """The same names, attributes, times and links; each is a root span."""
    memory = InMemorySpanExporter()
    provider = tracing_to(memory)
    source = report()

    with provider.get_tracer("app").start_as_current_span("under way") as around:
        emitted = emit_spans(source, provider=provider, at=AT)

    written = evaluation_spans(source, at=AT)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    *spans, _ = memory.get_finished_spans()
    assert emitted == len(spans) == len(written) == 3
    for span, file in zip(spans, written, strict=True):
        (link,) = span.links
        assert (span.name, span.kind) == (file["name"], SpanKind.INTERNAL)
        assert dict(span.attributes) == plain(file["attributes"])
        assert span.start_time == span.end_time == int(file["startTimeUnixNano"]) == NANOSECONDS
        assert span.parent is None
        assert span.context.trace_id != around.get_span_context().trace_id
        assert [
            {"traceId": f"{link.context.trace_id:032x}", "spanId": f"{link.context.span_id:016x}"},
        ] == file["links"]
        assert link.context.trace_flags.sampled
        assert link.context.is_remote
    assert len({span.context.trace_id for span in spans}) == 3


def test_a_collector_gets_them_through_batches() -> None:
    """When the call returns they have arrived, also where a provider gathers records for a minute."""
    source = report()
    with collecting() as collector:
        logs, traces = LoggerProvider(shutdown_on_exit=False), TracerProvider(shutdown_on_exit=False)
        exporter = OTLPLogExporter(endpoint=f"{collector.address}/v1/logs")
        logs.add_log_record_processor(logs_export.BatchLogRecordProcessor(exporter, schedule_delay_millis=60_000))
        traces.add_span_processor(
            BatchSpanProcessor(
                OTLPSpanExporter(endpoint=f"{collector.address}/v1/traces"), schedule_delay_millis=60_000
            )
        )

        emit_events(source, provider=logs, at=AT)
        events = collector.accepted
        emit_spans(source, provider=traces, at=AT)
        spans = collector.accepted[len(events) :]
        logs.shutdown()
        traces.shutdown()

    assert events == records_in(evaluation_events(source, at=AT))
    own = {"traceId", "spanId"}
    assert [{key: item for key, item in span.items() if key not in own} for span in spans] == [
        {key: item for key, item in span.items() if key not in own}
        for span in records_in(evaluation_spans(source, at=AT))
    ]


def test_a_full_queue_loses_nothing() -> None:
    """With more records than the queue holds, the provider is flushed before it drops any."""
    logs, traces = LoggerProvider(shutdown_on_exit=False), TracerProvider(shutdown_on_exit=False)
    records, spans = InMemoryLogs(), InMemorySpanExporter()
    limits = {"schedule_delay_millis": 60_000, "max_queue_size": 100, "max_export_batch_size": 100}
    logs.add_log_record_processor(logs_export.BatchLogRecordProcessor(records, **limits))
    traces.add_span_processor(BatchSpanProcessor(spans, **limits))
    source = report(copies=1050)

    assert emit_events(source, provider=logs) == len(records.get_finished_logs()) == 1051
    assert emit_spans(source, provider=traces) == len(spans.get_finished_spans()) == 1050
    logs.shutdown()
    traces.shutdown()


def test_secrets_do_not_leave() -> None:
    """Secret values and those of the custom redactor are hidden."""
    events, spans = InMemoryLogs(), InMemorySpanExporter()
    for redactor, hides in ((DEFAULT, False), (Redactor(shapes=("matched",)), True)):
        emit_events(report(), provider=logging_to(events), redactor=redactor)
        emit_spans(report(), provider=tracing_to(spans), redactor=redactor)

        for exported in ([data.log_record for data in events.get_finished_logs()], spans.get_finished_spans()):
            text = "".join(str(dict(record.attributes)) for record in exported)
            assert "s3cr3t" not in text
            assert REDACTED in text
            assert ("matched" in text) is not hides
        events.clear()
        spans.clear()


@dataclass(frozen=True)
class OddMetric:
    """A metric of a user's own, with words that UTF-8 cannot hold."""

    label: str = "odd \ud800"
    threshold: float = 0.5

    def measure(self, _case: Any) -> MetricResult:
        """Scores, and says why."""
        return MetricResult(
            metric=self.label, status=ResultStatus.SCORED, threshold=0.5, score=1, passed=True, reason="good \udfff"
        )

    async def a_measure(self, case: Any) -> MetricResult:
        """Measure asynchronously."""
        return self.measure(case)


def test_text_that_no_protocol_carries_costs_no_other_record() -> None:
    """A lone surrogate is escaped, in files as well: protobuf would refuse the whole batch."""
    (run,) = read_traces(otlp(SCRIPT)).runs
    odd = evaluate([run.to_test_case(expected_tools=[])], [OddMetric(), ToolCorrectnessMetric()])
    with collecting() as collector:
        address = collector.address
        events = logging_to(OTLPLogExporter(endpoint=f"{address}/v1/logs"))
        spans = tracing_to(OTLPSpanExporter(endpoint=f"{address}/v1/traces"))
        assert (emit_events(odd, provider=events, at=AT), emit_spans(odd, provider=spans, at=AT)) == (2, 2)
        event, _, span, _ = collector.accepted

    attributes = plain(event["attributes"])
    assert (attributes["gen_ai.evaluation.name"], attributes["gen_ai.evaluation.explanation"]) == (
        "odd \\ud800",
        "good \\udfff",
    )
    assert span["name"] == "odd \\ud800"
    assert event == records_in(evaluation_events(odd, at=AT))[0]
    assert span["attributes"] == records_in(evaluation_spans(odd, at=AT))[0]["attributes"]


def test_cases_without_a_trace_are_reported_and_nothing_is_sent() -> None:
    """All at once, even if others could be sent."""
    (run,) = read_traces(otlp(SCRIPT)).runs
    case = run.to_test_case(expected_tools=[])
    odd: list[dict[str, Any]] = [
        {"run_id": "0" * 32},
        {"run_id": f"{run.run_id}0"},
        {"run_id": f"{run.run_id}\n"},
        {"run_id": None},
        {"metadata": {"span_id": "0" * 16}},
        {"metadata": {"span_id": f"{ROOT_SPAN:017x}"}},
        {"metadata": {}},
    ]
    nowhere = [case.model_copy(update={"run": run.model_copy(update=ids)}) for ids in odd]
    mixed = evaluate([case, LLMTestCase(tools_called=[], expected_tools=[]), *nowhere], [ToolCorrectnessMetric()])
    events, spans = InMemoryLogs(), InMemorySpanExporter()

    for emit in (
        lambda: emit_events(mixed, provider=logging_to(events)),
        lambda: emit_spans(mixed, provider=tracing_to(spans)),
    ):
        with pytest.raises(InvalidDataError) as raised:
            emit()
        assert [problem.path for problem in raised.value.problems] == [f"$.cases[{index}]" for index in range(1, 9)]
    assert not events.get_finished_logs()
    assert not spans.get_finished_spans()


def test_a_provider_that_sends_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the API, and an SDK that is turned off."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    for logs in (NoOpLoggerProvider(), logging_to(InMemoryLogs())):
        with pytest.raises(ConfigurationError, match=r"nothing would be sent: .* logs, .*provider="):
            emit_events(report(), provider=logs)
    for traces in (NoOpTracerProvider(), tracing_to(InMemorySpanExporter())):
        with pytest.raises(ConfigurationError, match=r"nothing would be sent: .* spans, .*provider="):
            emit_spans(report(), provider=traces)


def test_provider_without_a_processor_is_an_error() -> None:
    """Detectable from some version on."""
    provider = LoggerProvider(shutdown_on_exit=False)
    if not hasattr(provider.get_logger("x"), "enabled"):
        pytest.skip("the loggers of this SDK do not know it")

    with pytest.raises(ConfigurationError, match="nothing would be sent"):
        emit_events(report(), provider=provider)


@pytest.mark.parametrize("wrong", [object(), "otlp", InMemorySpanExporter])
def test_invalid_provider_is_an_error(wrong: Any) -> None:
    """As is a provider of the other signal."""
    with pytest.raises(ConfigurationError, match=r"provider must be an? opentelemetry\._logs\.LoggerProvider, got"):
        emit_events(report(), provider=wrong)
    with pytest.raises(ConfigurationError, match=r"must be an? opentelemetry\.trace\.TracerProvider, got 'LoggerProv"):
        emit_spans(report(), provider=LoggerProvider(shutdown_on_exit=False))  # type: ignore[arg-type]


def test_sampled_out_spans_are_an_error() -> None:
    """With their number and a remedy."""
    memory = InMemorySpanExporter()
    source = report(copies=150)

    with pytest.raises(NotSentError, match=r"^150 of 150 spans were left out .* sampler .*ALWAYS_ON"):
        emit_spans(source, provider=tracing_to(memory, sampler=ALWAYS_OFF))
    with pytest.raises(NotSentError) as raised:
        emit_spans(source, provider=tracing_to(memory, sampler=TraceIdRatioBased(0.5)))

    count = len(memory.get_finished_spans())
    assert 0 < count < 150
    assert str(raised.value).startswith(f"{150 - count} of 150 spans ")


def test_dropped_records_are_an_error() -> None:
    """Records that a logger reports as dropped are counted."""
    provider = logging_to(InMemoryLogs())

    class Picky:
        """A logger that takes nothing without a severity."""

        def __init__(self) -> None:
            self.emitted: list[Any] = []

        def enabled(self, *, context: Any = None, severity_number: Any = None, event_name: str | None = None) -> bool:
            assert event_name == "gen_ai.evaluation.result"
            return context is None or severity_number is not None

        def emit(self, record: Any) -> None:
            self.emitted.append(record)

    logger = Picky()
    provider.get_logger = lambda *_: logger  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(NotSentError, match=r"^3 of 4 events were left out by the provider, which is set to drop"):
        emit_events(report(), provider=provider)
    assert len(logger.emitted) == 1


def test_a_provider_that_was_shut_down_is_an_error() -> None:
    """It accepts records without sending them."""
    logs, traces = LoggerProvider(shutdown_on_exit=False), TracerProvider(shutdown_on_exit=False)
    logs.add_log_record_processor(logs_export.BatchLogRecordProcessor(InMemoryLogs()))
    traces.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    logs.shutdown()
    traces.shutdown()

    with pytest.raises(NotSentError, match=r"shut down.*all events from #1 on may be lost"):
        emit_events(report(), provider=logs)
    with pytest.raises(NotSentError, match=r"shut down.*all spans from #1 on may be lost"):
        emit_spans(report(), provider=traces)


def test_error_names_the_first_possibly_lost_record() -> None:
    """Flushed records are not among them."""
    provider = logging_to(InMemoryLogs())
    flushes = iter([True, False])
    provider.force_flush = lambda *_: next(flushes)  # type: ignore[method-assign,assignment]

    with pytest.raises(NotSentError, match="events from #101 on may be lost"):
        emit_events(report(copies=250), provider=provider)


def test_the_global_providers_are_the_default(tmp_path: Path) -> None:
    """Without one, an error says what to do; nothing is configured or sent implicitly."""
    (tmp_path / "trace.json").write_text(json.dumps(otlp(SCRIPT)), encoding="utf-8")
    program = f"""
import json
from pathlib import Path
from toolgrade import ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.errors import ConfigurationError
from toolgrade.formats import read_traces
from toolgrade.report.otel import emit_events, emit_spans

(run,) = read_traces(json.loads(Path("trace.json").read_text())).runs
report = evaluate([run.to_test_case(expected_tools=[ToolCall(name="add")])], [ToolCorrectnessMetric()])
for emit in (emit_events, emit_spans):
    try:
        emit(report)
    except ConfigurationError as error:
        print(str(error)[:21])

from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import {InMemoryLogs.__name__}, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

logs, spans = {InMemoryLogs.__name__}(), InMemorySpanExporter()
_logs.set_logger_provider(LoggerProvider())
_logs.get_logger_provider().add_log_record_processor(SimpleLogRecordProcessor(logs))
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(spans))
print(emit_events(report), len(logs.get_finished_logs()), emit_spans(report), len(spans.get_finished_spans()))
"""
    (tmp_path / "program.py").write_text(program, encoding="utf-8")

    done = run_python(["program.py"], tmp_path)

    assert done == (0, "nothing would be sent\nnothing would be sent\n1 1 1 1\n", "")
