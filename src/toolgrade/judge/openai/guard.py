"""What an endpoint may not do with its answers: send a request elsewhere, fill the memory, or show the key.

An endpoint may quote the key that it was sent. The key is removed as plain text and in its URL form, from errors, texts
of the model and logs of the HTTP client.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from toolgrade._internal.json import REDACTED

Hook: TypeAlias = Callable[[Any], Awaitable[None]]
"""Gets a request or a response of the HTTP client."""

NO_KEY: Final = "not-needed"
"""Sent to servers that need no key, since OpenAI's client demands one."""
SHORTEST_KEY: Final = 8
"""Characters of the shortest key; removing a placeholder such as `none` would destroy answers."""
LARGEST_ANSWER: Final = 256_000
"""Bytes of the largest answer that is read."""
LARGEST_FILE: Final = 1_000_000_000
"""Bytes of the largest file of a batch that is read."""
PROBLEM: Final = "toolgrade_problem"
"""The extension of a response that says why its body was not read."""

_KEY_HEADERS = ("authorization", "api-key", "x-api-key")
_KEY_VARIABLES = ("TOOLGRADE_JUDGE_API_KEY", "OPENAI_API_KEY")
_MOST_KEYS = 64
"""Keys that are remembered."""
_LOGGERS = (
    *("openai._base_client", "httpx", "httpx2"),
    *("httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy", "httpcore.socks"),
    *("httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "httpcore2.proxy", "httpcore2.socks"),
)
"""Loggers of OpenAI's client, and of the HTTP clients below it, which log headers and addresses."""

_keys: dict[str, None] = {}
"""The keys that were sent last, oldest first."""


def is_secret(key: str) -> bool:
    """Return whether a key must be removed from texts: it is not a placeholder for servers without keys."""
    return len(key) >= SHORTEST_KEY and key != NO_KEY


def remember_key(key: str) -> None:
    """Store a key that is about to be sent, so that `without_keys` and the logs of the HTTP client leave it out."""
    if is_secret(key):
        _keys.pop(key, None)
        _keys[key] = None
        for old in list(_keys)[:-_MOST_KEYS]:
            _keys.pop(old, None)


def without_keys(text: str) -> str:
    """Return a text without the keys that were sent last, and without those of the environment."""
    keys = {*_keys, *filter(is_secret, (os.environ.get(name, "") for name in _KEY_VARIABLES))}
    for key in sorted(keys, key=len, reverse=True):  # one key may begin another one
        for form in _forms(key):
            text = text.replace(form, REDACTED)
    return text


@lru_cache(maxsize=_MOST_KEYS)
def _forms(key: str) -> list[str]:
    """Return a key as it is, and its URL form with escapes in upper and in lower case: `a+b`, `a%2Bb`, `a%2bb`."""
    encoded = quote(key, safe="")
    return [key, encoded, re.sub("%..", lambda escape: escape[0].lower(), encoded)]


class _KeyFilter(logging.Filter):
    """Removes keys from log records; it lets all of them pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        clean = without_keys(message)
        if clean != message:
            record.msg, record.args = clean, ()
        return True


_KEY_FILTER = _KeyFilter()


def guard(client: Any, on_request: Hook, on_response: Hook) -> None:  # noqa: ANN401 - an HTTP client of any version
    """Add hooks to an HTTP client: this module's, which guard key and memory, and then these two.

    The client, which may be the user's own, follows no redirects from here on: they could send the key elsewhere.
    """
    client.follow_redirects = False
    for kind, hooks in (("request", [_prepare, on_request]), ("response", [_read, on_response])):
        present = client.event_hooks[kind]
        # A client of the user has the hooks already if the judge has used it on another event loop.
        present[:0] = [hook for hook in hooks if hook not in present]
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_KEY_FILTER)  # adding it again changes nothing


async def _prepare(request: Any) -> None:  # noqa: ANN401 - of the HTTP client
    request.headers["accept-encoding"] = "identity"  # the size of what is compressed is only known once it is unpacked
    for name in _KEY_HEADERS:
        remember_key(request.headers.get(name, "").rpartition(" ")[2])


async def _read(response: Any) -> None:  # noqa: ANN401 - of the HTTP client
    """Read the body of a response up to the largest size; a body that is refused is replaced by an empty one."""
    is_file = response.request.url.path.endswith("/content")  # /files/{id}/content is the download of a batch's file
    limit = LARGEST_FILE if is_file else LARGEST_ANSWER
    encoding = response.headers.pop("content-encoding", "identity")
    body, problem = bytearray(), ""
    try:
        if encoding.strip().lower() != "identity":
            problem = f"the answer is compressed as {without_keys(encoding)[:40]!r}, which was not asked for"
        else:
            async for piece in response.stream:
                body += piece
                if len(body) > limit:
                    problem = f"the answer has more than {limit:,} bytes, the most that is read of one"
                    break
    finally:
        await response.stream.aclose()
    if problem:
        response.extensions[PROBLEM] = problem
        body.clear()
    response.headers.pop("content-length", None)
    response.encoding = "utf-8"  # the header may name a codec that unpacks without a limit
    library = importlib.import_module(type(response).__module__.partition(".")[0])  # versions use different ones
    response.stream = library.ByteStream(bytes(body))
