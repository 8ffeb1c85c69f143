"""Who listens to observed functions? The recorder of plain Python, and the beginning of each span."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any
from uuid import uuid4

from toolmark.capture.builder import RunBuilder
from toolmark.capture.observation.spans import Component, Observable, Record, Span, completed, current, error_text
from toolmark.capture.recorder import RunRecorder
from toolmark.capture.sinks import LIMIT, Sink
from toolmark.cases import LLMTestCase

_recorder: ContextVar[ObserveRecorder | None] = ContextVar("toolmark_observe_recorder", default=None)
_listening: dict[int, ObserveRecorder] = {}
"""Recorders whose block is open, in whatever thread: what is called outside their context might be theirs."""


class ObserveRecorder(RunRecorder[Record]):
    """Keeps the runs of observed functions that are called inside its block; see `record`."""

    how_to_attach = "call a function decorated with @observe inside `with record()`"

    @property
    def components(self) -> list[Component]:
        """The components with metrics that ran in the runs that are kept, in the order in which they began."""
        return self.components_with({})

    def components_with(self, expected: Mapping[str, Any]) -> list[Component]:
        """Return the components; `expected` are fields of a case for those that are the whole run, unless they say."""
        with self._lock:
            return [
                Component(part.of, part.case(expected if part.said is record.said else {}))
                for record in self._recordings.values()
                for part in record.components
                if part.of is not None
            ]

    def test_case_with(self, case: LLMTestCase, expected: Mapping[str, Any]) -> LLMTestCase:
        """Return a case of the newest run with what was said of that in it, but `expected` before that."""
        with self._lock:
            newest = next(reversed(self._recordings.values()))
            kept = {name: value for name, value in newest.said.items() if name not in ("id", "tags", "metadata")}
            metadata = {**(newest.said.get("metadata") or {}), **case.metadata}
            return completed(case, {**kept, **({"metadata": metadata} if metadata else {}), **expected})

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held while a record is changed or read."""
        return self._lock

    @contextmanager
    def listening(self) -> Generator[ObserveRecorder, None, None]:
        """Record what is called inside, in this context and in those copied from it."""
        before = _recorder.get()
        _recorder.set(self)
        _listening[id(self)] = self
        try:
            yield self
        finally:
            _recorder.set(before)
            _listening.pop(id(self), None)

    @contextmanager
    def run(self, input: str | None = None, *, app: object = None) -> Generator[ActiveRun, None, None]:
        """Make one run of what is called inside, for code that has no function of its own to decorate.

        ```python
        with recorder.run("What is 1 + 2?") as run:
            run.answer(f"It is {add(1, 2)}.")
        ```

        Args:
            input: What the user asks.
            app: The function that answers. Where it is an observed one, it is the run: what is said in it with
                `update_current_span` is said of the run.
        """
        span = Span(None, current())
        span.app = observed(app)
        self.begin(span)
        span.started(lambda: None, input)
        run = ActiveRun(span)
        with span:
            yield run
        span.returned(run.answered)

    def begin(self, span: Span) -> None:
        """Begin a run with this span."""
        builder = RunBuilder(run_id=str(uuid4()), conversation_id=self._label())
        record = Record(self, span.said, span.of, builder, is_run=True)
        span.records.append(record)
        with self._lock:
            self._keep(record)

    def finished(self, record: Record) -> None:
        """Hand a finished run to the sink; one that cannot take it does not disturb the agent."""
        try:
            self._deliver([record])
        except Exception as error:  # noqa: BLE001 - as said
            self.say(f"the sink did not take a run, which is kept here: {error_text(error)}")

    def say(self, text: str) -> None:
        """Warn of something that belongs to no run."""
        with self._lock:
            self._say(text)

    def missed(self, name: str) -> None:
        """A function was called outside this recorder's context; it may belong to any run that goes on."""
        text = (
            f"the observed function {name!r} was called in a thread or context that belongs to no observed run; if it "
            "is part of this one, it was not recorded: start threads with contextvars.copy_context().run, or "
            "asyncio.to_thread"
        )
        with self._lock:
            open_runs = [record for record in self._recordings.values() if record.builder.is_open]
            for record in open_runs:
                for part in (record, *record.components):
                    part.builder.warn(text)
            self._say(text)


class ActiveRun:
    """A run that goes on, from `ObserveRecorder.run`."""

    def __init__(self, span: Span) -> None:
        """Begin without an answer."""
        self.span = span
        self.answered: object = None

    def answer(self, value: object) -> None:
        """This is the final answer: text, or a value of which the JSON text is kept."""
        self.answered = value


@contextmanager
def record(
    *, sink: Sink | None = None, limit: int = LIMIT, conversation: str | None = None
) -> Generator[ObserveRecorder, None, None]:
    """Record every run of an observed function that is called inside.

    It is seen in this context and in those copied from it: tasks, `asyncio.to_thread`, threads started with
    `contextvars.copy_context().run`. A plain thread has none; an observed function that is called in one is not
    recorded, and the runs that go on meanwhile warn of it.

    Args:
        sink: As for `RunRecorder`, as for the rest.
        limit: How many runs are kept.
        conversation: The conversation that every run belongs to.

    Raises:
        ConfigurationError: `limit` is no whole number from 1.
    """
    with ObserveRecorder(sink=sink, limit=limit, conversation=conversation).listening() as recorder:
        yield recorder


def begin(of: Observable, arguments: Callable[[], dict[str, Any] | None]) -> Span | None:
    """Return the span of a call that begins now, or `None` where nobody listens."""
    parent, recorder = current(), _recorder.get()
    if parent is None and recorder is None:
        for other in list(_listening.values()):
            other.missed(of.name)
        return None
    try:
        return _begun(of, parent, recorder, arguments)
    except Exception as error:  # noqa: BLE001 - a recorder never disturbs the agent
        text = f"a call of {of.name!r} was not recorded: {error_text(error)}"
        if parent is not None:
            parent.tell(lambda builder, _: builder.warn(text))
        elif recorder is not None:
            recorder.say(text)
        return None


def observed(function: object) -> Observable | None:
    """Return what `@observe` said of a function, a bound method or a `partial` of one; `None` if it is none."""
    called: object = function.func if isinstance(function, partial) else function
    found = getattr(called, "__observed__", None)
    return found if isinstance(found, Observable) else None


def _begun(
    of: Observable,
    parent: Span | None,
    recorder: ObserveRecorder | None,
    arguments: Callable[[], dict[str, Any] | None],
) -> Span | None:
    span = Span(of, parent)
    runs = [] if parent is None else parent.runs()
    if recorder is not None and all(run.recorder is not recorder for run in runs):
        if not of.is_tool:
            recorder.begin(span)
            runs = [*span.records, *runs]
        else:
            recorder.say(
                f"the tool {of.name!r} was called outside any observed run, and was not recorded; decorate the "
                "function that answers with @observe, or call it inside `with recorder.run(question)`"
            )
            if parent is None:
                return None
    if parent is not None and parent.app is of:
        span.said = parent.said
    if of.metrics:
        _add_component(span, of, runs)
    span.started(arguments)
    return span


def _add_component(span: Span, of: Observable, runs: Sequence[Record]) -> None:
    """Record what happens in a span that has metrics by itself; for a whole run, that is its own record."""
    for run in runs:
        if run in span.records:
            own = run
        else:
            own = Record(run.recorder, span.said, of, RunBuilder(), is_run=False)
            span.records.append(own)
        with run.recorder.lock:
            run.components.append(own)
