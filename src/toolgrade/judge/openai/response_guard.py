"""Guard of what an endpoint sends: every answer passes here before OpenAI's client, a log or toolgrade reads it.

It follows no redirect, bounds the size of an answer before and after decompression, and removes the key that was sent.
"""

from __future__ import annotations

import importlib
import zlib
from typing import Any, Final

from toolgrade.errors import JudgeOutcome
from toolgrade.judge.openai.errors import EndpointError, unusable_response_error
from toolgrade.judge.openai.key_filter import keys_of, remember, remove_keys

LARGEST_ANSWER: Final = 16_000_000
"""Bytes of the largest answer to a request that is read, compressed or not."""

LARGEST_FILE: Final = 1_000_000_000
"""Bytes of the largest file of a batch that is read, compressed or not."""

_GZIP_OR_ZLIB = 47  # detected by the first bytes
_REDIRECTS = range(300, 400)


def guard(client: Any) -> None:  # noqa: ANN401 - the HTTP client of any version of OpenAI's client
    """Let every request and response of an HTTP client pass through here; a client that does already stays as it is."""
    for hooks, hook in ((client.event_hooks["request"], _prepare), (client.event_hooks["response"], _check)):
        if hook not in hooks:
            hooks.append(hook)


async def _prepare(request: Any) -> None:  # noqa: ANN401 - of the HTTP client
    """Ask for a compression whose result can be bounded, and remember the key that is sent."""
    request.headers["accept-encoding"] = "gzip"
    remember(keys_of(request.headers))


async def _check(response: Any) -> None:  # noqa: ANN401 - of the HTTP client
    """Read an answer, and replace it by its checked text.

    Raises:
        EndpointError: It is a redirect, too large, or cannot be decompressed.
    """
    keys = keys_of(response.request.headers)
    if response.status_code in _REDIRECTS:
        target = remove_keys(response.headers.get("location", "an unnamed address"), keys)
        message = f"HTTP {response.status_code}: the endpoint redirects to {target[:200]}"
        message = f"{message}; redirects are not followed, so give the final address as base_url"
        raise EndpointError(JudgeOutcome.FATAL, message)
    limit = LARGEST_FILE if response.request.url.path.endswith("/content") else LARGEST_ANSWER
    body = _inflate(await _read(response, limit), response.headers.pop("content-encoding", ""), limit)
    # Latin-1 gives each byte a character, so that bytes that are no text stay what they are.
    body = remove_keys(body.decode("latin-1"), keys).encode("latin-1")
    response.headers.pop("content-length", None)
    for name, value in response.headers.multi_items():
        clean_name, clean_value = remove_keys(name, keys), remove_keys(value, keys)
        if (clean_name, clean_value) != (name, value):
            del response.headers[name]
            if clean_name == name:
                response.headers[name] = clean_value
    response.extensions.pop("reason_phrase", None)
    # The header may name a codec that is not one of texts, and decompresses without a limit.
    response.encoding = "utf-8"
    library = importlib.import_module(type(response).__module__.partition(".")[0])  # versions use different ones
    response.stream = library.ByteStream(body)


async def _read(response: Any, limit: int) -> bytes:  # noqa: ANN401 - of the HTTP client
    body = bytearray()
    stream = response.stream
    try:
        async for piece in stream:
            body += piece
            if len(body) > limit:
                raise _too_large(limit)
    finally:
        await stream.aclose()
    return bytes(body)


def _inflate(body: bytes, encoding: str, limit: int) -> bytes:
    if encoding.strip().lower() in ("", "identity") or not body:
        return body
    if encoding.strip().lower() not in ("gzip", "x-gzip", "deflate"):
        raise unusable_response_error(f"the answer is compressed as {encoding[:40]!r}, but only gzip was asked for")
    decoder = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        content = decoder.decompress(body, limit + 1)
    except zlib.error as error:
        raise unusable_response_error(f"the answer cannot be decompressed: {error}") from None
    if len(content) > limit:
        raise _too_large(limit)
    if not decoder.eof:
        raise unusable_response_error("the compressed answer ends too early")
    return content


def _too_large(limit: int) -> EndpointError:
    # It was billed, and asking again would most likely give the same.
    message = f"the answer has more than {limit:,} bytes, the most that is read of one; it was not used"
    return EndpointError(JudgeOutcome.MALFORMED, message, billed=True)
