"""The plain clients of OpenAI and Anthropic, instrumented by OpenInference, in an agent of a few lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from anthropic import Anthropic
from openai import AsyncOpenAI, OpenAI
from openinference.instrumentation.anthropic import AnthropicInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor

from toolmark import Golden, Run, ToolCall, ToolCorrectnessMetric, evaluate
from toolmark.agents import Conversation
from toolmark.live.otel import as_agent, record_spans
from toolmark.testing import AskFor, FakeOpenAI

OpenAIInstrumentor().instrument()
AnthropicInstrumentor().instrument()

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
EXPECTED = ToolCall(name="add", input_parameters={"a": 1, "b": 2})
SCRIPT = ([AskFor("add", {"a": 1, "b": 2}, "c1")], "It is 3.")


def summary(run: Run) -> list[Any]:
    """Return what every agent here does."""
    calls = [(call.name, call.input_parameters, call.output) for call in run.tools_called]
    return [run.input, run.actual_output, calls, [tool.name for tool in run.available_tools or []], run.warnings]


SUMMARY: list[Any] = ["What is 1 + 2?", "It is 3.", [("add", {"a": 1, "b": 2}, "3")], ["add"], []]


def ask(agent: Any) -> Run:
    """Return the run of one question."""
    return asyncio.run(as_agent(agent)("What is 1 + 2?", Conversation()))


def openai_agent(url: str, question: str) -> str:
    """Answer with OpenAI's client."""
    client = OpenAI(base_url=url, api_key="none", max_retries=0)
    function: Any = {"type": "function", "function": {"name": "add", "parameters": SCHEMA}}
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        message = client.chat.completions.create(model="m-1", messages=messages, tools=[function]).choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            text = str(sum(json.loads(call.function.arguments).values()))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


async def responses_agent(url: str, question: str) -> str:
    """Answer with OpenAI's Responses API, as a stream."""
    items: list[Any] = [{"role": "user", "content": question}]
    tools: list[Any] = [{"type": "function", "name": "add", "parameters": SCHEMA}]
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        while True:
            async for event in await client.responses.create(model="m-1", input=items, tools=tools, stream=True):
                if event.type == "response.completed":
                    response = event.response
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return response.output_text
            items += [item.model_dump(exclude_none=True) for item in calls]
            items += [{"type": "function_call_output", "call_id": call.call_id, "output": "3"} for call in calls]


def test_openai() -> None:
    """One run, whose calls are those of its requests and answers."""
    with FakeOpenAI(*SCRIPT) as server:
        assert summary(ask(lambda question: openai_agent(server.base_url, question))) == SUMMARY
    with FakeOpenAI(*SCRIPT) as server:
        assert summary(ask(lambda question: responses_agent(server.base_url, question))) == SUMMARY


def test_requests_without_a_span_around_them_are_runs_apart() -> None:
    """A client alone traces each request; the call still has the answer that the next request brought."""
    with FakeOpenAI(*SCRIPT) as server, record_spans() as recorder:
        openai_agent(server.base_url, "What is 1 + 2?")

    first, second = recorder.runs
    assert [call.output for call in first.tools_called] == ["3"]
    assert (second.tools_called, second.actual_output) == ([], "It is 3.")


def test_goldens_are_scored() -> None:
    """By the metrics that score any run."""
    with FakeOpenAI(*SCRIPT) as server:
        report = evaluate(
            goldens=[Golden(input="What is 1 + 2?", expected_tools=[EXPECTED])],
            agent=as_agent(lambda question: openai_agent(server.base_url, question)),
            metrics=[ToolCorrectnessMetric(evaluation_params=["input_parameters"])],
        )

    assert report.passed


# Anthropic

CALL = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}}
REPLIES: list[Any] = [("tool_use", [CALL]), ("end_turn", [{"type": "text", "text": "It is 3."}])]


@contextmanager
def fake_anthropic() -> Iterator[str]:
    """A server on this machine that plays Anthropic's API."""
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


def anthropic_agent(url: str, question: str) -> str:
    """Answer with Anthropic's client."""
    client = Anthropic(base_url=url, api_key="none", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": question}]
    tools: list[Any] = [{"name": "add", "input_schema": SCHEMA}]
    while True:
        reply = client.messages.create(model="m-1", max_tokens=100, messages=messages, tools=tools)
        if reply.stop_reason != "tool_use":
            return str(reply.content[0].text)
        messages.append({"role": "assistant", "content": [part.model_dump() for part in reply.content]})
        answers = [
            {"type": "tool_result", "tool_use_id": part.id, "content": str(part.input["a"] + part.input["b"])}
            for part in reply.content
        ]
        messages.append({"role": "user", "content": answers})


def test_anthropic() -> None:
    """The same run as with OpenAI's client."""
    with fake_anthropic() as url:
        assert summary(ask(lambda question: anthropic_agent(url, question))) == SUMMARY
