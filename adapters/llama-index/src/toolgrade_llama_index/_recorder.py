"""The recorder of agents' runs: a listener to LlamaIndex's instrumentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Final

from llama_index.core.agent.workflow.workflow_events import ToolCall
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.llm import (
    LLMChatEndEvent,
    LLMChatInProgressEvent,
    LLMChatStartEvent,
    LLMCompletionEndEvent,
    LLMCompletionStartEvent,
)
from llama_index.core.tools import BaseTool
from llama_index.core.workflow import Workflow

from toolgrade.capture import RunRecorder, Sink
from toolgrade.cases import RunStatus
from toolgrade_llama_index._errors import error_text, status_of
from toolgrade_llama_index._listening import RecorderListener, active_listener
from toolgrade_llama_index._run_tree import WorkflowRecording, WorkflowSpan, method_of
from toolgrade_llama_index._versions import calls_of_state, is_cancellation, is_resumption
from toolgrade_llama_index._watcher import SpanWatcher

if TYPE_CHECKING:
    from typing_extensions import Self

_SEVERAL_WAITING: Final = (
    "a saved state was resumed that fits {count} waiting runs, with equal waiting calls; it counts as the newest of "
    "them"
)
_MISSED: Final = (
    "a {workflow} ran outside of the tasks that were started inside the recorder, and was not recorded; to record the "
    "whole process, such as the requests of a server, use record(process_wide=True)"
)
_CLOSED_EARLY: Final = "the recorder was closed before the run ended; what came later is not recorded"


class ToolCallRecorder(RunRecorder[WorkflowRecording]):
    """Records the runs of LlamaIndex agents and workflows that begin inside it: `with ToolCallRecorder() as rec:`.

    It is a sync and an async context manager, may be entered again, and listens only while it is entered. One recorder
    may observe any number of agents at once; of nested recorders, the innermost records. It never disturbs an agent or
    takes from its stream of events: an error inside the recorder becomes a warning on the run, or in `warnings` if
    there is no run yet.

    Example:
        >>> import asyncio
        >>> from llama_index.core.tools import FunctionTool
        >>> from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
        >>> from toolgrade_llama_index import ToolCallRecorder
        >>> get_weather = FunctionTool.from_defaults(lambda city: f"sunny in {city}", name="get_weather")
        >>> class WeatherAgent(Workflow):
        ...     @step
        ...     async def answer(self, event: StartEvent) -> StopEvent:
        ...         return StopEvent(result=str(await get_weather.acall(city="Paris")))
        >>> recorder = ToolCallRecorder(conversation="support-7")
        >>> async def main() -> None:
        ...     with recorder:
        ...         await WeatherAgent().run(user_msg="What is the weather in Paris?")
        >>> asyncio.run(main())
        >>> recorder.last_run.conversation_id, [(call.name, call.output) for call in recorder.last_run.calls]
        ('support-7', [('get_weather', 'sunny in Paris')])
    """

    how_to_attach: ClassVar[str] = (
        "run the agent inside `with record() as rec:`, in the same task or thread or in one that has a copy of its "
        "context"
    )

    def __init__(
        self,
        *,
        sink: Sink | None = None,
        limit: int = 10_000,
        limit_bytes: int = 256 * 2**20,
        conversation: str | None = None,
        process_wide: bool = False,
    ) -> None:
        """Begin without runs.

        Args:
            sink: Takes each run when it ends, see `RunRecorder`.
            limit: The most runs to keep.
            limit_bytes: The most memory of the texts and values of runs to keep, in bytes.
            conversation: The conversation of every run; by default, the memory that a run is given names it.
            process_wide: Records every run of the process, in any thread and context, until the block ends; inside
                another recorder's block, that one records. For servers, whose requests do not run in the context of
                their startup.

        Raises:
            ConfigurationError: A limit is not a whole number of at least 1.
        """
        super().__init__(sink=sink, limit=limit, limit_bytes=limit_bytes, conversation=conversation)
        self._listener = RecorderListener(
            lambda *span: self._guard("span_enter", None, lambda: self._begin(*span)),
            self._span_exited,
            self._span_dropped,
            self._event_fired,
            self._run_missed,
            is_process_wide=process_wide,
        )
        self._watcher = SpanWatcher(self._listener)

    # Listening

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._listener.open()
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop listening; open runs end here, with a warning."""
        if self._listener.close():
            self._guard("__exit__", None, self._end_open_runs)

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        return self.__enter__()

    async def __aexit__(self, *raised: object) -> None:
        """Stop listening, as `__exit__` does."""
        self.__exit__(*raised)

    @contextmanager
    def single_run(self, input: str | None = None) -> Generator[None, None, None]:
        """Record everything inside as one run: for a loop of your own, without a workflow around it.

        The run consists of the models and tools that are called inside; the recorder must be entered. Its answer is the
        last text of a model that requested no call.

        Args:
            input: The text of the user.
        """
        recording = WorkflowRecording(self._label(), is_group=True)
        with self._lock:
            recording.builder.started(input)
            if not self._listener.is_open:
                recording.builder.warn(
                    "the recorder was not entered, so nothing was recorded; use `with record() as rec:`"
                )
            self._add(recording)
        token = _groups.set({**_groups.get(), id(self): recording})
        status, error = RunStatus.OK, None
        try:
            yield
        except BaseException as raised:
            status, error = status_of(raised), error_text(raised)
            raise
        finally:
            _groups.reset(token)
            answer = recording.answer if error is None else None
            self._guard("single_run", recording, lambda: self._watcher.end(recording, answer, status, error))
            with self._lock:
                self._watcher.tree.forget(recording)

    def is_idle(self) -> bool:
        """Return whether no step, model or tool is active in any recorded run."""
        with self._lock:
            return all(span.closed or span.is_run for span in self._watcher.tree.spans.values())

    def _goes_on(self, recording: WorkflowRecording) -> bool:
        return any(span.is_run and span.parent is not None and not span.closed for span in recording.spans.values())

    def _end_open_runs(self) -> None:
        for recording in list(self._recordings.values()):
            if recording.is_group:
                continue
            error = recording.step_error
            if recording.builder.is_open and error is not None:
                self._watcher.end(recording, None, status_of(error), error_text(error), may_wait=False)
            elif recording.builder.is_open:
                recording.builder.warn(_CLOSED_EARLY)
                text = "not finished when the recorder was closed"
                self._watcher.end(recording, None, RunStatus.STOPPED, text)
            self._watcher.tree.forget(recording)

    # Spans and events

    def _begin(
        self,
        span_id: str,
        bound: inspect.BoundArguments,
        instance: object,
        parent_id: str | None,
        tags: Mapping[str, Any] | None,
    ) -> None:
        is_run = isinstance(instance, Workflow) and method_of(span_id) == "run"
        parent = self._watcher.tree.parent_of(parent_id, is_run=is_run)
        recording = parent.recording if parent is not None else self._recording_for(bound, instance, is_run=is_run)
        if recording is None:
            return
        span = WorkflowSpan(span_id, recording, parent, None if parent is None else parent.scope, is_run=is_run)
        if parent is not None:
            span.branch, span.is_structured = parent.branch, parent.is_structured
            span.model_step = None if is_run or isinstance(instance, BaseTool) else parent.model_step
        if is_run:
            span.workflow = instance
            if parent is not None or recording.is_group:
                span.branch = span_id
        self._watcher.tree.add(span)
        self._guard("span_enter", recording, lambda: self._watcher.entered(span, bound, instance, tags))

    def _recording_for(
        self, bound: inspect.BoundArguments, instance: object, *, is_run: bool
    ) -> WorkflowRecording | None:
        """Return the recording of an outermost span: its group's, that of the run it continues, or a new one."""
        if active_listener() is not self._listener:
            return None
        group = _groups.get().get(id(self))
        if group is not None:
            return group
        if not is_run:
            if isinstance(instance, BaseTool):
                self._say(
                    f"the tool {instance.metadata.name!r} ran outside any workflow and was not recorded; "
                    "around a loop of your own, use `with rec.single_run():`"
                )
            return None
        earlier = self._waiting_run(instance, bound) if is_resumption(bound) else None
        if earlier is not None:
            earlier.builder.resumed()
            earlier.waiting = []
            earlier.requests.resumed()
            return earlier
        recording = WorkflowRecording(self._label())
        self._add(recording)
        workflow: Any = instance
        self._guard("span_enter", recording, lambda: self._watcher.describe(recording, bound, workflow))
        return recording

    def _waiting_run(self, workflow: object, bound: inspect.BoundArguments) -> WorkflowRecording | None:
        """Return the run that waits for a person and that a saved state continues."""
        waiting = [one for one in self._recordings.values() if one.may_continue_as(workflow)]
        waiting = _fitting(waiting, calls_of_state(bound))
        waiting = [one for one in waiting if one.workflow is not None and one.workflow() is workflow] or waiting
        if len(waiting) > 1:
            for one in waiting:  # each may have what belongs to another
                one.builder.warn(_SEVERAL_WAITING.format(count=len(waiting)))
        return waiting[-1] if waiting else None

    def _span_exited(self, span_id: str, result: object) -> None:
        self._span_closed(span_id, lambda span: self._watcher.exited(span, result))

    def _span_dropped(self, span_id: str, error: BaseException | None) -> None:
        self._span_closed(span_id, lambda span: self._watcher.dropped(span, error))

    def _span_closed(self, span_id: str, observe: Callable[[WorkflowSpan], None]) -> None:
        span = self._watcher.tree.spans.get(span_id)
        if span is None or span.closed:
            return
        recording = span.recording
        self._guard("span_exit", recording, lambda: observe(span))
        with self._lock:
            if span.is_root and recording.builder.is_open:  # its end could not be observed
                self._guard("span_exit", recording, lambda: self._watcher.end(recording, None, RunStatus.ERROR))
            self._watcher.tree.close(span)

    def _event_fired(self, event: BaseEvent) -> None:
        span = self._watcher.tree.spans.get(event.span_id or "")
        if span is None:
            return
        if isinstance(event, (LLMChatEndEvent, LLMCompletionEndEvent)):
            response = event.response
            self._guard("event", span.recording, lambda: self._watcher.llm_ended(span, response))
        elif isinstance(event, LLMChatInProgressEvent):
            piece = event.response
            self._guard("event", span.recording, lambda: self._watcher.llm_streamed(span, piece))
        elif isinstance(event, (LLMChatStartEvent, LLMCompletionStartEvent)):
            details, messages = event.model_dict, getattr(event, "messages", ())
            self._guard("event", span.recording, lambda: self._watcher.llm_started(span, details, messages))
        elif is_cancellation(event):  # the span then ends as if it returned
            span.cancelled = True

    def _run_missed(self, workflow: str) -> None:
        with self._lock:
            self._say(_MISSED.format(workflow=workflow))

    def _guard(self, where: str, recording: WorkflowRecording | None, observe: Callable[[], None]) -> None:
        """Make an observation under the lock; an error in it becomes a warning."""
        try:
            with self._lock:
                try:
                    observe()
                finally:
                    finished = self._watcher.take_finished()
            if finished:
                self._deliver(finished)
        except Exception as error:  # noqa: BLE001 - a recorder never raises into the agent
            text = f"the recorder failed in {where}, so something may be missing: {error_text(error)}"
            with self._lock:
                if recording is None:
                    self._say(text)
                else:
                    recording.builder.warn(text)


def _fitting(waiting: list[WorkflowRecording], calls: Sequence[ToolCall]) -> list[WorkflowRecording]:
    """Return the runs that a saved state with these calls fits best; all if it shows no calls."""
    fits = [one.fit(calls) for one in waiting]
    best = max(fits, default=0)
    return [one for one, fit in zip(waiting, fits, strict=True) if fit == best > 0] if calls else waiting


_groups: ContextVar[Mapping[int, WorkflowRecording]] = ContextVar("toolgrade_llama_index_groups", default={})  # noqa: B039 - never changed


def record(
    *,
    sink: Sink | None = None,
    limit: int = 10_000,
    limit_bytes: int = 256 * 2**20,
    conversation: str | None = None,
    process_wide: bool = False,
) -> ToolCallRecorder:
    """Return a recorder that records every run that begins inside it.

    Tasks started inside are recorded; other tasks, such as the requests of a server, and plain threads only with
    `process_wide=True`. The arguments are those of `ToolCallRecorder`.

    Raises:
        ConfigurationError: A limit is not a whole number of at least 1.

    Example:
        >>> import asyncio
        >>> from llama_index.core.tools import FunctionTool
        >>> from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
        >>> from toolgrade import Run
        >>> from toolgrade_llama_index import record
        >>> get_weather = FunctionTool.from_defaults(lambda city: f"sunny in {city}", name="get_weather")
        >>> class WeatherAgent(Workflow):
        ...     @step
        ...     async def answer(self, event: StartEvent) -> StopEvent:
        ...         return StopEvent(result=str(await get_weather.acall(city="Paris")))
        >>> async def main() -> Run:
        ...     with record() as recorder:
        ...         await WeatherAgent().run(user_msg="What is the weather in Paris?")
        ...     return recorder.last_run
        >>> run = asyncio.run(main())
        >>> run.input, [(call.name, call.output) for call in run.calls]
        ('What is the weather in Paris?', [('get_weather', 'sunny in Paris')])
    """
    return ToolCallRecorder(
        sink=sink, limit=limit, limit_bytes=limit_bytes, conversation=conversation, process_wide=process_wide
    )
