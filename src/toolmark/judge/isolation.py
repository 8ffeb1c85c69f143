"""Isolation of a judge's request from the recorders and traces of the run around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


async def run_isolated(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what `work` returns, awaited in an empty context: no context variable of the caller is set in it.

    Recorders, callbacks and traces of agent frameworks find their run by context variables. A judge that is asked while
    an agent runs is not part of that run, so it must not inherit them.
    """
    return await Context().run(lambda: asyncio.ensure_future(work()))
