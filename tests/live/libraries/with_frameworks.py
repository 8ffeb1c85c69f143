"""Strands and Agent Framework, each with the instrumentation of its own, and smolagents with that of OpenInference.

All of them ask the same scripted endpoint of OpenAI's API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import agent_framework.openai
import pytest
import smolagents
import strands
import strands.models.openai
from agent_framework.observability import enable_instrumentation
from openinference.instrumentation.smolagents import SmolagentsInstrumentor

from toolmark.agents import Conversation
from toolmark.live.otel import as_agent
from toolmark.testing import AskFor, FakeOpenAI

SmolagentsInstrumentor().instrument()
enable_instrumentation(enable_sensitive_data=True)  # else arguments and answers are hidden

ADD = AskFor("add", {"a": 1, "b": 2}, "c1")


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One number.
        b: The other one.
    """
    return a + b


def smolagents_agent(url: str) -> Callable[[str], Any]:
    """Return an agent of smolagents."""
    model = smolagents.OpenAIServerModel("m-1", api_base=url, api_key="none")
    return smolagents.ToolCallingAgent(tools=[smolagents.tool(add)], model=model, verbosity_level=0).run


def strands_agent(url: str) -> Callable[[str], Any]:
    """Return an agent of Strands; what it returns is not a text."""
    model = strands.models.openai.OpenAIModel(client_args={"base_url": url, "api_key": "none"}, model_id="m-1")
    return strands.Agent(model=model, tools=[strands.tool(add)], callback_handler=None)


def framework_agent(url: str) -> Callable[[str], Any]:
    """Return an agent of Agent Framework; what it returns is not a text."""
    client = agent_framework.openai.OpenAIChatClient(model="m-1", base_url=url, api_key="none")
    return client.as_agent(name="calculator", tools=[add]).run


FINAL = [AskFor("final_answer", {"answer": "It is 3."}, "c2")]
"""How the model of smolagents answers: by a tool."""


@pytest.mark.parametrize(
    ("make", "last", "question", "output"),
    [
        (smolagents_agent, FINAL, "What is 1 + 2?", 3),
        (strands_agent, "It is 3.", "What is 1 + 2?", "3"),
        (framework_agent, "It is 3.", "What is 1 + 2?", "3"),
    ],
)
def test_a_run_is_recorded(make: Callable[[str], Callable[[str], Any]], last: Any, question: str, output: Any) -> None:
    """With the question, the call, its result and the answer."""
    with FakeOpenAI([ADD], last) as server:
        run = asyncio.run(as_agent(make(server.base_url))(question, Conversation()))

    calls = [(call.name, call.input_parameters, call.output) for call in run.tools_called]
    assert calls[0] == ("add", {"a": 1, "b": 2}, output)
    assert len(calls) == 1
    assert (run.input, run.actual_output, run.status.value, run.warnings) == (question, "It is 3.", "ok", [])
