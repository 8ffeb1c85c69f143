"""What stands in place of a tool's code while a tape is open, for all kinds of tools."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from toolgrade.capture import ForkSafeLock
from toolgrade.capture.doubles import Answer, RunningTool
from toolgrade_openai_agents._runner import current_run


def intercept(kind: Any, attribute: str, make: Callable[[Any, Any], Any]) -> Callable[[], None]:
    """Let an attribute of a class's objects be read as what `make` makes of it; return how to undo that.

    The objects do not change.
    """
    read, write = kind.__getattribute__, kind.__setattr__
    # The SDK compares what it reads by identity. Whoever does that holds the double, and a double holds its tool.
    doubles: WeakValueDictionary[int, Any] = WeakValueDictionary()
    lock = ForkSafeLock()

    def get(tool: Any, name: str) -> Any:
        value = read(tool, name)
        if name != attribute or value is None:
            return value
        with lock:
            double = doubles.get(id(tool))
            if double is None or double.toolgrade_original is not value:
                double = doubles[id(tool)] = make(tool, value)
                double.toolgrade_original = value
        return double

    def put(tool: Any, name: str, value: Any) -> None:
        # `dataclasses.replace` reads from one tool and writes to another, which may outlive the tape.
        write(tool, name, getattr(value, "toolgrade_original", value) if name == attribute else value)

    return replace(kind, {"__getattribute__": get, "__setattr__": put})


def replace(kind: Any, attributes: dict[str, Any]) -> Callable[[], None]:
    """Set attributes of a class; return how to undo that."""
    own = {name: vars(kind).get(name) for name in attributes}
    for name, value in attributes.items():
        setattr(kind, name, value)

    def undo() -> None:
        for name, value in own.items():
            if value is None:  # it inherits one
                delattr(kind, name)
            else:
                setattr(kind, name, value)

    return undo


async def play(
    asked: Answer | RunningTool | None,
    tool: Any,
    context: Any,
    run: Callable[[RunningTool | None], Any],
    give: Callable[[Answer], Any],
) -> Any:
    """Give the answer to a call, or run its tool, and let the recorder of this context know.

    Args:
        asked: What the tape said about the call.
        tool: The tool.
        context: The context of the call, or an object with its `tool_call_id`.
        run: Runs the tool, and notes on the tape what it returned.
        give: Returns an answer as the tool would, or raises its failure.
    """
    observed = current_run.get()
    if isinstance(asked, Answer):
        if observed is not None:
            watcher = observed.watcher
            observed.recorder.observe(watcher, "a replayed call", watcher.tool_replayed, tool, context, asked)
        await asyncio.sleep(asked.delay)
        return await result_of(give(asked))
    try:
        return await result_of(run(asked))
    except Exception as error:
        if observed is not None and asked is not None:  # the tape knows it, and in older releases nobody else sees it
            watcher = observed.watcher
            observed.recorder.observe(watcher, "a tool's error", watcher.body_raised, tool, context, error)
        raise


async def result_of(value: Any) -> Any:
    """Return a value, or what is awaited as such."""
    return await value if inspect.isawaitable(value) else value
