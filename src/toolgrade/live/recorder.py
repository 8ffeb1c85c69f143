"""`TraceRecorder`: a recorder of runs from spans that arrive one by one, read as the spans of a file are.

Nothing is interpreted while an agent runs. A span is stored when it ends; the reader of trace files makes runs of the
stored spans when somebody asks for them, or when a trace has ended and a sink waits for its run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, TypeAlias

from toolgrade._internal.json import within_limits
from toolgrade._internal.text import error_text, plural
from toolgrade.capture import RunBuilder, RunRecorder, Sink
from toolgrade.capture.conversations import whole_runs_of_sessions
from toolgrade.capture.recorder import DEFAULT_LIMIT
from toolgrade.cases import Run
from toolgrade.errors import ConfigurationError
from toolgrade.formats.messages.field_readers import Notes
from toolgrade.formats.traces.genai import interpret
from toolgrade.formats.traces.messages import remember_messages
from toolgrade.formats.traces.otel import spans_in
from toolgrade.formats.traces.span_tree import Span
from toolgrade.formats.traces.to_runs import conversation_key, runs_of

MAX_SPANS: Final = 20_000
"""Spans that a recorder stores by default."""

_PASSED_ON_SHARE: Final = 10
"""Of the runs that were passed on, a recorder stores one tenth as many spans for later turns."""

_MAX_RELATED: Final = 20
"""Other traces of its conversation that the run of a trace is read with, if a sink waits for it."""

SpanFields: TypeAlias = "dict[str, Any]"
"""A span in the form of OTLP's JSON."""


@dataclass(eq=False)
class LiveTrace:
    """One trace as observed so far.

    Attributes:
        id: Id of the trace.
        recorder: The recorder that reads it.
        label: Conversation of its run; `None` if the spans decide.
        builder: Only says whether the trace is open; the run is read from the spans.
        spans: The spans that ended, each with its number among all spans of the recorder.
        begun: Ids of all spans that were seen to begin.
        open: Names of the spans that have not ended, by their ids.
        outer: Ids of parents in this process that began before the recording.
        warnings: Warnings of the recorder about this trace.
        dropped: Spans that were not stored because there were too many.
        is_run: It was checked that the trace is a run.
        key: What identifies the conversation of its run, once the trace has ended and a sink waits for it.
        beside: Ids of the traces that were open when it ended, if it may be a copy of a part of one of them.
    """

    id: str
    recorder: TraceRecorder
    label: str | None
    builder: RunBuilder = field(default_factory=RunBuilder)
    spans: list[tuple[int, Any]] = field(default_factory=list[tuple[int, Any]])
    begun: set[str] = field(default_factory=set[str])
    open: dict[str, str] = field(default_factory=dict[str, str])
    outer: set[str] = field(default_factory=set[str])
    warnings: list[str] = field(default_factory=list[str])
    dropped: int = 0
    is_run: bool = False
    key: tuple[str | None, str | None] | None = None
    beside: set[str] = field(default_factory=set[str])

    def run(self) -> Run:
        """Return the run as observed so far; an empty one if no model, agent or tool was at work."""
        run = self.recorder.runs_by_trace().get(self.id)
        return self.recorder.empty_run(self) if run is None else run

    def warn(self, text: str) -> None:
        """Add a warning, once."""
        if text not in self.warnings:
            self.warnings.append(text)

    @property
    def all_warnings(self) -> list[str]:
        """The warnings of the recorder about the run."""
        texts = list(self.warnings)
        if self.dropped:
            texts.append(
                f"{plural(self.dropped, 'span')} of the trace came when the recorder was full and were dropped; calls "
                "may be missing: pass a sink, call pop(), or raise max_spans"
            )
        if self.open:
            names = ", ".join(map(repr, list(self.open.values())[:3]))
            texts.append(f"{plural(len(self.open), 'span')} had not ended when the run was read: {names}")
        return texts


class TraceRecorder(RunRecorder[LiveTrace]):
    """Records the runs of traces; a trace without a model, an agent or a tool is not a run.

    What a subclass observes it passes on by `_span_began` and `_span_ended`, with the lock held.
    """

    def __init__(
        self,
        *,
        sink: Sink | None = None,
        limit: int = DEFAULT_LIMIT,
        conversation: str | None = None,
        max_spans: int = MAX_SPANS,
        handoff_names: Collection[str] = (),
    ) -> None:
        """Start without traces.

        Args:
            sink: Receives each run when its trace has ended, see `RunRecorder`.
            limit: Maximum number of stored runs.
            conversation: Conversation of every run; by default, the session that the spans name.
            max_spans: Maximum number of stored spans. Beyond it the oldest traces that have ended are dropped, then
                further spans, with a warning on their run.
            handoff_names: Names of tools that hand over to another agent.

        Raises:
            ConfigurationError: `limit` or `max_spans` is not a whole number of at least 1.
        """
        super().__init__(sink=sink, limit=limit, conversation=conversation)
        if type(max_spans) is not int or max_spans < 1:
            raise ConfigurationError(f"max_spans must be a whole number from 1, got {max_spans!r}")
        self._max_spans = max_spans
        self._handoff_names = frozenset(handoff_names)
        self._traces: dict[str, LiveTrace] = {}
        self._passed_on: dict[str, LiveTrace] = {}
        """Traces that a sink or `pop` received: the reader needs them for later turns of their conversations."""
        self._number_of_spans = 0
        self._stored_spans = 0
        self._passed_on_spans = 0
        self._runs: dict[str, Run] | None = {}

    # Recorded runs

    @property
    def runs(self) -> list[Run]:
        """The stored runs, in the order in which they started; those that have not ended as observed so far.

        The traces of a session that waited for a person and went on are one run; a sink receives a run for each.
        """
        with self._lock:
            return whole_runs_of_sessions(list(self.runs_by_trace().values()))

    @property
    def last_run(self) -> Run:
        """The run that started last.

        Raises:
            NothingRecordedError: No run is stored.
        """
        with self._lock:
            runs = self.runs
            if not runs:
                raise self._nothing_recorded()
            return runs[-1]

    def pop(self) -> list[Run]:
        """Remove the runs that have ended and return them; others stay."""
        with self._lock:
            runs = self.runs_by_trace()
            ended = [trace for trace in self._traces.values() if not trace.builder.is_open]
            ids = {trace.id for trace in ended}
            for trace in ended:
                self._drop(trace)
            return whole_runs_of_sessions([run for trace_id, run in runs.items() if trace_id in ids])

    def runs_by_trace(self) -> dict[str, Run]:
        """Return the stored runs by the ids of their traces, in the order in which they started."""
        with self._lock:
            if self._runs is None:
                runs = self._read(chain(self._passed_on.values(), self._traces.values()))
                self._runs = {trace_id: run for trace_id, run in runs.items() if trace_id in self._traces}
            return dict(self._runs)

    def empty_run(self, trace: LiveTrace) -> Run:
        """Return the run of a trace that shows no model, agent or tool."""
        return self._completed(Run(run_id=trace.id), trace)

    # For subclasses

    def _span_began(self, trace_id: str, span_id: str, name: str, parent_id: str | None = None) -> None:
        """Note that a span began; `parent_id` is a parent in this process."""
        trace = self._trace(trace_id)
        if len(trace.begun) < self._max_spans:
            trace.begun.add(span_id)
            trace.open[span_id] = name
            if parent_id is not None and parent_id not in trace.begun:
                trace.outer.add(parent_id)

    def _span_ended(self, trace_id: str, span_id: str, span: Any) -> LiveTrace:  # noqa: ANN401 - see `_fields`
        """Store a span and return its trace, which has ended if none of its spans is open."""
        trace = self._trace(trace_id)
        trace.open.pop(span_id, None)
        trace.outer.discard(span_id)
        if len(trace.begun) < self._max_spans:
            trace.begun.add(span_id)
        return self._store(trace_id, span)

    def _store(self, trace_id: str, item: Any) -> LiveTrace:  # noqa: ANN401 - see `_fields`
        """Store a span, or another part of a trace, and return the trace."""
        trace = self._trace(trace_id)
        self._runs = None
        if self._has_room():
            trace.spans.append((self._number_of_spans, item))
            self._number_of_spans += 1
            self._stored_spans += 1
        else:
            trace.dropped += 1
        if not trace.open and not trace.outer:
            trace.builder.ended()
        return trace

    def _fields(self, span: Any) -> SpanFields:  # noqa: ANN401 - whatever the subclass stores
        """Return a stored span in the form of OTLP's JSON."""
        fields: SpanFields = span
        return fields

    def _trace(self, trace_id: str) -> LiveTrace:
        """Return a trace, which is open; a new one if it is not stored."""
        trace = self._traces.get(trace_id)
        if trace is not None:
            trace.builder.resumed()
            return trace
        trace = self._traces[trace_id] = LiveTrace(trace_id, self, self._label())
        self._add(trace)
        if trace_id in self._passed_on:
            self._forget(trace_id)
            trace.warn("earlier spans of the trace are of a run that the recorder no longer has; these came later")
        if len(self._traces) > 2 * self._limit:  # at most `limit` have ended
            self._drop(next(trace for trace in self._traces.values() if trace.builder.is_open))
            self._say(f"more than {self._limit} traces were open at the same time, so the oldest were dropped")
        return trace

    # Memory

    def _drop(self, recording: LiveTrace) -> bool:
        """Remove a trace from the stored ones; later turns of its conversation are still read with it."""
        if self._traces.get(recording.id) is recording:
            del self._traces[recording.id]
            self._stored_spans -= len(recording.spans)
            self._passed_on[recording.id] = recording
            self._passed_on_spans += len(recording.spans)
            self._runs = None
            while self._passed_on_spans * _PASSED_ON_SHARE > self._max_spans or len(self._passed_on) > self._limit:
                self._forget(next(iter(self._passed_on)))
        return super()._drop(recording)

    def _forget(self, trace_id: str) -> None:
        self._passed_on_spans -= len(self._passed_on.pop(trace_id).spans)

    def _has_room(self) -> bool:
        """Return whether another span can be stored, after the oldest traces have made room for it."""
        while self._stored_spans >= self._max_spans:
            ended = next((trace for trace in self._traces.values() if not trace.builder.is_open), None)
            if ended is None:
                return False
            self._drop(ended)
            self._say(f"more than {self._max_spans} spans were stored, so the oldest runs were dropped")
        return True

    def _drop_oldest(self) -> None:
        """Drop the traces beyond the limit: first those that are not runs, such as other requests of a web server."""
        with self._lock:
            if len(self._recordings) > self._limit:
                for trace in list(self._traces.values()):
                    if not trace.is_run and not trace.builder.is_open:
                        trace.is_run = bool(self._read([trace]))
                        if not trace.is_run:
                            self._drop(trace)
        super()._drop_oldest()

    # Reading

    def _deliver_ended(self, traces: Iterable[LiveTrace]) -> None:
        """Deliver the runs of those traces that have ended, and of those that waited for them; this never raises."""
        try:
            with self._lock:
                ended = [trace for trace in traces if not trace.builder.is_open]
                if self._sink is not None and ended:
                    ended = self._ready(ended)
            self._deliver(ended)
        except Exception as error:  # noqa: BLE001 - a recorder never raises into the agent
            with self._lock:
                self._say(f"the sink failed, so the recorder stores the run: {error_text(error)}")

    def _ready(self, ended: Iterable[LiveTrace]) -> list[LiveTrace]:
        """Return the traces whose runs can be passed on.

        A client that is traced itself, without the context of the agent around it, copies a part of the agent's trace.
        That is only known when the agent's trace has ended.
        """
        stored = list(self._traces.values())
        running = {trace.id for trace in stored if trace.builder.is_open}
        for trace in ended:
            with suppress(Exception):  # what cannot be read is a run with a warning, see `_read`
                spans = self._spans([trace])
                trace.key = conversation_key(spans)
                trace.beside = running if all(span.kind == "model" for span in spans) else set()
        return [trace for trace in stored if trace.id not in running and running.isdisjoint(trace.beside)]

    def _write(self, recording: LiveTrace) -> None:
        """Pass the run of a trace to the sink, if there is one."""
        with self._lock:
            # Another thread may have passed it on already, or have begun a further span.
            if self._traces.get(recording.id) is not recording or recording.builder.is_open:
                return
            run = self._read(self._related(recording)).get(recording.id)
            self._drop(recording)
        if run is None or self._sink is None:
            return
        try:
            self._sink.write(run)  # without the lock: a sink may be slow
        except BaseException:
            with self._lock:
                if self._passed_on.get(recording.id) is recording:  # else later spans have begun another run
                    self._forget(recording.id)
                    self._traces[recording.id] = recording
                    self._stored_spans += len(recording.spans)
                    self._add(recording)
                    self._runs = None
            raise

    def _related(self, trace: LiveTrace) -> list[LiveTrace]:
        """Return a trace with those that its run may depend on: of its conversation, or that it may copy a part of."""
        others = [other for other in self._passed_on.values() if other.key == trace.key or other.id in trace.beside]
        beside = [other for other in self._traces.values() if other.id in trace.beside]
        return [*others[-_MAX_RELATED:], *beside, trace]

    def _spans(self, traces: Iterable[LiveTrace]) -> list[Span]:
        """Return the spans of traces as the reader interprets them."""
        with remember_messages():
            return list(map(interpret, spans_in(self._documents(traces), Notes())))

    def _documents(self, traces: Iterable[LiveTrace]) -> list[tuple[str, Any]]:
        """Return the spans of traces in the order in which they ended, each with its path."""
        numbered = sorted(chain(*(trace.spans for trace in traces)), key=lambda entry: entry[0])
        return [(f"$[{number}]", self._fields(span)) for number, span in numbered]

    def _read(self, traces: Iterable[LiveTrace]) -> dict[str, Run]:
        """Return the runs of traces by their ids; where reading fails, an empty run with a warning."""
        by_id = {trace.id: trace for trace in traces}
        try:
            runs = self._runs_of(by_id.values())
        except Exception as error:  # noqa: BLE001 - a recorder never raises into the agent
            if len(by_id) > 1:  # the spans of one trace must not hide the runs of the others
                return {key: run for trace in by_id.values() for key, run in self._read([trace]).items()}
            text = f"the spans could not be read, so the run is empty: {type(error).__name__}: {error}"
            runs = [Run(run_id=key, warnings=[text]) for key in by_id]
        return {str(run.run_id): self._completed(run, by_id[str(run.run_id)]) for run in runs}

    @within_limits
    def _runs_of(self, traces: Collection[LiveTrace]) -> list[Run]:
        runs, _ = runs_of(self._spans(traces), self._handoff_names)
        return runs

    def _completed(self, run: Run, trace: LiveTrace) -> Run:
        """Return a run with what the recorder knows about its trace."""
        changes: dict[str, Any] = {"warnings": [*run.warnings, *trace.all_warnings]}
        if trace.label is not None:
            changes["conversation_id"] = trace.label
        return run.model_copy(update=changes)


def span_fields(
    trace: str,
    span: str,
    parent: str | None,
    name: str,
    times: tuple[int, int | None],
    attributes: Mapping[str, Any],
    *,
    error: str | None = None,
) -> SpanFields:
    """Return a span in the form of OTLP's JSON, with times in nanoseconds; attributes that are `None` are left out."""
    begun, ended = times
    fields: SpanFields = {"traceId": trace, "spanId": span, "name": name, "kind": 1, "startTimeUnixNano": str(begun)}
    if parent is not None:
        fields["parentSpanId"] = parent
    if ended is not None:
        fields["endTimeUnixNano"] = str(ended)
    fields["attributes"] = [
        {"key": key, "value": {"stringValue": value}} for key, value in attributes.items() if value is not None
    ]
    if error is not None:
        fields["status"] = {"code": 2, "message": error}
    return fields
