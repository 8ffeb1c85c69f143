"""What an endpoint may not do with its answers: send a judge elsewhere, or fill the memory."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable

import pytest

from hostile_proxy import Answer, HostileProxy
from toolgrade.errors import JudgeError, JudgeOutcome
from toolgrade.judge import Reply as JudgeReply
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.judge.openai.guard import LARGEST_ANSWER
from toolgrade.judge.prompts import parse_reply
from toolgrade.testing import FakeOpenAI, Reply, sample_prompt

pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")
import openai  # behind the skip

YES = '{"evidence": [], "reasoning": "", "verdict": "yes"}'


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


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_compressed_answers_are_refused(encoding: str) -> None:
    """They were not asked for, and may unpack to any size."""
    bomb = gzip.compress(b" " * (64 << 20), mtime=0)
    error, _ = outcome(lambda answer: Answer(answer.kind, 200, bomb, headers={"content-encoding": encoding}))

    assert isinstance(error, JudgeError)
    assert error.outcome is JudgeOutcome.MALFORMED
    assert f"the answer is compressed as '{encoding}', which was not asked for" in str(error)


@pytest.mark.parametrize(("status", "own_client"), [(200, False), (400, True)])
def test_a_long_answer_is_refused(status: int, *, own_client: bool) -> None:
    """Also as the text of an error; one that is just short enough is read."""
    long = b"x" * (LARGEST_ANSWER + 1)
    error, _ = outcome(lambda answer: Answer(answer.kind, status, long), own_client=own_client)
    padded, _ = outcome(lambda answer: answer.with_body(answer.body.ljust(LARGEST_ANSWER)))

    assert isinstance(error, JudgeError)
    assert error.outcome is JudgeOutcome.MALFORMED
    assert "the answer has more than 256,000 bytes" in str(error)
    assert padded == YES


def test_a_long_reasoning_is_cut_off() -> None:
    """The rest is counted; 20 kB stay."""
    for letter in "xä\N{GRINNING FACE}":
        reasoning = letter * 30_000
        text = json.dumps({"evidence": [], "reasoning": reasoning, "verdict": "yes"}, ensure_ascii=False)
        reply = JudgeReply(text=text)
        rationale = str(parse_reply(sample_prompt(), reply).rationale)
        letters = rationale.count(letter)

        assert 19_900 <= len(rationale.encode()) <= 20_000
        assert rationale == f"{letter * letters} ... ({30_000 - letters:,} more characters)"


def test_a_long_reply_of_a_function_is_malformed() -> None:
    """No judge may fill reports or take much time to read."""
    reply = JudgeReply(text='{"a":' * 60_000)
    with pytest.raises(JudgeError, match="it has 300,000 characters, at most 256,000 are read"):
        parse_reply(sample_prompt(), reply)
