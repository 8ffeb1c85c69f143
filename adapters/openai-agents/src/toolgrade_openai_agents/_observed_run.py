"""The recorders that are active in a context, and the observed run that a context belongs to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from toolgrade.capture import ForkSafeLock
from toolgrade_openai_agents._run_tree import RunnerRecording
from toolgrade_openai_agents._watcher import RunWatcher


class RunObserver(Protocol):
    """The part of the recorder that the runner and the tools of agents report to; none of these raises."""

    def begin(self, agent: Any, input: Any, options: dict[str, Any]) -> ObservedRun | None:
        """Begin to observe a run; `None` if that fails."""

    def offered(self, watcher: RunWatcher, agent: Any, tools: Any) -> None:
        """Note the tools that an agent collected."""

    def tool_raised(self, watcher: RunWatcher, context: Any, error: Any) -> None:
        """Note the exception of a tool, which the SDK is about to replace by a text."""

    def finished(self, watcher: RunWatcher, result: Any) -> None:
        """Note the result of a run."""

    def failed(self, watcher: RunWatcher, error: BaseException) -> None:
        """Note the exception that ended a run."""

    def follow(self, watcher: RunWatcher, result: Any) -> None:
        """Observe a streamed run until its task ends."""

    def missed(self, agent: Any) -> None:
        """Note that an agent ran where no recorder is active."""

    def watch(self, session: Any) -> Any:
        """Return the watcher of a realtime session that begins; `None` if that fails."""

    def observe(
        self, watcher: RunWatcher | None, where: str, note: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Call a method that notes something, and return its result."""

    def store(self, recording: RunnerRecording) -> None:
        """Store the recording of a turn that begins."""

    def deliver(self, watcher: RunWatcher) -> None:
        """Deliver a run that ended or waits for a person."""

    def restore(self, watcher: RunWatcher) -> None:
        """Restore what was replaced for a run or a session."""


class ObservedRun(NamedTuple):
    """A run that a recorder observes, and the options with which the SDK is to run it."""

    recorder: RunObserver
    watcher: RunWatcher
    options: dict[str, Any]
    beside_tools: bool = False
    """The context is that of a hook or guardrail: it may be called inside a tool's span, and is no part of the tool."""


current_run: Final[ContextVar[ObservedRun | None]] = ContextVar("toolgrade_openai_agents_run", default=None)
"""The observed run that this context is part of."""


def beside_tools(original: Any) -> Any:
    """Return an asynchronous function of the user, such as a hook, whose runs are not those of a tool around it."""

    @functools.wraps(original)
    async def called(*args: Any, **kwargs: Any) -> Any:
        observed = current_run.get()
        token = current_run.set(None if observed is None else observed._replace(beside_tools=True))
        try:
            return await original(*args, **kwargs)
        finally:
            current_run.reset(token)

    return called


@dataclass(eq=False)
class Attachment:
    """One block in which a recorder is active.

    Attributes:
        recorder: The recorder.
        is_process_wide: It is also active wherever no other recorder is: in all tasks and threads of the process.
        outer: The attachment around it in its context.
        token: Restores the outer one; `None` once the block was left.
    """

    recorder: RunObserver
    is_process_wide: bool
    outer: Attachment | None
    token: Token[Attachment | None] | None = None

    @classmethod
    def open(cls, recorder: RunObserver, *, is_process_wide: bool) -> Attachment:
        """Make a recorder active in the current context, and in tasks that are started in it."""
        attachment = cls(recorder, is_process_wide, _innermost())
        attachment.token = _attachment.set(attachment)
        with _lock:
            _attachments.append(attachment)
        return attachment

    def close(self) -> None:
        """Leave the block, in whichever context."""
        token, self.token = self.token, None
        with _lock:
            _attachments.remove(self)
        # Asynchronous test fixtures leave the block in another context than the one that they entered it in.
        with suppress(ValueError):
            if token is not None:
                _attachment.reset(token)

    @property
    def is_here(self) -> bool:
        """Whether it is one of the attachments of the current context."""
        attachment = _attachment.get()
        while attachment is not None and attachment is not self:
            attachment = attachment.outer
        return attachment is self


_attachment: Final[ContextVar[Attachment | None]] = ContextVar("toolgrade_openai_agents_recorder", default=None)
_attachments: Final[list[Attachment]] = []
"""The open attachments of the process, in the order in which they were opened."""
_lock: Final = ForkSafeLock()


def _innermost() -> Attachment | None:
    """Return the innermost attachment of the context that is open, or whose recorder observes the current run."""
    run, attachment = current_run.get(), _attachment.get()
    # A stream goes on after the block that it began in, and so do the runs inside it.
    while (
        attachment is not None and attachment.token is None and (run is None or attachment.recorder is not run.recorder)
    ):
        attachment = attachment.outer
    return attachment


def recorder_here() -> RunObserver | None:
    """Return the recorder of a run that begins here.

    It is the innermost one of the context, else that of the run that the context is part of, else the newest one of
    the whole process.
    """
    attachment, run = _innermost(), current_run.get()
    if attachment is not None:
        return attachment.recorder
    if run is not None:
        return run.recorder
    with _lock:
        process_wide = [attachment for attachment in _attachments if attachment.is_process_wide]
    return process_wide[-1].recorder if process_wide else None


def open_recorders() -> list[RunObserver]:
    """Return the recorders that are active anywhere in the process."""
    with _lock:
        return list({id(attachment.recorder): attachment.recorder for attachment in _attachments}.values())
