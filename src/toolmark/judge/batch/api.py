"""The same questions over OpenAI's Batch API: half the price, within a day, and safe against the end of the program.

```python
from toolmark.judge import Judge
from toolmark.judge.batch import Batch

judge = Judge("gpt-4.1", cache="verdicts.sqlite")
metric = ToolUseMetric(judge=judge)
batch = Batch("batches", judge)
batch.submit(prompt for case in cases for prompt in metric.prompts(case))
batch.poll()
batch.collect()
report = evaluate(cases, [metric])  # asks nothing: the verdicts are in the cache
```

Three verbs, each of which may be called again at any time, by the same program or another one. `submit` sees to it that
every prompt without a verdict is under way, and sends nothing a second time that is; `poll` waits; `collect` fetches.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from toolmark._internal.atomic_files import write_bytes
from toolmark._internal.json import JsonObject
from toolmark._internal.sync_bridge import run_sync
from toolmark.errors import ConfigurationError, JudgeError, JudgeOutcome
from toolmark.judge.batch.answers import Found, refused_lines, results_of
from toolmark.judge.batch.files import Folder, Lost, Manifest, Shard, line_of
from toolmark.judge.batch.remote import PASSES, Remote
from toolmark.judge.cache import Cache
from toolmark.judge.cost import CostEstimate
from toolmark.judge.judge import Judge, JudgeLike
from toolmark.judge.openai import OpenAIJudge
from toolmark.judge.prices import add_usage
from toolmark.judge.protocol import Prompt, Reply

__all__ = ["Batch", "BatchState", "Lost", "Shard"]

MOST_REQUESTS: Final = 50_000
"""Requests that one batch may have."""

MOST_BYTES: Final = 200_000_000
"""Bytes that the file of one batch may have."""

LONGEST_INTERVAL: Final = 120.0
"""Seconds between two looks at the provider, at most."""

_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_GROWTH = 1.5
_GRACE = 3600
_DAY = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class BatchState:
    """How far a run of batches is.

    Attributes:
        prompts: Prompts that were ever submitted.
        verdicts: Of them, those whose verdict is in the judge's cache.
        under_way: Of them, those that are in a batch whose answers were not collected yet.
        open: Of them, those that the next `submit` sends again: what expired, was cancelled or failed.
        lost: Those that are not sent again, by their keys: what came back was no verdict, or they failed too often.
        shards: The batches, in the order of their creation.
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
        """Tokens of all answers that were collected."""
        return add_usage(*[shard.usage for shard in self.shards])


class Batch:
    """One run of batches: what was asked, where it is, and what came of it, in a folder.

    The folder holds the prompts and the answers, and so what the cases hold, without what the judge's redactor takes
    out; it holds no key. One process at a time works on it. It can be deleted once the verdicts are in the cache.
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
        """Keep the settings; nothing is read, written or sent.

        Args:
            folder: Where the state is kept; made when it is needed.
            judge: Who judges, as for a metric: a model of OpenAI, and a cache that the verdicts go to.
            max_requests: Requests in one batch; at most 50,000.
            max_bytes: Bytes in the file of one batch; at most 200,000,000.
            max_attempts: How many batches a prompt may be in, where it comes back from none.

        Raises:
            ConfigurationError: A limit is out of range.
        """
        for name, value, most in (
            ("max_requests", max_requests, MOST_REQUESTS),
            ("max_bytes", max_bytes, MOST_BYTES),
            ("max_attempts", max_attempts, 100),
        ):
            if not 1 <= value <= most:
                raise ConfigurationError(f"{name} must be from 1 to {most}, got {value!r}")
        self._folder = Folder(folder)
        self._judge = Judge.of(judge)
        self._limits = (max_requests, max_bytes)
        self._max_attempts = max_attempts

    @classmethod
    def reopened(cls, folder: str | os.PathLike[str], *, cache: Cache | str | os.PathLike[str]) -> Batch:
        """Return the run of batches that is in a folder, with the judge that it was begun with.

        The key comes from the environment, see `OpenAIJudge`.

        Args:
            folder: Where the state is kept.
            cache: Where the verdicts go, as for `toolmark.judge.Judge`.

        Raises:
            ConfigurationError: There is no batch in the folder.
        """
        known = Folder(folder).manifest()
        if known is None:
            raise _none_in(folder)
        model = known.model
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
    ) -> Judge:
        """Return a judge that knows the verdicts of the run of batches in a folder, and asks nobody.

        A question without a verdict has the outcome `aborted`, and costs nothing.

        Args:
            folder: Where the state is kept.
            cache: Where the verdicts went.
            samples: As of the judge that was asked.
            canary: Likewise.

        Raises:
            ConfigurationError: There is no batch in the folder.
        """
        known = Folder(folder).manifest()
        if known is None:
            raise _none_in(folder)
        return Judge(_Nobody(known.model), cache=cache, samples=samples, canary=canary)

    @property
    def folder(self) -> Path:
        """Where the state is kept."""
        return self._folder.path

    def estimate(self, prompts: Iterable[Prompt] = (), *, answer_tokens: int | None = None) -> CostEstimate:
        """Return what `submit` of these prompts would cost, about; nothing is sent or written.

        What failed in a batch and is sent again is not foreseen.

        Args:
            prompts: As for `submit`.
            answer_tokens: Tokens of one answer, see `Judge.estimate`.

        Raises:
            ConfigurationError: The folder belongs to another judge, or the judge cannot be asked in batches.

        Example:
            ```python
            batch.estimate(prompts).check(max_cost=10.0)  # raises where it would cost more
            batch.submit(prompts)
            ```
        """
        manifest = self._begun(self._model())
        under_way = [shard for shard in manifest.shards if shard.state == "created"]  # others will be sent
        settled = {key for shard in under_way for key in self._folder.keys(shard)} | set(manifest.lost)
        listed = self._folder.prompts()
        for prompt in prompts:
            listed.setdefault(self._judge.key_of(prompt), prompt)
        waiting = {key for key in settled & listed.keys() if self._judge.cached(listed[key]) is None}
        listed = {key: prompt for key, prompt in listed.items() if key not in waiting}
        single = self._judge.estimate(listed.values(), answer_tokens=answer_tokens)
        return replace(single, prompts=single.prompts + len(waiting), settled=len(waiting), batch=True)

    def submit(self, prompts: Iterable[Prompt] = ()) -> BatchState:
        """See to it that every prompt without a verdict is under way.

        Prompts whose verdict is in the cache are left out. What an earlier call planned, and did not send because the
        program ended, is sent; what it sent and could not write down is found again at the provider. What came back
        without an answer is sent again, alone.

        Args:
            prompts: Prompts beside those that were submitted before, such as those of `metric.prompts(case)`.

        Raises:
            JudgeError: The provider refuses; what was sent before is kept.
            ConfigurationError: The folder belongs to another judge, is in use, or the judge cannot be asked in batches.
        """
        judge = self._model()
        with self._folder.locked():
            manifest = self._begun(judge)
            doubtful = [shard.name for shard in manifest.shards if shard.state in ("planned", "uploaded")]
            manifest = self._planned(manifest, judge, prompts)
            run_sync(self._sent(manifest, judge, doubtful))
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
            batch_status_check_interval: Seconds between two looks; they grow by half each time, up to 120. 0 looks
                without a pause.
            batch_max_iterations: Looks after which to return whatever the state is; by default none, since a batch may
                take a day. Nothing is lost by stopping: call it again.
            on_state: Told the state after each look.

        Raises:
            JudgeError: The provider refuses, or a batch has not ended an hour after it should have.
            ConfigurationError: There is nothing to wait for, or the folder is in use.
        """
        interval, looks = batch_status_check_interval, 0
        if interval < 0 or (batch_max_iterations is not None and batch_max_iterations < 1):
            raise ConfigurationError(
                "batch_status_check_interval must not be negative, batch_max_iterations at least 1"
            )
        while True:
            with self._folder.locked():
                manifest = self._known()
                try:
                    run_sync(self._looked(manifest, self._model()))
                except JudgeError as error:
                    if error.outcome not in PASSES:
                        raise
            state = self.state()
            if on_state is not None:
                on_state(state)
            looks += 1
            if state.ended or looks == batch_max_iterations:
                return state
            time.sleep(interval)
            interval = max(interval, min(interval * _GROWTH, LONGEST_INTERVAL))

    def collect(self) -> BatchState:
        """Fetch the answers of the batches that have ended, and put the verdicts into the judge's cache.

        Raises:
            JudgeError: An answer cannot be fetched; call it again.
            ConfigurationError: There is no batch, or the folder is in use.
        """
        judge = self._model()
        with self._folder.locked():
            manifest = self._known()
            prompts = self._folder.prompts()
            for shard in manifest.shards:
                if shard.state == "created" and shard.status in _ENDED:
                    run_sync(self._fetched(manifest, shard, judge))
                    manifest = self._folder.save(self._settled(manifest, shard, judge, prompts))
        return self.state()

    def state(self) -> BatchState:
        """Return how far it is, as it stands in the folder; nothing is sent.

        Raises:
            ConfigurationError: There is no batch in the folder.
        """
        manifest = self._known()
        prompts = self._folder.prompts()
        verdicts = {key for key, prompt in prompts.items() if self._judge.cached(prompt) is not None}
        busy = self._busy(manifest) - verdicts
        rest = set(prompts) - verdicts - busy - set(manifest.lost)
        lost = {key: lost for key, lost in manifest.lost.items() if key not in verdicts}
        return BatchState(len(prompts), len(verdicts), len(busy), len(rest), lost, manifest.shards)

    def _model(self) -> OpenAIJudge:
        model = self._judge.model
        if not isinstance(model, OpenAIJudge):
            told = (
                f"batches need a judge behind OpenAI's API, got {self._judge!r}; give a model's name or an OpenAIJudge"
            )
            raise ConfigurationError(told)
        if not self._judge.keeps:
            raise ConfigurationError("batches need a judge with a cache, where the verdicts go: Judge(..., cache=...)")
        return model

    def _known(self) -> Manifest:
        manifest = self._folder.manifest()
        if manifest is None:
            raise _none_in(self.folder)
        return manifest

    def _busy(self, manifest: Manifest) -> set[str]:
        return {key for shard in manifest.shards if shard.state != "collected" for key in self._folder.keys(shard)}

    # submit

    def _begun(self, judge: OpenAIJudge) -> Manifest:
        """Return the state of the run that is in the folder, or of one that begins."""
        manifest = self._folder.manifest() or Manifest.new(judge.identity)
        if manifest.model != judge.identity:
            told = f"{str(self._folder.path)!r} holds batches of {manifest.model}, not of {judge.identity}"
            raise ConfigurationError(f"{told}; use another folder")
        return manifest

    def _planned(self, manifest: Manifest, judge: OpenAIJudge, prompts: Iterable[Prompt]) -> Manifest:
        """Write down what is to be sent: prompts and requests first, then the manifest that names them."""
        known = self._folder.prompts()
        before = len(known)
        for prompt in prompts:
            if self._judge.cached(prompt) is None:
                known.setdefault(self._judge.key_of(prompt), prompt)
        if len(known) > before:
            self._folder.keep_prompts(known)
        settled = self._busy(manifest) | set(manifest.lost)
        todo = {
            key: prompt for key, prompt in known.items() if key not in settled and self._judge.cached(prompt) is None
        }
        for part in self._parts(judge, todo):
            shard = Shard(name=f"{len(manifest.shards) + 1:04d}", requests=len(part))
            self._folder.keep_shard(shard, part)
            manifest = manifest.with_shard(shard)
        return self._folder.save(manifest)

    def _parts(self, judge: OpenAIJudge, prompts: Mapping[str, Prompt]) -> Iterable[list[tuple[str, str]]]:
        """Yield the requests in parts that the provider takes, each request with its key."""
        most, bytes_allowed = self._limits
        part: list[tuple[str, str]] = []
        size = 0
        for key, prompt in prompts.items():
            line = line_of(key, judge.wire.path, judge.body_of(prompt))
            length = len(line.encode()) + 1
            if length > bytes_allowed:
                told = f"the prompt {prompt.name!r} with the key {key} has {length} bytes, more than a batch may have"
                raise ConfigurationError(f"{told} ({bytes_allowed}); shorten or leave out its case")
            if part and (len(part) == most or size + length > bytes_allowed):
                yield part
                part, size = [], 0
            part.append((key, line))
            size += length
        if part:
            yield part

    async def _sent(self, manifest: Manifest, judge: OpenAIJudge, doubtful: Sequence[str]) -> None:
        """Upload and create what is not created yet.

        Args:
            manifest: The state on the disk.
            judge: Who is asked.
            doubtful: Names of shards that an earlier process may have sent without writing it down.
        """
        remote = Remote(judge, manifest.run)
        since = manifest.created - _DAY  # clocks differ
        found = await remote.find(since) if doubtful else {}
        for planned in manifest.shards:
            if planned.state not in ("planned", "uploaded"):
                continue
            shard, batch = planned, found.get(planned.name)
            if batch is None and shard.file_id is None:
                content = self._folder.requests(shard).read_bytes()
                file_id = await remote.upload(f"toolmark-{shard.name}.jsonl", content)
                shard = shard.model_copy(update={"state": "uploaded", "file_id": file_id})
                manifest = self._folder.save(manifest.with_shard(shard))
            if batch is None:
                batch = await remote.create(shard.name, f"{shard.file_id}", since)
            manifest = self._folder.save(manifest.with_shard(_created(shard, batch)))

    async def _looked(self, manifest: Manifest, judge: OpenAIJudge) -> None:
        """Ask the provider for the state of every batch that has not ended."""
        remote = Remote(judge, manifest.run)
        for shard in manifest.shards:
            if shard.state != "created" or shard.status in _ENDED:
                continue
            looked = _created(shard, await remote.look(f"{shard.batch_id}"))
            if looked != shard:
                manifest = self._folder.save(manifest.with_shard(looked))
            if looked.status not in _ENDED and looked.expires_at and time.time() > looked.expires_at + _GRACE:
                told = f"the batch {shard.batch_id} has not ended, although its time was over an hour ago"
                raise JudgeError(f"{told}; look at it in the provider's own console", JudgeOutcome.FATAL)

    async def _fetched(self, manifest: Manifest, shard: Shard, judge: OpenAIJudge) -> None:
        """Download the files of answers that are not on the disk yet."""
        remote = Remote(judge, manifest.run)
        for kind, file_id in (("output", shard.output_file_id), ("error", shard.error_file_id)):
            path = self._folder.answers(shard, kind)
            if file_id is not None and not path.exists():
                write_bytes(path, await remote.download(file_id))

    def _settled(self, manifest: Manifest, shard: Shard, judge: OpenAIJudge, prompts: Mapping[str, Prompt]) -> Manifest:
        """Put the verdicts of a shard into the cache, and return the state in which it is collected."""
        keys = self._folder.keys(shard)
        found: dict[str, Found] = refused_lines(keys, shard.errors)
        for kind in ("output", "error"):
            path = self._folder.answers(shard, kind)
            if path.exists():
                found |= results_of(path.read_text(encoding="utf-8"), judge.wire.reply)
        lost = dict(manifest.lost)
        usage: dict[str, int] = {}
        attempts = Counter(
            key for other in manifest.shards if other.state == "collected" for key in self._folder.keys(other)
        )
        for key in keys:
            result = found.get(key, Found(problem="the batch ended before it was answered", again=True))
            if result.reply is not None:
                usage = add_usage(usage, result.reply.usage)
                answered = self._judge.keep(prompts[key], result.reply)
                if answered.outcome is not JudgeOutcome.OK:
                    lost[key] = Lost(outcome=answered.outcome.value, problem=f"{answered.problem}")
            elif not result.again or attempts[key] + 1 >= self._max_attempts:
                lost[key] = Lost(outcome=result.outcome.value, problem=result.problem)
        done = shard.model_copy(update={"state": "collected", "usage": usage})
        return manifest.with_shard(done).model_copy(update={"lost": lost})


class _Nobody:
    """Stands for a model that is not asked any more."""

    def __init__(self, identity: JsonObject) -> None:
        self.identity = identity
        self.model = f"{identity.get('model')}"

    async def complete(self, prompt: Prompt, /) -> Reply:
        told = f"no verdict on {prompt.name} came back, and nobody is asked here; submit it again"
        raise JudgeError(told, JudgeOutcome.ABORTED)


def _none_in(folder: str | os.PathLike[str]) -> ConfigurationError:
    return ConfigurationError(f"there are no batches in {os.fspath(folder)!r}; submit some first")


def _created(shard: Shard, batch: JsonObject) -> Shard:
    """Return a shard with what the provider says of its batch."""
    told = {name: batch.get(name) for name in ("status", "expires_at", "output_file_id", "error_file_id")}
    errors = tuple((batch.get("errors") or {}).get("data") or [])
    return shard.model_copy(update={**told, "state": "created", "batch_id": f"{batch['id']}", "errors": errors})
