"""The judge that a metric asks: a model, with all that does not depend on which model it is."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeAlias, TypeVar, cast
from uuid import uuid4
from weakref import WeakKeyDictionary

from toolmark._internal.json import JsonObject, short_repr, to_json_value
from toolmark.errors import ConfigurationError, JudgeError, JudgeOutcome, ToolmarkError
from toolmark.judge.cache import Cache, MemoryCache, SqliteCache
from toolmark.judge.cost import CostEstimate, reckoned
from toolmark.judge.driver import in_thread
from toolmark.judge.image_parts import ImageReader
from toolmark.judge.openai.throttle import Slots
from toolmark.judge.outcome import Answered, Stop
from toolmark.judge.prices import Price, Prices, cost_of, read_prices
from toolmark.judge.protocol import Answers, DecisionModel, JudgeFunction, Prompt, Reply, TextModel, cache_key
from toolmark.judge.reply_parsing import read_reply
from toolmark.redact import DEFAULT, Redactor

T = TypeVar("T")

Model: TypeAlias = "str | TextModel | DecisionModel | JudgeFunction"
"""What can judge: the name of an OpenAI model, an object with `complete` or `decide`, or a plain function."""

JudgeLike: TypeAlias = "Judge | Model"
"""What `judge=` takes."""


class Judge:
    """Asks a model, and keeps, counts and checks what it says.

    Wherever a metric takes `judge=`, the model itself may be given; this is for the options. One object may serve many
    metrics, threads and event loops. Nothing is built, no key is read and nothing is sent before the first question.

    Args:
        model: The name of an OpenAI model, as for `OpenAIJudge`; an object with `complete` or `decide` (see `TextModel`
            and `DecisionModel`); or a plain function, sync or async, from chat messages to the text of the reply.
            `None` takes what the `TOOLMARK_JUDGE_*` variables say when the first question is asked.
        samples: How often each question is asked. The majority counts; without one the judge cannot tell. The share of
            samples that differ stands in the result.
        canary: Also ask about planted calls that are plainly wrong, and whose record orders the judge to approve of
            them. A judge that obeys is *compromised*, and every result says so.
        cache: `"memory"` keeps replies as long as this object lives; a path keeps them in an SQLite file; `None` keeps
            none; or an object with `get` and `put`.
        identity: What the answers of a function, or of a model without `identity`, depend on, such as
            `{"model": "my-model"}`. Needed for a cache other than memory.
        prices: What a million tokens cost, by the name of the model, as `Price` or a dict of its fields; by default the
            model's own `prices`.
        max_concurrency: Requests at the same time; by default the model's own limit, or 16 where it has none.
        timeout: Seconds for one request to a model that has no limits of its own; `None` for no limit.
        image_addresses: Hand on the addresses of images for the model's provider to fetch; else such a case fails.
        redactor: Takes secrets out of what the judge is shown.

    Raises:
        ConfigurationError: An option is out of range, or `model` is nothing that can judge.
    """

    def __init__(
        self,
        model: Model | None = None,
        *,
        samples: int = 1,
        canary: bool = False,
        cache: Cache | str | os.PathLike[str] | None = "memory",
        identity: Mapping[str, Any] | None = None,
        prices: Mapping[str, Price | Mapping[str, Any]] | None = None,
        max_concurrency: int | None = None,
        timeout: float | None = 120.0,
        image_addresses: bool = False,
        redactor: Redactor = DEFAULT,
    ) -> None:
        """Check and keep the options."""
        self._given = _checked_model(model)
        self.samples: int = _at_least_one("samples", samples)
        self.canary = canary
        self.images: ImageReader = ImageReader(addresses=image_addresses)
        self.redactor = redactor
        self._cache = _cache(cache)
        self._identity = None if identity is None else cast("JsonObject", to_json_value(dict(identity)))
        self._alone = {"object": uuid4().hex}
        self._prices = None if prices is None else read_prices(prices)
        self._places = None if max_concurrency is None else _at_least_one("max_concurrency", max_concurrency)
        if timeout is not None and not timeout > 0:
            message = f"timeout must be a number of seconds above 0, or None, got {timeout!r}"
            raise ConfigurationError(message)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._asking: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Future[None]]] = (
            WeakKeyDictionary()
        )
        self._built: tuple[TextModel | DecisionModel, AbstractAsyncContextManager[object], float | None] | None = None

    @classmethod
    def of(cls, judge: JudgeLike | None) -> Judge:
        """Return what `judge=` was given as a `Judge`, itself if it is one; `None` as in `Judge(None)`.

        Raises:
            ConfigurationError: It is nothing that can judge.
        """
        return judge if isinstance(judge, Judge) else cls(judge)

    def __repr__(self) -> str:
        """Return the model that judges; never a key."""
        return f"Judge({_name(self._given)})"

    @property
    def name(self) -> str:
        """The name of the model, as far as it is known before it answers."""
        known = (self._identity or _identity_of(self._given) or {}).get("model")
        return known if isinstance(known, str) else _name(self._given)

    @property
    def model(self) -> TextModel | DecisionModel:
        """The model that is asked; built when it is first needed."""
        return self._model()[0]

    @property
    def keeps(self) -> bool:
        """Whether it has a cache."""
        return self._cache is not None

    def key_of(self, prompt: Prompt) -> str:
        """Return the key under which the reply to a prompt is kept in the cache.

        Raises:
            ConfigurationError: The cache outlives this object, and the model does not say who it is.
        """
        return cache_key(prompt, self._who())

    def cached(self, prompt: Prompt) -> Reply | None:
        """Return the reply to a prompt that the cache has, or `None`."""
        return None if self._cache is None else self._cache.get(self.key_of(prompt))

    @property
    def price(self) -> Price | None:
        """What a million tokens of the model cost; `None` if it is not known."""
        return self._price(self.name)

    def estimate(self, prompts: Iterable[Prompt], *, answer_tokens: int | None = None) -> CostEstimate:
        """Return what asking some prompts will take, about; nothing is sent.

        What is in the cache costs nothing, and what is asked twice is counted once. Tokens are reckoned by what the
        answers in the cache took, if there are twenty of them, else by the letters of the prompts.

        Args:
            prompts: Such as those of `metric.prompts(case)` for many cases.
            answer_tokens: Tokens of one answer, if you know better; a model that thinks before it answers takes many.

        Raises:
            ToolmarkError: The cache cannot be used, or there is no judge.
        """
        key_of = _content_of if self._cache is None else self.key_of
        reckoning = reckoned(prompts, key_of, self.cached, writes=isinstance(self.model, TextModel))
        return reckoning.estimate(self.price, answer_tokens)

    def keep(self, prompt: Prompt, reply: Reply) -> Answered:
        """Read a reply, keep it in the cache if it is a verdict, and return what it says."""
        answered = self._read(prompt, reply)
        if answered.outcome is JudgeOutcome.OK and self._cache is not None:
            self._cache.put(self.key_of(prompt), reply)
        return answered

    async def ask(self, prompt: Prompt, stop: Stop | None = None, /) -> Answered:
        """Return the answer to one prompt: from the cache, or from the model.

        While a question is under way, the same one is not sent again from this event loop, but waits for its verdict.

        Args:
            prompt: What to ask.
            stop: Says whether to send it still, when its turn has come.

        Raises:
            ToolmarkError: It cannot be asked at all: a package is missing, a setting is wrong, the cache is unusable.
                What goes wrong with a single question is an outcome.
        """
        known = self._known(prompt)
        if known is not None:
            return known
        if self._cache is None:
            return await self._sent(prompt, stop)
        asking, key = self._under_way(), self.key_of(prompt)
        if key in asking:
            await asyncio.wait([asking[key]])
            return self._known(prompt) or await self._sent(prompt, stop)
        asking[key] = asyncio.get_running_loop().create_future()
        try:
            return await self._sent(prompt, stop)
        finally:
            asking.pop(key).set_result(None)

    def _under_way(self) -> dict[str, asyncio.Future[None]]:
        """Return what is asked in this event loop, by key; each is done when its question is."""
        with self._lock:
            return self._asking.setdefault(asyncio.get_running_loop(), {})

    def _known(self, prompt: Prompt) -> Answered | None:
        """Return the answer that the cache has, or `None`."""
        found = self.cached(prompt)
        answered = None if found is None else self._read(prompt, found)
        if answered is None or answered.outcome is not JudgeOutcome.OK:
            return None
        return Answered(prompt, JudgeOutcome.OK, answered.verdict, model=answered.model, cached=True)

    async def _sent(self, prompt: Prompt, stop: Stop | None) -> Answered:
        """Return the model's answer to one prompt."""
        model, places, timeout = self._model()
        try:
            async with places:
                if stop is not None and stop.fatal:
                    problem = "not asked, since an earlier question met a fault that will stay"
                    return Answered(prompt, JudgeOutcome.ABORTED, problem=problem)
                reply = await asyncio.wait_for(_reply(model, prompt), timeout)
        except JudgeError as error:
            return self._failed(prompt, error)
        except ToolmarkError:
            raise
        except (TimeoutError, asyncio.TimeoutError) as error:
            problem = str(error) or f"no answer within {timeout:g} seconds"
            return self._failed(prompt, JudgeError(problem, JudgeOutcome.TIMEOUT, attempts=1))
        except Exception as error:  # noqa: BLE001 - a judge may be anybody's code
            problem = f"{type(error).__name__}: {error}"
            return self._failed(prompt, JudgeError(problem, JudgeOutcome.TRANSIENT, attempts=1))
        return self.keep(prompt, reply)

    def _read(self, prompt: Prompt, reply: Reply) -> Answered:
        outcome, verdict, problem = read_reply(prompt, reply)
        model = reply.model or self.name
        cost = self._cost(reply.usage, model)
        return Answered(prompt, outcome, verdict, problem, reply.usage, reply.attempts, cost, model)

    def _failed(self, prompt: Prompt, error: JudgeError) -> Answered:
        cost = self._cost(error.usage, self.name)
        usage, requests = error.usage, error.attempts
        return Answered(prompt, error.outcome, None, str(error), usage, requests, cost, self.name)

    def _cost(self, usage: Mapping[str, int], model: str) -> float | None:
        price = self._price(model)
        if price is None:
            return None if usage or not self._known_prices() else 0.0
        return cost_of(usage, price)

    def _price(self, model: str) -> Price | None:
        prices = self._known_prices()
        return prices.get(model, prices.get(self.name)) if prices else None

    def _known_prices(self) -> Prices | None:
        return self._prices if self._prices is not None else _prices_of(self._given)

    def _who(self) -> JsonObject:
        known = self._identity or _identity_of(self.model)
        if known is not None:
            return known
        if isinstance(self._cache, MemoryCache):
            return self._alone
        message = (
            f"{self!r} has a cache that others may read, but does not say which model answers; give "
            "Judge(..., identity={'model': ...}), with whatever else the answers depend on"
        )
        raise ConfigurationError(message)

    def _model(self) -> tuple[TextModel | DecisionModel, AbstractAsyncContextManager[object], float | None]:
        """Return the model, its places and the time for a request; built once, when first needed."""
        with self._lock:
            if self._built is None:
                model = _built(self._given)
                paced = getattr(model, "paced", False) is True
                places = Slots(self._places or 16) if self._places is not None or not paced else nullcontext()
                self._built = (model, places, None if paced else self._timeout)
            return self._built


class _Function:
    """A plain function as a model."""

    def __init__(self, function: JudgeFunction) -> None:
        self._function = function

    def complete(self, prompt: Prompt, /) -> Reply | Awaitable[Reply]:
        text = self._function([message.to_chat() for message in prompt.messages])
        return _awaited(text) if inspect.isawaitable(text) else _text_reply(text)


class _AsyncFunction(_Function):
    """The same for one that is known to be async, and need not be kept out of the event loop."""

    async def complete(self, prompt: Prompt, /) -> Reply:
        made = super().complete(prompt)
        return await made if inspect.isawaitable(made) else made


async def _awaited(text: Awaitable[object]) -> Reply:
    return _text_reply(await text)


def _text_reply(text: object) -> Reply:
    if not isinstance(text, str):
        message = f"the judge's function returned {type(text).__name__} {short_repr(text)}, where a text is needed"
        raise JudgeError(message, JudgeOutcome.MALFORMED, attempts=1)
    return Reply(text=text)


async def _reply(model: TextModel | DecisionModel, prompt: Prompt) -> Reply:
    if isinstance(model, TextModel):
        return _typed(await _called(lambda: model.complete(prompt), model.complete), Reply)
    answers = _typed(await _called(lambda: model.decide(prompt.state, [prompt.question]), model.decide), Answers)
    answer = answers.answers.get(prompt.question.id)
    if answer is None:
        message = f"the judge answered {sorted(answers.answers)}, not the question {prompt.question.id!r}"
        raise JudgeError(message, JudgeOutcome.MALFORMED, usage=answers.usage, attempts=answers.attempts)
    return Reply(
        probabilities=answer.probabilities,
        refusal=answer.refusal,
        usage=answers.usage,
        model=answers.model,
        request_id=answers.request_id,
        attempts=answers.attempts,
    )


async def _called(call: Callable[[], T | Awaitable[T]], method: Callable[..., object]) -> T:
    """Return what a sync or async method returns; a sync one runs in a thread, so that others need not wait for it."""
    made = call() if inspect.iscoroutinefunction(method) else await in_thread(call)
    if inspect.isawaitable(made):
        awaited: T = await made
        return awaited
    return made


def _typed(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        message = f"the judge returned {type(value).__name__} {short_repr(value)}, where a {kind.__name__} is needed"
        raise JudgeError(message, JudgeOutcome.MALFORMED, attempts=1)
    return value


def _checked_model(model: object) -> Model | None:
    if model is None or callable(model) or (isinstance(model, str) and model):
        if not isinstance(model, type):
            return cast("Model | None", model)
    elif callable(getattr(model, "complete", None)) or callable(getattr(model, "decide", None)):
        return cast("Model", model)
    message = (
        "a judge is the name of a model, an object with complete or decide, a function from messages to text, or a "
        f"Judge; got {short_repr(model)}"
    )
    raise ConfigurationError(message)


def _built(given: Model | None) -> TextModel | DecisionModel:
    """Return the model; nothing is sent yet."""
    if given is None or isinstance(given, str):
        from toolmark.judge.openai import OpenAIJudge, judge_from_environment  # noqa: PLC0415 - only where asked for

        model = judge_from_environment() if given is None else OpenAIJudge(given)
        if model is None:
            message = (
                "there is no judge: give judge= the name of a model, a judge or a function, or set "
                "TOOLMARK_JUDGE_MODEL; see docs/judge.md"
            )
            raise ConfigurationError(message)
        return model
    if isinstance(given, (TextModel, DecisionModel)):
        return given
    call = given if inspect.isroutine(given) else getattr(given, "__call__", given)  # noqa: B004 - is it async?
    known_async = inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(call)
    return _AsyncFunction(given) if known_async else _Function(given)


def _name(given: Model | None) -> str:
    if given is None:
        return os.environ.get("TOOLMARK_JUDGE_MODEL", "")
    if isinstance(given, str):
        return given
    named = getattr(given, "model", None)
    if isinstance(named, str) and named:
        return named
    return getattr(given, "__qualname__", None) or type(given).__qualname__


def _identity_of(model: object) -> JsonObject | None:
    identity = getattr(model, "identity", None)
    return cast("JsonObject", to_json_value(dict(identity))) if isinstance(identity, Mapping) else None


def _prices_of(model: object) -> Prices | None:
    prices = getattr(model, "prices", None)
    return cast("Prices", prices) if isinstance(prices, Mapping) and prices else None


def _content_of(prompt: Prompt) -> str:
    """Return what tells prompts apart that ask different things."""
    return cache_key(prompt, {})


def _at_least_one(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        message = f"{name} must be a whole number of at least 1, got {value!r}"
        raise ConfigurationError(message)
    return value


def _cache(cache: object) -> Cache | None:
    if cache is None or isinstance(cache, Cache):
        return cache
    if cache == "memory":
        return MemoryCache()
    if isinstance(cache, (str, os.PathLike)):
        return SqliteCache(cast("str | os.PathLike[str]", cache))
    message = f"cache must be 'memory', a path, None or an object with get and put, got {short_repr(cache)}"
    raise ConfigurationError(message)
