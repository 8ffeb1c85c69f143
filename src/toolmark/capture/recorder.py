"""What the recorders of all frameworks share: the runs they keep, and what they give back of them.

How a framework is listened to is the adapter's business. That every recorder then answers to the same names, keeps no
more than it was told to, and says why where nothing was recorded, is decided here.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from toolmark.capture.builder import RunBuilder
from toolmark.capture.conversations import conversations
from toolmark.capture.sinks import LIMIT, Sink
from toolmark.cases import ConversationalTestCase, LLMTestCase, Run, RunStatus
from toolmark.errors import ConfigurationError, NothingRecordedError
from toolmark.expect import ExpectedTools

_WARNINGS: Final = 1_000
"""How many different warnings that belong to no run are kept."""

_labels: ContextVar[Mapping[int, str]] = ContextVar("toolmark_conversations", default={})  # noqa: B039 - never changed


class Recording(Protocol):
    """One run of an agent as far as it was seen."""

    builder: RunBuilder

    def run(self) -> Run:
        """Return the run as far as it was seen."""
        raise NotImplementedError


R = TypeVar("R", bound=Recording)


class RunRecorder(Generic[R]):
    """Base of a recorder: what was recorded, and how it is handed over.

    A subclass keeps recordings with `_keep`, hands those that ended to `_deliver`, and holds `_lock` while it changes
    or reads a recording, since a recorder may watch agents in several threads.
    """

    how_to_attach: ClassVar[str] = "run the agent inside `with record()`"
    """What to do so that runs are seen, for the error that says that there are none."""

    def __init__(self, *, sink: Sink | None = None, limit: int = LIMIT, conversation: str | None = None) -> None:
        """Begin with nothing recorded.

        Args:
            sink: Takes each run when it ends; it is then kept here only while it waits for a person, and comes to the
                sink again, complete and under the same `run_id`, when it was resumed. Without a sink, runs are kept
                here until `pop`.
            limit: How many runs are kept. Of more, the oldest that have ended are dropped, with a warning.
            conversation: The conversation that every run belongs to; by default, the one that the framework names.
        """
        if type(limit) is not int or limit < 1:
            raise ConfigurationError(f"limit must be a whole number from 1, got {limit!r}")
        self.warnings: list[str] = []
        self._sink = sink
        self._limit = limit
        self._conversation = conversation
        self._lock = threading.RLock()
        self._recordings: dict[int, R] = {}

    # What was recorded

    @property
    def runs(self) -> list[Run]:
        """The runs that are kept, in the order in which they began; those that go on are shown as far as they came."""
        with self._lock:
            return [recording.run() for recording in self._recordings.values()]

    @property
    def last_run(self) -> Run:
        """The newest run: the one that began last.

        Raises:
            NothingRecordedError: There is none.
        """
        with self._lock:
            newest = next(reversed(self._recordings.values()), None)
            if newest is None:
                raise NothingRecordedError(
                    f"nothing was recorded: {self.how_to_attach}; runs handed to a sink are not kept here, and pop() "
                    "takes them out" + "".join(f"; {warning}" for warning in self.warnings[:3])
                )
            return newest.run()

    def test_case(
        self,
        expected_tools: ExpectedTools | None = None,
        *,
        expected_output: str | None = None,
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
            id=id,
            name=name,
            nested=nested,
            handoffs=handoffs,
            executed_only=executed_only,
            code=code,
        )

    def conversations(self) -> list[ConversationalTestCase]:
        """Return the conversations that the kept runs make up: by label, else by what the framework calls one."""
        return conversations(self.runs)

    def pop(self) -> list[Run]:
        """Return the runs that have ended and forget them; those that go on stay."""
        with self._lock:
            ended = [recording for recording in self._recordings.values() if not recording.builder.is_open]
            runs = [recording.run() for recording in ended]
            for recording in ended:
                self._drop(recording)
            return runs

    @contextmanager
    def conversation(self, label: str) -> Generator[None, None, None]:
        """Put the runs that begin inside into one conversation.

        It is seen in this context only: also in tasks started inside, not in threads that were not given this context.
        """
        token = _labels.set({**_labels.get(), id(self): label})
        try:
            yield
        finally:
            _labels.reset(token)

    # For subclasses

    def _label(self) -> str | None:
        """Return the conversation that a run which begins now was put into, if any."""
        return _labels.get().get(id(self), self._conversation)

    def _keep(self, recording: R) -> None:
        """Keep a recording; it is now the newest."""
        self._recordings[id(recording)] = recording

    def _drop(self, recording: R) -> bool:
        """Forget a recording, and return whether it was kept."""
        return self._recordings.pop(id(recording), None) is not None

    def _deliver(self, finished: Sequence[R]) -> None:
        """Hand finished runs to the sink, outside the lock; without one, keep no more than the limit."""
        for recording in finished if self._sink is not None else ():
            with self._lock:
                run = recording.run()
            self._sink.write(run)  # type: ignore[union-attr]
            if run.status is not RunStatus.INTERRUPTED:
                with self._lock:
                    self._drop(recording)
        with self._lock:
            while len(self._recordings) > self._limit and (oldest := self._oldest_finished()) is not None:
                self._drop(oldest)
                self._say(f"more than {self._limit} runs were kept, so the oldest were dropped; use pop() or a sink")

    def _oldest_finished(self) -> R | None:
        return next((kept for kept in self._recordings.values() if not kept.builder.is_open), None)

    def _say(self, text: str) -> None:
        """Add a warning that belongs to no run; repetitions are dropped."""
        if text not in self.warnings and len(self.warnings) < _WARNINGS:
            self.warnings.append(text)
