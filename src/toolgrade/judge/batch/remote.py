"""The provider's files and batches: one method for each request, and what it answers. No state is stored here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

from pydantic import BaseModel, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from toolgrade._internal.json import JsonObject
from toolgrade.errors import JudgeError, JudgeOutcome
from toolgrade.judge.batch.files import Lost, Manifest, Shard
from toolgrade.judge.openai.errors import EndpointError, unusable_response_error
from toolgrade.judge.openai.wire import LONGEST_QUOTE, object_or_empty, quote, read_object
from toolgrade.judge.protocol import Reply

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from toolgrade.judge.openai import OpenAIJudge

TEMPORARY: Final = frozenset({JudgeOutcome.TRANSIENT, JudgeOutcome.TIMEOUT})
"""Outcomes of requests that may succeed later."""

_FILE_SECONDS = 900.0
_PAGE = 100
_RUN, _SHARD = "toolgrade_run", "toolgrade_shard"
_ATTEMPTS = 3
_PAUSE = 1.0
"""Seconds before a batch whose creation was not confirmed is looked for in the list."""

_MOST_PAGES = 1000
_MOST_ERRORS = 1000
_DAY = 24 * 60 * 60
_RETRY = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
_STATUSES = range(HTTPStatus.BAD_REQUEST, 600)
_LATEST = 10**11
"""The latest point in time that is believed, in seconds since 1970."""

T = TypeVar("T")
FormT = TypeVar("FormT", bound=BaseModel)

_Send: TypeAlias = "Callable[[AsyncOpenAI], Awaitable[Any]]"
"""Sends a request, and returns the raw response of OpenAI's client."""

Decode: TypeAlias = Callable[[JsonObject], Reply]
"""Reads the body of an answer, and raises `EndpointError`."""


def _or_none(value: object, check: ValidatorFunctionWrapHandler) -> object:
    """Return a checked value, or `None` if it is of another form."""
    try:
        return check(value)
    except ValidationError:
        return None


_Id: TypeAlias = Annotated[str, Field(strict=True, pattern=r"^[!-~]{1,1000}$")]
_Count: TypeAlias = Annotated[int, Field(strict=True, ge=0, le=_LATEST)]
_Time: TypeAlias = Annotated[float, Field(strict=True, ge=0, le=_LATEST, allow_inf_nan=False)]


class _File(BaseModel):
    id: _Id


class _Counts(BaseModel):
    completed: _Count | None = None


class _Batch(BaseModel):
    """A batch. A field that nothing depends on counts as missing if it is of another form."""

    id: _Id
    status: Annotated[str, Field(strict=True, pattern=r"^[a-z_]{1,40}$")]
    expires_at: Annotated[_Time | None, WrapValidator(_or_none)] = None
    output_file_id: _Id | None = None
    error_file_id: _Id | None = None
    request_counts: Annotated[_Counts | None, WrapValidator(_or_none)] = None
    errors: object = None


class _Entry(BaseModel):
    """A batch in the list, as far as it says whose it is."""

    id: _Id
    input_file_id: _Id
    created_at: Annotated[_Time | None, WrapValidator(_or_none)] = None
    metadata: object = None
    status: object = None


class _Page(BaseModel):
    data: list[JsonObject]
    has_more: Annotated[bool, Field(strict=True)]


def _read(form: type[FormT], body: JsonObject, thing: str) -> FormT:
    """Return an answer of the provider in its form.

    Raises:
        EndpointError: A field that something depends on is of another form. It counts as temporary: a page to sign in,
            or an answer of a proxy, says nothing about the batch.
    """
    try:
        return form.model_validate(body)
    except ValidationError:
        raise _unusable(thing, body) from None


class Remote:
    """Files and batches at the endpoint of a judge.

    The state of a batch is returned as the fields of its `Shard`.
    """

    def __init__(self, judge: OpenAIJudge, manifest: Manifest) -> None:
        """Store the judge, and what the batches of the run have in common."""
        self._judge = judge
        self._run = manifest.run
        self._since = manifest.created - _DAY  # clocks differ

    async def upload(self, name: str, content: bytes) -> str:
        """Upload a file of requests, and return its id."""
        return await self._call(
            lambda client: client.files.with_raw_response.create(file=(name, content), purpose="batch"),
            lambda body: _read(_File, body, "a file").id,
            timeout=_FILE_SECONDS,
        )

    async def create(self, shard: str, file_id: str) -> JsonObject:
        """Create a batch of a file under the name of a shard, and return its state.

        The batch is created once: if the answer is lost, the batch is looked for before another attempt.
        """
        options: Any = {"endpoint": self._judge.wire.path, "completion_window": "24h"}
        metadata = {_RUN: self._run, _SHARD: shard}

        def send(client: AsyncOpenAI) -> Awaitable[Any]:
            return client.batches.with_raw_response.create(input_file_id=file_id, metadata=metadata, **options)

        # A creation is not simply repeated: if only the answer was lost, the batch exists, and would be paid for twice.
        for attempt in range(1, _ATTEMPTS):
            try:
                return await self._call(send, read_batch, retry=False)
            except JudgeError as error:
                if error.outcome not in TEMPORARY:
                    raise
            await asyncio.sleep(_PAUSE * attempt)  # a new batch may take a moment to be listed
            batch = (await self.find({file_id: shard})).get(shard)
            if batch is not None:
                return batch
        return await self._call(send, read_batch, retry=False)

    async def find(self, files: Mapping[str, str]) -> dict[str, JsonObject]:
        """Return the batches of this run by the names of their shards: the newest of each, without failed ones.

        `files` holds shards by the ids of their files, since not every server returns metadata. Batches that were
        created before the run are not looked at.

        Raises:
            JudgeError: The list cannot be read whole: a batch that is not found would be paid for again.
        """
        batches: dict[str, JsonObject] = {}
        options: Any = {}
        for _ in range(_MOST_PAGES):
            page, next_id = await self._call(_list_request(options), partial(self._read_page, files))
            batches = page | batches
            if next_id is None:
                return batches
            options = {"after": next_id}
        message = f"the list of batches has no end within {_MOST_PAGES} pages; look at it in the provider's console"
        raise JudgeError(message, JudgeOutcome.TRANSIENT)

    def _read_page(self, files: Mapping[str, str], body: JsonObject) -> tuple[dict[str, JsonObject], str | None]:
        """Return the batches of this run on a page of the list, newest first, and the id before the next page.

        Raises:
            EndpointError: A part of it that may concern this run cannot be read.
        """
        page = _read(_Page, body, "a list of batches")
        batches: dict[str, JsonObject] = {}
        next_id: str | None = None
        for listed in page.data:
            entry = _read(_Entry, listed, "a batch")
            metadata = object_or_empty(entry.metadata)
            named = metadata.get(_SHARD) if metadata.get(_RUN) == self._run else None
            shard = files.get(entry.input_file_id, named)
            if shard is not None and entry.status != "failed":
                batches.setdefault(str(shard), read_batch(listed))
            is_older = entry.created_at is not None and entry.created_at < self._since
            next_id = None if is_older else entry.id
        return batches, next_id if page.has_more else None

    async def look(self, batch_id: str) -> JsonObject:
        """Return the state of a batch."""

        def read(body: JsonObject) -> JsonObject:
            batch = read_batch(body)
            if batch["batch_id"] != batch_id:
                raise _unusable(f"the batch {batch_id}", body)
            return batch

        return await self._call(lambda client: client.batches.with_raw_response.retrieve(batch_id), read)

    async def size(self, file_id: str) -> int | None:
        """Return the number of bytes that a file has by the provider's account; `None` if it gives none."""
        try:
            size = await self._call(
                lambda client: client.files.with_raw_response.retrieve(file_id), lambda body: body.get("bytes")
            )
        except JudgeError as error:
            if error.outcome in TEMPORARY:
                raise
            return None
        return size if type(size) is int else None

    async def download(self, file_id: str) -> bytes:
        """Return the content of a file."""
        return await self._judge.call(
            lambda client: client.files.with_raw_response.content(file_id),
            lambda raw: raw.content,
            timeout=_FILE_SECONDS,
        )

    async def _call(
        self, send: _Send, read: Callable[[JsonObject], T], *, retry: bool = True, timeout: float | None = None
    ) -> T:
        return await self._judge.call(send, lambda raw: read(read_object(raw.content)), retry=retry, timeout=timeout)


def read_batch(body: JsonObject) -> JsonObject:
    """Return the provider's state of a batch as the fields of a `Shard`; raises `EndpointError` as `_read` does."""
    batch = _read(_Batch, body, "a batch")
    return {
        "state": "created",
        "batch_id": batch.id,
        "status": batch.status,
        "expires_at": None if batch.expires_at is None else int(batch.expires_at),
        "output_file_id": batch.output_file_id,
        "error_file_id": batch.error_file_id,
        "answered": batch.request_counts and batch.request_counts.completed,
        "errors": _errors_of(batch.errors),
    }


def _errors_of(errors: object) -> tuple[JsonObject, ...]:
    """Return the errors of a batch, with only the fields that are used, so that any of them can be stored."""
    used: list[JsonObject] = []
    entries = object_or_empty(errors).get("data")
    for entry in entries[:_MOST_ERRORS] if isinstance(entries, list) else ():
        fields = object_or_empty(entry)
        error: JsonObject = {
            name: str(fields[name])[:LONGEST_QUOTE] for name in ("code", "message") if fields.get(name)
        }
        line = fields.get("line")
        if type(line) is int and 0 < line <= _LATEST:
            error["line"] = line
        used.append(error)
    return tuple(used)


def _unusable(thing: str, body: object) -> EndpointError:
    return unusable_response_error(f"the answer does not describe {thing}: {quote(body)}")


def _list_request(options: Any) -> _Send:  # noqa: ANN401 - keyword arguments of the client
    return lambda client: client.batches.with_raw_response.list(limit=_PAGE, **options)


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
        answers, unreadable = read_answers(content, set(self.keys), decode)
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
