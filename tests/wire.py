"""A plain HTTP client for tests of the fake endpoint, which shows the raw protocol."""

from __future__ import annotations

import http.client
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from toolgrade.testing import FakeOpenAI

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
QUESTIONS: dict[str, dict[str, Any]] = {
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "1 + 2?"}]},
    RESPONSES: {"model": "m", "input": "1 + 2?"},
}


@dataclass(frozen=True)
class Answer:
    """What came back.

    Attributes:
        status: The HTTP status.
        headers: Headers, their names in lower case.
        text: The body.
    """

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        """The body's JSON value."""
        return json.loads(self.text)

    @property
    def events(self) -> list[Any]:
        """The events of a stream, the closing `[DONE]` as text."""
        data = [line.removeprefix("data: ") for line in self.text.split("\n") if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in data]


@contextmanager
def connected(server: FakeOpenAI, seconds: float = 5) -> Generator[http.client.HTTPConnection, None, None]:
    """A connection to the endpoint that fails rather than wait for ever."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=seconds)
    try:
        yield connection
    finally:
        connection.close()


def over(connection: http.client.HTTPConnection, path: str, body: Any = None, method: str = "POST") -> Answer:
    """Send a request over a connection, and read the whole answer."""
    text = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    connection.request(method, path, text, {"Authorization": "Bearer sk-made-up", "Content-Type": "application/json"})
    response = connection.getresponse()
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, headers, response.read().decode())


def ask(server: FakeOpenAI, path: str = CHAT, *, seconds: float = 5, **fields: Any) -> Answer:
    """Send a request over a new connection."""
    with connected(server, seconds) as connection:
        return over(connection, path, {**QUESTIONS[path], **fields})


def chat_message(answer: Answer) -> dict[str, Any]:
    """The message of a chat answer: of the body, or put together from the events of a stream."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return dict(answer.json["choices"][0]["message"])
    message: dict[str, Any] = {}
    for event in answer.events[:-1]:
        for choice in event["choices"]:
            merge(message, choice["delta"])
    return message


def merge(whole: dict[str, Any], delta: dict[str, Any]) -> None:
    """Merge a piece of a chat message into the earlier ones, as clients do."""
    for key, value in delta.items():
        if key == "tool_calls":
            calls = whole.setdefault(key, [])
            for part in value:
                rest = {name: inner for name, inner in part.items() if name != "index"}
                if part["index"] == len(calls):
                    calls.append({})
                merge(calls[part["index"]], rest)
        elif isinstance(value, dict):
            merge(whole.setdefault(key, {}), value)
        elif isinstance(value, str) and isinstance(whole.get(key), str):
            whole[key] += value
        elif value is not None or key not in whole:
            whole[key] = value
