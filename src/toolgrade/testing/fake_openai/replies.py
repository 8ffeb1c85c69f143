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

Ending: TypeAlias = Literal["whole", "cut", "dropped", "silent"]
"""How an answer ends: it is sent whole, the connection is cut in its middle or before its first byte, or never."""

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

    `output` has the form of the API and is sent unchanged, also in a stream: hosted tools, reasoning, custom tools.

    Attributes:
        text: Text of the model.
        calls: Calls that it requests.
        refusal: Text of a refusal.
        finish: The `finish_reason` of a chat; `length` and `content_filter` make an answer of Responses incomplete. By
            default derived from the answer.
        failure: The answer has status 200 and reports this error of the model.
        usage: Input and output tokens; by default one for each four characters of JSON text.
        output: Items of `/v1/responses`, in place of text, calls and refusal.
        body: The whole JSON body, valid or not, also if a stream was requested.

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
    body: JsonObject | None = None

    def __post_init__(self) -> None:
        """Check that everything in the reply can be sent.

        Raises:
            ConfigurationError: A call has a wrong type, or text, calls or a refusal stand next to a form that is sent
                unchanged.
        """
        for call in self.calls:
            require(isinstance(call, (AskFor, HandOff)), "a call must be AskFor or HandOff", call)
        raw = [name for name in ("output", "body") if getattr(self, name) is not None]
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
                return replace(cls.status(500, text, headers=_NO_RETRY), delay=step.delay)
            return cls(reply=Reply(step.text, step.calls), delay=step.delay)
        return cls(reply=step)

    @classmethod
    def status(
        cls,
        code: int,
        message: str | None = None,
        *,
        error_code: str | None = None,
        retry_after: float | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpFault:
        """Return an error in the form of OpenAI.

        Args:
            code: The HTTP status, from 400 to 599.
            message: The text of the error.
            error_code: Its `code`, such as `insufficient_quota`.
            retry_after: The header `Retry-After`: seconds, or an HTTP date.
            headers: Further headers.

        Raises:
            ConfigurationError: The status is not that of an error.
        """
        if not HTTPStatus.BAD_REQUEST <= code <= _LAST_STATUS:
            raise ConfigurationError(f"status must be from 400 to 599, got {code!r}; use a Reply for a success")
        kind = "server_error" if code >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
        if code == HTTPStatus.TOO_MANY_REQUESTS:
            kind, error_code = "requests", error_code or "rate_limit_exceeded"
        error = {"message": message or f"scripted status {code}", "type": kind, "param": None, "code": error_code}
        retry = {} if retry_after is None else {"retry-after": f"{retry_after}"}
        return cls(code, json_text({"error": error}), headers={**retry, **(headers or {})})

    @classmethod
    def broken(cls, message: str) -> HttpFault:
        """Return a status 500 that clients do not retry: the endpoint cannot play its script."""
        return cls.status(500, message, error_code="fake_endpoint_error", headers=_NO_RETRY)

    @classmethod
    def silence(cls) -> HttpFault:
        """Never answer; the connection stays open until the server or the client closes it."""
        return cls(ending="silent")

    @classmethod
    def cut(cls, reply: StepLike | Reply | None = None) -> HttpFault:
        """End the connection too early: in the middle of a reply, or without one before the first byte.

        Raises:
            ConfigurationError: The reply is an exception or a fault.
        """
        if reply is None:
            return cls(ending="dropped")
        fault = cls.of(reply)
        if fault.reply is None or isinstance(reply, HttpFault):
            raise ConfigurationError("only text, calls or a Reply can be cut, not an exception or a fault")
        return replace(fault, ending="cut")

    @classmethod
    def html(cls, text: str = "<!DOCTYPE html><title>Sign in</title>") -> HttpFault:
        """Send an HTML page, as a proxy or a wrong address does."""
        return cls(text=text, headers={"content-type": "text/html; charset=utf-8"})


ReplyLike: TypeAlias = "StepLike | Reply | HttpFault"
"""An answer of a fake endpoint to one request."""
