"""The plain clients of OpenAI and Anthropic, instrumented by OpenInference, in an agent of a few lines."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from library_examples import REPORT, load, printed_by
from toolgrade import Golden, Run, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.agents import Conversation
from toolgrade.live.otel import as_agent, record_spans
from toolgrade.testing import AskFor, FakeOpenAI

OPENAI, ANTHROPIC = load("live/with_openai.py"), load("live/with_anthropic.py")
SCHEMA = OPENAI.SCHEMA
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
        assert summary(ask(partial(OPENAI.answer, server.base_url))) == SUMMARY
    with FakeOpenAI(*SCRIPT) as server:
        assert summary(ask(lambda question: responses_agent(server.base_url, question))) == SUMMARY


def test_requests_without_a_span_around_them_are_runs_apart() -> None:
    """A client alone traces each request; the call still has the answer that the next request brought."""
    with FakeOpenAI(*SCRIPT) as server, record_spans() as recorder:
        OPENAI.answer(server.base_url, "What is 1 + 2?")

    first, second = recorder.runs
    assert [call.output for call in first.tools_called] == ["3"]
    assert (second.tools_called, second.actual_output) == ([], "It is 3.")


def test_goldens_are_scored() -> None:
    """By the metrics that score any run."""
    with FakeOpenAI(*SCRIPT) as server:
        report = evaluate(
            goldens=[Golden(input="What is 1 + 2?", expected_tools=[EXPECTED])],
            agent=as_agent(partial(OPENAI.answer, server.base_url)),
            metrics=[ToolCorrectnessMetric(evaluation_params=["input_parameters"])],
        )

    assert report.passed


# Anthropic


def test_anthropic() -> None:
    """The same run as with OpenAI's client."""
    with ANTHROPIC.scripted_model() as url:
        assert summary(ask(partial(ANTHROPIC.answer, url))) == SUMMARY


@pytest.mark.parametrize("example", ["live/with_openai.py", "live/with_anthropic.py"])
def test_the_example_is_scored(example: str, tmp_path: Path) -> None:
    """As a program."""
    assert REPORT in printed_by(example, tmp_path)
