"""The judge that a metric asks: a model with a cache, limits, costs and samples, whichever model it is."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, cast
from uuid import uuid4

from toolgrade._internal.json import JsonObject, to_json_value
from toolgrade._internal.locks import ForkSafeLock
from toolgrade._internal.options import require
from toolgrade._internal.sync_bridge import PerLoop
from toolgrade.errors import ConfigurationError, JudgeError, JudgeOutcome, ToolgradeError
from toolgrade.judge.cache import Cache, MemoryCache, SqliteCache, cache_key, open_cache
from toolgrade.judge.cost import (
    ANSWER_TOKENS,
    CostEstimate,
    Price,
    Prices,
    add_costs,
    add_usage,
    batch_prices,
    cost_of,
    estimate_cost,
    read_prices,
)
from toolgrade.judge.evidence import ImageAccess
from toolgrade.judge.models import (
    ModelLike,
    check_model,
    identity_of,
    is_paced,
    model_name,
    prices_of,
    request_reply,
    resolve_model,
)
from toolgrade.judge.openai.batch import BatchModel, BatchOptions
from toolgrade.judge.openai.guard import without_keys
from toolgrade.judge.prompts import parse_reply
from toolgrade.judge.protocol import JudgeVerdict, Prompt, Reply, TextModel
from toolgrade.redact import DEFAULT, Redactor
from toolgrade.stats import check_positive

_DEFAULT_CONCURRENCY = 16
_BLOCKED_SECONDS = 30.0
"""Seconds for which nothing is sent from an event loop after a permanent error."""

JudgeLike: TypeAlias = "Judge | ModelLike"
"""The values that `judge=` accepts."""


@dataclass(frozen=True, slots=True)
class PromptResult:
    """The verdict on one prompt, or why there is none.

    Attributes:
        prompt: The prompt.
        outcome: `ok` if there is a verdict.
        verdict: The verdict, if `ok`.
        problem: What went wrong, unless `ok`.
        usage: Tokens by name; empty for a cached verdict.
        requests: Requests that were sent.
        cost: At the judge's prices; `None` where they are unknown, 0 for a cached verdict.
        model: The model that answered.
        cached: Whether the verdict came from the cache.

    Example:
        >>> import asyncio
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.testing import sample_prompt
        >>> judge = Judge(lambda messages: "Yes, that was right.")
        >>> result = asyncio.run(judge.ask(sample_prompt()))
        >>> result.outcome.value, result.verdict, result.cost
        ('malformed', None, None)
        >>> result.problem
        "the judge's answer is malformed: expected a JSON object, got 'Yes, that was right.' (...)"
    """

    prompt: Prompt
    outcome: JudgeOutcome
    verdict: JudgeVerdict | None = None
    problem: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    requests: int = 0
    cost: float | None = 0.0
    model: str | None = None
    cached: bool = False


class _Waiting:
    """What belongs to one event loop: the queue for the model, the questions under way, and until when it is closed."""

    def __init__(self, max_concurrency: int | None) -> None:
        self.slots = nullcontext() if max_concurrency is None else asyncio.Semaphore(max_concurrency)
        self.pending: dict[str, asyncio.Future[PromptResult | None]] = {}
        self.blocked_until, self.permanent_problem = 0.0, ""


class Judge:
    """Asks a model, and caches, counts and checks its answers.

    Wherever a metric takes `judge=`, the model itself may be given; this class adds options. One object may serve many
    metrics, threads and event loops. No client is built, no key read and nothing sent before the first question.

    Args:
        model: The name of an OpenAI model, as for `OpenAIJudge`; an object with `complete` (see `TextModel`), with
            `generate` (see `GeneratingModel`) or with `invoke` (see `InvokableModel`); or a plain function, sync or
            async, from chat messages to the text of the reply.
            `None` uses the `TOOLGRADE_JUDGE_*` variables, read when the first question is asked.
        samples: How often each question is asked. The majority counts; without one the judge cannot tell. The result
            reports the share of samples that differ.
        canary: Also judge planted prompt-injection calls, to check that the judge ignores instructions in the data.
            A judge that obeys them is *compromised*, and every result says so.
        cache: `"memory"` keeps replies as long as this object lives; a path keeps them in an SQLite file; `None` does
            not cache; or an object with `get` and `put`.
        identity: What the answers of a function, or of a model without `identity`, depend on, such as
            `{"model": "my-model"}`. Needed for a cache other than memory.
        prices: Prices of a million tokens by the name of the model, as `Price` or a dict of its fields; by default the
            model's own `prices`.
        max_concurrency: Maximum number of parallel requests; by default the model's own limit, or 16; a batch has none.
        timeout: Seconds for one request to a model that has no limits of its own; `None` for no limit.
        batch: Ask over OpenAI's Batch API, for half the price and within a day; `BatchOptions` says how long to wait.
            This needs a model behind OpenAI's API and a `cache` in a file, which remembers what was submitted: a
            program that was stopped collects the answers when it runs again, and pays for nothing twice.
        image_addresses: Pass addresses of images on for the model's provider to fetch; else such a case fails.
        image_folder: The folder whose files may be sent as images: regular files in it, of at most 20,000,000 bytes.
            Relative paths of images start in it; a link that leads out of it is refused. Without it a case with an
            image in a file fails.
        max_characters: Maximum number of characters in all prompts about one case together. A case with more fails
            before anything is sent, with the number in the message. A token has about 3 characters.
        redactor: Redacts secrets before the judge sees them.

    Raises:
        ConfigurationError: An option is out of range, or `model` cannot judge.

    Example:
        >>> import asyncio
        >>> from toolgrade import Judge
        >>> from toolgrade.testing import sample_prompt
        >>> def model(messages):
        ...     return '{"evidence": ["c1"], "reasoning": "It fits.", "verdict": "yes"}'
        >>> judge = Judge(model, samples=3)
        >>> result = asyncio.run(judge.ask(sample_prompt("Was the call right?")))
        >>> result.verdict.decision.value, result.verdict.rationale
        ('yes', 'It fits.')
    """

    def __init__(
        self,
        model: ModelLike | None = None,
        *,
        samples: int = 1,
        canary: bool = False,
        cache: Cache | str | os.PathLike[str] | None = "memory",
        identity: Mapping[str, Any] | None = None,
        prices: Mapping[str, Price | Mapping[str, Any]] | None = None,
        max_concurrency: int | None = None,
        timeout: float | None = 120.0,
        batch: bool | BatchOptions = False,
        image_addresses: bool = False,
        image_folder: str | os.PathLike[str] | None = None,
        max_characters: int = 20_000_000,
        redactor: Redactor = DEFAULT,
    ) -> None:
        """Check and store the options."""
        self._model_like = check_model(model)
        check_positive(samples, "samples")
        self.samples: int = samples
        self.canary = canary
        self.images: ImageAccess = ImageAccess(None if image_folder is None else Path(image_folder), image_addresses)
        check_positive(max_characters, "max_characters")
        self.max_characters: int = max_characters
        self.redactor = redactor
        self._cache = open_cache(cache)
        self._identity = None if identity is None else cast("JsonObject", to_json_value(dict(identity)))
        self._object_identity = {"object": uuid4().hex}
        self._prices: Prices = prices_of(self._model_like) if prices is None else read_prices(prices)
        if max_concurrency is not None:
            check_positive(max_concurrency, "max_concurrency")
        require(timeout is None or timeout > 0, "timeout must be a number of seconds above 0, or None", timeout)
        self._batch = self._batch_options(batch)
        if self._batch is not None:
            self._prices, max_concurrency = batch_prices(self._prices), None
        # A paced model limits itself, and a second queue or clock around its own would only cut it short.
        paced = self.is_batched or is_paced(self._model_like)
        self._timeout = None if paced else timeout
        if max_concurrency is None and not paced:
            max_concurrency = _DEFAULT_CONCURRENCY
        self._waiting = PerLoop(lambda: _Waiting(max_concurrency))
        self._lock = ForkSafeLock()
        self._resolved: TextModel | None = None

    def _batch_options(self, batch: object) -> BatchOptions | None:
        """Return the options of batches; `None` if questions are asked one by one."""
        require(isinstance(batch, (bool, BatchOptions)), "batch must be True, False or BatchOptions", batch)
        if batch is not False and not isinstance(self._cache, SqliteCache):
            advice = "give Judge(..., cache='verdicts.sqlite'), which remembers what was submitted and paid for"
            raise ConfigurationError(f"batch needs a cache in a file: {advice}")
        return batch if isinstance(batch, BatchOptions) else BatchOptions() if batch else None

    @classmethod
    def of(cls, judge: JudgeLike | None) -> Judge:
        """Return the value of a `judge=` option as a `Judge`; `None` as in `Judge(None)`.

        Raises:
            ConfigurationError: The value cannot judge.
        """
        return judge if isinstance(judge, Judge) else cls(judge)

    def __repr__(self) -> str:
        """Return the name of the model; never a key."""
        return f"Judge({model_name(self._model_like)})"

    @property
    def name(self) -> str:
        """The name of the model, as far as it is known before it answers."""
        name = (self._identity or identity_of(self._model_like) or {}).get("model")
        return name if isinstance(name, str) else model_name(self._model_like)

    @property
    def model(self) -> TextModel:
        """The model to ask; built on first use."""
        with self._lock:
            if self._resolved is None:
                model = resolve_model(self._model_like)
                if self._batch is not None:
                    model = BatchModel(model, cast("SqliteCache", self._cache), self.key_of, self._batch)
                self._resolved = model
            return self._resolved

    @property
    def is_batched(self) -> bool:
        """Whether questions are asked over the Batch API: then all that can be asked should be asked at once."""
        return self._batch is not None

    def key_of(self, prompt: Prompt) -> str:
        """Return the cache key of a prompt.

        Raises:
            ConfigurationError: The cache outlives this object, and the model has no identity.
        """
        identity = self._identity or identity_of(self._model_like) or identity_of(self.model)
        # Nobody else reads a cache in memory, so there the object may stand for the model.
        if identity is None and isinstance(self._cache, MemoryCache):
            identity = self._object_identity
        if identity is None:
            advice = "give Judge(..., identity={'model': ...}), with whatever else the answers depend on"
            message = f"{self!r} has a cache that others may read, but does not say which model answers; {advice}"
            raise ConfigurationError(message)
        return cache_key(prompt, identity)

    def cached(self, prompt: Prompt) -> Reply | None:
        """Return the cached reply to a prompt, or `None`."""
        return None if self._cache is None else self._cache.get(self.key_of(prompt))

    @property
    def price(self) -> Price | None:
        """The price of a million tokens of the model; `None` if unknown."""
        return self._price(self.name)

    def estimate(self, prompts: Iterable[Prompt], *, answer_tokens: int = ANSWER_TOKENS) -> CostEstimate:
        """Return the estimated cost of asking some prompts; nothing is sent.

        Cached verdicts cost nothing, and a question that is asked twice counts once. Tokens are estimated from the
        length of the prompts.

        Args:
            prompts: Such as those of `metric.prompts(case)` for many cases.
            answer_tokens: Tokens of one answer; a reasoning model needs more.

        Raises:
            ToolgradeError: The cache cannot be used, or no judge is configured.
        """
        return estimate_cost(self._distinct(prompts), self.price, answer_tokens)

    def _distinct(self, prompts: Iterable[Prompt]) -> Iterator[tuple[Prompt, Reply | None]]:
        """Yield the first prompt of each key with its cached reply."""
        keys: set[str] = set()
        for prompt in prompts:
            key = cache_key(prompt, {}) if self._cache is None else self.key_of(prompt)
            if key not in keys:
                keys.add(key)
                yield prompt, self.cached(prompt)

    def store(self, prompt: Prompt, reply: Reply) -> PromptResult:
        """Return the result of a reply, and cache the reply if it holds a verdict."""
        result = self._result(prompt, reply)
        # A refusal or a truncated answer is not cached: asked again, the model may give a verdict.
        if result.outcome is JudgeOutcome.OK and self._cache is not None:
            self._cache.put(self.key_of(prompt), reply)
        return result

    async def ask(self, prompt: Prompt, /) -> PromptResult:
        """Return the result of one prompt: from the cache, or from the model.

        While a question is pending, the same question from this event loop waits for its verdict instead of being sent.
        After a permanent error (a wrong key, an exhausted account, an unknown model) nothing is sent from this event
        loop for half a minute, so that a long run ends instead of failing question by question.

        Raises:
            ToolgradeError: The judge cannot be asked at all: a package is missing, a setting is wrong, the cache is
                unusable. A failure of a single question is an outcome instead.
        """
        if self._cache is None:
            return await self._request(prompt)
        key = self.key_of(prompt)
        result = self._cached_result(prompt, self._cache.get(key))
        if result is not None:
            return result
        pending = self._waiting.get().pending
        if key in pending:
            first = await asyncio.shield(pending[key])
            result = self._cached_result(prompt, self._cache.get(key))
            if result is None and first is not None and self.is_batched:  # another batch may take another day
                return replace(first, prompt=prompt, usage={}, requests=0, cost=0.0)
            # Only verdicts are shared: if the other request fails, each waiting one asks for itself.
            return result or await self._request(prompt)
        pending[key] = asyncio.get_running_loop().create_future()
        try:
            result = await self._request(prompt)
            return result
        finally:
            pending.pop(key).set_result(result)

    def _cached_result(self, prompt: Prompt, reply: Reply | None) -> PromptResult | None:
        if reply is None:
            return None
        result = self._result(prompt, reply)
        if result.verdict is None:  # of an earlier version, which read it otherwise
            return None
        return PromptResult(prompt, JudgeOutcome.OK, result.verdict, model=result.model, cached=True)

    async def _request(self, prompt: Prompt) -> PromptResult:
        """Return the result of sending one prompt to the model; a malformed reply is asked for again once."""
        result = await self._sent(prompt)
        if result.outcome is not JudgeOutcome.MALFORMED or self.is_batched:  # another batch may take another day
            return result
        again = await self._sent(prompt)
        usage, cost = add_usage(result.usage, again.usage), add_costs([result.cost, again.cost])
        return replace(again, usage=usage, requests=result.requests + again.requests, cost=cost)

    async def _sent(self, prompt: Prompt) -> PromptResult:
        """Return the result of sending one prompt to the model once."""
        try:
            reply = await self.reply(prompt)
        except JudgeError as error:
            return self._failure(prompt, error)
        return self.store(prompt, reply)

    async def reply(self, prompt: Prompt, /) -> Reply:
        """Return what the model replies to a prompt; neither cached nor checked, for prompts that ask for no verdict.

        Raises:
            JudgeError: There is no reply; `outcome` says why, as for `ask`.
            ToolgradeError: The judge cannot be asked at all, as for `ask`.
        """
        model, here = self.model, self._waiting.get()
        try:
            async with here.slots:
                if time.monotonic() < here.blocked_until:
                    raise JudgeError(here.permanent_problem, JudgeOutcome.ABORTED)  # noqa: TRY301 - as of the model
                return await asyncio.wait_for(request_reply(model, prompt), self._timeout)
        except JudgeError as error:
            if error.outcome is JudgeOutcome.FATAL:
                here.blocked_until = time.monotonic() + _BLOCKED_SECONDS
                here.permanent_problem = f"not asked: another question met a permanent error, {error}"
            raise
        except ToolgradeError:
            raise
        except (TimeoutError, asyncio.TimeoutError) as error:
            problem = str(error) or f"no answer within {self._timeout:g} seconds"
            raise JudgeError(problem, JudgeOutcome.TIMEOUT, attempts=1) from None
        except Exception as error:  # noqa: BLE001 - the model may be anybody's code
            problem = without_keys(f"{type(error).__name__}: {error}")
            raise JudgeError(problem, JudgeOutcome.TRANSIENT, attempts=1) from None

    def _result(self, prompt: Prompt, reply: Reply) -> PromptResult:
        try:
            verdict = parse_reply(prompt, reply)
        except JudgeError as error:
            failure = JudgeError(str(error), error.outcome, usage=reply.usage, attempts=reply.attempts)
            return self._failure(prompt, failure, reply.model)
        model = reply.model or self.name
        cost = self.cost(reply.usage, model)
        return PromptResult(prompt, JudgeOutcome.OK, verdict, None, reply.usage, reply.attempts, cost, model)

    def _failure(self, prompt: Prompt, error: JudgeError, model: str | None = None) -> PromptResult:
        model = model or self.name
        cost = self.cost(error.usage, model)
        return PromptResult(prompt, error.outcome, None, str(error), error.usage, error.attempts, cost, model)

    def cost(self, usage: Mapping[str, int], model: str) -> float | None:
        """Return the cost of tokens of a model at the judge's prices; `None` where they are unknown."""
        price = self._price(model)
        if price is not None:
            return cost_of(usage, price)
        # Without a price, spent tokens cost an unknown amount; a request that spent none is free for a user of prices.
        return 0.0 if self._prices and not usage else None

    def _price(self, model: str) -> Price | None:
        return self._prices.get(model, self._prices.get(self.name))
