"""An MCP server over stdio for tests: tools that add, fail, wait, report progress, and end the process."""

from __future__ import annotations

import logging
import os

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

logging.disable()  # it prints the exceptions of tools
server = MCPServer("calculator")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def boom(x: int) -> str:
    """Fail."""
    raise ValueError(f"no good: {x}")


@server.tool()
async def wait() -> str:
    """Wait for longer than any test does."""
    await anyio.sleep(60)
    return "late"


@server.tool()
async def steps(context: Context) -> str:
    """Report progress."""
    await context.report_progress(1, 2, "half")
    return "done"


@server.tool()
def die() -> str:
    """End the process."""
    os._exit(3)


if __name__ == "__main__":
    server.run()
