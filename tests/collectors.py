"""A local OpenTelemetry collector: accepts OTLP over HTTP, stores requests, and sends scripted answers."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToDict, ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

REQUESTS = {"/v1/logs": ExportLogsServiceRequest, "/v1/traces": ExportTraceServiceRequest}
PROTOBUF = "application/x-protobuf"


class Answer(NamedTuple):
    """What the collector says to one request; by default, that all is well."""

    status: int = 200
    body: bytes = b""
    kind: str = PROTOBUF
    headers: tuple[tuple[str, str], ...] = ()


class Collector:
    """What came to a collector, request by request, and what it has yet to answer."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.address = ""

    @property
    def accepted(self) -> list[dict[str, Any]]:
        """The records of all requests, as objects, with where they come from."""
        return [record for request in self.requests for record in records_of(request)]

    def answered(self, path: str, headers: dict[str, str], content: bytes) -> Answer:
        """Accept a request and return the next answer; the last one is repeated."""
        self.headers.append(headers)
        self.requests.append(REQUESTS[path].FromString(content))
        if len(self.answers) > 1:
            return self.answers.pop(0)
        return self.answers[0] if self.answers else Answer()


@contextmanager
def collecting(*answers: Answer) -> Iterator[Collector]:
    """A collector that answers these, one a request, the last one for ever."""
    collector = Collector(*answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            plain = gzip.decompress(content) if self.headers.get("Content-Encoding") == "gzip" else content
            answer = collector.answered(self.path, {key.lower(): value for key, value in self.headers.items()}, plain)
            self.send_response(answer.status)
            for name, value in (("Content-Type", answer.kind), *answer.headers):
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def do_GET(self) -> None:
            """Return a page, for clients that follow a redirect."""
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        collector.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


def records_of(request: Any) -> list[dict[str, Any]]:
    """Return the log records or spans of a request without empty fields and without the sender's flags."""
    plain = MessageToDict(request)
    return [
        _bare(record)
        for resource in plain.get("resourceLogs", plain.get("resourceSpans", []))
        for scope in resource.get("scopeLogs", resource.get("scopeSpans"))
        for record in scope.get("logRecords", scope.get("spans"))
    ]


def records_in(file: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the same for an OTLP file, whose JSON has hexadecimal ids instead of base64."""
    request = ExportLogsServiceRequest() if "resourceLogs" in file else ExportTraceServiceRequest()
    return records_of(ParseDict(_base64_ids(file), request))


def resource_of(request: Any) -> dict[str, Any]:
    """The attributes of the resource of a request."""
    (resource,) = getattr(request, "resource_logs", None) or request.resource_spans
    return {pair.key: pair.value.string_value for pair in resource.resource.attributes}


def scope_of(request: Any) -> str:
    """Return the instrumentation scope of a request."""
    (resource,) = getattr(request, "resource_logs", None) or request.resource_spans
    (scope,) = getattr(resource, "scope_logs", None) or resource.scope_spans
    return str(scope.scope.name)


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items() if key != "flags" and item not in ({}, [])}
    return [_bare(item) for item in value] if isinstance(value, list) else value


def _base64_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_base64_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode() if key in {"traceId", "spanId"} else _base64_ids(item)
        for key, item in value.items()
    }
