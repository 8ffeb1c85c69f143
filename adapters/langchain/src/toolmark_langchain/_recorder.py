"""How is an agent recorded? A callback handler that notes what it sees, never disturbs, and gives runs back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, TypeVar, cast
from uuid import UUID, uuid4

from langchain_core.agents import AgentAction
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langchain_core.tracers.context import register_configure_hook

from toolmark.capture import Run, RunBuilder, RunRecorder, RunStatus, Sink
from toolmark_langchain._messages import error_text, object_in, status_of
from toolmark_langchain._runs import Node, Recording, Runs
from toolmark_langchain._watcher import Watcher

_Callback = TypeVar("_Callback", bound=Callable[..., None])


def _guarded(method: _Callback) -> _Callback:
    """Make a callback safe: one at a time, and an error in it becomes a warning instead of the agent's error."""

    @functools.wraps(method)
    def callback(self: ToolCallRecorder, *args: Any, **kwargs: Any) -> None:
        node, finished = None, []
        try:
            with self._lock:
                node = self._runs.find(kwargs.get("run_id")) or self._runs.find(kwargs.get("parent_run_id"))
                method(self, *args, **kwargs)
                finished = self._watcher.take_finished()
            if finished:
                self._deliver(finished)
        except Exception as error:  # noqa: BLE001 - a recorder never raises into the agent
            self._fault(method.__name__, error, node, kwargs.get("run_id"))

    return cast("_Callback", callback)


class ToolCallRecorder(RunRecorder[Recording], BaseCallbackHandler):
    """Records the runs of LangChain and LangGraph agents: `agent.invoke(x, config={"callbacks": [recorder]})`.

    One recorder may watch any number of agents at once, in threads and tasks. Nothing it does reaches the agent: an
    error inside it becomes a warning on the run concerned, or in `warnings` where there is none.
    """

    run_inline = True
    raise_error = False
    how_to_attach: ClassVar[str] = (
        "pass the recorder to the agent, config={'callbacks': [recorder]}, or run it inside `with record()`"
    )

    def __init__(self, *, sink: Sink | None = None, limit: int = 10_000, conversation: str | None = None) -> None:
        """Begin with nothing recorded.

        Args:
            sink: See `RunRecorder`, as for the rest.
            limit: How many runs are kept.
            conversation: The conversation that every run belongs to; by default, LangGraph's thread.
        """
        super().__init__(sink=sink, limit=limit, conversation=conversation)
        self._runs = Runs(self._recordings)
        self._watcher = Watcher(self._runs)

    def __copy__(self) -> ToolCallRecorder:
        """Return the recorder itself: a copied configuration still reports here."""
        return self

    def __deepcopy__(self, memo: object) -> ToolCallRecorder:
        """Return the recorder itself: a copied configuration still reports here."""
        return self

    @contextmanager
    def single_run(self, input: str | None = None) -> Iterator[None]:
        """Record what is done inside as one run: a loop written by hand, in which every step is a root of its own.

        Args:
            input: The text of the user; by default that of the first step.
        """
        label = self._label()
        recording = Recording(RunBuilder(run_id=str(uuid4()), conversation_id=label), label, grouped=True)
        with self._lock:
            recording.builder.started(input)
            recording.asks = input is not None
            self._runs.add(recording)
        token = _groups.set({**_groups.get(), self: recording})
        status, error = RunStatus.OK, None
        try:
            yield
        except BaseException as raised:
            status, error = status_of(raised), error_text(raised)
            raise
        finally:
            _groups.reset(token)
            self._close(recording, status, error)

    @property
    def run(self) -> Run:
        """The newest run, as `last_run`."""
        return self.last_run

    @contextmanager
    def conversation(self, label: str) -> Iterator[None]:
        """Put the runs that begin inside into one conversation.

        It is seen in this context only: also in tasks and batches started inside, not in threads that were not given
        this context. There, name the conversation in the agent's `config={"metadata": {"conversation_id": ...}}`.
        """
        with super().conversation(label):
            yield

    def _drop(self, recording: Recording) -> bool:
        return self._runs.drop(recording)

    # Callbacks

    def _root(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        inputs: object,
        **about: Any,
    ) -> Recording | None:
        """Return the recording of a run that begins something new."""
        if not self._watcher.is_root(parent_run_id):
            return None
        return self._watcher.root(run_id, inputs, label=self._label(), group=_groups.get().get(self), **about)

    @_guarded
    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note that a runnable, a graph or one of its nodes began."""
        kind = str(kwargs.get("run_type") or "chain")
        root = self._root(run_id, parent_run_id, inputs, tags=tags, metadata=metadata, kind=kind)
        name = kwargs.get("name") or (serialized or {}).get("name")
        self._watcher.chain_started(inputs, run_id, parent_run_id, name, tags, root)

    @_guarded
    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Note what a runnable returned."""
        self._watcher.chain_ended(outputs, run_id)

    @_guarded
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Note that a runnable raised."""
        self._watcher.chain_failed(error, run_id)

    @_guarded
    def on_chat_model_start(
        self,
        serialized: dict[str, Any] | None,
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note what a model is asked, and which tools it is offered."""
        asked = messages[0] if messages else []
        self._model_started(asked, run_id, parent_run_id, tags, metadata, kwargs)

    @_guarded
    def on_llm_start(
        self,
        serialized: dict[str, Any] | None,
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note that a model without messages is asked."""
        self._model_started([], run_id, parent_run_id, tags, metadata, kwargs)

    def _model_started(
        self,
        messages: Sequence[BaseMessage],
        run_id: UUID,
        parent_run_id: UUID | None,
        tags: list[str] | None,
        metadata: dict[str, Any] | None,
        more: Mapping[str, Any],
    ) -> None:
        root = self._root(run_id, parent_run_id, list(messages), tags=tags, metadata=metadata, kind="model")
        parameters, options = more.get("invocation_params") or {}, more.get("options") or {}
        name = more.get("name")
        self._watcher.model_started(messages, run_id, parent_run_id, name, metadata, parameters, options, root)

    @_guarded
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Note what a model answered."""
        self._watcher.model_ended(response, run_id)

    @_guarded
    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Note that a model raised."""
        self._watcher.model_failed(error, run_id)

    @_guarded
    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note that a tool began, and with which arguments."""
        name = (serialized or {}).get("name") or kwargs.get("name") or ""
        arguments = inputs if isinstance(inputs, dict) else object_in(input_str)
        root = self._root(run_id, parent_run_id, None, tags=tags, metadata=metadata, kind="tool")
        call_id = kwargs.get("tool_call_id")
        self._watcher.tool_started(name, arguments, run_id, parent_run_id, call_id, metadata, root)

    @_guarded
    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Note what a tool returned."""
        self._watcher.tool_ended(output, run_id)

    @_guarded
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Note that a tool raised."""
        self._watcher.tool_failed(error, run_id)

    @_guarded
    def on_agent_action(self, action: AgentAction, *, run_id: UUID, **kwargs: Any) -> None:
        """Note what a classic agent decided to do."""
        self._watcher.agent_acted(action, run_id)

    @_guarded
    def on_retriever_start(
        self,
        serialized: dict[str, Any] | None,
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note that a retriever began: models may run inside it."""
        root = self._root(run_id, parent_run_id, query, tags=tags, metadata=metadata, kind="retriever")
        self._watcher.chain_started(query, run_id, parent_run_id, kwargs.get("name"), tags, root)

    @_guarded
    def on_retriever_end(self, documents: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Note that a retriever returned."""
        self._watcher.chain_ended(None, run_id)

    @_guarded
    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Note that a retriever raised."""
        self._watcher.chain_failed(error, run_id)

    def on_interrupt(self, *_: object, **__: object) -> None:
        """Do nothing: the interruption was seen as such; LangGraph asks handlers of all kinds for this method."""

    def on_resume(self, *_: object, **__: object) -> None:
        """Do nothing: as for `on_interrupt`."""

    # Ends and faults

    def _close(self, recording: Recording, status: RunStatus, error: str | None) -> None:
        try:
            with self._lock:
                answer = recording.answer if status is RunStatus.OK else None
                self._watcher.end_recording(recording, answer, status=status, error=error)
                finished = self._watcher.take_finished()
            self._deliver(finished)
        except Exception as fault:  # noqa: BLE001 - as for every callback
            self._fault("single_run", fault, None, None)

    def _fault(self, where: str, error: Exception, node: Node | None, run_id: UUID | None) -> None:
        """Say that the recorder failed, on the run concerned if it is known, and keep the tree of runs whole."""
        try:
            text = f"the recorder failed in {where}, so something may be missing: {error_text(error)}"
            with self._lock:
                if node is None:
                    self._say(text)
                else:
                    node.recording.builder.warn(text)
                    node.recording.built = None
                if run_id is not None:
                    self._watcher.mend(run_id, node, began=where.endswith("_start"))
        except Exception:  # noqa: BLE001, S110 - nothing is left that could be said
            pass


_groups: ContextVar[Mapping[ToolCallRecorder, Recording]] = ContextVar("toolmark_langchain_groups", default={})  # noqa: B039
_active: ContextVar[ToolCallRecorder | None] = ContextVar("toolmark_langchain_active", default=None)


@functools.cache
def _hook() -> None:
    """Tell LangChain, once, to attach the recorder that is active in the context of a run."""
    register_configure_hook(_active, inheritable=True)


@contextmanager
def record(
    *, sink: Sink | None = None, limit: int = 10_000, conversation: str | None = None
) -> Iterator[ToolCallRecorder]:
    """Record every run that begins inside, without passing anything to the agents.

    ```python
    with record() as recorder:
        agent.invoke({"messages": "What is the weather in Paris?"})
    case = recorder.test_case(expected_tools=[ToolCall(name="weather")])
    ```

    It is seen in this context: also by tasks, batches and LangChain's own threads started inside, not by plain threads.
    Of several inside each other, the innermost records. The arguments are those of `ToolCallRecorder`.
    """
    _hook()
    recorder = ToolCallRecorder(sink=sink, limit=limit, conversation=conversation)
    token = _active.set(recorder)
    try:
        yield recorder
    finally:
        _active.reset(token)
