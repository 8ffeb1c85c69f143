"""Tools of plain Python, which a recording answers while one is replayed."""

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
    """Return what is called in the place of a tool: it, or what a recording answers; `code` shows of which kind it is.

    Of a generator, the returned function returns one.
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
            double.returned(result := function(*args, **kwargs))
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
            double.returned(result := await function(*args, **kwargs))
        return result

    return call


# A stream that runs is recorded as a whole: between two pieces it is its reader that runs, and not the tool.


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
                double.returned(join_pieces(pieces := list(function(*args, **kwargs))))
        return (piece for piece in pieces)

    return start


def _async_stream(function: Callable[..., Any], ask: _Ask, give: _Give) -> Callable[..., Any]:
    async def pieces_of(double: Answer | RunningTool, args: Any, kwargs: Any) -> AsyncGenerator[Any, Any]:  # noqa: ANN401 - as the function
        if isinstance(double, Answer):
            await _sleep(double.delay)
            pieces = _pieces(give(double))
        else:
            with double.running():
                double.returned(join_pieces(pieces := [piece async for piece in function(*args, **kwargs)]))
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
    """Return the pieces of a recorded stream, whose texts were joined."""
    if isinstance(output, list):
        return output
    return [] if output in (None, "", ABSENT) else [output]
