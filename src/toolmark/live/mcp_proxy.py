"""`toolmark mcp-record`: stands in the place of an MCP server over stdio, and writes the calls to a file as spans."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final, cast

from toolmark._internal.json import json_text
from toolmark._internal.message_content import as_object, object_of, text_of
from toolmark.capture.observation.spans import guarded
from toolmark.live.mcp_session import McpSession
from toolmark.live.recorder import SpanFields
from toolmark.redact import DEFAULT, Redactor

_CHUNK: Final = 1 << 16
_MAX_LINE: Final = 1 << 26
"""Bytes of one message that is recorded; longer ones only pass through."""
_GRACE: Final = 5.0
"""Seconds that a server has to exit after it closed its output."""


def run_proxy(command: Sequence[str], output: str | os.PathLike[str], *, redactor: Redactor = DEFAULT) -> int:
    """Run an MCP server over stdio, pass all bytes between it and this process, and record its calls.

    Standard input and output are the client's. The file receives lines of OTLP as JSON, one when a call begins and one
    when it ends, which `toolmark score` reads as a run for each session. What is written is redacted; what passes
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
    file = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    session = McpSession(LineWriter(file, redactor).write)
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)  # noqa: S603 - the user's own command
    server_input, server_output = cast("IO[bytes]", server.stdin), cast("IO[bytes]", server.stdout)
    client_left = threading.Event()

    def terminate(*_: object) -> None:
        client_left.set()
        server.terminate()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, terminate)

    def pass_requests() -> None:
        if not _pass(sys.stdin.fileno(), server_input.fileno(), Messages(session, from_client=True)):
            client_left.set()
        with suppress(OSError):
            server_input.close()

    threading.Thread(target=pass_requests, daemon=True).start()
    answers = Messages(session, from_client=False)
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


def _pass(source: int, target: int, messages: Messages) -> bool:
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


class LineWriter:
    """Writes spans to a file as lines of OTLP, each by one system call, so that a killed process loses none."""

    def __init__(self, file: int, redactor: Redactor) -> None:
        self._file = file
        self._redactor = redactor
        self._has_failed = False

    def write(self, span: SpanFields) -> None:
        """Write a span, without secrets."""
        events: list[SpanFields] = span.get("events", [])
        for fields in (span, *events):
            for pair in fields["attributes"]:
                pair["value"] = {"stringValue": self._redactor(pair["value"]["stringValue"])}
        if "status" in span:
            span["status"]["message"] = self._redactor(span["status"]["message"])
        line = json_text({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "toolmark"}, "spans": [span]}]}]})
        try:
            os.write(self._file, line.encode() + b"\n")
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                os.write(2, f"toolmark mcp-record: calls are not recorded: {error.strerror or error}\n".encode())


class Messages:
    """Reads the messages in the bytes of one direction, line by line, and notes them in the session."""

    def __init__(self, session: McpSession, *, from_client: bool) -> None:
        self.from_client = from_client
        self._session = session
        self._note = guarded(self._note_request if from_client else self._note_answer)
        self._line = bytearray()

    def feed(self, data: bytes) -> None:
        """Read further bytes."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line += line
            if len(self._line) <= _MAX_LINE:
                self._read(bytes(self._line))
            self._line.clear()
        if len(self._line) <= _MAX_LINE:
            self._line += rest

    def _read(self, line: bytes) -> None:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return  # not a message: it passes through all the same
        for message in value if isinstance(value, list) else [value]:  # older versions have batches
            self._note(object_of(message))

    def _note_request(self, message: Mapping[str, Any]) -> None:
        method, params = message.get("method"), object_of(message.get("params"))
        if method == "notifications/cancelled":
            self._session.cancelled(_key(params.get("requestId")), params.get("reason"))
        elif method is not None and "id" in message:
            self._session.requested(_key(message["id"]), method, params)

    def _note_answer(self, message: Mapping[str, Any]) -> None:
        method = message.get("method")
        if method == "notifications/progress":
            self._session.progressed(message.get("params"))
        elif method == "notifications/tools/list_changed":
            self._session.tools_changed()
        elif method is None and "error" in message:
            error = object_of(message["error"])
            self._session.failed(_key(message.get("id")), text_of(error.get("message")) or json_text(message["error"]))
        elif method is None and as_object(message.get("result")) is not None:
            self._session.answered(_key(message.get("id")), message["result"])


def _key(value: object) -> str:
    """Return the key of an id: 1 and "1" are two ids."""
    return json_text(value)
