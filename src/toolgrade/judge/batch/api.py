"""Judging over OpenAI's Batch API: half the price, within a day, and safe against the end of the program.

```python
from toolgrade.judge import Judge
from toolgrade.judge.batch import Batch

judge = Judge("gpt-4.1", cache="verdicts.sqlite")
metric = ToolUseMetric(judge=judge)
batch = Batch("batches", judge)
batch.submit(prompt for case in cases for prompt in metric.prompts(case))
batch.poll()
batch.collect()
report = evaluate(cases, [metric])  # asks nothing: the verdicts are in the cache
```

Each of the three steps may be repeated at any time, by the same program or another one. `submit` sends every prompt
without a verdict that is not in a batch yet; `poll` waits; `collect` fetches.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from toolgrade._internal.json import JsonObject, json_text
from toolgrade._internal.options import require
from toolgrade._internal.sync_bridge import run_sync
from toolgrade._internal.text import plural
from toolgrade.errors import ConfigurationError, JudgeError, JudgeOutcome
from toolgrade.judge.batch.files import Folder, Lost, Manifest, Shard, ShardState
from toolgrade.judge.batch.remote import TEMPORARY, Remote, ShardAnswers, rejected_lines
from toolgrade.judge.cache import Cache
from toolgrade.judge.cost import CostEstimate, add_usage
from toolgrade.judge.judge import Judge, JudgeLike
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.judge.openai.errors import EndpointError, unusable_response_error
from toolgrade.judge.protocol import Prompt, Reply

MOST_REQUESTS: Final = 50_000
"""Requests that one batch may have."""

MOST_BYTES: Final = 200_000_000
"""Bytes that the file of one batch may have."""

MOST_ATTEMPTS: Final = 100

LONGEST_INTERVAL: Final = 120.0
"""Maximum seconds between two status checks."""

_UNSENT: Final[tuple[ShardState, ...]] = ("planned", "uploaded")
_NOT_COLLECTED: Final[tuple[ShardState, ...]] = (*_UNSENT, "created")
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_KINDS: Final = ("error", "output")
"""Files of answers; the output comes last: of two answers to one request, that of the output counts."""
_GROWTH = 1.5
_GRACE = 3600


@dataclass(frozen=True, slots=True)
class BatchState:
    """The progress of a run of batches.

    Attributes:
        prompts: Number of prompts ever submitted.
        verdicts: Those with a verdict in the judge's cache.
        under_way: Those in a batch whose answers are not collected yet.
        open: Those that the next `submit` sends again: expired, cancelled or failed.
        lost: Those that are not sent again, by their keys: the answer held no verdict, or they failed too often.
        shards: The batches, in the order of their creation.

    Example:
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.judge.batch import Batch
        >>> from toolgrade.judge.openai import OpenAIJudge
        >>> from toolgrade.testing import FakeOpenAI, sample_prompt
        >>> with FakeOpenAI() as server:
        ...     judge = Judge(OpenAIJudge("gpt-4.1", base_url=server.base_url))
        ...     state = Batch("batches", judge).submit([sample_prompt()])
        >>> state.prompts, state.under_way, state.verdicts, state.ended
        (1, 1, 0, False)
    """

    prompts: int
    verdicts: int
    under_way: int
    open: int
    lost: Mapping[str, Lost]
    shards: tuple[Shard, ...]

    @property
    def ended(self) -> bool:
        """Whether the provider has ended every batch."""
        return all(shard.state == "collected" or shard.status in _ENDED for shard in self.shards)

    @property
    def usage(self) -> dict[str, int]:
        """Tokens of all collected answers."""
        return add_usage(*[shard.usage for shard in self.shards])


class Batch:
    """One run of batches in a folder: the prompts, their state at the provider, and the answers.

    The folder holds the content of the cases, as redacted by the judge; it holds no key. One process at a time may work
    on it. It can be deleted once the verdicts are in the cache.

    ```python
    from toolgrade.judge import Judge
    from toolgrade.judge.batch import Batch
    from toolgrade.judge.openai import OpenAIJudge
    from toolgrade.testing import FakeOpenAI, sample_prompt

    reply = '{"evidence": ["c1"], "reasoning": "The user asked for it.", "verdict": "yes"}'
    with FakeOpenAI(reply) as server:
        judge = Judge(OpenAIJudge("gpt-4.1", base_url=server.base_url), cache="verdicts.sqlite")
        prompts = [sample_prompt()]  # usually `metric.prompts(case)` for each case
        batch = Batch("batches", judge)
        batch.submit(prompts)
        batch.poll(batch_status_check_interval=0)
        state = batch.collect()

    assert state.verdicts == 1
    assert judge.cached(prompts[0]) is not None  # so an evaluation sends nothing
    ```
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        judge: JudgeLike,
        *,
        max_requests: int = MOST_REQUESTS,
        max_bytes: int = MOST_BYTES,
        max_attempts: int = 3,
    ) -> None:
        """Check and store the settings; nothing is read, written or sent.

        Args:
            folder: Folder of the state; created when needed.
            judge: The judge, as for a metric: a model of OpenAI, and a cache for the verdicts.
            max_requests: Requests in one batch; at most 50,000.
            max_bytes: Bytes in the file of one batch; at most 200,000,000.
            max_attempts: Maximum number of batches that a prompt is sent in without an answer.

        Raises:
            ConfigurationError: A limit is out of range.
        """
        require(1 <= max_requests <= MOST_REQUESTS, f"max_requests must be from 1 to {MOST_REQUESTS}", max_requests)
        require(1 <= max_bytes <= MOST_BYTES, f"max_bytes must be from 1 to {MOST_BYTES}", max_bytes)
        require(1 <= max_attempts <= MOST_ATTEMPTS, f"max_attempts must be from 1 to {MOST_ATTEMPTS}", max_attempts)
        self._folder = Folder(folder)
        self._judge = Judge.of(judge)
        self._max_requests, self._max_bytes, self._max_attempts = max_requests, max_bytes, max_attempts

    @classmethod
    def reopened(cls, folder: str | os.PathLike[str], *, cache: Cache | str | os.PathLike[str]) -> Batch:
        """Return the run of batches in a folder, with the judge that it was created with.

        The key comes from the environment, see `OpenAIJudge`.

        Args:
            folder: Folder of the state.
            cache: Cache for the verdicts, as for `toolgrade.judge.Judge`.

        Raises:
            ConfigurationError: There is no batch in the folder.
        """
        model = Folder(folder).manifest().model
        judge = OpenAIJudge(model["model"], api=model["api"], base_url=model["base_url"], options=model["options"])
        return cls(folder, Judge(judge, cache=cache))

    @classmethod
    def verdicts(
        cls,
        folder: str | os.PathLike[str],
        *,
        cache: Cache | str | os.PathLike[str],
        samples: int = 1,
        canary: bool = False,
        image_folder: str | os.PathLike[str] | None = None,
    ) -> Judge:
        """Return a judge that has the verdicts of the batches in a folder, and sends nothing.

        A question without a verdict has the outcome `aborted`, and costs nothing.

        Args:
            folder: Folder of the state.
            cache: Cache that the verdicts were collected in.
            samples: As of the judge of the batches.
            canary: As of the judge of the batches.
            image_folder: As of the judge of the batches.

        Raises:
            ConfigurationError: There is no batch in the folder.
        """
        model = _OfflineModel(Folder(folder).manifest().model)
        options: dict[str, Any] = {"image_folder": image_folder, "max_characters": sys.maxsize}  # it costs nothing
        return Judge(model, cache=cache, samples=samples, canary=canary, **options)

    @property
    def folder(self) -> Path:
        """Folder of the state."""
        return self._folder.path

    def estimate(self, prompts: Iterable[Prompt] = (), *, answer_tokens: int | None = None) -> CostEstimate:
        """Return the estimated cost of `submit` with these prompts; nothing is sent or written.

        Requests that fail in a batch and are sent again are not foreseen.

        Args:
            prompts: As for `submit`.
            answer_tokens: Tokens of one answer, see `Judge.estimate`.

        Raises:
            ConfigurationError: The folder belongs to another judge, or the judge has no batches.

        Example:
            ```python
            batch.estimate(prompts).check(max_cost=10.0)  # raises if it would cost more
            batch.submit(prompts)
            ```
        """
        manifest = self._open_manifest(self._model())
        settled = {*self._keys(manifest, "created"), *manifest.lost}  # planned and uploaded shards will be sent
        by_key = self._folder.prompts()
        for prompt in prompts:
            by_key.setdefault(self._judge.key_of(prompt), prompt)
        waiting = self._without_verdict(by_key).keys() & settled
        others = [prompt for key, prompt in by_key.items() if key not in waiting]
        single = self._judge.estimate(others, answer_tokens=answer_tokens)
        return replace(single, prompts=single.prompts + len(waiting), settled=len(waiting), batch=True)

    def submit(self, prompts: Iterable[Prompt] = ()) -> BatchState:
        """Send every prompt that has no verdict and is not in a batch yet.

        Shards that an earlier call planned but did not send, because the program ended, are sent; batches that it
        created without recording them are found again at the provider. Prompts that came back without an answer are
        sent again, and only those: verdicts that the cache has lost come from the answers stored in the folder.

        Args:
            prompts: Further prompts, such as those of `metric.prompts(case)`.

        Raises:
            JudgeError: The provider refuses; batches that were created before remain.
            ConfigurationError: The folder belongs to another judge or is in use, or the judge has no batches.
        """
        model = self._model()
        with self._folder.locked():
            run = _Run(self._folder, self._open_manifest(model), model)
            # A program that ended after it created a batch and before it wrote that down leaves such a shard.
            is_doubtful = any(shard.state in _UNSENT for shard in run.manifest.shards)
            self._restore_verdicts(run)
            self._plan(run, prompts)
            run_sync(run.send(search=is_doubtful))
        return self.state()

    def poll(
        self,
        *,
        batch_status_check_interval: float = 30.0,
        batch_max_iterations: int | None = None,
        on_state: Callable[[BatchState], object] | None = None,
    ) -> BatchState:
        """Wait until the provider has ended every batch.

        Args:
            batch_status_check_interval: Seconds between two checks, growing by half each time, up to 120. 0 checks
                without a pause.
            batch_max_iterations: Number of checks after which to return in any case; by default no limit, since a batch
                may take a day. Stopping loses nothing: call it again.
            on_state: Called with the state after each check.

        Raises:
            JudgeError: The provider refuses, or a batch has not ended an hour after it should have.
            ConfigurationError: There is no batch, or the folder is in use.
        """
        interval, checks = batch_status_check_interval, 0
        if interval < 0 or (batch_max_iterations is not None and batch_max_iterations < 1):
            message = "batch_status_check_interval must be at least 0 and batch_max_iterations at least 1"
            raise ConfigurationError(f"{message}, got {interval!r} and {batch_max_iterations!r}")
        while True:
            with self._folder.locked():
                run = _Run(self._folder, self._folder.manifest(), self._model())
                try:
                    run_sync(run.check_status())
                except JudgeError as error:  # a temporary one does not end the waiting
                    if error.outcome not in TEMPORARY:
                        raise
            state = self.state()
            if on_state is not None:
                on_state(state)
            checks += 1
            if state.ended or checks == batch_max_iterations:
                return state
            time.sleep(interval)
            interval = max(interval, min(interval * _GROWTH, LONGEST_INTERVAL))

    def collect(self) -> BatchState:
        """Fetch the answers of ended batches, and put the verdicts into the judge's cache.

        Answers are stored as they come, before they are read. A batch stays open until each of its requests is
        accounted for, so that a page to sign in, or a file that was cut, loses no answer.

        Raises:
            JudgeError: Answers of a batch cannot be fetched, or are incomplete; call it again. The verdicts that there
                are, also of the other batches, are in the cache.
            ConfigurationError: There is no batch, or the folder is in use.
        """
        model = self._model()
        failure: JudgeError | None = None
        with self._folder.locked():
            run = _Run(self._folder, self._folder.manifest(), model)
            prompts = self._folder.prompts()
            for shard in run.manifest.shards:
                if shard.state == "created" and shard.status in _ENDED:
                    try:
                        run_sync(self._collect(run, shard, prompts))
                    except JudgeError as error:  # the answers of the other batches are paid for, too
                        failure = failure or error
        if failure is not None:
            raise failure
        return self.state()

    def state(self) -> BatchState:
        """Return the progress as the folder has it; nothing is sent.

        Raises:
            ConfigurationError: There is no batch in the folder.
        """
        manifest = self._folder.manifest()
        prompts = self._folder.prompts()
        missing = self._without_verdict(prompts).keys()
        under_way = missing & set(self._keys(manifest, *_NOT_COLLECTED))
        to_send = missing - under_way - manifest.lost.keys()
        lost = {key: lost for key, lost in manifest.lost.items() if key in missing}
        verdicts = len(prompts) - len(missing)
        return BatchState(len(prompts), verdicts, len(under_way), len(to_send), lost, manifest.shards)

    def _model(self) -> OpenAIJudge:
        model = self._judge.model
        if not isinstance(model, OpenAIJudge):
            message = f"batches need a judge behind OpenAI's API, got {self._judge!r}"
            raise ConfigurationError(f"{message}; give a model's name or an OpenAIJudge")
        if not self._judge.has_cache:
            raise ConfigurationError("batches need a judge with a cache for the verdicts: Judge(..., cache=...)")
        return model

    def _keys(self, manifest: Manifest, *states: ShardState) -> list[str]:
        """Return the keys of the requests in shards of these states; one that was sent again stands there again."""
        keys: list[str] = []
        for shard in manifest.shards:
            if shard.state in states:
                keys += self._folder.keys(shard)
        return keys

    def _without_verdict(self, prompts: Mapping[str, Prompt]) -> dict[str, Prompt]:
        return {key: prompt for key, prompt in prompts.items() if self._judge.cached(prompt) is None}

    def _open_manifest(self, model: OpenAIJudge) -> Manifest:
        """Return the state of the run in the folder, or of a new one."""
        manifest = self._folder.find_manifest() or Manifest.new(model.identity)
        if manifest.model != model.identity:
            message = f"{str(self.folder)!r} holds batches of {manifest.model}, not of {model.identity}"
            raise ConfigurationError(f"{message}; use another folder")
        return manifest

    def _restore_verdicts(self, run: _Run) -> None:
        """Put verdicts that the cache has lost into it again, from the answers in the folder: they are paid for."""
        missing = self._without_verdict(self._folder.prompts())
        for shard in run.manifest.shards:
            if shard.state != "collected" or missing.keys().isdisjoint(self._folder.keys(shard)):
                continue
            for key, answer in self._stored_answers(run, shard).answers.items():
                if key in missing:
                    self._cache_verdict(missing[key], answer)

    def _stored_answers(self, run: _Run, shard: Shard) -> ShardAnswers:
        """Return the answers of a shard in the files on disk."""
        stored = ShardAnswers(self._folder.keys(shard))
        for kind in _KINDS:
            content = self._folder.read_answers(shard, kind)
            if content is not None:
                stored.add_file(kind, content, run.model.wire.reply)
        return stored

    def _plan(self, run: _Run, prompts: Iterable[Prompt]) -> None:
        """Write what is to be sent: prompts and requests first, then the manifest that names them."""
        by_key = self._folder.prompts()
        before = len(by_key)
        for prompt in prompts:
            if self._judge.cached(prompt) is None:
                by_key.setdefault(self._judge.key_of(prompt), prompt)
        if len(by_key) > before:
            self._folder.write_prompts(by_key)
        manifest = run.manifest
        settled = {*self._keys(manifest, *_NOT_COLLECTED), *manifest.lost}
        to_send = {key: prompt for key, prompt in self._without_verdict(by_key).items() if key not in settled}
        # The manifest names a shard only after its requests are on disk, so that a crash leaves no shard without them.
        for lines in self._split(run.model, to_send):
            shard = Shard(name=f"{len(manifest.shards) + 1:04d}", requests=len(lines))
            self._folder.write_shard(shard, lines)
            manifest = manifest.with_shard(shard)
        run.save(manifest)

    def _split(self, model: OpenAIJudge, prompts: Mapping[str, Prompt]) -> Iterator[dict[str, str]]:
        """Yield the requests, as lines by their keys, in parts that the provider accepts."""
        part: dict[str, str] = {}
        size = 0
        for key, prompt in prompts.items():
            request = {"custom_id": key, "method": "POST", "url": model.wire.path, "body": model.body_of(prompt)}
            line = json_text(request)
            length = len(line.encode()) + 1
            if length > self._max_bytes:
                message = f"the prompt {prompt.name!r} with the key {key} has {length} bytes"
                limit = f"more than a batch may have ({self._max_bytes})"
                raise ConfigurationError(f"{message}, {limit}; shorten or leave out its case")
            if len(part) == self._max_requests or size + length > self._max_bytes:
                yield part
                part, size = {}, 0
            part[key] = line
            size += length
        if part:
            yield part

    async def _collect(self, run: _Run, shard: Shard, prompts: Mapping[str, Prompt]) -> None:
        """Put the verdicts of a shard into the cache, and save the state in which it is collected.

        Raises:
            JudgeError: Requests are not accounted for; the verdicts of the others are in the cache.
        """
        first: ShardAnswers | None = None
        try:
            first = await self._download(run, shard, prompts)
            if await run.are_final(shard, first, None):
                self._settle(run, shard, first)
                return
        except JudgeError as error:
            if error.outcome in TEMPORARY:
                raise
        # Also the id of a file may have been a wrong answer.
        shard = run.record(shard, await run.look(shard))
        second = await self._download(run, shard, prompts, again=True)
        if await run.are_final(shard, second, first):
            self._settle(run, shard, second)
            return
        missing = len(second.keys) - len(second.answers) + len(second.problems)
        problem = f"{missing} of {plural(len(second.keys), 'answer')} cannot be read"
        advice = "collect again, or look at it in the provider's console"
        message = f"the batch {shard.batch_id} is {shard.status}, but {problem}; {advice}"
        raise JudgeError(message, JudgeOutcome.TRANSIENT)

    async def _download(
        self, run: _Run, shard: Shard, prompts: Mapping[str, Prompt], *, again: bool = False
    ) -> ShardAnswers:
        """Store the files of answers before anything reads them, and put their verdicts into the cache.

        Files that are on disk already are only downloaded `again`.
        """
        downloaded = ShardAnswers(self._folder.keys(shard))
        for kind, file_id in zip(_KINDS, (shard.error_file_id, shard.output_file_id), strict=True):
            content = self._folder.read_answers(shard, kind)
            if file_id is not None and (content is None or again):
                content = await run.remote.download(file_id)
                self._folder.write_answers(shard, kind, content)
            if content is not None:
                downloaded.add_file(str(file_id), content, run.model.wire.reply)
        for key, answer in downloaded.answers.items():
            lost = self._cache_verdict(prompts[key], answer)
            if lost is not None:
                downloaded.problems[key] = lost
        return downloaded

    def _cache_verdict(self, prompt: Prompt, answer: Reply | EndpointError) -> Lost | None:
        """Put the verdict of an answer into the cache; return what is wrong with an answer that was billed."""
        if isinstance(answer, EndpointError):
            return _lost(answer) if answer.billed else None
        result = self._judge.keep(prompt, answer)
        if result.outcome is JudgeOutcome.OK:
            return None
        return Lost(outcome=result.outcome.value, problem=str(result.problem))

    def _settle(self, run: _Run, shard: Shard, downloaded: ShardAnswers) -> None:
        """Save the state after the answers of a shard, which are all that there will be."""
        answers = rejected_lines(downloaded.keys, shard.errors) | downloaded.answers
        attempts = Counter(self._keys(run.manifest, "collected"))
        unanswered = unusable_response_error("the batch ended before it was answered")
        if downloaded.lacks_answers(shard):
            unanswered = EndpointError(JudgeOutcome.MALFORMED, "the provider has no readable answer to it")
        lost = {**run.manifest.lost, **downloaded.problems}
        for key in downloaded.keys:
            answer = answers.get(key, unanswered)
            is_last = attempts[key] + 1 >= self._max_attempts
            if isinstance(answer, EndpointError) and (is_last or not answer.retry):
                lost.setdefault(key, _lost(answer))
        usage = add_usage(*[answer.usage for answer in answers.values() if isinstance(answer, Reply)])
        done = shard.model_copy(update={"state": "collected", "usage": usage})
        run.save(run.manifest.with_shard(done).model_copy(update={"lost": lost}))


class _Run:
    """A run of batches while its folder is locked; each change of its state is saved before the next step."""

    def __init__(self, folder: Folder, manifest: Manifest, model: OpenAIJudge) -> None:
        self.folder = folder
        self.manifest = manifest
        self.model = model
        self.remote = Remote(model, manifest)

    def save(self, manifest: Manifest) -> None:
        self.manifest = self.folder.save(manifest)

    def record(self, shard: Shard, fields: Mapping[str, Any]) -> Shard:
        """Save a shard with changed fields, and return it."""
        shard = shard.model_copy(update=fields)
        self.save(self.manifest.with_shard(shard))
        return shard

    async def send(self, *, search: bool) -> None:
        """Upload and create what is not created yet; with `search`, look first for batches that were not recorded."""
        unsent = [shard for shard in self.manifest.shards if shard.state in _UNSENT]
        files = {str(shard.file_id): shard.name for shard in unsent if shard.state == "uploaded"}
        unrecorded = await self.remote.find(files) if search else {}
        for planned in unsent:
            shard, batch = planned, unrecorded.get(planned.name)
            # Each step is saved before the next one, so that a crash repeats at most a step that costs nothing.
            if batch is None and shard.file_id is None:
                content = self.folder.read_requests(shard)
                file_id = await self.remote.upload(f"toolgrade-{shard.name}.jsonl", content)
                shard = self.record(shard, {"state": "uploaded", "file_id": file_id})
            if batch is None:
                batch = await self._create(shard)
            self.record(shard, batch)

    async def _create(self, shard: Shard) -> JsonObject:
        try:
            return await self.remote.create(shard.name, str(shard.file_id))
        except JudgeError as error:
            # The provider may not know the file, which it deletes after a while; uploading it again is free.
            if error.outcome not in TEMPORARY:
                self.record(shard, {"state": "planned", "file_id": None})
            raise

    async def check_status(self) -> None:
        """Record the provider's state of every batch that has not ended."""
        for shard in self.manifest.shards:
            if shard.state != "created" or shard.status in _ENDED:
                continue
            fields = await self.look(shard)
            current = shard.model_copy(update=fields)
            if current != shard:
                self.record(shard, fields)
            # The provider ends a batch when it expires; one that it forgot would be waited for without end.
            if current.status not in _ENDED and time.time() > (current.expires_at or math.inf) + _GRACE:
                message = f"the batch {current.batch_id} has not ended an hour after it expired"
                raise JudgeError(f"{message}; look at it in the provider's console", JudgeOutcome.FATAL)

    async def look(self, shard: Shard) -> JsonObject:
        """Return the provider's state of a batch, which is looked for in the list if its id is unknown there."""
        try:
            return await self.remote.look(str(shard.batch_id))
        except JudgeError as error:
            if error.outcome in TEMPORARY:
                raise
            batches = await self.remote.find({str(shard.file_id): shard.name})
            batch = batches.get(shard.name)
            if batch is None or batch["batch_id"] == shard.batch_id:
                raise
            return batch

    async def are_final(self, shard: Shard, downloaded: ShardAnswers, earlier: ShardAnswers | None) -> bool:
        """Return whether another download would have no more verdicts: every file has the size that is stated of it.

        Where the provider states none, an `earlier` download must have had the same answers.
        """
        if not downloaded.is_doubtful(shard):
            return True
        if not (downloaded.sizes and downloaded.has_answers):
            return False
        is_confirmed = earlier is not None and downloaded.confirms(earlier)
        for file_id, size in downloaded.sizes.items():
            stated = await self.remote.size(file_id)
            if stated != size and not (stated is None and is_confirmed):
                return False
        return True


class _OfflineModel:
    """A model that answers nothing, in place of one whose verdicts are cached."""

    def __init__(self, identity: JsonObject) -> None:
        self.identity = identity
        self.model = str(identity.get("model"))

    async def complete(self, prompt: Prompt, /) -> Reply:
        message = f"no verdict on {prompt.name} was collected, and this judge sends nothing; submit the prompt again"
        raise JudgeError(message, JudgeOutcome.ABORTED)


def _lost(error: EndpointError) -> Lost:
    return Lost(outcome=error.outcome.value, problem=error.message)
