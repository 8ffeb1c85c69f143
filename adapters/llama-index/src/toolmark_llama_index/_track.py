"""How are functions seen that CodeAct code calls? LlamaIndex tells nothing of them, so they are wrapped by hand."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]  # its public name

_Function = TypeVar("_Function", bound=Callable[..., Any])


_span = get_dispatcher(__name__).span


class Tracked:
    """A function whose calls are seen: what the instrumentation names as the instance of its spans."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Wrap a function."""
        self.function = function
        self.name: str = getattr(function, "__name__", type(function).__name__)

    @_span
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        return self.function(*args, **kwargs)

    @_span
    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Await it."""
        return await self.function(*args, **kwargs)

    def names(self) -> list[str]:
        """Return the names of its arguments."""
        return list(inspect.signature(self.function).parameters)


def track(function: _Function) -> _Function:
    """Make calls of a function visible to recorders, for functions that the code of a CodeAct agent calls.

    The result is called like the function, sync or async; give it both to the agent and to what executes the code. A
    call inside a tool (`execute`) becomes a child of that call, made by code. Outside recorded runs nothing is noted.
    What runs in another process, or in a thread that was not given the context, is not seen.
    """
    tracked = Tracked(function)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await tracked.acall(*args, **kwargs)

        return cast("_Function", awaited)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return tracked.call(*args, **kwargs)

    return cast("_Function", called)
