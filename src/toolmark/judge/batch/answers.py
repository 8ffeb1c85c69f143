"""Parser of the answer and error files of a batch: a reply or an error for each request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from toolmark._internal.json import JsonObject
from toolmark.errors import JudgeOutcome
from toolmark.judge.batch.files import Lost, Shard
from toolmark.judge.openai.errors import EndpointError
from toolmark.judge.openai.wire import LONGEST_QUOTE, object_or_empty, quote, read_object
from toolmark.judge.protocol import Reply

Decode = Callable[[JsonObject], Reply]
"""Reads the body of an answer, and raises `EndpointError`."""

_RETRY = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
_STATUSES = range(HTTPStatus.BAD_REQUEST, 600)


@dataclass(slots=True)
class ShardAnswers:
    """The answers to the requests of a shard, by their keys, as its downloaded files hold them.

    `sizes` holds the bytes of each file by its id. `problems` holds the requests that were paid for, and whose answer
    holds no verdict. `has_answers` says that every file holds an answer, which a page to sign in does not, however
    often it is sent; `is_whole` says that every file holds answers and nothing else.
    """

    keys: Sequence[str]
    answers: dict[str, Reply | EndpointError] = field(default_factory=dict[str, "Reply | EndpointError"])
    problems: dict[str, Lost] = field(default_factory=dict[str, Lost])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    has_answers: bool = True
    is_whole: bool = True

    def add_file(self, file_id: str, content: bytes, decode: Decode) -> None:
        """Add the answers in a file; they replace earlier answers to the same requests."""
        answers, unreadable = read_answers(content, self.keys, decode)
        self.answers |= answers
        self.sizes[file_id] = len(content)
        self.has_answers = self.has_answers and bool(answers)
        self.is_whole = self.is_whole and bool(answers) and not unreadable

    def lacks_answers(self, shard: Shard) -> bool:
        """Return whether the provider may have answered a request whose answer is not here."""
        if len(self.answers) == len(self.keys):
            return False
        counted = sum(isinstance(answer, Reply) or answer.billed for answer in self.answers.values())
        is_short = shard.answered is not None and counted < shard.answered
        return shard.status == "completed" or is_short or not self.is_whole

    def is_doubtful(self, shard: Shard) -> bool:
        """Return whether another download may have more verdicts."""
        return bool(self.problems) or self.lacks_answers(shard)

    def confirms(self, other: ShardAnswers) -> bool:
        """Return whether an earlier download had the same answers."""
        return (other.answers.keys(), other.problems) == (self.answers.keys(), self.problems)


def read_answers(content: bytes, keys: Collection[str], decode: Decode) -> tuple[dict[str, Reply | EndpointError], int]:
    """Return the answers in a file to the requests with these keys, and the number of lines that answer none of them.

    There are such lines in a file that was cut, and in a page to sign in. Bytes that are not UTF-8 are replaced. A
    reply counts more than an error about the same request. An error with `retry` may be sent again; one that is
    `billed` was answered.
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
    return answers, unreadable


def _read_answer(entry: Mapping[str, Any], decode: Decode) -> Reply | EndpointError:
    response, problem = entry.get("response"), object_or_empty(entry.get("error"))
    if response is None and problem:
        reason = problem.get("message") or problem.get("code") or "no reason was given"
        text = reason[:LONGEST_QUOTE] if isinstance(reason, str) else quote(reason)
        return EndpointError(JudgeOutcome.TRANSIENT, f"not answered: {text}", retry=True)
    fields = object_or_empty(response)
    status, body = fields.get("status_code"), object_or_empty(fields.get("body"))
    if type(status) is int and status in _STATUSES:
        return _status_error(status, object_or_empty(body.get("error")).get("message"))
    try:
        reply = decode(body)
    except EndpointError as error:
        # It may have been billed, and it is stored; asking again would pay for it twice.
        return EndpointError(JudgeOutcome.MALFORMED, error.message, billed=True)
    request_id = fields.get("request_id")
    return reply.model_copy(update={"request_id": request_id}) if isinstance(request_id, str) else reply


def _status_error(status: int, reason: object) -> EndpointError:
    message = f"HTTP {status}: {quote(reason)}"
    if status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _RETRY:
        return EndpointError(JudgeOutcome.MALFORMED, message)  # the same request would fail again
    return EndpointError(JudgeOutcome.TRANSIENT, message, retry=True)


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
