"""One MCP session as spans: a span for the session with the tools that the server offers, and one for each call.

The spans have the names of OpenTelemetry's conventions for MCP, and two of toolgrade's own. A span is written when its
call begins, and once more when it ends: whoever reads the first one alone sees a call that was cancelled.

Sources: MCP specification, "Lifecycle", "Tools", "Cancellation" and "Progress"; OpenTelemetry, "Semantic conventions
for Model Context Protocol (MCP)".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Final

from toolgrade._internal.json import json_text
from toolgrade._internal.locks import ForkSafeLock
from toolgrade._internal.message_content import Fields, as_object, object_of, part_text, parts_of, text_of
from toolgrade.formats.messages.field_readers import list_of
from toolgrade.formats.traces.tracers.tracer import CALL_STATUS, MCP_SERVER
from toolgrade.live.recorder import SpanFields, span_fields

_CALL: Final = "tools/call"
_LIST: Final = "tools/list"
_HANDSHAKES: Final = frozenset({"initialize", "server/discover"})
"""Methods whose request names the client, and whose result names the server."""
_CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
_MAX_PROGRESS: Final = 100
"""Reports of progress that are stored for a call."""


@dataclass
class _McpCall:
    """One call that is not answered yet.

    Attributes:
        name, arguments: Those of the tool, as the client sent them.
        span: Id of the call's span.
        begun: Time of the request, in nanoseconds since 1970.
        token: Value by which reports of progress name the call, `None` if the client wants no reports.
        progress: The reports, as events of the span.
    """

    name: str
    arguments: Any
    span: str
    begun: int
    token: object
    progress: list[SpanFields] = field(default_factory=list[SpanFields])


class McpSession:
    """Turns the requests and answers of one session into spans. It may be called from several threads at once.

    Attributes:
        trace: Id of the trace that the session is.
        root: Id of the session's own span.
    """

    def __init__(self, write: Callable[[SpanFields], None]) -> None:
        """Start without requests; `write` receives each span, when it begins and when it ends."""
        self.trace = token_hex(16)
        self.root = token_hex(8)
        self._write = write
        self._lock = ForkSafeLock()
        self._begun = time.time_ns()
        self._client = self._server = ""
        self._tools: dict[str, Fields] = {}
        self._knows_all_tools = False
        self._has_calls = False
        self._methods: dict[object, str] = {}
        """Methods of the requests that are not answered, other than calls, by their keys."""
        self._calls: dict[object, _McpCall] = {}

    def named(self, *, client: str, server: str) -> None:
        """Set the names of client and server, if the session began before the recording."""
        self._client, self._server = client, server

    # Requests of the client

    def requested(self, key: object, method: object, params: object) -> None:
        """Note a request; `key` is given again with its answer."""
        fields = object_of(params)
        with self._lock:
            self._client = _name_in(fields, "clientInfo", _CLIENT_INFO) or self._client
            if method == _CALL:
                self._begin(key, fields)
            elif method in _HANDSHAKES:
                self._methods[key] = str(method)
            elif method == _LIST:
                self._methods[key] = _LIST
                if not fields.get("cursor"):
                    self._tools, self._knows_all_tools = {}, False

    def _begin(self, key: object, params: Fields) -> None:
        call = _McpCall(
            name=text_of(params.get("name")) or "",
            arguments=as_object(params.get("arguments")) or {},
            span=token_hex(8),
            begun=time.time_ns(),
            token=object_of(params.get("_meta")).get("progressToken"),
        )
        self._calls[key] = call
        if not self._has_calls:
            self._has_calls = True
            self._write_session()
        self._write_call(call, None, {CALL_STATUS: "cancelled"})

    def cancelled(self, key: object, reason: object = None) -> None:
        """Note that the client gave up a request; an answer that still comes is ignored."""
        with self._lock:
            call = self._calls.pop(key, None)
            if call is not None:
                self._write_call(call, time.time_ns(), {CALL_STATUS: "cancelled"}, text_of(reason))

    # Answers of the server

    def progressed(self, params: object) -> None:
        """Note a report of progress, as an event of the call that it names."""
        fields = object_of(params)
        with self._lock:
            for call in self._calls.values():
                if call.token == fields.get("progressToken") is not None and len(call.progress) < _MAX_PROGRESS:
                    values = {key: fields[key] for key in ("progress", "total", "message") if key in fields}
                    pairs = [{"key": key, "value": {"stringValue": str(value)}} for key, value in values.items()]
                    event = {"name": "progress", "timeUnixNano": str(time.time_ns()), "attributes": pairs}
                    call.progress.append(event)

    def answered(self, key: object, result: object) -> None:
        """Note the result of a request."""
        fields = object_of(result)
        with self._lock:
            call = self._calls.pop(key, None)
            if call is not None:
                self._write_answered_call(call, fields)
                return
            method = self._methods.pop(key, None)
            if method in _HANDSHAKES:
                self._server = _name_in(fields, "serverInfo", _SERVER_INFO) or self._server
            elif method == _LIST:
                tools = map(object_of, list_of(fields.get("tools")))
                self._tools.update({str(tool["name"]): tool for tool in tools if text_of(tool.get("name"))})
                self._knows_all_tools = not fields.get("nextCursor")
                if self._has_calls:
                    self._write_session()

    def failed(self, key: object, error: str) -> None:
        """Note that a request was answered by an error."""
        with self._lock:
            self._methods.pop(key, None)
            call = self._calls.pop(key, None)
            if call is not None:
                self._write_call(call, time.time_ns(), self._unknown_tool(call), error)

    def tools_changed(self) -> None:
        """Note that the server offers other tools, which nobody has asked for yet."""
        self._knows_all_tools = False

    def ended(self, error: str | None = None) -> None:
        """Note the end of the session; calls without an answer are cancelled."""
        for key in list(self._calls):
            self.cancelled(key, error or "the session ended before the call was answered")
        with self._lock:
            if self._has_calls:
                self._write_session(time.time_ns(), error)

    # Spans

    def _write_answered_call(self, call: _McpCall, fields: Fields) -> None:
        result = {"content": [], "isError": False, **fields}
        if not result["content"] and "structuredContent" in result:
            result["content"] = [{"type": "text", "text": json_text(result["structuredContent"])}]
        attributes = {"gen_ai.tool.call.result": json_text(result)}
        error: str | None = None
        if result["isError"] is True:
            attributes |= {"error.type": "tool_error", **self._unknown_tool(call)}
            error = _text_in(result)
        self._write_call(call, time.time_ns(), attributes, error)

    def _unknown_tool(self, call: _McpCall) -> dict[str, str]:
        """Return the status of a failed call if its tool is not one that the server offers, else no attribute."""
        is_unknown = self._knows_all_tools and call.name not in self._tools
        return {CALL_STATUS: "unknown_tool"} if is_unknown else {}

    def _write_session(self, at: int | None = None, error: str | None = None) -> None:
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": self._client or "MCP client",
            "gen_ai.tool.definitions": json_text([{**tool, "type": "mcp"} for tool in self._tools.values()]),
            MCP_SERVER: self._server or None,
        }
        times = self._begun, at
        self._write(span_fields(self.trace, self.root, None, "mcp session", times, attributes, error=error))

    def _write_call(self, call: _McpCall, at: int | None, more: Mapping[str, str], error: str | None = None) -> None:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "mcp.method.name": _CALL,
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.arguments": json_text(call.arguments),
            MCP_SERVER: self._server or None,
            **more,
        }
        name = f"{_CALL} {call.name}"
        span = span_fields(self.trace, call.span, self.root, name, (call.begun, at), attributes, error=error)
        if call.progress:
            span["events"] = call.progress
        self._write(span)


def _name_in(fields: Fields, key: str, meta_key: str) -> str:
    """Return the name in the information about a client or a server, which newer sessions have in `_meta`."""
    information = as_object(fields.get(key)) or object_of(object_of(fields.get("_meta")).get(meta_key))
    return text_of(information.get("name")) or ""


def _text_in(result: Fields) -> str:
    """Return the text of a result that reports a failure."""
    texts = [part_text(part) for part in parts_of(result["content"])]
    return "\n".join(filter(None, texts)) or "failed"
