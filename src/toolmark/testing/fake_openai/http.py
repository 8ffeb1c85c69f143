"""How do requests and answers travel? The part of the fake endpoint that knows HTTP, and nothing of models."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from toolmark._internal.json import JsonObject, json_text, parse_json
from toolmark.errors import InvalidDataError
from toolmark.testing.fake_openai.forms import form
from toolmark.testing.fake_openai.replies import Ending

_POLL = 0.02  # seconds until the loop that accepts connections sees that it should end
_PATIENCE = 5.0  # seconds that closing waits for connections which are being answered

JSON_TYPE = {"content-type": "application/json"}


@dataclass(frozen=True)
class ReceivedRequest:
    """What a client sent.

    Attributes:
        method: Such as `POST`.
        path: Path and query, as sent.
        headers: Headers, their names in lower case; kept out of the `repr`, since they hold the key.
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
        """Name of the model that is asked; empty if none is named."""
        name = self.body.get("model")
        return name if isinstance(name, str) else ""

    @property
    def streams(self) -> bool:
        """Whether the answer should be a stream."""
        return self.body.get("stream") is True


@dataclass(frozen=True)
class Transmission:
    """One answer on its way.

    Attributes:
        status: The HTTP status.
        headers: Headers beside the length.
        pieces: The body.
        chunked: Whether the pieces are sent as a stream of unknown length.
        ending: How it ends.
        share: How much of the body is sent, where it does not end whole.
        delay: Seconds before it begins.
        pause: Seconds between two pieces.
    """

    status: int
    headers: Mapping[str, str]
    pieces: Sequence[bytes]
    chunked: bool = False
    ending: Ending = "whole"
    share: float = 1.0
    delay: float = 0.0
    pause: float = 0.0

    def sent(self) -> list[bytes]:
        """Return the pieces that are sent, the last one shortened where the answer ends early."""
        if self.ending == "whole":
            return list(self.pieces)
        body = b"".join(self.pieces)
        left = int(len(body) * self.share)
        taken: list[bytes] = []
        for piece in self.pieces:
            if left > 0:
                taken.append(piece[:left])
                left -= len(piece)
        return taken


class Listener(ThreadingHTTPServer):
    """Accepts connections on a free port of this machine, and answers each in a thread of its own."""

    request_queue_size = 128  # many conversations may begin at once

    def __init__(self, respond: Callable[[ReceivedRequest], Transmission], report: Callable[[str], None]) -> None:
        """Listen; connections wait until `serve` is called.

        Args:
            respond: Answers a request; called in many threads.
            report: Told of what the endpoint could not do.
        """
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
        """Bind, without the look-up of this machine's name that takes seconds on some."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def serve(self) -> None:
        """Begin to accept connections."""
        self._accepting.start()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as inherited
        """Answer in a thread that is known from its first moment on, so that closing finds it."""
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
        """Answer, and forget the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._connections.pop(threading.current_thread(), None)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - as inherited
        """Report what went wrong in place of writing it to the terminal; a client that went away is nothing wrong."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError) and not self.closing.is_set():
            self.report(f"a connection failed: {type(error).__name__}: {error}")

    def close(self) -> None:
        """End everything: no thread, connection or port is left. What waits is woken up."""
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
    """One connection, with one request after the other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an event of a stream leaves when it is written

    @property
    def _listener(self) -> Listener:
        return cast("Listener", self.server)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 - as inherited
        """Write nothing to the terminal."""

    def do_POST(self) -> None:
        """Read a request and answer it, whatever its method; the inherited class dispatches by name."""
        received = self._received()
        if isinstance(received, str):
            self._listener.report(f"{self.command} {self.path}: {received}")
            transmission = _refusal(received)
        else:
            transmission = self._listener.respond(received)
        try:
            self._send(transmission)
        except ConnectionError:  # the client went away, which is its right
            self.close_connection = True

    do_GET = do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815 - as above

    def _received(self) -> ReceivedRequest | str:
        """Return the request, or what is wrong with it."""
        try:
            content = self._content()
        except ValueError:
            self.close_connection = True  # where the next request begins is not known
            return "the length of the body cannot be read"
        headers = {name.lower(): value for name, value in self.headers.items()}
        text = content.decode("utf-8", "replace")
        if headers.get("content-type", "").startswith("multipart/"):
            return ReceivedRequest(self.command, self.path, headers, text, form(content, headers["content-type"]))
        try:
            body = parse_json(content, allow_nan=True) if content else {}
        except InvalidDataError as error:
            return f"the body is not JSON: {error}"
        if not isinstance(body, dict):
            return f"the body is no JSON object but {type(body).__name__}"
        return ReceivedRequest(self.command, self.path, headers, text, cast("JsonObject", body))

    def _content(self) -> bytes:
        """Return the body of a request, which says its length or comes in chunks.

        Raises:
            ValueError: A length is no number.
        """
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            length = self.headers.get("content-length", "0")
            if not length.isdecimal():  # `int` would take "-1", and the connection would be read to its end
                raise ValueError(length)
            return self.rfile.read(int(length))
        content = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            content += self.rfile.read(size)
            self.rfile.readline()  # the end of the chunk
        while self.rfile.readline().strip():  # what may follow the last one
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
        """Yield the pieces with a pause before each but the first; none further once the endpoint closes."""
        for number, piece in enumerate(pieces):
            if number and pause and self._listener.closing.wait(pause):
                self.close_connection = True
                return
            yield piece


def _refusal(why: str) -> Transmission:
    error = {"message": why, "type": "invalid_request_error", "param": None, "code": None}
    return Transmission(400, JSON_TYPE, [json_text({"error": error}).encode()])
