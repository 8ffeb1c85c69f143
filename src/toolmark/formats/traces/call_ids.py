"""By which ids do the requests and answers of a history name each other? Also where a tracer keeps others.

Some tracers keep the ids of output items in the place of a call's id; some make up an id where an answer has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toolmark.capture import Request
from toolmark.formats.traces.trace_messages import Said

_ITEM_IDS = ("fc_", "ctc_")
"""How ids of OpenAI's output items begin. Some tracers keep them in the place of a call's id, which no answer names."""


def call_id_of(request: Request) -> str | None:
    """Return the id of a call by which answers name it; `None` also where the tracer kept another in its place."""
    return None if request.id is None or request.id.startswith(_ITEM_IDS) else request.id


def with_common_ids(history: Sequence[Said]) -> Sequence[Said]:
    """Return a history in which requests and their answers have the same ids, as far as that can be told."""
    return _with_ids_of_requests(_with_ids_of_answers(history))


def _with_ids_of_answers(history: Sequence[Said]) -> Sequence[Said]:
    """Return a history in which requests that have the ids of items have those that the answers after them name."""
    asked = {request.id: call_id_of(request) for said in history for request in said.requests if request.id is not None}
    if None not in asked.values():
        return history
    waiting: list[str] = []
    named: dict[str | None, str] = {}
    for said in history:
        waiting += [request.id for request in said.requests if request.id is not None and asked[request.id] is None]
        answered = None if said.answer is None else said.answer.call_id
        if waiting and answered is not None and answered not in asked:
            named[waiting.pop(0)] = answered
    return [
        replace(said, requests=tuple(replace(one, id=named.get(one.id, one.id)) for one in said.requests))
        for said in history
    ]


def _with_ids_of_requests(history: Sequence[Said]) -> Sequence[Said]:
    """Return a history in which answers with ids that no request has get those of the requests before them, in order.

    Some tracers make up an id where the answer has none. As many such answers as requests that wait are a pair each.
    """
    asked = {request.id for said in history for request in said.requests}
    answered = {said.answer.call_id for said in history if said.answer is not None}
    if answered <= asked | {None}:
        return history
    told = list(history)
    waiting: list[str | None] = []
    strange: list[int] = []
    for index, said in enumerate([*history, Said("model", "")]):
        if said.who == "model":
            if len(waiting) == len(strange) and None not in waiting:
                for place, call_id in zip(strange, waiting, strict=True):
                    told[place] = _renamed(told[place], call_id)
            waiting, strange = [request.id for request in said.requests if request.id not in answered], []
        elif said.answer is not None and said.answer.call_id not in asked | {None}:
            strange.append(index)
    return told


def _renamed(said: Said, call_id: str | None) -> Said:
    return said if said.answer is None else replace(said, answer=replace(said.answer, call_id=call_id))
