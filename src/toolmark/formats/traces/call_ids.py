"""Ids by which the requests and answers of one history refer to each other.

Some tracers keep the id of an output item in the place of a call's id; others invent an id where an answer has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toolmark.capture import Request
from toolmark.formats.messages.transcript import Answer
from toolmark.formats.traces.trace_messages import Message, requests_in

_ITEM_PREFIXES = ("fc_", "ctc_")
"""Prefixes of the ids of output items of OpenAI's Responses API. No answer refers to an item."""


def call_id_of(request: Request) -> str | None:
    """Return the id by which answers refer to a call; `None` where the tracer kept the id of an item."""
    return None if request.id is None or request.id.startswith(_ITEM_PREFIXES) else request.id


def with_common_ids(history: Sequence[Message]) -> Sequence[Message]:
    """Return a history whose requests and answers have equal ids, where the order shows which belong together.

    Both repairs leave a history alone whose ids agree, which is nearly every history.
    """
    return _with_request_ids(_with_answer_ids(history))


def _with_answer_ids(history: Sequence[Message]) -> Sequence[Message]:
    """Replace the ids of items by the ids that the answers after them have, in their order."""
    requests = requests_in(history)
    ids = {request.id for request in requests}
    item_ids = ids - set(map(call_id_of, requests))
    if not item_ids:
        return history
    waiting: list[str | None] = []
    new_ids: dict[str | None, str] = {}
    for message in history:
        # Answers come in the order of their calls, so the order identifies them.
        waiting += [request.id for request in message.requests if request.id in item_ids]
        if waiting and message.answered_id is not None and message.answered_id not in ids:
            new_ids[waiting.pop(0)] = message.answered_id
    return [_with_new_ids(message, new_ids) for message in history]


def _with_new_ids(message: Message, new_ids: dict[str | None, str]) -> Message:
    requests = [replace(request, id=new_ids.get(request.id, request.id)) for request in message.requests]
    return replace(message, requests=tuple(requests))


def _with_request_ids(history: Sequence[Message]) -> Sequence[Message]:
    """Replace the ids of answers that no request has by those of the requests before them, in their order.

    Only where a message of the model is followed by as many such answers as it has calls without an answer.
    """
    ids = {request.id for request in requests_in(history)} | {None}
    answered = {message.answer.call_id for message in history if message.answer is not None}
    if answered <= ids:
        return history
    messages = list(history)
    waiting: list[str | None] = []
    strangers: list[tuple[int, Answer]] = []
    for index, message in enumerate([*history, Message("model", "")]):  # the last one closes the history
        if message.speaker == "model":
            # Any other number leaves open which answer is whose; a wrong pair is worse than a lost answer.
            if len(waiting) == len(strangers) and None not in waiting:
                for (place, answer), call_id in zip(strangers, waiting, strict=True):
                    messages[place] = replace(messages[place], answer=replace(answer, call_id=call_id))
            waiting, strangers = [request.id for request in message.requests if request.id not in answered], []
        elif message.answer is not None and message.answer.call_id not in ids:
            strangers.append((index, message.answer))
    return messages
