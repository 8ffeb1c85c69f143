"""The fake endpoint over HTTP: JSON and streamed answers, startup and shutdown."""

from __future__ import annotations

import http.client
import itertools
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade.errors import ConfigurationError
from toolgrade.testing import AskFor, FakeOpenAI, HandOff, HttpFault, ReceivedRequest, Reply, Step
from wire import CHAT, QUESTIONS, RESPONSES, ask, chat_message, connected, over

BOTH = pytest.mark.parametrize("path", [CHAT, RESPONSES])
TWO_CALLS = [AskFor("add", {"a": 1, "b": 2}, "c1"), AskFor("slow", '{"x": ', "c2")]


def response_texts(output: list[dict[str, Any]]) -> list[str]:
    """Return the texts of a Responses answer's items."""
    return [part.get("text", part.get("refusal")) for item in output for part in item.get("content", [])]


# What a script says


def test_a_chat_answers_with_text() -> None:
    """Text is the content of an assistant's message, and the model is the one that was asked."""
    with FakeOpenAI("It is 3.") as server:
        answer = ask(server)

    [choice] = answer.json["choices"]
    assert answer.status == 200
    assert choice["message"] == {"role": "assistant", "content": "It is 3.", "refusal": None, "annotations": []}
    assert choice["finish_reason"] == "stop"
    assert answer.json["model"] == "m"


def test_a_chat_asks_for_calls() -> None:
    """Calls keep order, ids and raw argument text; there is no content."""
    with FakeOpenAI(TWO_CALLS) as server:
        answer = ask(server)

    [choice] = answer.json["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}},
        {"id": "c2", "type": "function", "function": {"name": "slow", "arguments": '{"x": '}},
    ]


def test_responses_answer_with_text_and_calls() -> None:
    """A message comes before the calls that go with it; an id of a call is its `call_id`."""
    with FakeOpenAI(Step("Let me see.", tuple(TWO_CALLS))) as server:
        answer = ask(server, RESPONSES)

    message, *calls = answer.json["output"]
    assert answer.json["status"] == "completed"
    assert message["content"] == [{"type": "output_text", "text": "Let me see.", "annotations": [], "logprobs": []}]
    assert [(call["type"], call["call_id"], call["name"], call["arguments"]) for call in calls] == [
        ("function_call", "c1", "add", '{"a": 1, "b": 2}'),
        ("function_call", "c2", "slow", '{"x": '),
    ]


@BOTH
def test_ids_are_unique_unless_the_script_says_otherwise(path: str) -> None:
    """Answers, items and calls have unique ids; a scripted id is used, even an empty one."""
    calls = [AskFor("a"), AskFor("a"), AskFor("a", id=""), AskFor("a", id="c1"), AskFor("a", id="c1")]
    with FakeOpenAI(calls, calls) as server:
        bodies = [ask(server, path).json for _ in range(2)]

    items = [
        item for body in bodies for item in (body.get("output") or body["choices"][0]["message"].get("tool_calls"))
    ]
    call_ids = [item.get("call_id", item["id"]) for item in items]
    assert [call_ids.count(call_id) for call_id in ("", "c1")] == [2, 4]
    ids = [body["id"] for body in bodies] + [each for each in call_ids if each not in {"", "c1"}]
    ids += [item["id"] for item in items if "call_id" in item]
    assert len(ids) == len(set(ids)) == (6 if path == CHAT else 16)


def test_a_hand_over_calls_the_tool_that_frameworks_name_for_it() -> None:
    """A hand-over is a call of `transfer_to_` and the agent's name, in small letters and underscores."""
    with FakeOpenAI([HandOff("Billing Agent", "h1")]) as server:
        [call] = ask(server).json["choices"][0]["message"]["tool_calls"]

    assert call == {
        "id": "h1",
        "type": "function",
        "function": {"name": "transfer_to_billing_agent", "arguments": "{}"},
    }


def test_usage_is_plausible_and_can_be_set() -> None:
    """Both APIs report tokens: those of the script, otherwise more for longer texts."""
    with FakeOpenAI(Reply("x", usage=(10, 5)), "short", "long " * 100) as server:
        usage = ask(server).json["usage"]
        short, long = [ask(server, RESPONSES).json["usage"] for _ in range(2)]

    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (10, 5, 15)
    assert 0 < short["output_tokens"] < long["output_tokens"]
    assert short["total_tokens"] == short["input_tokens"] + short["output_tokens"]


@pytest.mark.parametrize(
    ("finish", "status", "details"),
    [
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("content_filter", "incomplete", {"reason": "content_filter"}),
        ("stop", "completed", None),
    ],
)
def test_an_answer_may_be_cut_short_by_the_model(finish: str, status: str, details: dict[str, str] | None) -> None:
    """A chat has `finish_reason`; a response is incomplete, with a reason and the item's status."""
    reply = Reply("It is", finish=finish)
    with FakeOpenAI(reply, reply, reply) as server:
        chat = ask(server).json
        whole = ask(server, RESPONSES).json
        streamed = ask(server, RESPONSES, stream=True).events

    assert chat["choices"][0]["finish_reason"] == finish
    assert (whole["status"], whole["incomplete_details"], whole["output"][0]["status"]) == (status, details, status)
    assert streamed[-1]["type"] == f"response.{status}"
    assert streamed[-1]["response"]["incomplete_details"] == details


def test_a_model_may_refuse() -> None:
    """A refusal is not content: a separate field in a chat, a separate part in Responses."""
    reply = Reply(refusal="I cannot.")
    with FakeOpenAI(reply, reply) as server:
        chat = ask(server).json["choices"][0]["message"]
        [item] = ask(server, RESPONSES).json["output"]

    assert (chat["content"], chat["refusal"]) == (None, "I cannot.")
    assert item["content"] == [{"type": "refusal", "refusal": "I cannot."}]


def test_a_model_may_fail_within_an_answer() -> None:
    """A failure comes with status 200: as an error in place of choices, a failed response, or the end of a stream."""
    with FakeOpenAI(*[Reply(failure="overloaded")] * 4) as server:
        chat, chat_stream = ask(server), ask(server, stream=True)
        whole, stream = ask(server, RESPONSES).json, ask(server, RESPONSES, stream=True)

    assert (chat.status, chat.json["error"]["message"]) == (200, "overloaded")
    assert chat_stream.events[-1]["error"]["message"] == "overloaded"
    assert (whole["status"], whole["error"]["message"]) == ("failed", "overloaded")
    assert stream.events[-1]["type"] == "response.failed"


# Streams


def test_responses_stream_their_events_in_order() -> None:
    """Each item is added, streamed and done with sequence numbers; the last event has the response."""
    with FakeOpenAI(Step("Wait.", (AskFor("add", {}, "c1"),))) as server:
        answer = ask(server, RESPONSES, stream=True)

    events = answer.events
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(14))
    assert [event["output_index"] for event in events[2:-1]] == [0] * 7 + [1] * 4
    assert answer.text.startswith("event: response.created\ndata: ")
    output = events[-1]["response"]["output"]
    assert [event["item"] for event in events if event["type"].endswith("output_item.done")] == output
    assert events[9]["item"] == {**output[1], "arguments": "", "status": "in_progress"}
    assert {event["item_id"] for event in events if "item_id" in event} == {item["id"] for item in output}


def test_a_stream_says_the_same_as_a_whole_answer() -> None:
    """Joined, the pieces equal the answer without streaming, for any text."""
    replies: list[Reply] = []

    @given(
        text=st.none() | st.text(max_size=12),
        refusal=st.none() | st.text(max_size=9),
        arguments=st.lists(st.text(max_size=12), max_size=3),
    )
    def check(text: str | None, refusal: str | None, arguments: list[str]) -> None:
        calls = [AskFor("add", raw, f"c{n}") for n, raw in enumerate(arguments)]
        replies.append(Reply(text, calls, refusal=refusal))

        whole, stream = [chat_message(over(connection, CHAT, {**QUESTIONS[CHAT], "stream": on})) for on in (0, True)]
        events = over(connection, RESPONSES, {**QUESTIONS[RESPONSES], "stream": True}).events

        assert {key: value for key, value in stream.items() if value} == {
            key: value for key, value in whole.items() if value
        }
        output = events[-1]["response"]["output"]
        deltas: dict[tuple[int, int], str] = {}
        for event in events:
            if event["type"].endswith(".delta"):
                place = event["output_index"], event.get("content_index", 0)
                deltas[place] = deltas.get(place, "") + event["delta"]
        texts_of_items = [[item["arguments"]] if "arguments" in item else response_texts([item]) for item in output]
        assert deltas == {
            (i, j): piece for i, texts in enumerate(texts_of_items) for j, piece in enumerate(texts) if piece
        }
        assert [*itertools.chain.from_iterable(texts_of_items)] == [
            *filter(lambda t: t is not None, (text, refusal)),
            *arguments,
        ]

    with FakeOpenAI(answer=lambda _: replies[-1]) as server, connected(server) as connection:
        check()


# Raw answers

WEB_SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "weather"},
}
MCP_FAILED = {
    "type": "mcp_call",
    "id": "mcp_1",
    "server_label": "git",
    "name": "search",
    "arguments": '{"q": 1}',
    "output": None,
    "error": "boom",
    "status": "failed",
}


def test_items_are_sent_as_they_are() -> None:
    """Items of any kind, also an unknown one, come unchanged, whole and as the end of their events."""
    items = [WEB_SEARCH, MCP_FAILED, {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "SELECT 1"}]
    items += [{"type": "telepathy_call", "thought": [1]}]
    reply = Reply(output=items)
    with FakeOpenAI(reply, reply) as server:
        whole = ask(server, RESPONSES).json["output"]
        events = ask(server, RESPONSES, stream=True).events

    assert whole == items
    assert events[-1]["response"]["output"] == items
    kinds = [event["type"].removeprefix("response.") for event in events[2:-1]]
    assert [kind for kind in kinds if not kind.startswith("output_item")] == [
        "mcp_call_arguments.delta",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
    ]


def test_items_are_those_of_one_api() -> None:
    """A chat has no items."""
    with FakeOpenAI(Reply(output=[WEB_SEARCH])) as server:
        alone = ask(server)

    assert alone.status == 500
    assert "which only /v1/responses plays" in alone.json["error"]["message"]
    assert "which only /v1/responses plays" in server.errors[0]


@BOTH
def test_a_whole_body_may_be_anything(path: str) -> None:
    """A body of the wrong schema is sent unchanged, also in place of a stream."""
    body = {"score": "high"}
    with FakeOpenAI(Reply(body=body), Reply(body=body)) as server:
        whole, unasked = ask(server, path), ask(server, path, stream=True)

    assert whole.json == unasked.json == body
    assert unasked.headers["content-type"] == "application/json"


# Routing and recorded requests


def test_requests_are_recorded_in_order() -> None:
    """Method, path, lower-case headers and body; the key is not in the `repr`."""
    with FakeOpenAI("a", "b") as server:
        ask(server, RESPONSES, input="first")
        ask(server, CHAT, stream=True)

    first, second = server.requests
    assert (first.method, first.path, first.body, first.streams) == (
        "POST",
        RESPONSES,
        {"model": "m", "input": "first"},
        False,
    )
    assert first.headers["authorization"] == "Bearer sk-made-up"
    assert "sk-made-up" not in repr(first)
    assert (second.model, second.streams) == ("m", True)


def test_one_script_gives_each_step_once() -> None:
    """Of requests at the same time each gets another step, and the order of `requests` is the order of the steps."""
    steps = [f"step {n}" for n in range(40)]

    with FakeOpenAI(*steps) as server, ThreadPoolExecutor(8) as pool:
        answers = dict(pool.map(lambda n: (n, chat_message(ask(server, user=str(n)))["content"]), range(40)))

    assert [answers[int(request.body["user"])] for request in server.requests] == steps


def test_a_function_may_answer() -> None:
    """A function gets the request and gives a reply in any form."""

    def answer(request: ReceivedRequest) -> str | list[AskFor]:
        return [AskFor("add")] if request.path == CHAT else request.body["input"].upper()

    with FakeOpenAI(answer=answer) as server:
        called = chat_message(ask(server))
        texts = response_texts(ask(server, RESPONSES, input="loud").json["output"])

    assert called["tool_calls"][0]["function"]["name"] == "add"
    assert texts == ["LOUD"]


def wrong_type(_: ReceivedRequest) -> Any:
    """Return an invalid reply."""
    return {"text": "no reply"}


def no_answer(_: ReceivedRequest) -> str:
    """Fail."""
    raise LookupError("no such question")


@pytest.mark.parametrize(
    ("function", "message"), [(wrong_type, "must be AskFor or HandOff"), (no_answer, "LookupError: no such quest")]
)
def test_function_that_raises_is_reported(function: Callable[[ReceivedRequest], Any], message: str) -> None:
    """Its exception reaches the client, without retries, and `errors`."""
    with FakeOpenAI(answer=function) as server:
        answer = ask(server)

    assert (answer.status, answer.headers["x-should-retry"]) == (500, "false")
    assert message in answer.json["error"]["message"]
    assert message in server.errors[0]


def test_exhausted_script_is_reported() -> None:
    """A further request gets an error without retries, which is also in `errors`."""
    with FakeOpenAI("only") as server:
        ask(server)
        answer = ask(server)

    assert (answer.status, answer.headers["x-should-retry"]) == (500, "false")
    assert "its script has 1 steps" in answer.json["error"]["message"]
    [error] = server.errors
    assert error.startswith("/v1/chat/completions (model 'm'): ScriptEndedError: the model was asked 2 times")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "/chat/completions", {"model": "m"}, 404, "there is no POST /chat/completions here"),
        ("GET", CHAT, None, 404, "there is no GET"),
        ("DELETE", f"{RESPONSES}/r1", None, 404, "there is no DELETE"),
        ("POST", CHAT, b"{", 400, "not JSON"),
        ("POST", CHAT, b"[1]", 400, "must be a JSON object"),
    ],
)
def test_a_bad_request_is_refused(method: str, path: str, body: Any, status: int, message: str) -> None:
    """An invalid request gets OpenAI's error, uses no step, and keeps the connection."""
    with FakeOpenAI("still there") as server, connected(server) as connection:
        refused = over(connection, path, body, method)
        answer = over(connection, CHAT, QUESTIONS[CHAT])

    assert refused.status == status
    assert message in refused.json["error"]["message"]
    assert chat_message(answer)["content"] == "still there"


def test_a_refused_request_is_among_the_errors() -> None:
    """An agent may swallow a 404 or 400; a test still sees it."""
    with FakeOpenAI() as server, connected(server) as connection:
        over(connection, "/v2/nothing", {})
        over(connection, CHAT, b"{")

    assert [error.partition(":")[0] for error in server.errors] == ["there is no POST /v2/nothing here", f"POST {CHAT}"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FakeOpenAI("a", answer=lambda _: "b"), "either steps or `answer`"),
        (lambda: FakeOpenAI([{"name": "add"}]), "must be AskFor or HandOff"),  # type: ignore[list-item]
        (lambda: Reply("lost", output=[]), "would be lost"),
        (lambda: HttpFault.status(200), "must be from 400 to 599"),
        (lambda: HttpFault.cut(ValueError("x")), "not an exception"),
        (lambda: FakeOpenAI("a").base_url, "does not listen yet"),
    ],
)
def test_invalid_scripts_are_refused_at_once(make: Callable[[], object], message: str) -> None:
    """The error is raised where the script is written."""
    with pytest.raises(ConfigurationError, match=message):
        make()


# Beginning and ending


def until_asked(server: FakeOpenAI, times: int) -> None:
    """Wait until that many requests have come."""
    deadline = time.monotonic() + 5
    while len(server.requests) < times:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_closing_ends_open_requests(capfd: pytest.CaptureFixture[str]) -> None:
    """Hanging and slow answers and idle connections end with the server immediately."""
    waiting = [HttpFault.silence(), Step("late", delay=60)] * 2
    server = FakeOpenAI(*waiting, "quick").start()
    idle = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)

    def outcome(number: int) -> str:
        try:
            return ask(server, stream=number % 2 == 0).text
        except (http.client.HTTPException, ConnectionError) as error:
            return type(error).__name__

    with ThreadPoolExecutor(4) as pool:
        outcomes = []
        for number in range(4):
            outcomes.append(pool.submit(outcome, number))
            until_asked(server, number + 1)
        over(idle, CHAT, QUESTIONS[CHAT])
        start = time.monotonic()
        server.close()
        seconds = time.monotonic() - start
        errors = sorted(future.result() for future in outcomes)

    idle.close()
    assert errors == ["RemoteDisconnected"] * 4
    assert seconds < 1
    assert server.errors == ()
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", server.port)) != 0
    assert capfd.readouterr() == ("", "")


def test_server_runs_once() -> None:
    """Closing twice is harmless; starting again is refused, since the script is used up."""
    server = FakeOpenAI("x").start()
    server.close()
    server.close()

    with pytest.raises(ConfigurationError, match="create a new one"):
        server.start()


def test_an_error_in_the_block_closes_it_too() -> None:
    """A test that fails leaves nothing behind."""
    with pytest.raises(LookupError), FakeOpenAI("x") as server:
        raise LookupError

    with pytest.raises(ConnectionError):
        ask(server)


def test_a_client_may_go_away(capfd: pytest.CaptureFixture[str]) -> None:
    """A client that disconnects is not an error of the endpoint, and the next one is served."""
    with FakeOpenAI("x" * 400_000, "next") as server:
        with connected(server) as connection:
            connection.request("POST", CHAT, b'{"model": "m", "messages": [], "stream": true}')
            connection.getresponse().read(10)
        time.sleep(0.05)
        answer = ask(server)

    assert chat_message(answer)["content"] == "next"
    assert server.errors == ()
    assert capfd.readouterr() == ("", "")


def test_a_client_may_break_off_its_request(capfd: pytest.CaptureFixture[str]) -> None:
    """A connection reset during a request is not an error of the endpoint."""
    with FakeOpenAI("next") as server:
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(b"POST /v1/responses HTTP/1.1\r\nContent-Length: 99\r\n\r\n{")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        answer = ask(server)

    assert chat_message(answer)["content"] == "next"
    assert server.errors == ()
    assert capfd.readouterr() == ("", "")
