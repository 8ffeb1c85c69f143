"""What came back for each line of a batch? Files of answers and errors become replies, or reasons why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from toolmark._internal.json import JsonObject, parse_json, short_repr
from toolmark.errors import InvalidDataError, JudgeOutcome
from toolmark.judge.openai.wire import UnreadableError
from toolmark.judge.protocol import Reply

_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})


@dataclass(frozen=True, slots=True)
class Found:
    """What came back for one request.

    Attributes:
        reply: The reply, if there is one.
        problem: Why there is none.
        outcome: What that makes of the question.
        again: Whether it may be answered when it is sent again.
    """

    reply: Reply | None = None
    problem: str = ""
    outcome: JudgeOutcome = JudgeOutcome.TRANSIENT
    again: bool = False


def results_of(text: str, read: Callable[[JsonObject], Reply]) -> dict[str, Found]:
    """Return what stands in a file of answers or errors, by the keys of the requests.

    A line that cannot be read is passed over, so that its request counts as one without an answer.

    Args:
        text: The file.
        read: Reads the body of an answer.
    """
    found: dict[str, Found] = {}
    for line in filter(str.strip, text.split("\n")):
        try:
            told: Any = parse_json(line, allow_nan=True)
        except InvalidDataError:
            continue
        if isinstance(told, dict) and isinstance(told.get("custom_id"), str):
            found[told["custom_id"]] = _result(told, read)
    return found


def _result(told: Mapping[str, Any], read: Callable[[JsonObject], Reply]) -> Found:
    response, error = told.get("response"), told.get("error")
    if not isinstance(response, dict):
        said = error.get("message") or error.get("code") if isinstance(error, dict) else None
        return Found(problem=f"it was not answered: {said or 'no reason was given'}", again=True)
    status, body = response.get("status_code"), response.get("body")
    if status != HTTPStatus.OK:
        inner = body.get("error") if isinstance(body, dict) else None
        said = inner.get("message") if isinstance(inner, dict) else None
        again = not isinstance(status, int) or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _PASSING
        outcome = JudgeOutcome.TRANSIENT if again else JudgeOutcome.MALFORMED
        return Found(problem=f"HTTP {status}: {short_repr(said, 200)}", outcome=outcome, again=again)
    if not isinstance(body, dict):
        return Found(problem=f"the answer is no JSON object: {short_repr(body)}", again=True)
    try:
        reply = read(body)
    except UnreadableError as unreadable:
        return Found(problem=f"{unreadable}", again=True)
    request_id = response.get("request_id")
    return Found(reply.model_copy(update={"request_id": request_id}) if isinstance(request_id, str) else reply)


def refused_lines(keys: Sequence[str], errors: Sequence[JsonObject]) -> dict[str, Found]:
    """Return the requests for which a batch was refused as a whole; the others may be sent again without them.

    Args:
        keys: The keys of the requests, line by line.
        errors: What the provider said; `line` counts from 1.
    """
    found: dict[str, Found] = {}
    for error in errors:
        line = error.get("line")
        if isinstance(line, int) and 1 <= line <= len(keys):
            told = f"the batch was refused for it: {error.get('message') or error.get('code')}"
            found[keys[line - 1]] = Found(problem=told, outcome=JudgeOutcome.MALFORMED)
    return found
