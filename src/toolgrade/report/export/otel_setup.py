"""An OpenTelemetry SDK configured from environment variables, for programs without one of their own.

`OTEL_LOGS_EXPORTER`, `OTEL_TRACES_EXPORTER`, the variables of the exporters (such as `OTEL_EXPORTER_OTLP_ENDPOINT` and
`OTEL_EXPORTER_OTLP_HEADERS`), `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` have their usual meaning. The setup
of the SDK can lose records, and only logs it. So this one differs in three ways: batches are exported one by one,
without a queue that can be full; the answer to each is checked; and every span is sampled. The processors of the SDK
ignore what an exporter returns, and exporters over HTTP take any status from 200 to 399 for success, even for a login
page or a partial rejection.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from inspect import signature
from typing import Any, Final, NamedTuple

from toolgrade._internal.options import require, require_one_of
from toolgrade._internal.text import plural, printable, shorten
from toolgrade.errors import ConfigurationError, MissingPackageError, NotSentError
from toolgrade.redact import DEFAULT
from toolgrade.report.export.evaluation_records import Record, nanoseconds, records_of
from toolgrade.report.export.otel_emitter import emit_as_events, emit_as_spans
from toolgrade.report.report import Report

_INSTALL: Final = "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
_PROTOCOLS: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""The protocols of OTLP, and the registered names of their exporters."""

_REDIRECTS: Final = 300
_ERRORS: Final = 400
"""Lowest HTTP statuses of these classes."""

_MOST_FAILURES: Final = 3
"""Consecutive failed batches after which the rest is not tried; each may have waited for its timeout."""


class _Signal(NamedTuple):
    """One kind of telemetry, with its names in environment variables and exporters."""

    name: str
    record: str
    exporters: str
    protocol: str
    batch_size: str
    response: str


_LOGS = _Signal(
    *("logs", "event", "OTEL_LOGS_EXPORTER", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE"),
    response="logs.v1.logs_service_pb2:ExportLogsServiceResponse",
)
_TRACES = _Signal(
    *("traces", "span", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"),
    response="trace.v1.trace_service_pb2:ExportTraceServiceResponse",
)


def send_events(report: Report) -> int:
    """Send a report as events, as configured in the environment, and return their number.

    Raises:
        MissingPackageError: The SDK or the exporter is not installed.
        ConfigurationError: The environment turns exporting off, or has an invalid setting.
        InvalidDataError: See `toolgrade.report.otel.emit_events`; nothing was sent.
        NotSentError: Not every event was accepted; the message says how many were, and why.
    """
    moment, records = nanoseconds(None), records_of(report, DEFAULT, scores_only=False)
    sdk, export = _sdk("_logs"), _sdk("_logs.export")
    with _exporters(_LOGS, len(records)) as exporters:
        provider = sdk.LoggerProvider(resource=_resource(), shutdown_on_exit=False)
        for exporter in exporters:
            provider.add_log_record_processor(export.SimpleLogRecordProcessor(exporter))
        return emit_as_events(records, moment, provider)


def send_spans(report: Report) -> int:
    """Send a report as spans with the ids of `evaluation_spans`; the rest is as in `send_events`."""
    moment, records = nanoseconds(None), records_of(report, DEFAULT)
    sdk, export, sampling = _sdk("trace"), _sdk("trace.export"), _sdk("trace.sampling")
    with _exporters(_TRACES, len(records)) as exporters:
        provider = sdk.TracerProvider(
            resource=_resource(), sampler=sampling.ALWAYS_ON, id_generator=_Ids(records), shutdown_on_exit=False
        )
        for exporter in exporters:
            provider.add_span_processor(export.SimpleSpanProcessor(exporter))
        return emit_as_spans(records, moment, provider)


class _Ids:
    """An id generator of the SDK that returns the ids that the spans already have."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._traces = iter([record.span_ids[0] for record in records])
        self._spans = iter([record.span_ids[1] for record in records])

    def generate_trace_id(self) -> int:
        return int(next(self._traces), 16)

    def generate_span_id(self) -> int:
        return int(next(self._spans), 16)

    def is_trace_id_random(self) -> bool:
        return False


@contextmanager
def _exporters(signal: _Signal, total: int) -> Generator[list[_CountingExporter], None, None]:
    """Yield the exporters named in the environment, and at the end check that each exported all records.

    Raises:
        NotSentError: Some records of an exporter were not accepted.
    """
    size = _size(signal)
    with _capture_log() as log:
        exporters = {name: _exporter(signal, name, size) for name in _names(signal)}
        try:
            yield list(exporters.values())
            for exporter in exporters.values():
                exporter.finish()
        finally:
            for exporter in exporters.values():
                exporter.shutdown()
    for name, exporter in exporters.items():
        if exporter.accepted < total:
            why = _safe("; ".join(exporter.problems or list(log)[-2:]) or "it gives no reason")
            accepted = f"{exporter.accepted} of {plural(total, signal.record)}"
            raise NotSentError(f"the exporter {name!r} sent {accepted}: {why}")


def _names(signal: _Signal) -> list[str]:
    """Return the registered names of the exporters named in the environment.

    Raises:
        ConfigurationError: The environment turns exporting off, or names an unknown protocol.
    """
    if os.environ.get("OTEL_CONFIG_FILE"):
        raise ConfigurationError("OTEL_CONFIG_FILE is set, which is not supported: unset it, and set other variables")
    named = [name.strip() for name in (os.environ.get(signal.exporters) or "otlp").split(",")]
    if "none" in named:
        raise ConfigurationError(f"nothing would be sent: {signal.exporters} is 'none'; unset it, or set it to 'otlp'")
    return list(dict.fromkeys(_protocol(signal) if name == "otlp" else name for name in named))


def _protocol(signal: _Signal) -> str:
    """Return the exporter of `otlp`: that of the configured protocol, else like the SDK, which prefers gRPC."""
    protocol = (os.environ.get(signal.protocol) or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "").strip()
    if not protocol:
        return next((name for name in _PROTOCOLS.values() if _registered(signal, name)), _PROTOCOLS["http/protobuf"])
    require_one_of("the protocol of OTLP", protocol, _PROTOCOLS)
    return _PROTOCOLS[protocol]


def _registered(signal: _Signal, name: str) -> Any:  # noqa: ANN401 - an entry point, or None
    return next(iter(entry_points(group=f"opentelemetry_{signal.name}_exporter", name=name)), None)


def _exporter(signal: _Signal, name: str, size: int) -> _CountingExporter:
    """Return the exporter of that name, configured from the environment."""
    entry_point = _registered(signal, name)
    if entry_point is None:
        message = f"sending {signal.name} needs the exporter {name!r}, which is not installed: {_INSTALL}"
        raise MissingPackageError(message)
    answers = _Answers(signal.response)
    try:
        factory = entry_point.load()
        options: dict[str, Any] = {}
        # A session that the environment names is not replaced; then the answers cannot be read.
        is_replaceable = not any(name.startswith("OTEL_PYTHON_EXPORTER_OTLP_HTTP_") for name in os.environ)
        if is_replaceable and "session" in signature(factory).parameters:
            options["session"] = session = import_module("requests").Session()
            session.send = answers.listening(session.send)
        return _CountingExporter(factory(**options), size, answers)
    except Exception as error:  # constructors read the environment, and may raise anything
        message = f"the exporter {name!r} cannot be created: {type(error).__name__}: {_safe(str(error))}"
        raise ConfigurationError(message) from error


def _size(signal: _Signal) -> int:
    text = os.environ.get(signal.batch_size, "").strip() or "512"
    valid = text.isdecimal() and int(text) >= 1
    require(valid, f"{signal.batch_size} must be a whole number of at least 1", text)
    return int(text)


def _resource() -> Any:  # noqa: ANN401 - a resource of the SDK
    """Return the resource configured in the environment; the service is `toolgrade` if it names none."""
    resources = _sdk("resources")
    resource = resources.Resource.create()
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        return resource.merge(resources.Resource({"service.name": "toolgrade"}))
    return resource


def _safe(text: str) -> str:
    """Return a redacted text of another package, printable in a terminal."""
    return printable(str(DEFAULT(text)))


def _sdk(module: str) -> Any:  # noqa: ANN401 - a module
    try:
        return import_module(f"opentelemetry.sdk.{module}")
    except ImportError as error:
        message = f"sending needs the package 'opentelemetry-sdk', which is not installed: {_INSTALL}"
        raise MissingPackageError(message, name="opentelemetry.sdk") from error


class _Answers:
    """The last answer of a collector over HTTP.

    `rejected` is the number of records that it rejected from an accepted request, `problem` a description of anything
    but plain success. `response` names the module and the protobuf message of the answer.
    """

    def __init__(self, response: str) -> None:
        self.rejected: int = 0
        self.problem: str = ""
        self._response = response

    def listening(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper of the `send` method of `requests` that reads each answer."""

        def send_and_read(*request: Any, **options: Any) -> Any:  # noqa: ANN401 - as `send` has it
            try:
                response = send(*request, **options)
            except Exception as error:
                self.rejected, self.problem = 0, shorten(f"{type(error).__name__}: {error}", 300)
                raise
            self._read(response)
            return response

        return send_and_read

    def _read(self, response: Any) -> None:  # noqa: ANN401 - of `requests`
        self.rejected, self.problem = 0, ""
        kind = str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
        answered = f"{response.url} answered {response.status_code}"
        try:
            if response.status_code >= _ERRORS:
                words = _words(kind, response.content)
                self.problem = f"{answered} {response.reason}: {words}".removesuffix(": ")
            elif response.status_code >= _REDIRECTS or kind == "text/html" or response.request.method != "POST":
                self.problem = f"{answered}, which is not the answer of a collector"
            else:
                self.rejected, words = self._partly(kind, response.content)
                if self.rejected:
                    self.problem = f"the collector rejected {self.rejected}: {words}".removesuffix(": ")
        except Exception as error:  # noqa: BLE001 - protobuf has many errors, and a broken answer is not a success
            self.problem = f"{answered} with an unreadable body: {error}"

    def _partly(self, kind: str, content: bytes) -> tuple[int, str]:
        """Return the number of rejected records in an answer, and its message."""
        if kind == "application/json":
            partial = json.loads(content or b"{}").get("partialSuccess") or {}
            rejected = partial.get("rejectedLogRecords") or partial.get("rejectedSpans") or 0
            return int(rejected), str(partial.get("errorMessage", ""))
        if kind != "application/x-protobuf":
            return 0, ""  # some collectors answer with the status alone
        module, _, name = self._response.partition(":")
        message = getattr(import_module(f"opentelemetry.proto.collector.{module}"), name)
        partial = message.FromString(content).partial_success
        rejected = getattr(partial, "rejected_log_records", 0) or getattr(partial, "rejected_spans", 0)
        return rejected, partial.error_message


class _CountingExporter:
    """Exports records in batches of a size, and counts those that were accepted.

    `problems` has the reasons why others were not, each once, in order.
    """

    def __init__(self, exporter: Any, size: int, answers: _Answers) -> None:  # noqa: ANN401 - classes of many packages
        self.accepted = 0
        self.problems: dict[str, None] = {}
        self._exporter, self._size, self._answers = exporter, size, answers
        self._queue: list[Any] = []
        self._failed_in_a_row = 0

    def export(self, batch: Sequence[Any]) -> None:
        """Queue records, and export them when a batch is full."""
        self._queue += batch
        if len(self._queue) >= self._size:
            self.finish()

    def finish(self) -> None:
        """Export the queued records, unless the collector seems to be gone."""
        batch, self._queue = self._queue, []
        if not batch:
            return
        if self._failed_in_a_row >= _MOST_FAILURES:
            self.problems[f"the rest was not tried after {_MOST_FAILURES} failed batches in a row"] = None
            return
        accepted = self._accepted(batch)
        self.accepted += accepted
        self._failed_in_a_row = 0 if accepted else self._failed_in_a_row + 1

    def shutdown(self) -> None:
        """Shut down the exporter."""
        self._exporter.shutdown()

    def _accepted(self, batch: Sequence[Any]) -> int:
        """Export a batch and return the number of accepted records."""
        try:
            result: Any = self._exporter.export(batch)
        except Exception as error:  # noqa: BLE001 - an exporter may raise anything; the next batch is tried
            self.problems[f"{type(error).__name__}: {error}"] = None
            return 0
        if self._answers.problem:
            self.problems[self._answers.problem] = None
        # Logs and spans have different result enumerations, and these were renamed; the names of their members stayed.
        refused = getattr(result, "name", "") != "SUCCESS" or (self._answers.problem and not self._answers.rejected)
        return 0 if refused else max(0, len(batch) - self._answers.rejected)


def _words(kind: str, content: bytes) -> str:
    """Return the shortened message in the body of an error."""
    if kind == "application/x-protobuf":
        text: str = import_module("google.rpc.status_pb2").Status.FromString(content).message
    elif kind in {"text/plain", "application/json"}:
        text = content.decode("utf-8", "replace")
    else:
        return ""
    return shorten(" ".join(text.split()), 200)


@contextmanager
def _capture_log() -> Generator[dict[str, None], None, None]:
    """Collect the log messages of OpenTelemetry, each once, instead of showing them."""
    messages: dict[str, None] = {}

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages[record.getMessage()] = None

    log, handler = logging.getLogger("opentelemetry"), Collector(logging.WARNING)
    propagates, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield messages
    finally:
        log.removeHandler(handler)
        log.propagate = propagates
