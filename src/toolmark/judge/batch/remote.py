"""What is asked of the provider about files and batches? One method for each, and nothing is kept here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from toolmark._internal.json import JsonObject
from toolmark.errors import JudgeError, JudgeOutcome
from toolmark.judge.openai.wire import UnreadableError, read_object

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from toolmark.judge.openai import OpenAIJudge

PASSES: Final = frozenset({JudgeOutcome.TRANSIENT, JudgeOutcome.TIMEOUT})
"""Outcomes of calls that may succeed later."""

_FILE_SECONDS = 900.0
_PAGE = 100
_RUN, _SHARD = "toolmark_run", "toolmark_shard"
_ATTEMPTS = 3
_PAUSE = 1.0
"""Seconds after which a batch that was created is looked for in the list."""


class Remote:
    """Files and batches at the endpoint of a judge."""

    def __init__(self, judge: OpenAIJudge, run: str) -> None:
        """Keep the judge, and the name of the run that stands in the metadata of its batches."""
        self._judge = judge
        self._run = run

    async def upload(self, name: str, content: bytes) -> str:
        """Return the id of a new file of requests."""

        async def send(client: AsyncOpenAI) -> Any:  # noqa: ANN401 - the raw response of any version
            return await client.files.with_raw_response.create(file=(name, content), purpose="batch")

        file = await self._told(send, timeout=_FILE_SECONDS)
        return f"{file['id']}"

    async def create(self, shard: str, file_id: str, since: float) -> JsonObject:
        """Return a new batch of a file.

        It is created once: where the answer is lost, the batch is looked for before it is tried again.

        Args:
            shard: The name under which it is found again.
            file_id: The file of its requests.
            since: As for `find`.
        """
        options: Any = {"endpoint": self._judge.wire.path, "completion_window": "24h"}

        async def send(client: AsyncOpenAI) -> Any:  # noqa: ANN401 - as above
            return await client.batches.with_raw_response.create(
                input_file_id=file_id, metadata={_RUN: self._run, _SHARD: shard}, **options
            )

        attempt = 1
        while True:
            try:
                return await self._told(send, again=False)
            except JudgeError as error:
                if error.outcome not in PASSES or attempt == _ATTEMPTS:
                    raise
            await asyncio.sleep(_PAUSE * attempt)  # what was created may take a moment to be listed
            found = (await self.find(since)).get(shard)
            if found is not None:
                return found
            attempt += 1

    async def find(self, since: float) -> dict[str, JsonObject]:
        """Return the batches of this run, by the names of their shards; the newest of each, and none that failed.

        Args:
            since: Seconds since 1970; batches that were created before are not looked at.
        """
        found: dict[str, JsonObject] = {}
        after: dict[str, str] = {}
        while True:
            page = await self._told(_listing(after))
            for batch in page["data"]:
                metadata = batch.get("metadata") or {}
                if metadata.get(_RUN) == self._run and batch.get("status") != "failed":
                    found.setdefault(f"{metadata.get(_SHARD)}", batch)
            if not page.get("has_more") or not page["data"] or page["data"][-1]["created_at"] < since:
                return found
            after = {"after": page["data"][-1]["id"]}

    async def look(self, batch_id: str) -> JsonObject:
        """Return the state of a batch."""

        async def send(client: AsyncOpenAI) -> Any:  # noqa: ANN401 - as above
            return await client.batches.with_raw_response.retrieve(batch_id)

        return await self._told(send)

    async def download(self, file_id: str) -> bytes:
        """Return the content of a file."""

        async def send(client: AsyncOpenAI) -> Any:  # noqa: ANN401 - as above
            return await client.files.with_raw_response.content(file_id)

        return await self._judge.call(send, timeout=_FILE_SECONDS)

    async def _told(
        self, send: Callable[[AsyncOpenAI], Awaitable[Any]], *, again: bool = True, timeout: float | None = None
    ) -> JsonObject:
        try:
            return read_object(await self._judge.call(send, again=again, timeout=timeout))
        except UnreadableError as error:
            raise JudgeError(f"{error}", JudgeOutcome.TRANSIENT, attempts=1) from None


def _listing(after: dict[str, str]) -> Callable[[AsyncOpenAI], Awaitable[Any]]:
    async def send(client: AsyncOpenAI) -> Any:  # noqa: ANN401 - as above
        options: Any = after
        return await client.batches.with_raw_response.list(limit=_PAGE, **options)

    return send
