"""The recorder of agents' runs: a listener to LlamaIndex's instrumentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, ClassVar, Final

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]  # its public name
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.llm import (
    LLMChatEndEvent,
    LLMChatStartEvent,
    LLMCompletionEndEvent,
    LLMCompletionStartEvent,
)
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.tools import BaseTool
from llama_index.core.workflow import Workflow
from pydantic import PrivateAttr

from toolmark.capture import RunRecorder, Sink
from toolmark.cases import RunStatus
from toolmark_llama_index._errors import error_text, status_of
from toolmark_llama_index._run_tree import Recording, Span
from toolmark_llama_index._watcher import Watcher, is_resumption, method_of

if TYPE_CHECKING:
    from typing_extensions import Self

_CLOSED_EARLY: Final = "the recorder was closed before the run ended; what came later is not recorded"


class ToolCallRecorder(RunRecorder[Recording]):
    """Records the runs of LlamaIndex agents and workflows that begin inside it: `with ToolCallRecorder() as rec:`.

    It is a sync and an async context manager, may be entered again, and listens only while it is entered. One recorder
    may observe any number of agents at once; of nested recorders, the innermost records. It never disturbs an agent or
    takes from its stream of events: an error inside the recorder becomes a warning on the run, or in `warnings` if
    there is no run yet.
    """

    how_to_attach: ClassVar[str] = (
        "run the agent inside `with record() as rec:`, in the same task or thread or in one that has a copy of its "
        "context"
    )

    def __init__(self, *, sink: Sink | None = None, limit: int = 10_000, conversation: str | None = None) -> None:
        """Begin without runs.

        Args:
            sink: Takes each run when it ends, see `RunRecorder`.
            limit: The most runs to keep.
            conversation: The conversation of every run; by default none.
        """
        super().__init__(sink=sink, limit=limit, conversation=conversation)
        self._watcher = Watcher()
        self._entered: list[Token[ToolCallRecorder | None]] = []
        self._handlers: tuple[_SpanHandler, _EventHandler] | None = None

    # Listening

    def __enter__(self) -> Self:
        """Begin to listen."""
        with self._lock:
            self._entered.append(_active.set(self))
            if self._handlers is None:
                spans = _SpanHandler(self._span_entered, self._span_exited, self._span_dropped)
                self._handlers = spans, _EventHandler(self._event_fired)
                root = get_dispatcher()
                root.add_span_handler(self._handlers[0])
                root.add_event_handler(self._handlers[1])
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop listening; open runs end here, with a warning."""
        with self._lock:
            token = self._entered.pop()
            try:
                _active.reset(token)
            except ValueError:
                # Asynchronous test fixtures leave the block in another context than the one that they entered it in.
                _active.set(None)
            if self._entered or self._handlers is None:
                return
            # The dispatcher has no method to remove a handler.
            spans, events = self._handlers
            root = get_dispatcher()
            root.span_handlers = [handler for handler in root.span_handlers if handler is not spans]
            root.event_handlers = [handler for handler in root.event_handlers if handler is not events]
            self._handlers = None
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
        recording = Recording(self._label(), is_group=True)
        with self._lock:
            recording.builder.started(input)
            if not self._entered:
                recording.builder.warn(
                    "the recorder was not entered, so nothing was recorded; use `with record() as rec:`"
                )
            self._keep(recording)
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

    def _end_open_runs(self) -> None:
        for recording in list(self._recordings.values()):
            if recording.is_group:
                continue
            if recording.builder.is_open:
                recording.builder.warn(_CLOSED_EARLY)
                text = "not finished when the recorder was closed"
                self._watcher.end(recording, None, RunStatus.STOPPED, text)
            self._watcher.tree.forget(recording)

    # Spans and events

    def _span_entered(
        self,
        span_id: str,
        bound: inspect.BoundArguments,
        instance: object,
        parent_id: str | None,
        tags: Mapping[str, Any] | None,
    ) -> None:
        self._guard("span_enter", None, lambda: self._begin(span_id, bound, instance, parent_id, tags))

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
        span = Span(span_id, recording, parent, None if parent is None else parent.scope, is_run=is_run)
        if parent is not None:
            span.strand, span.is_structured = parent.strand, parent.is_structured
            span.in_agent_step = parent.in_agent_step and not is_run and not isinstance(instance, BaseTool)
        if is_run:
            span.workflow = instance
            if parent is not None or recording.is_group:
                span.strand = span_id
        self._watcher.tree.spans[span_id] = span
        self._guard("span_enter", recording, lambda: self._watcher.entered(span, bound, instance, tags))

    def _recording_for(self, bound: inspect.BoundArguments, instance: object, *, is_run: bool) -> Recording | None:
        """Return the recording of an outermost span: its group's, that of the run it continues, or a new one."""
        if _active.get() is not self:
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
        earlier = self._waiting_run(instance) if is_resumption(bound) else None
        if earlier is not None:
            earlier.builder.resumed()
            return earlier
        recording = Recording(self._label())
        self._keep(recording)
        workflow: Any = instance
        self._guard("span_enter", recording, lambda: self._watcher.describe(recording, bound, workflow))
        return recording

    def _waiting_run(self, workflow: object) -> Recording | None:
        """Return the newest run of this workflow, else of one of its class, that waits for a person."""
        waiting = [other for other in self._recordings.values() if other.waiting and not other.builder.is_open]
        same = [other for other in waiting if other.workflow is not None and other.workflow() is workflow]
        alike = [other for other in waiting if other.workflow_type is type(workflow)]
        return next(iter(reversed(same or alike)), None)

    def _span_exited(self, span_id: str, result: object) -> None:
        self._span_closed(span_id, lambda span: self._watcher.exited(span, result))

    def _span_dropped(self, span_id: str, error: BaseException | None) -> None:
        self._span_closed(span_id, lambda span: self._watcher.dropped(span, error))

    def _span_closed(self, span_id: str, observe: Callable[[Span], None]) -> None:
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
            self._guard("event", span.recording, lambda: self._watcher.model_answered(span, response))
        elif isinstance(event, (LLMChatStartEvent, LLMCompletionStartEvent)):
            details = event.model_dict
            self._guard("event", span.recording, lambda: self._watcher.model_named(span, details))
        elif type(event).__name__ == "SpanCancelledEvent":  # missing in old versions; the span ends as if it returned
            span.cancelled = True

    def _guard(self, where: str, recording: Recording | None, observe: Callable[[], None]) -> None:
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


class _SpanHandler(BaseSpanHandler[BaseSpan]):
    """Passes spans to a recorder, and stores none."""

    # LlamaIndex's handlers are pydantic models, which take callables only as private attributes.
    _entered: Callable[..., None] = PrivateAttr()
    _exited: Callable[..., None] = PrivateAttr()
    _dropped: Callable[..., None] = PrivateAttr()

    def __init__(self, entered: Callable[..., None], exited: Callable[..., None], dropped: Callable[..., None]) -> None:
        super().__init__()
        self._entered, self._exited, self._dropped = entered, exited, dropped

    def span_enter(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Pass on the beginning of a span."""
        self._entered(id_, bound_args, instance, parent_id, tags)

    def span_exit(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        result: Any | None = None,
        **_: Any,
    ) -> None:
        """Pass on the end of a span."""
        self._exited(id_, result)

    def span_drop(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        err: BaseException | None = None,
        **_: Any,
    ) -> None:
        """Pass on the exception that ended a span."""
        self._dropped(id_, err)

    def new_span(self, *_: Any, **__: Any) -> BaseSpan | None:
        """Store no span."""
        return None

    def prepare_to_exit_span(self, *_: Any, **__: Any) -> BaseSpan | None:
        """Store no span."""
        return None

    def prepare_to_drop_span(self, *_: Any, **__: Any) -> BaseSpan | None:
        """Store no span."""
        return None


class _EventHandler(BaseEventHandler):
    """Passes events to a recorder."""

    _fired: Callable[[BaseEvent], None] = PrivateAttr()

    def __init__(self, fired: Callable[[BaseEvent], None]) -> None:
        super().__init__()
        self._fired = fired

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the handler."""
        return "ToolCallRecorder"

    def handle(self, event: BaseEvent, **_: Any) -> None:
        """Pass on an event."""
        self._fired(event)


_groups: ContextVar[Mapping[int, Recording]] = ContextVar("toolmark_llama_index_groups", default={})  # noqa: B039 - never changed
_active: ContextVar[ToolCallRecorder | None] = ContextVar("toolmark_llama_index_active", default=None)


def record(*, sink: Sink | None = None, limit: int = 10_000, conversation: str | None = None) -> ToolCallRecorder:
    """Return a recorder that records every run that begins inside it.

    ```python
    with record() as rec:
        await agent.run(user_msg="What is the weather in Paris?")
    case = rec.test_case(expected_tools=[ToolCall(name="weather")])
    ```

    Tasks started inside are recorded, plain threads are not. The arguments are those of `ToolCallRecorder`.
    """
    return ToolCallRecorder(sink=sink, limit=limit, conversation=conversation)
