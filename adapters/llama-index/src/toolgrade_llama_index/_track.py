"""Functions that the code of a CodeAct agent calls, wrapped so that LlamaIndex's instrumentation reports them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]  # its public name

_Function = TypeVar("_Function", bound=Callable[..., Any])


_span = get_dispatcher(__name__).span


class Tracked:
    """A wrapped function, which its spans have as their instance."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Wrap a function."""
        self.function = function
        self.name: str = getattr(function, "__name__", type(function).__name__)

    @_span
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    @_span
    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Await the function."""
        return await self.function(*args, **kwargs)

    def names(self) -> list[str]:
        """Return the names of its parameters."""
        return list(inspect.signature(self.function).parameters)


def track(function: _Function) -> _Function:
    """Return a function whose calls recorders observe, for functions that the code of a CodeAct agent calls.

    It is called like the original, sync or async. Pass it both to the agent and to whatever executes the code. A call
    inside a tool (`execute`) becomes a child of that call, made by code. Outside of recorded runs nothing is observed,
    nor is a call in another process or in a thread without a copy of the context.

    Example:
        >>> from toolgrade_llama_index import ToolCallRecorder, track
        >>> @track
        ... def get_weather(city: str) -> str:
        ...     return f"sunny in {city}"
        >>> with ToolCallRecorder() as recorder, recorder.single_run("What is the weather in Paris?"):
        ...     weather = get_weather("Paris")
        >>> [(call.name, call.arguments, call.output) for call in recorder.last_run.calls]
        [('get_weather', {'city': 'Paris'}, 'sunny in Paris')]
    """
    tracked = Tracked(function)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await tracked.acall(*args, **kwargs)

        return cast("_Function", call_async)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return tracked.call(*args, **kwargs)

    return cast("_Function", call)
