"""Spans of observed functions, and the recorder that turns them into runs.

A *span* is one call of an observed function. A context variable holds the innermost span of a task or thread, and each
span has its parent. An event in a span goes to every enclosing *record*: that of the run, and those of components with
metrics, which are recorded as if each were a run.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from uuid import uuid4

from toolgrade._internal.json import JsonObject, json_text
from toolgrade._internal.locks import ForkSafeLock
from toolgrade._internal.model import drop_none
from toolgrade._internal.text import error_text
from toolgrade.calls import ToolCallType, ToolSpec
from toolgrade.capture.builder import RunBuilder
from toolgrade.capture.doubles import Answer
from toolgrade.capture.input_parts import image_parts, texts_in
from toolgrade.capture.recorder import DEFAULT_LIMIT, DEFAULT_LIMIT_BYTES, RunRecorder
from toolgrade.capture.records import Key, Outcome, Request, json_value
from toolgrade.capture.sinks import Sink
from toolgrade.cases import LLMTestCase, MLLMImage, Run, RunStatus, made_quietly
from toolgrade.errors import NotMeasuredError
from toolgrade.matching.json_compare import ABSENT

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
P = ParamSpec("P")


def guarded(note: Callable[P, None]) -> Callable[P, None]:
    """Return a function that notes something and never raises, also where the warning of a fault fails.

    Faults of single events are warnings on the run (`Record.report`). This is the outer guard, for faults around them.
    """

    @functools.wraps(note)
    def guarded_note(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            note(*args, **kwargs)
        except Exception:
            _logger.warning("a fault of the recorder: something was not recorded", exc_info=True)

    return guarded_note


_logger = logging.getLogger(__name__)
_keys = itertools.count(1)
_current: ContextVar[ObservedSpan | None] = ContextVar("toolgrade_span", default=None)
if hasattr(os, "register_at_fork"):
    # A function that a forked process calls begins a run of its own, not a part of a run of the parent.
    os.register_at_fork(after_in_child=lambda: _current.set(None))
_recorder: ContextVar[ObserveRecorder | None] = ContextVar("toolgrade_observe_recorder", default=None)
_listening: dict[int, ObserveRecorder] = {}
"""Recorders whose block is open, in any thread: a call outside of their context may belong to one of their runs."""
_process_wide: list[ObserveRecorder] = []
"""Recorders of the whole process whose block is open; the newest records where no other recorder is active."""


@dataclass(frozen=True, eq=False)
class Observable:
    """The options of `@observe` for one function.

    Attributes:
        name: Name of the component, or of the tool.
        is_tool: Calls of it are tool calls.
        type: Who runs the tool.
        metrics: Metrics that score it.
        source: Module and qualified name of the function.
    """

    name: str
    is_tool: bool = False
    type: ToolCallType | None = None
    metrics: tuple[object, ...] = ()
    source: str = ""


@dataclass(frozen=True)
class Component:
    """One call of a component that has metrics.

    Attributes:
        of: The function; the same object for all calls of it.
        case: What was observed, with the changes of `update_current_span`.
    """

    of: Observable
    case: LLMTestCase

    @property
    def name(self) -> str:
        """Name of the component."""
        return self.of.name

    @property
    def metrics(self) -> tuple[object, ...]:
        """Metrics that score it."""
        return self.of.metrics


@dataclass(eq=False)
class Record:
    """Observations inside one span: of a run, or of a component with metrics."""

    recorder: ObserveRecorder
    overrides: JsonObject
    """Fields of the case that `update_current_span` set; shared with the span."""
    observable: Observable
    builder: RunBuilder
    is_run: bool
    components: list[Record] = field(default_factory=list)
    of_run: JsonObject = field(default_factory=dict)
    """Fields of the case of the whole run, which are not those of a component that is the run; see `update_case`."""
    metrics_of_run: list[object] = field(default_factory=list)
    """Metrics of the whole run that were added while it ran."""
    lost: str | None = None
    """Why the run must not be measured: a change of a case was lost."""

    def run(self) -> Run:
        """Return the observations as a run."""
        with self.recorder.lock:
            return self.builder.build()

    def report(self, event: Callable[[RunBuilder], object]) -> None:
        """Report an event to the builder; an error becomes a warning of the run."""
        with self.recorder.lock:
            try:
                event(self.builder)
            except Exception as error:  # noqa: BLE001 - a recorder never disturbs the agent
                self.builder.warn(f"an event was not recorded: {error_text(error)}")

    def case(self, expected: Mapping[str, Any]) -> LLMTestCase:
        """Return the case: each field from the overrides, else from `expected`, else as observed."""
        case = self.recorder.so_far(self).to_test_case(name=self.observable.name or None)
        return _replace_fields(case, {**expected, **self.overrides})

    def parts(self, expected: Mapping[str, Any]) -> Iterator[Component]:
        """Yield the components of a run, and the run itself if it has metrics of its own; `expected` as for `case`."""
        for part in self.components:
            yield Component(part.observable, part.case(expected if part.overrides is self.overrides else {}))
        if self.metrics_of_run:
            of = replace(self.observable, metrics=tuple(self.metrics_of_run))
            yield Component(of, _replace_fields(self.case(expected), self.of_run))


class ObservedSpan:
    """One call of an observed function; a context manager that makes it the innermost span."""

    def __init__(self, observable: Observable, parent: ObservedSpan | None) -> None:
        """Start without records."""
        self.observable = observable
        self.parent = parent
        self.key: Key = next(_keys)
        self.overrides: JsonObject = {}
        self.records: list[Record] = []
        self.app: Observable | None = None
        """In the span of `ObserveRecorder.run`: the answering function, whose overrides are those of the run."""
        self.messages: list[list[Request]] = []
        """The requests of each message of a model that was reported in this span or in components inside it."""
        self._previous: ObservedSpan | None = None
        self._is_over = False

    def __enter__(self) -> Self:
        """Make it the innermost span. A generator enters each time it continues."""
        # Not a token of the context variable: a generator may be closed in another context than it began in.
        self._previous = _current.get()
        _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the span; an exception ends it."""
        _current.set(self._previous)
        if error is not None:
            self.failed(error)

    def enclosing_records(self) -> Iterator[tuple[Record, Key | None]]:
        """Yield every record that events in this span belong to, each with the innermost tool between the two."""
        tool: Key | None = None
        span: ObservedSpan | None = self
        while span is not None:
            for record in span.records:
                yield record, tool
            # Only the innermost tool between the event and the record is the scope; outer ones enclose it themselves.
            if tool is None and span.observable.is_tool:
                tool = span.key
            span = span.parent

    def add_message(self, requests: Sequence[object]) -> None:
        """Add the requests of a message of a model that was reported in this span."""
        # The builder warns of anything else; here it would make every later call of a tool fail to be recorded.
        valid = [request for request in requests if isinstance(request, Request)]
        for span in self._spans_of_scope():
            span.messages.append(valid)

    def message_with(self, *, name: str | None = None, call_id: str | None = None) -> list[Request] | None:
        """Return the requests of the newest message that has one of this id or, without an id, of this name.

        Branches that run at the same time may repeat ids and names. So the messages of the innermost component that has
        one come first, then those of the component around it.
        """
        for span in self._spans_of_scope() if call_id or name else ():
            for requests in reversed(span.messages):
                if any(request.id == call_id if call_id else request.name == name for request in requests):
                    return requests
        return None

    def _spans_of_scope(self) -> Iterator[ObservedSpan]:
        """Yield this span and those around it, to the innermost tool."""
        span: ObservedSpan | None = self
        while span is not None:
            yield span
            span = None if span.observable.is_tool else span.parent

    @guarded
    def report(self, event: Callable[[RunBuilder, Key | None], object]) -> None:
        """Report an event in this span to all enclosing records; the event receives the enclosing tool."""
        for record, tool in self.enclosing_records():
            record.report(lambda builder, tool=tool: event(builder, tool))  # type: ignore[misc]

    def replayed(self, answer: Answer) -> None:
        """Report that a recording answered this tool."""
        if self.parent is not None:
            self.parent.report(lambda builder, _: builder.tool_replayed(self.key, answer))

    def runs(self) -> list[Record]:
        """Return the records of the runs that this span is part of."""
        return [record for record, _ in self.enclosing_records() if record.is_run]

    def warn(self, text: str) -> None:
        """Add a warning to all enclosing records."""
        self.report(lambda builder, _: builder.warn(text))

    def lost(self, text: str) -> None:
        """Add a warning to all enclosing records, and let no run that this span is part of be measured."""
        self.warn(text)
        for run in self.runs():
            run.lost = run.lost or text

    def started(self, get_arguments: Callable[[], JsonObject | None], text: str | None = None) -> None:
        """Report the start of the function; its arguments are read only if a record needs them."""
        now, observable = _now(), self.observable
        # Binding arguments costs more than the rest of a span, so most components do not pay for it.
        arguments = get_arguments() if self.records or observable.is_tool else None

        def start(builder: RunBuilder) -> None:
            question, parts = _input(arguments) if text is None else (text, None)
            builder.started(question, parts=parts, at=now)

        for record in self.records:
            record.report(start)
        if observable.is_tool and self.parent is not None:  # the call belongs to the span around it
            requests = self.parent.message_with(name=observable.name)
            spec = ToolSpec(name=observable.name, type=observable.type)
            self.parent.report(
                lambda builder, tool: builder.tool_started(
                    self.key, spec, arguments, request=requests, scope=tool, at=now
                )
            )

    def returned(self, value: T) -> T:
        """Report that the function returned `value`, and return it."""
        self._note_return(value)
        return value

    @guarded
    def streamed(self, pieces: Sequence[object]) -> None:
        """Report that a generator was read to its end."""
        self._note_return(join_pieces(pieces))

    @guarded
    def _note_return(self, value: object) -> None:
        now = _now()

        def answer() -> str | None:
            text = self.overrides.get("actual_output")
            return text if isinstance(text, str) else text_of(value)

        self._end(
            lambda builder: builder.tool_ended(self.key, value, at=now),
            lambda builder: builder.ended(answer(), at=now),
        )

    @guarded
    def failed(self, error: BaseException) -> None:
        """Report that the function raised, was cancelled, or is a stream that was not read to its end."""
        now, text = _now(), error_text(error)
        is_error = isinstance(error, Exception)
        outcome = Outcome.ERROR if is_error else Outcome.CANCELLED
        status = RunStatus.ERROR if is_error else RunStatus.STOPPED
        self._end(
            lambda builder: builder.tool_failed(self.key, text, outcome=outcome, at=now),
            lambda builder: builder.ended(status=status, error=text, at=now),
        )

    def _end(self, end_tool: Callable[[RunBuilder], object], end_run: Callable[[RunBuilder], object]) -> None:
        """Report the end, once, and deliver the runs that end with this span."""
        # A stream ends once, though it may be closed after it was read to its end.
        if self._is_over:
            return
        if self.observable.is_tool and self.parent is not None:
            self.parent.report(lambda builder, _: end_tool(builder))
        for record in self.records:
            record.report(end_run)
        # Only now: an interruption above leaves the span open, and is then its end.
        self._is_over = True
        for record in self.records:
            if record.is_run:
                record.recorder.finished(record)


class NoSpan(nullcontext[None]):
    """In place of the span of a call that is not recorded; does nothing."""

    def returned(self, value: T) -> T:
        """Return the value."""
        return value

    def streamed(self, pieces: Sequence[object]) -> None:
        """Do nothing."""

    def failed(self, error: BaseException) -> None:
        """Do nothing."""


_NO_SPAN = NoSpan()


class ObserveRecorder(RunRecorder[Record]):
    """Records the runs of observed functions that are called inside its block; see `record`."""

    how_to_attach = "call a function decorated with @observe inside `with record()`"

    @property
    def components(self) -> list[Component]:
        """The components with metrics in the stored runs, in the order in which they started."""
        return self.components_with({})

    def components_with(self, expected: Mapping[str, Any]) -> list[Component]:
        """Return the components; `expected` are fields for the cases of components that are a whole run."""
        with self._lock:
            return [part for record in self._recordings.values() for part in record.parts(expected)]

    def lost(self) -> NotMeasuredError | None:
        """Return why the stored runs must not be measured, if so."""
        with self._lock:
            texts = [record.lost for record in self._recordings.values() if record.lost]
        return NotMeasuredError(texts[0]) if texts else None

    def cases_with(self, expected: Mapping[str, Any]) -> list[LLMTestCase]:
        """Return the cases of the stored runs; `expected` are fields of all of them."""
        with self._lock:
            return [_replace_fields(record.case(expected), record.of_run) for record in self._recordings.values()]

    def test_case_with(self, case: LLMTestCase, expected: Mapping[str, Any]) -> LLMTestCase:
        """Return a case of the newest run: each field from `expected`, else from the overrides, else from `case`."""
        with self._lock:
            newest = next(reversed(self._recordings.values()))
            # The id and the tags of the run win, since the case was made for it.
            changes = {**newest.overrides, **newest.of_run}
            overrides = {name: value for name, value in changes.items() if name not in ("id", "tags")}
            metadata = {**(overrides.pop("metadata", None) or {}), **case.metadata}
            return _replace_fields(case, {**overrides, **drop_none({"metadata": metadata or None}), **expected})

    @property
    def lock(self) -> ForkSafeLock:
        """Held while a record is changed or read."""
        return self._lock

    @contextmanager
    def listening(self, *, process_wide: bool = False) -> Generator[ObserveRecorder, None, None]:
        """Record calls inside the block, in this context and in those copied from it, or in the whole process."""
        previous = _recorder.get()
        _recorder.set(self)
        _listening[id(self)] = self
        if process_wide:
            _process_wide.append(self)
        try:
            yield self
        finally:
            _recorder.set(previous)
            _listening.pop(id(self), None)
            if process_wide:
                _process_wide.remove(self)

    @contextmanager
    def run(self, input: str | None = None, *, app: object = None) -> Generator[ActiveRun, None, None]:
        """Record the block as one run, for code without a function to decorate.

        ```python
        with recorder.run("What is 1 + 2?") as run:
            run.answer(f"It is {add(1, 2)}.")
        ```

        Args:
            input: Text of the user.
            app: The function that answers. If it is observed, `update_current_span` inside it changes the case of the
                run.
        """
        span = ObservedSpan(Observable(""), _current.get())
        span.app = observable_of(app)
        self.begin(span)
        span.started(lambda: None, input)
        run = ActiveRun()
        with span:
            yield run
        span.returned(run.value)

    def begin(self, span: ObservedSpan) -> None:
        """Start a run at this span."""
        builder = RunBuilder(run_id=str(uuid4()), conversation_id=self._label())
        record = Record(self, span.overrides, span.observable, builder, is_run=True)
        span.records.append(record)
        with self._lock:
            self._add(record)

    def so_far(self, record: Record) -> Run:
        """Return the run of a record; one that has not ended is `stopped`."""
        with self._lock:
            return self._so_far(record)

    def finished(self, record: Record) -> None:
        """Deliver a finished run; a sink that fails does not disturb the agent."""
        try:
            self._deliver([record])
        except Exception as error:  # noqa: BLE001 - as above
            self.say(f"the sink failed, so the recorder stores the run: {error_text(error)}")

    def say(self, text: str) -> None:
        """Add a warning that belongs to no run."""
        with self._lock:
            self._say(text)

    def missed(self, name: str) -> None:
        """Warn of a call outside of this recorder's context, in all open runs, because it may belong to any."""
        text = (
            f"the observed function {name!r} was called in a thread or context without an observed run; if it "
            "is part of this one, it was not recorded: start threads with contextvars.copy_context().run, or "
            "asyncio.to_thread"
        )
        with self._lock:
            for record in self._recordings.values():
                if record.builder.is_open:
                    for part in (record, *record.components):
                        part.builder.warn(text)
            self._say(text)


class ActiveRun:
    """The run that `ObserveRecorder.run` records."""

    value: object = None

    def answer(self, value: object) -> None:
        """Set the final answer: text, or a value that is stored as JSON text."""
        self.value = value


@contextmanager
def record(
    *,
    sink: Sink | None = None,
    limit: int = DEFAULT_LIMIT,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    conversation: str | None = None,
    process_wide: bool = False,
) -> Generator[ObserveRecorder, None, None]:
    """Record every run of an observed function that is called inside the block.

    This holds in the current context and in those copied from it: tasks, `asyncio.to_thread`, threads started with
    `contextvars.copy_context().run`. Runs that begin elsewhere, such as the requests of a server, need `process_wide`.
    A tool that is called in a plain thread loses its run; it is not recorded, and the open runs warn of it.

    Args:
        sink: As for `RunRecorder`.
        limit: As for `RunRecorder`.
        limit_bytes: As for `RunRecorder`.
        conversation: As for `RunRecorder`.
        process_wide: Also record the runs that begin in any other task or thread of the process, where no recorder is
            active.

    Raises:
        ConfigurationError: A limit is not a whole number of at least 1.

    Example:
        >>> from toolgrade import observe
        >>> from toolgrade.capture import record
        >>> @observe(tool=True)
        ... def get_weather(city: str) -> str:
        ...     return "sunny"
        >>> @observe
        ... def agent(question: str) -> str:
        ...     return f"It is {get_weather('Paris')}."
        >>> with record() as recorder:
        ...     answer = agent("What is the weather in Paris?")
        >>> [(call.name, call.arguments, call.output) for call in recorder.last_run.calls]
        [('get_weather', {'city': 'Paris'}, 'sunny')]
    """
    recorder = ObserveRecorder(sink=sink, limit=limit, limit_bytes=limit_bytes, conversation=conversation)
    with recorder.listening(process_wide=process_wide):
        yield recorder


def current_span() -> ObservedSpan | None:
    """Return the innermost span of this context."""
    return _current.get()


def begin_span(observable: Observable, get_arguments: Callable[[], JsonObject | None]) -> ObservedSpan | NoSpan:
    """Return the span of a call that starts now; one that does nothing if the call is not recorded."""
    parent, recorder = _current.get(), _recorder.get()
    if parent is None and recorder is None and not observable.is_tool:
        recorder = next(reversed(_process_wide.copy()), None)
    if parent is None and recorder is None:
        _warn_missed(observable)
        return _NO_SPAN
    try:
        span = ObservedSpan(observable, parent)
        if recorder is not None and not _is_recorded(span, recorder):
            return _NO_SPAN
        if parent is not None and parent.app is observable:
            span.overrides = parent.overrides
        if observable.metrics:
            _add_component(span)
        span.started(get_arguments)
    except Exception as error:  # noqa: BLE001 - a recorder never disturbs the agent
        _warn_lost(observable, parent, recorder, error)
        return _NO_SPAN
    return span


def _is_recorded(span: ObservedSpan, recorder: ObserveRecorder) -> bool:
    """Return whether a span is part of a run, which begins at the span if it is part of no run of this recorder."""
    if any(run.recorder is recorder for run in span.runs()):
        return True
    if not span.observable.is_tool:
        recorder.begin(span)
        return True
    recorder.say(
        f"the tool {span.observable.name!r} was called outside any observed run, and was not recorded; decorate "
        "the function that answers with @observe, or call it inside `with recorder.run(question)`"
    )
    return span.parent is not None


@guarded
def _warn_missed(observable: Observable) -> None:
    for other in list(_listening.values()):
        other.missed(observable.name)


@guarded
def _warn_lost(
    observable: Observable, parent: ObservedSpan | None, recorder: ObserveRecorder | None, error: Exception
) -> None:
    text = f"a call of {observable.name!r} was not recorded: {error_text(error)}"
    if parent is not None:
        parent.warn(text)
    elif recorder is not None:
        recorder.say(text)


def _add_component(span: ObservedSpan) -> None:
    """Give a span with metrics a record in each run; if it is the whole run, that is the run's own record."""
    for run in span.runs():
        component = run
        if run not in span.records:
            component = Record(run.recorder, span.overrides, span.observable, RunBuilder(), is_run=False)
            span.records.append(component)
        with run.recorder.lock:
            run.components.append(component)


def add_metrics(span: ObservedSpan, metrics: Sequence[object]) -> None:
    """Add metrics to the component of a span that is running; calls before are known if it had some, or is a run."""
    had_some = bool(span.observable.metrics)
    span.observable = replace(span.observable, metrics=(*span.observable.metrics, *metrics))
    for record in span.records:
        record.observable = span.observable
    if not had_some:
        if not any(record.is_run for record in span.records):
            span.warn(f"{span.observable.name!r} got its metrics while it ran: calls before are not among its calls")
        _add_component(span)


def observable_of(function: object) -> Observable | None:
    """Return the `Observable` of a function, a bound method or a `partial` of one; `None` if it is not observed."""
    plain: object = function.func if isinstance(function, partial) else function
    observable = getattr(plain, "__observed__", None)
    return observable if isinstance(observable, Observable) else None


def _replace_fields(case: LLMTestCase, changes: Mapping[str, Any]) -> LLMTestCase:
    """Return a case with these fields in place of its own.

    `tools_called` is `ABSENT` in the changes if a whole case without calls was set: the calls are then those that were
    observed, or unknown if there are none.
    """
    fields = {name: getattr(case, name) for name in case.model_fields_set} | dict(changes)
    if fields.get("tools_called") is ABSENT:
        fields["tools_called"] = case.tools_called
        if not case.tools_called:
            del fields["tools_called"]
    return made_quietly(LLMTestCase, fields)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _input(arguments: Mapping[str, Any] | None) -> tuple[str | None, list[str | MLLMImage] | None]:
    """Return the text of the user and, if there are images, the texts and images.

    That is the first argument that is text or a message with an image, else all arguments as JSON text.
    """
    for value in (arguments or {}).values():
        if isinstance(value, str):
            return value, None
        parts = image_parts(value) if isinstance(value, list) else None
        if parts is not None:
            return "\n".join(texts_in(parts)), parts
    return text_of(arguments or None), None


def text_of(value: object) -> str | None:
    """Return a value as text: JSON text unless it is text, `None` if it cannot be converted."""
    if value is None or isinstance(value, str):
        return value
    plain, _ = json_value(value)
    return None if plain is ABSENT else json_text(plain)


def join_pieces(pieces: Sequence[object]) -> object:
    """Return the pieces of a stream as one text if all of them are text, else as a list."""
    return "".join(map(str, pieces)) if pieces and all(isinstance(piece, str) for piece in pieces) else list(pieces)
