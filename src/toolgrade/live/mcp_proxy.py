"""`toolgrade mcp-record`: stands in the place of an MCP server over stdio, and writes the calls to a file as spans."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Final, cast

from toolgrade.capture.observation.spans import guarded
from toolgrade.live.mcp_messages import LineWriter, MessageLines
from toolgrade.live.mcp_session import McpSession
from toolgrade.redact import DEFAULT, Redactor

_CHUNK: Final = 1 << 16
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
    client_left = threading.Event()

    def terminate(*_: object) -> None:
        client_left.set()
        server.terminate()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, terminate)

    def pass_requests() -> None:
        if not _pass(sys.stdin.fileno(), server_input.fileno(), MessageLines(session, from_client=True)):
            client_left.set()
        with suppress(OSError):
            server_input.close()

    threading.Thread(target=pass_requests, daemon=True).start()
    answers = MessageLines(session, from_client=False)
    # When the client is gone, the server's last answers still belong to the recording.
    while _pass(server_output.fileno(), sys.stdout.fileno(), answers):
        pass
    try:
        code = server.wait(_GRACE)
    except subprocess.TimeoutExpired:
        server.kill()
        code = server.wait()
    guarded(session.ended)(None if client_left.is_set() or not code else f"the server ended with exit code {code}")
    return code if code >= 0 else 128 - code


def _pass(source: int, target: int, messages: MessageLines) -> bool:
    """Pass bytes on until the source ends; return `True` if only the target is gone, after one chunk for nobody."""
    while True:
        try:
            data = os.read(source, _CHUNK)
        except OSError:
            return False
        if not data:
            return False
        if messages.from_client:  # a request must be noted before its answer can come
            messages.feed(data)
        is_gone = not _write_all(target, data)
        if not messages.from_client:
            messages.feed(data)
        if is_gone:
            return True


def _write_all(target: int, data: bytes) -> bool:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(target, view) :]
    except OSError:
        return False
    return True
