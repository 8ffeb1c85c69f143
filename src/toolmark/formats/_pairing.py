"""Which answer belongs to which call.

By id first, first come first served where an id stands more than once; then what is left, in order, by name where a
name is given. An answer never belongs to a call that comes after it, nor to one with another id.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from toolmark.calls import ToolCallType
    from toolmark.formats._reading import Notes


@dataclass(eq=False)
class Answer:
    """One message that answers a call."""

    path: str
    message: int
    """Position of the message."""
    id: str | None
    name: str | None
    content: object
    """What the tool message holds; `None` where it holds nothing."""
    legacy: bool = False
    """It has role `function`, of the time before ids."""


@dataclass(eq=False)
class Asked:
    """One call as the model asked for it."""

    path: str
    message: int
    step: int
    id: str | None
    name: str
    type: ToolCallType
    arguments: object
    legacy: bool = False
    """It is a `function_call`, of the time before ids."""
    answer: Answer | None = None


def pair(calls: Sequence[Asked], answers: Sequence[Answer], notes: Notes) -> None:
    """Give each call its answer, and note every pairing that had to be guessed and every answer without a call."""
    left = _pair_by_id(calls, answers)
    orphans = _pair_in_order([call for call in calls if call.answer is None], left)
    _note_ids(calls, answers, notes)
    for call in calls:
        answer = call.answer
        if answer is not None and answer.name is not None and answer.name != call.name:
            notes.warn(answer.path, f"has the id of the call of {call.name!r} but the name {answer.name!r}; the id won")
    for answer in orphans:
        told = [f"{key} {value!r}" for key, value in (("id", answer.id), ("name", answer.name)) if value is not None]
        which = f" ({', '.join(told)})" if told else ""
        notes.warn(answer.path, f"answers no open call before it{which}; it was left out")


def _pair_by_id(calls: Sequence[Asked], answers: Sequence[Answer]) -> list[Answer]:
    open_calls: dict[str, deque[Asked]] = {}
    for call in calls:
        if call.id is not None:
            open_calls.setdefault(call.id, deque()).append(call)
    left: list[Answer] = []
    for answer in answers:
        queue = open_calls.get(answer.id) if answer.id is not None else None
        if not queue or queue[0].message >= answer.message:
            left.append(answer)
            continue
        index = _first(queue, answer, _same_name) or 0
        queue[index].answer = answer
        del queue[index]
    return left


def _pair_in_order(open_calls: list[Asked], answers: Iterable[Answer]) -> list[Answer]:
    orphans: list[Answer] = []
    for answer in answers:
        index = _first(open_calls, answer, _same_kind)
        if index is None:
            index = _first(open_calls, answer, _no_contradiction)
        if index is None:
            orphans.append(answer)
        else:
            open_calls.pop(index).answer = answer
    return orphans


def _same_name(call: Asked, answer: Answer) -> bool:
    return answer.name in (None, call.name)


def _no_contradiction(call: Asked, answer: Answer) -> bool:
    return (answer.id is None or call.id is None) and _same_name(call, answer)


def _same_kind(call: Asked, answer: Answer) -> bool:
    """Prefer a call that could not be answered by id, and old answers for old calls."""
    return call.id is None and call.legacy == answer.legacy and _same_name(call, answer)


def _first(calls: Iterable[Asked], answer: Answer, fits: Callable[[Asked, Answer], bool]) -> int | None:
    """Return the position of the first call before the answer that fits."""
    for index, call in enumerate(calls):
        if call.message >= answer.message:
            return None
        if fits(call, answer):
            return index
    return None


def _note_ids(calls: Sequence[Asked], answers: Sequence[Answer], notes: Notes) -> None:
    by_order = "answers were paired with calls by name, where given, and order"
    notes.warn_once(
        [call.path for call in calls if call.id is None and not call.legacy], f"the call has no id; {by_order}"
    )
    notes.warn_once(
        [answer.path for answer in answers if answer.id is None and not answer.legacy],
        f"the tool message has no tool_call_id; {by_order}",
    )
    notes.warn_once(
        [call.path for call in calls if call.legacy],
        "'function_call' is the form from before ids; answers were paired with calls by name and order",
    )
    paths: dict[str, list[str]] = {}
    for call in calls:
        if call.id is not None:
            paths.setdefault(call.id, []).append(call.path)
    for name, places in paths.items():
        if len(places) > 1:
            notes.warn(places[1], f"id {name!r} was given to {len(places)} calls; answers with it were paired in order")
