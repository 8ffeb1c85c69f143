"""Which request an execution answers, and which call a shown result belongs to.

Ids repeat, across messages and in one message, or are missing; some frameworks use the tool's name. So an id only
narrows the choice: the newest message that fits counts, and within it the name, the arguments and what already
happened tell the calls apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from toolmark.calls import CallOrigin
from toolmark.capture.records import Key, Observed, Outcome
from toolmark.matching.json_compare import json_equal


def requested_call(
    calls: Iterable[Observed], name: str, arguments: dict[str, Any] | None, call_id: str | None
) -> Observed | None:
    """Return the request that a beginning execution belongs to, or None if nobody asked for it.

    Requests with equal arguments come first (a request with fewer next, since a framework may have added some): one
    that has not run yet, else one whose last attempt did not succeed. Next is one that has not run yet, whatever its
    arguments, since they may have been edited. When all have run, an id still tells that this is another attempt.

    Args:
        calls: The calls of the same scope.
        name: Name of the tool.
        arguments: What the tool was handed, if that can be seen.
        call_id: The id it was handed, if that can be seen.
    """
    asked = _newest(calls, name, lambda call: call.id == call_id if call_id else call.name == name)
    alike = [call for call in asked if call.asked_with(arguments)]
    alike = alike or [call for call in asked if call.asked_with(arguments, at_least=True)]
    due = [call for call in alike if not call.executions] or [call for call in alike if _failed(call)]
    if due:
        return due[0]
    unserved = [call for call in asked if not call.executions and (call_id or call.shown is None)]
    if unserved:
        return unserved[0]
    if call_id:
        return (alike or asked)[-1] if asked else None
    # Without an id a second execution is a retry only of what did not succeed; else a program called the tool.
    again = [call for call in alike if call.last is not None and call.last.outcome is not Outcome.OK]
    return again[-1] if again else None


def answered_call(calls: Iterable[Observed], content: object, call_id: str | None, name: str | None) -> Observed | None:
    """Return the call that a result shown to the model belongs to, or None if there is none.

    Of several, it is the first that has no result yet, one that returned just this first. A result that is seen again
    belongs to the call that has it; a different one replaces that of the last call.

    Args:
        calls: The calls of the same scope.
        content: What was shown.
        call_id: The id it names; without one, only calls without an id can be meant.
        name: The tool it names.
    """
    asked = _newest(
        calls, name, lambda call: call.id == call_id if call_id else not call.id and name in (None, call.name)
    )
    if not asked:
        return None
    unanswered = [call for call in asked if call.shown is None]
    returned = [call for call in unanswered if call.returned(content)]
    if returned:
        return returned[0]
    seen = [call for call in asked if call.shown is not None and json_equal(call.shown.content, content)]
    if seen and all(call.last is not None and call.last.outcome is Outcome.OK for call in unanswered):
        return seen[0]
    return unanswered[0] if unanswered else asked[-1]


def open_call(calls: Iterable[Observed], call_id: str | None, name: str | None) -> Observed | None:
    """Return the call that a result belongs to that was read in its place, or None if there is none.

    Only calls without a result are open. One of the same id comes first; else one without an id, or any where the
    result has none, but none of another name. Of several, the newest round counts, one of the same name in it first,
    and within it the order.

    Args:
        calls: The calls of the same scope that stand before it.
        call_id: The id it names.
        name: The tool it names.
    """
    waiting = [call for call in calls if call.origin is CallOrigin.MODEL and call.shown is None and not call.executions]
    found = [call for call in waiting if call_id and call.id == call_id]
    if not found:
        unnamed = [call for call in waiting if name in (None, call.name)]
        found = [call for call in unnamed if not call.id] or ([] if call_id else unnamed)
    newest = max((call.round for call in found), default=0)
    found = [call for call in found if call.round == newest]
    return next((call for call in found if call.name == name), found[0] if found else None)


def newest_with_id(calls: Iterable[Observed], call_id: str | None) -> Observed | None:
    """Return the newest call of this id, or None if there is none."""
    return max((call for call in calls if call.id == call_id), key=lambda call: call.order, default=None)


def within(scope: Observed) -> list[Observed]:
    """Return the calls of a scope, with those made inside them by a program, which run and are answered beside them."""
    found = list(scope.children)
    for call in scope.children:
        found += [inner for inner in within(call) if inner.caller is not None]
    return found


def of_strand(calls: Iterable[Observed], strand: Key | None) -> list[Observed]:
    """Return the calls of one of several agents that run at the same time: their ids are ids of their own."""
    return [call for call in calls if call.strand == strand]


def _newest(calls: Iterable[Observed], name: str | None, fits: Callable[[Observed], bool]) -> list[Observed]:
    """Return the requests that fit, of the newest message that has one; those of this name, if any are."""
    asked = [call for call in calls if call.origin is CallOrigin.MODEL and fits(call)]
    asked = [call for call in asked if call.name == name] or asked
    newest = max((call.order[0] for call in asked), default=None)
    return [call for call in asked if call.order[0] == newest]


def _failed(call: Observed) -> bool:
    last = call.last
    return last is not None and last.outcome not in (None, Outcome.OK)
