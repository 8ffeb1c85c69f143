"""Judges behind OpenAI's API: OpenAI itself, and the many servers that speak its Chat Completions.

OpenAI's package, loaded with the first request, brings retries, time-outs and the pauses that a server asks for. Here
is what it lacks: a limit on parallel requests, a deadline, and another demand on the form of the reply for servers that
do not know JSON Schema.

```python
from toolgrade.judge.openai import OpenAIJudge

judge = OpenAIJudge("gpt-4.1", prices={"gpt-4.1": {"input": 2.0, "output": 8.0}})
local = OpenAIJudge("qwen3", base_url="http://127.0.0.1:11434/v1")
```
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast
from urllib.parse import urlsplit

from toolgrade._internal.json import JsonObject, to_json_value
from toolgrade._internal.options import require
from toolgrade._internal.sync_bridge import PerLoop
from toolgrade.errors import ConfigurationError, JudgeError, JudgeOutcome, MissingPackageError
from toolgrade.judge.cost import Price, Prices, add_usage, read_prices
from toolgrade.judge.openai.guard import NO_KEY, PROBLEM, guard, is_secret, remember_key, without_keys
from toolgrade.judge.openai.wire import WIRES, Refusal, TextApi, Wire, read_object, usage_of
from toolgrade.judge.protocol import Prompt, Reply

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")

_ENVIRONMENT = "TOOLGRADE_JUDGE_"
_OPENAI = "https://api.openai.com/v1"
_HTTP_ADDRESS = re.compile(r"https?://(?:[^/@\\]*@)?[\w.\-\[\]:]+(?:[/?]|\Z)", re.IGNORECASE)
_NEVER = 10 * 365 * 24 * 3600.0
_OVERLOAD_SECONDS = 8.0
"""Seconds after which an overloaded endpoint is asked again once OpenAI's client has given up."""


@dataclass(slots=True)
class _RequestLog:
    """The requests for one question: how many, the tokens they used, and the last refusal."""

    sent: int = 0
    usage: dict[str, int] = field(default_factory=dict[str, int])
    refusal: Refusal | None = None

    def error(self, problem: str, outcome: JudgeOutcome) -> JudgeError:
        """Return the error that ends the question."""
        return JudgeError(without_keys(problem), outcome, usage=self.usage, attempts=self.sent)


_attempts: ContextVar[_RequestLog | None] = ContextVar("toolgrade_judge_attempts", default=None)


class OpenAIJudge:
    """A model that writes text, on any server that speaks OpenAI's Chat Completions or Responses API.

    The server is asked to enforce the prompt's JSON Schema (`json_schema`); if it refuses to, the schema is demanded in
    words alone, which is remembered as long as this object lives.

    One object may serve several threads and event loops: each loop has a client of its own, which is closed when the
    loop shuts down. No key is read and no client built before the first request.

    Args:
        model: Name of the model at the endpoint.
        api: `"chat"`, which nearly every server has, or `"responses"`.
        base_url: Address of the endpoint, usually ending in `/v1`; by default `TOOLGRADE_JUDGE_BASE_URL` or
            `OPENAI_BASE_URL`, else OpenAI.
        api_key: The key; by default `TOOLGRADE_JUDGE_API_KEY`, or for OpenAI's own address `OPENAI_API_KEY`. Another
            server is asked without a key if there is none. A key is not sent over plain HTTP, except to this machine.
        options: Further fields of every request, such as `{"temperature": 0}`. No others are sent.
        prices: Prices of a million tokens by the name of the model, as `Price` or a dict of its fields.
        max_concurrency: Maximum number of parallel requests from one event loop.
        max_attempts: Maximum number of attempts at a request that fails. Refusals for overload (status 429) are waited
            out until the deadline.
        timeout: Seconds that one request may wait for the server.
        deadline: Seconds for one question with all attempts and pauses, from its first turn on.
        client: Returns a new client, once for each event loop, and once to know its address: for Azure, Bedrock, or a
            custom transport. `base_url` and `api_key` are then not used.

    Raises:
        ConfigurationError: A setting is out of range.

    Example:
        >>> import asyncio
        >>> from toolgrade.judge import Judge
        >>> from toolgrade.judge.openai import OpenAIJudge
        >>> from toolgrade.testing import FakeOpenAI, sample_prompt
        >>> with FakeOpenAI('{"evidence": ["c1"], "reasoning": "The user asked for it.", "verdict": "yes"}') as server:
        ...     model = OpenAIJudge("gpt-4.1", base_url=server.base_url, options={"temperature": 0})
        ...     asyncio.run(Judge(model).ask(sample_prompt())).verdict.rationale
        'The user asked for it.'
    """

    paced: ClassVar[bool] = True
    """The endpoint limits its own concurrency and time, see `TextModel`."""

    def __init__(
        self,
        model: str,
        *,
        api: str = "chat",
        base_url: str | None = None,
        api_key: str | None = None,
        options: Mapping[str, Any] | None = None,
        prices: Mapping[str, Price | Mapping[str, Any]] | None = None,
        max_concurrency: int = 16,
        max_attempts: int = 5,
        timeout: float = 60.0,
        deadline: float = 600.0,
        client: Callable[[], AsyncOpenAI] | None = None,
    ) -> None:
        """Check and store the settings."""
        require(api in WIRES, f"api must be one of {tuple(WIRES)}", api)
        name: object = model  # callers without a type checker may pass anything
        require(isinstance(name, str) and name, "model must be the name of a model", name)
        address: object = base_url
        is_address = isinstance(address, str) and _HTTP_ADDRESS.match(address)
        require(base_url is None or is_address, "base_url must begin with http:// or https:// and a host", address)
        limits = {"max_concurrency": max_concurrency, "max_attempts": max_attempts}
        for option, value in {**limits, "timeout": timeout, "deadline": deadline}.items():
            require(value > 0, f"{option} must be greater than 0", value)
        self.model: str = model
        self.api: str = api
        self.wire: Wire = WIRES[cast("TextApi", api)]
        self.prices: Prices = read_prices(prices or {})
        self._options: JsonObject = to_json_value(dict(options or {}))
        self._base_url, self._api_key, self._client_factory = base_url, api_key, client
        self._timeout, self._deadline, self._max_attempts = float(timeout), float(deadline), max_attempts
        self._here = PerLoop(lambda: _LoopState(max_concurrency))
        self._enforced = True

    def __repr__(self) -> str:
        """Return the model and the address; never the key."""
        return f"{type(self).__name__}(model={self.model!r}, api={self.api!r}, base_url={self._base_url!r})"

    @property
    def identity(self) -> JsonObject:
        """What answers depend on: the API, the model, the address and the options. Verdicts are cached under it."""
        return {"api": self.api, "model": self.model, "base_url": self._address, "options": self._options}

    @cached_property
    def _address(self) -> str | None:
        """The address of the endpoint, `None` for OpenAI's; read once, so that it stays that of the first request."""
        if self._client_factory is None:
            return self._base_url or _from_environment(f"{_ENVIRONMENT}BASE_URL", "OPENAI_BASE_URL")
        try:
            return str(self._client_factory().base_url).rstrip("/")
        except Exception as error:  # noqa: BLE001 - the function is the user's
            raise ConfigurationError(without_keys(f"client= raised {type(error).__name__}: {error}")) from None

    async def complete(self, prompt: Prompt, /) -> Reply:
        """Return the model's reply; a refusal or a truncated answer is a reply too.

        Raises:
            JudgeError: There is no reply; `outcome` says why.
            MissingPackageError: OpenAI's package is not installed.
        """
        here, attempts = self._here.get(), _RequestLog()
        async with here.slots:
            _attempts.set(attempts)
            try:
                reply = await asyncio.wait_for(self._reply(prompt, attempts), self._deadline)
            except asyncio.TimeoutError:
                if attempts.refusal is not None:
                    problem, outcome = f"{attempts.refusal}", attempts.refusal.outcome
                else:
                    problem, outcome = "no answer", JudgeOutcome.TIMEOUT
                raise attempts.error(f"{problem}, until the deadline of {self._deadline:g} s", outcome) from None
        return reply.model_copy(update={"usage": attempts.usage, "attempts": attempts.sent})

    async def _reply(self, prompt: Prompt, attempts: _RequestLog) -> Reply:
        """Ask until there is a reply or no hope of one: without a schema if it is refused, and again after overload."""
        await self._client()  # which names the package if it is missing
        import openai  # noqa: PLC0415 - an optional package, loaded when it is needed

        here, deadline, enforced = self._here.get(), time.monotonic() + self._deadline, self._enforced
        refused_form: Refusal | None = None
        while True:
            pause = here.overloaded_until - time.monotonic()
            if time.monotonic() + pause > deadline:
                problem = f"{here.overload}; nothing is sent for {pause:.0f} s, which is beyond the deadline"
                raise attempts.error(problem, JudgeOutcome.TRANSIENT)
            await asyncio.sleep(max(0.0, pause))
            try:
                return await self._send(prompt, attempts, enforced=enforced)
            except openai.APIStatusError as error:
                refusal = Refusal.of(error.response)
                if refusal.may_concern_form and enforced:
                    # What the prompt without a schema meets says less than this refusal.
                    refused_form, enforced = refusal, False
                elif refusal.is_overload:  # all questions wait, and none fails because the others are too many
                    seconds = max(_OVERLOAD_SECONDS, _retry_after(error.response))
                    here.overloaded_until, here.overload = time.monotonic() + seconds, refusal
                else:
                    refusal = refused_form or refusal
                    raise attempts.error(f"{refusal}{self._hint(refusal)}", refusal.outcome) from None
            except (JudgeError, openai.OpenAIError, ValueError, TypeError) as error:  # two are for invalid settings
                raise self._failure(error, attempts) from None

    async def _send(self, prompt: Prompt, attempts: _RequestLog, *, enforced: bool) -> Reply:
        """Send a prompt, and return the reply; OpenAI's client repeats requests that fail."""
        body = {"model": self.model, **self.wire.body(prompt, enforced), **self._options}
        client = await self._client()
        # As `extra_body` it is sent as it is: the client copies typed fields one by one, which takes long.
        options: dict[str, Any] = {"model": self.model, "extra_body": body}
        if self.api == "responses":
            raw: Any = await client.responses.with_raw_response.create(input="", **options)
        else:
            raw = await client.chat.completions.with_raw_response.create(messages=[], **options)
        content = read_object(_content_of(raw))
        attempts.usage = add_usage(attempts.usage, usage_of(content))
        reply = self.wire.reply(content)
        self._enforced = self._enforced and enforced
        request_id = raw.headers.get("x-request-id")
        return reply.model_copy(update={"request_id": request_id and without_keys(request_id)})

    def body_of(self, prompt: Prompt) -> JsonObject:
        """Return the body of a request as a line of a batch holds it, with `json_schema`."""
        return {"model": self.model, **self.wire.body(prompt, True), **self._options}

    async def call(
        self, send: Callable[[AsyncOpenAI], Awaitable[Any]], *, retry: bool = True, timeout: float | None = None
    ) -> bytes:
        """Send a request that asks no model, and return its answer.

        `send` returns the raw response of OpenAI's client. `retry=False` is for requests that must not be repeated.
        `timeout` is in seconds, by default that of this object.

        Raises:
            JudgeError: It failed.
        """
        client = await self._client()
        attempts = self._max_attempts if retry else 1
        client = client.with_options(max_retries=attempts - 1, timeout=timeout or self._timeout)
        try:
            return _content_of(await send(client))
        except Exception as error:  # noqa: BLE001 - whatever its parts raise
            raise self._failure(error, _RequestLog(1)) from None

    def _failure(self, error: Exception, attempts: _RequestLog) -> JudgeError:
        """Return the error for what OpenAI's client raised."""
        import openai  # noqa: PLC0415 - an optional package, loaded when it is needed

        if isinstance(error, JudgeError):
            return attempts.error(str(error), error.outcome)
        if isinstance(error, openai.APITimeoutError):
            return attempts.error(f"no answer within {self._timeout:g} seconds", JudgeOutcome.TIMEOUT)
        if isinstance(error, openai.APIConnectionError):
            cause = error.__cause__
            reason = f"{type(cause).__name__}: {cause}" if f"{cause or ''}" else str(error)
            return attempts.error(f"the connection failed: {reason}", JudgeOutcome.TRANSIENT)
        if isinstance(error, openai.APIStatusError):
            refusal = Refusal.of(error.response)
            return attempts.error(str(refusal), refusal.outcome)
        return attempts.error(f"{type(error).__name__}: {error}", JudgeOutcome.FATAL)

    async def _client(self) -> AsyncOpenAI:
        """Return the client of the running loop.

        A loop that shuts down closes the asynchronous generators that began on it, and with this one the client. The
        timer, which never fires, keeps the generator alive as long as the loop, even if this object is gone sooner.
        """
        here = self._here.get()
        if here.client is None:
            here.client = self._build_client()
            lifetime = _lifetime(here.client)
            await anext(lifetime)
            asyncio.get_running_loop().call_later(_NEVER, lifetime.aclose)
        return here.client

    def _build_client(self) -> AsyncOpenAI:
        """Return a new client.

        Raises:
            JudgeError: There is no key, or a setting of the client is wrong.
            MissingPackageError: OpenAI's package is not installed.
        """
        try:
            import openai  # noqa: PLC0415 - an optional package, loaded when it is needed
        except ImportError:
            raise MissingPackageError.of("openai", type(self).__name__) from None
        options: dict[str, Any] = {"max_retries": self._max_attempts - 1, "timeout": self._timeout}
        try:
            if self._client_factory is not None:
                client = self._client_factory().with_options(**options)
            else:
                key = self._key()
                remember_key(key)
                client = openai.AsyncOpenAI(api_key=key, base_url=self._address, **options)
        except (openai.OpenAIError, ValueError, TypeError) as error:
            message = without_keys(f"OpenAI's client cannot be built: {error}")
            raise JudgeError(message, JudgeOutcome.FATAL) from None
        built: Any = client
        guard(built._client, _count, _note_refusal)  # noqa: SLF001 - the only way to its HTTP client
        return client

    def _key(self) -> str:
        """Return the key to send: a key for OpenAI goes to no other server, and no key over a network in clear text.

        Raises:
            JudgeError: There is none, or it must not be sent.
        """
        address = urlsplit(self._address or _OPENAI)
        host = address.hostname or ""
        is_openai = f".{host}".endswith(".api.openai.com") and _HTTP_ADDRESS.match(address.geturl()) is not None
        key = self._api_key or _from_environment(f"{_ENVIRONMENT}API_KEY")
        key = key or (_from_environment("OPENAI_API_KEY") if is_openai else NO_KEY)
        if key is None:
            message = f"no key for {self.model!r}: give `api_key`, or set {_ENVIRONMENT}API_KEY or OPENAI_API_KEY"
            raise JudgeError(message, JudgeOutcome.FATAL)
        if is_secret(key) and address.scheme != "https" and not _is_this_machine(host):
            message = f"the key is not sent to {host!r} over plain HTTP; give a base_url that begins with https://"
            raise JudgeError(message, JudgeOutcome.FATAL)
        return key

    def _hint(self, refusal: Refusal) -> str:
        if refusal.status != HTTPStatus.UNAUTHORIZED or self._client_factory is not None or self._key() != NO_KEY:
            return ""
        return (
            f"; no key was sent: give api_key=, or set {_ENVIRONMENT}API_KEY (OPENAI_API_KEY is for OpenAI's address)"
        )


class _LoopState:
    """What belongs to one event loop: the client, who may send, and until when nothing is sent."""

    def __init__(self, max_concurrency: int) -> None:
        self.slots = asyncio.Semaphore(max_concurrency)
        self.client: AsyncOpenAI | None = None
        self.overloaded_until = 0.0
        self.overload: Refusal | None = None


async def _lifetime(client: AsyncOpenAI) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await client.close()


async def _count(_request: object) -> None:
    attempts = _attempts.get()
    if attempts is not None:
        attempts.sent += 1


async def _note_refusal(response: Any) -> None:  # noqa: ANN401 - of the HTTP client
    """Remember a refusal, and keep the client from repeating a request that no server will answer."""
    if response.status_code < HTTPStatus.MULTIPLE_CHOICES:
        return
    await response.aread()
    refusal = Refusal.of(response)
    if refusal.outcome is not JudgeOutcome.TRANSIENT or refusal.may_concern_form:
        response.headers["x-should-retry"] = "false"
    attempts = _attempts.get()
    if attempts is not None:
        attempts.refusal = refusal


def _content_of(raw: Any) -> bytes:  # noqa: ANN401 - a raw response of OpenAI's client
    """Return the body of a response; raise if it was refused."""
    problem = raw.http_response.extensions.get(PROBLEM)
    if problem:
        raise JudgeError(problem, JudgeOutcome.MALFORMED)
    return cast("bytes", raw.content)


def _retry_after(response: Any) -> float:  # noqa: ANN401 - of the HTTP client
    """Return the seconds that an endpoint asks to wait; 0 without a finite number."""
    with suppress(ValueError):
        seconds = float(response.headers.get("retry-after", ""))
        return seconds if math.isfinite(seconds) else 0.0
    return 0.0


def _from_environment(*names: str) -> str | None:
    return next(filter(None, map(os.environ.get, names)), None)


def _is_this_machine(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return f".{host}".endswith(".localhost")


def judge_from_environment() -> OpenAIJudge | None:
    """Return the judge that the environment describes, or `None` if it names no model.

    `TOOLGRADE_JUDGE_MODEL` names the model. `TOOLGRADE_JUDGE_API` is `chat` or `responses`;
    `TOOLGRADE_JUDGE_MAX_CONCURRENCY`, `_TIMEOUT` and `_DEADLINE` are numbers as in `OpenAIJudge`.
    `TOOLGRADE_JUDGE_BASE_URL` and `TOOLGRADE_JUDGE_API_KEY` are read with the first request.

    Raises:
        ConfigurationError: A value is wrong.

    Example:
        >>> import os
        >>> from unittest.mock import patch
        >>> from toolgrade.judge.openai.client import judge_from_environment
        >>> with patch.dict(os.environ, {"TOOLGRADE_JUDGE_MODEL": "gpt-4.1", "TOOLGRADE_JUDGE_API": "responses"}):
        ...     judge = judge_from_environment()
        >>> judge.model, judge.api
        ('gpt-4.1', 'responses')
    """
    model = _setting("MODEL")
    if not model:
        return None
    options: dict[str, Any] = {"api": _setting("API") or "chat"}
    for name, number in (("max_concurrency", int), ("timeout", float), ("deadline", float)):
        text = _setting(name.upper())
        if text:
            try:
                options[name] = number(text)
            except ValueError:
                raise ConfigurationError(f"{_ENVIRONMENT}{name.upper()} must be a number, got {text!r}") from None
    return OpenAIJudge(model, **options)


def _setting(name: str) -> str:
    return os.environ.get(f"{_ENVIRONMENT}{name}", "").strip()
