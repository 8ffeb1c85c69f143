"""Replay: tools ask a recording before they run, by doubles of what runs them.

The SDK, its realtime sessions, and programs run a tool by an attribute of it, such as `on_invoke_tool`. While a tape is
open, the class of the tool gives a double in its place, an object of the same kind.

The SDK's own code around the function of a tool checks the arguments before, and words a failure for the model. A
double keeps this code: variables of it hold the function, or what runs it.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import types
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final

import agents

from toolgrade.capture import ABSENT
from toolgrade.capture.doubles import Answer, RunningTool, ask_tape
from toolgrade.errors import ReplayError
from toolgrade_openai_agents import _local_doubles, _mcp, _messages, _tools
from toolgrade_openai_agents._doubles import intercept, play, result_of

_SDK: Final = "agents."
_BODIES: Final = ("_on_invoke_tool_impl", "_run_agent_impl", "invoke_func_impl")
"""What runs a tool, in the functions that word its failures before 0.14."""
_ACCEPTING: Final = ("the_func", "input_builder")
"""What the SDK calls once it has accepted the arguments, in the functions that check them."""

_LATE: Final = "ToolTimeoutError"
"""What the SDK says of a tool that does not return in time; older releases have no such exception."""


def patch() -> Callable[[], None]:
    """Let the tools of the SDK ask for doubles; return how to undo that."""
    undo = [intercept(agents.FunctionTool, "on_invoke_tool", _double_of), *_local_doubles.patch()]
    custom = getattr(agents, "CustomTool", None)
    if custom is not None:
        undo.append(intercept(custom, "on_invoke_tool", _asking))

    def undo_all() -> None:
        for one in undo:
            one()

    return undo_all


def _double_of(tool: Any, invoke: Any) -> Any:
    """Return a double of what invokes a tool, with the SDK's code around it."""
    body = getattr(invoke, "_invoke_tool_impl", None)
    if body is not None:
        double = copy.copy(invoke)
        double._invoke_tool_impl = _asking(tool, body)  # noqa: SLF001 - of the SDK
        double.__agents_bind_function_tool__ = invoke.__agents_bind_function_tool__  # binds other tools to the original
        return double
    for name, cell in _variables(invoke).items():
        if name in _BODIES:
            return _with_variable(invoke, name, _asking(tool, cell.cell_contents))
    return _asking(tool, invoke)


def _asking(tool: Any, body: Any) -> Any:
    """Return a function that asks the tape about a call, and runs the tool only if the tape says so."""
    cell = _variables(body).get("the_func")
    function = body if cell is None else cell.cell_contents
    name = function.__qualname__ if str(getattr(function, "__module__", "")).startswith(_SDK) else ""
    is_mcp = getattr(getattr(body, "func", None), "__name__", "") == "invoke_mcp_tool"

    @functools.wraps(body)
    async def double(context: Any, text: str) -> Any:
        async def run(running: RunningTool | None) -> Any:
            return await _run(tool, body, context, text, running, is_mcp=is_mcp)

        async def give(answer: Answer) -> Any:
            error = answer.exception()
            output = _output_of(answer, error, tool, is_mcp=is_mcp)
            if error is None or output is not ABSENT:
                return output
            if type(error).__name__ == _LATE and getattr(tool, "timeout_seconds", None) is not None:
                await asyncio.sleep(tool.timeout_seconds + 1)  # the SDK waits no longer than that, and ends the call
            if is_mcp:
                return await _with_server(body, _raising(error), tool_meta_resolver=None)(context, text)
            raise error

        call = SimpleNamespace(tool_arguments=text)
        # The SDK makes a tool for a structured answer in the form of a call, which is none of the user's.
        if "build_litellm_json_tool_call" in name or _tools.refuses_arguments(tool, call, ""):
            return await run(None)
        await _check_arguments(body, context, text, is_mcp=is_mcp)
        arguments = _tools.arguments_of(tool, call) or {}
        asked = ask_tape(_tools.tool_name(tool), arguments, runs_agent=name.startswith("Agent.as_tool."))
        return await play(asked, tool, context, run, give)

    return double


async def _run(tool: Any, body: Any, context: Any, text: str, running: RunningTool | None, *, is_mcp: bool) -> Any:
    """Run a tool, and note on the tape what a recorder would note."""
    if running is None:
        return await result_of(body(context, text))
    reported: list[str | None] = [None]

    async def call_tool(*args: Any, **options: Any) -> Any:
        with running.running():
            result = await body.args[0].call_tool(*args, **options)
        reported.append(_mcp.error_in(result))
        return result

    try:
        if is_mcp:
            output = await _with_server(body, call_tool)(context, text)
        else:
            with running.running():
                output = await result_of(body(context, text))
    except asyncio.CancelledError:
        if getattr(tool, "timeout_seconds", None) is not None:
            running.failed(f"{_LATE}: Tool {tool.name!r} timed out after {tool.timeout_seconds} seconds.")
        raise
    plain = _messages.plain_output(output, ABSENT)
    if reported[-1] is not None:
        running.failed(reported[-1], model_output=plain)
    else:
        running.returned(plain, model_output=_messages.text_shown(output))
    return output


def _output_of(answer: Answer, error: Exception | None, tool: Any, *, is_mcp: bool) -> Any:
    """Return what the tool returned, or a text that stood in its place; `ABSENT` if it raised."""
    is_typed = getattr(tool, "output_json_schema", None) is not None
    if error is None:
        return answer.output if is_typed else _messages.as_output(answer.output, answer.model_output)
    # What names no exception was none: it is a text of a server, of the SDK, or of the tape.
    if is_typed or not (is_mcp or type(error) is ReplayError):
        return ABSENT
    return answer.failure if answer.left is not None else _messages.as_output(answer.model_output, ABSENT)


# The SDK's code around a tool


class _AcceptedError(BaseException):
    """The SDK accepted the arguments of a call; no `Exception`, which it would take for one of the tool."""


def _raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_args: Any, **_options: Any) -> Any:
        raise error

    return fail


async def _check_arguments(body: Any, context: Any, text: str, *, is_mcp: bool) -> None:
    """Raise what the SDK raises about arguments that it refuses."""
    accept = _raising(_AcceptedError())
    checks = [_with_variable(body, name, accept) for name in _variables(body).keys() & _ACCEPTING]
    if is_mcp:
        checks.append(_with_server(body, accept, tool_meta_resolver=None))
    for check in checks:
        with suppress(_AcceptedError):
            await check(context, text)


def _variables(function: Any) -> dict[str, types.CellType]:
    """Return the variables that a function of the SDK has from the function around it."""
    code = getattr(function, "__code__", None)
    if code is None or not str(function.__module__).startswith(_SDK):
        return {}
    return dict(zip(code.co_freevars, function.__closure__ or (), strict=True))


def _with_variable(function: Any, name: str, value: Any) -> Any:
    """Return a function of the SDK with another value of such a variable."""
    cells = {**_variables(function), name: types.CellType(value)}
    code, defaults = function.__code__, function.__defaults__
    changed = types.FunctionType(code, function.__globals__, function.__name__, defaults, tuple(cells.values()))
    return functools.update_wrapper(changed, function)


def _with_server(body: Any, call_tool: Any, **more: Any) -> Any:
    """Return what calls a tool of an MCP server, with other attributes of the server, its first argument."""
    server, *args = body.args
    return functools.partial(body.func, _Server(server, {"call_tool": call_tool, **more}), *args, **body.keywords)


class _Server:
    """An MCP server with some attributes of its own."""

    def __init__(self, server: Any, own: dict[str, Any]) -> None:
        """Store the server."""
        self._server = server
        vars(self).update(own)

    def __getattr__(self, name: str) -> Any:
        """Return what the server has."""
        return getattr(self._server, name)
