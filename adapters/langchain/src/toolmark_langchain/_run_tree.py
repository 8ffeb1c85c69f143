"""The tree of LangChain's callback runs, and the recordings of its roots.

A callback names its run and its parent, and only these ids are trusted: contexts and the order of callbacks are not. A
run whose parent this recorder never saw is a root. A root begins a recording, unless it continues an interrupted one.
Runs leave the tree when they end. Runs that never end (a cancelled tool, a late thread) stay until their recording is
removed. Their ids are remembered then, so that later callbacks of theirs do not look like new roots.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Final
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage

from toolmark.capture import RunBuilder
from toolmark.cases import Run, RunStatus
from toolmark_langchain import _states
from toolmark_langchain._errors import error_text

_THREAD_KEYS: Final = ("thread_id", "session_id", "conversation_id")
_INTERNAL_METADATA: Final = ("langgraph_", "ls_", "lc_", "checkpoint_", "__")
_MINOR_KINDS: Final = frozenset({"prompt", "parser", "retriever"})
_MAX_REMOVED: Final = 10_000
"""How many ids of removed runs are remembered."""


def now() -> datetime:
    """Return the current time; LangChain's callbacks carry none."""
    return datetime.now(timezone.utc)


@dataclass(slots=True, eq=False)
class Recording:
    """One run of an agent, over as many roots as it takes.

    Attributes:
        builder: The builder of the run.
        thread: LangGraph's thread, in which the run may be resumed.
        open: The callback runs that did not end.
        message_ids: Ids of the messages that were noted.
        unnamed: The messages without an id that were noted; referenced here so that their identity is not reused.
        last_calls: For each scope, the ids and names of the calls of its newest observed model message.
        declared: The declared arguments of each offered tool.
        has_question: The text of the user was noted.
        has_graph: A node of a LangGraph graph ran.
        interrupted: Control flow suspended the run.
        is_structured: The pseudo-tools of its structured output are known.
        is_minor: Its root is a prompt, a parser or a retriever, worth keeping only if a tool was called.
        is_group: It is a `single_run` block, which ends with the block and not with a root.
        answer: The last answer of a root of a group.
        assumed_ids: Of a run that continues an unobserved one: ids of the calls that its nodes execute, which a model
            must have requested; `None` for any other run.
        request: Id of the message that the model returned, if the recording is that single model request.
        tools: The tools that this model was offered.
        model: The name of this model.
        cached_run: The built run; `None` after an observation.
    """

    builder: RunBuilder
    thread: str | None = None
    open: set[UUID] = field(default_factory=set)
    message_ids: set[str] = field(default_factory=set)
    unnamed: dict[int, BaseMessage] = field(default_factory=dict)
    last_calls: dict[str | None, list[tuple[str | None, str]]] = field(default_factory=dict)
    declared: dict[str, list[str]] = field(default_factory=dict)
    has_question: bool = False
    has_graph: bool = False
    interrupted: bool = False
    is_structured: bool = False
    is_minor: bool = False
    is_group: bool = False
    answer: str | None = None
    assumed_ids: set[str] | None = None
    request: str | None = None
    tools: list[object] = field(default_factory=list)
    model: str | None = None
    cached_run: Run | None = None

    def ask(self, question: str | None) -> None:
        """Note the text of the user, if it is the first."""
        if question is not None and not self.has_question:
            self.has_question = True
            self.builder.started(question)

    def note_message(self, message: BaseMessage) -> bool:
        """Note a message, and return whether it is new."""
        is_new = id(message) not in self.unnamed
        if message.id:
            key = f"{message.type}:{message.id}"
            is_new = is_new and key not in self.message_ids
            self.message_ids.add(key)
        elif is_new:
            self.unnamed[id(message)] = message
        return is_new

    def note_model_message(self, message: AIMessage, scope: str | None) -> None:
        """Note a message that an observed model returned."""
        self.note_message(message)
        self.last_calls[scope] = _calls(message)

    def has_calls_of(self, message: AIMessage, scope: str | None) -> bool:
        """Return whether a message requests the calls of the newest observed one, or assumed ones."""
        calls = _calls(message)
        if not calls:
            return False
        return calls == self.last_calls.get(scope) or {call_id for call_id, _ in calls} <= (self.assumed_ids or set())

    def run(self) -> Run:
        """Return the run so far."""
        if self.cached_run is None:
            self.cached_run = self.builder.build()
        return self.cached_run


def _calls(message: AIMessage) -> list[tuple[str | None, str]]:
    return [(call.get("id"), call["name"]) for call in message.tool_calls]


@dataclass(slots=True, eq=False)
class Node:
    """A callback run that did not end.

    Attributes:
        scope: The tool run that encloses it; `None` at the top level.
        inside: The scope of what happens inside it.
        is_step: It is a node of a graph.
        calls: The calls that it is to execute and that have not started.
        is_structured: The model's calls carry structured output.
        model: The name of the model.
        tools: The tools that the model was offered.
        missing_tool: The name of the missing tool, if the run is an agent executor's stand-in for one.
        call_id: The id of the call that the tool run executes.
    """

    run_id: UUID
    parent: Node | None
    recording: Recording
    scope: str | None
    inside: str | None
    name: str | None
    is_step: bool = False
    calls: list[Mapping[str, Any]] | None = None
    is_structured: bool = False
    model: str | None = None
    tools: list[object] = field(default_factory=list)
    missing_tool: str | None = None
    call_id: str | None = None


class RunTree:
    """The open callback runs and the recordings. Used under the recorder's lock, which also handles errors here."""

    def __init__(self, recordings: dict[int, Recording]) -> None:
        """Begin without runs.

        Args:
            recordings: The recorder's own mapping of recordings by identity, which the tree changes.
        """
        self._recordings = recordings
        self._nodes: dict[UUID, Node] = {}
        self._threads: dict[str, Recording] = {}
        self._models: dict[str, Recording] = {}
        self._removed: OrderedDict[UUID, None] = OrderedDict()
        self._finished: list[Recording] = []

    # Callback runs

    def find(self, run_id: UUID | None) -> Node | None:
        """Return an open run."""
        return None if run_id is None else self._nodes.get(run_id)

    def is_root(self, parent_run_id: UUID | None) -> bool:
        """Return whether a run with this parent is a root."""
        return self.find(parent_run_id) is None and parent_run_id not in self._removed

    def begin(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        name: str | None,
        *,
        is_scope: bool = False,
        root: Recording | None = None,
    ) -> Node | None:
        """Add a run; return `None` if its recording was removed.

        Args:
            run_id: The id of the run.
            parent_run_id: The id of its parent.
            name: The name of what runs.
            is_scope: What happens inside the run is nested in it: it is a tool.
            root: The recording of the run, if it is a root.
        """
        parent = self.find(parent_run_id)
        recording = root if parent is None else parent.recording
        if recording is None:
            self._forget(run_id)
            return None
        recording.cached_run = None
        scope = None if parent is None else parent.inside
        node = Node(run_id, parent, recording, scope, str(run_id) if is_scope else scope, name)
        self._nodes[run_id] = node
        recording.open.add(run_id)
        return node

    def end(self, run_id: UUID) -> Node | None:
        """Remove a run that ended; return `None` if its beginning was not observed."""
        node = self._nodes.pop(run_id, None)
        if node is not None:
            node.recording.open.discard(run_id)
            node.recording.cached_run = None
        return node

    def repair(self, run_id: UUID, node: Node | None, *, began: bool) -> None:
        """Restore the tree after an error in the callback of a run.

        Args:
            run_id: The run.
            node: Its node, or that of its parent, if either is known.
            began: The run began; otherwise it ended.
        """
        if began:
            if node is None:
                self._forget(run_id)  # its children must not look like new roots
            elif self.find(run_id) is None:
                self.begin(run_id, node.run_id, None, root=node.recording)
            return
        self.end(run_id)
        if node is not None and node.run_id == run_id and node.parent is None and node.recording.builder.is_open:
            node.recording.builder.ended(at=now())

    def _forget(self, run_id: UUID) -> None:
        """Remember a run of a removed recording by its id."""
        self._removed[run_id] = None
        while len(self._removed) > _MAX_REMOVED:
            self._removed.popitem(last=False)

    # Recordings

    def root(
        self,
        run_id: UUID,
        inputs: object,
        kind: str,
        *,
        label: str | None,
        group: Recording | None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Recording:
        """Return the recording of a root: that of its group, the interrupted one that it continues, or a new one."""
        question = None if kind == "tool" else _states.question_of(inputs)
        if group is not None:
            group.ask(question)
            return group
        metadata = metadata or {}
        thread = next((str(metadata[key]) for key in _THREAD_KEYS if metadata.get(key)), None)
        earlier = None if thread is None else self._threads.get(thread)
        resumes = kind == "chain" and thread is not None and _states.is_resumption(inputs)
        if resumes and earlier is not None and not earlier.builder.is_open:
            earlier.builder.resumed()
            earlier.interrupted = False
            return earlier
        recording = Recording(
            RunBuilder(run_id=str(run_id), conversation_id=label or thread), thread, is_minor=kind in _MINOR_KINDS
        )
        self.add(recording)
        builder = recording.builder
        try:
            user_metadata = {key: value for key, value in metadata.items() if not key.startswith(_INTERNAL_METADATA)}
            builder.labelled(tags=[tag for tag in tags or () if not tag.startswith("seq:step")], metadata=user_metadata)
            if earlier is not None and earlier.builder.is_open:
                builder.warn(f"another run of conversation {thread!r} was still open when this one began")
            elif resumes:
                recording.assumed_ids = set()
                builder.warn("this run continues an earlier one that this recorder does not have")
            builder.started(at=now())
            recording.ask(question)
        except Exception as error:  # noqa: BLE001 - the run is recorded without its description
            builder.warn(f"the recorder failed at the beginning of the run: {error_text(error)}")
        return recording

    def finish(
        self,
        node: Node,
        answer: str | None = None,
        *,
        status: RunStatus = RunStatus.OK,
        error: str | None = None,
        may_wait: bool = False,
    ) -> None:
        """End the recording, if the run was its root."""
        recording = node.recording
        if node.parent is not None:
            return
        recording.unnamed.clear()
        if recording.is_group:
            recording.answer = answer if answer is not None else recording.answer
            return
        self.end_recording(recording, answer, status=status, error=error, may_wait=may_wait)

    def end_recording(
        self,
        recording: Recording,
        answer: str | None,
        *,
        status: RunStatus = RunStatus.OK,
        error: str | None = None,
        may_wait: bool = False,
    ) -> None:
        """End a recording."""
        recording.cached_run = None
        if recording.interrupted and status is RunStatus.OK:
            status, answer = RunStatus.INTERRUPTED, None
        recording.builder.ended(answer, status=status, error=error, may_wait=may_wait, at=now())
        if recording.thread is None:
            recording.message_ids.clear()
        if recording.is_minor and not recording.run().calls:
            self.drop(recording)
        else:
            self._finished.append(recording)

    def take_finished(self) -> list[Recording]:
        """Return the recordings that ended since the last time."""
        finished, self._finished = self._finished, []
        return finished

    def add(self, recording: Recording) -> None:
        """Add a recording as the newest one, also of its thread."""
        self._recordings[id(recording)] = recording
        if recording.thread is not None:
            self._threads[recording.thread] = recording

    def add_model_request(self, recording: Recording, message: str, tools: list[object], model: str | None) -> None:
        """Note that a recording is a single model request, which may turn out to be part of an agent's run."""
        recording.request, recording.tools, recording.model = message, tools, model
        self._models[message] = recording

    def take_model_request(self, message: str | None) -> Recording | None:
        """Remove and return the recording that is the single model request of this message."""
        recording = None if message is None else self._models.get(message)
        if recording is not None:
            self.drop(recording)
        return recording

    def drop(self, recording: Recording) -> bool:
        """Remove a recording, and return whether it was there; later callbacks of its runs are ignored."""
        if self._recordings.pop(id(recording), None) is None:
            return False
        if recording.request is not None and self._models.get(recording.request) is recording:
            del self._models[recording.request]
        for run_id in recording.open:
            self._nodes.pop(run_id, None)
            self._forget(run_id)
        if recording.thread is not None and self._threads.get(recording.thread) is recording:
            del self._threads[recording.thread]
        return True
