"""How is an endpoint asked, until it answers or there is no hope? What all of OpenAI's APIs have in common.

OpenAI's client carries one request and no more: its own retries are off, since they know neither of the other requests
nor of what was spent, and repeat what cannot succeed.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from toolmark._internal.json import JsonObject, short_repr, to_json_value
from toolmark._internal.markers import REDACTED
from toolmark.errors import ConfigurationError, JudgeError, JudgeOutcome, MissingPackageError
from toolmark.judge.openai import errors as faults
from toolmark.judge.openai.throttle import Budget, CoolDown, Slots, Spent, pause
from toolmark.judge.openai.wire import Rung, UnreadableError, read_object, usage_of
from toolmark.judge.prices import LETTERS_PER_TOKEN, Price, Prices, add_usage, cost_of, read_prices

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")

ENVIRONMENT = "TOOLMARK_JUDGE_"
"""What the names of our own environment variables begin with."""

_NO_KEY = "not-needed"
_OUTPUT_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")

Post: TypeAlias = "Callable[[AsyncOpenAI, JsonObject], Awaitable[Any]]"
"""Sends a body, and returns the raw response of OpenAI's client."""

_Lifetime: TypeAlias = "AsyncGenerator[AsyncOpenAI, None]"

_NEVER = 10 * 365 * 24 * 3600.0


_STOP = 30.0


class _Stopped(NamedTuple):
    """Why nothing is asked in one event loop, and until when, as `time.monotonic()` counts."""

    until: float
    fault: faults.Fault


class _Client(NamedTuple):
    """The client of one event loop, what closes it, and what keeps that alive."""

    client: AsyncOpenAI
    lifetime: _Lifetime
    timer: asyncio.TimerHandle


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """What is to be asked.

    Attributes:
        body: Makes the body, without the model and the user's options, for what the endpoint is known to understand.
        post: Sends it.
        read: Reads the answer; raises `UnreadableError`.
    """

    body: Callable[[Rung], JsonObject]
    post: Post
    read: Callable[[JsonObject], T]


@dataclass(frozen=True, slots=True)
class Answered(Generic[T]):
    """What was answered: the value, the tokens of all attempts, their number, and the endpoint's id of the request."""

    value: T
    usage: Mapping[str, int]
    attempts: int
    request_id: str | None


@dataclass(slots=True)
class _Course:
    """How far one question has come.

    Attributes:
        deadline: Until when there may be an answer, as `time.monotonic()` counts.
        rung: What form is demanded of the reply.
        attempts: Requests sent.
        failures: Of them, those that failed for a reason that may be gone next time, other than overload.
        usage: Tokens of all attempts.
        fault: What went wrong last, and with the strongest demand on the form.
    """

    deadline: float
    rung: Rung
    attempts: int = 0
    failures: int = 0
    usage: dict[str, int] = field(default_factory=dict[str, int])
    fault: faults.Fault | None = None

    def failed(self, outcome: JudgeOutcome | None = None, message: str = "") -> JudgeError:
        """Return the error that ends it: with the last fault where nothing else is said."""
        if self.fault is not None:
            message = f"{message}; the last fault: {self.fault.message}" if message else self.fault.message
        kind = outcome or (self.fault.outcome if self.fault is not None else JudgeOutcome.TRANSIENT)
        return JudgeError(message, kind, usage=self.usage, attempts=self.attempts)


class Endpoint:
    """An endpoint that speaks an API of OpenAI, and a model there.

    It may be used from several threads and event loops at once: the limits hold for all of them together, and each
    loop has a client of its own, which is closed when the loop shuts down. No key is read, and no client is built,
    before the first request.

    After a fault that stays (a wrong key, an empty account, an unknown model), nothing is asked in that event loop for
    half a minute, so that a long run ends instead of failing question by question.

    Args:
        model: Name of the model, as the endpoint knows it.
        api: Which API is asked; one of `apis`.
        base_url: Address of the endpoint, usually ending in `/v1`; by default that of `TOOLMARK_JUDGE_BASE_URL` or
            `OPENAI_BASE_URL`, else OpenAI.
        api_key: The key; by default that of `TOOLMARK_JUDGE_API_KEY` or `OPENAI_API_KEY`. A server with an address
            of its own is asked without one where none is found.
        options: Further fields of every request, such as `{"temperature": 0}`. None is sent unless it stands here.
        prices: What a million tokens cost, by the name of the model, as `Price` or a dict of its fields.
        max_concurrency: Requests at the same time.
        max_attempts: How often a question is asked where the endpoint fails. Refusals for overload do not count:
            they are waited out until the deadline.
        timeout: Seconds from sending one request to the end of its answer.
        deadline: Seconds for one question with all attempts and pauses, from its first turn on.
        token_budget: Tokens that may be spent in all, input and output together. Each request sets aside what the
            greatest one so far cost, and is refused where that is not left.
        cost_budget: Money that may be spent in all, in the currency of the prices.
        client: Makes the client, once for each event loop: for Azure, Bedrock, or a transport of your own.
            `base_url` and `api_key` then play no part.

    Raises:
        ConfigurationError: A setting is out of range, or there is a budget of money without a price of the model.
    """

    apis: ClassVar[tuple[str, ...]] = ()
    """The APIs that this class can ask, the default first."""

    paced: ClassVar[bool] = True
    """It limits its requests and their time by itself."""

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
        """Check and keep the settings."""
        known = api or self.apis[0]
        if known not in self.apis:
            raise ConfigurationError(f"api {api!r} is none that {type(self).__name__} asks; known are {self.apis}")
        given: object = model  # whatever the annotation says
        if not isinstance(given, str) or not given:
            raise ConfigurationError(f"model must be the name of a model, got {short_repr(given)}")
        limits = {"max_concurrency": max_concurrency, "max_attempts": max_attempts, "timeout": timeout}
        for name, value in {
            **limits,
            "deadline": deadline,
            "token_budget": token_budget,
            "cost_budget": cost_budget,
        }.items():
            if value is not None and not value > 0:
                raise ConfigurationError(f"{name} must be greater than 0, got {value!r}")
        self.model: str = model
        self.api: str = known
        self.max_concurrency: int = max_concurrency
        self.prices: Prices = read_prices(prices or {})
        if cost_budget is not None and model not in self.prices:
            raise ConfigurationError(f"cost_budget needs the price of {model!r} in `prices`")
        self._options: JsonObject = to_json_value(dict(options or {}))
        self._base_url, self._api_key, self._make = base_url, api_key, client
        self._timeout, self._deadline, self._max_attempts = float(timeout), float(deadline), max_attempts
        self._slots, self._cool_down = Slots(max_concurrency), CoolDown()
        self._budget = Budget(token_budget, cost_budget)
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, _Client] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._rung = Rung.JSON_SCHEMA
        self._stopped: WeakKeyDictionary[asyncio.AbstractEventLoop, _Stopped] = WeakKeyDictionary()

    def __repr__(self) -> str:
        """Return the model and the address; never the key."""
        return f"{type(self).__name__}(model={self.model!r}, api={self.api!r}, base_url={self._base_url!r})"

    @property
    def identity(self) -> JsonObject:
        """What answers depend on: the API, the model, the address and the options. Verdicts are kept under it."""
        return {"api": self.api, "model": self.model, "base_url": self._address(), "options": self._options}

    @property
    def spent(self) -> Spent:
        """Tokens and money of all requests so far; with a budget, those whose answer was lost count as estimated."""
        return self._budget.spent

    def _address(self) -> str | None:
        return self._base_url or os.environ.get(f"{ENVIRONMENT}BASE_URL") or os.environ.get("OPENAI_BASE_URL") or None

    async def ask(self, request: Request[T]) -> Answered[T]:
        """Ask until there is an answer.

        Raises:
            JudgeError: There is none; `outcome` says why.
        """
        loop = asyncio.get_running_loop()
        async with self._slots:
            course = _Course(time.monotonic() + self._deadline, self._rung)
            while True:
                if not await self._cool_down.wait(course.deadline):
                    told = (
                        f"the endpoint wants a pause of {self._cool_down.left():.0f} s, longer than the deadline allows"
                    )
                    raise course.failed(None, told)
                stopped = self._stopped.get(loop)
                if stopped is not None and time.monotonic() < stopped.until:
                    told = f"not asked: another request met a fault that stays, {stopped.fault.message}"
                    raise JudgeError(told, JudgeOutcome.ABORTED, usage=course.usage, attempts=course.attempts)
                answered = await self._attempt(request, course)
                if answered is not None:
                    return answered
                await self._recover(course)

    async def _attempt(self, request: Request[T], course: _Course) -> Answered[T] | None:
        """Send one request; what went wrong is kept in the course."""
        body = {"model": self.model, **request.body(course.rung)}
        client = await self._client()
        reserved = self._budget.reserve(self._guess(body))
        if reserved is None:
            raise course.failed(JudgeOutcome.BUDGET, f"the budget does not allow another request: spent {self.spent}")
        cost, sent = reserved, time.monotonic()
        course.attempts += 1
        try:
            found = await self._sent(request.post(client, body), course)
            if isinstance(found, faults.Fault):
                found = replace(found, message=found.message.replace(client.api_key or _NO_KEY, REDACTED))
                cost = reserved if found.billed else Spent()
                if found.everybody:
                    self._cool_down.refused(sent, found.retry_after)
                self._note(course, found)
                return None
            text, request_id = found
            self._cool_down.accepted(sent)
            content = read_object(text)
            used = usage_of(content)
            course.usage = add_usage(course.usage, used)
            cost = self._cost(used) if used else reserved
            value = request.read(content)
        except UnreadableError as error:
            self._note(course, faults.Fault(JudgeOutcome.TRANSIENT, f"{error}", again=True))
            return None
        finally:
            self._budget.settle(reserved, cost)
        self._rung = max(self._rung, course.rung)
        return Answered(value, course.usage, course.attempts, request_id)

    async def _sent(self, sending: Awaitable[Any], course: _Course) -> tuple[str, str | None] | faults.Fault:
        """Return the text of an answer with the id of its request, or what went wrong."""
        raw = await _carried(sending, max(0.0, min(self._timeout, course.deadline - time.monotonic())))
        return raw if isinstance(raw, faults.Fault) else (raw.text, raw.headers.get("x-request-id"))

    async def call(
        self, send: Callable[[AsyncOpenAI], Awaitable[Any]], *, again: bool = True, timeout: float | None = None
    ) -> bytes:
        """Carry another call of the API, one that asks no model, and return the content of its answer.

        Args:
            send: Sends it, and returns the raw response of OpenAI's client.
            again: Try again where it may succeed later; no, where what was done is not to be done twice.
            timeout: Seconds for the whole answer; by default those of this object.

        Raises:
            JudgeError: It failed.
        """
        client = await self._client()
        failures = 0
        while True:
            raw = await _carried(send(client), timeout or self._timeout)
            if not isinstance(raw, faults.Fault):
                content: bytes = raw.content
                return content
            failures += 1
            if not (again and raw.again) or failures >= self._max_attempts:
                told = raw.message.replace(client.api_key or _NO_KEY, REDACTED)
                raise JudgeError(told, raw.outcome, attempts=failures)
            await asyncio.sleep(max(pause(failures), raw.retry_after or 0.0))

    def _note(self, course: _Course, fault: faults.Fault) -> None:
        if course.fault is None or course.fault.again or not fault.other_form:
            course.fault = fault

    async def _recover(self, course: _Course) -> None:
        """Make ready for another attempt.

        Raises:
            JudgeError: There is none.
        """
        fault = course.fault
        if fault is None:  # cannot be: an attempt that gave no answer has left a fault
            raise course.failed()
        if fault.other_form and course.rung < Rung.PLAIN:
            course.rung = max(Rung(course.rung + 1), self._rung)
            return
        if fault.outcome is JudgeOutcome.FATAL:
            self._stopped[asyncio.get_running_loop()] = _Stopped(time.monotonic() + _STOP, fault)
        if not fault.again:
            raise course.failed()
        if fault.everybody:
            return
        course.failures += 1
        wait = max(pause(course.failures), fault.retry_after or 0.0)
        if course.failures >= self._max_attempts or time.monotonic() + wait > course.deadline:
            raise course.failed()
        await asyncio.sleep(wait)

    def _cost(self, usage: Mapping[str, int]) -> Spent:
        tokens = usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
        price = self.prices.get(self.model)
        return Spent(tokens, 0.0 if price is None else cost_of(usage, price))

    def _guess(self, body: JsonObject) -> Spent:
        """Return what a request may cost, before any was answered: its letters, and the output that it allows."""
        if not self._budget.limited:
            return Spent()
        asked = len(f"{body}") // LETTERS_PER_TOKEN
        limits = [self._options.get(name) for name in _OUTPUT_LIMITS]
        return self._cost({"input_tokens": asked, "output_tokens": max(n if type(n) is int else 0 for n in limits)})

    async def _client(self) -> AsyncOpenAI:
        """Return the client of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for other in [other for other in self._clients if other.is_closed()]:
                del self._clients[other]
            known = self._clients.get(loop)
        if known is not None:
            return known.client
        # A loop that shuts down closes the asynchronous generators that began on it, and with this one the client. The
        # timer, which never rings, keeps the generator alive as long as the loop, even if this object is gone sooner.
        lifetime = _lifetime(self._built())
        client = await anext(lifetime)
        held = _Client(client, lifetime, loop.call_later(_NEVER, _hold, lifetime))
        with self._lock:
            self._clients[loop] = held
        return client

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next request opens new ones.

        Needed only in a loop that lives on, as in a notebook: a loop that shuts down closes them itself.
        """
        with self._lock:
            held = self._clients.pop(asyncio.get_running_loop(), None)
        if held is not None:
            held.timer.cancel()
            await held.lifetime.aclose()

    def _built(self) -> AsyncOpenAI:
        """Return a new client that tries nothing again.

        Raises:
            JudgeError: There is no key, or a setting of the client is wrong.
            MissingPackageError: OpenAI's package is not installed.
        """
        try:
            import openai  # noqa: PLC0415 - an optional package, loaded when it is needed
        except ImportError:
            raise MissingPackageError.of("openai", "openai", type(self).__name__) from None
        if self._make is not None:
            return self._make().with_options(max_retries=0, timeout=self._timeout)
        address = self._address()
        key = self._api_key or os.environ.get(f"{ENVIRONMENT}API_KEY") or os.environ.get("OPENAI_API_KEY")
        if not key and address is None:
            told = f"no key for {self.model!r}: give `api_key`, or set {ENVIRONMENT}API_KEY or OPENAI_API_KEY"
            raise JudgeError(told, JudgeOutcome.FATAL)
        try:
            return openai.AsyncOpenAI(api_key=key or _NO_KEY, base_url=address, max_retries=0, timeout=self._timeout)
        except (openai.OpenAIError, ValueError, TypeError) as error:
            told = f"OpenAI's client cannot be built: {error}"
            raise JudgeError(told.replace(key or _NO_KEY, REDACTED), JudgeOutcome.FATAL) from None


async def _carried(sending: Awaitable[Any], seconds: float) -> Any:  # noqa: ANN401 - the raw response of any version
    """Return the raw response to what is being sent, or what went wrong as a `Fault`."""
    import openai  # noqa: PLC0415 - an optional package, loaded when it is needed

    try:
        return await asyncio.wait_for(sending, seconds)
    except (asyncio.TimeoutError, openai.APITimeoutError):
        return faults.too_late(seconds)
    except openai.APIConnectionError as error:
        return faults.unanswered(error)
    except openai.APIStatusError as error:
        return faults.refused(error)
    except (openai.OpenAIError, ValueError, TypeError) as error:  # the two others: a key or address that is none
        return faults.Fault(JudgeOutcome.FATAL, f"{type(error).__name__}: {error}")


def _hold(_lifetime: _Lifetime) -> None:
    """Do nothing; who is to be called with something keeps it alive."""


async def _lifetime(client: AsyncOpenAI) -> _Lifetime:
    try:
        yield client
    finally:
        await client.close()
