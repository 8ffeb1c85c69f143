"""The provider's files and batches: one method for each request. No state is stored here."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard, TypeVar

from toolmark._internal.json import JsonObject, is_number
from toolmark.errors import JudgeError, JudgeOutcome
from toolmark.judge.batch.files import Manifest
from toolmark.judge.openai.errors import EndpointError, unusable_response_error
from toolmark.judge.openai.wire import LONGEST_QUOTE, object_or_empty, quote, read_object

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from toolmark.judge.openai import OpenAIJudge

TEMPORARY: Final = frozenset({JudgeOutcome.TRANSIENT, JudgeOutcome.TIMEOUT})
"""Outcomes of requests that may succeed later."""

_FILE_SECONDS = 900.0
_PAGE = 100
_RUN, _SHARD = "toolmark_run", "toolmark_shard"
_ATTEMPTS = 3
_PAUSE = 1.0
"""Seconds before a batch whose creation was not confirmed is looked for in the list."""

_MOST_PAGES = 1000
_MOST_ERRORS = 1000
_DAY = 24 * 60 * 60
_LATEST = 10**11
"""The latest point in time that is believed, in seconds since 1970."""
_ID = re.compile(r"[!-~]{1,1000}")
_STATUS = re.compile(r"[a-z_]{1,40}")

T = TypeVar("T")

_Send: TypeAlias = "Callable[[AsyncOpenAI], Awaitable[Any]]"
"""Sends a request, and returns the raw response of OpenAI's client."""


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
            lambda file: _id_of(file, "id", "a file"),
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
        entries, has_more = body.get("data"), body.get("has_more")
        if not isinstance(entries, list) or not isinstance(has_more, bool):
            raise _unusable("a list of batches", body)
        if not all(isinstance(entry, dict) for entry in entries):
            raise _unusable("a list of batches", body)
        batches: dict[str, JsonObject] = {}
        next_id, created = None, None
        for entry in entries:
            next_id, created = _id_of(entry, "id", "a batch"), entry.get("created_at")
            metadata = object_or_empty(entry.get("metadata"))
            named = metadata.get(_SHARD) if metadata.get(_RUN) == self._run else None
            shard = files.get(_id_of(entry, "input_file_id", "a batch"), named)
            if shard is not None and entry.get("status") != "failed":
                batches.setdefault(str(shard), read_batch(entry))
        is_last = not has_more or (_is_time(created) and created < self._since)
        return batches, None if is_last else next_id

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
    """Return the provider's state of a batch as fields of a `Shard`; every field is checked.

    Raises:
        EndpointError: A field that something depends on is of another form. It counts as temporary: a page to sign in,
            or an answer of a proxy, says nothing about the batch.
    """
    status, expires_at = body.get("status"), body.get("expires_at")
    if not isinstance(status, str) or not _STATUS.fullmatch(status):
        raise _unusable("a batch", body)
    fields: JsonObject = {
        "state": "created",
        "batch_id": _id_of(body, "id", "a batch"),
        "status": status,
        "expires_at": int(expires_at) if _is_time(expires_at) else None,
    }
    for name in ("output_file_id", "error_file_id"):
        fields[name] = None if body.get(name) is None else _id_of(body, name, "a batch")
    answered = object_or_empty(body.get("request_counts")).get("completed")
    fields["answered"] = answered if type(answered) is int and 0 <= answered <= _LATEST else None
    fields["errors"] = _errors_of(body)
    return fields


def _errors_of(body: JsonObject) -> tuple[JsonObject, ...]:
    """Return the errors of a batch, with only the fields that are used, so that any of them can be stored."""
    entries = object_or_empty(body.get("errors")).get("data")
    errors: list[JsonObject] = []
    for entry in entries[:_MOST_ERRORS] if isinstance(entries, list) else ():
        fields = object_or_empty(entry)
        error: JsonObject = {
            name: str(fields[name])[:LONGEST_QUOTE] for name in ("code", "message") if fields.get(name)
        }
        line = fields.get("line")
        errors.append({**error, "line": line} if type(line) is int and 0 < line <= _LATEST else error)
    return tuple(errors)


def _id_of(body: JsonObject, name: str, thing: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise _unusable(thing, body)
    return value


def _is_time(value: object) -> TypeGuard[int | float]:
    return is_number(value) and 0 <= value <= _LATEST


def _unusable(thing: str, body: object) -> EndpointError:
    return unusable_response_error(f"the answer does not describe {thing}: {quote(body)}")


def _list_request(options: Any) -> _Send:  # noqa: ANN401 - keyword arguments of the client
    return lambda client: client.batches.with_raw_response.list(limit=_PAGE, **options)
