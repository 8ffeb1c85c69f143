"""How is a model asked through an agent framework without anybody watching? In a context of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


async def apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what `work` returns, awaited where no context variable of the caller is set.

    Recorders, callbacks and traces of agent frameworks find what belongs to them by context variables. A judge that is
    asked from within an agent's run is no part of that run, so it must not inherit them.
    """
    return await Context().run(lambda: asyncio.ensure_future(work()))
