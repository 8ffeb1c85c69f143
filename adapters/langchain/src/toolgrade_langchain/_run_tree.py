"""The tree of LangChain's callback runs, and the recordings of its roots.

A callback names its run and its parent, and only these ids are trusted: contexts and the order of callbacks are not. A
run whose parent this recorder never saw is a root. A root begins a recording, unless it continues an interrupted one.
Runs leave the tree when they end. Runs that never end (a cancelled tool, a late thread) stay until their recording is
removed. Their ids are remembered then, so that later callbacks of theirs do not look like new roots.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timezone
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage

from toolgrade.calls import ToolCallType, ToolSpec
from toolgrade.capture import LACKS_BEGINNING, Branch, RunBuilder
from toolgrade.cases import Run, RunStatus
from toolgrade_langchain import _states
from toolgrade_langchain._errors import error_text
from toolgrade_langchain._handovers import HandOvers
from toolgrade_langchain._message_log import LoggedMessage, MessageCall, MessageLog, Surroundings, calls_of, contains
from toolgrade_langchain._messages import add_question

_THREAD_KEYS: Final = ("thread_id", "session_id", "conversation_id")
_INTERNAL_METADATA: Final = ("langgraph_", "ls_", "lc_", "checkpoint_", "__")
_MINOR_KINDS: Final = frozenset({"prompt", "parser", "retriever"})
_AGENTS: Final = frozenset({"langchain_create_agent", "deepagents"})
"""What the agents of LangChain call themselves in their metadata."""
_HOOKS: Final = (".before_agent", ".before_model", ".after_model", ".after_agent")
"""How the names of the nodes end in which the hooks of middleware run."""
_MAX_ENDED: Final = 10_000
"""How many runs that ended are remembered, of recordings that are stored."""
_MAX_REMOVED: Final = 1_000
"""How many ids of removed runs that ended are remembered: a thread that they left behind may begin others soon."""
_MAX_REMOVED_OPEN: Final = 10_000
"""How many ids of removed runs that did not end are remembered."""

HAS_CONTEXT: Final = sys.version_info >= (3, 11)
"""Whether a run without a context can only be in a thread of its own; before, asynchronous code loses it, too."""


def now() -> datetime:
    """Return the current time; LangChain's callbacks carry none."""
    return datetime.now(timezone.utc)


@dataclass(slots=True, eq=False)
class CallbackRecording:
    """One run of an agent; a run that waits for a person and is resumed has several roots.

    Attributes:
        builder: The builder of the run.
        thread: LangGraph's thread, in which the run may be resumed.
        open: The ids of the callback runs that have not ended.
        log: The messages of the run.
        handovers: The requests to hand over to another agent that did not take place.
        continues: The root continues a run that was recorded elsewhere, or is resumed.
        candidates: The runs that the root may resume, newest first; `None` once that is decided, and for any root that
            cannot resume a run.
        graph: The name of the root.
        steps: The names of the nodes of the graph that ran.
        loop: Returns LangGraph's loop of the graph at the top level, while there is one; `None` before its first node.
        step: The number of the newest step of the graph at the top level.
        unfinished: The namespaces of the nodes that were interrupted or failed; a node that goes on has the same one.
        ended: The ids of callback runs that ended; others may still begin inside of them.
        declared: What is known of each offered tool, by name.
        has_question: The text of the user is known, or the run ended, so later inputs do not count.
        inputs: The first input that has a message of the user.
        prompts: The last messages of persons that the models of the run were shown.
        last_text: The last text of a model at the top level.
        guards: Messages of models that middleware asked, by their ids, with the runs of the models.
        has_graph: A node of a LangGraph graph ran.
        interrupted: Control flow suspended the run.
        is_minor: The root is a prompt, a parser or a retriever, worth keeping only if a tool was called.
        is_inner: Middleware of another run began this one.
        is_group: The run is a `single_run` block, which ends with the block and not with a root.
        answer: The last answer of a root in a group.
        assumed_ids: In a run that continues an unobserved one, the ids of the calls that its nodes execute and that a
            model must have requested; `None` for any other run.
        timeout: The newest exception about time that a run raised, and whether a graph raised it itself.
        request: The id of the message that the model returned, if the recording is a single model request.
        tools: The tools that the model of this single request was offered.
        model: The name of that model.
        cached_run: The built run; `None` after an observation.
    """

    builder: RunBuilder
    thread: str | None = None
    open: set[UUID] = field(default_factory=set)
    log: MessageLog = field(default_factory=MessageLog)
    handovers: HandOvers = field(default_factory=HandOvers)
    continues: bool = False
    candidates: list[CallbackRecording] | None = None
    graph: str | None = None
    steps: set[str | None] = field(default_factory=set)
    loop: Callable[[], Any] | None = None
    step: int | None = None
    unfinished: set[str | None] = field(default_factory=set)
    ended: list[UUID] = field(default_factory=list)
    declared: dict[str, ToolSpec] = field(default_factory=dict)
    has_question: bool = False
    inputs: object = None
    prompts: list[object] = field(default_factory=list)
    last_text: str | None = None
    guards: dict[str | None, tuple[AIMessage, Node]] = field(default_factory=dict)
    has_graph: bool = False
    interrupted: bool = False
    is_minor: bool = False
    is_inner: bool = False
    is_group: bool = False
    answer: str | None = None
    assumed_ids: set[str] | None = None
    timeout: tuple[BaseException, bool] | None = None
    request: str | None = None
    tools: list[object] = field(default_factory=list)
    model: str | None = None
    cached_run: Run | None = None

    def ask(self, inputs: object = None, prompt: object = None) -> None:
        """Note an input, or the last message of a person that a model is shown; both together decide the question.

        Of several inputs, the first one with a message of the user counts.
        """
        if self.has_question or (prompt is not None and prompt in self.prompts):
            return
        if prompt is None and _states.question_of(self.inputs) is None:
            self.inputs = inputs
        self.prompts += [] if prompt is None else [prompt]
        add_question(self.builder, _states.question_of(self.inputs, self.prompts))

    def describe(self, inputs: object, tags: Iterable[str], metadata: Mapping[str, Any]) -> None:
        """Note the beginning, the question, and the labels that the user gave the run; LangChain adds others."""
        own = {key: value for key, value in metadata.items() if not key.startswith(_INTERNAL_METADATA)}
        try:
            self.builder.labelled(tags=[tag for tag in tags if not tag.startswith("seq:step")], metadata=own)
            self.builder.started(at=now())
            self.ask(inputs)
        except Exception as error:  # noqa: BLE001 - the run is recorded without its description
            self.builder.warn(f"the recorder failed at the beginning of the run: {error_text(error)}")

    def declare(self, specs: Iterable[object]) -> None:
        """Note what is known of offered tools; a tool without a schema declares no arguments."""
        for spec in specs:
            if isinstance(spec, ToolSpec) and spec.name not in self.declared:
                schema = spec.input_schema or {}
                self.declared[spec.name] = ToolSpec(name=spec.name, type=ToolCallType.FUNCTION, input_schema=schema)

    def spec_of(self, name: str) -> ToolSpec:
        """Return what is known of a tool that runs."""
        return self.declared.get(name) or ToolSpec(name=name or "(unnamed)", type=ToolCallType.FUNCTION)

    def has_assumed(self, message: AIMessage) -> bool:
        """Return whether all calls of a message are known from the nodes that execute them."""
        ids = {call_id for call_id, _, _ in calls_of(message)}
        return bool(ids) and ids <= (self.assumed_ids or set())

    @property
    def may_go_on(self) -> bool:
        """Whether the run ended so that another root may resume it."""
        # A graph that is interrupted before the agent to which another one handed over ends as if it were done.
        return not self.builder.is_open and (self.run().status is not RunStatus.OK or bool(self.handovers.left))

    def was_changed_before(self, node: Node, ids: AbstractSet[str]) -> bool:
        """Return whether the program changed the state in which this run waits, before a node of the next root began.

        Such a change (LangGraph's `update_state`) takes the number of a step. So if this run ended after step 3, step 4
        resumes it, and step 5 resumes it after a change. A root that begins with step 2 goes on from an earlier state.

        Args:
            node: The node.
            ids: The ids of the messages in the changed state, which may lack the newest one.
        """
        if self.step is None or node.step is None or not ids & self.log.state_ids:
            return False
        last = self.step - bool(self.unfinished)  # a step that was interrupted is not stored
        return node.step > last + 1

    def run(self) -> Run:
        """Return the run so far."""
        if self.cached_run is None:
            self.cached_run = self.builder.build()
        return self.cached_run


@dataclass(slots=True, eq=False)
class Node:
    """A callback run.

    Attributes:
        run_id: The id of the run.
        parent: The run around it; `None` for a root.
        recording: The recording that the run belongs to.
        scope: The tool run around this run; `None` at the top level.
        inside: The scope of what happens inside this run: of a tool run, the run itself.
        name: The name of what runs.
        namespace: LangGraph's name of the place in a graph, and of the state there.
        graph: The nested graph that the run belongs to, by its namespace; several may run at the same time.
        step: The number of the step of the graph that the run belongs to.
        is_step: The run is a node of a graph.
        runs_middleware: The run is a node of an agent: its model, its tools, or a hook of middleware. The agent has no
            graph directly inside such a node, so a graph there is one that middleware began.
        has_steps: Nodes of a graph ran directly inside this run: it is a graph.
        inputs: The input of the run, until the first node of the graph has begun.
        state_messages: The newest model message in each list of messages of the input.
        messages: The model messages inside this run, up to its scope.
        request: The call of a model that a tool run carries out.
        executed: The calls that tools inside a node of a graph executed.
        limit: The text with which a limit ended a graph.
        answered_here: The calls of a graph whose nodes returned the request and the result together: such a call may
            carry a structured answer.
        calls: The calls that a node is to execute and that have not started.
        is_structured: The calls of a model carry structured output.
        is_guard: Middleware asks the model, which is not that of the agent.
        model: The name of a model.
        tools: The tools that a model was offered.
        missing_tool: The name of the missing tool, if the run is an agent executor's stand-in for one.
        call_id: The id of the call that a tool run executes.
    """

    run_id: UUID
    parent: Node | None
    recording: CallbackRecording
    scope: str | None
    inside: str | None
    name: str | None
    namespace: str | None = None
    graph: str | None = None
    step: int | None = None
    is_step: bool = False
    runs_middleware: bool = False
    has_steps: bool = False
    inputs: object = None
    state_messages: list[AIMessage] = field(default_factory=list)
    messages: list[LoggedMessage] = field(default_factory=list)
    request: MessageCall | None = None
    executed: list[MessageCall] = field(default_factory=list)
    limit: str | None = None
    answered_here: list[MessageCall] = field(default_factory=list)
    calls: list[Mapping[str, Any]] | None = None
    is_structured: bool = False
    is_guard: bool = False
    model: str | None = None
    tools: list[object] = field(default_factory=list)
    missing_tool: str | None = None
    call_id: str | None = None
    _place: Surroundings | None = None

    @property
    def place(self) -> Surroundings:
        """Where the run is, for the log of messages."""
        if self._place is None:
            # Runs are named by numbers, since the hash of a UUID is computed in Python each time.
            self._place = Surroundings(self.branch, frozenset([run.run_id.int for run in self.around()]))
        return self._place

    @property
    def is_leaf(self) -> bool:
        """Whether the run is a node of a graph without a graph inside."""
        return self.is_step and not self.has_steps

    @property
    def branch(self) -> Branch:
        """Where the run is, for the builder."""
        return Branch(self.scope, self.graph)

    def requested_id(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """Return the id of the call that a tool run executes: one of those that the nearest node is to execute.

        Each call of a node is used once.
        """
        step = next((run for run in self.around() if run.calls is not None), self)
        due = step.calls or []
        calls = [call for call in due if call.get("name") == name]
        if not calls:
            return None
        chosen = min(calls, key=lambda call: not contains(arguments, call.get("args")))
        if len(due) > 1:  # a node with one call may retry it
            step.calls = [call for call in due if call is not chosen]
        return chosen["id"] if isinstance(chosen.get("id"), str) else None

    def around(self) -> Iterator[Node]:
        """Yield the runs around this run, the nearest first, up to the tool run of its scope, which is left out."""
        run = self.parent
        while run is not None and run.inside == self.scope:
            yield run
            run = run.parent


class CallbackTree:
    """The open callback runs and the recordings, under the lock of the recorder, which also handles errors here."""

    def __init__(
        self, recordings: dict[int, CallbackRecording], remove: Callable[[CallbackRecording], bool], limit: int
    ) -> None:
        """Begin without runs.

        Args:
            recordings: The recorder's own mapping of recordings by identity, to which the tree adds.
            remove: Removes a recording from it, and returns whether it was there.
            limit: The most runs of middleware to keep.
        """
        self._recordings = recordings
        self._remove = remove
        self._limit = limit
        self._nodes: dict[UUID, Node] = {}
        """The open runs."""
        self._ended: OrderedDict[UUID, Node] = OrderedDict()
        """Runs that ended, of recordings that are stored."""
        self._removed_open: OrderedDict[UUID, None] = OrderedDict()
        """The ids of runs that did not end before their recording was removed."""
        self._removed: OrderedDict[UUID, None] = OrderedDict()
        """The ids of runs that ended, and whose recording was removed."""
        self._threads: dict[str, list[CallbackRecording]] = {}
        """The recordings of each thread, the newest last."""
        self._models: dict[str, CallbackRecording] = {}
        """The recordings that are a single model request, by the id of the message."""
        self._finished: list[CallbackRecording] = []
        """The recordings that ended since they were last taken."""
        self.inner: list[CallbackRecording] = []
        """The runs of middleware."""

    # Callback runs

    def find(self, run_id: UUID | None) -> Node | None:
        """Return an open run."""
        return None if run_id is None else self._nodes.get(run_id)

    def find_parent(self, parent_run_id: UUID | None, caller: UUID | None) -> Node | None:
        """Return the run around a run that begins, open or ended.

        Args:
            parent_run_id: The parent that the callback names.
            caller: The run whose code begins the run. The caller is inside the parent if a tool passes on the
                configuration of its node in place of its own.
        """
        parent = self.find_any(parent_run_id)
        if parent is None or caller is parent_run_id:  # mostly the parent is the caller
            return parent
        if caller is None:
            return self._tool_inside(parent) if HAS_CONTEXT else parent
        inner = self.find_any(caller)
        outer = inner
        while outer is not None and outer is not parent:
            outer = outer.parent
        return inner if outer is parent else parent

    def _tool_inside(self, parent: Node) -> Node:
        """Return the tool run around a run that begins without a context.

        A thread that a tool starts has the configuration of the node around the tool: its runs name the node as parent.
        """
        nodes = [self._nodes[run_id] for run_id in parent.recording.open if run_id in self._nodes]
        tools = [node for node in nodes if node.parent is parent and node.inside != node.scope]
        if len(tools) > 1:
            parent.recording.builder.warn(
                "threads of tools that ran at the same time began other runs, which are recorded beside these tools; "
                "start threads in a copy of the context: contextvars.copy_context().run"
            )
        return tools[0] if len(tools) == 1 else parent

    def find_any(self, run_id: UUID | None) -> Node | None:
        """Return a run, open or ended: a thread or a task of an ended run may still begin others."""
        return None if run_id is None else self._nodes.get(run_id) or self._ended.get(run_id)

    def is_root(self, parent_run_id: UUID | None) -> bool:
        """Return whether a run whose parent is not in the tree is a root: the parent was never seen."""
        return parent_run_id not in self._removed and parent_run_id not in self._removed_open

    def is_removed(self, run_id: UUID | None) -> bool:
        """Return whether a run ended, and its recording was removed."""
        return run_id in self._removed

    def begin(
        self,
        run_id: UUID,
        parent: Node | None,
        name: str | None,
        *,
        is_scope: bool = False,
        root: CallbackRecording | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Node | None:
        """Add a run; return `None` if its recording was removed.

        Args:
            run_id: The id of the run.
            parent: The run around it.
            name: The name of what runs.
            is_scope: What happens inside the run is nested in it: it is a tool.
            root: The recording of the run, if it is a root.
            metadata: The metadata of the run.
        """
        recording = root if parent is None else parent.recording
        if recording is None:
            _remember_id(self._removed_open, run_id, _MAX_REMOVED_OPEN)
            return None
        recording.cached_run = None
        scope = None if parent is None else parent.inside
        inside = str(run_id) if is_scope else scope
        node = Node(run_id=run_id, parent=parent, recording=recording, scope=scope, inside=inside, name=name)
        metadata = metadata or {}
        namespace, step = metadata.get("langgraph_checkpoint_ns"), metadata.get("langgraph_step")
        node.step = step if isinstance(step, int) else None
        is_agent = metadata.get("ls_integration") in _AGENTS and name in ("model", "tools")
        node.runs_middleware = is_agent or str(name).endswith(_HOOKS)
        if isinstance(namespace, str):
            node.namespace, node.graph = namespace, namespace.rpartition("|")[0] or None
        elif parent is not None:
            node.namespace, node.graph = parent.namespace, parent.graph
        self._nodes[run_id] = node
        recording.open.add(run_id)
        return node

    def end(self, run_id: UUID) -> Node | None:
        """Remove a run that ended; return `None` if its beginning was not observed."""
        node = self._nodes.pop(run_id, None)
        if node is not None:
            node.recording.open.discard(run_id)
            node.recording.cached_run = None
            self._remember(node)
        elif run_id in self._removed_open:
            del self._removed_open[run_id]
            _remember_id(self._removed, run_id, _MAX_REMOVED)
        return node

    def _remember(self, node: Node) -> None:
        """Remember a run that ended, for late ones inside it."""
        node.inputs, node.calls = None, None
        node.recording.ended.append(node.run_id)
        self._ended[node.run_id] = node
        while len(self._ended) > _MAX_ENDED:
            self._ended.popitem(last=False)

    def repair(self, run_id: UUID, node: Node | None, *, began: bool) -> None:
        """Restore the tree after an error in the callback of a run.

        Args:
            run_id: The run.
            node: Its node, or that of its parent, if either is known.
            began: The run began; otherwise it ended.
        """
        if began:
            if node is None:
                _remember_id(self._removed_open, run_id, _MAX_REMOVED_OPEN)  # its children are not new roots
            elif self.find(run_id) is None:
                self.begin(run_id, self.find_any(node.run_id), None, root=node.recording)
            return
        self.end(run_id)
        if node is not None and node.run_id == run_id and node.parent is None and node.recording.builder.is_open:
            node.recording.builder.ended(at=now())

    # Recordings

    def recording_of_root(
        self,
        run_id: UUID,
        inputs: object,
        kind: str,
        name: str | None = None,
        *,
        label: str | None,
        group: CallbackRecording | None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> CallbackRecording:
        """Return the recording of a root: that of its group, or a new one, which may turn out to resume another."""
        question = None if kind == "tool" else inputs
        if group is not None:
            group.ask(question)
            return group
        metadata = metadata or {}
        thread = _thread_of(metadata)
        earlier = list(self._threads.get(thread or "", ()))
        builder = RunBuilder(run_id=str(run_id), conversation_id=label or thread)
        recording = CallbackRecording(builder, thread, is_minor=kind in _MINOR_KINDS, graph=name)
        recording.continues = kind == "chain" and thread is not None and _states.is_resumption(inputs)
        if recording.continues:
            recording.candidates = list(filter(attrgetter("may_go_on"), reversed(earlier)))
        else:
            self.add(recording)
        if any(map(attrgetter("builder.is_open"), earlier)):
            builder.warn(f"another run of conversation {thread!r} was still open when this one began")
        recording.describe(question, tags or (), metadata)
        return recording

    def split(self, step: Node) -> None:
        """Make a graph a run of its own when its first node begins, if middleware of an agent began the graph."""
        graph = step.parent
        if graph is None or graph.has_steps:
            return
        outer = self.middleware_around(graph)
        if outer is None:
            return
        recording = CallbackRecording(RunBuilder(run_id=str(graph.run_id)), graph=graph.name, is_inner=True)
        recording.describe(graph.inputs, (), {})
        graph.parent = None
        for node in (graph, step):
            node.recording.open.discard(node.run_id)
            recording.open.add(node.run_id)
            node.recording, node.scope, node.inside = recording, None, None
        waiting = [other for other in self.inner if step.namespace in other.unfinished]
        if waiting:
            self._resume(recording, waiting[-1])
            return
        if outer.recording.assumed_ids is not None:  # the graph may have begun elsewhere, too
            recording.continues, recording.assumed_ids = True, set()
        self.inner.append(recording)
        del self.inner[: -self._limit]

    def middleware_around(self, run: Node) -> Node | None:
        """Return the node of an agent around a run that middleware began; `None` for any other run."""
        outer = next((other for other in run.around() if other.is_step), None)
        # Without a context, what a tool runs may have the node around the tool as its parent.
        is_outer = outer is not None and outer.runs_middleware and (HAS_CONTEXT or self._tool_inside(outer) is outer)
        return outer if is_outer else None

    def decide(self, node: Node, messages: Sequence[BaseMessage], loaded: Sequence[object]) -> None:
        """Decide which run a root resumes, when its first node shows the state of the graph.

        Args:
            node: The node.
            messages: The messages of the state, as far as they are known.
            loaded: The lists of messages in the state, if it could be read: it then shows what the run goes on with.
        """
        recording = node.recording
        ended, recording.candidates = recording.candidates or [], None
        matches = self._matching(node, ended, {message.id for message in messages if message.id})
        if matches:
            self._resume(recording, matches[0])
            return
        recording.assumed_ids = set()
        if not loaded:
            begins = (
                f"this run begins at an earlier state of conversation {recording.thread!r}, not where a run of it ended"
            )
            recording.builder.warn(begins if self._threads.get(recording.thread or "") else LACKS_BEGINNING)
        self.add(recording)

    def _matching(
        self, node: Node, ended: Sequence[CallbackRecording], ids: AbstractSet[str]
    ) -> Sequence[CallbackRecording]:
        """Return the runs that a node may resume, the newest first.

        Args:
            node: The first node of the root.
            ended: The runs that may be resumed.
            ids: The ids of the messages in the state of the node.
        """
        same_node = [other for other in ended if node.namespace in other.unfinished]
        if same_node:
            return same_node
        if ids:
            return [other for other in ended if other.log.is_before(ids) or other.was_changed_before(node, ids)][:1]
        # Without messages in the state, the calls to run decide, else the names of graph and node.
        tests: list[Callable[[CallbackRecording], bool]] = [
            lambda other: other.log.waits_for(node.calls or ()),
            lambda other: node.name in other.steps,
            lambda other: other.graph == node.recording.graph,
        ]
        matches = next(filter(None, (list(filter(test, ended)) for test in tests)), [])
        if len(matches) > 1:
            self._warn_of_choice(matches, node.recording.thread)
        return matches

    def resume_ended(self, recording: CallbackRecording, messages: Sequence[BaseMessage]) -> None:
        """Resume the run that waited, at the end of a root in which no node ran: new messages in its state ended it."""
        ids = {message.id for message in messages if message.id}
        candidates = recording.candidates or ()
        matches = [other for other in candidates if ids & other.log.state_ids and ids - other.log.state_ids]
        if matches:
            self._resume(recording, matches[0])

    def _warn_of_choice(self, matches: Sequence[CallbackRecording], thread: str | None) -> None:
        """Warn on each run that may be the resumed one: it may have what belongs to another."""
        for recording in matches:
            recording.builder.warn(
                f"{len(matches)} runs of conversation {thread!r} waited when it was resumed; the newest of them was "
                "continued"
            )
            recording.cached_run = None

    def resumes_nothing(self, recording: CallbackRecording) -> None:
        """Make the recording of a root one of its own: the root is not a graph."""
        if recording.candidates is not None:
            recording.candidates, recording.continues = None, False
            self.add(recording)

    def _resume(self, recording: CallbackRecording, earlier: CallbackRecording) -> None:
        """Make what was observed of a root a part of the run that it resumes."""
        for node in self._nodes.values():
            if node.recording is recording:
                node.recording = earlier
        earlier.open |= recording.open
        earlier.ended += recording.ended
        for run_id in recording.ended:
            if run_id in self._ended:
                self._ended[run_id].recording = earlier
        earlier.unfinished.clear()
        earlier.log.is_resumed = True
        earlier.builder.resumed()
        earlier.interrupted, earlier.continues, earlier.cached_run = False, True, None

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
        if recording.is_group:
            recording.answer = answer if answer is not None else recording.answer
            return
        self.end_recording(recording, answer, status=status, error=error, may_wait=may_wait)

    def end_recording(
        self,
        recording: CallbackRecording,
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
        is_ok = status is RunStatus.OK
        may_resume = recording.thread is not None and (may_wait or not is_ok or bool(recording.handovers.left))
        recording.log.clear_content(may_resume=may_resume)
        if not may_resume:
            recording.has_question, recording.inputs = True, None
        if is_ok and self._began_no_node(recording):
            return  # nothing was resumed, so there is no run to add
        self.resumes_nothing(recording)
        if recording.is_minor and not recording.run().calls:
            self.drop(recording)
        elif not recording.is_inner:
            self._finished.append(recording)

    def _began_no_node(self, recording: CallbackRecording) -> bool:
        """Return whether a root that may resume a run of a graph began no node of it."""
        earlier = self._threads.get(recording.thread or "", ())
        return recording.candidates is not None and any(other.has_graph for other in earlier)

    def take_finished(self) -> list[CallbackRecording]:
        """Return the recordings that ended since the last time."""
        finished, self._finished = self._finished, []
        return finished

    def add(self, recording: CallbackRecording) -> None:
        """Add a recording as the newest one, also of its thread."""
        self._recordings[id(recording)] = recording
        if recording.thread is not None:
            self._threads.setdefault(recording.thread, []).append(recording)

    def add_model_request(
        self, recording: CallbackRecording, message: str, tools: list[object], model: str | None
    ) -> None:
        """Note that a recording is a single model request, which may turn out to be part of an agent's run."""
        recording.request, recording.tools, recording.model = message, tools, model
        self._models[message] = recording

    def take_model_request(self, message: str | None) -> CallbackRecording | None:
        """Remove and return the recording that is the single model request of this message."""
        recording = None if message is None else self._models.get(message)
        if recording is not None:
            self.drop(recording)
        return recording

    def drop(self, recording: CallbackRecording) -> bool:
        """Remove a recording, and return whether it was there; later callbacks of its runs are ignored."""
        if not self._remove(recording):
            return False
        if recording.request is not None and self._models.get(recording.request) is recording:
            del self._models[recording.request]
        for run_id in recording.ended:
            self._ended.pop(run_id, None)
            _remember_id(self._removed, run_id, _MAX_REMOVED)
        for run_id in recording.open:
            self._nodes.pop(run_id, None)
            _remember_id(self._removed_open, run_id, _MAX_REMOVED_OPEN)
        if recording.thread is not None and recording in self._threads.get(recording.thread, ()):
            self._threads[recording.thread].remove(recording)
            if not self._threads[recording.thread]:
                del self._threads[recording.thread]
        return True


def _thread_of(metadata: Mapping[str, Any]) -> str | None:
    return next((str(metadata[key]) for key in _THREAD_KEYS if metadata.get(key)), None)


def _remember_id(ids: OrderedDict[UUID, None], run_id: UUID, limit: int) -> None:
    """Add an id, and forget the oldest beyond the limit."""
    ids[run_id] = None
    while len(ids) > limit:
        ids.popitem(last=False)
