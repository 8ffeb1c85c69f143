"""`RunRecorder`: the base class of all recorders, which holds recorded runs and hands them out.

Each adapter decides how it observes its framework. The recorder API, the limit of stored runs and the errors when
nothing was recorded are the same for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar
from weakref import WeakSet

from toolgrade._internal.locks import ForkSafeLock
from toolgrade._internal.text import error_text
from toolgrade.capture.builder import RunBuilder
from toolgrade.capture.conversations import conversations
from toolgrade.capture.sinks import Sink
from toolgrade.cases import ConversationalTestCase, LLMTestCase, Run, RunEnd, RunStatus
from toolgrade.errors import ConfigurationError, NothingRecordedError
from toolgrade.expect import ExpectedOutput, ExpectedTools

DEFAULT_LIMIT: Final = 10_000
"""Runs that a recorder stores by default."""
DEFAULT_LIMIT_BYTES: Final = 256 * 2**20
"""Bytes of texts and values of runs that a recorder stores by default."""

_MAX_WARNINGS: Final = 1_000
"""Different warnings that belong to no run and are stored."""

_labels: ContextVar[Mapping[int, str]] = ContextVar("toolgrade_conversations", default={})  # noqa: B039 - never changed
"""The conversation of new runs, by the `id` of the recorder."""


class Recording(Protocol):
    """One run of an agent as observed so far.

    Attributes:
        builder: Receives what is observed.

    Example:
        >>> from toolgrade import Run
        >>> from toolgrade.capture import RunBuilder
        >>> class ChatRecording:  # a class with these members is a recording; it needs no base class
        ...     def __init__(self) -> None:
        ...         self.builder = RunBuilder()
        ...
        ...     def run(self) -> Run:
        ...         return self.builder.build()
        >>> recording = ChatRecording()
        >>> recording.builder.started("What is the weather in Paris?")
        >>> recording.run().input
        'What is the weather in Paris?'
    """

    builder: RunBuilder

    def run(self) -> Run:
        """Return the run as observed so far."""
        raise NotImplementedError


_OPEN: Final = "the run had not ended when it was read"
_GOES_ON: Final = (
    "an agent that a tool left in the background had not ended when the run ended; what it did later is not in this "
    "record"
)

R = TypeVar("R", bound=Recording)


class RunRecorder(Generic[R]):
    """Base class of recorders: stores recorded runs and returns them as runs, cases and conversations.

    A subclass adds recordings with `_add`, and passes those that ended to `_deliver`. It holds `_lock` while it
    changes or reads a recording, because a recorder may observe agents in several threads.

    Example:
        >>> from types import SimpleNamespace
        >>> from toolgrade.capture import RunBuilder, RunRecorder
        >>> class ChatRecorder(RunRecorder):
        ...     def add(self, question: str, answer: str) -> None:
        ...         builder = RunBuilder()
        ...         builder.started(question)
        ...         builder.ended(answer)
        ...         recording = SimpleNamespace(builder=builder, run=builder.build)
        ...         with self._lock:
        ...             self._add(recording)
        ...         self._deliver([recording])
        >>> recorder = ChatRecorder()
        >>> recorder.add("What is the weather in Paris?", "It is sunny.")
        >>> recorder.last_run.actual_output
        'It is sunny.'
    """

    how_to_attach: ClassVar[str] = "run the agent inside `with record()`"
    """How to record a run, for the error that nothing was recorded."""

    def __init__(
        self,
        *,
        sink: Sink | None = None,
        limit: int = DEFAULT_LIMIT,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        conversation: str | None = None,
    ) -> None:
        """Start without recordings.

        Args:
            sink: Receives each run when it ends. The recorder then stores a run only while it is open or interrupted,
                and the sink receives it again, complete and under the same `run_id`, when it was resumed. Without a
                sink, runs are stored until `pop`.
            limit: Maximum number of stored runs; beyond it the oldest that have ended are dropped, with a warning.
            limit_bytes: Maximum memory of the texts and values of stored runs that have ended, in bytes; beyond it the
                oldest are dropped, too, but for the newest.
            conversation: Conversation of every run; by default, the one that the framework names.

        Raises:
            ConfigurationError: A limit is not a whole number of at least 1.
        """
        for name, value in (("limit", limit), ("limit_bytes", limit_bytes)):
            if type(value) is not int or value < 1:
                raise ConfigurationError(f"{name} must be a whole number from 1, got {value!r}")
        self.warnings: list[str] = []
        self._sink = sink
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._conversation = conversation
        self._lock = ForkSafeLock()
        self._recordings: dict[int, R] = {}
        self._sizes: dict[int, int] = {}
        """Bytes of the stored runs that have ended."""
        self._stored_bytes = 0
        self._of_parent: dict[int, R] = {}
        """The recordings of the process that forked this one."""
        _recorders.add(self)

    # Recorded runs

    @property
    def runs(self) -> list[Run]:
        """The stored runs, in the order in which they started; one that has not ended is `stopped` so far."""
        with self._lock:
            return [self._so_far(recording) for recording in self._recordings.values()]

    @property
    def last_run(self) -> Run:
        """The run that started last.

        Raises:
            NothingRecordedError: No run is stored.
        """
        with self._lock:
            # Recordings are stored in the order in which they started.
            newest = next(reversed(self._recordings.values()), None)
            if newest is None:
                raise self._nothing_recorded()
            return self._so_far(newest)

    def _nothing_recorded(self) -> NothingRecordedError:
        reasons = "; ".join(["", *self.warnings[:3]])
        return NothingRecordedError(
            f"nothing was recorded: {self.how_to_attach}; the recorder no longer has runs that it passed to a "
            f"sink or returned from pop(){reasons}"
        )

    def test_case(
        self,
        expected_tools: ExpectedTools | None = None,
        *,
        expected_output: ExpectedOutput | None = None,
        required_texts: list[str] | None = None,
        ends: RunEnd | None = None,
        id: str | None = None,
        name: str | None = None,
        nested: bool = False,
        handoffs: bool = False,
        executed_only: bool = False,
        code: bool = True,
    ) -> LLMTestCase:
        """Return the newest run as a case that can be scored; the arguments are those of `Run.to_test_case`."""
        return self.last_run.to_test_case(
            expected_tools=expected_tools,
            expected_output=expected_output,
            required_texts=required_texts,
            ends=ends,
            id=id,
            name=name,
            nested=nested,
            handoffs=handoffs,
            executed_only=executed_only,
            code=code,
        )

    def conversations(self) -> list[ConversationalTestCase]:
        """Return the stored runs as conversations, grouped by `conversation_id`."""
        return conversations(self.runs)

    def pop(self) -> list[Run]:
        """Remove the runs that have ended and return them; others stay."""
        with self._lock:
            ended = [recording for recording in self._recordings.values() if not recording.builder.is_open]
            runs = [_built(recording) for recording in ended]
            for recording in ended:
                self._drop(recording)
            return runs

    @contextmanager
    def conversation(self, label: str) -> Generator[None, None, None]:
        """Put the runs that start inside the block into one conversation.

        This holds in the current context and in tasks started from it, but not in threads without this context.
        """
        token = _labels.set({**_labels.get(), id(self): label})
        try:
            yield
        finally:
            _labels.reset(token)

    # For subclasses

    def _label(self) -> str | None:
        """Return the conversation of a run that starts now, `None` if the framework decides."""
        return _labels.get().get(id(self), self._conversation)

    def _so_far(self, recording: R) -> Run:
        """Return the run so far; one that is open has not ended well, such as that of a stream that nobody reads."""
        run = _built(recording)
        if not recording.builder.is_open or run.status is not RunStatus.OK:
            return run
        changes = {"status": RunStatus.STOPPED, "error": _OPEN, "warnings": [*run.warnings, _OPEN]}
        return run.model_copy(update=changes)

    def _add(self, recording: R) -> None:
        """Store a recording as the newest."""
        self._recordings[id(recording)] = recording

    def _goes_on(self, recording: R) -> bool:  # noqa: ARG002 - for subclasses
        """Return whether a part of a run that ended goes on, such as an agent that a tool left in the background."""
        return False

    def _drop(self, recording: R) -> bool:
        """Remove a recording; return whether it was stored."""
        self._stored_bytes -= self._sizes.pop(id(recording), 0)
        return self._recordings.pop(id(recording), None) is not None

    def _deliver(self, finished: Sequence[R]) -> None:
        """Pass finished runs to the sink, then drop the oldest beyond the limit."""
        own = [recording for recording in finished if id(recording) not in self._of_parent]
        if len(own) < len(finished):
            self._say("a run that was open when the process forked belongs to the parent process; it was left out")
        try:
            for recording in own if self._sink is not None else ():
                self._write(recording)
        finally:
            with self._lock:
                for recording in own:
                    self._measure(recording)
            self._drop_oldest()

    def _measure(self, recording: R) -> None:
        """Count the bytes of a run that ended, if it is still stored."""
        key = id(recording)
        if key in self._recordings:
            size = recording.builder.size
            self._stored_bytes += size - self._sizes.get(key, 0)
            self._sizes[key] = size

    def _write(self, recording: R) -> None:
        """Pass a run that ended to the sink, and drop it unless it is interrupted: a resumed run continues it."""
        with self._lock:
            run = _built(recording)
            if run.status is RunStatus.OK and self._goes_on(recording):
                run = run.model_copy(update={"warnings": [*run.warnings, _GOES_ON]})
        if self._sink is not None:
            self._sink.write(run)  # without the lock: a sink may be slow
        if run.status is not RunStatus.INTERRUPTED:
            with self._lock:
                self._drop(recording)

    def _leave_to_parent(self) -> None:
        """Leave all recordings to the parent, in a forked process: it ends and stores them."""
        self._of_parent, self._recordings = self._recordings, {}
        self._sizes, self._stored_bytes = {}, 0

    def _drop_oldest(self) -> None:
        """Drop the oldest runs beyond the limits."""
        with self._lock:
            while True:
                if len(self._recordings) > self._limit:
                    limit = f"{self._limit} runs"
                elif self._stored_bytes > self._limit_bytes and len(self._sizes) > 1:
                    limit = f"{self._limit_bytes:,} bytes of runs"
                else:
                    break
                # An open run is never dropped: its end would then belong to no run.
                ended = (recording for recording in self._recordings.values() if not recording.builder.is_open)
                oldest = next(ended, None)
                if oldest is None:
                    break
                self._drop(oldest)
                self._say(f"more than {limit} were stored, so the oldest were dropped; use pop() or a sink")

    def _say(self, text: str) -> None:
        """Add a warning that belongs to no run; a repeated warning is dropped."""
        if text not in self.warnings and len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(text)


def _built(recording: Recording) -> Run:
    """Return the run so far; one that cannot be built is a run with an error, so that the others are not lost, too."""
    try:
        return recording.run()
    except Exception as error:  # noqa: BLE001 - it may contain anything that the agent passed
        text = f"the run could not be built: {error_text(error)}"
        run = Run(status=RunStatus.ERROR, error=text, warnings=[text])
        run_id = recording.builder.run_id
        return run.model_copy(update={"run_id": run_id}) if isinstance(run_id, str) else run


_recorders: Final[WeakSet[RunRecorder[Any]]] = WeakSet()


def _leave_to_parent() -> None:
    for recorder in _recorders:
        recorder._leave_to_parent()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - its own class


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
