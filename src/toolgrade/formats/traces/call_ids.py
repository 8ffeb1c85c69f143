"""Ids of calls, and the repair of histories whose requests and answers name the same call by different ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from toolgrade.capture import Request
from toolgrade.formats.messages.message import Answer
from toolgrade.formats.traces.messages import TraceMessage, answers_in, requests_in

_ITEM_PREFIXES = ("fc_", "ctc_")
"""Prefixes of the ids of output items of OpenAI's Responses API. No answer refers to an item."""


def call_id_of(request: Request) -> str | None:
    """Return the id by which answers refer to a call; `None` where the tracer kept the id of an item."""
    return None if _is_item_id(request.id) else request.id


def _is_item_id(request_id: str | None) -> bool:
    return str(request_id).startswith(_ITEM_PREFIXES)


def with_equal_ids(history: Sequence[TraceMessage]) -> Sequence[TraceMessage]:
    """Return a history in which requests and answers have the same ids, as far as their order identifies them.

    Nearly every history is returned as it is, since its ids agree.
    """
    ids = _request_ids(history)
    if any(map(_is_item_id, ids)):
        history = _with_answer_ids(history, ids)
        ids = _request_ids(history)
    answered = {answer.call_id for answer in answers_in(history)}
    return history if answered <= ids else _with_request_ids(history, ids, answered)


def _request_ids(history: Iterable[TraceMessage]) -> set[str | None]:
    """Return the ids of all requests, and `None`, which an answer without an id has."""
    return {None, *(request.id for request in requests_in(history))}


def _unmatched_answer(message: TraceMessage, ids: set[str | None]) -> Answer | None:
    """Return the answer of a message if it has none of these ids."""
    answer = message.answer
    return None if answer is None or answer.call_id in ids else answer


def _with_answer_ids(history: Sequence[TraceMessage], ids: set[str | None]) -> Sequence[TraceMessage]:
    """Replace the ids of items by the ids that the answers after them have, in their order."""
    waiting: list[str | None] = []
    new_ids: dict[str | None, str | None] = {}
    for message in history:
        waiting += [request.id for request in message.requests if _is_item_id(request.id)]
        answer = _unmatched_answer(message, ids)
        if waiting and answer is not None:
            new_ids[waiting.pop(0)] = answer.call_id
    return [_with_new_ids(message, new_ids) for message in history]


def _with_new_ids(message: TraceMessage, new_ids: dict[str | None, str | None]) -> TraceMessage:
    requests = [replace(request, id=new_ids.get(request.id, request.id)) for request in message.requests]
    return replace(message, requests=tuple(requests))


def _with_request_ids(
    history: Sequence[TraceMessage], ids: set[str | None], answered: set[str | None]
) -> Sequence[TraceMessage]:
    """Replace the ids of answers that no request has by those of the requests before them, in their order.

    Only where a message of the model is followed by as many such answers as it has calls without an answer: any other
    number leaves open which answer is whose, and a wrong pair is worse than a lost answer.
    """
    messages = list(history)
    waiting: list[str | None] = []
    strangers: list[tuple[int, Answer]] = []
    # An empty message of the model closes the last round.
    for index, message in enumerate([*history, TraceMessage("model", "")]):
        answer = _unmatched_answer(message, ids)
        if answer is not None:
            strangers.append((index, answer))
        if message.speaker == "model":
            _pair(strangers, waiting, messages)
            waiting, strangers = [request.id for request in message.requests if request.id not in answered], []
    return messages


def _pair(answers: list[tuple[int, Answer]], call_ids: list[str | None], messages: list[TraceMessage]) -> None:
    """Replace these answers, given with their positions among the messages, by ones with the ids of these calls."""
    if len(call_ids) == len(answers) and None not in call_ids:
        for (position, answer), call_id in zip(answers, call_ids, strict=True):
            messages[position] = replace(messages[position], answer=replace(answer, call_id=call_id))
