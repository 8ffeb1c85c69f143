"""Score an agent of a few lines around Anthropic's client: the numbered lines. The rest has a scripted model.

From a checkout of toolgrade: `pip install anthropic openinference-instrumentation-anthropic opentelemetry-sdk .`
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from anthropic import Anthropic
from openinference.instrumentation.anthropic import AnthropicInstrumentor  # 1

from toolgrade import ToolCorrectnessMetric, evaluate  # 2
from toolgrade.live.otel import as_agent  # 3

AnthropicInstrumentor().instrument()  # 4

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
CALL = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}}
REPLIES: list[Any] = [("tool_use", [CALL]), ("end_turn", [{"type": "text", "text": "It is 3."}])]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def answer(url: str, question: str) -> str:
    """Ask the model at a URL until it calls nothing more."""
    client = Anthropic(base_url=url, api_key="none", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": question}]
    tools: list[Any] = [{"name": "add", "input_schema": SCHEMA}]
    while True:
        reply = client.messages.create(model="m-1", max_tokens=100, messages=messages, tools=tools)
        if reply.stop_reason != "tool_use":
            return str(reply.content[0].text)
        messages.append({"role": "assistant", "content": [part.model_dump() for part in reply.content]})
        answers = [
            {"type": "tool_result", "tool_use_id": part.id, "content": str(add(**part.input))} for part in reply.content
        ]
        messages.append({"role": "user", "content": answers})


@contextmanager
def scripted_model() -> Iterator[str]:
    """Serve the replies on this machine, as Anthropic's API does."""
    replies = iter(REPLIES)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            reason, content = next(replies)
            message = {"id": "m", "type": "message", "role": "assistant", "model": "m-1", "content": content}
            usage = {"input_tokens": 1, "output_tokens": 1}
            body = json.dumps({**message, "stop_reason": reason, "stop_sequence": None, "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


if __name__ == "__main__":
    with scripted_model() as url:
        agent = partial(answer, url)
        evaluate(goldens="goldens.jsonl", agent=as_agent(agent), metrics=[ToolCorrectnessMetric()]).print()  # 5
