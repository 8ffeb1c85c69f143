"""Scenes of the parity table on the plain clients of OpenAI and Anthropic, in agents of a few lines."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from anthropic import Anthropic
from openai import OpenAI
from openinference.instrumentation.anthropic import AnthropicInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor

from live.libraries.fake_anthropic import fake_anthropic
from live.libraries.scenes import function_of, plays_scenes
from toolgrade.testing import FakeOpenAI, Scene

OpenAIInstrumentor().instrument()
AnthropicInstrumentor().instrument()

Tools = Mapping[str, Callable[..., Any]]


def call_tool(tools: Tools, name: str, arguments: Any) -> tuple[Any, bool]:
    """Return the text for the model, and whether the call failed."""
    if name not in tools:
        return f"there is no tool {name!r}", True
    try:
        inspect.signature(tools[name]).bind(**arguments)
        return tools[name](**arguments), False
    except Exception as error:  # noqa: BLE001 - the model sees whatever the tool raises
        return str(error), True


def call_all(tools: Tools, calls: list[tuple[str, Any]]) -> list[tuple[str, bool]]:
    """Call tools at the same time, each in a thread with the context of the caller."""
    with ThreadPoolExecutor() as threads:
        futures = [threads.submit(copy_context().run, call_tool, tools, *call) for call in calls]
    results = [future.result() for future in futures]
    return [(value if isinstance(value, str) else json.dumps(value), failed) for value, failed in results]


def play_openai(scene: Scene) -> Callable[[str], Any]:
    """Return what asks OpenAI's client."""
    tools = {tool.name: function_of(tool, play_openai) for tool in scene.tools}
    offered: Any = [
        {"type": "function", "function": {"name": tool.name, "parameters": tool.input_schema}} for tool in scene.tools
    ]

    def answer(question: str) -> str:
        messages: list[Any] = [{"role": "user", "content": question}]
        with FakeOpenAI(*scene.steps) as server, OpenAI(base_url=server.base_url, api_key="-", max_retries=0) as client:
            while True:
                reply = client.chat.completions.create(model="m-1", messages=messages, tools=offered).choices[0].message
                if not reply.tool_calls:
                    return reply.content or ""
                messages.append(reply.model_dump(exclude_none=True))
                calls = [(call.function.name, _read(call.function.arguments)) for call in reply.tool_calls]
                for call, (text, _) in zip(reply.tool_calls, call_all(tools, calls), strict=True):
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": text})

    return answer


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"text": text}


def play_anthropic(scene: Scene) -> Callable[[str], Any]:
    """Return what asks Anthropic's client."""
    tools = {tool.name: function_of(tool, play_anthropic) for tool in scene.tools}
    offered: Any = [{"name": tool.name, "input_schema": tool.input_schema} for tool in scene.tools]

    def answer(question: str) -> str:
        messages: list[Any] = [{"role": "user", "content": question}]
        with fake_anthropic(scene.steps) as url, Anthropic(base_url=url, api_key="-", max_retries=0) as client:
            while True:
                reply = client.messages.create(model="m-1", max_tokens=100, messages=messages, tools=offered)
                if reply.stop_reason != "tool_use":
                    return "".join(block.text for block in reply.content if block.type == "text")
                messages.append({"role": "assistant", "content": [block.model_dump() for block in reply.content]})
                blocks = [block for block in reply.content if block.type == "tool_use"]
                results = call_all(tools, [(block.name, block.input) for block in blocks])
                content = [
                    {"type": "tool_result", "tool_use_id": block.id, "content": text, "is_error": failed}
                    for block, (text, failed) in zip(blocks, results, strict=True)
                ]
                messages.append({"role": "user", "content": content})

    return answer


test_openai = plays_scenes("OpenAI's client", play_openai)
test_anthropic = plays_scenes("Anthropic's client", play_anthropic)
