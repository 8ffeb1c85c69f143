"""HTTP server of the fake endpoint: it reads requests and sends answers, whose content other modules make."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email import message_from_bytes
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple, cast

from toolgrade._internal.json import JsonObject, parse_json
from toolgrade.errors import InvalidDataError
from toolgrade.testing.fake_openai.replies import HttpFault, new_id

_POLL = 0.02  # seconds until the loop that accepts connections sees that it should end


@dataclass(frozen=True)
class ReceivedRequest:
    """A request of a client.

    Attributes:
        method: HTTP method, such as `POST`.
        path: Path and query, as sent.
        headers: Headers with names in lower case; not in the `repr`, because they hold the key.
        text: The body, as sent.
        body: The body's JSON object, or the fields of a form; empty if there is none.

    Example:
        >>> from contextlib import closing
        >>> from http.client import HTTPConnection
        >>> from toolgrade.testing import FakeOpenAI
        >>> with FakeOpenAI("It is sunny.") as server:
        ...     with closing(HTTPConnection("127.0.0.1", server.port)) as connection:
        ...         connection.request("POST", "/v1/chat/completions", '{"model": "gpt-4.1", "temperature": 0}')
        ...         status = connection.getresponse().status
        >>> [(request.method, request.path, request.model, request.body["temperature"]) for request in server.requests]
        [('POST', '/v1/chat/completions', 'gpt-4.1', 0)]
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    text: str = field(repr=False)
    body: JsonObject

    @property
    def model(self) -> str:
        """Name of the requested model; empty if there is none."""
        name = self.body.get("model")
        return name if isinstance(name, str) else ""

    @property
    def streams(self) -> bool:
        """Whether the client requests a stream."""
        return self.body.get("stream") is True


class Transmission(NamedTuple):
    """One answer to send.

    Attributes:
        fault: Status, headers, timing and ending, also of a normal answer.
        pieces: The body; each event of a stream is a piece.
        is_stream: The answer is a stream.
    """

    fault: HttpFault
    pieces: Sequence[bytes]
    is_stream: bool = False


class HttpServer(socketserver.ThreadingTCPServer):
    """Accepts connections on a free port of this machine, and answers each in its own thread."""

    # Neither `close` nor the end of the process waits for a function of a test that answers requests and hangs.
    daemon_threads = True
    request_queue_size = 128  # many conversations may begin at once

    def __init__(self, respond: Callable[[ReceivedRequest], Transmission], report: Callable[[str], None]) -> None:
        """Begin to accept; `respond` answers a request, in many threads, and `report` receives errors."""
        self.respond = respond
        self.report = report
        self.closing = threading.Event()
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), Handler)
        self.port: int = self.socket.getsockname()[1]
        threading.Thread(target=self.serve_forever, args=(_POLL,), name="toolgrade-fake-endpoint", daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as inherited
        """Answer in a thread, and register the connection so that `close` can end it."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as inherited
        """End a connection."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - as inherited
        """Report an error instead of printing it; a client that closes the connection is not an error."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError):
            self.report(f"a connection failed: {type(error).__name__}: {error}")

    def close(self) -> None:
        """End all connections, and release the port; waiting answers are woken up."""
        self.closing.set()
        self.shutdown()
        self.server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """One connection with successive requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an event of a stream leaves when it is written

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 - as inherited
        """Print nothing."""

    def do_POST(self) -> None:
        """Read and answer a request of any method; the base class dispatches by name."""
        listener = cast("HttpServer", self.server)
        try:
            transmission = listener.respond(self._received())
        except InvalidDataError as error:
            listener.report(f"{self.command} {self.path}: {error}")
            refusal = HttpFault.status(400, str(error))
            transmission = Transmission(refusal, [refusal.text.encode()])
        self._send(*transmission, listener.closing)

    do_GET = do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815 - as above

    def _received(self) -> ReceivedRequest:
        content = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        content_type = headers.get("content-type", "")
        body: object = {}
        if content_type.startswith("multipart/"):
            body = _read_form(content, content_type)
        elif content:
            body = parse_json(content, allow_nan=True)
        if not isinstance(body, dict):
            raise InvalidDataError(f"the body must be a JSON object, got {type(body).__name__}")
        text = content.decode("utf-8", "replace")
        return ReceivedRequest(self.command, self.path, headers, text, cast("JsonObject", body))

    def _send(self, fault: HttpFault, pieces: Sequence[bytes], is_stream: bool, closing: threading.Event) -> None:
        """Send one answer, as its ending demands.

        - `whole`: send all of it.
        - `cut`: announce the whole body, send half of it (of a stream, without the mark of its end), and close the
          connection.
        - `dropped`: send nothing, and close the connection.
        - `silent`: send nothing until the server closes.
        """
        # The event ends each wait when the server closes; without a timeout, as for a silent answer, nothing else does.
        closing.wait(None if fault.ending == "silent" else fault.delay)
        if fault.ending == "dropped" or closing.is_set():
            self.close_connection = True
            return
        self._send_head(fault, None if is_stream else sum(map(len, pieces)))
        if fault.ending == "cut":  # it announces more than it sends, so that the client notices
            self.close_connection = True
            body = b"".join(pieces)
            pieces = [body[: len(body) // 2]]
        for piece in filter(None, pieces):  # an empty chunk would end the stream
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if is_stream else piece)
        if is_stream and fault.ending != "cut":
            self.wfile.write(b"0\r\n\r\n")

    def _send_head(self, fault: HttpFault, length: int | None) -> None:
        """Send status and headers of a body of this length, or of a stream if that is `None`."""
        headers = {"content-type": "application/json", "Content-Length": str(length)}
        if length is None:
            headers = {"content-type": "text/event-stream; charset=utf-8", "Transfer-Encoding": "chunked"}
        self.send_response(fault.code)
        for name, value in {**headers, "x-request-id": new_id("req"), **fault.headers}.items():
            self.send_header(name, value)
        self.end_headers()


def _read_form(content: bytes, content_type: str) -> JsonObject:
    """Return the fields of an uploaded form as text."""
    message = message_from_bytes(f"content-type: {content_type}\r\n\r\n".encode() + content, policy=HTTP)
    fields: JsonObject = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")  # not a text if it is missing or encoded
        payload = cast("bytes", part.get_payload(decode=True))
        fields[str(name)] = payload.decode("utf-8", "replace")
    return fields
