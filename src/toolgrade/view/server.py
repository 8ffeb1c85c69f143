"""A server of pages for one person: it answers GET requests for a few addresses, by default on this machine only.

A page of another site cannot read what it serves, even with a name that it lets point to this machine (DNS rebinding):
the `Host` of a request must be an address, `localhost` or the name that the server was started with.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import ClassVar
from urllib.parse import urlsplit

from toolgrade.errors import ConfigurationError, DataFileError
from toolgrade.report.html.page import page_source
from toolgrade.view.pages import Pages

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_IDLE_SECONDS = 60


class PageServer(ThreadingHTTPServer):
    """A server of pages, which listens when it is made."""

    daemon_threads = True

    def __init__(self, host: str, port: int, pages: Pages) -> None:
        """Listen on a host and a port; port 0 takes a free one.

        Raises:
            OSError: The host is not one of this machine, or the port is taken.
        """
        self.pages = pages
        self.host = host
        self.files: dict[str, tuple[str, bytes]] = {
            "/style.css": ("text/css", (page_source("page.css") + page_source("view.css")).encode()),
            "/script.js": ("text/javascript", page_source("view.js").encode()),
        }
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind without a look-up of the name of the host, which may take seconds."""
        TCPServer.server_bind(self)

    @property
    def address(self) -> str:
        """The address of the first page."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.server_address[1]}/"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return ipaddress.ip_address(str(self.server_address[0])).is_loopback

    def accepts(self, host: str) -> bool:
        """Return whether the `Host` of a request is one that this server has."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in {"localhost", self.host.lower()} or bool(ipaddress.ip_address(name))
        except ValueError:
            return False


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: PageServer  # pyright: ignore[reportIncompatibleVariableOverride] - the only server with this handler
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    _routes: ClassVar[dict[str, Callable[[Pages, str], str | None]]] = {"/": Pages.listing, "/case": Pages.case}

    def do_GET(self) -> None:
        """Answer a GET request."""
        if not self.server.accepts(self.headers.get("Host", "")):
            self._send(HTTPStatus.FORBIDDEN, "text/plain", b"this server does not have that name\n")
            return
        path, _, query = self.path.partition("?")
        if path in self.server.files:
            self._send(HTTPStatus.OK, *self.server.files[path])
            return
        status, page = self._page(path, query)
        self._send(status, "text/html", page.encode())

    def _page(self, path: str, query: str) -> tuple[HTTPStatus, str]:
        """Return the page of an address."""
        pages = self.server.pages
        route = self._routes.get(path)
        try:
            page = None if route is None else route(pages, query)
        except ConfigurationError as error:
            return HTTPStatus.BAD_REQUEST, pages.error("This address cannot be shown", str(error))
        except (DataFileError, OSError) as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, pages.error("This case cannot be shown", str(error))
        if page is None:
            what = "case" if path == "/case" else "page"
            return HTTPStatus.NOT_FOUND, pages.error("Not found", f"There is no such {what} here.")
        return HTTPStatus.OK, page

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def end_headers(self) -> None:
        """End the headers, with those that every answer has."""
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def version_string(self) -> str:
        """Return the name of the server, without versions."""
        return "toolgrade"

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: requests are those of one person."""
