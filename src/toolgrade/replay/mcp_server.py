"""An MCP server over stdio that offers recorded tools, and answers from the recording.

Source: MCP specification, "Tools": `tools/list` and `tools/call`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from toolgrade._internal.json import JsonObject
from toolgrade.calls import ToolSpec
from toolgrade.capture.doubles import Answer
from toolgrade.errors import MissingPackageError
from toolgrade.replay.mcp_sessions import result_of
from toolgrade.replay.tape import Tape


def serve(tape: Tape) -> None:
    """Serve the tools of a tape until the client closes the connection.

    Raises:
        MissingPackageError: `mcp` is not installed.
    """
    try:
        types: Any = import_module("mcp").types
        server_class: Any = import_module("mcp.server.lowlevel").Server
        stdio: Any = import_module("mcp.server.stdio").stdio_server
    except ImportError as error:
        raise MissingPackageError.of("mcp", "toolgrade mcp-replay") from error
    cursor = tape.whole()

    async def list_tools(*_: object) -> Any:  # noqa: ANN401 - a model of MCP
        return types.ListToolsResult.model_validate({"tools": list(map(_described, tools_of(tape)))})

    async def call_tool(*received: Any) -> Any:  # noqa: ANN401 - as MCP declares it
        params = getattr(received[-1], "params", received[-1])  # `mcp` 1 passes the request
        answer = cursor.ask(params.name, params.arguments or {})
        assert isinstance(answer, Answer)  # noqa: S101 - a tape that records nothing runs nothing
        return types.CallToolResult.model_validate(result_of(answer))

    async def run() -> None:
        try:
            server = server_class("toolgrade-replay", on_list_tools=list_tools, on_call_tool=call_tool)
        except TypeError:  # `mcp` 1
            server = server_class("toolgrade-replay")
            for request, handler in ((types.ListToolsRequest, list_tools), (types.CallToolRequest, call_tool)):
                server.request_handlers[request] = _in_server_result(types, handler)
        async with stdio() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    asyncio.run(run())


def _in_server_result(types: Any, handler: Any) -> Any:  # noqa: ANN401 - of MCP
    async def handle(request: Any) -> Any:  # noqa: ANN401 - of MCP
        return types.ServerResult(await handler(request))

    return handle


def tools_of(tape: Tape) -> list[ToolSpec]:
    """Return the tools of a tape: those that were offered, and those that were called."""
    tools: dict[str, ToolSpec] = {}
    for run in tape.runs:
        for tool in run.tools:
            tools.setdefault(tool.name, tool)
    for run in tape.runs:
        for call in run.calls:
            tools.setdefault(call.name, ToolSpec(name=call.name))
    return list(tools.values())


def _described(tool: ToolSpec) -> JsonObject:
    schema: Mapping[str, Any] = tool.input_schema or {}
    return {"name": tool.name, "description": tool.description or "", "inputSchema": {"type": "object", **schema}}
