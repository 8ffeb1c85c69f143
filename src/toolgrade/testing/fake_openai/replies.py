"""Answers of the fake endpoint: replies with more than a `Step` has, and HTTP faults."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from http import HTTPStatus
from typing import Literal, TypeAlias

from toolgrade._internal.json import JsonObject, json_text
from toolgrade._internal.options import require
from toolgrade.errors import ConfigurationError
from toolgrade.testing.scripted_model import AskFor, HandOff, Step, StepLike

Ending: TypeAlias = Literal["whole", "cut", "closed", "dropped", "silent"]
"""How an answer ends: it is sent whole, the connection is cut within it, it ends early but properly, the connection is
cut before its first byte, or nothing is ever sent."""

_LAST_STATUS = 599

_NO_RETRY = {"x-should-retry": "false"}
"""Stops OpenAI's clients from retrying, which would take the next step of the script."""

_NUMBERS = itertools.count(1)


def new_id(kind: str) -> str:
    """Return an identifier such as `resp_0001`, unique in this process."""
    return f"{kind}_{next(_NUMBERS):04d}"


def count_tokens(text: str) -> int:
    """Return a plausible number of tokens: one for each four characters, at least 1."""
    return max(1, len(text) // 4)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with more than a `Step` has.

    `output` and `message` have the form of the API and are sent unchanged, also in a stream: hosted tools, reasoning,
    custom tools, the old `function_call`. Each is for one of the two APIs; a reply may have both. `body` and `events`
    are whole answers, valid or not.

    Attributes:
        text: Text of the model.
        calls: Calls that it requests.
        refusal: Text of a refusal.
        finish: The `finish_reason` of a chat; `length` and `content_filter` make an answer of Responses incomplete. By
            default derived from the answer.
        failure: The answer has status 200 and reports this error of the model.
        usage: Input and output tokens; by default one for each four characters of JSON text.
        output: Items of `/v1/responses`, in place of text, calls and refusal.
        message: The message of `/v1/chat/completions`, in place of text, calls and refusal.
        body: The whole JSON body, also if a stream was requested.
        events: The whole stream.
        delay: Seconds before the answer begins.

    Example:
        >>> import json
        >>> from contextlib import closing
        >>> from http.client import HTTPConnection
        >>> from toolgrade.testing import FakeOpenAI, Reply
        >>> with FakeOpenAI(Reply("It is sunny.", usage=(40, 12))) as server:
        ...     with closing(HTTPConnection("127.0.0.1", server.port)) as connection:
        ...         connection.request("POST", "/v1/chat/completions", '{"model": "any"}')
        ...         answer = json.load(connection.getresponse())
        >>> answer["choices"][0]["message"]["content"], answer["usage"]["completion_tokens"]
        ('It is sunny.', 12)
    """

    text: str | None = None
    calls: Sequence[AskFor | HandOff] = ()
    _: KW_ONLY
    refusal: str | None = None
    finish: str | None = None
    failure: str | None = None
    usage: tuple[int, int] | None = None
    output: Sequence[JsonObject] | None = None
    message: JsonObject | None = None
    body: JsonObject | None = None
    events: Sequence[JsonObject] | None = None
    delay: float = 0.0

    def __post_init__(self) -> None:
        """Check that everything in the reply can be sent.

        Raises:
            ConfigurationError: A call has a wrong type, or text, calls or a refusal stand next to a form that is sent
                unchanged.
        """
        for call in self.calls:
            require(isinstance(call, (AskFor, HandOff)), "a call must be AskFor or HandOff", call)
        raw = [name for name in ("output", "message", "body", "events") if getattr(self, name) is not None]
        if raw and (self.text is not None or self.calls or self.refusal is not None):
            raise ConfigurationError(
                f"{raw[0]!r} is sent unchanged, so text, calls or refusal next to it would be lost; move them into it"
            )

    def function_calls(self) -> list[tuple[str, str, str]]:
        """Return name, arguments as text, and id of each call; a `HandOff` calls `transfer_to_<agent>`."""
        calls: list[tuple[str, str, str]] = []
        for call in self.calls:
            call_id = new_id("call") if call.id is None else call.id
            if isinstance(call, HandOff):
                calls.append((f"transfer_to_{re.sub(r'[^a-zA-Z0-9_]', '_', call.to).lower()}", "{}", call_id))
            else:
                calls.append((call.name, call.arguments_text, call_id))
        return calls


@dataclass(frozen=True, slots=True)
class HttpFault:
    """A fault between a client and an endpoint; use the class methods to create one.

    Attributes:
        code: The HTTP status.
        text: The body.
        headers: Headers except the length of the body; the content type is JSON by default.
        reply: The reply that is sent; its body replaces `text`.
        ending: How the answer ends.
        share: Part of the body that is sent, in [0, 1]; used if the ending is `cut` or `closed`.
        pause: Seconds between two pieces of the body.
        delay: Seconds before the answer begins.

    Example:
        >>> from contextlib import closing
        >>> from http.client import HTTPConnection
        >>> from toolgrade.testing import FakeOpenAI, HttpFault
        >>> with FakeOpenAI(HttpFault.status(429, "too many requests", retry_after=1), "It is sunny.") as server:
        ...     for attempt in (1, 2):
        ...         with closing(HTTPConnection("127.0.0.1", server.port)) as connection:
        ...             connection.request("POST", "/v1/chat/completions", '{"model": "any"}')
        ...             answer = connection.getresponse()
        ...             print(answer.status, answer.getheader("retry-after"))
        429 1
        200 None
    """

    code: int = 200
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    reply: Reply | None = None
    ending: Ending = "whole"
    share: float = 1.0
    pause: float = 0.0
    delay: float = 0.0

    @classmethod
    def of(cls, step: ReplyLike) -> HttpFault:
        """Return an answer in any form as this class; an exception becomes an answer with status 500."""
        if isinstance(step, HttpFault):
            return step
        if not isinstance(step, Reply):
            step = Step.of(step)
            if step.error is not None:
                text = f"{type(step.error).__name__}: {step.error}"
                return cls.status(500, text, headers=_NO_RETRY, delay=step.delay)
            step = Reply(step.text, step.calls, delay=step.delay)
        return cls(reply=step, delay=step.delay)

    @classmethod
    def status(
        cls,
        code: int,
        message: str | None = None,
        *,
        kind: str | None = None,
        error_code: str | None = None,
        retry_after: float | str | None = None,
        headers: Mapping[str, str] | None = None,
        delay: float = 0.0,
    ) -> HttpFault:
        """Return an error in the form of OpenAI.

        Args:
            code: The HTTP status, from 400 to 599.
            message: The text of the error.
            kind: Its `type`; by default that of OpenAI for this status.
            error_code: Its `code`, such as `insufficient_quota`.
            retry_after: The header `Retry-After`: seconds, or an HTTP date.
            headers: Further headers.
            delay: Seconds before the answer begins.

        Raises:
            ConfigurationError: The status is not that of an error.
        """
        if not HTTPStatus.BAD_REQUEST <= code <= _LAST_STATUS:
            raise ConfigurationError(f"status must be from 400 to 599, got {code!r}; use a Reply for a success")
        if code == HTTPStatus.TOO_MANY_REQUESTS:
            kind, error_code = kind or "requests", error_code or "rate_limit_exceeded"
        kind = kind or ("server_error" if code >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error")
        error = {"message": message or f"scripted status {code}", "type": kind, "param": None, "code": error_code}
        retry = {} if retry_after is None else {"retry-after": f"{retry_after}"}
        return cls(code, json_text({"error": error}), headers={**retry, **(headers or {})}, delay=delay)

    @classmethod
    def broken(cls, message: str) -> HttpFault:
        """Return a status 500 that clients do not retry: the endpoint cannot play its script."""
        return cls.status(500, message, kind="fake_endpoint_error", headers=_NO_RETRY)

    @classmethod
    def silence(cls) -> HttpFault:
        """Never answer; the connection stays open until the server or the client closes it."""
        return cls(ending="silent")

    @classmethod
    def cut(cls, reply: StepLike | Reply | None = None, *, share: float = 0.5, clean: bool = False) -> HttpFault:
        """End the connection too early.

        Args:
            reply: The reply that is sent in part; without it, the connection is cut before the first byte.
            share: Part of the body that is sent, in [0, 1).
            clean: The answer ends properly but incomplete: a stream without its last events, JSON text without its end.

        Raises:
            ConfigurationError: The share is out of range, or the reply cannot be cut.
        """
        require(0 <= share < 1, "share must be at least 0 and less than 1", share)
        if reply is None:
            return cls(ending="dropped")
        return replace(cls._of_reply(reply), ending="closed" if clean else "cut", share=share)

    @classmethod
    def trickle(cls, reply: StepLike | Reply, pause: float) -> HttpFault:
        """Send a reply in pieces, events of a stream or tenths of a body, with `pause` seconds between them.

        No single wait is long, so only a deadline for the whole answer stops it.

        Raises:
            ConfigurationError: The reply is an exception.
        """
        return replace(cls._of_reply(reply), pause=pause)

    @classmethod
    def _of_reply(cls, reply: StepLike | Reply) -> HttpFault:
        fault = cls.of(reply)
        if fault.reply is None or isinstance(reply, HttpFault):
            message = "only text, calls or a Reply can be cut or slowed down, not an exception or a fault"
            raise ConfigurationError(message)
        return fault

    @classmethod
    def html(cls, text: str = "<!DOCTYPE html><title>Sign in</title>", *, code: int = 200) -> HttpFault:
        """Send an HTML page, as a proxy or a wrong address does."""
        return cls(code, text, headers={"content-type": "text/html; charset=utf-8"})

    @classmethod
    def invalid_json(cls, text: str = '{"id": "broken", "choices": [{') -> HttpFault:
        """Send a body of type JSON that is not JSON."""
        return cls(text=text)


ReplyLike: TypeAlias = "StepLike | Reply | HttpFault"
"""An answer of a fake endpoint to one request."""
