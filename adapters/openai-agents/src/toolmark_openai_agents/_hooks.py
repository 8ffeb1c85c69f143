"""Hooks and an error formatter that report to a watcher before they call the user's own."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from agents import RunHooks
from agents.lifecycle import RunHooksBase

if TYPE_CHECKING:
    from toolmark_openai_agents._watcher import Watcher

HOOK_NAMES: Final = tuple(name for name in dir(RunHooksBase) if name.startswith("on_"))
"""The hooks that the installed SDK has; a later release may have more."""


class RecordingHooks(RunHooks[Any]):
    """Reports each hook to a watcher, and then calls the user's hooks with the same arguments."""

    def __init__(self, observe: Callable[..., Any], watcher: Watcher, hooks: Any) -> None:
        """Store the recorder's `observe`, which makes an observation without raising, the watcher, and the hooks."""
        self._observe = observe
        self._watcher = watcher
        self._hooks = hooks


def _hook(name: str) -> Callable[..., Awaitable[None]]:
    async def hook(self: RecordingHooks, *args: Any, **kwargs: Any) -> None:
        observation = getattr(self._watcher, name, None)
        if observation is not None:
            self._observe(self._watcher, name, observation, *args, **kwargs)
        if self._hooks is not None:
            await getattr(self._hooks, name)(*args, **kwargs)

    hook.__name__ = hook.__qualname__ = name
    hook.__doc__ = f"Report `{name}`."
    return hook


for _name in HOOK_NAMES:
    setattr(RecordingHooks, _name, _hook(_name))


class ErrorFormatter:
    """Reports a tool's exception, and lets the user's formatter word what the model is shown."""

    def __init__(self, observe: Callable[..., Any], watcher: Watcher, formatter: Any) -> None:
        """Store what to report to, and the user's formatter; of one that reports already, take the user's."""
        self._observe = observe
        self._watcher = watcher
        self.formatter: Any = formatter.formatter if isinstance(formatter, ErrorFormatter) else formatter

    def __call__(self, args: Any) -> Any:
        """Report the exception; return what the user's formatter returns, `None` for the SDK's own text."""
        error = getattr(args, "error", None)
        if isinstance(error, BaseException):
            context, call_id = getattr(args, "run_context", None), getattr(args, "call_id", "")
            self._observe(self._watcher, "a tool's error", self._watcher.tool_raised, context, call_id, error)
        return None if self.formatter is None else self.formatter(args)


@functools.cache
def formatter_sees_exceptions() -> bool:
    """Return whether the installed SDK hands the tool's exception to an error formatter."""
    try:
        from agents.run_config import ToolErrorFormatterArgs  # noqa: PLC0415 - older releases have no formatters
    except ImportError:
        return False
    return "error" in {field.name for field in dataclasses.fields(ToolErrorFormatterArgs)}


def with_formatter(run_config: Any, formatter: ErrorFormatter) -> Any:
    """Return a copy of a run's configuration with this formatter."""
    # A dict and not a RunConfig: the SDK closes what it opens for a run only if no RunConfig was passed.
    if run_config is None:
        return {"tool_error_formatter": formatter}
    if isinstance(run_config, Mapping):
        return {**run_config, "tool_error_formatter": formatter}
    changed = copy.copy(run_config)
    changed.tool_error_formatter = formatter
    return changed
