"""The fake endpoint with OpenAI's own client: valid objects and real errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from toolgrade.testing import AskFor, FakeOpenAI, HttpFault, Reply, Step

openai = pytest.importorskip("openai", reason="the core is tested alone here, without OpenAI's client")
pydantic = pytest.importorskip("pydantic")

DOCS = Path(__file__).parents[2] / "docs"
MESSAGES: Any = [{"role": "user", "content": "1 + 2?"}]
CALLS = (AskFor("add", {"a": 1, "b": 2}, "c1"), AskFor("slow", {"x": 1}, "c2"))
REPLIES: list[Step | Reply] = [
    Step("It is 3."),
    Step(calls=CALLS),
    Step("Let me see.", CALLS),
    Step(),
    Reply(refusal="I cannot."),
    Reply("It is", finish="length"),
    Reply("", finish="content_filter"),
]
ITEMS = [
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "adding"}]},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "weather"}},
    {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"], "results": None},
    {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "failed",
        "code": "1/0",
        "container_id": "k",
        "outputs": None,
    },
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"},
    {"type": "mcp_call", "id": "mcp_1", "server_label": "git", "name": "search", "arguments": "{}", "output": "found"},
    {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "git", "tools": []},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "sql", "input": "SELECT 1"},
    {"type": "function_call", "id": "fc_1", "call_id": "c2", "name": "add", "arguments": "{}", "status": "completed"},
]


def client(server: FakeOpenAI, **options: Any) -> Any:
    """Return OpenAI's client for the endpoint, without retries by default."""
    return openai.OpenAI(**{"base_url": server.base_url, "api_key": "sk-made-up", "max_retries": 0, **options})


# What comes is what the client's classes declare; `validate` is strict about it where the client itself is not.


@pytest.mark.parametrize("reply", REPLIES)
def test_a_chat_is_valid(reply: Step | Reply) -> None:
    """A chat, whole and as chunks, validates as the client's own types."""
    types = pytest.importorskip("openai.types.chat")
    with FakeOpenAI(reply, reply) as server, client(server) as api:
        whole = api.chat.completions.with_raw_response.create(model="m", messages=MESSAGES).http_response.json()
        stream = api.chat.completions.create(
            model="m", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk.to_dict() for chunk in stream]

    types.ChatCompletion.model_validate(whole)
    assert [types.ChatCompletionChunk.model_validate(chunk) for chunk in chunks]
    assert chunks[-1]["usage"]["total_tokens"] > 0


@pytest.mark.parametrize("reply", [*REPLIES, *[Reply(output=[item]) for item in ITEMS], Reply(failure="overloaded")])
def test_a_response_is_valid(reply: Step | Reply) -> None:
    """A response, whole and as events, validates as the client's own types, and the events are of known kinds."""
    types = pytest.importorskip("openai.types.responses")
    events = pydantic.TypeAdapter(types.ResponseStreamEvent)
    with FakeOpenAI(reply, reply) as server, client(server) as api:
        whole = api.responses.with_raw_response.create(model="m", input="1 + 2?").http_response.json()
        streamed = [event.to_dict() for event in api.responses.create(model="m", input="1 + 2?", stream=True)]

    types.Response.model_validate(whole)
    parsed = [events.validate_python(event) for event in streamed]
    assert [event.type for event in parsed] == [event["type"] for event in streamed]
    assert [event["sequence_number"] for event in streamed] == list(range(len(streamed)))


def test_the_client_puts_streams_together() -> None:
    """The client's own accumulation of a stream ends in the same answer as the script says, on both APIs."""
    step = Step("Let me see.", CALLS)
    with FakeOpenAI(step, step) as server, client(server) as api:
        with api.responses.stream(model="m", input="1 + 2?") as stream:
            response = stream.get_final_response()
        with api.chat.completions.stream(model="m", messages=MESSAGES) as stream:
            message = stream.get_final_completion().choices[0].message

    assert response.output_text == message.content == "Let me see."
    called = [(call.call_id, call.name, call.arguments) for call in response.output[1:]]
    assert called == [("c1", "add", '{"a": 1, "b": 2}'), ("c2", "slow", '{"x": 1}')]
    assert [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls] == called


def test_an_answer_of_a_schema_is_read() -> None:
    """Structured output is text on the wire and parsed by the client; the request has the schema."""

    class Verdict(pydantic.BaseModel):
        score: int

    with FakeOpenAI('{"score": 4}', '{"score": 5}') as server, client(server) as api:
        chat = api.chat.completions.parse(model="m", messages=MESSAGES, response_format=Verdict)
        response = api.responses.parse(model="m", input="judge", text_format=Verdict)

    assert (chat.choices[0].message.parsed.score, response.output_parsed.score) == (4, 5)
    assert server.requests[0].body["response_format"]["json_schema"]["name"] == "Verdict"
    assert server.requests[1].body["text"]["format"]["name"] == "Verdict"


# Faults


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (HttpFault.status(400), "BadRequestError", "scripted status 400"),
        (HttpFault.status(401), "AuthenticationError", "scripted status 401"),
        (HttpFault.status(429, "slow down"), "RateLimitError", "slow down"),
        (HttpFault.status(503), "InternalServerError", "scripted status 503"),
        (ValueError("x"), "InternalServerError", "ValueError: x"),
        (HttpFault.cut(), "APIConnectionError", "Connection error"),
        (HttpFault.cut("x"), "APIConnectionError", "Connection error"),
        (HttpFault.silence(), "APITimeoutError", "timed out"),
        (Step("late", delay=5), "APITimeoutError", "timed out"),
    ],
)
def test_a_fault_is_the_clients_own_error(fault: HttpFault | Step | Exception, error: str, message: str) -> None:
    """A fault is raised by the client as the error that the same fault of the real endpoint is raised as."""
    seconds = 0.1 if error == "APITimeoutError" else 5
    with (
        FakeOpenAI(fault) as server,
        client(server, timeout=seconds) as api,
        pytest.raises(getattr(openai, error), match=message) as caught,
    ):
        api.responses.create(model="m", input="1 + 2?")

    assert type(caught.value).__name__ == error
    assert len(server.requests) == 1


@pytest.mark.parametrize("step", [HttpFault.cut("one two three four five"), Reply(failure="overloaded")])
def test_a_stream_breaks_within(step: HttpFault | Reply) -> None:
    """The first chunks arrive, and then the client raises."""
    arrived = []
    with FakeOpenAI(step) as server, client(server) as api:
        stream = api.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        with pytest.raises(
            Exception, match=r"incomplete|Connection error|overloaded"
        ):  # of the HTTP library, or of the client
            arrived.extend(stream)

    assert arrived


def test_client_retries_transient_errors() -> None:
    """A client with retries uses the following steps and respects the retry delay."""
    soon = {"retry-after-ms": "1"}
    with (
        FakeOpenAI(HttpFault.status(429, headers=soon), HttpFault.status(500, headers=soon), "at last") as server,
        client(server, max_retries=2) as api,
    ):
        text = api.responses.create(model="m", input="1 + 2?").output_text

    assert text == "at last"
    assert [request.headers["x-stainless-retry-count"] for request in server.requests] == ["0", "1", "2"]


@pytest.mark.parametrize("steps", [(), (ValueError("x"),)])
def test_client_does_not_retry_script_errors(steps: tuple[Exception, ...]) -> None:
    """An exhausted or raising script is not retried, unlike other errors."""
    with (
        FakeOpenAI(*steps) as server,
        client(server, max_retries=2) as api,
        pytest.raises(openai.InternalServerError),
    ):
        api.responses.create(model="m", input="1 + 2?")

    assert len(server.requests) == 1


def test_documented_programs_run() -> None:
    """Those of the fake endpoint, and that of the contract for judges."""
    pages = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("replay.md", "extend.md"))
    blocks = re.findall(r"^```py\n(.*?)^```$", pages, re.MULTILINE | re.DOTALL)
    programs = [text for text in blocks if "from toolgrade.testing import" in text]

    assert len(programs) == 3
    for program in programs:
        exec(program, {})  # noqa: S102 - our own page
