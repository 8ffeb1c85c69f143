"""Which tools did a client of MCP call, and did it choose well? Recorded around its session.

The server runs in this process, so that the example needs no other program. Any client can be recorded without a line
of code, by a command in the place of its server: `toolgrade mcp-record --output calls.jsonl -- SERVER ARGS...`.
"""

import asyncio
import logging

from mcp import Client
from mcp.server import MCPServer

from toolgrade import ToolCall, ToolCorrectnessMetric, ToolSuccessRate, evaluate
from toolgrade.live.mcp import McpRecorder, record_session
from toolgrade.report.terminal import print_report

logging.disable(logging.INFO)  # the server reports calls that fail
server = MCPServer("weather station")


@server.tool()
def temperature(city: str) -> float:
    """Return the temperature in a city."""
    return {"Paris": 21.5, "Oslo": 9.0}[city]


async def agent(client: Client) -> None:
    """Do what a model asked for; it invents a tool at first."""
    await client.list_tools()
    await client.call_tool("thermometer", {"city": "Paris"})
    await client.call_tool("temperature", {"city": "Paris"})


async def main() -> McpRecorder:
    """Record the session of one question."""
    async with Client(server) as client:
        with record_session(client) as recorder:
            await agent(client)
    return recorder


if __name__ == "__main__":
    recorder = asyncio.run(main())
    expected = [ToolCall(name="temperature", input_parameters={"city": "Paris"}, output=21.5)]
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters", "output"], denominator="longest")
    print_report(
        evaluate([recorder.test_case(expected, id="Paris")], [metric, ToolSuccessRate()]), title="weather client"
    )
