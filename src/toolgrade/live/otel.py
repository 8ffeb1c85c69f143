"""Runs of any agent that is traced by OpenTelemetry, recorded while it runs; needs `opentelemetry-sdk`.

```python
from toolgrade.live.otel import record_spans

with record_spans() as recorder:
    agent.run_sync("What is the weather in Paris?")
case = recorder.test_case(expected_tools=[ToolCall(name="weather", input_parameters={"city": "Paris"})])
```

The agent's library must be instrumented, by itself or by a package for it. The spans go to the same reader as
those of a file. Nothing is sent anywhere.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Collection
from typing import Any, ClassVar, Final

from toolgrade._internal.json import to_json_value
from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.locks import ForkSafeLock
from toolgrade._internal.sync_bridge import call
from toolgrade._internal.text import error_text
from toolgrade.agents import AgentCallable, Conversation
from toolgrade.capture import Sink
from toolgrade.capture.observation.spans import guarded
from toolgrade.capture.recorder import DEFAULT_LIMIT
from toolgrade.cases import Run
from toolgrade.errors import ConfigurationError
from toolgrade.formats.traces.tracers.tracer import INPUT, OUTPUT
from toolgrade.live.recorder import MAX_SPANS, SpanFields, TraceRecorder, span_fields

__all__ = ["as_agent", "record_spans"]

_FORWARDER: Final = "_toolgrade_forwarder"
"""The attribute of a provider that holds its forwarder: OpenTelemetry can add a processor, but not remove it."""
_ADD_LOGS: Final = "add_log_record_processor"
_adding = ForkSafeLock()


class SpanRecorder(TraceRecorder):
    """Records the runs in the spans of a tracer provider, in all threads and tasks; `record_spans` attaches it.

    Each trace is a run. It never disturbs the program: an error inside the recorder becomes a warning.

    Example:
        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> from toolgrade.live.otel import record_spans
        >>> provider = TracerProvider()  # leave `provider` out to record the global one
        >>> tracer = provider.get_tracer("my.agent")
        >>> with record_spans(provider=provider) as recorder:
        ...     for name in ("get_weather", "book_flight"):
        ...         tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        ...         tracer.start_span(f"execute_tool {name}", attributes=tool).end()
        >>> [run.calls[0].name for run in recorder.runs]  # two traces are two runs
        ['get_weather', 'book_flight']
    """

    how_to_attach: ClassVar[str] = (
        "run the agent inside `with record_spans()`, with an instrumentation of its library turned on"
    )

    only: str | None = None
    """The one trace that is recorded; `None` for all."""
    is_leaving: bool = False
    """The block has ended: only traces that are open are recorded."""
    forwarders: tuple[_Forwarder, ...] = ()
    """What passes spans and log records to it."""

    @guarded
    def on_start(self, span: Any) -> None:  # noqa: ANN401 - a class of the SDK
        """Note that a span began."""
        self._observe(self._note_start, span)

    @guarded
    def on_end(self, span: Any) -> None:  # noqa: ANN401 - a class of the SDK
        """Store a span that ended; deliver the run of its trace if it was the last open one."""
        self._observe(self._note_end, span)

    @guarded
    def on_emit(self, record: Any) -> None:  # noqa: ANN401 - a class of the SDK
        """Store a log record of GenAI: some instrumentations write messages into these, and not into spans."""
        self._observe(self._note_record, record.log_record)

    def _observe(self, note: Callable[[Any], None], item: Any) -> None:  # noqa: ANN401 - as above
        try:
            note(item)
        except Exception as error:  # noqa: BLE001 - a recorder never raises into the agent
            with self._lock:
                self._say(f"a span was not recorded, so its run may lack something: {error_text(error)}")
        if self.is_leaving:
            self.detach_if_idle()

    def _note_start(self, span: Any) -> None:  # noqa: ANN401 - as above
        context, parent = span.get_span_context(), span.parent
        trace_id = f"{context.trace_id:032x}"
        with self._lock:
            if self._listens_to(trace_id):
                local = None if parent is None or parent.is_remote else f"{parent.span_id:016x}"
                self._span_began(trace_id, f"{context.span_id:016x}", span.name, local)

    def _note_end(self, span: Any) -> None:  # noqa: ANN401 - as above
        context = span.get_span_context()
        trace_id = f"{context.trace_id:032x}"
        with self._lock:
            if not self._listens_to(trace_id):
                return
            trace = self._span_ended(trace_id, f"{context.span_id:016x}", span)
            if span.dropped_attributes:
                trace.warn(
                    "attributes of spans were dropped by the limits of the SDK, so calls may be missing; raise "
                    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"
                )
        self._deliver_ended([trace])

    def _note_record(self, record: Any) -> None:  # noqa: ANN401 - as above
        name = record.event_name or (record.attributes or {}).get("event.name")
        if not record.trace_id or not str(name).startswith("gen_ai."):
            return
        trace_id, span_id = f"{record.trace_id:032x}", f"{record.span_id:016x}"
        fields = {
            "traceId": trace_id,
            "spanId": span_id,
            "eventName": name,
            "timeUnixNano": record.timestamp or record.observed_timestamp,
            "body": to_json_value(record.body, []),
            "attributes": _pairs(record.attributes),
        }
        with self._lock:
            if not self._listens_to(trace_id):
                return
            trace = self._store(trace_id, {"resourceLogs": [{"scopeLogs": [{"logRecords": [fields]}]}]})
        self._deliver_ended([trace])

    def attach(self, forwarders: tuple[_Forwarder, ...]) -> None:
        """Begin to record what the providers of these forwarders trace."""
        self.is_leaving = False
        self.forwarders = forwarders
        for forwarder in forwarders:
            forwarder.attach(self)

    def leave(self) -> None:
        """Record no further traces; those with open spans are recorded to their end."""
        with self._lock:
            self.is_leaving = True
            # Their outer span goes on outside of the block, where nothing belongs to the recording any more.
            waiting = [trace for trace in self._traces.values() if trace.builder.is_open and not trace.open]
            for trace in waiting:
                trace.outer.clear()
                trace.builder.ended()
        self._deliver_ended(waiting)
        self.detach_if_idle()

    def detach_if_idle(self) -> None:
        """Detach from the providers, unless spans of a recorded trace are open."""
        with self._lock:
            if any(trace.builder.is_open for trace in self._traces.values()):
                return
        for forwarder in self.forwarders:
            forwarder.detach(self)

    def run_below(self, span: SpanFields) -> Run:
        """Return the run of what happened below a span that ended here."""
        with self._lock:
            trace = self._span_ended(span["traceId"], span["spanId"], span)
            runs = self.runs_by_trace()
            if trace.id in runs:
                return runs[trace.id]
            trace.warn(
                "no span of a model, an agent or a tool ended while the agent ran: is an instrumentation of its "
                "library turned on, for this tracer provider?"
            )
            return self.empty_run(trace)

    def _listens_to(self, trace_id: str) -> bool:
        return self.only in (None, trace_id) and not (self.is_leaving and trace_id not in self._traces)

    def _fields(self, span: Any) -> SpanFields:  # noqa: ANN401 - a class of the SDK
        return span if isinstance(span, dict) else _fields_of(span)


def _fields_of(span: Any) -> SpanFields:  # noqa: ANN401 - a class of the SDK
    """Return a span of the SDK as an exporter of OTLP writes it, with plain values."""
    context, parent, status = span.get_span_context(), span.parent, span.status
    return {
        "traceId": f"{context.trace_id:032x}",
        "spanId": f"{context.span_id:016x}",
        **({} if parent is None else {"parentSpanId": f"{parent.span_id:016x}"}),
        "name": span.name,
        "startTimeUnixNano": span.start_time,
        "endTimeUnixNano": span.end_time,
        "attributes": _pairs(span.attributes),
        "events": [{"name": event.name, "attributes": _pairs(event.attributes)} for event in span.events],
        "status": {"code": status.status_code.value, "message": status.description or ""},
    }


def _pairs(attributes: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a mapping of the SDK
    return [{"key": key, "value": to_json_value(value, [])} for key, value in (attributes or {}).items()]


class _Forwarder:
    """Passes the spans or log records of one provider to the recorders that are attached.

    Providers can add a processor, but not remove it: without recorders it does nothing.
    """

    def __init__(self) -> None:
        self.recorders: tuple[SpanRecorder, ...] = ()
        self._changing = ForkSafeLock()

    def attach(self, recorder: SpanRecorder) -> None:
        with self._changing:
            if recorder not in self.recorders:
                self.recorders = (*self.recorders, recorder)

    def detach(self, recorder: SpanRecorder) -> None:
        with self._changing:
            self.recorders = tuple(other for other in self.recorders if other is not recorder)

    def on_start(self, span: Any, parent_context: Any = None) -> None:  # noqa: ANN401, ARG002 - as the SDK declares it
        for recorder in self.recorders:
            recorder.on_start(span)

    def on_end(self, span: Any) -> None:  # noqa: ANN401 - as the SDK declares it
        for recorder in self.recorders:
            recorder.on_end(span)

    def on_emit(self, log_record: Any) -> None:  # noqa: ANN401 - as the SDK declares it
        for recorder in self.recorders:
            recorder.on_emit(log_record)

    def shutdown(self) -> None:
        """Do nothing: runs stay until somebody asks for them."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - as the SDK declares it
        return True


def _forwarders_of(provider: Any, logger_provider: Any) -> tuple[_Forwarder, ...]:  # noqa: ANN401 - classes of the SDK
    """Return the forwarders of two providers, by default the global ones, which are set if there are none.

    Raises:
        MissingPackageError: opentelemetry-sdk is not installed.
        ConfigurationError: A provider takes no processors, or OpenTelemetry is turned off.
    """
    sdk, sdk_logs = _package("sdk.trace"), _package("sdk._logs")
    api, api_logs = _package("trace"), _package("_logs")
    with _adding:
        if provider is None:
            if isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
                unset = sdk.SpanLimits.UNSET
                limits = sdk.SpanLimits(max_attributes=unset, max_span_attributes=unset, max_events=unset)
                api.set_tracer_provider(sdk.TracerProvider(span_limits=limits))
                if "Proxy" in type(api_logs.get_logger_provider()).__name__:
                    api_logs.set_logger_provider(sdk_logs.LoggerProvider())
            provider = api.get_tracer_provider()
        spans = _forwarder_of(provider, "add_span_processor", sdk.SpanProcessor)
        if type(provider.get_tracer("toolgrade")).__module__.startswith("opentelemetry.trace"):
            raise ConfigurationError("OpenTelemetry is turned off, so no span is recorded; unset OTEL_SDK_DISABLED")
        has_logs = logger_provider is not None
        logger_provider = logger_provider if has_logs else api_logs.get_logger_provider()
        if not has_logs and not hasattr(logger_provider, _ADD_LOGS):
            return (spans,)  # nobody writes log records
        return spans, _forwarder_of(logger_provider, _ADD_LOGS, sdk_logs.LogRecordProcessor)


def _forwarder_of(provider: object, add_name: str, base: type) -> _Forwarder:
    """Return the forwarder of a provider, which is added if there is none.

    Raises:
        ConfigurationError: The provider takes no processors.
    """
    forwarder = getattr(provider, _FORWARDER, None)
    if not isinstance(forwarder, _Forwarder):
        add: Any = getattr(provider, add_name, None)
        if not callable(add):
            name = type(provider).__name__
            raise ConfigurationError(
                f"the provider must be one of OpenTelemetry's SDK, with {add_name}(), got {name!r}"
            )
        # The SDK's class has whatever else its releases call, now or later.
        new: _Forwarder = type("Forwarder", (_Forwarder, base), {})()
        add(new)
        setattr(provider, _FORWARDER, new)
        return new
    return forwarder


def _package(name: str) -> Any:  # noqa: ANN401 - a module without types
    return import_extra(f"opentelemetry.{name}", "opentelemetry-sdk", "recording spans")


class record_spans:  # noqa: N801 - used like a function
    """Record the runs in all spans that begin inside: `with record_spans() as recorder:`, or `async with`.

    This includes spans of other threads and tasks. Spans that are open at the end of the block are recorded to their
    end. Blocks may be nested; each records everything inside of it.

    Example:
        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> from toolgrade.live.otel import record_spans
        >>> provider = TracerProvider()  # leave `provider` out to record the global one
        >>> tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"}
        >>> with record_spans(provider=provider) as recorder:
        ...     with provider.get_tracer("my.agent").start_as_current_span("execute_tool get_weather", attributes=tool):
        ...         weather = "sunny"
        >>> [call.name for call in recorder.last_run.calls]
        ['get_weather']
    """

    def __init__(
        self,
        *,
        provider: object = None,
        logger_provider: object = None,
        sink: Sink | None = None,
        limit: int = DEFAULT_LIMIT,
        conversation: str | None = None,
        max_spans: int = MAX_SPANS,
        handoff_names: Collection[str] = (),
    ) -> None:
        """Create the recorder; it records nothing before the block begins.

        Args:
            provider: The tracer provider; by default the global one, which is set if the program has set none.
            logger_provider: The logger provider, for instrumentations that write messages as log records; by default
                the global one, if there is one.
            sink: Receives each run when its trace has ended, see `RunRecorder`.
            limit: Maximum number of stored runs.
            conversation: Conversation of every run; by default, the session that the spans name.
            max_spans: Maximum number of stored spans. Beyond it the oldest traces that have ended are dropped, then
                further spans, with a warning on their run.
            handoff_names: Names of tools that hand over to another agent.

        Raises:
            ConfigurationError: `limit` or `max_spans` is not a whole number of at least 1.
        """
        self._providers = provider, logger_provider
        self._recorder = SpanRecorder(
            sink=sink, limit=limit, conversation=conversation, max_spans=max_spans, handoff_names=handoff_names
        )
        self._entered = 0

    def __enter__(self) -> SpanRecorder:
        """Begin to record.

        Raises:
            MissingPackageError: opentelemetry-sdk is not installed.
            ConfigurationError: A provider takes no processors, or OpenTelemetry is turned off.
        """
        self._recorder.attach(_forwarders_of(*self._providers))
        self._entered += 1
        return self._recorder

    def __exit__(self, *raised: object) -> None:
        """Record no further traces; those that are open are recorded to their end."""
        self._entered -= 1
        if self._entered == 0:
            self._recorder.leave()

    async def __aenter__(self) -> SpanRecorder:
        """Begin to record."""
        return self.__enter__()

    async def __aexit__(self, *raised: object) -> None:
        """Record no further traces."""
        self.__exit__(*raised)


def as_agent(
    function: Callable[..., Any],
    *,
    provider: object = None,
    logger_provider: object = None,
    handoff_names: Collection[str] = (),
) -> AgentCallable:
    """Return `async (input, conversation) -> Run` for `evaluate(goldens=..., agent=...)`.

    The run is what happened below the call: each call is a trace of its own, without a span of toolgrade in it. The
    text that the function returns is the answer; if it returns something else, the answer is that of the last model.
    A function that raises is a run with its error.

    Args:
        function: An instrumented function or method that takes the input, or the input and the `Conversation`; `async`
            or not. One that is not runs in a thread.
        provider: The tracer provider, see `record_spans`.
        logger_provider: The logger provider, see `record_spans`.
        handoff_names: Names of tools that hand over to another agent.

    Raises:
        MissingPackageError: opentelemetry-sdk is not installed; raised when the agent is asked.
        ConfigurationError: A provider takes no processors, or OpenTelemetry is turned off; raised when the agent is
            asked.

    Example:
        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> from toolgrade import Golden, ToolCall, ToolCorrectnessMetric, evaluate
        >>> from toolgrade.live.otel import as_agent
        >>> provider = TracerProvider()  # leave `provider` out to record the global one
        >>> def answer(question: str) -> str:
        ...     tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"}
        ...     with provider.get_tracer("my.agent").start_as_current_span("execute_tool get_weather", attributes=tool):
        ...         return "It is sunny."
        >>> goldens = [Golden(input="What is the weather in Paris?", expected_tools=[ToolCall(name="get_weather")])]
        >>> agent = as_agent(answer, provider=provider)
        >>> report = evaluate(goldens=goldens, agent=agent, metrics=[ToolCorrectnessMetric()], show_progress=False)
        >>> report.cases[0].results[0].reason
        '1 matched / 1 expected = 1 (passed at 0.5).'
    """
    parameters = inspect.signature(function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [one for one in parameters if one.kind in positional and one.default is inspect.Parameter.empty]

    async def ask(input: str, conversation: Conversation) -> Run:
        block = record_spans(
            provider=provider,
            logger_provider=logger_provider,
            conversation=conversation.id,
            handoff_names=handoff_names,
        )
        arguments = (input, conversation)[: max(1, min(2, len(required)))]
        with block as recorder:
            return await _run_below(recorder, conversation, function, arguments)

    return ask


async def _run_below(
    recorder: SpanRecorder, conversation: Conversation, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Run:
    """Call a function in a trace of its own and return its run."""
    api, ids = _package("trace"), _package("sdk.trace.id_generator").RandomIdGenerator()
    context = api.SpanContext(
        ids.generate_trace_id(), ids.generate_span_id(), is_remote=False, trace_flags=api.TraceFlags(1)
    )
    trace_id, span_id = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    recorder.only = trace_id
    begun = time.time_ns()

    def run(result: object, error: BaseException | None) -> Run:
        text = None if error is None else error_text(error)
        answer = {"actual_output": result} if isinstance(result, str) else {}
        attributes = {INPUT: arguments[0], **({OUTPUT: result} if answer else {})}
        times = begun, time.time_ns()
        below = recorder.run_below(span_fields(trace_id, span_id, None, "as_agent", times, attributes, error=text))
        return below.model_copy(update={"input": arguments[0], **answer})

    # The span is not recorded, so that no exporter of the program gets to see it.
    with api.use_span(api.NonRecordingSpan(context)):
        try:
            result, error = await call(function, *arguments)
        except asyncio.CancelledError as cancelled:
            conversation.unfinished = run(None, cancelled)
            raise
    return run(result, error)
