"""HTTP of the fake endpoint: requests, answers and connections, without knowledge of models."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from toolmark._internal.json import JsonObject, json_text, parse_json
from toolmark.errors import InvalidDataError
from toolmark.testing.fake_openai.replies import Ending

_POLL = 0.02  # seconds until the loop that accepts connections sees that it should end
_PATIENCE = 5.0  # seconds that closing waits for connections which are being answered

JSON_TYPE = {"content-type": "application/json"}


@dataclass(frozen=True)
class ReceivedRequest:
    """A request of a client.

    Attributes:
        method: HTTP method, such as `POST`.
        path: Path and query, as sent.
        headers: Headers with names in lower case; not in the `repr`, because they hold the key.
        text: The body, as sent.
        body: The body's JSON object, or the fields of a form; empty if there is none.
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


@dataclass(frozen=True)
class Transmission:
    """One answer to send; times are in seconds."""

    status: int
    headers: Mapping[str, str]
    pieces: Sequence[bytes]
    chunked: bool = False
    """Send the pieces as a stream of unknown length."""
    ending: Ending = "whole"
    share: float = 1.0
    """Part of the body that is sent if the answer does not end whole."""
    delay: float = 0.0
    pause: float = 0.0

    def sent(self) -> list[bytes]:
        """Return the pieces to send, the last one shortened if the answer ends early."""
        if self.ending == "whole":
            return list(self.pieces)
        body = b"".join(self.pieces)
        left = int(len(body) * self.share)
        pieces: list[bytes] = []
        for piece in self.pieces:
            if left > 0:
                pieces.append(piece[:left])
                left -= len(piece)
        return pieces


class Listener(ThreadingHTTPServer):
    """Accepts connections on a free port of this machine, and answers each in its own thread."""

    request_queue_size = 128  # many conversations may begin at once

    def __init__(self, respond: Callable[[ReceivedRequest], Transmission], report: Callable[[str], None]) -> None:
        """Bind a port. `respond` answers a request, in many threads; `report` receives errors of the endpoint."""
        self.respond = respond
        self.report = report
        self.closing = threading.Event()
        self._connections: dict[threading.Thread, socket.socket] = {}
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), Handler)
        self._accepting = threading.Thread(
            target=self.serve_forever, args=(_POLL,), name="toolmark-fake-endpoint", daemon=True
        )

    def server_bind(self) -> None:
        """Bind without looking up the name of this machine, which takes seconds on some."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def serve(self) -> None:
        """Start to accept connections."""
        self._accepting.start()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as inherited
        """Answer in a thread that is registered before it starts, so that `close` can end it."""
        thread = threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name="toolmark-fake-endpoint-connection",
            daemon=True,
        )
        with self._lock:
            self._connections[thread] = request
        thread.start()

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as inherited
        """Answer, and remove the thread from the register."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._connections.pop(threading.current_thread(), None)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - as inherited
        """Report an error instead of printing it; a client that closes the connection is not an error."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError) and not self.closing.is_set():
            self.report(f"a connection failed: {type(error).__name__}: {error}")

    def close(self) -> None:
        """End all threads and connections, and release the port; waiting answers are woken up."""
        self.closing.set()
        self.shutdown()
        self._accepting.join()
        self.server_close()
        with self._lock:
            connections = dict(self._connections)
        for connection in connections.values():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + _PATIENCE
        for thread in connections:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
                if thread.is_alive():
                    self.report(f"a request was still being answered {_PATIENCE:g} seconds after closing")


class Handler(BaseHTTPRequestHandler):
    """One connection with successive requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an event of a stream leaves when it is written

    @property
    def _listener(self) -> Listener:
        return cast("Listener", self.server)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 - as inherited
        """Print nothing."""

    def do_POST(self) -> None:
        """Read and answer a request of any method; the base class dispatches by name."""
        received = self._received()
        if isinstance(received, str):
            self._listener.report(f"{self.command} {self.path}: {received}")
            transmission = _refusal(received)
        else:
            transmission = self._listener.respond(received)
        try:
            self._send(transmission)
        except ConnectionError:  # the client closed the connection
            self.close_connection = True

    do_GET = do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815 - as above

    def _received(self) -> ReceivedRequest | str:
        """Return the request, or a text that says why it cannot be read."""
        try:
            content = self._content()
        except ValueError:
            self.close_connection = True  # the start of the next request is not known
            return "the length of the body cannot be read"
        headers = {name.lower(): value for name, value in self.headers.items()}
        text = content.decode("utf-8", "replace")
        if headers.get("content-type", "").startswith("multipart/"):
            return ReceivedRequest(self.command, self.path, headers, text, _read_form(content, headers["content-type"]))
        try:
            body = parse_json(content, allow_nan=True) if content else {}
        except InvalidDataError as error:
            return f"the body is not JSON: {error}"
        if not isinstance(body, dict):
            return f"the body must be a JSON object, got {type(body).__name__}"
        return ReceivedRequest(self.command, self.path, headers, text, cast("JsonObject", body))

    def _content(self) -> bytes:
        """Return the body of a request, of a declared length or in chunks; a bad length raises `ValueError`."""
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            length = self.headers.get("content-length", "0")
            if not length.isdecimal():  # `int` would take "-1", and the connection would be read to its end
                raise ValueError(length)
            return self.rfile.read(int(length))
        content = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            content += self.rfile.read(size)
            self.rfile.readline()  # the end of the chunk
        while self.rfile.readline().strip():  # trailers
            pass
        return content

    def _send(self, transmission: Transmission) -> None:
        closing = self._listener.closing
        if transmission.ending == "silent":
            closing.wait()
        elif transmission.delay:
            closing.wait(transmission.delay)
        if transmission.ending in {"silent", "dropped"} or closing.is_set():
            self.close_connection = True
            return
        pieces = transmission.sent()
        self.send_response(transmission.status)
        for name, value in transmission.headers.items():
            self.send_header(name, value)
        if transmission.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            promised = transmission.pieces if transmission.ending == "cut" else pieces
            self.send_header("Content-Length", str(sum(map(len, promised))))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        for piece in self._paced(pieces, transmission.pause):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if transmission.chunked else piece)
        if transmission.ending == "cut":
            self.close_connection = True
        elif transmission.chunked and not closing.is_set():
            self.wfile.write(b"0\r\n\r\n")

    def _paced(self, pieces: Sequence[bytes], pause: float) -> Iterator[bytes]:
        """Yield the pieces with a pause before each but the first, until the endpoint closes."""
        for number, piece in enumerate(pieces):
            if number and pause and self._listener.closing.wait(pause):
                self.close_connection = True
                return
            yield piece


def _read_form(content: bytes, content_type: str) -> JsonObject:
    """Return the fields of an uploaded form as text, and the `filename` of its file."""
    head = b"content-type: " + content_type.encode("latin-1") + b"\r\n\r\n"
    message = BytesParser(policy=HTTP).parsebytes(head + content)
    fields: JsonObject = {}
    for part in message.iter_parts() if message.is_multipart() else ():
        payload = part.get_payload(decode=True)
        name = part.get_param("name", header="content-disposition")
        fields[f"{name}"] = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
        if part.get_filename() is not None:
            fields["filename"] = part.get_filename()
    return fields


def _refusal(message: str) -> Transmission:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return Transmission(400, JSON_TYPE, [json_text({"error": error}).encode()])
