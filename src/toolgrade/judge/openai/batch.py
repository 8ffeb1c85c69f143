"""A transport over OpenAI's Batch API: half the price, and an answer within a day.

Questions that wait at the same time go into one batch. A batch is stored in the cache's file before it is created, with
the keys of its requests. So a program that is stopped collects the answers when it runs again, and pays only once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias

from toolgrade._internal.json import JsonObject, json_text
from toolgrade._internal.options import require
from toolgrade._internal.sync_bridge import PerLoop
from toolgrade._internal.text import plural
from toolgrade.errors import ConfigurationError, JudgeError, JudgeOutcome
from toolgrade.judge.cache import PendingBatch, SqliteCache
from toolgrade.judge.openai.client import OpenAIJudge
from toolgrade.judge.openai.wire import object_or_empty, objects_in, quote, read_object
from toolgrade.judge.protocol import Prompt, Reply, TextModel
from toolgrade.stats import check_positive

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_MOST_REQUESTS = 50_000
_MOST_BYTES = 200_000_000
"""Limits of one batch, from OpenAI's guide to the Batch API."""

_ENDED: Final = frozenset({"completed", "failed", "expired", "cancelled"})
_TEMPORARY: Final = frozenset({JudgeOutcome.TRANSIENT, JudgeOutcome.TIMEOUT})
_MOST_FAILURES = 10
"""Requests about a batch that may fail in a row before its questions do."""

_QUIET_SECONDS = 0.5
_QUIET_CHECKS = 10
_FILE_SECONDS = 900.0

_Answers: TypeAlias = "dict[str, Reply | JudgeError]"
"""Replies or errors by the keys of the requests."""

_Send: TypeAlias = "Callable[[AsyncOpenAI], Awaitable[Any]]"
"""Sends a request, and returns the raw response of OpenAI's client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """How long `Judge(..., batch=...)` waits for a batch.

    Attributes:
        status_check_interval: Seconds between two checks of its status.
        max_iterations: Number of checks after which to stop waiting; `None` waits to the end, up to a day. Stopping
            loses nothing: the next program that asks the same questions collects the answers.

    Example:
        >>> from toolgrade.judge import BatchOptions, Judge
        >>> options = BatchOptions(status_check_interval=60, max_iterations=120)
        >>> Judge("gpt-4.1", cache="verdicts.sqlite", batch=options).is_batched
        True
    """

    status_check_interval: float = 30.0
    max_iterations: int | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        interval = self.status_check_interval
        require(interval >= 0, "status_check_interval must be a number of seconds of at least 0", interval)
        if self.max_iterations is not None:
            check_positive(self.max_iterations, "max_iterations")


@dataclass
class _Group:
    """Questions that wait at the same time: the line of each request by its key, and the task that answers them."""

    lines: dict[str, bytes] = field(default_factory=dict[str, bytes])
    waiting: int = 0
    task: asyncio.Task[_Answers] | None = None


@dataclass
class _OpenBatch:
    """A batch that has not ended; `failures` counts the requests about it that failed in a row."""

    stored: PendingBatch
    failures: int = 0


class _State(NamedTuple):
    """The state of a batch as the provider reports it; of its `files` of answers that of errors comes first."""

    batch_id: str
    status: str
    files: tuple[str, ...]
    problem: str


class BatchModel:
    """A `TextModel` that asks a model of OpenAI in batches."""

    paced: ClassVar[bool] = True

    def __init__(
        self, model: TextModel, cache: SqliteCache, key_of: Callable[[Prompt], str], options: BatchOptions
    ) -> None:
        """Store the model, the cache of its replies, the function from prompts to keys there, and the options.

        Raises:
            ConfigurationError: The model has no batches.
        """
        if not isinstance(model, OpenAIJudge):
            message = f"batch needs an OpenAIJudge or the name of a model of OpenAI, got {type(model).__name__}"
            raise ConfigurationError(f"{message}; use Judge(..., batch=False)")
        self._model, self._cache, self._key_of, self._options = model, cache, key_of, options
        self._groups = PerLoop(_Group)

    @property
    def identity(self) -> JsonObject:
        """That of the model, whose verdicts are the same."""
        return self._model.identity

    async def complete(self, prompt: Prompt, /) -> Reply:
        """Return the model's reply from the batch of all questions that wait now.

        Raises:
            JudgeError: The batch ended without a reply, or has not ended; `outcome` and the message say why.
            MissingPackageError: OpenAI's package is not installed.
        """
        key = self._key_of(prompt)
        group = self._groups.get()
        line = {"custom_id": key, "method": "POST", "url": self._model.wire.path, "body": self._model.body_of(prompt)}
        group.lines[key] = f"{json_text(line)}\n".encode()
        task = group.task = group.task or asyncio.ensure_future(self._answer(group))
        group.waiting += 1
        try:
            answer = (await asyncio.shield(task))[key]
        finally:
            group.waiting -= 1
            if not group.waiting:  # nobody waits for it any more
                self._close(group)
                task.cancel()
        if isinstance(answer, JudgeError):
            raise answer
        return answer

    def _close(self, group: _Group) -> None:
        """Let later questions begin another group."""
        if self._groups.get() is group:
            self._groups.pop()

    async def _answer(self, group: _Group) -> _Answers:
        """Return the answers to the questions of a group, once no further one joins it."""
        # Time alone does not tell that none follows: a busy loop may run others for seconds between two checks.
        size = checks = 0
        while checks < _QUIET_CHECKS:
            await asyncio.sleep(_QUIET_SECONDS / _QUIET_CHECKS)
            checks = checks + 1 if size == len(group.lines) else 0
            size = len(group.lines)
        self._close(group)
        due = [batch for batch in self._cache.batches() if not batch.keys.isdisjoint(group.lines)]
        batches = [_OpenBatch(batch) for batch in due]
        submitted = frozenset[str]().union(*(batch.keys for batch in due))
        new = {key: line for key, line in group.lines.items() if key not in submitted}
        answers: _Answers = {}
        for part in _parts(new):
            try:
                file_id = await self._upload(b"".join(part.values()))
            except JudgeError as error:
                answers.update(dict.fromkeys(part, error))
                continue
            batches.append(_OpenBatch(PendingBatch(file_id, None, frozenset(part))))
        return answers | await self._wait(batches)

    async def _wait(self, batches: list[_OpenBatch]) -> _Answers:
        """Return the answers of all batches once they have ended; errors after the last check that is allowed."""
        answers: _Answers = {}
        checks = 0
        while True:
            for batch in list(batches):
                ended = await self._check(batch)
                if ended is not None:
                    answers |= ended
                    batches.remove(batch)
            checks += 1
            if not batches:
                return answers
            if checks == self._options.max_iterations:
                break
            await asyncio.sleep(self._options.status_check_interval)
        for batch in batches:
            problem = f"{_name(batch.stored)} has not ended after {plural(checks, 'check')}; nothing is lost"
            error = JudgeError(f"{problem}: ask again with the same cache to collect it", JudgeOutcome.TIMEOUT)
            answers.update(dict.fromkeys(batch.stored.keys, error))
        return answers

    async def _check(self, batch: _OpenBatch) -> _Answers | None:
        """Return the answers of a batch; `None` if it has not ended."""
        try:
            state = await (self._create(batch) if batch.stored.batch_id is None else self._look(batch.stored.batch_id))
            batch.failures = 0
            return await self._collect(batch.stored, state) if state.status in _ENDED else None
        except JudgeError as error:
            batch.failures += 1
            if error.outcome in _TEMPORARY and batch.failures < _MOST_FAILURES:
                return None
            if error.outcome is JudgeOutcome.FATAL:
                remedy = "give the key of its project, or another cache file to submit its questions again"
                error = JudgeError(f"{_name(batch.stored)} cannot be collected: {error}; {remedy}", error.outcome)
            return dict.fromkeys(batch.stored.keys, error)

    async def _upload(self, content: bytes) -> str:
        """Upload a file of requests, and return its id."""
        body = await self._call(
            lambda client: client.files.with_raw_response.create(file=("requests.jsonl", content), purpose="batch"),
            timeout=_FILE_SECONDS,
        )
        if not isinstance(body.get("id"), str):
            raise JudgeError(f"the answer does not describe a file: {quote(body)}", JudgeOutcome.TRANSIENT)
        return str(body["id"])

    async def _create(self, batch: _OpenBatch) -> _State:
        """Create the batch of an uploaded file, unless an earlier attempt did so, and return its state."""
        file_id = batch.stored.file_id
        state = await self._find(file_id)
        if state is None:
            self._cache.put_batch(batch.stored)
            options: Any = {"endpoint": self._model.wire.path, "completion_window": "24h"}
            try:
                body = await self._call(
                    lambda client: client.batches.with_raw_response.create(input_file_id=file_id, **options),
                    retry=False,  # if only the answer was lost, the batch exists, and another one is paid for again
                )
            except JudgeError as error:
                if error.outcome not in _TEMPORARY:
                    self._cache.remove_batch(batch.stored)
                raise
            state = _read_state(body)
        batch.stored = batch.stored._replace(batch_id=state.batch_id)
        self._cache.put_batch(batch.stored)
        return state

    async def _find(self, file_id: str) -> _State | None:
        """Return the state of the batch of a file, if it is one of the latest hundred."""
        page = await self._call(lambda client: client.batches.with_raw_response.list(limit=100))
        if not isinstance(page.get("data"), list):
            raise JudgeError(f"the answer does not list batches: {quote(page)}", JudgeOutcome.TRANSIENT)
        for batch in objects_in(page["data"]):
            if batch.get("input_file_id") == file_id:
                return _read_state(batch)
        return None

    async def _look(self, batch_id: str) -> _State:
        return _read_state(await self._call(lambda client: client.batches.with_raw_response.retrieve(batch_id)))

    async def _collect(self, batch: PendingBatch, state: _State) -> _Answers:
        """Return the answers of a batch that has ended; replies are in the cache before the batch is forgotten."""
        answers: _Answers = {}
        damaged = 0
        for file_id in state.files:
            content = await self._model.call(
                lambda client: client.files.with_raw_response.content(file_id),  # noqa: B023 - awaited here
                timeout=_FILE_SECONDS,
            )
            more, unreadable = read_answers(content, batch.keys, self._model.wire.reply)
            answers, damaged = answers | more, damaged + unreadable
        for key, answer in answers.items():
            if isinstance(answer, Reply) and answer.refusal is None and answer.finish == "stop":
                self._cache.put(key, answer)
        missing = batch.keys - answers.keys()
        if missing and damaged:
            problem = f"{plural(damaged, 'line')} of the answers of {_name(batch)} cannot be read; ask again later"
            return dict.fromkeys(missing, JudgeError(problem, JudgeOutcome.TRANSIENT)) | answers
        self._cache.remove_batch(batch)
        outcome = JudgeOutcome.FATAL if state.status == "failed" else JudgeOutcome.TRANSIENT
        problem = f"{_name(batch)} ({state.status}) has no answer to this question{state.problem}"
        error = JudgeError(f"{problem}; ask again to submit it again", outcome)
        return dict.fromkeys(missing, error) | answers

    async def _call(self, send: _Send, *, retry: bool = True, timeout: float | None = None) -> JsonObject:
        content = await self._model.call(send, retry=retry, timeout=timeout)
        try:
            return read_object(content)
        except JudgeError as error:  # of a proxy, perhaps
            raise JudgeError(str(error), JudgeOutcome.TRANSIENT) from None


def _name(batch: PendingBatch) -> str:
    return f"the batch {batch.batch_id or f'of {batch.file_id}'}"


def _parts(lines: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    """Yield the lines in parts that a batch may have."""
    part: dict[str, bytes] = {}
    size = 0
    for key, line in lines.items():
        if part and (len(part) == _MOST_REQUESTS or size + len(line) > _MOST_BYTES):
            yield part
            part, size = {}, 0
        part[key] = line
        size += len(line)
    if part:
        yield part


def _read_state(body: JsonObject) -> _State:
    """Return the state of a batch.

    Raises:
        JudgeError: The answer does not describe a batch, as that of a proxy may not.
    """
    batch_id, status = body.get("id"), body.get("status")
    if not isinstance(batch_id, str) or not isinstance(status, str):
        raise JudgeError(f"the answer does not describe a batch: {quote(body)}", JudgeOutcome.TRANSIENT)
    files = [body.get(name) for name in ("error_file_id", "output_file_id")]
    errors = objects_in(object_or_empty(body.get("errors")).get("data"))
    problem = f": {quote(errors[0].get('message'))}" if errors else ""
    return _State(batch_id, status, tuple(file_id for file_id in files if isinstance(file_id, str)), problem)


def read_answers(content: bytes, keys: Collection[str], decode: Callable[[JsonObject], Reply]) -> tuple[_Answers, int]:
    """Return the answers in a file to the requests with these keys, and the number of lines that cannot be read.

    The lines are in any order. Of two answers to one request, the first counts, and a reply more than an error.
    """
    answers: _Answers = {}
    unreadable = 0
    for line in filter(bytes.strip, content.split(b"\n")):
        entry: JsonObject = {}
        with suppress(JudgeError):
            entry = read_object(line)
        key = entry.get("custom_id")
        if not isinstance(key, str):
            unreadable += 1
        elif key in keys and not isinstance(answers.get(key), Reply):
            answers[key] = _read_answer(entry, decode)
    return answers, unreadable


def _read_answer(entry: JsonObject, decode: Callable[[JsonObject], Reply]) -> Reply | JudgeError:
    response = object_or_empty(entry.get("response"))
    status, body = response.get("status_code"), object_or_empty(response.get("body"))
    if not response or (type(status) is int and status >= HTTPStatus.BAD_REQUEST):
        error = object_or_empty(body.get("error")) or object_or_empty(entry.get("error"))
        reason = quote(error.get("message") or error.get("code"))
        is_invalid = type(status) is int and status == HTTPStatus.BAD_REQUEST
        outcome = JudgeOutcome.MALFORMED if is_invalid else JudgeOutcome.TRANSIENT
        return JudgeError(f"the request failed in its batch (HTTP {status}): {reason}", outcome)
    try:
        reply = decode(body)
    except JudgeError as error:
        return JudgeError(str(error), JudgeOutcome.MALFORMED)
    request_id = response.get("request_id")
    return reply.model_copy(update={"request_id": request_id}) if isinstance(request_id, str) else reply
