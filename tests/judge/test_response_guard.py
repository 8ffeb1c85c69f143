"""What an endpoint may not do with its answers: send a judge elsewhere, or fill the memory."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from hostile_proxy import Answer, HostileProxy
from toolgrade.errors import JudgeError, JudgeOutcome
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.judge.openai.response_guard import LARGEST_ANSWER
from toolgrade.testing import FakeOpenAI, Reply, sample_prompt

pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")
import openai  # behind the skip

YES = '{"evidence": [], "reasoning": "", "verdict": "yes"}'
MEGABYTE = 1 << 20


def outcome(change: Callable[[Answer], Answer], *, own_client: bool = False) -> tuple[str | JudgeError, int]:
    """The text of a reply or the error, and the number of requests that the endpoint got."""
    with (
        FakeOpenAI(answer=lambda _: Reply(YES, usage=(10, 5))) as server,
        HostileProxy(server.port, change) as proxy,
    ):
        address = proxy.base_url
        if own_client:
            model = OpenAIJudge("m", client=lambda: openai.AsyncOpenAI(base_url=address, api_key="a-key-of-mine"))
        else:
            model = OpenAIJudge("m", base_url=address, max_attempts=1)
        try:
            return str(asyncio.run(model.complete(sample_prompt("q"))).text), len(proxy.kinds)
        except JudgeError as error:
            return error, len(proxy.kinds)


@pytest.mark.parametrize("own_client", [False, True])
@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_redirects_are_not_followed(status: int, *, own_client: bool) -> None:
    """The prompt goes to no other server, whose verdict is not taken; the error has the address and what to do."""
    with FakeOpenAI(answer=lambda _: Reply(YES)) as other:
        location = f"{other.base_url}/chat/completions"
        error, requests = outcome(
            lambda answer: Answer(answer.kind, status, b"", headers={"location": location}), own_client=own_client
        )

    assert isinstance(error, JudgeError)
    assert error.outcome is JudgeOutcome.FATAL
    assert f"HTTP {status}: the endpoint redirects to {location}; redirects are not followed" in str(error)
    assert (other.requests, requests) == ((), 1)


def compressed(body: bytes, encoding: str) -> Answer:
    """An answer of status 200 in a compressed form."""
    return Answer("", 200, body, headers={"content-encoding": encoding})


def test_compressed_answers_are_read() -> None:
    """In the forms that gzip has."""
    assert outcome(lambda answer: compressed(gzip.compress(answer.body, mtime=0), "gzip"))[0] == YES
    assert outcome(lambda answer: compressed(gzip.compress(answer.body, mtime=0), "X-GZIP"))[0] == YES
    assert outcome(lambda answer: compressed(zlib.compress(answer.body), "deflate"))[0] == YES
    assert outcome(lambda answer: compressed(answer.body, "identity"))[0] == YES


def bomb() -> bytes:
    """A gigabyte of blanks in a megabyte."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(compressor.compress(b" " * MEGABYTE) for _ in range(1024)), compressor.flush()])


@pytest.mark.parametrize(("status", "own_client"), [(200, False), (500, True)])
def test_an_answer_that_expands_to_a_gigabyte_is_refused(status: int, *, own_client: bool) -> None:
    """With a clear error, also as the text of an error, and without the memory for it."""
    body = bomb()
    tracemalloc.start()
    try:
        error, _ = outcome(
            lambda answer: Answer(answer.kind, status, body, headers={"content-encoding": "gzip"}),
            own_client=own_client,
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert isinstance(error, JudgeError)
    assert error.outcome is JudgeOutcome.MALFORMED
    assert "the answer has more than 16,000,000 bytes" in str(error)
    assert peak < 100 * MEGABYTE


def test_a_long_answer_is_refused() -> None:
    """Also one that is not compressed; one that is just short enough is read."""
    error, _ = outcome(lambda answer: answer.with_body(answer.body + b" " * LARGEST_ANSWER))
    assert "the answer has more than 16,000,000 bytes" in str(error)
    assert outcome(lambda answer: answer.with_body(answer.body.ljust(LARGEST_ANSWER)))[0] == YES


@pytest.mark.parametrize(
    ("body", "encoding", "message"),
    [
        (b"\x1b\x00\x00", "br", "compressed as 'br', but only gzip was asked for"),
        (b"(\xb5/\xfd", "zstd", "compressed as 'zstd'"),
        (gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0), "gzip, gzip", "compressed as 'gzip, gzip'"),
        (b"not compressed", "gzip", "cannot be decompressed"),
        (gzip.compress(b"{}" * 99, mtime=0)[:-9], "gzip", "ends too early"),
    ],
)
def test_other_compression_is_refused(body: bytes, encoding: str, message: str) -> None:
    """As a temporary error, since a proxy may have caused it."""
    error, _ = outcome(lambda _: compressed(body, encoding))

    assert isinstance(error, JudgeError)
    assert error.outcome is JudgeOutcome.TRANSIENT
    assert message in str(error)


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("charset", ["zlib", "bz2", "base64", "rot13", "utf-7", "unicode_escape", "nothing"])
def test_the_charset_of_an_answer_decides_nothing(charset: str, status: int) -> None:
    """JSON is UTF-8; a codec that decompresses would have no limit."""
    head = {"content-type": f"application/json; charset={charset}"}
    result, _ = outcome(lambda answer: Answer(answer.kind, status, answer.body, headers=head))

    assert result == YES if status == 200 else isinstance(result, JudgeError)


@pytest.mark.parametrize("tokens", [10**30, -5, 1.5, True, "7", None, [7], 10**18], ids=str)
def test_no_token_count_loses_a_verdict(tokens: object) -> None:
    """A count that cannot be one is as one that is not reported."""
    usage = {"prompt_tokens": tokens, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": tokens}}

    def change(answer: Answer) -> Answer:
        return answer.with_body(json.dumps({**json.loads(answer.body), "usage": usage}).encode())

    assert outcome(change)[0] == YES
