"""A real HTTP server on loopback that forwards requests to an endpoint, and changes its answers on the way back."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from typing_extensions import Self


@dataclass(frozen=True)
class Answer:
    """An answer that can still be changed: `kind` says to which request, such as `GET /v1/batches/batch_1`."""

    kind: str
    status: int
    body: bytes
    reason: str = "OK"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cut: bool = False
    """The connection is closed before the announced end of the body."""

    def with_body(self, body: bytes) -> Answer:
        """Return this with another body."""
        return replace(self, body=body)


Change = Callable[[Answer], Answer]


class HostileProxy:
    """Forwards to a port of this machine; `change` returns the answer to send."""

    def __init__(self, port: int, change: Change) -> None:
        """Begin to listen."""
        self.change = change
        self.kinds: list[str] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("content-length", "0")))
                upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                upstream.request(self.command, self.path, content, dict(self.headers.items()))
                response = upstream.getresponse()
                kind = f"{self.command} {self.path.partition('?')[0]}"
                proxy.kinds.append(kind)
                answer = proxy.change(Answer(kind, response.status, response.read()))
                upstream.close()
                length = len(answer.body) + (1 if answer.cut else 0)
                head = {"content-type": "application/json", **answer.headers, "content-length": str(length)}
                lines = [f"HTTP/1.1 {answer.status} {answer.reason}", *(f"{k}: {v}" for k, v in head.items())]
                self.wfile.write("\r\n".join([*lines, "", ""]).encode("latin-1") + answer.body)
                self.close_connection = answer.cut

            do_GET = do_POST  # noqa: N815 - the base class dispatches by name

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        """Serve in a thread."""
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
