"""Doubles of the code behind the SDK's local tools: of shells, editors of patches, and computers."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final

import agents

from toolgrade.capture.doubles import Answer, RunningTool, ask_tape
from toolgrade.errors import ReplayError
from toolgrade.formats import read_responses_call
from toolgrade_openai_agents._doubles import intercept, play, replace, result_of
from toolgrade_openai_agents._tools import field_of

_ACTIONS: Final = ("agents.run_internal.tool_actions", "agents._run_impl")
"""Where the SDK acts on computers, by release."""
_ACTING: Final = ("_execute_action_and_capture", "_get_screenshot_sync", "_get_screenshot_async")
"""What takes a computer and a call and returns the screen, by release."""
_PNG: Final = "data:image/png;base64,"


def patch() -> list[Callable[[], None]]:
    """Let the local tools ask for doubles; return how to undo that."""
    undo: list[Callable[[], None]] = []
    attributes = {"ShellTool": "executor", "LocalShellTool": "executor", "ApplyPatchTool": "editor"}
    for name, attribute in attributes.items():
        if hasattr(agents, name):  # some came later
            undo.append(intercept(getattr(agents, name), attribute, _Editor if attribute == "editor" else _executing))
    action = _computer_action()
    methods = {name: vars(action)[name] for name in _ACTING if name in vars(action)}
    return [*undo, replace(action, {name: classmethod(_acting(method)) for name, method in methods.items()})]


def _computer_action() -> Any:
    """Return the class of the SDK that acts on computers."""
    for name in _ACTIONS:
        with suppress(ImportError):
            action = importlib.import_module(name).ComputerAction
            if any(method in vars(action) for method in _ACTING):
                return action
    raise LookupError("this release of the SDK acts on computers in a way that cannot be replayed")


def _executing(tool: Any, executor: Any) -> Any:
    """Return a double of what executes the commands of a shell."""

    async def double(request: Any) -> Any:
        call = read_responses_call(getattr(request.data, "raw", request.data))
        give = functools.partial(_given, form=_printed, ends_run=isinstance(tool, agents.LocalShellTool))
        return await _play(tool, call, lambda: executor(request), give)

    return double


def _acting(method: Any) -> Any:
    """Return a double of what acts on a computer."""

    async def double(cls: Any, computer: Any, item: Any) -> Any:
        run = functools.partial(method.__func__, cls, computer, item)
        return await _play(None, read_responses_call(item), run, functools.partial(_given, form=_screen))

    return double


class _Editor:
    """A double of the editor of a tool that applies patches."""

    def __init__(self, tool: Any, editor: Any) -> None:
        """Store both."""
        self._tool, self._editor = tool, editor

    def __getattr__(self, name: str) -> Any:
        """Return what else the editor has."""
        return getattr(self._editor, name)

    async def _edit(self, name: str, operation: Any) -> Any:
        fields = {field: getattr(operation, field, None) for field in ("type", "path", "diff", "move_to")}
        arguments = {field: value for field, value in fields.items() if value is not None}
        call = SimpleNamespace(name="apply_patch", arguments=arguments, id=None)
        return await _play(self._tool, call, lambda: getattr(self._editor, name)(operation), _given)

    async def create_file(self, operation: Any) -> Any:
        """Create a file."""
        return await self._edit("create_file", operation)

    async def update_file(self, operation: Any) -> Any:
        """Change a file."""
        return await self._edit("update_file", operation)

    async def delete_file(self, operation: Any) -> Any:
        """Delete a file."""
        return await self._edit("delete_file", operation)


async def _play(tool: Any, call: Any, function: Callable[[], Any], give: Callable[[Answer], Any]) -> Any:
    """Give the answer to a call that the model requested, or what a function of the user returns."""

    async def run(running: RunningTool | None) -> Any:
        if running is None:
            return await result_of(function())
        with running.running():
            result = await result_of(function())
        _note(running, result)
        return result

    return await play(ask_tape(call.name, call.arguments), tool, SimpleNamespace(tool_call_id=call.id), run, give)


def _given(answer: Answer, *, form: Callable[[Any], Any] = str, ends_run: bool = False) -> Any:
    """Return an answer in some form, or raise; of a tool whose exceptions end the run, return why there is none."""
    if answer.left is not None:
        if ends_run:
            return answer.failure
        raise ReplayError(answer.failure)
    error = answer.exception()
    if error is not None:
        raise error
    return form(answer.output)


def _printed(output: Any) -> Any:
    """Return what a shell printed, as a result of the SDK if it was recorded as such."""
    parts: list[Any] = output if isinstance(output, list) else []
    if not parts or not all(isinstance(part, dict) and isinstance(part.get("outcome"), dict) for part in parts):
        return str(output)
    outcomes = [{**part, "outcome": agents.ShellCallOutcome(**part["outcome"])} for part in parts]
    return agents.ShellResult(output=[agents.ShellCommandOutput(**part) for part in outcomes])


def _screen(output: Any) -> str:
    """Return the data of a recorded image of a screen."""
    return str(field_of(output, "image_url") or output).removeprefix(_PNG)


def _note(running: RunningTool, result: Any) -> None:
    """Note what the code of the user returned: a text, or a result of the SDK with an output."""
    output = result if isinstance(result, str) else field_of(result, "output")
    if field_of(result, "status") == "failed":
        running.failed(str(output))
    else:
        running.returned("" if output is None else output)
