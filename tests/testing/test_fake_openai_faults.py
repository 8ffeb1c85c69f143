"""What goes wrong between a client and the fake endpoint, as a client without a library sees it."""

from __future__ import annotations

import http.client
import json
import time

import pytest

from toolgrade.testing import AskFor, FakeOpenAI, HttpFault, Reply, Step
from wire import CHAT, QUESTIONS, RESPONSES, Answer, ask, connected, over

BOTH = pytest.mark.parametrize("path", [CHAT, RESPONSES])
STREAMED = pytest.mark.parametrize("stream", [False, True])
LONG = "one two three four five six seven eight nine ten"


def begun(server: FakeOpenAI, path: str, *, stream: bool) -> Answer:
    """As much of an answer as there is; its status is that of the headers, and 0 with the error without any."""
    with connected(server) as connection:
        connection.request("POST", path, json.dumps({**QUESTIONS[path], "stream": stream}))
        try:
            response = connection.getresponse()
        except ConnectionError as error:
            return Answer(0, {}, type(error).__name__)
        try:
            text = response.read().decode()
        except http.client.IncompleteRead as error:
            return Answer(response.status, {"incomplete": "yes"}, error.partial.decode())
        return Answer(response.status, {}, text)


@BOTH
@STREAMED
@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        (HttpFault.status(400), "invalid_request_error", None),
        (HttpFault.status(401, error_code="invalid_api_key"), "invalid_request_error", "invalid_api_key"),
        (HttpFault.status(429), "requests", "rate_limit_exceeded"),
        (
            HttpFault.status(429, error_code="insufficient_quota"),
            *("requests", "insufficient_quota"),
        ),
        (HttpFault.status(500), "server_error", None),
        (HttpFault.status(503), "server_error", None),
    ],
)
def test_a_status_is_reported_as_openai_does(
    path: str, fault: HttpFault, kind: str, code: str | None, *, stream: bool
) -> None:
    """An error has its status and a JSON body with message, type and code, also where a stream was asked for."""
    with FakeOpenAI(fault, "and on") as server, connected(server) as connection:
        answer = over(connection, path, {**QUESTIONS[path], "stream": stream})
        after = over(connection, path, QUESTIONS[path])

    error = answer.json["error"]
    assert (answer.status, error["type"], error["code"]) == (fault.code, kind, code)
    assert error["message"] == f"scripted status {fault.code}"
    assert "and on" in after.text
    assert server.errors == ()


def test_an_answer_may_say_when_to_try_again() -> None:
    """`Retry-After` is sent if scripted, in seconds or as a date, as are further headers."""
    date = "Sat, 21 Nov 2026 12:00:00 GMT"
    with FakeOpenAI(
        HttpFault.status(429),
        HttpFault.status(429, retry_after=1.5),
        HttpFault.status(503, retry_after=date, headers={"retry-after-ms": "5"}),
    ) as server:
        none, seconds, dated = [ask(server).headers for _ in range(3)]

    assert "retry-after" not in none
    assert seconds["retry-after"] == "1.5"
    assert (dated["retry-after"], dated["retry-after-ms"]) == (date, "5")


def test_exception_of_a_step_is_a_status() -> None:
    """A 500 with its text that clients do not retry, and not an endpoint error."""
    with FakeOpenAI(ValueError("too hot"), Step(error=KeyError("k"))) as server:
        short, long = ask(server), ask(server)

    assert (short.status, short.headers["x-should-retry"]) == (500, "false")
    assert short.json["error"]["message"] == "ValueError: too hot"
    assert long.json["error"]["message"] == "KeyError: 'k'"
    assert server.errors == ()


@BOTH
@STREAMED
def test_a_connection_may_be_cut_before_the_first_byte(path: str, *, stream: bool) -> None:
    """The connection closes without headers."""
    with FakeOpenAI(HttpFault.cut()) as server:
        assert begun(server, path, stream=stream) == Answer(0, {}, "RemoteDisconnected")


@BOTH
@STREAMED
def test_a_connection_may_be_cut_within_the_body(path: str, *, stream: bool) -> None:
    """Headers and half of the body, then a detectable abort."""
    with FakeOpenAI(Reply(LONG), HttpFault.cut(LONG)) as server:
        whole = begun(server, path, stream=stream)
        cut = begun(server, path, stream=stream)

    assert cut.status == 200
    assert "incomplete" in cut.headers
    # The length may differ by the digits of an id.
    assert len(cut.text) == pytest.approx(len(whole.text) / 2, abs=20)


@BOTH
@STREAMED
def test_an_answer_may_never_come(path: str, *, stream: bool) -> None:
    """The request is accepted, and nothing is sent until the client gives up."""
    with FakeOpenAI(HttpFault.silence()) as server:
        with pytest.raises(TimeoutError):
            ask(server, path, seconds=0.1, stream=stream)

        assert len(server.requests) == 1


def test_an_answer_may_come_late() -> None:
    """A delay goes before the first byte, so a client that waits long enough gets the answer, and another does not."""
    with FakeOpenAI(Step("late", delay=60), Step("late", delay=0.1)) as server:
        with pytest.raises(TimeoutError):
            ask(server, seconds=0.05)
        start = time.monotonic()
        answer = ask(server)
        seconds = time.monotonic() - start

    assert "late" in answer.text
    assert seconds >= 0.1


def test_a_page_for_people_may_come() -> None:
    """HTML with status 200, as from a proxy."""
    with FakeOpenAI(HttpFault.html()) as server:
        page = ask(server)

    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.text.startswith("<!DOCTYPE html>")


def test_raw_replies_can_be_faulty() -> None:
    """Calls and raw replies can be cut like text."""
    steps = [[AskFor("add")], Step("x"), Reply(body={"content": "x"})]
    with FakeOpenAI(*[HttpFault.cut(step) for step in steps]) as server:
        statuses = [begun(server, CHAT, stream=True).status for _ in steps]

    assert statuses == [200, 200, 200]
    assert server.errors == ()
