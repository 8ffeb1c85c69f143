"""What do local MCP servers say? That a call failed, which the SDK shows the model as any other result.

While a run is watched, `call_tool` of its servers is looked at on its way back; the servers are as before when the last
run that uses them has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

_lock: Final = threading.Lock()
_watched: Final[dict[int, tuple[Any, int]]] = {}
"""The servers that are watched, by identity, and by how many runs."""


def watch(server: Any, said: Callable[[str], None]) -> bool:  # noqa: ANN401 - a server of any class
    """Look at what a server returns, and say what it calls an error; return whether that can be done."""
    with _lock:
        known = _watched.get(id(server))
        if known is not None:
            _watched[id(server)] = server, known[1] + 1
            return True
        own = vars(server).get("call_tool") if hasattr(server, "__dict__") else None
        call_tool = server.call_tool

        async def call_tool_and_say(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the SDK calls it
            result = await call_tool(*args, **kwargs)
            text = error_in(result)
            if text is not None:
                said(text)
            return result

        call_tool_and_say.toolmark_own = own  # type: ignore[attr-defined]
        try:
            server.call_tool = call_tool_and_say
        except (AttributeError, TypeError, ValueError):  # an object that takes no attributes
            return False
        _watched[id(server)] = server, 1
        return True


def unwatch(servers: Iterable[Any]) -> None:
    """Say that a run no longer uses these servers."""
    with _lock:
        for server in servers:
            _, uses = _watched.pop(id(server), (server, 0))
            if uses > 1:
                _watched[id(server)] = server, uses - 1
            elif uses == 1:
                own = getattr(server.call_tool, "toolmark_own", None)
                if own is not None:
                    server.call_tool = own
                else:
                    del server.call_tool


def error_in(result: Any) -> str | None:  # noqa: ANN401 - a result of any release of `mcp`
    """Return the text of a result that says that the call failed; `None` for any other."""
    if not (getattr(result, "isError", False) or getattr(result, "is_error", False)):
        return None
    texts = [text for part in getattr(result, "content", ()) or () if isinstance(text := getattr(part, "text", 0), str)]
    return "\n".join(texts) or "the MCP server said that the call failed"
