"""Errors that local MCP servers report, which the SDK shows the model like any other result.

`call_tool` of the servers of an observed run is wrapped while the run goes on, and restored when the last run that uses
the server has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

_lock: Final = threading.Lock()
_users: Final[dict[int, tuple[Any, int]]] = {}
"""The wrapped servers by identity, each with the number of runs that use it."""


def wrap(server: Any, report: Callable[[str], None]) -> bool:
    """Report the errors that a server returns; return whether its `call_tool` can be wrapped."""
    with _lock:
        users = _users.get(id(server))
        if users is not None:
            _users[id(server)] = server, users[1] + 1
            return True
        # An attribute of the instance must be put back; otherwise, deleting ours uncovers the class's method.
        own = vars(server).get("call_tool") if hasattr(server, "__dict__") else None
        call_tool = server.call_tool

        async def reporting_call_tool(*args: Any, **kwargs: Any) -> Any:
            result = await call_tool(*args, **kwargs)
            text = error_in(result)
            if text is not None:
                report(text)
            return result

        reporting_call_tool.toolmark_own = own  # type: ignore[attr-defined]
        try:
            server.call_tool = reporting_call_tool
        except (AttributeError, TypeError, ValueError):  # an object that takes no attributes
            return False
        _users[id(server)] = server, 1
        return True


def unwrap(servers: Iterable[Any]) -> None:
    """Release the servers of a run that ended."""
    with _lock:
        for server in servers:
            _, uses = _users.pop(id(server), (server, 0))
            if uses > 1:
                _users[id(server)] = server, uses - 1
            elif uses == 1:
                own = getattr(server.call_tool, "toolmark_own", None)
                if own is not None:
                    server.call_tool = own
                else:
                    del server.call_tool


def error_in(result: Any) -> str | None:
    """Return the text of a result that is marked as an error; `None` for any other result."""
    # `mcp` renamed the field between its releases.
    if not (getattr(result, "isError", False) or getattr(result, "is_error", False)):
        return None
    texts = [getattr(part, "text", None) for part in getattr(result, "content", ()) or ()]
    return "\n".join(text for text in texts if isinstance(text, str)) or "the MCP server reported an error"
