"""The one pair of handlers in LlamaIndex's instrumentation, which passes spans and events to the recorders.

One pair serves all recorders. A pair for each would make every span cost as much as there are recorders, and threads
that add and remove handlers at the same time would lose some, since the dispatcher has no lock.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, Final

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]  # its public name
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.workflow import JsonSerializer, Workflow

from toolgrade.capture import ForkSafeLock


@dataclass(slots=True, eq=False)
class RecorderListener:
    """What a recorder does with spans and events, and where it listens.

    Attributes:
        entered: Receives the id of a span, its arguments, its instance, the id of its parent, and its tags.
        exited: Receives the id of a span and its result.
        dropped: Receives the id of a span and its exception.
        fired: Receives an event.
        missed: Receives the class of a workflow that ran where no recorder listens.
        is_process_wide: It also listens where no other recorder does: in all tasks and threads of the process.
    """

    entered: Callable[[str, inspect.BoundArguments, object, str | None, Mapping[str, Any] | None], None]
    exited: Callable[[str, object], None]
    dropped: Callable[[str, BaseException | None], None]
    fired: Callable[[BaseEvent], None]
    missed: Callable[[str], None]
    is_process_wide: bool = False
    tokens: list[Token[RecorderListener | None]] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether it listens at all."""
        return bool(self.tokens)

    def open(self) -> None:
        """Listen in the current context, and in tasks that are started in it."""
        with _lock:
            self.tokens.append(_active.set(self))
            if not _open:
                Workflow.run = _run  # type: ignore[method-assign] # spans do not show the context that is passed
            if self not in _open:
                _open.append(self)
            root = get_dispatcher()
            if _span_handler not in root.span_handlers:
                root.add_span_handler(_span_handler)
            if _event_handler not in root.event_handlers:
                root.add_event_handler(_event_handler)

    def close(self) -> bool:
        """Undo one `open`; return whether it was the last one."""
        with _lock:
            self._leave_context()
            if self.tokens:
                return False
            _open.remove(self)
            if not _open:
                if Workflow.run is _run:  # else another library has replaced it meanwhile
                    Workflow.run = _original_run  # type: ignore[method-assign]
                # The dispatcher has no method to remove a handler.
                root = get_dispatcher()
                root.span_handlers = [handler for handler in root.span_handlers if handler is not _span_handler]
                root.event_handlers = [handler for handler in root.event_handlers if handler is not _event_handler]
            return True

    def _leave_context(self) -> None:
        for token in reversed(self.tokens):
            try:
                _active.reset(token)
            except ValueError:  # of another context: the recorder is open in several tasks at once
                continue
            self.tokens.remove(token)
            return
        # Asynchronous test fixtures leave the block in another context than the one that they entered it in.
        self.tokens.pop()
        if _active.get() is self:
            _active.set(None)

    def own(self, span_id: str) -> None:
        """Receive what happens in a span, wherever it happens."""
        with _lock:
            _owners[span_id] = (*_owners.get(span_id, ()), self)

    def disown(self, span_id: str) -> None:
        """Receive nothing of a span any more."""
        with _lock:
            others = tuple(owner for owner in _owners.get(span_id, ()) if owner is not self)
            if others:
                _owners[span_id] = others
            else:
                _owners.pop(span_id, None)


def active_listener() -> RecorderListener | None:
    """Return the listener of the current context, else the newest one of the whole process."""
    active = _active.get()
    if active is not None and active.is_open:
        return active
    for listener in reversed(_open.copy()):
        if listener.is_process_wide:
            return listener
    return None


_original_run: Final[Any] = Workflow.__dict__["run"]
_passed: Final[ContextVar[tuple[object, Mapping[str, Any]]]] = ContextVar(
    "toolgrade_llama_index_context",
    default=(None, {}),
)
_SAVED: Final = ("user_msg_str", "current_agent_name", "scratchpad", "memory")
"""What agents store in their context; the memory comes last, since it may be unreadable."""


@functools.wraps(_original_run)
def _run(self: Workflow, ctx: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Begin a run; what runs in it can see which context its caller has passed."""
    token = _passed.set((ctx, _values_in(ctx)))
    try:
        return _original_run.__get__(self, type(self))(ctx, *args, **kwargs)
    finally:
        _passed.reset(token)


def _values_in(context: Any) -> Mapping[str, Any]:
    """Return what an agent stored in a context, if its run goes on from there; as much of it as can be read."""
    values: dict[str, Any] = {}
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what cannot be serialized, LlamaIndex itself warns
        if context is not None and context.is_running:
            stored = context.to_dict()["state"]["state_data"]["_data"]
            # Newer versions keep the serializer, which the caller chose, in what a context delegates to.
            serializer = getattr(getattr(context, "_face", context), "_serializer", None) or JsonSerializer()
            for name in _SAVED:
                if name in stored:
                    values[name] = serializer.deserialize(stored[name])
    return values


def passed_context() -> tuple[object, Mapping[str, Any]]:
    """Return the context that the caller of the current run has passed, and what was saved in it if the run goes on."""
    return _passed.get()


def _span_entered(
    span_id: str,
    bound: inspect.BoundArguments,
    instance: object,
    parent_id: str | None,
    tags: Mapping[str, Any] | None,
) -> None:
    owners = _owners.get(parent_id or "", ())
    active = active_listener()
    # A recorder may be entered inside of a run that another one records; then both receive what happens there.
    for listener in owners if active is None or active in owners else (*owners, active):
        listener.entered(span_id, bound, instance, parent_id, tags)
    if not owners and active is None and isinstance(instance, Workflow) and ".run-" in span_id:
        for listener in _open.copy():
            listener.missed(type(instance).__name__)


class _SpanHandler(BaseSpanHandler[BaseSpan]):
    """Passes spans to the recorders, and stores none."""

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
        _span_entered(id_, bound_args, instance, parent_id, tags)

    def span_exit(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        result: Any | None = None,
        **_: Any,
    ) -> None:
        """Pass on the end of a span."""
        for listener in _owners.get(id_, ()):
            listener.exited(id_, result)

    def span_drop(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        err: BaseException | None = None,
        **_: Any,
    ) -> None:
        """Pass on the exception that ended a span."""
        for listener in _owners.get(id_, ()):
            listener.dropped(id_, err)

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
    """Passes events to the recorders."""

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the handler."""
        return "ToolCallRecorder"

    def handle(self, event: BaseEvent, **_: Any) -> None:
        """Pass on an event."""
        for listener in _owners.get(event.span_id or "", ()):
            listener.fired(event)


_lock: Final = ForkSafeLock()
_open: Final[list[RecorderListener]] = []
"""The listeners that are open, in the order in which they were opened."""
_owners: Final[dict[str, tuple[RecorderListener, ...]]] = {}
"""The listeners that have recorded a span, by its id."""
_active: Final[ContextVar[RecorderListener | None]] = ContextVar("toolgrade_llama_index_active", default=None)
_span_handler: Final = _SpanHandler()
_event_handler: Final = _EventHandler()
