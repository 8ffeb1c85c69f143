"""Failures of local MCP servers: errors that they report, which the SDK shows like any result, and their exceptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolgrade_openai_agents._errors import error_text


def reporting_call_tool(call_tool: Any, report: Callable[[str | None], None]) -> Any:
    """Return a server's `call_tool` with a report of the error of each call, `None` if it succeeded."""

    async def reporting(*args: Any, **kwargs: Any) -> Any:
        try:
            result = await call_tool(*args, **kwargs)
        except Exception as error:
            report(error_text(error))
            raise
        report(error_in(result))
        return result

    return reporting


def error_in(result: Any) -> str | None:
    """Return the text of a result that is marked as an error; `None` for any other result."""
    # `mcp` renamed the field between its releases.
    if not (getattr(result, "isError", False) or getattr(result, "is_error", False)):
        return None
    texts = [getattr(part, "text", None) for part in getattr(result, "content", ()) or ()]
    return "\n".join(text for text in texts if isinstance(text, str)) or "the MCP server reported an error"
