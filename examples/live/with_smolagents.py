"""Score an agent of smolagents: the numbered lines. The rest is an agent whose model is scripted.

From a checkout of toolgrade: `pip install smolagents openinference-instrumentation-smolagents opentelemetry-sdk .`
"""

from collections.abc import Callable
from typing import Any

import smolagents
from openinference.instrumentation.smolagents import SmolagentsInstrumentor  # 1

from toolgrade import ToolCorrectnessMetric, evaluate  # 2
from toolgrade.live.otel import as_agent  # 3
from toolgrade.testing import AskFor, FakeOpenAI

SmolagentsInstrumentor().instrument()  # 4


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One number.
        b: The other one.
    """
    return a + b


def make_agent(url: str) -> Callable[[str], Any]:
    """Return an agent that asks the model at a URL."""
    model = smolagents.OpenAIServerModel("m-1", api_base=url, api_key="none")
    return smolagents.ToolCallingAgent(tools=[smolagents.tool(add)], model=model, verbosity_level=0).run


if __name__ == "__main__":
    with FakeOpenAI([AskFor("add", {"a": 1, "b": 2})], [AskFor("final_answer", {"answer": "It is 3."})]) as server:
        agent = make_agent(server.base_url)
        evaluate(goldens="goldens.jsonl", agent=as_agent(agent), metrics=[ToolCorrectnessMetric()]).print()  # 5
