"""Score an agent of Strands, which traces itself: the numbered lines. The rest is an agent whose model is scripted.

From a checkout of toolgrade: `pip install strands-agents opentelemetry-sdk .`
"""

from collections.abc import Callable
from typing import Any

import strands
from strands.models.openai import OpenAIModel

from toolgrade import ToolCorrectnessMetric, evaluate  # 1
from toolgrade.live.otel import as_agent  # 2
from toolgrade.testing import AskFor, FakeOpenAI


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def make_agent(url: str) -> Callable[[str], Any]:
    """Return an agent that asks the model at a URL."""
    model = OpenAIModel(client_args={"base_url": url, "api_key": "none"}, model_id="m-1")
    return strands.Agent(model=model, tools=[strands.tool(add)], callback_handler=None)


if __name__ == "__main__":
    with FakeOpenAI([AskFor("add", {"a": 1, "b": 2})], "It is 3.") as server:
        agent = make_agent(server.base_url)
        evaluate(goldens="goldens.jsonl", agent=as_agent(agent), metrics=[ToolCorrectnessMetric()]).print()  # 3
