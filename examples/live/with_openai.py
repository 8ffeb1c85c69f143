"""Score an agent of a few lines around OpenAI's client: the numbered lines. The rest has a scripted model.

From a checkout of toolgrade: `pip install openai openinference-instrumentation-openai opentelemetry-sdk .`
"""

import json
from functools import partial
from typing import Any

from openai import OpenAI
from openinference.instrumentation.openai import OpenAIInstrumentor  # 1

from toolgrade import ToolCorrectnessMetric, evaluate  # 2
from toolgrade.live.otel import as_agent  # 3
from toolgrade.testing import AskFor, FakeOpenAI

OpenAIInstrumentor().instrument()  # 4


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}


def answer(url: str, question: str) -> str:
    """Ask the model at a URL until it calls nothing more."""
    client = OpenAI(base_url=url, api_key="none", max_retries=0)
    tool: Any = {"type": "function", "function": {"name": "add", "parameters": SCHEMA}}
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        message = client.chat.completions.create(model="m-1", messages=messages, tools=[tool]).choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result = add(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": str(result)})


if __name__ == "__main__":
    with FakeOpenAI([AskFor("add", {"a": 1, "b": 2})], "It is 3.") as server:
        agent = partial(answer, server.base_url)
        evaluate(goldens="goldens.jsonl", agent=as_agent(agent), metrics=[ToolCorrectnessMetric()]).print()  # 5
