"""Tools of LlamaIndex, which a recording answers while one is replayed.

While a tape is open, the methods of all tools ask it first, inside the span that they have anyway, so that recorders
and all else that listens see the same calls.

- LlamaIndex's own tools, which hand over to an agent or carry a structured answer, run as always.
- What a tool does beside its result is not repeated: what it stores in the context, and that it asks a person.
- A method that was taken from a tool before the tape was opened, and `tool.fn`, are no calls of a tool.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import FunctionType
from typing import Any, Final

from llama_index.core import Response
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]  # its public name
from llama_index.core.instrumentation.span import active_span_id
from llama_index.core.tools import BaseTool, FunctionTool, RetrieverTool, ToolOutput

from toolgrade.calls import ToolCallType
from toolgrade.capture import ABSENT, Outcome
from toolgrade.capture.doubles import Answer, RunningTool, ask_tape, is_replaying
from toolgrade_llama_index._branches import equal_values
from toolgrade_llama_index._errors import outcome_of
from toolgrade_llama_index._results import blocks_of, lost_data, nodes_of, result_of
from toolgrade_llama_index._tools import call_of, call_type_of, is_pseudo_tool, module_of
from toolgrade_llama_index._track import Tracked

_METHODS: Final = ("__call__", "call", "acall")
_HANDOFFS: Final = "llama_index.core.agent."
"""Where LlamaIndex defines the function of its own tool that hands over to another agent."""

recorded_call: Final[ContextVar[tuple[str, str, Mapping[str, Any]] | None]] = ContextVar(
    "toolgrade_llama_index_recorded_call", default=None
)
"""The span of a tool, with the name and the arguments that a recorder noted: those of the call that its step runs."""


def patch() -> Callable[[], None]:
    """Let all tools ask for doubles, also those of classes that are yet to be defined; return how to undo that."""
    replaced: dict[type, dict[str, Any]] = {}

    def replace(kind: type) -> None:
        if kind in replaced:
            return
        own = replaced[kind] = {}
        for name in _METHODS:
            owner = next((one for one in kind.__mro__ if name in vars(one)), kind)
            method = vars(owner).get(name)
            # A method that a class takes from one that is no tool has no span, and is replaced here.
            is_here = owner is kind or not issubclass(owner, BaseTool)
            if method is not None and is_here and not getattr(method, "__isabstractmethod__", False):
                own[name] = vars(kind).get(name)
                setattr(kind, name, get_dispatcher(kind.__module__).span(_double(name, method)))

    begin = BaseTool.__init_subclass__.__func__  # type: ignore[attr-defined]  # of a class method
    hook = vars(BaseTool).get("__init_subclass__")

    def begin_class(kind: type[BaseTool], /, **options: Any) -> None:
        begin(kind, **options)
        replace(kind)

    _restore(BaseTool, "__init_subclass__", classmethod(begin_class))
    kinds: list[type] = [Tracked, BaseTool]
    for kind in kinds:  # grows while it is walked
        replace(kind)
        kinds += kind.__subclasses__()

    def undo() -> None:
        _restore(BaseTool, "__init_subclass__", hook)
        for kind, methods in replaced.items():
            for name, method in methods.items():
                _restore(kind, name, method)

    return undo


def _restore(kind: type, name: str, value: object) -> None:
    """Set an attribute of a class, or delete it if it is to have none."""
    if value is None:
        delattr(kind, name)
    else:
        setattr(kind, name, value)


def _double(name: str, method: Any) -> Any:
    """Return what is called in the place of a method of tools: it, or what a recording answers."""
    # Without its span: the double has one.
    inner = method if type(method) is FunctionType else getattr(method, "__wrapped__", method)

    async def acall(tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        run = inner.__get__(tool, type(tool))
        double = _ask(tool, run, args, kwargs)
        if double is None:
            return await run(*args, **kwargs)
        if isinstance(double, Answer):
            await asyncio.sleep(double.delay)
            return _given(tool, double, run, args, kwargs)
        with _running(double):
            _note(double, result := await run(*args, **kwargs))
        return result

    def call(tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        run = inner.__get__(tool, type(tool))
        double = _ask(tool, run, args, kwargs)
        if double is None:
            return run(*args, **kwargs)
        if isinstance(double, Answer):
            time.sleep(double.delay)
            return _given(tool, double, run, args, kwargs)
        with _running(double):
            _note(double, result := run(*args, **kwargs))
        return result

    def future(tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        return asyncio.ensure_future(acall(tool, *args, **kwargs))  # the span ends with it

    plain = future if name == "acall" else call
    # Not its `__dict__`, in which LlamaIndex notes that it has a span.
    return functools.wraps(inner, updated=())(acall if inspect.iscoroutinefunction(inner) else plain)


def _ask(tool: Any, run: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Answer | RunningTool | None:
    # LlamaIndex's own tools hand over to an agent, or carry a structured answer.
    if not is_replaying() or is_pseudo_tool(tool) or module_of(tool).startswith(_HANDOFFS):
        return None
    span = active_span_id.get()
    noted = recorded_call.get()
    if noted is not None and noted[0] == span:
        _, name, arguments = noted
    else:
        name, arguments = call_of(tool, inspect.signature(run).bind(*args, **kwargs))
    return ask_tape(name, arguments, key=span, refuse=_refusal)


def _refusal(answer: Answer) -> str | None:
    """Return why a recorded answer cannot be given."""
    lost = lost_data(answer.shown)
    return f"the recorded output has {lost} without its data, which recorders do not keep" if lost else None


def _given(tool: Any, answer: Answer, run: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return a recorded answer as the tool returns it, or raise it."""
    error = answer.exception()
    if error is not None and not _is_returned(tool, answer, error):
        raise error
    if isinstance(tool, Tracked):
        return answer.output
    if isinstance(tool, FunctionTool):
        named = {name: value for name, value in kwargs.items() if name != tool.ctx_param_name}
        received = {"args": args, "kwargs": {**tool.partial_params, **named}}
    else:
        _, received = call_of(tool, inspect.signature(run).bind(*args, **kwargs))
    raw = answer.output if error is None else answer.failure
    nodes = nodes_of(answer.artifact)
    if nodes:
        raw = nodes if isinstance(tool, RetrieverTool) else Response(response=str(raw), source_nodes=nodes)
    return ToolOutput(
        tool_name=tool.metadata.name or "",
        blocks=blocks_of(answer.failure if answer.shown is ABSENT else answer.shown),
        raw_input=received,
        raw_output=raw,
        is_error=error is not None,
    )


def _is_returned(tool: Any, answer: Answer, error: Exception) -> bool:
    """Return whether a recorded failure was no exception: an output with its flag, or a result of an MCP server."""
    if isinstance(tool, Tracked) or answer.left is not None:
        return not isinstance(tool, Tracked)
    if answer.raised is not None or answer.model_output is ABSENT:
        return False
    is_mcp = call_type_of(tool) is ToolCallType.MCP
    return answer.model_output == answer.error or (is_mcp and answer.model_output != str(error))


@contextmanager
def _running(double: RunningTool) -> Generator[None, None, None]:
    """Let a tool run; one that begins to wait for a person has not failed, and will run again."""
    waiting: Exception | None = None
    with double.running():
        try:
            yield
        except Exception as error:
            if outcome_of(error) is not Outcome.SUSPENDED:
                raise
            waiting = error
    if waiting is not None:
        raise waiting


def _note(double: RunningTool, result: Any) -> None:
    """Note what a tool returned as a recorder does."""
    if not isinstance(result, ToolOutput):
        double.returned(result)
        return
    read = result_of(result)
    if read.error is not None:
        double.failed(read.error, model_output=read.model_output)
    else:
        is_same = equal_values(read.output, read.model_output)
        double.returned(read.output, model_output=ABSENT if is_same else read.model_output, artifact=read.artifact)
