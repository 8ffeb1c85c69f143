"""The state with which a graph goes on, as LangGraph loaded it from its checkpointer.

Callbacks do not carry it: a tool node that is fed by `Send` is shown one call and no messages. It is taken from the
memory of LangGraph's loop, not from the checkpointer, which an event loop would have to wait for. The loop has the very
checkpoint that goes on, which need not be the newest one of the thread, and what the tasks returned that need not run
again.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Final

from langchain_core.messages import BaseMessage

from toolgrade_langchain._messages import is_question
from toolgrade_langchain._states import as_messages, message_lists

_CALL: Final = "__pregel_call"
"""LangGraph's key, in the configuration of a task, of the function that schedules further tasks in the loop."""
_RETURN: Final = "__return__"
"""LangGraph's channel of what a function with `@task` returned."""
_TASKS: Final = "__pregel_tasks"
"""LangGraph's channel of what `Send` addresses to nodes."""


def loaded_messages() -> list[list[BaseMessage]]:
    """Return the lists of messages in the state of the graph whose node begins; none if they cannot be read."""
    try:
        loop = _loop()
        if loop is None:
            return []
        values = {name: channel.get() for name, channel in loop.channels.items() if channel.is_available()}
        for name, value in [write for task in list(loop.tasks.values()) for write in list(task.writes)]:
            if isinstance(values.get(name), list):
                # What an agent was asked that one of the tasks ran is not a question of the user.
                values[name] = values[name] + [item for item in as_messages(value) if not is_question(item)]
        writes = [value for _, name, value in loop.checkpoint_pending_writes if name == _RETURN]
        returned = [message for value in writes for message in as_messages(value)]
        return [messages for messages in (*message_lists(values), returned) if messages]
    except Exception:  # noqa: BLE001 - private parts of LangGraph; without the state, the run has a warning
        return []


def reference_to_loop() -> Callable[[], Any]:
    """Return a weak reference to the loop of the graph whose node begins; its end may not show it."""
    try:
        return weakref.ref(_loop())
    except Exception:  # noqa: BLE001 - as above
        return lambda: None


def is_at_breakpoint(loop_of_nodes: Callable[[], Any] | None) -> bool:
    """Return whether the graph that ends stops before or after a node, as its options say, and has more to do."""
    try:
        loops = (frame.f_locals["loop"] for frame in _frames() if "loop" in frame.f_locals)
        # Asynchronous code ends in a task of its own, whose frames do not show it.
        loop: Any = next(loops, None) or (loop_of_nodes() if loop_of_nodes else None)
        if getattr(loop, "status", None) == "interrupt_after":
            return not {_TASKS, *loop.trigger_to_nodes}.isdisjoint(loop.updated_channels or ())
        return getattr(loop, "status", None) == "interrupt_before"
    except Exception:  # noqa: BLE001 - as above; the messages then show whether a call waits
        return False


def _loop() -> Any:
    """Return the loop of the graph whose node begins; `None` if it is not known."""
    return next(filter(None, map(_loop_in, _frames())), None)


def _loop_in(frame: FrameType) -> Any:
    """Return the loop that the configuration in a frame belongs to; `None` if there is none.

    The callback of a node comes before LangChain's context variable has the configuration of the node.
    """
    config = frame.f_locals.get("config")
    options = config.get("configurable") if isinstance(config, Mapping) else None
    if not isinstance(options, Mapping) or _CALL not in options:
        return None
    # A partial of `_call` (langgraph/pregel/_runner.py), with the loop's own `accept_push`.
    return options[_CALL].keywords["schedule_task"].__self__


def _frames() -> Iterator[FrameType]:
    """Yield the frames of the callers, the nearest first."""
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
