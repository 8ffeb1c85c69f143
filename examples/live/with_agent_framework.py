"""Score an agent of Agent Framework: the numbered lines. The rest is an agent whose model is scripted.

From a checkout of toolgrade: `pip install agent-framework-core agent-framework-openai opentelemetry-sdk .`
"""

from collections.abc import Callable
from typing import Any

from agent_framework.observability import enable_instrumentation  # 1
from agent_framework.openai import OpenAIChatClient

from toolgrade import ToolCorrectnessMetric, evaluate  # 2
from toolgrade.live.otel import as_agent  # 3
from toolgrade.testing import AskFor, FakeOpenAI

enable_instrumentation(enable_sensitive_data=True)  # 4


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def make_agent(url: str) -> Callable[[str], Any]:
    """Return an agent that asks the model at a URL."""
    client = OpenAIChatClient(model="m-1", base_url=url, api_key="none")
    return client.as_agent(name="calculator", tools=[add]).run


if __name__ == "__main__":
    with FakeOpenAI([AskFor("add", {"a": 1, "b": 2})], "It is 3.") as server:
        agent = make_agent(server.base_url)
        evaluate(goldens="goldens.jsonl", agent=as_agent(agent), metrics=[ToolCorrectnessMetric()]).print()  # 5
