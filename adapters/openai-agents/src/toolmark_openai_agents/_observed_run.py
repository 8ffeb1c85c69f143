"""The run that a recorder observes, and the run that the current context belongs to."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Protocol

from toolmark_openai_agents._watcher import Watcher


class RunObserver(Protocol):
    """The part of the recorder that the runner and the tools of agents report to; none of these raises."""

    def begin(self, agent: Any, input: Any, options: dict[str, Any]) -> ObservedRun | None:
        """Begin to observe a run; `None` if that fails."""

    def offered(self, watcher: Watcher, agent: Any, tools: Any) -> None:
        """Note the tools that an agent collected."""

    def tool_raised(self, watcher: Watcher, context: Any, error: Any) -> None:
        """Note the exception of a tool, which the SDK is about to replace by a text."""

    def finished(self, watcher: Watcher, result: Any) -> None:
        """Note the result of a run."""

    def failed(self, watcher: Watcher, error: BaseException) -> None:
        """Note the exception that ended a run."""

    def follow(self, watcher: Watcher, result: Any) -> None:
        """Observe a streamed run until its task ends."""


class ObservedRun(NamedTuple):
    """A run that a recorder observes, and the options with which the SDK is to run it."""

    recorder: RunObserver
    watcher: Watcher
    options: dict[str, Any]


active_recorder: Final[ContextVar[RunObserver | None]] = ContextVar("toolmark_openai_agents_recorder", default=None)
"""The recorder of the runs that begin in this context."""

current_run: Final[ContextVar[ObservedRun | None]] = ContextVar("toolmark_openai_agents_run", default=None)
"""The observed run that this context is part of."""
