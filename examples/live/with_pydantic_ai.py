"""Score an agent of Pydantic AI: the numbered lines. The rest is an agent whose model is scripted.

From a checkout of toolgrade: `pip install pydantic-ai opentelemetry-sdk .`
"""

from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from toolgrade import ToolCorrectnessMetric, evaluate  # 1
from toolgrade.live.otel import as_agent  # 2
from toolgrade.testing import AskFor, FakeOpenAI

Agent.instrument_all()  # 3


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def make_agent(url: str) -> Callable[[str], Any]:
    """Return an agent that asks the model at a URL."""
    model = OpenAIChatModel("m-1", provider=OpenAIProvider(base_url=url, api_key="none"))
    return Agent(model, tools=[add], name="calculator").run


if __name__ == "__main__":
    with FakeOpenAI([AskFor("add", {"a": 1, "b": 2})], "It is 3.") as server:
        agent = make_agent(server.base_url)
        evaluate(goldens="goldens.jsonl", agent=as_agent(agent), metrics=[ToolCorrectnessMetric()]).print()  # 4
