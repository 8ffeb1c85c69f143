"""A judge behind OpenAI's API, over HTTP: what it sends, what it reads, and what it does when things go wrong."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import threading
import time
import warnings
from typing import Any

import pytest

from toolgrade.errors import ConfigurationError, JudgeError, JudgeOutcome
from toolgrade.judge import Judge
from toolgrade.judge import Reply as JudgeReply
from toolgrade.judge.judge import PromptResult
from toolgrade.judge.openai import OpenAIJudge
from toolgrade.judge.openai.client import judge_from_environment
from toolgrade.testing import FakeOpenAI, HttpFault, ReceivedRequest, Reply, Step
from toolgrade.testing import sample_prompt as prompt

openai = pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")

YES = '{"evidence": ["c1"], "reasoning": "it fits", "verdict": "yes"}'
IMAGE = "data:image/png;base64,iVBORw0KGgo="
SOON = {"retry-after-ms": "20"}
APIS = pytest.mark.parametrize("api", ["chat", "responses"])


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove keys and addresses from the environment."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("MODEL", "BASE_URL", "API_KEY", "API", "TIMEOUT", "DEADLINE", "MAX_CONCURRENCY"):
        monkeypatch.delenv(f"TOOLGRADE_JUDGE_{name}", raising=False)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of our own and of OpenAI's client are short; those that an endpoint asks for stay."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr("toolgrade.judge.openai.client._OVERLOAD_SECONDS", 0.1)


def judge(server: FakeOpenAI, **options: Any) -> OpenAIJudge:
    """A judge at the endpoint."""
    return OpenAIJudge(**{"model": "m", "base_url": server.base_url, **options})


def ask(endpoint: OpenAIJudge, text: str = "Was the call right?", **options: Any) -> JudgeReply:
    """Return the reply to one prompt from a new event loop."""
    return asyncio.run(endpoint.complete(prompt(text, **options)))


def fails(endpoint: OpenAIJudge, outcome: JudgeOutcome, message_text: str = ".") -> JudgeError:
    """The error that one prompt ends with."""
    with pytest.raises(JudgeError, match=message_text) as caught:
        ask(endpoint)
    assert caught.value.outcome is outcome
    return caught.value


def refuse_forms(*accepted: str) -> Any:
    """An endpoint that knows only these kinds of `response_format`, as servers do that are not OpenAI's."""

    def answer(request: ReceivedRequest) -> Any:
        demanded = request.body.get("response_format", {}).get("type", "plain")
        if demanded in accepted:
            return YES
        return HttpFault.status(400, f"'response_format' of type {demanded!r} is not supported by this model")

    return answer


# Requests and replies


def test_chat_request_has_the_schema() -> None:
    """Messages and a strict schema only: no temperature and no token limit."""
    with FakeOpenAI(YES) as server:
        reply = ask(judge(server))

    [request] = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "You judge tool calls."},
            {"role": "user", "content": "Was the call right?"},
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "tool_selection", "schema": prompt().reply_schema, "strict": True},
        },
    }
    assert (reply.text, reply.finish, reply.model, reply.attempts) == (YES, "stop", "m", 1)
    assert reply.request_id is not None
    assert reply.request_id.startswith("req")


def test_responses_are_used_on_request() -> None:
    """The same prompt in the form of the other API, without storage."""
    with FakeOpenAI(Reply(YES, usage=(11, 4))) as server:
        reply = ask(judge(server, api="responses"))

    [request] = server.requests
    assert request.path == "/v1/responses"
    assert request.body == {
        "model": "m",
        "store": False,
        "input": [
            {"role": "system", "content": "You judge tool calls."},
            {"role": "user", "content": "Was the call right?"},
        ],
        "text": {
            "format": {
                "type": "json_schema",
                "name": "tool_selection",
                "schema": prompt().reply_schema,
                "strict": True,
            }
        },
    }
    assert (reply.text, reply.usage["input_tokens"], reply.usage["output_tokens"]) == (YES, 11, 4)


@APIS
def test_images_are_parts(api: str) -> None:
    """Images stand where they stood in the message."""
    with FakeOpenAI(YES) as server:
        ask(judge(server, api=api), images=(IMAGE,))

    body = server.requests[0].body
    if api == "chat":
        assert body["messages"][1]["content"] == [
            {"type": "text", "text": "Was the call right?"},
            {"type": "image_url", "image_url": {"url": IMAGE}},
        ]
    else:
        assert body["input"][1]["content"] == [
            {"type": "input_text", "text": "Was the call right?"},
            {"type": "input_image", "image_url": IMAGE, "detail": "auto"},
        ]


@APIS
def test_options_are_sent_and_are_part_of_the_identity(api: str) -> None:
    """A user's own fields go into every request; verdicts of other options, models or servers are other verdicts."""
    with FakeOpenAI(YES) as server:
        endpoint = judge(server, api=api, options={"temperature": 0, "reasoning_effort": "low"})
        ask(endpoint)

        assert server.requests[0].body["temperature"] == 0
        assert server.requests[0].body["reasoning_effort"] == "low"
        others = [judge(server, api=api), judge(server, api=api, model="n"), OpenAIJudge("m", api=api)]
    identities = [repr(one.identity) for one in [endpoint, *others]]
    assert len(set(identities)) == 4


@APIS
@pytest.mark.parametrize(
    ("step", "fields"),
    [
        (Reply(refusal="I cannot."), {"refusal": "I cannot.", "text": None, "finish": "stop"}),
        (Reply('{"verdict": "y', finish="length"), {"text": '{"verdict": "y', "finish": "length"}),
        (Reply("", finish="content_filter"), {"text": "", "finish": "content_filter"}),
        (Reply(""), {"text": "", "finish": "stop"}),
    ],
)
def test_replies_without_a_verdict_are_returned(api: str, step: Reply, fields: dict[str, Any]) -> None:
    """Refusals, truncated and withheld answers keep their kind and tokens, and are not retried."""
    with FakeOpenAI(step) as server:
        reply = ask(judge(server, api=api))

    assert {name: getattr(reply, name) for name in fields} == fields
    assert reply.usage["input_tokens"] > 0
    assert len(server.requests) == 1


def test_usage_has_the_providers_counts() -> None:
    """Cached and reasoning tokens, if they are not 0, and no others."""
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0, "cache_write_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 12, "rejected_prediction_tokens": 0},
    }
    message = {"role": "assistant", "content": YES}
    body = {"id": "x", "model": "m", "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
    with FakeOpenAI(Reply(body=body)) as server:
        reply = ask(judge(server))

    assert reply.usage == {
        "input_tokens": 100,
        "output_tokens": 20,
        "cached_tokens": 64,
        "reasoning_tokens": 12,
    }


# The form of the reply


def test_a_server_without_schemas_is_learnt_once() -> None:
    """The schema is then demanded in words, in later requests at once."""
    with FakeOpenAI(answer=refuse_forms("plain")) as server:
        endpoint = judge(server)
        replies = [ask(endpoint), ask(endpoint)]

    bodies = [request.body for request in server.requests]
    forms = [body.get("response_format", {}).get("type", "plain") for body in bodies]
    assert forms == ["json_schema", "plain", "plain"]
    assert [(reply.text, reply.attempts) for reply in replies] == [(YES, 2), (YES, 1)]
    assert '"enum": ["yes", "no", "cannot_tell"]' in bodies[-1]["messages"][0]["content"]  # the schema, in words


def test_another_refusal_does_not_lower_the_form() -> None:
    """A prompt that is refused in every form is an error, and the next one starts with the schema again."""

    def answer(request: ReceivedRequest) -> Any:
        if "bad" in request.text:
            return HttpFault.status(400, "the messages are not to my liking")
        return YES

    with FakeOpenAI(answer=answer) as server:
        endpoint = judge(server)
        with pytest.raises(JudgeError, match="not to my liking") as caught:
            ask(endpoint, "bad")
        ask(endpoint)

    assert caught.value.outcome is JudgeOutcome.MALFORMED
    assert server.requests[-1].body["response_format"]["type"] == "json_schema"


def test_too_long_prompt_is_sent_once() -> None:
    """A refusal for another reason does not change the form."""
    with FakeOpenAI(HttpFault.status(400, "too long", error_code="context_length_exceeded")) as server:
        fails(judge(server), JudgeOutcome.MALFORMED, "too long")

    assert len(server.requests) == 1


# Faults that pass


@pytest.mark.parametrize(
    "fault",
    [
        HttpFault.status(500),
        HttpFault.status(408),
        HttpFault.status(429, headers=SOON),
        HttpFault.status(429),
        HttpFault.cut(),
        HttpFault.cut(YES),
        HttpFault.silence(),
        Step(YES, delay=3),
    ],
    ids=str,
)
def test_transient_error_is_retried(fault: Any) -> None:
    """The second attempt has the verdict, and both are counted."""
    takes_long = getattr(fault, "ending", "") == "silent" or getattr(fault, "delay", 0)
    with FakeOpenAI(fault, YES) as server:
        reply = ask(judge(server, timeout=0.5 if takes_long else 10))  # a busy machine needs time as well

    assert (reply.text, reply.attempts, len(server.requests)) == (YES, 2, 2)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (HttpFault.html(), "not a JSON object; is the address that of an API.*Sign in"),
        (HttpFault(text='{"id": "broken", "choices": [{'), "not a JSON object"),
        (Reply(failure="overloaded"), "overloaded"),
        (Reply(body={"object": "chat.completion", "choices": []}), "no choice with a message"),
        (Reply("No verdict."), "expected a JSON object"),
    ],
    ids=str,
)
def test_an_answer_that_cannot_be_used_is_asked_for_again_once(fault: Any, problem: str) -> None:
    """A proxy or the model may do better the second time."""

    def result(*steps: Any) -> PromptResult:
        with FakeOpenAI(*steps) as server:
            answer = asyncio.run(Judge(judge(server)).ask(prompt()))
        assert len(server.requests) == answer.requests == 2
        return answer

    assert result(fault, YES).verdict is not None
    failed = result(fault, fault)
    assert failed.outcome is JudgeOutcome.MALFORMED
    assert re.search(problem, str(failed.problem))


def test_tokens_of_answers_that_cannot_be_used_count() -> None:
    """They were paid for."""
    paid = Reply(body={"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}})
    with FakeOpenAI(paid, Reply(YES, usage=(7, 3)), paid, paid) as server:
        endpoint = Judge(judge(server), cache=None)
        usages = [asyncio.run(endpoint.ask(prompt())).usage for _ in range(2)]

    assert [(usage["input_tokens"], usage["output_tokens"]) for usage in usages] == [(107, 13), (200, 20)]


@pytest.mark.parametrize(
    ("fault", "outcome", "message_text"),
    [
        (HttpFault.status(500, "no luck"), JudgeOutcome.TRANSIENT, r"HTTP 500 \(server_error\): no luck"),
        (HttpFault.silence(), JudgeOutcome.TIMEOUT, r"no answer within 0\.2 seconds"),
        (HttpFault.cut(), JudgeOutcome.TRANSIENT, "the connection failed"),
    ],
)
def test_permanent_error_is_reported(fault: Any, outcome: JudgeOutcome, message_text: str) -> None:
    """After the last attempt the error has the cause and the number of attempts."""
    with FakeOpenAI(*[fault] * 3) as server:
        error = fails(judge(server, max_attempts=3, timeout=0.2), outcome, message_text)

    assert (error.attempts, len(server.requests)) == (3, 3)


def test_a_server_that_says_not_to_ask_again_is_heeded() -> None:
    """The header that forbids another attempt is obeyed."""
    with FakeOpenAI(HttpFault.status(500, headers={"x-should-retry": "false"})) as server:
        fails(judge(server), JudgeOutcome.TRANSIENT)

    assert len(server.requests) == 1


# Overload


@pytest.mark.parametrize("header", ["-1", "Wed, 21 Oct 2015 07:28:00 GMT", "inf"])
def test_a_pause_that_is_none_keeps_the_back_off(monkeypatch: pytest.MonkeyPatch, header: str) -> None:
    """A deadline that ends in refusals says so, after few requests."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.25)
    refusal = HttpFault.status(429, "slow down", headers={"retry-after": header})
    with FakeOpenAI(answer=lambda _: refusal) as server:
        fails(judge(server, deadline=1), JudgeOutcome.TRANSIENT, "HTTP 429.*slow down.*deadline")

    assert len(server.requests) <= 4


def test_overload_is_waited_out() -> None:
    """Refusals do not use up the attempts, and all questions of the loop wait."""
    refused = [HttpFault.status(429)] * 5
    with FakeOpenAI(*refused, YES) as server:
        assert ask(judge(server, max_attempts=2)).attempts == 6

    assert len(server.requests) == 6


def test_an_endpoint_that_takes_few_at_a_time_answers_all() -> None:
    """If the endpoint's concurrency is lower than the client's, all questions have verdicts in the end."""
    chosen: list[float] = []
    lock = threading.Lock()

    def answer(_request: ReceivedRequest) -> Any:
        now = time.monotonic()
        with lock:
            if sum(now - moment < 0.2 for moment in chosen) >= 5:
                return HttpFault.status(429, retry_after=0.2)
            chosen.append(now)
        return YES

    async def main(endpoint: OpenAIJudge) -> list[JudgeReply]:
        return await asyncio.gather(*[endpoint.complete(prompt(f"{number}")) for number in range(24)])

    with FakeOpenAI(answer=answer) as server:
        replies = asyncio.run(main(judge(server, max_concurrency=8, max_attempts=2)))

    assert [reply.text for reply in replies] == [YES] * 24
    assert len(server.requests) == sum(reply.attempts for reply in replies)


def test_a_pause_beyond_the_deadline_ends_at_once() -> None:
    """Nobody waits for an answer that could only come too late."""
    with FakeOpenAI(HttpFault.status(429, "slow down", retry_after=180)) as server:
        endpoint = judge(server, deadline=5)
        fails(endpoint, JudgeOutcome.TRANSIENT, "slow down; nothing is sent for 180 s, which is beyond the deadline")
    assert len(server.requests) == 1


# Faults that stay


@pytest.mark.parametrize(
    "fault",
    [
        HttpFault.status(401, "bad key", error_code="invalid_api_key"),
        HttpFault.status(403, "not yours"),
        HttpFault.status(404, "no such model", error_code="model_not_found"),
        HttpFault.status(429, "pay first", error_code="insufficient_quota"),
        HttpFault.status(402, "pay first"),
    ],
    ids=lambda fault: str(fault.code),
)
def test_fatal_error_is_not_retried(fault: HttpFault) -> None:
    """A wrong key, an empty account and an unknown model end the question at once."""
    with FakeOpenAI(fault) as server:
        error = fails(judge(server), JudgeOutcome.FATAL, "bad key|not yours|no such model|pay first")

    assert (error.attempts, len(server.requests)) == (1, 1)


def test_after_a_fatal_fault_a_run_ends_and_the_next_one_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later questions in the same event loop are not sent for a while; another loop sends at once."""

    async def main(tested: Judge, *pauses: float) -> list[JudgeOutcome]:
        outcomes = []
        for seconds in pauses:
            await asyncio.sleep(seconds)
            outcomes.append((await tested.ask(prompt())).outcome)
        return outcomes

    with FakeOpenAI(HttpFault.status(401, "revoked"), HttpFault.status(401, "revoked"), YES, YES) as server:
        endpoint = Judge(judge(server), cache=None)
        first = asyncio.run(main(endpoint, 0, 0, 0))
        monkeypatch.setattr("toolgrade.judge.judge._BLOCKED_SECONDS", 0.2)
        second = asyncio.run(main(endpoint, 0, 0.3))

    assert first == [JudgeOutcome.FATAL, JudgeOutcome.ABORTED, JudgeOutcome.ABORTED]
    assert second == [JudgeOutcome.FATAL, JudgeOutcome.OK]
    assert len(server.requests) == 3


def test_a_filtered_prompt_is_its_own_outcome() -> None:
    """A provider that refuses the prompt itself for its content does not stop the others."""
    with FakeOpenAI(HttpFault.status(400, "filtered", error_code="content_filter"), YES) as server:
        endpoint = judge(server)
        fails(endpoint, JudgeOutcome.CONTENT_FILTER, "filtered")

        assert ask(endpoint).text == YES


# Limits


def test_no_more_requests_at_once_than_allowed() -> None:
    """The limit holds in an event loop."""
    under_way, most, lock = 0, 0, threading.Lock()

    def answer(_request: ReceivedRequest) -> Any:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.05)
        with lock:
            under_way -= 1
        return YES

    async def main(endpoint: OpenAIJudge) -> None:
        await asyncio.gather(*[endpoint.complete(prompt(f"{number}")) for number in range(18)])

    with FakeOpenAI(answer=answer) as server:
        asyncio.run(main(judge(server, max_concurrency=3)))

    assert len(server.requests) == 18
    assert most == 3


@pytest.mark.parametrize(
    ("options", "message_text"),
    [
        ({"api": "telepathy"}, "'telepathy'"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"deadline": 0}, "deadline"),
        ({"model": ""}, "model"),
        ({"model": None}, "model"),
    ],
)
def test_settings_are_checked(options: dict[str, Any], message_text: str) -> None:
    """An invalid setting is refused immediately."""
    with pytest.raises(ConfigurationError, match=message_text):
        OpenAIJudge(**{"model": "m", **options})


# Keys, clients, event loops


def test_nothing_is_read_or_built_before_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge is made without a key; the key that counts is the one at the first request, and is not shown."""
    monkeypatch.setenv("TOOLGRADE_JUDGE_API_KEY", "sk-wrong")
    with FakeOpenAI(YES) as server:
        endpoint = judge(server)
        monkeypatch.setenv("TOOLGRADE_JUDGE_API_KEY", "sk-right")
        ask(endpoint)

    assert server.requests[0].headers["authorization"] == "Bearer sk-right"
    assert "sk-" not in repr(endpoint) + repr(endpoint.identity)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_key_for_openai_goes_to_no_other_server(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """Unless it is given as the key of the judge; the refusal says what to do."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    with FakeOpenAI(HttpFault.status(401, "who are you"), YES, YES) as server:
        address = server.base_url.replace("127.0.0.1", host)
        fails(judge(server, base_url=address), JudgeOutcome.FATAL, "who are you; no key was sent: give api_key=")
        ask(judge(server, base_url=address, api_key="sk-of-openai"))
        monkeypatch.setenv("TOOLGRADE_JUDGE_API_KEY", "sk-of-judges")
        ask(judge(server, base_url=address))

    keys = [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]
    assert keys == ["not-needed", "sk-of-openai", "sk-of-judges"]


@pytest.mark.parametrize(
    ("address", "key"),
    [
        (None, "sk-of-openai"),
        ("https://api.openai.com/v1", "sk-of-openai"),
        ("https://eu.api.openai.com/v1", "sk-of-openai"),
        ("https://api.openai.com.example.org/v1", "not-needed"),
        ("https://example.org/api.openai.com", "not-needed"),
    ],
)
def test_the_addresses_of_openai(monkeypatch: pytest.MonkeyPatch, address: str | None, key: str) -> None:
    """By their host."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    assert OpenAIJudge("m", base_url=address)._key() == key


@pytest.mark.parametrize(
    "address", ["http://example.org/v1", "http://api.openai.com/v1", "http://127.0.0.1.example.org/v1"]
)
def test_no_key_goes_over_plain_http(address: str) -> None:
    """It could be read on the way; a placeholder may go."""
    fails(
        OpenAIJudge("m", base_url=address, api_key="sk-of-mine"), JudgeOutcome.FATAL, "not sent to .* over plain HTTP"
    )
    assert OpenAIJudge("m", base_url=address, api_key="none")._key() == "none"


def test_the_server_of_a_client_is_part_of_the_identity() -> None:
    """Two servers behind `client=` do not share verdicts; the address alone does, however it was given."""
    with FakeOpenAI() as first, FakeOpenAI() as second:
        clients = [
            OpenAIJudge("m", client=lambda address=address: openai.AsyncOpenAI(base_url=address, api_key="k"))
            for address in (first.base_url, second.base_url)
        ]
        assert clients[0].identity == judge(first).identity != clients[1].identity


def test_missing_key_is_reported() -> None:
    """OpenAI itself is not called without a key."""
    fails(OpenAIJudge("gpt-4.1"), JudgeOutcome.FATAL, "TOOLGRADE_JUDGE_API_KEY or OPENAI_API_KEY")


def test_a_key_that_cannot_be_sent_is_an_error_of_ours() -> None:
    """Whatever OpenAI's client raises."""
    with FakeOpenAI() as server, pytest.raises(JudgeError):
        ask(OpenAIJudge("m", base_url=server.base_url, max_attempts=1, api_key="sk-\u00e9"))


@pytest.mark.parametrize("address", ["no address", "ftp://x/v1", "localhost:80/v1", "https://x.com\\.api.openai.com"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    """Before anything is sent; a host that only ends as OpenAI's gets no key of it."""
    with pytest.raises(ConfigurationError, match="base_url must begin with http"):
        OpenAIJudge("m", base_url=address)


def test_connections_close_with_the_loop() -> None:
    """Even if the judge is garbage-collected earlier."""

    async def main(address: str) -> None:
        await asyncio.gather(*[OpenAIJudge("m", base_url=address).complete(prompt(f"{n}")) for n in range(8)])
        gc.collect()

    with FakeOpenAI(*[YES] * 8) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main(server.base_url))
        gc.collect()

    assert len(server.requests) == 8  # an open socket is a warning, and a warning an error


def test_a_client_of_ones_own_is_used() -> None:
    """The function that makes the client is called with the first request."""
    calls_made: list[Any] = []

    with FakeOpenAI(HttpFault.status(401, "no"), YES) as server:

        def client() -> Any:
            calls_made.append(openai.AsyncOpenAI(base_url=server.base_url, api_key="sk-mine", max_retries=4))
            return calls_made[-1]

        endpoint = OpenAIJudge("m", client=client)
        assert calls_made == []
        with pytest.raises(JudgeError):
            ask(endpoint)
        assert ask(endpoint).text == YES

    assert [request.headers["authorization"] for request in server.requests] == ["Bearer sk-mine"] * 2


def test_cancelled_call_frees_its_slot() -> None:
    """Even if it was still waiting."""

    async def main(endpoint: OpenAIJudge) -> JudgeReply:
        tasks = [asyncio.create_task(endpoint.complete(prompt(f"{n}"))) for n in range(3)]
        await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return await endpoint.complete(prompt("last"))

    with FakeOpenAI(answer=lambda request: YES if "last" in request.text else Step(YES, delay=5)) as server:
        assert asyncio.run(main(judge(server, max_concurrency=1))).text == YES


# The environment


def test_the_environment_describes_a_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Model, API, address, key and limits can all stand there."""
    with FakeOpenAI(YES) as server:
        settings = {
            "MODEL": "env",
            "API": "responses",
            "BASE_URL": server.base_url,
            "API_KEY": "sk-env",
            "TIMEOUT": "9",
        }
        for name, value in settings.items():
            monkeypatch.setenv(f"TOOLGRADE_JUDGE_{name}", value)
        endpoint = judge_from_environment()
        assert isinstance(endpoint, OpenAIJudge)
        reply = ask(endpoint)

    [request] = server.requests
    assert (request.path, request.model) == ("/v1/responses", "env")
    assert request.headers["authorization"] == "Bearer sk-env"
    assert reply.text == YES
    assert endpoint._timeout == 9


@pytest.mark.parametrize(("name", "value"), [("TIMEOUT", "soon"), ("MAX_CONCURRENCY", "1.5"), ("API", "telepathy")])
def test_an_environment_that_is_wrong_is_an_error(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """The value is shown; a limit is named by its variable."""
    monkeypatch.setenv("TOOLGRADE_JUDGE_MODEL", "m")
    monkeypatch.setenv(f"TOOLGRADE_JUDGE_{name}", value)

    with pytest.raises(ConfigurationError, match=f"{name.lower()}.*'{value}'|{name}.*'{value}'"):
        judge_from_environment()


def test_an_environment_without_a_model_describes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key alone does not configure a judge."""
    monkeypatch.setenv("TOOLGRADE_JUDGE_API_KEY", "sk-x")

    assert judge_from_environment() is None


def test_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first request needs OpenAI's package."""
    monkeypatch.setitem(sys.modules, "openai", None)
    endpoint = OpenAIJudge("m", base_url="http://127.0.0.1:1/v1")

    with pytest.raises(ImportError, match=r"pip install openai"):
        ask(endpoint)
