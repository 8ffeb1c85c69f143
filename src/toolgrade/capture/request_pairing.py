"""Pairing of requests with executions and results.

Ids repeat, across messages and within one message, or are missing; some frameworks use the tool's name as the id. So an
id only narrows the choice. The newest message with a matching request counts, and within it the name, the arguments and
the state of each call decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from toolgrade._internal.json import JsonObject
from toolgrade.calls import CallOrigin
from toolgrade.capture.records import CallRecord


def requested_call(
    calls: Iterable[CallRecord], name: str, arguments: JsonObject | None, call_id: str | None, *, is_named: bool = False
) -> CallRecord | None:
    """Return the request that an execution which starts now belongs to, `None` if no model requested it.

    `calls` are those of the same scope, or those that the recorder named (`is_named`), the nearest first. Requests with
    equal arguments come first, then requests with fewer, because a framework may add some. Among them a request that
    has not run comes before one whose last attempt did not succeed.
    """
    candidates = _with_id(calls, call_id) if call_id else _with_name(calls, name)
    requests = (_with_name(candidates, name) or candidates) if is_named else _of_newest_message(candidates, name)
    if call_id and len(requests) == 1:  # most executions; to compare the arguments takes long
        return requests[0]
    return _best(requests, _with_arguments(requests, arguments), has_id=bool(call_id))


def _best(requests: list[CallRecord], similar: list[CallRecord], *, has_id: bool) -> CallRecord | None:
    """Return the request that an execution carries out; `similar` are those with its arguments."""
    # A person may have edited the arguments, so a request that has not run matches with any.
    unchecked = requests if has_id else _without_result(requests)
    # Without an id, a second execution after a success is a call that a program makes.
    attempts = (similar or requests) if has_id else [call for call in similar if not call.has_succeeded]
    choices = _not_started(similar) or _failed(similar) or _not_started(unchecked) or in_newest_message(attempts)[-1:]
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


def answering_scopes(call: CallRecord) -> Iterator[CallRecord]:
    """Yield the scopes whose `calls_within` have this call: its own, and those around it if a program made it."""
    scope = call.scope
    while scope is not None:
        yield scope
        scope = scope.scope if call.caller is not None else None


def newest_requests(calls: Sequence[CallRecord], is_candidate: Callable[[CallRecord], bool]) -> list[CallRecord]:
    """Return the candidates of the newest message that has one; `calls` are in the order of their messages."""
    newest: list[CallRecord] = []
    for call in reversed(calls):
        if newest and call.order[0] < newest[0].order[0]:
            break
        # A message that goes on has calls after those of newer messages in other branches.
        if is_candidate(call) and (not newest or call.order[0] == newest[0].order[0]):
            newest.append(call)
    return newest[::-1]


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
