"""What can a fake endpoint answer? Replies beyond what a `Step` says, and what goes wrong on the way."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from typing import Literal, TypeAlias

from toolmark._internal.json import JsonObject, json_text, short_repr
from toolmark.errors import ConfigurationError
from toolmark.testing.scripted_model import AskFor, HandOff, Step, StepLike

Ending: TypeAlias = Literal["whole", "cut", "closed", "dropped", "silent"]
"""How an answer ends: all of it is sent, the connection is cut within it, it ends early but properly, the connection is
cut before its first byte, or nothing is ever sent."""

_LAST_STATUS = 599

_NO_RETRY = {"x-should-retry": "false"}
"""What the clients of OpenAI heed: asking again would only take the next step of the script."""


class Ids:
    """Gives out identifiers that no other of the same endpoint has, and the time as the API tells it."""

    def __init__(self) -> None:
        """Begin with 1."""
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def new(self, kind: str) -> str:
        """Return an identifier such as `resp_0001`."""
        with self._lock:
            return f"{kind}_{next(self._numbers):04d}"

    @staticmethod
    def now() -> int:
        """Return the seconds since 1970."""
        return int(time.time())


def count_tokens(text: str) -> int:
    """Return a plausible number of tokens: one for each four characters, at least 1."""
    return max(1, len(text) // 4)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with what a `Step` cannot say.

    `output` and `message` are in the endpoint's own shape and sent as they are, also in a stream: hosted tools,
    reasoning, custom tools, the old `function_call`. Each serves one of the two APIs; a reply may have both. `body` and
    `events` are whole answers, right or wrong.

    Attributes:
        text: What the model says.
        calls: What it asks for.
        refusal: How it refuses.
        finish: Why it ended, as a chat's `finish_reason`; `length` and `content_filter` make a Responses answer
            incomplete. By default what fits the answer.
        failure: The answer comes with status 200, and says that the model failed.
        usage: Input and output tokens; by default one for each four characters of JSON text.
        output: Items of `/v1/responses`, in place of text, calls and refusal.
        message: The message of `/v1/chat/completions`, in place of text, calls and refusal.
        body: The whole JSON body, also where a stream was asked for.
        events: The whole stream.
        delay: Seconds before the answer begins.
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
        """Refuse what cannot be played, or would be left out of the answer.

        Raises:
            ConfigurationError: A call that is none; text, calls or a refusal beside a form that is sent as it is.
        """
        for call in self.calls:
            if not isinstance(call, (AskFor, HandOff)):
                raise ConfigurationError(f"{short_repr(call)} is no call: give AskFor or HandOff, or a Reply")
        raw = [name for name in ("output", "message", "body", "events") if getattr(self, name) is not None]
        if raw and (self.text is not None or self.calls or self.refusal is not None):
            raise ConfigurationError(
                f"{raw[0]!r} is sent as it is, so the text, calls or refusal beside it would be lost; put them in"
            )

    @classmethod
    def of(cls, step: StepLike | Reply | HttpFault) -> Reply | HttpFault:
        """Return a step, in any form, as a reply or a fault; a step that raises is an answer with status 500."""
        if isinstance(step, (Reply, HttpFault)):
            return step
        step = Step.of(step)
        if step.error is not None:
            text = f"{type(step.error).__name__}: {step.error}"
            return HttpFault.status(500, text, headers=_NO_RETRY, delay=step.delay)
        return cls(step.text, step.calls, delay=step.delay)

    def called(self) -> list[tuple[str, str, str | None]]:
        """Return name, arguments as text, and id of what is asked for; a `HandOff` calls `transfer_to_<agent>`."""
        return [
            (f"transfer_to_{re.sub(r'[^a-zA-Z0-9_]', '_', call.to).lower()}", "{}", call.id)
            if isinstance(call, HandOff)
            else (call.name, call.arguments_text, call.id)
            for call in self.calls
        ]


@dataclass(frozen=True, slots=True)
class HttpFault:
    """Something that goes wrong between a client and an endpoint; made by the class methods.

    Attributes:
        code: The HTTP status.
        text: The body.
        headers: Headers beside the length of the body; the content type is JSON unless they say otherwise.
        reply: What is being answered; its body takes the place of `text`.
        ending: How the answer ends.
        share: How much of the body is sent, from 0 to 1; heeded where the ending is `cut` or `closed`.
        pause: Seconds between two pieces of the body.
        delay: Seconds before the answer begins.
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
        """An error as OpenAI reports it.

        Args:
            code: The HTTP status, from 400 to 599.
            message: The text of the error.
            kind: Its `type`; by default what OpenAI sends with this status.
            error_code: Its `code`, such as `insufficient_quota`.
            retry_after: The header `Retry-After`: seconds, or an HTTP date.
            headers: Further headers.
            delay: Seconds before the answer begins.

        Raises:
            ConfigurationError: The status is none of an error.
        """
        if not HTTPStatus.BAD_REQUEST <= code <= _LAST_STATUS:
            raise ConfigurationError(f"status {code!r} is no error: give one from 400 to 599, or a Reply")
        if code == HTTPStatus.TOO_MANY_REQUESTS:
            kind, error_code = kind or "requests", error_code or "rate_limit_exceeded"
        kind = kind or ("server_error" if code >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error")
        error = {"message": message or f"scripted status {code}", "type": kind, "param": None, "code": error_code}
        after = {} if retry_after is None else {"retry-after": f"{retry_after}"}
        return cls(code, json_text({"error": error}), headers={**after, **(headers or {})}, delay=delay)

    @classmethod
    def broken(cls, message: str) -> HttpFault:
        """A 500 that clients do not try again; how the endpoint says that it cannot play what it should."""
        return cls.status(500, message, kind="fake_endpoint_error", headers=_NO_RETRY)

    @classmethod
    def silence(cls) -> HttpFault:
        """Nothing is ever answered; the connection stays open until the server or the client closes it."""
        return cls(ending="silent")

    @classmethod
    def cut(cls, reply: StepLike | Reply | None = None, *, share: float = 0.5, clean: bool = False) -> HttpFault:
        """The connection ends too early.

        Args:
            reply: What is being answered; without it, the connection is cut before the first byte.
            share: How much of the body is sent, from 0 to below 1.
            clean: What was sent ends as if it were all: a stream without its last events, JSON text without its end.

        Raises:
            ConfigurationError: The share is out of range, or the reply cannot be cut.
        """
        if not 0 <= share < 1:
            raise ConfigurationError(f"share {share!r} is out of range: give 0 or more, and less than 1")
        if reply is None:
            return cls(ending="dropped")
        return cls(reply=_whole(reply), ending="closed" if clean else "cut", share=share)

    @classmethod
    def trickle(cls, reply: StepLike | Reply, pause: float) -> HttpFault:
        """A reply that comes in pieces, events of a stream or tenths of a body, with `pause` seconds between them.

        No single wait is long, so only a deadline for the whole answer ends it.

        Raises:
            ConfigurationError: The reply is an exception.
        """
        return cls(reply=_whole(reply), pause=pause)

    @classmethod
    def html(cls, text: str = "<!DOCTYPE html><title>Sign in</title>", *, code: int = 200) -> HttpFault:
        """A page for people, as a proxy or a wrong address sends it."""
        return cls(code, text, headers={"content-type": "text/html; charset=utf-8"})

    @classmethod
    def invalid_json(cls, text: str = '{"id": "broken", "choices": [{') -> HttpFault:
        """A body that says it is JSON, and is any text."""
        return cls(text=text)


def _whole(reply: StepLike | Reply) -> Reply:
    found = Reply.of(reply)
    if isinstance(found, HttpFault):
        raise ConfigurationError("only text, calls or a Reply can be cut or slowed down, not an exception or a fault")
    return found


ReplyLike: TypeAlias = "StepLike | Reply | HttpFault"
"""What a fake endpoint answers to one request."""
