"""JSON-RPC messages of MCP that pass through a proxy: read from bytes, noted in a session, and written to a file.

Source: MCP specification, "Transports", section "stdio": one message a line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from toolgrade._internal.json import json_text
from toolgrade._internal.message_content import as_object, object_of, text_of
from toolgrade.capture.observation.spans import guarded
from toolgrade.live.mcp_session import McpSession
from toolgrade.live.recorder import SpanFields
from toolgrade.redact import Redactor

_MAX_MESSAGE: Final = 1 << 26
"""Bytes of one message that is recorded; longer ones only pass through."""


class LineWriter:
    """Writes spans to a file as lines of OTLP, each by one system call, so that a killed process loses none."""

    def __init__(self, file: int, redactor: Redactor) -> None:
        self._file = file
        self._redactor = redactor
        self._has_failed = False

    @classmethod
    def open(cls, output: str | os.PathLike[str], redactor: Redactor) -> LineWriter:
        """Return a writer of a file, to which it adds lines.

        Raises:
            OSError: The file cannot be opened.
        """
        return cls(
            os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), redactor
        )

    def write(self, span: SpanFields) -> None:
        """Write a span, without secrets."""
        events: list[SpanFields] = span.get("events", [])
        for fields in (span, *events):
            for pair in fields["attributes"]:
                pair["value"] = {"stringValue": self._redactor(pair["value"]["stringValue"])}
        if "status" in span:
            span["status"]["message"] = self._redactor(span["status"]["message"])
        line = json_text({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "toolgrade"}, "spans": [span]}]}]})
        try:
            os.write(self._file, line.encode() + b"\n")
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                os.write(2, f"toolgrade mcp-record: calls are not recorded: {error.strerror or error}\n".encode())


def _messages_in(text: bytes) -> list[Mapping[str, Any]]:
    """Return the messages in a JSON text: one, or those of a batch. Anything else passes, and has none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [object_of(message) for message in (value if isinstance(value, list) else [value])]


def _key_of(message: Mapping[str, Any]) -> str | None:
    """Return the key of a request or an answer, `None` without an id: 1 and "1" are two ids."""
    return json_text(message["id"]) if "id" in message else None


@guarded
def _note_request(session: McpSession, message: Mapping[str, Any]) -> None:
    """Note what a client sent."""
    method, params = message.get("method"), object_of(message.get("params"))
    key = _key_of(message)
    if method == "notifications/cancelled":
        session.cancelled(json_text(params.get("requestId")), params.get("reason"))
    elif method is not None and key is not None:
        session.requested(key, method, params)


@guarded
def _note_answer(session: McpSession, message: Mapping[str, Any]) -> None:
    """Note what a server sent."""
    method, key = message.get("method"), _key_of(message)
    if method == "notifications/progress":
        session.progressed(message.get("params"))
    elif method == "notifications/tools/list_changed":
        session.tools_changed()
    elif method is None and "error" in message:
        session.failed(key, _error_in(message))
    elif method is None and as_object(message.get("result")) is not None:
        session.answered(key, message["result"])


def _error_in(message: Mapping[str, Any]) -> str:
    """Return the text of the error that a server answered with."""
    return text_of(object_of(message["error"]).get("message")) or json_text(message["error"])


class MessageLines:
    """Reads the messages in the bytes of one direction, line by line, and notes them in the session."""

    def __init__(self, session: McpSession, *, from_client: bool) -> None:
        self._session = session
        self._note = _note_request if from_client else _note_answer
        self._line = bytearray()

    def feed(self, data: bytes) -> None:
        """Read further bytes."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line += line
            if len(self._line) <= _MAX_MESSAGE:
                for message in _messages_in(bytes(self._line)):
                    self._note(self._session, message)
            self._line.clear()
        if len(self._line) <= _MAX_MESSAGE:
            self._line += rest
