"""The recorder of agents' runs: a callback handler that observes, never disturbs, and returns runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, TypeVar, cast
from uuid import UUID, uuid4

from langchain_core.agents import AgentAction
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langchain_core.runnables.config import var_child_runnable_config

from toolgrade.capture import RunBuilder, RunRecorder, Sink
from toolgrade.cases import Run, RunStatus
from toolgrade_langchain._active import attached
from toolgrade_langchain._errors import error_text, status_of
from toolgrade_langchain._messages import arguments_in
from toolgrade_langchain._run_tree import CallbackRecording, CallbackTree, Node
from toolgrade_langchain._watcher import CallbackWatcher, missing_tool

_LATE = (
    "an agent that a tool left in the background went on after its run was passed to a sink or popped, and was not "
    "recorded"
)

_Callback = TypeVar("_Callback", bound=Callable[..., None])


def _guarded(method: _Callback) -> _Callback:
    """Run a callback under the lock, and turn an error in it into a warning."""

    @functools.wraps(method)
    def callback(self: ToolCallRecorder, *args: Any, **kwargs: Any) -> None:
        try:
            with self._lock:
                method(self, *args, **kwargs)
                finished = self._tree.take_finished()
            if finished:
                self._deliver(finished)
        except Exception as error:  # noqa: BLE001 - a recorder never raises into the agent
            run_id = kwargs.get("run_id")
            node = self._tree.find_any(run_id) or self._tree.find_any(kwargs.get("parent_run_id"))
            self._fault(method.__name__, error, node, run_id)

    return cast("_Callback", callback)


class ToolCallRecorder(RunRecorder[CallbackRecording], BaseCallbackHandler):
    """Records the runs of LangChain and LangGraph agents: `agent.invoke(x, config={"callbacks": [recorder]})`.

    One recorder may observe any number of agents at once, in threads and tasks. It never disturbs an agent: an error
    inside the recorder becomes a warning on the run, or in `warnings` if there is no run yet.

    Example:
        >>> from langchain_core.language_models import GenericFakeChatModel
        >>> from langchain_core.messages import AIMessage
        >>> from langchain_core.runnables import chain
        >>> from langchain_core.tools import tool
        >>> from toolgrade_langchain import ToolCallRecorder
        >>> @tool
        ... def get_weather(city: str) -> str:
        ...     '''Return the weather in a city.'''
        ...     return f"sunny in {city}"
        >>> request = AIMessage("", tool_calls=[{"name": "get_weather", "args": {"city": "Paris"}, "id": "c1"}])
        >>> model = GenericFakeChatModel(messages=iter([request]))
        >>> agent = chain(lambda question: get_weather.invoke(model.invoke(question).tool_calls[0]))
        >>> recorder = ToolCallRecorder()
        >>> answer = agent.invoke("What is the weather in Paris?", config={"callbacks": [recorder]})
        >>> [(call.name, call.arguments, call.output) for call in recorder.last_run.calls]
        [('get_weather', {'city': 'Paris'}, 'sunny in Paris')]
    """

    # LangChain runs handlers of async agents in threads unless they are inline; inline, callbacks come in order.
    run_inline = True
    raise_error = False
    how_to_attach: ClassVar[str] = (
        "pass the recorder to the agent, config={'callbacks': [recorder]}, or run it inside `with record()`; to record "
        "the whole process, such as the requests of a server, use record(process_wide=True)"
    )

    def __init__(
        self,
        *,
        sink: Sink | None = None,
        limit: int = 10_000,
        limit_bytes: int = 256 * 2**20,
        conversation: str | None = None,
    ) -> None:
        """Begin without runs.

        Args:
            sink: Takes each run when it ends, see `RunRecorder`.
            limit: The most runs to keep.
            limit_bytes: The most memory of the texts and values of runs to keep, in bytes.
            conversation: The conversation of every run; by default, LangGraph's thread.

        Raises:
            ConfigurationError: A limit is not a whole number of at least 1.
        """
        super().__init__(sink=sink, limit=limit, limit_bytes=limit_bytes, conversation=conversation)
        self._tree = CallbackTree(self._recordings, super()._drop, limit)
        self._watcher = CallbackWatcher(self._tree)

    def __copy__(self) -> ToolCallRecorder:
        """Return the recorder itself: a copied configuration still reports here."""
        return self

    def __deepcopy__(self, memo: object) -> ToolCallRecorder:
        """Return the recorder itself: a copied configuration still reports here."""
        return self

    @contextmanager
    def single_run(self, input: str | None = None) -> Generator[None, None, None]:
        """Record everything inside as one run: for a loop of your own, in which every step is a separate root.

        Args:
            input: The text of the user; by default that of the first step.
        """
        builder = RunBuilder(run_id=str(uuid4()), conversation_id=self._label())
        recording = CallbackRecording(builder, is_group=True, has_question=input is not None)
        with self._lock:
            builder.started(input)
            self._tree.add(recording)
        token = _groups.set({**_groups.get(), self: recording})
        status, error = RunStatus.OK, None
        try:
            yield
        except BaseException as raised:
            status, error = status_of(raised), error_text(raised)
            raise
        finally:
            _groups.reset(token)
            self._end_group(recording, status, error)

    @property
    def run(self) -> Run:
        """The newest run, as `last_run`."""
        return self.last_run

    @property
    def inner_runs(self) -> list[Run]:
        """Runs of agents that middleware of another agent began, such as a guard or a grader.

        They are not among `runs`. Agents that a tool runs are in the `children` of its call.
        """
        with self._lock:
            return [self._so_far(recording) for recording in self._tree.inner]

    def pop(self) -> list[Run]:
        """Return the runs that have ended and forget them and their inner runs; open runs stay."""
        with self._lock:
            self._tree.inner = [recording for recording in self._tree.inner if recording.builder.is_open]
            return super().pop()

    def _goes_on(self, recording: CallbackRecording) -> bool:
        return bool(recording.open)

    def _drop(self, recording: CallbackRecording) -> bool:
        return self._tree.drop(recording)

    # Callbacks

    def _begin(
        self,
        inputs: object,
        kind: str,
        name: str | None,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        is_scope: bool = False,
        **_more: Any,
    ) -> Node | None:
        """Add the run of a callback to the tree; return `None` if its recording was removed."""
        if self._tree.find(run_id) is not None:  # the recorder was passed twice
            return None
        root, parent = None, self._tree.find_parent(parent_run_id, _calling_run())
        if parent is None and self._tree.is_root(parent_run_id):
            group = _groups.get().get(self)
            root = self._tree.recording_of_root(
                run_id, inputs, kind, name, label=self._label(), group=group, tags=tags, metadata=metadata
            )
        node = self._tree.begin(run_id, parent, name, is_scope=is_scope, root=root, metadata=metadata)
        if node is None and self._tree.is_removed(parent_run_id):
            self._say(_LATE)
        return node

    @_guarded
    def on_chain_start(self, serialized: dict[str, Any] | None, inputs: Any, **kwargs: Any) -> None:
        """Observe the beginning of a runnable, a graph or one of its nodes."""
        name = kwargs.pop("name", None) or (serialized or {}).get("name")
        node = self._begin(inputs, str(kwargs.get("run_type") or "chain"), name, **kwargs)
        if node is not None:
            self._watcher.chain_started(node, inputs, kwargs.get("tags"))

    @_guarded
    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Observe what a runnable returned."""
        self._watcher.chain_ended(outputs, run_id, kwargs.get("inputs"))

    @_guarded
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Observe that a runnable raised."""
        self._watcher.chain_failed(error, run_id)

    @_guarded
    def on_chat_model_start(
        self, serialized: dict[str, Any] | None, messages: list[list[BaseMessage]], **kwargs: Any
    ) -> None:
        """Observe what a model is shown, and which tools it is offered."""
        self._model_started(messages[0] if messages else [], kwargs)

    @_guarded
    def on_llm_start(self, serialized: dict[str, Any] | None, prompts: list[str], **kwargs: Any) -> None:
        """Observe the request to a model without messages."""
        self._model_started([], kwargs)

    def _model_started(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> None:
        node = self._begin(list(messages), "model", kwargs.pop("name", None), **kwargs)
        if node is not None:
            self._watcher.model_started(node, messages, kwargs)

    @_guarded
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Observe the answer of a model."""
        self._watcher.model_ended(response, run_id)

    @_guarded
    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Observe that a model raised."""
        self._watcher.model_failed(error, run_id)

    @_guarded
    def on_tool_start(self, serialized: dict[str, Any] | None, input_str: str, **kwargs: Any) -> None:
        """Observe the beginning of a tool, and its arguments."""
        other_name, inputs = kwargs.pop("name", None), kwargs.pop("inputs", None)
        name = (serialized or {}).get("name") or other_name or ""
        arguments = inputs if isinstance(inputs, dict) else arguments_in(input_str)
        node = self._begin(None, "tool", name, is_scope=missing_tool(name, arguments) is None, **kwargs)
        if node is not None:
            self._watcher.tool_started(node, name, arguments, kwargs.get("tool_call_id"), kwargs.get("metadata") or {})

    @_guarded
    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Observe what a tool returned."""
        self._watcher.tool_ended(output, run_id)

    @_guarded
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Observe that a tool raised."""
        self._watcher.tool_failed(error, run_id)

    @_guarded
    def on_agent_action(self, action: AgentAction, *, run_id: UUID, **kwargs: Any) -> None:
        """Observe the decision of a classic agent."""
        self._watcher.agent_acted(action, run_id)

    @_guarded
    def on_retriever_start(self, serialized: dict[str, Any] | None, query: str, **kwargs: Any) -> None:
        """Observe the beginning of a retriever: models may run inside it."""
        node = self._begin(query, "retriever", kwargs.pop("name", None), **kwargs)
        if node is not None:
            self._watcher.chain_started(node, query, kwargs.get("tags"))

    @_guarded
    def on_retriever_end(self, documents: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Observe that a retriever returned."""
        self._watcher.chain_ended(None, run_id)

    @_guarded
    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Observe that a retriever raised."""
        self._watcher.chain_failed(error, run_id)

    # LangGraph calls these two on handlers of all kinds. An interruption is observed as the exception that it is.

    def on_interrupt(self, *_: object, **__: object) -> None:
        """Do nothing."""

    def on_resume(self, *_: object, **__: object) -> None:
        """Do nothing."""

    # Ends and faults

    def _end_group(self, recording: CallbackRecording, status: RunStatus, error: str | None) -> None:
        try:
            with self._lock:
                answer = recording.answer if status is RunStatus.OK else None
                self._tree.end_recording(recording, answer, status=status, error=error)
                finished = self._tree.take_finished()
            self._deliver(finished)
        except Exception as fault:  # noqa: BLE001 - a recorder never raises into the agent
            self._fault("single_run", fault, None, None)

    def _fault(self, where: str, error: Exception, node: Node | None, run_id: UUID | None) -> None:
        """Warn that the recorder failed, on the run if it is known, and restore the tree of runs."""
        try:
            text = f"the recorder failed in {where}, so something may be missing: {error_text(error)}"
            with self._lock:
                if node is None:
                    self._say(text)
                else:
                    node.recording.builder.warn(text)
                    node.recording.cached_run = None
                if run_id is not None:
                    self._tree.repair(run_id, node, began=where.endswith("_start"))
        except Exception:  # noqa: BLE001, S110 - nothing is left to report to
            pass


def _calling_run() -> UUID | None:
    """Return the run whose code is executed in this context, `None` if that is not known."""
    callbacks = (var_child_runnable_config.get() or {}).get("callbacks")
    run_id = getattr(callbacks, "parent_run_id", None)
    return run_id if isinstance(run_id, UUID) else None


_groups: ContextVar[Mapping[ToolCallRecorder, CallbackRecording]] = ContextVar("toolgrade_langchain_groups", default={})  # noqa: B039


@contextmanager
def record(
    *,
    sink: Sink | None = None,
    limit: int = 10_000,
    limit_bytes: int = 256 * 2**20,
    conversation: str | None = None,
    process_wide: bool = False,
) -> Generator[ToolCallRecorder, None, None]:
    """Record every run that begins inside, without passing anything to the agents.

    Tasks, batches and LangChain's own threads started inside are recorded; other tasks, such as the requests of a
    server, and plain threads only with `process_wide=True`. Of nested blocks, the innermost records.

    Args:
        sink: As for `ToolCallRecorder`.
        limit: As for `ToolCallRecorder`.
        limit_bytes: As for `ToolCallRecorder`.
        conversation: As for `ToolCallRecorder`.
        process_wide: While the block lasts, also record the runs that begin in any other task or thread of the
            process, where no recorder is active: for servers, whose requests do not run in the context of their
            startup.

    Raises:
        ConfigurationError: A limit is not a whole number of at least 1.

    Example:
        >>> from langchain_core.runnables import chain
        >>> from langchain_core.tools import tool
        >>> from toolgrade_langchain import record
        >>> @tool
        ... def get_weather(city: str) -> str:
        ...     '''Return the weather in a city.'''
        ...     return f"sunny in {city}"
        >>> agent = chain(lambda question: get_weather.invoke({"city": "Paris"}))
        >>> with record() as recorder:
        ...     answer = agent.invoke("What is the weather in Paris?")
        >>> recorder.last_run.input, [(call.name, call.output) for call in recorder.last_run.calls]
        ('What is the weather in Paris?', [('get_weather', 'sunny in Paris')])
    """
    recorder = ToolCallRecorder(sink=sink, limit=limit, limit_bytes=limit_bytes, conversation=conversation)
    with attached(recorder, process_wide=process_wide):
        yield recorder
