"""Parser of the answer and error files of a batch: a reply or an error for each request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from toolmark._internal.json import JsonObject, short_repr
from toolmark.errors import JudgeOutcome
from toolmark.judge.openai.errors import EndpointError
from toolmark.judge.openai.wire import LONGEST_QUOTE, object_or_empty, read_object
from toolmark.judge.protocol import Reply

_RETRY = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
_STATUSES = range(600)


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """The content of one file of answers: replies and errors by the keys of their requests.

    `unreadable` is the number of lines that answer no request of the batch, as in a file that was cut, or in a page to
    sign in. An error with `retry` may be sent again; one that is `billed` was answered.
    """

    answers: Mapping[str, Reply | EndpointError]
    unreadable: int

    @property
    def is_whole(self) -> bool:
        """Whether it holds answers and nothing else."""
        return bool(self.answers) and not self.unreadable


def read_answers(content: bytes, keys: Collection[str], decode: Callable[[JsonObject], Reply]) -> AnswerFile:
    """Return what a file of answers holds about the requests with these keys; `decode` reads the body of an answer.

    Bytes that are not UTF-8 are replaced. A reply counts more than an error about the same request.
    """
    answers: dict[str, Reply | EndpointError] = {}
    unreadable = 0
    for line in filter(bytes.strip, content.split(b"\n")):
        entry: JsonObject = {}
        with suppress(EndpointError):
            entry = read_object(line)
        key = entry.get("custom_id")
        if not isinstance(key, str) or key not in keys:
            unreadable += 1
        elif not isinstance(answers.get(key), Reply):
            answers[key] = _read_answer(entry, decode)
    return AnswerFile(answers, unreadable)


def _status_error(status: int, body: JsonObject) -> EndpointError:
    reason = object_or_empty(body.get("error")).get("message")
    message = f"HTTP {status}: {short_repr(reason, LONGEST_QUOTE)}"
    if status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _RETRY:
        return EndpointError(JudgeOutcome.MALFORMED, message)  # the same request would fail again
    return EndpointError(JudgeOutcome.TRANSIENT, message, retry=True)


def _read_answer(entry: Mapping[str, Any], decode: Callable[[JsonObject], Reply]) -> Reply | EndpointError:
    response, problem = entry.get("response"), object_or_empty(entry.get("error"))
    if response is None and problem:
        reason = problem.get("message") or problem.get("code") or "no reason was given"
        return EndpointError(JudgeOutcome.TRANSIENT, f"not answered: {_quoted(reason)}", retry=True)
    fields = object_or_empty(response)
    status, body = fields.get("status_code"), object_or_empty(fields.get("body"))
    if type(status) is int and status in _STATUSES and status >= HTTPStatus.BAD_REQUEST:
        return _status_error(status, body)
    try:
        reply = decode(body)
    except EndpointError as error:
        # It may have been billed, and it is stored; asking again would pay for it twice.
        return EndpointError(JudgeOutcome.MALFORMED, error.message, billed=True)
    request_id = fields.get("request_id")
    return reply.model_copy(update={"request_id": request_id}) if isinstance(request_id, str) else reply


def _quoted(value: object) -> str:
    return value[:LONGEST_QUOTE] if isinstance(value, str) else short_repr(value, LONGEST_QUOTE)


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
