"""Replay of MCP: sessions of a client that are answered, and the server that answers any client."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from toolgrade import Run, ToolCall, ToolSpec
from toolgrade.live.mcp import record_session
from toolgrade.replay import Fault, Tape, replay

pytest.importorskip("mcp.server.mcpserver", reason="mcp is not installed here")

from mcp import Client, ClientSession, StdioServerParameters, stdio_client
from mcp.server.mcpserver import Image, MCPServer

PICTURE = b"\x89PNG\r\n\x1a\nsome bytes"
PAID: list[Any] = []


def shop() -> MCPServer:
    """A server whose tools note that they ran."""
    server = MCPServer("shop")

    @server.tool()
    def pay(amount: int) -> str:
        PAID.append(amount)
        return f"paid {amount}"

    @server.tool()
    def price(item: str) -> dict[str, int]:
        PAID.append(item)
        return {item: 5}

    @server.tool()
    def photo() -> Image:
        PAID.append("photo")
        return Image(data=PICTURE, format="png")

    @server.tool()
    def broken() -> str:
        PAID.append("broken")
        raise ValueError("no connection")

    return server


async def visit(client: Client) -> list[Any]:
    """Call each tool; return what the client gets."""
    results = [await client.call_tool("pay", {"amount": 5}), await client.call_tool("price", {"item": "tea"})]
    results += [await client.call_tool("photo", {}), await client.call_tool("broken", {})]
    return [(result.content, result.structured_content, result.is_error) for result in results]


def visited(scene: Callable[[Client], Awaitable[Any]] = visit) -> tuple[Any, Run]:
    """The results of a session, and its recorded run."""

    async def main() -> tuple[Any, Run]:
        async with Client(shop()) as client:
            with record_session(client) as recorder:
                result = await scene(client)
        return result, recorder.last_run

    PAID.clear()
    return asyncio.run(main())


def test_a_session_is_replayed() -> None:
    """The client gets the recorded contents, with images and failures, and no tool of the server runs."""
    first, recorded = visited()
    assert len(PAID) == 4
    with replay([recorded]) as tape:
        again, run = visited()
    assert PAID == []
    assert [(content, failed) for content, _, failed in again] == [(content, failed) for content, _, failed in first]
    assert base64.b64decode(again[2][0][0].data) == PICTURE
    assert str(tape) == "4 replayed, 0 faults, 0 outside the recording"
    assert [(one.name, one.arguments, one.output) for one in run.calls] == [
        (one.name, one.arguments, one.output) for one in recorded.calls
    ]


def test_a_session_is_recorded_and_then_replayed() -> None:
    """With `all` the server runs, and what it answered is a tape."""
    with replay([], record_mode="all") as tape:
        first, _ = visited()
    assert len(PAID) == 4
    with replay(tape) as again:
        second, _ = visited()
    assert (PAID, again.left) == ([], 0)
    assert first == second
    assert first[1][1] == {"tea": 5}


def test_calls_outside_and_faults_are_errors_of_the_tool() -> None:
    """The client gets a result that is an error, with the reason."""

    async def scene(client: Client) -> list[tuple[bool, str]]:
        results = [await client.call_tool("pay", {"amount": amount}) for amount in (7, 5)]
        return [(result.is_error, result.content[0].text) for result in results]  # type: ignore[union-attr]

    recorded = Run(calls=[ToolCall(name="pay", input_parameters={"amount": 5}, output="paid 5")])
    with replay([recorded], faults=[Fault("pay", error="TimeoutError: no answer", at=2)]):
        results, _ = visited(scene)
    left = (
        'ReplayError: left the recording at call 1: pay {"amount": 7}; the closest recorded call is pay {"amount": 5}'
    )
    assert results[0] == (True, f"{left}: input_parameters.amount is 7, recorded 5")
    assert results[1] == (True, "TimeoutError: no answer")
    assert PAID == []


def test_sessions_are_as_before_after_a_replay() -> None:
    """The class has its own methods again."""
    before = dict(vars(ClientSession))
    with replay([]), replay([]):
        assert vars(ClientSession)["send_request"] is not before["send_request"]
    assert dict(vars(ClientSession)) == before
    assert visited()[0][0][0][0].text == "paid 5"


def test_any_client_is_answered_by_the_server(tmp_path: Path) -> None:
    """`toolgrade mcp-replay` offers the recorded tools over stdio, and answers each call as recorded."""
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    tools = [ToolSpec(name="pay", description="Pay.", input_schema=schema)]
    calls = [
        ToolCall(name="pay", input_parameters={"amount": 5}, output="paid 5"),
        ToolCall(name="price", input_parameters={}, output={"tea": 5}),
        ToolCall(name="broken", execution={"status": "error", "error": "ValueError: no connection"}),
    ]
    Tape([Run(input="hi", available_tools=tools, calls=calls)]).save(tmp_path / "tape.json")

    async def main() -> tuple[list[Any], list[Any]]:
        command = ["-m", "toolgrade.cli", "mcp-replay", str(tmp_path / "tape.json")]
        parameters = StdioServerParameters(command=sys.executable, args=command)
        async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
            await session.initialize()
            listed = (await session.list_tools()).tools
            asked = [("pay", {"amount": 5}), ("price", {}), ("broken", {}), ("pay", {"amount": 5})]
            return listed, [await session.call_tool(*one) for one in asked]

    listed, results = asyncio.run(main())
    assert [(tool.name, tool.description, tool.input_schema) for tool in listed] == [
        ("pay", "Pay.", schema),
        ("price", "", {"type": "object"}),
        ("broken", "", {"type": "object"}),
    ]
    texts = [(result.is_error, result.content[0].text) for result in results]
    assert texts[:3] == [(False, "paid 5"), (False, '{"tea": 5}'), (True, "ValueError: no connection")]
    assert texts[3][0]
    assert 'pay {"amount": 5}; it is recorded once, and was asked for once more' in texts[3][1]
    assert results[1].structured_content == {"tea": 5}
