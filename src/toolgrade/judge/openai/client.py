"""Requests to endpoints that speak OpenAI's APIs, repeated until there is an answer or no hope of one.

OpenAI's client only carries single requests. Its own retries are off: they share neither the limits of the other
requests nor the budget, and they repeat what cannot succeed.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from toolgrade._internal.json import JsonObject, to_json_value
from toolgrade._internal.model import drop_none
from toolgrade._internal.options import require
from toolgrade.errors import ConfigurationError, JudgeError, JudgeOutcome, MissingPackageError
from toolgrade.judge.cost import CHARACTERS_PER_TOKEN, Price, Prices, add_usage, cost_of, read_prices
from toolgrade.judge.openai.errors import EndpointError, connection_error, status_error, timeout_error
from toolgrade.judge.openai.key_filter import NO_KEY, remember, without_keys
from toolgrade.judge.openai.response_guard import guard
from toolgrade.judge.openai.throttle import Budget, CoolDown, Slots, Spent, pause
from toolgrade.judge.openai.wire import Rung, read_object, usage_of

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")

ENVIRONMENT = "TOOLGRADE_JUDGE_"
"""Prefix of toolgrade's environment variables."""

_OUTPUT_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")

_Lifetime: TypeAlias = "AsyncGenerator[AsyncOpenAI, None]"
_LoopClient: TypeAlias = "tuple[AsyncOpenAI, _Lifetime, asyncio.TimerHandle]"
"""The client of one event loop, the generator that closes it, and the timer that keeps the generator alive."""

_NEVER = 10 * 365 * 24 * 3600.0

_BLOCKED_SECONDS = 30.0
"""Seconds for which nothing is sent from an event loop after a permanent error."""


@dataclass(slots=True)
class Attempts:
    """The attempts at one question: its deadline by `time.monotonic()`, and what they sent, used and met so far.

    `failures` counts temporary errors other than overload. `error` is the last error, or that of the strongest `rung`;
    at first a neutral one.
    """

    deadline: float
    rung: Rung
    sent: int = 0
    failures: int = 0
    usage: dict[str, int] = field(default_factory=dict[str, int])
    request_id: str | None = None
    error: EndpointError = field(default_factory=lambda: EndpointError(JudgeOutcome.TRANSIENT, "", retry=True))

    def judge_error(self, message: str = "", outcome: JudgeOutcome | None = None) -> JudgeError:
        """Return the error that ends the question; by default with the outcome of the last endpoint error."""
        text = "; the last error: ".join(filter(None, (message, self.error.message)))
        return JudgeError(text, outcome or self.error.outcome, usage=self.usage, attempts=self.sent)


def _check_limits(**limits: float | None) -> None:
    for option, value in drop_none(limits).items():
        require(value > 0, f"{option} must be greater than 0", value)


class Endpoint:
    """An endpoint that speaks an API of OpenAI, and a model there.

    One object may serve several threads and event loops at once: they share its limits, and each loop has a client of
    its own, which is closed when the loop shuts down. No key is read and no client built before the first request.

    After a permanent error (a wrong key, an exhausted account, an unknown model) nothing is sent from that event loop
    for half a minute, so that a long run ends instead of failing question by question.

    Args:
        model: Name of the model at the endpoint.
        api: The API to use, one of `apis`; by default the first one.
        base_url: Address of the endpoint, usually ending in `/v1`; by default `TOOLGRADE_JUDGE_BASE_URL` or
            `OPENAI_BASE_URL`, else OpenAI.
        api_key: The key; by default `TOOLGRADE_JUDGE_API_KEY` or `OPENAI_API_KEY`. A server at an explicit address is
            asked without a key if there is none.
        options: Further fields of every request, such as `{"temperature": 0}`. No others are sent.
        prices: Prices of a million tokens by the name of the model, as `Price` or a dict of its fields.
        max_concurrency: Maximum number of parallel requests.
        max_attempts: Maximum number of attempts at a question when the endpoint fails. Refusals for overload do not
            count: they are waited out until the deadline.
        timeout: Seconds from sending one request to the end of its answer.
        deadline: Seconds for one question with all attempts and pauses, from its first turn on.
        token_budget: Tokens that may be spent in total, input and output together. Each request reserves the highest
            cost of a request so far, and is refused if that is not left.
        cost_budget: Money that may be spent in total, in the currency of the prices.
        client: Returns a new client, once for each event loop: for Azure, Bedrock, or a custom transport. `base_url`
            and `api_key` are then not used.

    Raises:
        ConfigurationError: A setting is out of range, or `cost_budget` lacks the price of the model.
    """

    apis: ClassVar[tuple[str, ...]] = ()
    """The APIs that this class supports, the default first."""

    paced: ClassVar[bool] = True
    """The endpoint limits its own concurrency and time, see `TextModel`."""

    def __init__(
        self,
        model: str,
        *,
        api: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        options: Mapping[str, Any] | None = None,
        prices: Mapping[str, Price | Mapping[str, Any]] | None = None,
        max_concurrency: int = 16,
        max_attempts: int = 5,
        timeout: float = 60.0,
        deadline: float = 600.0,
        token_budget: int | None = None,
        cost_budget: float | None = None,
        client: Callable[[], AsyncOpenAI] | None = None,
    ) -> None:
        """Check and store the settings."""
        api = api or self.apis[0]
        require(api in self.apis, f"api of {type(self).__name__} must be one of {self.apis}", api)
        name: object = model  # callers without a type checker may pass anything
        require(isinstance(name, str) and name, "model must be the name of a model", name)
        _check_limits(max_concurrency=max_concurrency, max_attempts=max_attempts, timeout=timeout, deadline=deadline)
        _check_limits(token_budget=token_budget, cost_budget=cost_budget)
        self.model: str = model
        self.api: str = api
        self.max_concurrency: int = max_concurrency
        self.prices: Prices = read_prices(prices or {})
        if cost_budget is not None and model not in self.prices:
            raise ConfigurationError(f"cost_budget needs the price of {model!r} in `prices`")
        self._options: JsonObject = to_json_value(dict(options or {}))
        self._base_url, self._api_key, self._client_factory = base_url, api_key, client
        self._timeout, self._deadline, self._max_attempts = float(timeout), float(deadline), max_attempts
        self._slots, self._cool_down = Slots(max_concurrency), CoolDown()
        self._budget = Budget(token_budget, cost_budget)
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClient] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._rung = Rung.JSON_SCHEMA
        self._blocked: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[float, str]] = WeakKeyDictionary()

    def __repr__(self) -> str:
        """Return the model and the address; never the key."""
        return f"{type(self).__name__}(model={self.model!r}, api={self.api!r}, base_url={self._base_url!r})"

    @property
    def identity(self) -> JsonObject:
        """What answers depend on: the API, the model, the address and the options. Verdicts are cached under it."""
        return {"api": self.api, "model": self.model, "base_url": self._address(), "options": self._options}

    @property
    def has_budget(self) -> bool:
        """Whether tokens or money are limited."""
        return self._budget.limited

    @property
    def spent(self) -> Spent:
        """Tokens and money of all requests so far; with a budget, requests without an answer count as estimated."""
        return self._budget.spent

    def _address(self) -> str | None:
        return self._base_url or _from_environment("BASE_URL")

    async def _post(self, client: AsyncOpenAI, body: JsonObject) -> Any:  # noqa: ANN401 - the raw response of any version
        """Send a body, and return the raw response of OpenAI's client."""
        raise NotImplementedError

    async def ask(self, encode: Callable[[Rung], JsonObject], decode: Callable[[JsonObject], T]) -> tuple[T, Attempts]:
        """Ask until there is an answer; return it with the attempts.

        `encode` returns the body for a rung, without the model and the user's options. `decode` reads the answer, and
        raises `EndpointError`.

        Raises:
            JudgeError: There is no answer; `outcome` says why.
        """
        async with self._slots:
            attempts = Attempts(time.monotonic() + self._deadline, self._rung)
            while True:
                await self._wait_for_turn(attempts)
                try:
                    return await self._attempt(encode, decode, attempts), attempts
                except EndpointError as error:
                    await self._recover(error, attempts)

    async def _wait_for_turn(self, attempts: Attempts) -> None:
        """Wait until the next attempt may be sent; raise if it may not before the deadline, or at all."""
        if not await self._cool_down.wait(attempts.deadline):
            left = self._cool_down.left()
            raise attempts.judge_error(f"the endpoint asks for a pause of {left:.0f} s, beyond the deadline")
        until, problem = self._blocked.get(asyncio.get_running_loop(), (0.0, ""))
        if time.monotonic() < until:
            message = f"not asked: another request met a permanent error, {problem}"
            raise attempts.judge_error(message, JudgeOutcome.ABORTED)

    async def _attempt(
        self, encode: Callable[[Rung], JsonObject], decode: Callable[[JsonObject], T], attempts: Attempts
    ) -> T:
        """Send one request, and return its answer."""
        body = {"model": self.model, **encode(attempts.rung)}
        client = await self._client()
        reserved = self._budget.reserve(self._guess(body))
        if reserved is None:
            message = f"the budget does not allow another request: spent {self.spent}"
            raise attempts.judge_error(message, JudgeOutcome.BUDGET)
        # Until the answer says otherwise, and also if this task is cancelled, the request may have been billed.
        cost, sent = reserved, time.monotonic()
        attempts.sent += 1
        try:
            seconds = max(0.0, min(self._timeout, attempts.deadline - time.monotonic()))
            raw = await _carry(self._post(client, body), seconds)
            attempts.request_id = raw.headers.get("x-request-id")
            self._cool_down.accepted(sent)
            content = read_object(raw.content)
            usage = usage_of(content)
            if usage:
                attempts.usage = add_usage(attempts.usage, usage)
                cost = self._cost(usage)
            value = decode(content)
        except EndpointError as error:
            if not error.billed:
                cost = Spent()
            if error.overload:
                self._cool_down.refused(sent, error.retry_after)
            raise
        finally:
            self._budget.settle(reserved, cost)
        self._rung = max(self._rung, attempts.rung)
        return value

    async def call(
        self,
        send: Callable[[AsyncOpenAI], Awaitable[Any]],
        decode: Callable[[Any], T],
        *,
        retry: bool = True,
        timeout: float | None = None,
    ) -> T:
        """Send a request that asks no model, and return its decoded answer.

        `send` returns the raw response of OpenAI's client, which `decode` reads. `retry=False` is for requests that
        must not be repeated. `timeout` is in seconds for the whole answer, by default that of this object.

        Raises:
            JudgeError: It failed.
        """
        client = await self._client()
        most = self._max_attempts if retry else 1
        failures = 0
        while True:
            try:
                return decode(await _carry(send(client), timeout or self._timeout))
            except EndpointError as error:
                failures += 1
                if not error.retry or failures >= most:
                    raise JudgeError(error.message, error.outcome, attempts=failures) from None
                await asyncio.sleep(_wait_after(error, failures))

    async def _recover(self, error: EndpointError, attempts: Attempts) -> None:
        """Prepare for another attempt.

        Raises:
            JudgeError: Another attempt is hopeless or not allowed.
        """
        # An error that a weaker form may avoid stays the one to report: what the weaker form meets says less.
        if attempts.error.retry or not error.other_form:
            attempts.error = error
        error = attempts.error
        if error.other_form and attempts.rung < Rung.PLAIN:
            attempts.rung = max(Rung(attempts.rung + 1), self._rung)
            return
        # No question to this endpoint can succeed: let the run end, instead of failing question by question.
        if error.outcome is JudgeOutcome.FATAL:
            until = time.monotonic() + _BLOCKED_SECONDS
            self._blocked[asyncio.get_running_loop()] = (until, error.message)
        if not error.retry:
            raise attempts.judge_error()
        # Overload says nothing about this question: it is waited out until the deadline, and not an attempt.
        if error.overload:
            return
        attempts.failures += 1
        wait = _wait_after(error, attempts.failures)
        if attempts.failures >= self._max_attempts or time.monotonic() + wait > attempts.deadline:
            raise attempts.judge_error()
        await asyncio.sleep(wait)

    def _cost(self, usage: Mapping[str, int]) -> Spent:
        tokens = usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
        price = self.prices.get(self.model)
        return Spent(tokens, 0.0 if price is None else cost_of(usage, price))

    def _guess(self, body: JsonObject) -> Spent:
        """Return what a request may cost, before any was answered: from its length, and the output that it allows."""
        if not self._budget.limited:
            return Spent()
        limits = [self._options.get(name) for name in _OUTPUT_LIMITS]
        output_tokens = max(limit if type(limit) is int else 0 for limit in limits)
        return self._cost({"input_tokens": len(str(body)) // CHARACTERS_PER_TOKEN, "output_tokens": output_tokens})

    async def _client(self) -> AsyncOpenAI:
        """Return the client of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for closed in [other for other in self._clients if other.is_closed()]:
                del self._clients[closed]
            if loop in self._clients:
                return self._clients[loop][0]
        # A loop that shuts down closes the asynchronous generators that began on it, and with this one the client. The
        # timer, which never fires, keeps the generator alive as long as the loop, even if this object is gone sooner.
        built: Any = self._build_client()
        guard(built._client)  # noqa: SLF001 - the only way to the HTTP client of a client that the user built
        lifetime = _lifetime(built)
        client = await anext(lifetime)
        timer = loop.call_later(_NEVER, lifetime.aclose)
        with self._lock:
            self._clients[loop] = (client, lifetime, timer)
        return client

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next request opens new ones.

        Needed only in a loop that goes on, as in a notebook: a loop that shuts down closes them itself.
        """
        with self._lock:
            entry = self._clients.pop(asyncio.get_running_loop(), None)
        if entry is not None:
            _, lifetime, timer = entry
            timer.cancel()
            await lifetime.aclose()

    def _build_client(self) -> AsyncOpenAI:
        """Return a new client without retries.

        Raises:
            JudgeError: There is no key, or a setting of the client is wrong.
            MissingPackageError: OpenAI's package is not installed.
        """
        try:
            import openai  # noqa: PLC0415 - an optional package, loaded when it is needed
        except ImportError:
            raise MissingPackageError.of("openai", type(self).__name__) from None
        if self._client_factory is not None:
            return self._client_factory().with_options(max_retries=0, timeout=self._timeout)
        address = self._address()
        # A server at an explicit address may need no key, but OpenAI's client demands one.
        key = self._api_key or _from_environment("API_KEY") or (NO_KEY if address else None)
        if key is None:
            message = f"no key for {self.model!r}: give `api_key`, or set {ENVIRONMENT}API_KEY or OPENAI_API_KEY"
            raise JudgeError(message, JudgeOutcome.FATAL)
        remember([key])
        try:
            return openai.AsyncOpenAI(api_key=key, base_url=address, max_retries=0, timeout=self._timeout)
        except (openai.OpenAIError, ValueError, TypeError) as error:
            message = without_keys(f"OpenAI's client cannot be built: {error}")
            raise JudgeError(message, JudgeOutcome.FATAL) from None


def _from_environment(name: str) -> str | None:
    return os.environ.get(f"{ENVIRONMENT}{name}") or os.environ.get(f"OPENAI_{name}") or None


def _wait_after(error: EndpointError, failures: int) -> float:
    return max(pause(failures), error.retry_after or 0.0)


async def _carry(sending: Awaitable[Any], seconds: float) -> Any:  # noqa: ANN401 - a raw response
    """Return the raw response to a request.

    Raises:
        EndpointError: The request failed. Its message does not contain the key.
    """
    import openai  # noqa: PLC0415 - an optional package, loaded when it is needed

    try:
        return await asyncio.wait_for(sending, seconds)
    except EndpointError as error:  # of the guard
        failure = error
    except (asyncio.TimeoutError, openai.APITimeoutError):
        failure = timeout_error(seconds)
    except openai.APIConnectionError as error:
        failure = error.__cause__ if isinstance(error.__cause__, EndpointError) else connection_error(error)
    except openai.APIStatusError as error:
        failure = status_error(error)
    except (openai.OpenAIError, ValueError, TypeError) as error:  # the latter two: an invalid key or address
        failure = EndpointError(JudgeOutcome.FATAL, f"{type(error).__name__}: {error}")
    # The HTTP client quotes what it cannot read, and an endpoint may have sent the key there.
    failure.message = without_keys(failure.message)
    raise failure from None


async def _lifetime(client: AsyncOpenAI) -> _Lifetime:
    try:
        yield client
    finally:
        await client.close()
