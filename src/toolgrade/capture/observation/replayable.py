"""Tools of plain Python that ask the tape before they run, so that a recording can answer in their place.

There is one wrapper for each kind of function: plain, async, generator and async generator. All do the same: without a
double they call the tool, an `Answer` they wait for and give, and a `RunningTool` they tell what the tool returned.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeAlias

from toolgrade._internal.json import JsonObject
from toolgrade.capture.doubles import Answer, RunningTool, ask_tape, may_be_replayed
from toolgrade.capture.observation.spans import Observable, current_span, join_pieces
from toolgrade.matching.json_compare import ABSENT

_Ask: TypeAlias = "Callable[[tuple[Any, ...], JsonObject], Answer | RunningTool | None]"
_Give: TypeAlias = "Callable[[Answer], Any]"


def replayable(
    function: Callable[..., Any],
    code: object,
    observable: Observable,
    name_arguments: Callable[[tuple[Any, ...], JsonObject], JsonObject],
) -> Callable[..., Any]:
    """Return a function of the same kind as a tool, which returns what a recording answers, or else calls the tool.

    Args:
        function: The tool.
        code: The function inside of the tool's wrappers, which shows the kind: async, a generator, or neither.
        observable: What `@observe` knows of the tool.
        name_arguments: Returns the arguments of a call by their names.
    """

    def ask(args: tuple[Any, ...], kwargs: JsonObject) -> Answer | RunningTool | None:
        return ask_tape(observable.name, name_arguments(args, kwargs)) if may_be_replayed() else None

    def give(answer: Answer) -> Any:  # noqa: ANN401 - a JSON value
        span = current_span()
        if span is not None and span.observable is observable:
            span.replayed(answer)
        error = answer.exception()
        if error is not None:
            raise error
        return answer.output

    if inspect.isasyncgenfunction(code):
        return _async_stream(function, ask, give)
    if inspect.isgeneratorfunction(code):
        return _stream(function, ask, give)
    return _awaited(function, ask, give) if inspect.iscoroutinefunction(code) else _plain(function, ask, give)


def _plain(function: Callable[..., Any], ask: _Ask, give: _Give) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        double = ask(args, kwargs)
        if double is None:
            return function(*args, **kwargs)
        if isinstance(double, Answer):
            time.sleep(double.delay)
            return give(double)
        with double.running():
            result = function(*args, **kwargs)
            double.returned(result)
        return result

    return call


def _awaited(function: Callable[..., Any], ask: _Ask, give: _Give) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        double = ask(args, kwargs)
        if double is None:
            return await function(*args, **kwargs)
        if isinstance(double, Answer):
            await _sleep(double.delay)
            return give(double)
        with double.running():
            result = await function(*args, **kwargs)
            double.returned(result)
        return result

    return call


# The tool of a stream runs to its end before its first piece is passed on: between two pieces of a running stream, the
# calls of its reader would count as calls of the tool.


def _stream(function: Callable[..., Any], ask: _Ask, give: _Give) -> Callable[..., Any]:
    def start(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - a generator
        double = ask(args, kwargs)
        if double is None:
            return function(*args, **kwargs)
        if isinstance(double, Answer):
            time.sleep(double.delay)
            pieces = _pieces(give(double))
        else:
            with double.running():
                pieces = list(function(*args, **kwargs))
                double.returned(join_pieces(pieces))
        return (piece for piece in pieces)

    return start


def _async_stream(function: Callable[..., Any], ask: _Ask, give: _Give) -> Callable[..., Any]:
    async def pieces_of(double: Answer | RunningTool, args: Any, kwargs: Any) -> AsyncGenerator[Any, Any]:  # noqa: ANN401 - as the function
        if isinstance(double, Answer):
            await _sleep(double.delay)
            pieces = _pieces(give(double))
        else:
            with double.running():
                pieces = [piece async for piece in function(*args, **kwargs)]
                double.returned(join_pieces(pieces))
        for piece in pieces:
            yield piece

    def start(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - an async generator
        double = ask(args, kwargs)
        return function(*args, **kwargs) if double is None else pieces_of(double, args, kwargs)

    return start


async def _sleep(seconds: float) -> None:
    from asyncio import sleep  # noqa: PLC0415 - programs without an event loop load none

    await sleep(seconds)


def _pieces(output: object) -> list[Any]:
    """Return the pieces of a recorded stream: the items of a list, or one piece if its texts were joined."""
    if isinstance(output, list):
        return output
    return [] if output in (None, "", ABSENT) else [output]
