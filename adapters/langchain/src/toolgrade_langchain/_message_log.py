"""The model messages of one run: which are new, which are copies or history, and which one requested a call.

Ids do not decide alone. Call ids repeat, in later messages, in parallel branches and in sub-agents; a message may come
without an id, be converted, or be replaced under another id.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from toolgrade.capture import Branch, Request, json_equal

_MODEL_IDS: Final = ("lc_run-", "run-")
"""How the ids begin that LangChain itself gives to the messages of models."""

_ENCODER: Final = json.JSONEncoder(sort_keys=True, default=repr)

_Value: TypeAlias = "tuple[object, ...]"


class RequestedCall(NamedTuple):
    """One call in a model message."""

    id: str | None
    name: str
    arguments: object


@dataclass(slots=True, eq=False)
class ModelMessage:
    """A message in which a model requested calls, or answered.

    Attributes:
        requests: The handles of its calls in the builder of the run.
        scope: The tool run that encloses it.
        strand: The nested graph that it belongs to.
        calls: The requested calls.
        around: The numbers of the callback runs that enclose it, up to its scope.
        running: Indexes of the calls that run or returned; a failed one may run again.
        answered: Indexes of the calls that have a result.
        suspended: By index, the scope inside of an interrupted tool run; the next run of the call continues it.
    """

    requests: list[Request]
    scope: str | None
    strand: str | None
    calls: list[RequestedCall]
    around: frozenset[int]
    running: set[int] = field(default_factory=set)
    answered: set[int] = field(default_factory=set)
    suspended: dict[int, str] = field(default_factory=dict)

    @property
    def branch(self) -> Branch:
        """Where the model ran."""
        return Branch(self.scope, self.strand)

    def index_of_result(self, call_id: str | None) -> int | None:
        """Return the index of the call that a result with this id answers."""
        indexes = [index for index, call in enumerate(self.calls) if call.id == call_id]
        unanswered = [index for index in indexes if index not in self.answered]
        return next(iter(unanswered or indexes), None)

    def is_untouched(self) -> bool:
        """Return whether no call was executed or answered."""
        return not self.running and not self.answered


class MessageLog:
    """The messages of one run, in the order in which they were observed."""

    def __init__(self) -> None:
        """Begin without messages."""
        self.messages: dict[str | None, list[ModelMessage]] = {}
        """The model messages of each scope."""
        self.state_ids: set[str] = set()
        """Ids of the messages in the state of the graph."""
        self.is_resumed = False
        """The run went on in another root, so what encloses equal messages of one graph differs."""
        self.newest_in_state: ModelMessage | None = None
        """The newest model message at the top level that is part of the state."""
        self._by_id: dict[str, list[ModelMessage | None]] = {}
        self._by_object: dict[int, tuple[BaseMessage, ModelMessage | None]] = {}
        self._by_value: dict[_Value, list[ModelMessage]] = {}
        self._history: Counter[_Value] = Counter()

    # Messages

    def add(
        self, message: AIMessage | None, calls: Sequence[RequestedCall], requests: list[Request], place: Place
    ) -> ModelMessage:
        """Add a new model message, and return its entry."""
        entry = ModelMessage(requests, place.scope, place.strand, list(calls), place.around)
        self.messages.setdefault(place.scope, []).append(entry)
        if message is not None:
            self._by_value.setdefault(_value(message), []).append(entry)
            self.connect(message, entry)
        return entry

    def connect(self, message: BaseMessage, entry: ModelMessage | None) -> None:
        """Note that a message is the one of this entry; `None` for one without an entry."""
        self._by_object[id(message)] = message, entry
        if message.id:
            entries = self._by_id.setdefault(f"{message.type}:{message.id}", [])
            if entry not in entries:
                entries.append(entry)

    def add_history(self, messages: Iterable[BaseMessage]) -> None:
        """Note messages that were there before; those that are already noted stay what they are."""
        earlier: Counter[_Value] = Counter()
        for message in messages:
            value = _value(message)
            earlier[value] += 1
            if self.has(message) or earlier[value] <= len(self._by_value.get(value, ())):
                continue
            self.connect(message, None)
            self._history[value] += 1

    def has(self, message: BaseMessage) -> bool:
        """Return whether this message, by its id or as an object, is noted."""
        return id(message) in self._by_object or f"{message.type}:{message.id}" in self._by_id

    def has_objects(self, messages: Iterable[BaseMessage]) -> bool:
        """Return whether all of these messages are noted, as the very objects."""
        return all(id(message) in self._by_object for message in messages)

    def is_history(self, message: BaseMessage) -> bool:
        """Return whether a message was there before the run, and connect it if so."""
        if self.has(message):
            entries = self._by_id.get(f"{message.type}:{message.id}")
            return (entries or [self._by_object.get(id(message), (message, None))[1]]) == [None]
        value = _value(message)
        if self._history[value] <= 0 or str(message.id or "").startswith(_MODEL_IDS):
            return False
        self._history[value] -= 1
        self.connect(message, None)
        return True

    def entry_of(self, message: BaseMessage, place: Place) -> ModelMessage | None:
        """Return the entry of a noted message; of several with one id, that nearest to a place."""
        if id(message) in self._by_object:
            return self._by_object[id(message)][1]
        entries = [entry for entry in self._by_id.get(f"{message.type}:{message.id}", ()) if entry is not None]
        if not entries and not message.id:
            entries = self._by_value.get(_value(message), [])
        near = [entry for entry in entries if entry.scope == place.scope]
        return max(
            near, key=lambda entry: (entry.strand == place.strand, len(entry.around & place.around)), default=None
        )

    def original_of(
        self, message: AIMessage, place: Place, *, earlier: int, is_newest: bool, removed: Sequence[BaseMessage]
    ) -> ModelMessage | None:
        """Return the entry that a message without one copies or replaces, `None` if the message is new.

        Args:
            message: The message.
            place: Where it was returned.
            earlier: How many messages equal to it come before it in the same list.
            is_newest: It is the last model message of the list.
            removed: Requests to remove messages that came with it.
        """
        calls = calls_of(message)
        entries = [entry for entry in self._by_value.get(_value(message), ()) if entry.scope == place.scope]
        is_of_model = str(message.id or "").startswith(_MODEL_IDS)
        if earlier < len(entries) and not is_of_model:
            # A message without an id that a node of the same graph returns as its newest is a new request, although
            # equal to an earlier one or to that of a parallel branch, unless the messages are written anew.
            entry = entries[earlier]
            is_near = self.is_resumed or entry.around & place.around
            is_new = calls and is_newest and not message.id and not removed and is_near
            return None if is_new else entry
        ids = {call.id for call in calls}
        if not ids or None in ids or is_of_model:
            return None
        removed_entries = [self.entry_of(AIMessage("", id=item.id), place) for item in removed]
        for entry in reversed(self.messages.get(place.scope, ())):
            if entry in removed_entries and entry.is_untouched() and ids <= {call.id for call in entry.calls}:
                return entry
        return None

    def add_state(self, messages: Iterable[BaseMessage], place: Place) -> None:
        """Note that messages are part of the state of the graph at the top level."""
        for message in messages:
            if message.id:
                self.state_ids.add(message.id)
            if isinstance(message, AIMessage):
                self.newest_in_state = self.entry_of(message, place) or self.newest_in_state

    def is_before(self, ids: AbstractSet[str]) -> bool:
        """Return whether a state with messages of these ids goes on where this run ended."""
        if not ids & self.state_ids:
            return False
        newest = self.newest_in_state
        return newest is None or any(newest in self._by_id.get(f"ai:{message_id}", ()) for message_id in ids)

    # Calls

    def waits_for(self, calls: Iterable[Mapping[str, Any]]) -> bool:
        """Return whether one of these calls was requested at the top level and has neither run nor a result."""
        waiting = [
            call
            for message in self.messages.get(None, ())
            for index, call in enumerate(message.calls)
            if index not in message.running and index not in message.answered
        ]
        due = [RequestedCall(call.get("id"), call.get("name", ""), call.get("args")) for call in calls]
        return any(call in waiting for call in due)

    def request_of(
        self, messages: Sequence[ModelMessage], call_id: str | None, name: str, arguments: Mapping[str, Any]
    ) -> tuple[ModelMessage, int] | None:
        """Return the message, and the index in it, of the request that an execution which starts now belongs to.

        The newest request with equal arguments that does not run yet comes first, then the newest with equal arguments,
        then, with an id, the newest: its arguments were edited.
        """
        similar: tuple[ModelMessage, int] | None = None
        other: tuple[ModelMessage, int] | None = None
        for message in reversed(messages):
            for index, call in enumerate(message.calls):
                if (call.id != call_id) if call_id else (call.name != name):
                    continue
                if call.name == name and contains(arguments, call.arguments):
                    if index not in message.running and index not in message.answered:
                        return message, index
                    similar = similar or (message, index)
                elif call_id:
                    other = other or (message, index)
        if similar is not None and other is not None and other[0] is messages[-1] and not other[0].running:
            return other
        return similar or other

    def clear_content(self, *, may_resume: bool) -> None:
        """Forget the messages themselves, which are of no use after the end of the run, unless it may go on."""
        self._by_object.clear()
        self._history.clear()
        if not may_resume:
            self._by_value.clear()


class Place(NamedTuple):
    """Where in a run something happens: the tool run and the nested graph around it, and the runs up to the former.

    The runs are the numbers of their ids.
    """

    scope: str | None
    strand: str | None
    around: frozenset[int]


def calls_of(message: AIMessage) -> list[RequestedCall]:
    """Return the calls that a message requests."""
    calls = [RequestedCall(call.get("id") or None, call["name"], call["args"]) for call in message.tool_calls]
    calls += [
        RequestedCall(call.get("id") or None, call.get("name") or "", call.get("args"))
        for call in message.invalid_tool_calls
    ]
    return calls


def contains(arguments: Mapping[str, Any], requested: object) -> bool:
    """Return whether the arguments of a tool contain the requested ones; injected arguments come on top."""
    if not isinstance(requested, Mapping):
        return False
    try:
        return all(key in arguments and json_equal(value, arguments[key]) for key, value in requested.items())
    except TypeError:
        return False


def value_of(message: BaseMessage) -> tuple[object, ...]:
    """Return what two messages have in common that are copies of one another."""
    return _value(message)


def _value(message: BaseMessage) -> _Value:
    if isinstance(message, ToolMessage):
        return "tool", message.tool_call_id, _text(message.content)
    calls = calls_of(message) if isinstance(message, AIMessage) else []
    if calls:
        return "calls", *((call.id, call.name, _text(call.arguments)) for call in calls)
    return message.type, _text(message.content)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
