"""Parser of the answer and error files of a batch: a reply or an error for each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from toolmark._internal.json import JsonObject, parse_json, short_repr
from toolmark.errors import InvalidDataError, JudgeOutcome
from toolmark.judge.openai.errors import EndpointError, unusable_response_error
from toolmark.judge.openai.wire import object_or_empty
from toolmark.judge.protocol import Reply

_RETRY = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})


def read_answers(text: str, decode: Callable[[JsonObject], Reply]) -> dict[str, Reply | EndpointError]:
    """Return the replies and errors in a file, by the keys of their requests; `decode` reads the body of an answer.

    An unreadable line is skipped, so that its request counts as one without an answer.
    """
    answers: dict[str, Reply | EndpointError] = {}
    for line in filter(str.strip, text.split("\n")):
        with suppress(InvalidDataError):
            entry = object_or_empty(parse_json(line, allow_nan=True))
            if isinstance(entry.get("custom_id"), str):
                answers[entry["custom_id"]] = _read_answer(entry, decode)
    return answers


def _read_answer(entry: Mapping[str, Any], decode: Callable[[JsonObject], Reply]) -> Reply | EndpointError:
    """Return the reply in an entry, or an error, which says whether the same request may succeed later."""
    response, error = entry.get("response"), object_or_empty(entry.get("error"))
    if not isinstance(response, dict):
        return unusable_response_error(
            f"not answered: {error.get('message') or error.get('code') or 'no reason was given'}"
        )
    status, body = response.get("status_code"), response.get("body")
    if status != HTTPStatus.OK:
        reason = object_or_empty(object_or_empty(body).get("error")).get("message")
        message = f"HTTP {status}: {short_repr(reason, 200)}"
        if isinstance(status, int) and status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _RETRY:
            return EndpointError(JudgeOutcome.MALFORMED, message)  # the same request would fail again
        return unusable_response_error(message)
    if not isinstance(body, dict):
        return unusable_response_error(f"the answer is not a JSON object: {short_repr(body)}")
    try:
        reply = decode(body)
    except EndpointError as unreadable:
        return unreadable
    request_id = response.get("request_id")
    return reply.model_copy(update={"request_id": request_id}) if isinstance(request_id, str) else reply


def rejected_lines(keys: Sequence[str], errors: Sequence[JsonObject]) -> dict[str, Reply | EndpointError]:
    """Return the errors for which a batch was rejected as a whole; its other requests may be sent again.

    `keys` are those of the requests, line by line; `line` in the provider's `errors` counts from 1.
    """
    by_line = dict(enumerate(keys, start=1))
    rejected: dict[str, Reply | EndpointError] = {}
    for error in errors:
        if error.get("line") in by_line:
            message = f"the batch was rejected because of it: {error.get('message') or error.get('code')}"
            rejected[by_line[error["line"]]] = EndpointError(JudgeOutcome.MALFORMED, message)
    return rejected
