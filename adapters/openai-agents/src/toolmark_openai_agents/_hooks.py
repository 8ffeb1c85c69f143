"""Hooks that tell the recorder, and then the user's own hooks, each exactly once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from agents import RunHooks
from agents.lifecycle import RunHooksBase

if TYPE_CHECKING:
    from toolmark_openai_agents._recorder import Recorder
    from toolmark_openai_agents._watch import Watch

_NAMES: Final = tuple(name for name in dir(RunHooksBase) if name.startswith("on_"))
"""The hooks that this release of the SDK has; a later one may have more."""


class RecordingHooks(RunHooks[Any]):
    """Tells a watch, and then the hooks that the user passed, with the same arguments."""

    def __init__(self, recorder: Recorder, watch: Watch, hooks: Any) -> None:  # noqa: ANN401 - hooks of the user
        """Keep whom to tell."""
        self._recorder = recorder
        self._watch = watch
        self._hooks = hooks

    @staticmethod
    def fit(hooks: object) -> bool:
        """Return whether these hooks can be told through others; what the SDK may refuse is left to it."""
        return hooks is None or isinstance(hooks, RunHooksBase)


def _telling(name: str) -> Callable[..., Awaitable[None]]:
    async def hook(self: RecordingHooks, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as the SDK calls it
        note = getattr(self._watch, name, None)
        if note is not None:
            self._recorder.note(self._watch, name, note, *args, **kwargs)
        if self._hooks is not None:
            await getattr(self._hooks, name)(*args, **kwargs)

    hook.__name__ = hook.__qualname__ = name
    hook.__doc__ = f"Tell of `{name}`."
    return hook


for _name in _NAMES:
    setattr(RecordingHooks, _name, _telling(_name))


class Formatter:
    """Notes a tool's exception, and lets the user's own formatter decide what the model is shown."""

    def __init__(self, recorder: Recorder, watch: Watch, formatter: Any) -> None:  # noqa: ANN401 - a function of the user
        """Keep whom to tell, and whom to ask."""
        self._recorder = recorder
        self._watch = watch
        self.formatter: Any = formatter.formatter if isinstance(formatter, Formatter) else formatter

    def __call__(self, args: Any) -> Any:  # noqa: ANN401 - as the SDK calls it
        """Note the exception; return what the user's formatter returns, `None` for the SDK's own text."""
        error = getattr(args, "error", None)
        if isinstance(error, BaseException):
            context, call_id = getattr(args, "run_context", None), getattr(args, "call_id", "")
            self._recorder.note(self._watch, "a tool's error", self._watch.raised, context, call_id, error)
        return None if self.formatter is None else self.formatter(args)
