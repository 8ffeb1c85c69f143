"""Hooks that report to a watcher before they call the user's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from agents import RunHooks
from agents.lifecycle import RunHooksBase

from toolgrade_openai_agents._observed_run import beside_tools

if TYPE_CHECKING:
    from toolgrade_openai_agents._watcher import RunWatcher

HOOK_NAMES: Final = tuple(name for name in dir(RunHooksBase) if name.startswith("on_"))
"""The hooks that the installed SDK has; a later release may have more."""


class RecordingHooks(RunHooks[Any]):
    """Reports each hook to a watcher, and then calls the user's hooks with the same arguments."""

    def __init__(self, observe: Callable[..., Any], watcher: RunWatcher, hooks: Any) -> None:
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
            await beside_tools(getattr(self._hooks, name))(*args, **kwargs)

    hook.__name__ = hook.__qualname__ = name
    hook.__doc__ = f"Report `{name}`."
    return hook


for _name in HOOK_NAMES:
    setattr(RecordingHooks, _name, _hook(_name))
