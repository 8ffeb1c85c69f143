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

from toolgrade.calls import ToolCallType
from toolgrade.capture import Branch, Request, json_equal

_MODEL_IDS: Final = ("lc_run-", "run-")
"""How the ids begin that LangChain itself gives to the messages of models."""

_REMOVE_ALL: Final = "__remove_all__"
"""The id of LangGraph's request to remove all messages."""
_RUN_BY_PROVIDER: Final = (ToolCallType.HOSTED, ToolCallType.MCP)

_ENCODER: Final = json.JSONEncoder(sort_keys=True, default=repr)

_Value: TypeAlias = "tuple[object, ...]"


@dataclass(slots=True, eq=False)
class MessageCall:
    """One call that a model message requests, and what became of it.

    Attributes:
        request: Its handle in the builder of the run.
        message: The message.
        is_running: It runs or returned; one that failed may run again.
        is_answered: It has a result.
        suspended: The scope inside of its interrupted run, which the next run of the call continues.
    """

    request: Request
    message: LoggedMessage
    is_running: bool = False
    is_answered: bool = False
    suspended: str | None = None

    def may_be(self, call_id: str | None, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether an execution may be one of it: by the id, or else by name and arguments."""
        request = self.request
        return request.id == call_id if call_id else request.name == name and contains(arguments, request.arguments)

    @property
    def is_open(self) -> bool:
        """Whether it was neither executed nor answered."""
        return not self.is_running and not self.is_answered


@dataclass(slots=True, eq=False)
class LoggedMessage:
    """A message in which a model requested calls, or answered.

    Attributes:
        requests: All that it requested, also from the provider.
        branch: Where the model ran: the tool run and the nested graph around it.
        around: The numbers of the callback runs that enclose it, up to its scope.
        calls: The calls that are not the provider's own.
    """

    requests: list[Request]
    branch: Branch
    around: frozenset[int]
    calls: list[MessageCall] = field(default_factory=list)

    def ids(self) -> set[str | None]:
        """Return the ids of the calls."""
        return {call.request.id for call in self.calls}

    def twins(self, call: MessageCall) -> list[Request]:
        """Return the requests with the id of a call, mostly its own alone."""
        return [other.request for other in self.calls if other.request.id == call.request.id]

    def answered_by(self, call_id: str | None) -> MessageCall | None:
        """Return the call that a result with this id answers: one without a result first."""
        calls = [call for call in self.calls if call.request.id == call_id]
        return next((call for call in calls if not call.is_answered), calls[0] if calls else None)


class MessageLog:
    """The messages of one run, in the order in which they were observed."""

    def __init__(self) -> None:
        """Begin without messages."""
        self.messages: dict[str | int | None, list[LoggedMessage]] = {}
        """The model messages of each scope."""
        self.state_ids: set[str] = set()
        """Ids of the messages in the state of the graph."""
        self.ids_before: set[str | None] = set()
        """Ids of the messages that were there before the run."""
        self.is_resumed = False
        """The run went on in another root, so what encloses equal messages of one graph differs."""
        self.newest_in_state: LoggedMessage | None = None
        """The newest model message at the top level that is part of the state."""
        self._by_id: dict[str, list[LoggedMessage | None]] = {}
        self._by_object: dict[int, tuple[BaseMessage, LoggedMessage | None]] = {}
        self._by_value: dict[_Value, list[LoggedMessage]] = {}
        self._history: dict[bool, Counter[_Value]] = {True: Counter(), False: Counter()}
        """The values of the messages that were there before, of those with an id and of those without one."""

    # Messages

    def add(self, message: AIMessage | None, requests: list[Request], place: Surroundings) -> LoggedMessage:
        """Add a new model message, and return its entry."""
        entry = LoggedMessage(requests, place.branch, place.around)
        entry.calls += [MessageCall(request, entry) for request in requests if request.type not in _RUN_BY_PROVIDER]
        self.messages.setdefault(place.branch.scope, []).append(entry)
        if message is not None:
            self._by_value.setdefault(value_of(message), []).append(entry)
            self.connect(message, entry)
        return entry

    def connect(self, message: BaseMessage, entry: LoggedMessage | None) -> None:
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
            value = value_of(message)
            earlier[value] += 1
            if self.has(message) or earlier[value] <= len(self._by_value.get(value, ())):
                continue
            self.connect(message, None)
            self.ids_before.add(message.id)
            self._history[bool(message.id)][value] += 1

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
        if _is_of_model(message):
            return False
        value = value_of(message)
        # A message that had an id keeps it, or comes back without one.
        has_ids = [False] if message.id else [False, True]
        history = next((self._history[has_id] for has_id in has_ids if self._history[has_id][value] > 0), None)
        if history is None:
            return False
        history[value] -= 1
        self.connect(message, None)
        return True

    def entry_of(self, message: BaseMessage, place: Surroundings) -> LoggedMessage | None:
        """Return the entry of a noted message; of several with one id, that nearest to a place."""
        if id(message) in self._by_object:
            return self._by_object[id(message)][1]
        entries = [entry for entry in self._by_id.get(f"{message.type}:{message.id}", ()) if entry is not None]
        if not entries and not message.id:
            entries = self._by_value.get(value_of(message), [])
        near = [entry for entry in entries if entry.branch.scope == place.branch.scope]
        return max(
            near, key=lambda entry: (entry.branch == place.branch, len(entry.around & place.around)), default=None
        )

    def stored_as(self, message: BaseMessage, place: Surroundings, earlier: int) -> LoggedMessage | None:
        """Return the entry of a message in a stored state, where one without an id has received one.

        Args:
            message: The message.
            place: A node of the graph.
            earlier: How many messages equal to it come before it in the state.
        """
        if not self.has(message) and not _is_of_model(message):
            entries = [one for one in self._by_value.get(value_of(message), ()) if one.branch == place.branch]
            if earlier < len(entries):
                self.connect(message, entries[earlier])
        return self.entry_of(message, place)

    def original_of(
        self,
        message: AIMessage,
        place: Surroundings,
        earlier: int,
        removed: Sequence[BaseMessage],
        inside: Sequence[LoggedMessage],
        *,
        is_newest: bool,
    ) -> LoggedMessage | None:
        """Return the entry that a message without one copies or replaces, `None` if the message is new.

        Args:
            message: The message.
            place: Where it was returned.
            earlier: How many messages equal to it come before it in the same list.
            removed: Requests to remove messages that came with it.
            inside: What models said inside the node that returned it.
            is_newest: It is the last model message of the list.
        """
        if _is_of_model(message):
            return None
        copied = self._by_value.get(value_of(message), ())
        entries = [entry for entry in copied if entry.branch.scope == place.branch.scope]
        if earlier >= len(entries):
            return self._replaced_by(message, place, removed, inside)
        # A message without an id that a node of the same graph returns as its newest is a new request, although equal
        # to an earlier one or to that of a parallel branch, unless the messages are written anew or it copies what a
        # model said inside the node.
        has_ids = any(call_id is not None for call_id, _, _ in calls_of(message))
        is_near = self.is_resumed or bool(entries[earlier].around & place.around)
        is_new = all((has_ids, is_newest, not message.id, not removed, is_near, entries[earlier] not in inside))
        return None if is_new else entries[earlier]

    def _replaced_by(
        self,
        message: AIMessage,
        place: Surroundings,
        removed: Sequence[BaseMessage],
        inside: Sequence[LoggedMessage],
    ) -> LoggedMessage | None:
        """Return the entry that a message replaces, which was removed or was said inside the node."""
        removed_entries = [self.entry_of(AIMessage("", id=item.id), place) for item in removed]
        may_be_any = any(item.id == _REMOVE_ALL for item in removed)
        entries = list(reversed(self.messages.get(place.branch.scope, ())))
        replaced = [entry for entry in entries if may_be_any or entry in inside or entry in removed_entries]
        return next((entry for entry in replaced if _is_replaced(entry, message)), None)

    def add_state(self, messages: Iterable[BaseMessage], place: Surroundings) -> None:
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

    def ids_in(self, branch: Branch) -> set[str | None]:
        """Return the ids of the calls that were requested in a branch."""
        messages = (message for message in self.messages.get(branch.scope, ()) if message.branch == branch)
        return {call_id for message in messages for call_id in message.ids()}

    def waits_for(self, calls: Iterable[Mapping[str, Any]]) -> bool:
        """Return whether one of these calls was requested at the top level and has neither run nor a result."""
        messages = self.messages.get(None, ())
        waiting = [call.request for message in messages for call in message.calls if call.is_open]
        keys = [(request.id, request.name, request.arguments) for request in waiting]
        return any((call.get("id"), call.get("name", ""), call.get("args")) in keys for call in calls)

    def clear_content(self, *, may_resume: bool) -> None:
        """Forget the messages themselves, which are of no use after the end of the run, unless it may go on."""
        self._by_object.clear()
        for history in self._history.values():
            history.clear()
        if not may_resume:
            self._by_value.clear()
            self.ids_before.clear()


def _is_of_model(message: BaseMessage) -> bool:
    """Return whether a message has an id of LangChain's own, which its model gave it."""
    return str(message.id).startswith(_MODEL_IDS)


def _is_replaced(entry: LoggedMessage, message: AIMessage) -> bool:
    """Return whether a message has the ids or the names of the calls of an entry, none of which ran or was answered."""
    calls = calls_of(message)
    ids, names = {call_id for call_id, _, _ in calls if call_id is not None}, [name for _, name, _ in calls]
    is_like = ids & entry.ids() or (names and names == [call.request.name for call in entry.calls])
    return bool(is_like) and all(call.is_open for call in entry.calls)


class Repetitions:
    """How often equal messages stand in a list; their values, which take long to make, are made when asked for."""

    def __init__(self) -> None:
        """Begin without messages."""
        self._counts: Counter[_Value] = Counter()
        self._uncounted: list[AIMessage] = []

    def add(self, message: AIMessage) -> None:
        """Add the next message of the list."""
        self._uncounted.append(message)

    def before(self, message: AIMessage) -> int:
        """Return how many of the messages so far are equal to this one."""
        self._counts.update(map(value_of, self._uncounted))
        self._uncounted.clear()
        return self._counts[value_of(message)]


class Surroundings(NamedTuple):
    """Where in a run something happens: the branch, and the numbers of the callback runs up to its scope."""

    branch: Branch
    around: frozenset[int]


def calls_of(message: AIMessage) -> list[tuple[str | None, str, object]]:
    """Return the id, name and arguments of each call that a message requests."""
    calls: list[Any] = [*message.tool_calls, *message.invalid_tool_calls]
    return [(call.get("id") or None, call.get("name") or "", call.get("args")) for call in calls]


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
    if isinstance(message, ToolMessage):
        return "tool", message.tool_call_id, _text(message.content)
    calls = calls_of(message) if isinstance(message, AIMessage) else []
    if calls:
        return "calls", *((call_id, name, _text(arguments)) for call_id, name, arguments in calls)
    return message.type, _text(message.content)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
