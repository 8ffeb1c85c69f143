"""The recording of a run, the tools that run in it, and the run that the current context belongs to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from uuid import uuid4

from toolmark.capture import RunBuilder
from toolmark.cases import Run

if TYPE_CHECKING:
    from toolmark_openai_agents._watcher import Watcher


def now() -> datetime:
    """Return the current time; the SDK's hooks carry none."""
    return datetime.now(timezone.utc)


@dataclass(eq=False)
class Recording:
    """One run of an agent, over as many calls of the runner as it takes."""

    builder: RunBuilder
    inner: bool = False
    """Another run began it outside of any tool, such as in a guardrail."""
    keys: Iterator[int] = field(default_factory=itertools.count)
    """Keys of tool executions, unique in the run."""

    @classmethod
    def begin(cls, conversation: str | None, *, inner: bool) -> Recording:
        """Return the recording of a run that begins."""
        return cls(RunBuilder(run_id=str(uuid4()), conversation_id=conversation), inner)

    def run(self) -> Run:
        """Return the run so far."""
        return self.builder.build()


@dataclass(eq=False)
class ToolRun:
    """One execution of a local tool.

    It holds its context and span, since both are compared by identity and an id may be reused once an object is gone.
    """

    key: int
    call_id: str | None
    tool: Any
    context: Any
    span: Any
    failed: bool = False


class RunObserver(Protocol):
    """The part of the recorder that the runner and the tools of agents report to; none of these raises."""

    def begin(self, agent: Any, input: Any, options: dict[str, Any]) -> ObservedRun | None:
        """Begin to observe a run; `None` if that fails."""

    def offered(self, watcher: Watcher, agent: Any, tools: Any) -> None:
        """Note the tools that an agent collected."""

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
