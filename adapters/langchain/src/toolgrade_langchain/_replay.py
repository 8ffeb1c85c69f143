"""Tools that a recording answers in their place, while one is replayed.

A call of a tool begins in `run` or `arun`, also from `invoke`, an agent, or a node of a graph. While a tape is open,
these methods ask it first. For a call that is answered, LangChain's own code runs around doubles of `_run` and `_arun`,
which are all that a tool does itself: callbacks, validation, injected arguments and handlers of errors work as always.

- What a class adds by a `run`, `arun`, `invoke` or `ainvoke` of its own is part of its tools, and does not run either.
- A tool that asks a person by `interrupt()` in its body is answered at once; approvals around tools work as always.
- A tool that its metadata marks as one that hands over to an agent runs as always, and so does one that handed over
  when it was recorded, if its name says no more than that. Of other commands, what is JSON is repeated.
- A `run` that was kept from before the tape was opened asks with what `_run` receives, which has the defaults, too.
- A function that is called past its tool, such as `tool.func()` or by a node written by hand, is no call of a tool.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import MethodType
from typing import Any, Final

from langchain_core.tools import BaseTool
from langchain_core.utils.pydantic import get_fields

from toolgrade.capture.doubles import Answer, RunningTool, ask_tape
from toolgrade_langchain._errors import is_a, parent_command
from toolgrade_langchain._given import Given, calling, given_here, has_handed_over, is_called, refusal
from toolgrade_langchain._handovers import DESTINATION
from toolgrade_langchain._messages import arguments_in
from toolgrade_langchain._results import tool_result
from toolgrade_langchain._watcher import missing_tool

try:
    from langchain_core.utils.uuid import uuid7 as new_id  # LangSmith warns of other ids
except ImportError:  # older versions make such ids themselves
    from uuid import uuid4 as new_id  # type: ignore[assignment]

_BODIES: Final = frozenset({"_run", "_arun"})
_METHODS: Final = frozenset({"run", "arun", "invoke", "ainvoke", *_BODIES})
_ADDED: Final = frozenset({"config", "run_manager"})
"""What LangChain adds to the arguments of a call."""


def patch() -> Callable[[], None]:
    """Let all tools of LangChain ask for doubles; return how to undo that."""
    name = "__getattribute__"  # it finds the methods of all classes, also of those that are made later
    own, look_up = vars(BaseTool).get(name), BaseTool.__getattribute__

    def find(tool: BaseTool, attribute: str) -> Any:
        value = look_up(tool, attribute)
        return _method(tool, attribute, value) if attribute in _METHODS else value

    setattr(BaseTool, name, find)
    return lambda: delattr(BaseTool, name) if own is None else setattr(BaseTool, name, own)


def _method(tool: BaseTool, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return what is called in the place of a method of a tool."""
    if not is_called(tool):
        if name.endswith("invoke") and str(getattr(method, "__module__", "")).startswith("langchain_core."):
            return method  # it calls `run` or `arun`
        # A body is called here if `run` was looked up before the tape was opened.
        return _awaited(tool, name, method) if name.strip("_").startswith("a") else _plain(tool, name, method)
    given = given_here()
    if given is None:
        return method
    return given.double(name, method) if name in _BODIES else MethodType(vars(BaseTool)[name], tool)


def _plain(tool: BaseTool, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        asked = _Call(tool, name, args, kwargs)
        double = asked.ask()
        if isinstance(double, Answer):
            with calling(tool, Given(tool, asked.id, double)):
                return getattr(tool, name)(*asked.args, **asked.kwargs)
        with calling(tool), _noting(double, asked.id) as note:
            note(output := method(*args, **kwargs))
        return output

    return call


def _awaited(tool: BaseTool, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        asked = _Call(tool, name, args, kwargs)
        double = asked.ask()
        if isinstance(double, Answer):
            with calling(tool, Given(tool, asked.id, double)):
                return await getattr(tool, name)(*asked.args, **asked.kwargs)
        with calling(tool), _noting(double, asked.id) as note:
            note(output := await method(*args, **kwargs))
        return output

    return call


class _Call:
    """A call of a tool by one of its methods."""

    def __init__(self, tool: BaseTool, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Read what the method received."""
        self._tool = tool
        self.args, self.kwargs = args, kwargs
        self.id: str | None = None
        self._key = getattr(kwargs.get("run_manager"), "run_id", None)
        if method in _BODIES:
            value: object = args[0] if args else {key: one for key, one in kwargs.items() if key not in _ADDED}
        else:
            value = self._read(vars(BaseTool)[method])
        self._arguments = _arguments(tool, value)

    def _read(self, method: Callable[..., Any]) -> object:
        """Return the input of a call from outside; give its run an id, by which the recorder finds the answer."""
        bound = inspect.signature(method).bind(self._tool, *self.args, **self.kwargs)
        received = options = bound.arguments
        if "input" in received:
            options = received["config"] = dict(received.get("config") or {})
        self._key = options["run_id"] = options.get("run_id") or new_id()
        self.args, self.kwargs = bound.args[1:], bound.kwargs
        value = received.get("input", received.get("tool_input"))
        self.id = received.get("tool_call_id")
        if isinstance(value, Mapping) and value.get("type") == "tool_call":
            value, self.id = value["args"], value["id"]
        return value

    def ask(self) -> Answer | RunningTool | None:
        """Return what to do about the call."""
        name, metadata = self._tool.name, self._tool.metadata or {}
        if isinstance(metadata.get(DESTINATION), str) or missing_tool(name, self._arguments) is not None:
            return None
        key = None if self._key is None else str(self._key)
        double = ask_tape(name, self._arguments, key=key, refuse=functools.partial(refusal, name))
        return None if isinstance(double, Answer) and has_handed_over(double) else double


def _arguments(tool: BaseTool, value: object) -> dict[str, Any]:
    """Return the arguments of a call as the recorder notes them: without those that are injected."""
    if not isinstance(value, dict):
        return arguments_in(str(value))
    if (tool.metadata or {}).get("type") == "custom_tool" and value.keys() == {"__arg1"}:
        return {"input": value["__arg1"]}
    leave_out = getattr(tool, "_filter_injected_args", None)
    if leave_out is not None:
        return dict(leave_out(value))
    if not isinstance(tool.args_schema, type):
        return value
    schema: Any = tool.tool_call_schema
    injected = {*get_fields(tool.args_schema)} - {*get_fields(schema)}
    return {name: one for name, one in value.items() if name not in injected}


@contextmanager
def _noting(double: RunningTool | None, call_id: str | None) -> Generator[Callable[[object], None], None, None]:
    """Let a tool run, and yield what notes its output as the recorder does."""
    if double is None:
        yield lambda _: None
        return

    def note(output: object) -> None:
        result = tool_result(output, call_id)
        if result.error is not None:
            double.failed(result.error, model_output=result.output, artifact=result.artifact)
        else:
            double.returned(result.output, artifact=result.artifact)

    control: Exception | None = None
    with double.running():
        try:
            yield note
        except Exception as error:
            if not is_a(error, "GraphBubbleUp"):
                raise
            control = error  # it suspends the run or passes control on, and is no failure
            command = parent_command(error)
            if command is not None:
                note(command)
    if control is not None:
        raise control
