"""`toolgrade mcp-record --url`: a proxy for an MCP server over Streamable HTTP on this machine.

Each connection of a client is one to the server; the bytes of both directions pass unchanged and are read on the way.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from toolgrade._internal.message_content import text_of
from toolgrade.capture.observation.spans import guarded
from toolgrade.errors import ConfigurationError
from toolgrade.live.http_reader import HttpReader
from toolgrade.live.mcp_messages import (
    MAX_MESSAGE,
    LineWriter,
    error_in,
    key_of,
    messages_in,
    note_answer,
    note_request,
)
from toolgrade.live.mcp_session import HELLO, McpSession
from toolgrade.redact import DEFAULT, Redactor

_CHUNK: Final = 1 << 16
_SESSION: Final = "mcp-session-id"
_MAX_SESSIONS: Final = 1000
"""Sessions that are open at the same time; a further one ends the oldest."""
_CLOSED: Final = "the connection closed before the call was answered"
_BAD_GATEWAY: Final = (
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
)


_numbers = itertools.count()
"""Numbers of requests that have no session."""

# The sessions


class HttpSessions:
    """The sessions of a server. Requests without an id of a session belong to one that the last greeting began."""

    def __init__(self, write: Callable[[Any], None]) -> None:
        self._write = write
        self._open: dict[str, McpSession] = {}
        """By their ids; by ids of our own if they have none."""
        self._numbers = itertools.count()
        self._without_id = ""

    def of_request(self, session_id: str | None, *, is_greeting: bool) -> McpSession:
        """Return the session of a request."""
        if session_id is None:
            if is_greeting or self._without_id not in self._open:
                self._without_id = f"no id {next(self._numbers)}"
            session_id = self._without_id
        if session_id not in self._open:  # with an id, it began before the proxy did
            self.add(session_id, McpSession(self._write))
        return self._open[session_id]

    def add(self, session_id: str, session: McpSession) -> None:
        """Note the id that a server gave a session."""
        if session is self._open.get(self._without_id):
            del self._open[self._without_id]
        self._open[session_id] = session
        if len(self._open) > _MAX_SESSIONS:
            self.end(next(iter(self._open)))

    def end(self, session_id: str | None) -> None:
        """Note that a client ended a session."""
        session = self._open.pop(str(session_id), None)
        if session is not None:
            guarded(session.ended)()

    def end_all(self) -> None:
        """Note that the proxy ends."""
        for session_id in list(self._open):
            self.end(session_id)


# One connection


@dataclass
class _Exchange:
    """A request and its response. `scope` tells requests apart that belong to no session."""

    method: str
    session_id: str | None
    scope: str
    session: McpSession | None = None
    keys: list[str] = field(default_factory=list[str])
    """Keys of the requests of MCP in the body."""
    status: str = ""
    error: str | None = None


class Connection:
    """The exchanges of one connection: `requests` and `responses` read the bytes of its two directions."""

    def __init__(self, sessions: HttpSessions) -> None:
        self._sessions = sessions
        self._waiting: deque[_Exchange] = deque()
        """Exchanges whose response has not begun."""
        self.requests = HttpReader(_Requests(self), of_responses=False)
        self.responses = HttpReader(_Responses(self), of_responses=True)

    def request_begins(self, method: str, session_id: str | None) -> _Exchange:
        """Note the head of a request."""
        scope = "" if session_id is not None else f"{next(_numbers)} "
        self._waiting.append(_Exchange(method, session_id, scope))
        return self._waiting[-1]

    def request_ends(self, exchange: _Exchange, content: bytes) -> None:
        """Note the messages in a request."""
        messages = messages_in(content)
        is_greeting = any(text_of(message.get("method")) in HELLO for message in messages)
        exchange.session = self._sessions.of_request(exchange.session_id, is_greeting=is_greeting)
        for message in messages:
            key = key_of(message, exchange.scope)
            if key is not None and "method" in message:
                exchange.keys.append(key)
            note_request(exchange.session, message, exchange.scope)

    def response_begins(self, status: str, session_id: str | None) -> _Exchange | None:
        """Note the head of a response, and return its exchange; a server may also respond before it closes."""
        if not self._waiting:
            return None
        exchange = self._waiting.popleft()
        exchange.status = status
        if session_id is not None and exchange.session_id is None and exchange.session is not None:
            self._sessions.add(session_id, exchange.session)
        return exchange

    def answered(self, exchange: _Exchange, content: bytes) -> None:
        """Note the messages in a response, or in an event of it."""
        if exchange.session is None:
            return
        for message in messages_in(content):
            if "error" in message:
                exchange.error = error_in(message)
            note_answer(exchange.session, message, exchange.scope)

    def response_ends(self, exchange: _Exchange) -> None:
        """Note the end of a response. An error fails the calls; without a session, no other response answers them."""
        is_error = exchange.status[:1] in ("4", "5")
        if exchange.method == "DELETE" and not is_error:
            self._sessions.end(exchange.session_id)
        if exchange.session is None:
            return
        for key in exchange.keys:
            if is_error:
                exchange.session.failed(key, exchange.error or f"HTTP {exchange.status}")
            elif exchange.session_id is None:
                exchange.session.cancelled(key, _CLOSED)

    def close(self) -> None:
        """Note the end of the connection. In a session, a client may fetch an answer by another one."""
        guarded(self.responses.close)()
        for exchange in self._waiting:
            if exchange.session_id is None:
                self.response_ends(exchange)


class _Requests:
    """Receives what a client sends."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._exchange: _Exchange
        self._content = bytearray()

    def begin(self, line: str, headers: Mapping[str, str]) -> bool:
        self._content.clear()
        self._exchange = self._connection.request_begins(line.partition(" ")[0], headers.get(_SESSION))
        return True

    def body(self, data: bytes) -> None:
        if len(self._content) <= MAX_MESSAGE:
            self._content += data

    def end(self) -> None:
        self._connection.request_ends(self._exchange, bytes(self._content))


class _Responses:
    """Receives what a server sends."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._exchange: _Exchange | None = None
        self._decode: Callable[[bytes], bytes] = bytes
        self._is_stream = False
        self._content = bytearray()
        """The body, or the data of the current event."""
        self._line = bytearray()

    def begin(self, line: str, headers: Mapping[str, str]) -> bool:
        status = line.partition(" ")[2]
        if status.startswith("1"):  # the response itself follows
            self._exchange = None
            return False
        self._content.clear()
        self._line.clear()
        self._is_stream = headers.get("content-type", "").lower().startswith("text/event-stream")
        self._decode = _decoder(headers.get("content-encoding", "identity").lower())
        self._exchange = self._connection.response_begins(status, headers.get(_SESSION))
        method = "" if self._exchange is None else self._exchange.method
        return method != "HEAD" and not status.startswith(("204", "304"))

    def body(self, data: bytes) -> None:
        if len(self._content) + len(self._line) > MAX_MESSAGE:
            return
        if not self._is_stream:
            self._content += self._decode(data)
            return
        *lines, rest = self._decode(data).split(b"\n")
        for line in lines:
            self._line += line
            self._read_line(bytes(self._line).removesuffix(b"\r"))
            self._line.clear()
        self._line += rest

    def _read_line(self, line: bytes) -> None:
        """Read a line of a stream of events; an empty one ends an event."""
        if line.startswith(b"data:"):
            self._content += line[5:] + b"\n"
        elif not line:
            self._read_content()

    def _read_content(self) -> None:
        if self._exchange is not None:
            self._connection.answered(self._exchange, bytes(self._content))
        self._content.clear()

    def end(self) -> None:
        if self._exchange is not None:
            if not self._is_stream:
                self._read_content()
            self._connection.response_ends(self._exchange)
        self._exchange = None


def _decoder(encoding: str) -> Callable[[bytes], bytes]:
    """Return what decodes the body of a response; one in an encoding that Python does not know is not recorded."""
    if encoding in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(wbits=47).decompress  # 47: with the header of either
    return bytes if encoding == "identity" else lambda _: b""


# The proxy


def run_http_proxy(
    url: str,
    output: str | os.PathLike[str],
    *,
    listen: int = 0,
    ready: Callable[[str], None] = lambda _: None,
    redactor: Redactor = DEFAULT,
) -> None:
    """Pass all bytes between clients and an MCP server over HTTP on this machine, and record the calls, until stopped.

    SIGINT and SIGTERM stop it. The file receives what `run_proxy` writes; each session is a run.

    Args:
        url: The address of the server.
        output: The file, to which lines are added.
        listen: The port for clients; 0 takes a free one.
        ready: Receives the address for clients.
        redactor: Removes secrets from what is written.

    Raises:
        ConfigurationError: The address is not one of HTTP on this machine.
        OSError: The file cannot be opened, or the port is taken.
    """
    host, port = _address(url)
    if port is None or not _is_local(host):
        raise ConfigurationError(
            f"the URL must be http:// on this machine, such as http://127.0.0.1:8000/mcp; got {url!r}"
        )
    sessions = HttpSessions(LineWriter.open(output, redactor).write)

    async def serve() -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):  # on Windows, Ctrl-C raises
                asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        server = await asyncio.start_server(partial(_connect, sessions, host, port), "127.0.0.1", listen)
        ready(urlsplit(url)._replace(netloc=f"127.0.0.1:{server.sockets[0].getsockname()[1]}").geturl())
        await stopped.wait()
        server.close()

    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(serve())
    finally:
        sessions.end_all()


def _address(url: str) -> tuple[str, int | None]:
    """Return host and port of an address of HTTP; no port for another one."""
    parts = urlsplit(url)
    with suppress(ValueError):
        return parts.hostname or "", (parts.port or 80 if parts.scheme == "http" else None)
    return "", None


def _is_local(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


async def _connect(
    sessions: HttpSessions, host: str, port: int, client: asyncio.StreamReader, to_client: asyncio.StreamWriter
) -> None:
    """Pass the bytes of one connection, until it or the proxy ends."""
    with suppress(asyncio.CancelledError):  # asyncio reports connections that were cancelled as errors
        await _pass_both(Connection(sessions), host, port, client, to_client)


async def _pass_both(
    connection: Connection, host: str, port: int, client: asyncio.StreamReader, to_client: asyncio.StreamWriter
) -> None:
    try:
        server, to_server = await asyncio.open_connection(host, port)
    except OSError as error:
        await _refuse(connection, client, to_client, error.strerror or str(error))
        return
    requests = asyncio.create_task(_pass(client, to_server, connection.requests, notes_first=True))
    try:
        await _pass(server, to_client, connection.responses, notes_first=False)
    finally:
        requests.cancel()
        to_server.close()
        to_client.close()
        connection.close()


async def _refuse(
    connection: Connection, client: asyncio.StreamReader, to_client: asyncio.StreamWriter, reason: str
) -> None:
    """Answer in the place of a server that does not listen."""
    text = f"toolgrade mcp-record: the server does not answer: {reason}\n".encode()
    response = _BAD_GATEWAY % (len(text), text)
    with suppress(OSError):
        guarded(connection.requests.feed)(await client.read(_CHUNK))
        to_client.write(response)
        guarded(connection.responses.feed)(response)
        to_client.close()


async def _pass(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, reader: HttpReader, *, notes_first: bool
) -> None:
    """Pass bytes on until the source ends or the target is gone.

    A request is noted first, so that it is in the file before its answer can come; an answer is not made to wait.
    """
    feed = guarded(reader.feed)
    with suppress(OSError):
        while data := await source.read(_CHUNK):
            if notes_first:
                feed(data)
            target.write(data)
            if not notes_first:
                feed(data)
            await target.drain()
        target.write_eof()
