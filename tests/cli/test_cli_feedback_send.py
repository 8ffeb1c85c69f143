"""`toolgrade feedback --send`: scores sent to a real collector on this machine, also to one that does not take them."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from command_runner import RUNNER
from processes import COMMAND, run_python
from toolgrade import ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.cli.main import main
from toolgrade.formats import read_traces
from tracing import Script, ScriptedCall, Step, otlp

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed here")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the exporter of OTLP is not installed here")

from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from collectors import Answer, Collector, collecting, records_in, records_of, resource_of, scope_of

SCRIPT = Script("Go.", [Step("boss", [ScriptedCall("add", "c1", {"token": "s3cr3t"}, "3")]), Step("boss", [], "Done.")])
FORMS = ("otel-events", "openinference")
WORDS = {"otel-events": "events", "openinference": "spans"}
OK = Answer()
BAD = Answer(403, b"", "text/plain")


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have an SDK configured; a collector that is gone is waited for a second."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")


def results_of(path: Path, *, cases: int = 1) -> Path:
    """Results of cases that were read from one trace: a score each."""
    (run,) = read_traces(otlp(SCRIPT)).runs
    case = run.to_test_case(expected_tools=[ToolCall(name="add", input_parameters={"token": "other"})])
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"])
    evaluate([case] * cases, [metric], results=path, show_progress=False)
    return path


@pytest.fixture(name="results")
def _results(tmp_path: Path) -> Path:
    return results_of(tmp_path / "results.jsonl")


def run(*arguments: str | Path) -> Result:
    """What `toolgrade feedback` does, inside this process."""
    return RUNNER.invoke(main, ["feedback", *map(str, arguments)])


def sent_to(collector: Collector, results: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> Result:
    """What comes of sending to a collector that the environment names."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
    return run(results, "--as", form, "--send")


def timeless(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records without the moment of their making."""
    return [{key: item for key, item in record.items() if not key.endswith("UnixNano")} for record in records]


@pytest.mark.parametrize("form", FORMS)
def test_collector_receives_the_content_of_a_file(
    tmp_path: Path, results: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same attributes, links and ids, including span ids; the current time; no secrets."""
    began = time.time_ns() // 1000 * 1000
    with collecting() as collector:
        done = sent_to(collector, results, form, monkeypatch)
    ended = time.time_ns()

    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "sent: 1 score\n")
    assert run(results, "--as", form, "--out", tmp_path / "f.json").exit_code == 0
    written = (tmp_path / "f.json").read_text(encoding="utf-8")
    assert timeless(collector.accepted) == timeless(records_in(json.loads(written)))
    (record,) = collector.accepted
    times = {int(value) for key, value in record.items() if key.endswith("UnixNano")}
    assert len(times) == 1
    assert began <= times.pop() <= ended
    (request,) = collector.requests
    assert resource_of(request)["service.name"] == "toolgrade"
    assert scope_of(request) == "toolgrade"
    assert "s3cr3t" not in str(request)


def test_environment_configures_the_exporter(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, headers, compression, endpoints of one signal, and batch size."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "nightly")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", f"{collector.address}/v1/logs")
        assert run(results, "--as", "otel-events", "--send").exit_code == 0

    (request,), (headers,) = collector.requests, collector.headers
    resource = resource_of(request)
    assert (resource["service.name"], resource["deployment.environment.name"]) == ("nightly", "ci")
    assert (headers["x-key"], headers["content-encoding"]) == ("k1", "gzip")


@pytest.mark.parametrize("form", FORMS)
def test_many_go_in_batches(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the queue of an SDK holds; a batch is of 512, as there, unless the environment says otherwise."""
    results = results_of(tmp_path / "many.jsonl", cases=2100)
    with collecting() as collector:
        assert sent_to(collector, results, form, monkeypatch).stderr == "sent: 2,100 scores\n"
    assert [len(records_of(request)) for request in collector.requests] == [512, 512, 512, 512, 52]


def test_no_sampler_decides(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for scores to be sent wants all of them."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    with collecting() as collector:
        assert sent_to(collector, results, "openinference", monkeypatch).exit_code == 0
    assert len(collector.accepted) == 1


def test_nothing_is_sent_without_the_option(tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment is."""
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        for form in FORMS:
            assert run(results, "--as", form, "--out", tmp_path / "f.json").exit_code == 0
    assert collector.requests == []


def partial(form: str, rejected: int, words: str) -> Answer:
    """A yes that is none for some records."""
    if form == "otel-events":
        logs = ExportLogsPartialSuccess(rejected_log_records=rejected, error_message=words)
        return Answer(body=ExportLogsServiceResponse(partial_success=logs).SerializeToString())
    spans = ExportTracePartialSuccess(rejected_spans=rejected, error_message=words)
    return Answer(body=ExportTraceServiceResponse(partial_success=spans).SerializeToString())


@pytest.mark.parametrize("form", FORMS)
def test_a_collector_that_refuses_is_an_error(results: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other answer than success gives exit code 1, the number of sent events, and the reason."""
    rejected = {"otel-events": "rejectedLogRecords", "openinference": "rejectedSpans"}[form]
    json_partial = json.dumps({"partialSuccess": {rejected: "1", "errorMessage": "too \u001b[2Jold"}}).encode()
    rows = [
        (BAD, "/v1/"),
        (BAD, "answered 403 Forbidden\n"),
        (Answer(500, b"", "text/plain"), "answered 500 Internal Server Error\n"),
        (Answer(400, Status(code=3, message="no such span").SerializeToString()), "400 Bad Request: no such span\n"),
        (Answer(401, b'{"error":\n"wrong key"}', "application/json"), '401 Unauthorized: {"error": "wrong key"}\n'),
        (Answer(404, b"<html>", "text/html"), "answered 404 Not Found\n"),
        (Answer(413, b"x" * 999, "text/plain"), "x...x"),
        (Answer(400, b"\xff\xff\xff"), "400 with an unreadable body"),
        (Answer(302, headers=(("Location", "/login"),)), ", which is not the answer of a collector"),
        (Answer(200, b"<html>Log in</html>", "text/html; charset=utf-8"), "200, which is not the answer"),
        (Answer(200, b"\xff\xff\xff"), "200 with an unreadable body"),
        (Answer(200, b"[]", "application/json"), "200 with an unreadable body"),
        (Answer(200, json_partial, "application/json"), "the collector rejected 1: too \\x1b[2Jold"),
        (partial(form, 1, "no quota"), "the collector rejected 1: no quota"),
        (partial(form, 1, ""), "the collector rejected 1\n"),
    ]
    for answer, why in rows:
        with collecting(answer) as collector:
            done = sent_to(collector, results, form, monkeypatch)
        assert (done.exit_code, done.stdout) == (1, ""), answer
        assert done.stderr.startswith(f"error: the exporter 'otlp_proto_http' sent 0 of 1 {WORDS[form][:-1]}: "), answer
        assert why in done.stderr
        assert done.stderr.count("\n") == 1
        assert len(collector.requests) == 1 or answer.status == 500  # some exporters try again then


@pytest.mark.parametrize("form", FORMS)
def test_other_forms_of_success(results: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text with a success, JSON, no body, and vendor-specific answers."""
    answers = [
        partial(form, 0, "consider packing"),
        Answer(200, b"{}", "application/json"),
        Answer(200, b"", "application/json"),
        Answer(200, b'{"partialSuccess": {}}', "application/json; charset=utf-8"),
        Answer(202, b"", "text/plain"),
        Answer(204, b"", ""),
    ]
    for answer in answers:
        with collecting(answer) as collector:
            done = sent_to(collector, results, form, monkeypatch)
        assert (done.exit_code, done.stderr) == (0, "sent: 1 score\n"), answer


@pytest.mark.parametrize("form", FORMS)
def test_half_of_the_batches_fail(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are sent and counted."""
    monkeypatch.setenv("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "2")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
    results = results_of(tmp_path / "r.jsonl", cases=11)
    with collecting(OK, BAD, OK, BAD, partial(form, 1, "old"), BAD) as collector:
        done = sent_to(collector, results, form, monkeypatch)

    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: the exporter 'otlp_proto_http' sent 5 of 11 {WORDS[form]}: ")
    assert "the collector rejected 1: old" in done.stderr
    assert done.stderr.count("answered 403 Forbidden") == 1
    assert len(collector.requests) == 6


def test_unreachable_collector_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After three failed batches in a row no more are sent; a success resets the count."""
    monkeypatch.setenv("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "1")
    results = results_of(tmp_path / "r.jsonl", cases=10)
    with collecting(BAD, BAD, OK, BAD) as collector:
        done = sent_to(collector, results, "otel-events", monkeypatch)

    assert done.exit_code == 1
    assert "sent 1 of 10 events: http" in done.stderr
    assert done.stderr.endswith("; the rest was not tried after 3 failed batches in a row\n")
    assert len(collector.requests) == 6


@pytest.mark.parametrize("form", FORMS)
def test_refused_connection_is_an_error(results: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords in addresses are not printed."""
    with collecting() as collector:
        address = collector.address  # is free when the block ends
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address.replace("//", "//user:hunter2@"))
    done = run_python([*COMMAND, "feedback", results.name, "--as", form, "--send"], results.parent)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"error: the exporter 'otlp_proto_http' sent 0 of 1 {WORDS[form][:-1]}: ")
    assert "refused" in done.err
    assert "hunter2" not in done.err


def test_an_attempt_that_succeeds_in_the_end_is_a_success(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exporters retry if a collector asks for it; earlier answers do not count."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "10")
    again = Answer(503, b"", "text/html", (("Retry-After", "0"),))
    with collecting(again, OK) as collector:
        done = sent_to(collector, results, "otel-events", monkeypatch)

    assert (done.exit_code, done.stderr) == (0, "sent: 1 score\n")
    assert len(collector.requests) == 2


def test_all_named_exporters_receive_everything(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing one is an error, even if another one succeeded."""
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "console, otlp,otlp_proto_http")
    with collecting() as collector:
        done = sent_to(collector, results, "otel-events", monkeypatch)
    assert (done.exit_code, len(collector.accepted)) == (0, 1)

    with collecting(BAD) as collector:
        done = sent_to(collector, results, "otel-events", monkeypatch)
    assert (done.exit_code, done.stderr[:54]) == (1, "error: the exporter 'otlp_proto_http' sent 0 of 1 even")


def test_settings_that_send_nothing_end_with_2(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sending that was asked for and cannot be is never a success; nothing is sent."""
    rows = [
        ("OTEL_LOGS_EXPORTER", "none", "nothing would be sent: OTEL_LOGS_EXPORTER is 'none'; unset it"),
        ("OTEL_LOGS_EXPORTER", "zipkin", "needs the exporter 'zipkin', which is not installed: pip install"),
        ("OTEL_SDK_DISABLED", "true", "nothing would be sent: no OpenTelemetry SDK"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "must be one of grpc, http/protobuf, got 'http/json'"),
        ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc", "needs the exporter 'otlp_proto_grpc'"),
        ("OTEL_CONFIG_FILE", "otel.yaml", "OTEL_CONFIG_FILE is set, which is not supported"),
        ("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "0", "must be a whole number of at least 1, got '0'"),
        ("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "many", "must be a whole number of at least 1, got 'many'"),
    ]
    for name, value, why in rows:
        with collecting() as collector, monkeypatch.context() as setting:
            setting.setenv(name, value)
            setting.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
            done = run(results, "--as", "otel-events", "--send")
        assert (done.exit_code, done.stdout, collector.requests) == (2, "", []), name
        assert why in done.stderr


def test_exporter_that_cannot_be_created_is_reported(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own message, without secrets."""
    from toolgrade.report.export import otel_setup

    def broken() -> None:
        raise RuntimeError("no certificate for https://user:hunter2@host/")

    monkeypatch.setattr(otel_setup, "_registered", lambda *_: type("Found", (), {"load": staticmethod(lambda: broken)}))
    done = run(results, "--as", "otel-events", "--send")

    assert done.exit_code == 2
    assert (
        "the exporter 'otlp_proto_grpc' cannot be created: RuntimeError: no certificate for https://user:"
        in done.stderr
    )
    assert "hunter2" not in done.stderr


def test_exporter_that_raises_is_reported(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its batch counts as not sent."""
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

    def torn(*_: object) -> None:
        raise OSError("torn\n\x1b[2J")

    monkeypatch.setattr(OTLPLogExporter, "export", torn)
    done = run(results, "--as", "otel-events", "--send")

    message = "error: the exporter 'otlp_proto_http' sent 0 of 1 event: OSError: torn\\n\\x1b[2J\n"
    assert (done.exit_code, done.stderr) == (1, message)


@pytest.mark.parametrize("form", FORMS)
def test_exporters_are_shut_down(results: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, whether they succeed, fail, or receive nothing."""
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    closed: list[object] = []

    def close(exporter: object) -> None:
        closed.append(exporter)

    for exporter in (OTLPLogExporter, OTLPSpanExporter):
        monkeypatch.setattr(exporter, "shutdown", close)
    for answer in (OK, BAD):
        with collecting(answer) as collector:
            sent_to(collector, results, form, monkeypatch)
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    run(results, "--as", form, "--send")
    assert len(closed) == 3


def test_a_session_that_the_environment_asks_for_is_not_replaced(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exporters over HTTP may take theirs from a plugin, here from one that is not there."""
    monkeypatch.setenv("OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER", "no-such-plugin")
    with collecting() as collector:
        done = sent_to(collector, results, "otel-events", monkeypatch)
    assert (done.exit_code, collector.requests) == (2, [])
    assert "no-such-plugin" in done.stderr


@pytest.mark.parametrize("module", ["opentelemetry.sdk._logs", "opentelemetry.sdk.resources"])
def test_missing_sdk_is_reported(results: Path, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, module, None)
    done = run(results, "--as", "otel-events", "--send")

    assert (done.exit_code, done.stdout) == (2, "")
    assert "which is not installed: pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http" in done.stderr


def test_results_that_cannot_be_sent_end_with_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A case without a trace, and no results at all; nothing is sent."""
    (run,) = read_traces(otlp(SCRIPT)).runs
    other = tmp_path / "other.jsonl"
    case = run.model_copy(update={"run_id": "trace_1"}).to_test_case(expected_tools=[])
    evaluate([case], [ToolCorrectnessMetric()], results=other, show_progress=False)
    with collecting() as collector:
        for source, says in ((other, "whose ids are not OpenTelemetry ids"), (tmp_path / "none.jsonl", "cannot read")):
            done = sent_to(collector, source, "openinference", monkeypatch)
            assert (done.exit_code, done.stdout) == (2, "")
            assert says in done.stderr
    assert collector.requests == []


def test_an_exporter_that_says_no_is_believed(
    results: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Including exporters without HTTP; their log messages appear in the error and in no other log."""
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

    log = logging.getLogger("opentelemetry")
    monkeypatch.setattr(log, "propagate", True)
    before = list(log.handlers)

    def refuse(*_: object) -> Any:
        log.getChild("exporter.x").error("no %s", "quota")
        return type("Result", (), {"name": "FAILURE"})

    monkeypatch.setattr(OTLPLogExporter, "export", refuse)
    done = run(results, "--as", "otel-events", "--send")

    assert (done.exit_code, done.stderr) == (1, "error: the exporter 'otlp_proto_http' sent 0 of 1 event: no quota\n")
    assert caplog.records == []
    assert (log.propagate, log.handlers) == (True, before)
