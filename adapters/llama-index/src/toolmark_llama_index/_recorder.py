"""How is an agent recorded? A listener to LlamaIndex's instrumentation, which sees runs, models and tools by itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

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
from toolmark_llama_index._results import error_text
from toolmark_llama_index._spans import Recording, Span
from toolmark_llama_index._watcher import Watcher, is_resumption, method_of

if TYPE_CHECKING:
    from typing_extensions import Self

_LEFT: Final = "the recorder was closed before the run ended; what came later is not in the record"


class ToolCallRecorder(RunRecorder[Recording]):
    """Records the runs of LlamaIndex agents and workflows that begin inside it: `with ToolCallRecorder() as rec:`.

    It is a sync and an async context manager, and may be entered again. It listens to LlamaIndex's instrumentation only
    while it is entered. One recorder may watch any number of agents at once; of several inside each other, the
    innermost records. Nothing it does reaches the agent, or takes from its stream of events: an error inside it becomes
    a warning on the run concerned, or in `warnings` where there is none.
    """

    how_to_attach: ClassVar[str] = (
        "run the agent inside `with record() as rec:`, in the same task or thread or in one that was given its context"
    )

    def __init__(self, *, sink: Sink | None = None, limit: int = 10_000, conversation: str | None = None) -> None:
        """Begin with nothing recorded.

        Args:
            sink: Takes each run when it ends; it is then kept here only while it waits for a person, and comes to the
                sink again, complete and under the same `run_id`, when it was resumed. Without a sink, runs are kept
                here until `pop`.
            limit: How many runs are kept. Of more, the oldest that have ended are dropped, with a warning.
            conversation: The conversation that every run belongs to; by default none.
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
                self._handlers = spans, _EventHandler(self._event_came)
                root = get_dispatcher()
                root.add_span_handler(self._handlers[0])
                root.add_event_handler(self._handlers[1])
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop listening; runs that go on are recorded as far as they came, with a warning."""
        with self._lock:
            _leave(self._entered.pop())
            if self._entered or self._handlers is None:
                return
            spans, events = self._handlers
            root = get_dispatcher()
            root.span_handlers = [handler for handler in root.span_handlers if handler is not spans]
            root.event_handlers = [handler for handler in root.event_handlers if handler is not events]
            self._handlers = None
        self._guard("__exit__", None, self._abandon)

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        return self.__enter__()

    async def __aexit__(self, *raised: object) -> None:
        """Stop listening, as `__exit__` does."""
        self.__exit__(*raised)

    @contextmanager
    def single_run(self, input: str | None = None) -> Generator[None, None, None]:
        """Record what is done inside as one run: a loop written by hand, without a workflow round it.

        The models that are asked and the tools that are called inside make up the run; the recorder must be entered.
        Its answer is the last text of a model that asked for no call.

        Args:
            input: The text of the user.
        """
        recording = Recording(self._label(), grouped=True)
        with self._lock:
            recording.builder.started(input)
            if not self._entered:
                recording.builder.warn("the recorder was not entered, so nothing was seen; use `with record() as rec:`")
            self._keep(recording)
        token = _groups.set({**_groups.get(), id(self): recording})
        raised: BaseException | None = None
        try:
            yield
        except BaseException as error:
            raised = error
            raise
        finally:
            _groups.reset(token)
            self._guard("single_run", recording, lambda: self._watcher.end_group(recording, raised))
            with self._lock:
                self._watcher.spans.forget(recording)

    def _abandon(self) -> None:
        """End what is still open: nobody will tell the rest."""
        for recording in list(self._recordings.values()):
            if recording.builder.is_open and not recording.grouped:
                self._watcher.abandon(recording, _LEFT)
            if not recording.grouped:
                self._watcher.spans.forget(recording)

    # What the instrumentation tells

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
        parent = self._watcher.spans.parent_of(parent_id, is_run=is_run)
        recording = self._recording_for(parent, bound, instance, is_run=is_run)
        if recording is None:
            return
        span = Span(
            span_id,
            recording,
            parent,
            None if parent is None else parent.scope,
            span_id if is_run and (parent is not None or recording.grouped) else parent.strand if parent else None,
            is_run=is_run,
            workflow=instance if is_run else None,
            hidden=parent is not None and parent.hidden,
            agent_step=parent is not None and parent.agent_step and not is_run and not isinstance(instance, BaseTool),
        )
        self._watcher.spans.add(span)
        self._guard("span_enter", recording, lambda: self._watcher.entered(span, bound, instance, tags))

    def _recording_for(
        self, parent: Span | None, bound: inspect.BoundArguments, instance: object, *, is_run: bool
    ) -> Recording | None:
        """Return the recording that a span belongs to; one of its own for a run that begins something new."""
        if parent is not None:
            return parent.recording
        if _active.get() is not self:
            return None
        group = _groups.get().get(id(self))
        if group is not None:
            return group
        if not is_run:
            if isinstance(instance, BaseTool):
                self._say(
                    f"the tool {instance.metadata.name!r} ran outside any workflow and was not recorded; "
                    "round a loop written by hand, use `with rec.single_run():`"
                )
            return None
        earlier = self._resumable(instance) if is_resumption(bound) else None
        if earlier is not None:
            earlier.builder.resumed()
            return earlier
        recording = Recording(self._label())
        self._keep(recording)
        workflow: Any = instance
        self._guard("span_enter", recording, lambda: self._watcher.describe(recording, bound, workflow))
        return recording

    def _resumable(self, workflow: object) -> Recording | None:
        """Return the newest run of this workflow, else of one of its kind, that waits for a person."""
        waiting = [kept for kept in self._recordings.values() if kept.waiting and not kept.builder.is_open]
        same = [kept for kept in waiting if kept.workflow is not None and kept.workflow() is workflow]
        alike = [kept for kept in waiting if kept.kind is type(workflow)]
        return next(iter(reversed(same or alike)), None)

    def _span_exited(self, span_id: str, result: object) -> None:
        self._span_closed(span_id, lambda span: self._watcher.exited(span, result))

    def _span_dropped(self, span_id: str, error: BaseException | None) -> None:
        self._span_closed(span_id, lambda span: self._watcher.dropped(span, error))

    def _span_closed(self, span_id: str, tell: Callable[[Span], None]) -> None:
        span = self._watcher.spans.known.get(span_id)
        if span is None or span.closed:
            return
        self._guard("span_exit", span.recording, lambda: tell(span))
        with self._lock:
            if span.is_root and span.recording.builder.is_open:
                self._guard("span_exit", span.recording, lambda: self._watcher.close_failed(span.recording))
            self._watcher.spans.close(span)

    def _event_came(self, event: BaseEvent) -> None:
        span = self._watcher.spans.known.get(event.span_id or "")
        if span is None:
            return
        if isinstance(event, (LLMChatEndEvent, LLMCompletionEndEvent)):
            response = event.response
            self._guard("event", span.recording, lambda: self._watcher.model_answered(span, response))
        elif isinstance(event, (LLMChatStartEvent, LLMCompletionStartEvent)):
            details = event.model_dict
            self._guard("event", span.recording, lambda: self._watcher.model_named(span, details))
        elif type(event).__name__ == "SpanCancelledEvent":  # old versions have no such event
            self._watcher.cancelled(span)

    def _guard(self, where: str, recording: Recording | None, tell: Callable[[], None]) -> None:
        """Make an observation, one at a time; an error in it becomes a warning instead of the agent's error."""
        try:
            with self._lock:
                try:
                    tell()
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


_Entered: TypeAlias = Callable[
    [str, inspect.BoundArguments, object, "str | None", "Mapping[str, Any] | None"],
    None,
]


class _SpanHandler(BaseSpanHandler[BaseSpan]):
    """Hands spans to a recorder, and keeps none."""

    _entered: _Entered = PrivateAttr()
    _exited: Callable[[str, object], None] = PrivateAttr()
    _dropped: Callable[[str, BaseException | None], None] = PrivateAttr()

    def __init__(
        self,
        entered: _Entered,
        exited: Callable[[str, object], None],
        dropped: Callable[[str, BaseException | None], None],
    ) -> None:
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
        """A span began."""
        self._entered(id_, bound_args, instance, parent_id, tags)

    def span_exit(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        result: Any | None = None,
        **_: Any,
    ) -> None:
        """A span ended."""
        self._exited(id_, result)

    def span_drop(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        err: BaseException | None = None,
        **_: Any,
    ) -> None:
        """A span ended by an exception."""
        self._dropped(id_, err)

    def new_span(self, *_: Any, **__: Any) -> BaseSpan | None:
        """Keep none."""
        return None

    def prepare_to_exit_span(self, *_: Any, **__: Any) -> BaseSpan | None:
        """Keep none."""
        return None

    def prepare_to_drop_span(self, *_: Any, **__: Any) -> BaseSpan | None:
        """Keep none."""
        return None


class _EventHandler(BaseEventHandler):
    """Hands events to a recorder."""

    _came: Callable[[BaseEvent], None] = PrivateAttr()

    def __init__(self, came: Callable[[BaseEvent], None]) -> None:
        super().__init__()
        self._came = came

    @classmethod
    def class_name(cls) -> str:
        """Name the handler."""
        return "ToolCallRecorder"

    def handle(self, event: BaseEvent, **_: Any) -> None:
        """Take an event."""
        self._came(event)


def _leave(token: Token[ToolCallRecorder | None]) -> None:
    """Go back to the recorder before; a block that is left in another context than it was entered in has none."""
    try:
        _active.reset(token)
    except ValueError:
        _active.set(None)


_groups: ContextVar[Mapping[int, Recording]] = ContextVar("toolmark_llama_index_groups", default={})  # noqa: B039 - never changed
_active: ContextVar[ToolCallRecorder | None] = ContextVar("toolmark_llama_index_active", default=None)


def record(*, sink: Sink | None = None, limit: int = 10_000, conversation: str | None = None) -> ToolCallRecorder:
    """Return a recorder to be entered, which records every run that begins inside.

    ```python
    with record() as rec:
        await agent.run(user_msg="What is the weather in Paris?")
    case = rec.test_case(expected_tools=[ToolCall(name="weather")])
    ```

    It is seen in this context: also by tasks started inside, not by plain threads. The arguments are those of
    `ToolCallRecorder`.
    """
    return ToolCallRecorder(sink=sink, limit=limit, conversation=conversation)
