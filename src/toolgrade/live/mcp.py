"""Calls of tools over MCP, recorded around a client's session.

```python
from toolgrade.live.mcp import record_session

async with ClientSession(*streams) as session:
    with record_session(session) as recorder:
        await session.call_tool("add", {"a": 1, "b": 2})
case = recorder.test_case(expected_tools=[ToolCall(name="add")])
```

`toolgrade mcp-record` records any other client: it stands in the place of a server, see `mcp_proxy`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from toolgrade._internal.message_content import object_of, text_of
from toolgrade._internal.text import error_text
from toolgrade.capture import Sink
from toolgrade.capture.observation.spans import guarded
from toolgrade.live.mcp_session import McpSession
from toolgrade.live.recorder import SpanFields, TraceRecorder

__all__ = ["McpRecorder", "record_session"]

_GIVEN_UP: Final = frozenset({-32000, -32001, 408})
"""Codes by which a client's library reports that a connection closed or that it waited too long."""


class McpRecorder(TraceRecorder):
    """Records MCP sessions, each as a run whose agent is the client; `record_session` attaches it.

    Example:
        >>> import asyncio
        >>> from mcp import Client
        >>> from mcp.server.mcpserver import MCPServer
        >>> from toolgrade import ToolCall, ToolCorrectnessMetric
        >>> from toolgrade.live.mcp import McpRecorder, record_session
        >>> server = MCPServer("weather")
        >>> @server.tool()
        ... def get_weather(city: str) -> str:
        ...     return f"sunny in {city}"
        >>> async def main() -> McpRecorder:
        ...     async with Client(server) as client:
        ...         with record_session(client) as recorder:
        ...             await client.call_tool("get_weather", {"city": "Paris"})
        ...     return recorder
        >>> case = asyncio.run(main()).test_case(expected_tools=[ToolCall(name="get_weather")])
        >>> ToolCorrectnessMetric().measure(case).reason
        '1 matched / 1 expected = 1 (passed at 0.5).'
    """

    how_to_attach: ClassVar[str] = "call tools of the session inside `with record_session(session)`"

    @guarded
    def write(self, span: SpanFields) -> None:
        """Note a span that begins, or has ended."""
        trace_id, span_id = span["traceId"], span["spanId"]
        with self._lock:
            if "endTimeUnixNano" in span:
                trace = self._span_ended(trace_id, span_id, span)
            else:
                self._span_began(trace_id, span_id, span["name"])
                if "parentSpanId" in span:
                    return
                trace = self._store(trace_id, span)  # the session, without which its calls cannot be read
        self._deliver_ended([trace])


class record_session:  # noqa: N801 - used like a function
    """Record the calls of an MCP session: `with record_session(session) as recorder:`.

    The session is a run, from the first call on. It is observed in its `send_request`, which `call_tool` and
    `list_tools` use; tools that were listed before are not known to the run. Nothing is imported of MCP.

    Example:
        >>> import asyncio
        >>> from mcp import Client
        >>> from mcp.server.mcpserver import MCPServer
        >>> from toolgrade.live.mcp import record_session
        >>> server = MCPServer("weather")
        >>> @server.tool()
        ... def get_weather(city: str) -> str:
        ...     return f"sunny in {city}"
        >>> async def main() -> list:
        ...     async with Client(server) as client:
        ...         with record_session(client) as recorder:
        ...             await client.call_tool("get_weather", {"city": "Paris"})
        ...     return recorder.last_run.calls
        >>> [(call.name, call.arguments, call.execution.server) for call in asyncio.run(main())]
        [('get_weather', {'city': 'Paris'}, 'weather')]
    """

    def __init__(self, session: Any, *, sink: Sink | None = None, conversation: str | None = None) -> None:  # noqa: ANN401 - a class of MCP
        """Create the recorder.

        Args:
            session: A `ClientSession` of `mcp`, or a `Client` that is open.
            sink: Receives the run at the end of the block.
            conversation: Conversation of the run.
        """
        self._session = getattr(session, "session", session)
        self._recorder = McpRecorder(sink=sink, conversation=conversation)
        self._log = McpSession(self._recorder.write)
        self._earlier: Any = None

    def __enter__(self) -> McpRecorder:
        """Begin to record."""
        log, keys, send = self._log, itertools.count(), self._session.send_request
        self._earlier = vars(self._session).get("send_request")
        server = getattr(self._session, "server_info", None)  # of a session that is open already
        guarded(log.named)(client=_name_of(getattr(self._session, "_client_info", None)), server=_name_of(server))

        async def send_request(request: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as MCP declares it
            key = next(keys)
            _note_request(log, key, request)
            if options.get("progress_callback") is not None:
                options["progress_callback"] = _observed_progress(log, key, options["progress_callback"])
            try:
                result = await send(request, *args, **options)
            except BaseException as error:
                _note_error(log, key, error)
                raise
            _note_result(log, key, result)
            return result

        self._session.send_request = send_request
        return self._recorder

    def __exit__(self, *raised: object) -> None:
        """Record no further calls."""
        if self._earlier is None:
            del self._session.send_request
        else:
            self._session.send_request = self._earlier
        guarded(self._log.ended)()


def _name_of(information: object) -> str:
    return text_of(getattr(information, "name", None)) or ""


def _plain(message: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a model of MCP
    return object_of(message.model_dump(by_alias=True, mode="json", exclude_none=True))


@guarded
def _note_request(log: McpSession, key: int, request: Any) -> None:  # noqa: ANN401 - a model of MCP
    fields = _plain(request)
    params = object_of(fields.get("params"))
    log.requested(key, fields.get("method"), {**params, "_meta": {"progressToken": key}})


@guarded
def _note_result(log: McpSession, key: int, result: Any) -> None:  # noqa: ANN401 - as above
    log.answered(key, _plain(result))


@guarded
def _note_error(log: McpSession, key: int, error: BaseException) -> None:
    reply: Any = getattr(error, "error", None)  # what the server answered, of MCP's own exception
    message = text_of(getattr(reply, "message", None))
    if not isinstance(error, Exception) or getattr(reply, "code", None) in _GIVEN_UP:
        log.cancelled(key, message or error_text(error))
    else:
        log.failed(key, message or error_text(error))


def _observed_progress(log: McpSession, key: int, report: Callable[..., Any]) -> Callable[..., Any]:
    note = guarded(log.progressed)

    def observed(progress: Any, total: Any = None, message: Any = None) -> Any:  # noqa: ANN401 - as MCP declares it
        fields = {"progress": progress, "total": total, "message": message}
        note({"progressToken": key, **{name: value for name, value in fields.items() if value is not None}})
        return report(progress, total, message)

    return observed
