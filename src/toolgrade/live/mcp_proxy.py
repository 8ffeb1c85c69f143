"""The proxy of `toolgrade mcp-record`, which an MCP client starts in the place of its server.

The proxy starts the server, passes bytes between the two over stdio, and writes the calls to a file as spans.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, Final, cast

from toolgrade.capture.observation.spans import guarded
from toolgrade.live.mcp_messages import LineWriter, MessageLines
from toolgrade.live.mcp_session import McpSession
from toolgrade.redact import DEFAULT, Redactor

_CHUNK: Final = 1 << 16
"""Most bytes that are read at once."""
_GRACE: Final = 5.0
"""Seconds that a server has to exit after it closed its output."""


def run_proxy(command: Sequence[str], output: str | os.PathLike[str], *, redactor: Redactor = DEFAULT) -> int:
    """Run an MCP server over stdio, pass all bytes between it and this process, and record its calls.

    Standard input and output are the client's. The file receives lines of OTLP as JSON, one when a call begins and one
    when it ends, which `toolgrade score` reads as a run for each session. What is written is redacted; what passes
    through is not changed. Several proxies may write to one file.

    Args:
        command: The command of the server.
        output: The file, to which lines are added.
        redactor: Removes secrets from what is written.

    Returns:
        The exit code of the server, as a shell reports it.

    Raises:
        OSError: The file cannot be opened, or the server cannot be started.
    """
    session = McpSession(LineWriter.open(output, redactor).write)
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)  # noqa: S603 - the user's own command
    server_input, server_output = cast("IO[bytes]", server.stdin), cast("IO[bytes]", server.stdout)
    stop_requested = threading.Event()  # the client closed its end, or a signal stops this process

    def terminate(*_: object) -> None:
        stop_requested.set()
        server.terminate()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, terminate)

    def pass_requests() -> None:
        requests = MessageLines(session, from_client=True)
        for data in _chunks(sys.stdin.fileno()):
            requests.feed(data)  # a request must be noted before its answer can come
            if not _write_all(server_input.fileno(), data):
                break  # the server is gone
        else:
            stop_requested.set()
        with suppress(OSError):
            server_input.close()

    threading.Thread(target=pass_requests, daemon=True).start()
    answers = MessageLines(session, from_client=False)
    for data in _chunks(server_output.fileno()):
        _write_all(sys.stdout.fileno(), data)  # when the client is gone, the server's last answers are still recorded
        answers.feed(data)
    try:
        code = server.wait(_GRACE)
    except subprocess.TimeoutExpired:
        server.kill()
        code = server.wait()
    problem = None
    if code and not stop_requested.is_set():
        problem = f"the server ended with exit code {code}"
    guarded(session.ended)(problem)
    return code if code >= 0 else 128 - code  # `Popen` has -9 for signal 9, a shell reports 128 + 9


def _chunks(source: int) -> Iterator[bytes]:
    """Yield the bytes of a stream as they come, until it ends or cannot be read any more."""
    with suppress(OSError):
        while data := os.read(source, _CHUNK):
            yield data


def _write_all(target: int, data: bytes) -> bool:
    """Write bytes to a stream; return `False` if it is closed at its other end."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(target, view) :]
    except OSError:
        return False
    return True
