"""The provider's files and batches: one method for each request. No state is stored here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from toolmark._internal.json import JsonObject
from toolmark.errors import JudgeError, JudgeOutcome
from toolmark.judge.openai.wire import read_object

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

_Send: TypeAlias = "Callable[[AsyncOpenAI], Awaitable[Any]]"
"""Sends a request, and returns the raw response of OpenAI's client."""


class Remote:
    """Files and batches at the endpoint of a judge."""

    def __init__(self, judge: OpenAIJudge, run: str) -> None:
        """Store the judge, and the id of the run in the metadata of its batches."""
        self._judge = judge
        self._run = run

    async def upload(self, name: str, content: bytes) -> str:
        """Upload a file of requests, and return its id."""
        file = await self._call(
            lambda client: client.files.with_raw_response.create(file=(name, content), purpose="batch"),
            timeout=_FILE_SECONDS,
        )
        return str(file["id"])

    async def create(self, shard: str, file_id: str, since: float) -> JsonObject:
        """Create a batch of a file under the name of a shard, and return it; `since` is as for `find`.

        The batch is created once: if the answer is lost, the batch is looked for before another attempt.
        """
        options: Any = {"endpoint": self._judge.wire.path, "completion_window": "24h"}
        metadata = {_RUN: self._run, _SHARD: shard}

        def send(client: AsyncOpenAI) -> Awaitable[Any]:
            return client.batches.with_raw_response.create(input_file_id=file_id, metadata=metadata, **options)

        # A creation is not simply repeated: if only the answer was lost, the batch exists, and would be paid for twice.
        for attempt in range(1, _ATTEMPTS):
            try:
                return await self._call(send, retry=False)
            except JudgeError as error:
                if error.outcome not in TEMPORARY:
                    raise
            await asyncio.sleep(_PAUSE * attempt)  # a new batch may take a moment to be listed
            batch = (await self.find(since)).get(shard)
            if batch is not None:
                return batch
        return await self._call(send, retry=False)

    async def find(self, since: float) -> dict[str, JsonObject]:
        """Return the batches of this run by the names of their shards: the newest of each, without failed ones.

        Batches that were created before `since`, in seconds since 1970, are not looked at.
        """
        batches: dict[str, JsonObject] = {}
        options: Any = {}
        while True:
            page = await self._call(_list_request(options))
            for batch in page["data"]:
                metadata = batch.get("metadata") or {}
                if metadata.get(_RUN) == self._run and batch.get("status") != "failed":
                    batches.setdefault(str(metadata.get(_SHARD)), batch)
            if not page.get("has_more") or not page["data"] or page["data"][-1]["created_at"] < since:
                return batches
            options = {"after": page["data"][-1]["id"]}

    async def look(self, batch_id: str) -> JsonObject:
        """Return the state of a batch."""
        return await self._call(lambda client: client.batches.with_raw_response.retrieve(batch_id))

    async def download(self, file_id: str) -> bytes:
        """Return the content of a file."""
        return await self._judge.call(
            lambda client: client.files.with_raw_response.content(file_id),
            lambda raw: bytes(raw.content),
            timeout=_FILE_SECONDS,
        )

    async def _call(self, send: _Send, *, retry: bool = True, timeout: float | None = None) -> JsonObject:
        return await self._judge.call(send, lambda raw: read_object(raw.text), retry=retry, timeout=timeout)


def _list_request(options: Any) -> _Send:  # noqa: ANN401 - keyword arguments of the client
    return lambda client: client.batches.with_raw_response.list(limit=_PAGE, **options)
