"""Parser of the answer and error files of a batch: a reply or an error for each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from toolmark._internal.json import JsonObject, parse_json, short_repr
from toolmark.errors import InvalidDataError, JudgeOutcome
from toolmark.judge.openai.errors import EndpointError
from toolmark.judge.openai.wire import UnreadableError
from toolmark.judge.protocol import Reply

_RETRY = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})


def read_answers(text: str, decode: Callable[[JsonObject], Reply]) -> dict[str, Reply | EndpointError]:
    """Return the replies and errors in a file, by the keys of their requests; `decode` reads the body of an answer.

    An unreadable line is skipped, so that its request counts as one without an answer.
    """
    answers: dict[str, Reply | EndpointError] = {}
    for line in filter(str.strip, text.split("\n")):
        try:
            entry: Any = parse_json(line, allow_nan=True)
        except InvalidDataError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("custom_id"), str):
            answers[entry["custom_id"]] = _read_answer(entry, decode)
    return answers


def _read_answer(entry: Mapping[str, Any], decode: Callable[[JsonObject], Reply]) -> Reply | EndpointError:
    response, error = entry.get("response"), _object(entry.get("error"))
    if not isinstance(response, dict):
        reason = error.get("message") or error.get("code") or "no reason was given"
        return _temporary(f"not answered: {reason}")
    status, body = response.get("status_code"), response.get("body")
    if status != HTTPStatus.OK:
        reason = _object(_object(body).get("error")).get("message")
        message = f"HTTP {status}: {short_repr(reason, 200)}"
        if not isinstance(status, int) or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _RETRY:
            return _temporary(message)
        return EndpointError(JudgeOutcome.MALFORMED, message)
    if not isinstance(body, dict):
        return _temporary(f"the answer is not a JSON object: {short_repr(body)}")
    try:
        reply = decode(body)
    except UnreadableError as unreadable:
        return _temporary(str(unreadable))
    request_id = response.get("request_id")
    return reply.model_copy(update={"request_id": request_id}) if isinstance(request_id, str) else reply


def rejected_lines(keys: Sequence[str], errors: Sequence[JsonObject]) -> dict[str, Reply | EndpointError]:
    """Return the errors for which a batch was rejected as a whole; its other requests may be sent again.

    `keys` are those of the requests, line by line; `line` in the provider's `errors` counts from 1.
    """
    rejected: dict[str, Reply | EndpointError] = {}
    for error in errors:
        line = error.get("line")
        if isinstance(line, int) and 1 <= line <= len(keys):
            message = f"the batch was rejected because of it: {error.get('message') or error.get('code')}"
            rejected[keys[line - 1]] = EndpointError(JudgeOutcome.MALFORMED, message)
    return rejected


def _temporary(message: str) -> EndpointError:
    return EndpointError(JudgeOutcome.TRANSIENT, message, retry=True)


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
