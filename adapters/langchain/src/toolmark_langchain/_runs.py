"""Which recording does a callback belong to? The tree of LangChain's runs, by their ids, and what became of each root.

A callback names its run and its parent; nothing else is trusted: no context, no order. A run whose parent this recorder
never saw is a root, and a root is a recording, except where it goes on with an interrupted one. Runs that end leave the
tree; those that never do (a cancelled tool, a late thread) stay until their recording is taken out, and are then
remembered by id alone, so that what still comes of them does not look like a new root.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage

from toolmark.capture import Run, RunBuilder

_GONE: Final = 10_000
"""How many runs are remembered after their recording was taken out."""


@dataclass(slots=True, eq=False)
class Recording:
    """One run of an agent as far as it was seen, over as many roots as it took.

    Attributes:
        builder: What was observed.
        conversation: The conversation it belongs to.
        thread: LangGraph's thread, in which it may be resumed.
        open: The callback runs of it that did not end.
        known: Ids of the messages that were noted.
        held: The messages that were noted before they had an id; kept so that they are known by identity.
        watched: For each scope, the ids and names of the calls of its newest watched message.
        declared: Arguments that each offered tool declares.
        asks: It has a question.
        graph: A LangGraph node ran in it.
        interrupted: Control flow suspended it.
        structured: Its structured output was found.
        minor: Its root is a prompt, a parser or a retriever: worth keeping only if something was called.
        grouped: Its end is announced from outside.
        answer: The last answer of a root of a group.
        guessed: Of a run that goes on with one that is not here: ids of the calls that its nodes were given to execute,
            and which some model message must have asked for; `None` for any other run.
        built: The run, unless something was seen since.
        message: Id of the message that its only model made, where its root is that model.
        tools: The tools that this model was offered.
        model: Its name.
    """

    builder: RunBuilder
    conversation: str | None = None
    thread: str | None = None
    open: set[UUID] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    held: dict[int, BaseMessage] = field(default_factory=dict)
    watched: dict[str | None, list[tuple[str | None, str]]] = field(default_factory=dict)
    declared: dict[str, list[str]] = field(default_factory=dict)
    asks: bool = False
    graph: bool = False
    interrupted: bool = False
    structured: bool = False
    minor: bool = False
    grouped: bool = False
    answer: str | None = None
    guessed: set[str] | None = None
    built: Run | None = None
    message: str | None = None
    tools: list[object] = field(default_factory=list)
    model: str | None = None

    def first_sight(self, message: BaseMessage) -> bool:
        """Return whether a message was not noted before, and note it."""
        seen = id(message) in self.held
        if message.id:
            key = f"{message.type}:{message.id}"
            seen = seen or key in self.known
            self.known.add(key)
        elif not seen:
            self.held[id(message)] = message
        return not seen

    def watch(self, message: AIMessage, scope: str | None) -> None:
        """Remember the calls of a message that was seen as it was made."""
        self.first_sight(message)
        self.watched[scope] = _calls(message)

    def was_noted(self, message: AIMessage, scope: str | None) -> bool:
        """Return whether a message asks for the calls of the newest one seen as it was made, or for guessed ones."""
        calls = _calls(message)
        if not calls:
            return False
        return calls == self.watched.get(scope) or {call_id for call_id, _ in calls} <= (self.guessed or set())

    def run(self) -> Run:
        """Return the run as far as it was seen."""
        if self.built is None:
            self.built = self.builder.build()
        return self.built


def _calls(message: AIMessage) -> list[tuple[str | None, str]]:
    return [(call.get("id"), call["name"]) for call in message.tool_calls]


@dataclass(slots=True, eq=False)
class Node:
    """A callback run that did not end.

    Attributes:
        scope: The tool run that encloses it, `None` at the top level.
        inside: The scope of what happens inside it.
        step: It is a node of a graph.
        calls: The calls that it was given to execute and that have not started.
        hidden: What it asks for is structured output.
        model: Name of the model.
        tools: The tools that it was offered.
        ghost: A stand-in that an agent executor runs for a tool that does not exist; the name that was asked for.
    """

    run_id: UUID
    parent: Node | None
    recording: Recording
    scope: str | None
    inside: str | None
    name: str | None
    step: bool = False
    calls: list[Mapping[str, Any]] | None = None
    hidden: bool = False
    model: str | None = None
    tools: list[object] = field(default_factory=list)
    ghost: str | None = None
    call_id: str | None = None


class Runs:
    """The callback runs that are open, and the recordings that are kept."""

    def __init__(self, recordings: dict[int, Recording]) -> None:
        """Begin with none.

        Args:
            recordings: The recordings that are kept; added to and taken from here.
        """
        self._recordings = recordings
        self._nodes: dict[UUID, Node] = {}
        self._threads: dict[str, Recording] = {}
        self._models: dict[str, Recording] = {}
        self._gone: OrderedDict[UUID, None] = OrderedDict()

    def find(self, run_id: UUID | None) -> Node | None:
        """Return an open run."""
        return None if run_id is None else self._nodes.get(run_id)

    def is_gone(self, run_id: UUID | None) -> bool:
        """Return whether a run belongs to a recording that was taken out."""
        return run_id in self._gone

    def forget(self, run_id: UUID) -> None:
        """Remember a run of a recording that was taken out, by its id alone."""
        self._gone[run_id] = None
        while len(self._gone) > _GONE:
            self._gone.popitem(last=False)

    def begin(self, run_id: UUID, parent: Node | None, recording: Recording, name: str | None, *, tool: bool) -> Node:
        """Add a run."""
        scope = None if parent is None else parent.inside
        node = Node(run_id, parent, recording, scope, str(run_id) if tool else scope, name)
        self._nodes[run_id] = node
        recording.open.add(run_id)
        return node

    def end(self, run_id: UUID) -> Node | None:
        """Take out a run that ended, and return it."""
        node = self._nodes.pop(run_id, None)
        if node is not None:
            node.recording.open.discard(run_id)
        return node

    # Recordings

    def add(self, recording: Recording) -> None:
        """Keep a recording; it is now the newest of its thread."""
        self._recordings[id(recording)] = recording
        if recording.thread is not None:
            self._threads[recording.thread] = recording

    def newest_of(self, thread: str | None) -> Recording | None:
        """Return the newest recording of a thread."""
        return None if thread is None else self._threads.get(thread)

    def model_root(self, recording: Recording, message: str, tools: list[object], model: str | None) -> None:
        """Note that a recording is one request to a model, which may turn out to be part of an agent's run."""
        recording.message, recording.tools, recording.model = message, tools, model
        self._models[message] = recording

    def take_model_root(self, message: str | None) -> Recording | None:
        """Take out the recording that is but the request that made this message."""
        found = None if message is None else self._models.get(message)
        if found is not None:
            self.drop(found)
        return found

    def drop(self, recording: Recording) -> bool:
        """Take out a recording, and return whether it was there; what still comes of it is not heard."""
        if self._recordings.pop(id(recording), None) is None:
            return False
        if recording.message is not None and self._models.get(recording.message) is recording:
            del self._models[recording.message]
        for run_id in recording.open:
            self._nodes.pop(run_id, None)
            self.forget(run_id)
        if recording.thread is not None and self._threads.get(recording.thread) is recording:
            del self._threads[recording.thread]
        return True
