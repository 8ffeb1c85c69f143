"""Pairing of requests with executions and results.

Ids repeat, across messages and within one message, or are missing; some frameworks use the tool's name as the id. So an
id only narrows the choice. The newest message with a matching request counts, and within it the name, the arguments and
the state of each call decide.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

from toolgrade._internal.json import JsonObject
from toolgrade.calls import CallOrigin
from toolgrade.capture.records import CallRecord


def requested_call(
    calls: Iterable[CallRecord], name: str, arguments: JsonObject | None, call_id: str | None
) -> CallRecord | None:
    """Return the request that an execution which starts now belongs to, `None` if no model requested it.

    `calls` are those of the same scope. Requests with equal arguments come first, then requests with fewer, because a
    framework may add some. Among them a request that has not run comes before one whose last attempt did not succeed.
    """
    candidates = _with_id(calls, call_id) if call_id else _with_name(calls, name)
    requests = _of_newest_message(candidates, name)
    if call_id and len(requests) == 1:  # most executions; to compare the arguments takes long
        return requests[0]
    similar = _with_arguments(requests, arguments)
    # A person may have edited the arguments, so a request that has not run matches with any.
    unchecked = requests if call_id else _without_result(requests)
    # Without an id, a second execution after a success is a call that a program makes.
    attempts = (similar or requests) if call_id else [call for call in similar if not call.has_succeeded]
    choices = _not_started(similar) or _failed(similar) or _not_started(unchecked) or attempts[-1:]
    return choices[0] if choices else None


def answered_call(
    calls: Iterable[CallRecord], content: object, call_id: str | None, name: str | None
) -> CallRecord | None:
    """Return the call that a result belongs to, `None` if there is none. `calls` are those of the same scope.

    A result without an id belongs only to a call without one. Calls without a result come first, among them one that
    returned exactly this content. A repeated result belongs to the call that has it; a different one replaces the
    result of the last call.
    """
    candidates = _with_id(calls, call_id)
    if not call_id and name is not None:
        candidates = _with_name(candidates, name)
    requests = _of_newest_message(candidates, name)
    if len(requests) < 2:  # noqa: PLR2004 - nothing to choose; to compare the contents takes long
        return requests[0] if requests else None
    unanswered = _without_result(requests)
    returned = next((call for call in unanswered if call.returned(content)), None)
    return returned or _repeated(content, requests) or (unanswered or requests[-1:])[0]


def _repeated(content: object, requests: list[CallRecord]) -> CallRecord | None:
    """Return the call that has this result already, unless an unanswered one may have it too."""
    # An unanswered call that succeeded has another output, so this result is not its own.
    if not all(call.has_succeeded for call in _without_result(requests)):
        return None
    return next((call for call in requests if call.has_result(content)), None)


def _with_id(calls: Iterable[CallRecord], call_id: str | None) -> list[CallRecord]:
    return [call for call in calls if (call.id or None) == call_id]


def _with_name(calls: Iterable[CallRecord], name: str) -> list[CallRecord]:
    return [call for call in calls if call.name == name]


def _with_arguments(calls: list[CallRecord], arguments: JsonObject | None) -> list[CallRecord]:
    """Return the requests with these arguments; if there are none, those with some of them and no others."""
    equal = [call for call in calls if call.has_arguments(arguments)]
    return equal or [call for call in calls if call.has_arguments(arguments, at_least=True)]


def _not_started(calls: list[CallRecord]) -> list[CallRecord]:
    return [call for call in calls if not call.executions]


def _failed(calls: list[CallRecord]) -> list[CallRecord]:
    return [call for call in calls if call.has_failed]


def _without_result(calls: list[CallRecord]) -> list[CallRecord]:
    return [call for call in calls if call.result is None]


class OpenCalls:
    """The calls that a result read from a file may still answer, found in constant time each.

    A message may have thousands of parallel calls. So they stand in queues by id, round and name, and a call that was
    answered meanwhile leaves its queue when it comes to the front.
    """

    def __init__(self) -> None:
        self._single: dict[str, CallRecord] = {}
        """Calls with an id that no other call has: one of them needs no queue."""
        self._by_id: dict[str, _Rounds] = {}
        self._all: _Rounds = {}
        self._not_in_all: list[CallRecord] = []
        """Calls that are not in `_all` yet: it is needed only where a result has no id."""

    def add(self, call: CallRecord) -> None:
        """Add a call; calls are added in their order."""
        call_id = call.id or ""
        if call_id and call_id not in self._single and call_id not in self._by_id:
            self._single[call_id] = call
        else:
            rounds = self._by_id.setdefault(call_id, {})
            if call_id in self._single:
                _enqueue(rounds, self._single.pop(call_id))
            _enqueue(rounds, call)
        # Nearly every result has an id, so an index for those without one would be made in vain.
        self._not_in_all.append(call)

    def remove(self, call: CallRecord) -> None:
        """Remove a call that another one replaces."""
        call_id = call.id or ""
        if self._single.get(call_id) is call:
            del self._single[call_id]
        for rounds in (self._by_id.get(call_id, {}), self._all_calls()):
            queue = rounds.get(call.round, {}).get(call.name)
            if queue is not None and call in queue:
                queue.remove(call)

    def of_result(self, call_id: str | None, name: str | None) -> CallRecord | None:
        """Return the call that a result belongs to, `None` if there is none.

        A call of the same id comes first, then one without an id, or any if the result has none, but none of another
        name. Among several, calls of the newest round count, in it one of the same name first, then their order.
        """
        call = self._single.get(call_id or "")
        if call is not None and not call.is_answered:
            return call
        call = _newest_open(self._by_id.get(call_id, {}), name) if call_id else None
        if call is None:
            call = _newest_open(self._by_id.get("", {}), name, other_names=name is None)
        if call is None and not call_id:
            call = _newest_open(self._all_calls(), name, other_names=name is None)
        return call

    def _all_calls(self) -> _Rounds:
        for call in self._not_in_all:
            _enqueue(self._all, call)
        self._not_in_all.clear()
        return self._all


_Rounds: TypeAlias = dict[int, dict[str, "deque[CallRecord]"]]
"""Queues of calls by round and name."""


def _enqueue(rounds: _Rounds, call: CallRecord) -> None:
    rounds.setdefault(call.round, {}).setdefault(call.name, deque()).append(call)


def _newest_open(rounds: _Rounds, name: str | None, *, other_names: bool = True) -> CallRecord | None:
    """Return the first open call of the newest round that has one: of this name, or else (`other_names`) of any."""
    # Ids and names repeat from round to round, and a result follows the request that it answers.
    for number in sorted(rounds, reverse=True):
        queues = rounds[number]
        _drop_answered(queues)
        if not queues:
            del rounds[number]
        elif name is not None and name in queues:
            return queues[name][0]
        elif other_names:
            return min((queue[0] for queue in queues.values()), key=lambda call: call.order)
    return None


def _drop_answered(queues: dict[str, deque[CallRecord]]) -> None:
    """Remove the answered calls at the front of each queue, and the queues that are then empty."""
    for name, queue in list(queues.items()):
        while queue and queue[0].is_answered:
            queue.popleft()
        if not queue:
            del queues[name]


def newest_with_id(calls: Iterable[CallRecord], call_id: str | None) -> CallRecord | None:
    """Return the newest call of this id, `None` if there is none."""
    return max((call for call in calls if call.id == call_id), key=lambda call: call.order, default=None)


def calls_within(scope: CallRecord) -> list[CallRecord]:
    """Return the calls of a scope, and those that programs among them made, which are answered in the same scope."""
    calls = list(scope.children)
    for call in scope.children:
        calls += [inner for inner in calls_within(call) if inner.caller is not None]
    return calls


def is_within(call: CallRecord, scope: CallRecord) -> bool:
    """Return whether `calls_within` of a scope has this call."""
    if call.scope is scope:
        return True
    outer = call.scope
    while outer is not None and outer is not scope:
        outer = outer.scope
    return outer is scope and call.caller is not None


def _of_newest_message(calls: Iterable[CallRecord], name: str | None) -> list[CallRecord]:
    """Return the requests among `calls` in the newest message; only those of this name, if there are any."""
    requests = [call for call in calls if call.origin is CallOrigin.MODEL]
    if len(requests) < 2:  # noqa: PLR2004 - nothing to choose
        return requests
    if name is not None:
        requests = _with_name(requests, name) or requests
    # Frameworks that number calls anew in each message repeat ids; what happens now belongs to the newest.
    return in_newest_message(requests)


def in_newest_message(calls: list[CallRecord]) -> list[CallRecord]:
    """Return those of these calls that the newest message among theirs requested."""
    newest = max((call.order[0] for call in calls), default=None)
    return [call for call in calls if call.order[0] == newest]
