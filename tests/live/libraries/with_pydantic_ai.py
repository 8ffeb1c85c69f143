"""Pydantic AI, with the instrumentation of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from library_examples import REPORT, printed_by
from toolgrade import Golden, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.live.otel import as_agent, record_spans


def reply(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Ask for two calls at once, and then answer."""
    if len(messages) > 1:
        return ModelResponse([TextPart("It is 3.")])
    return ModelResponse(
        [ToolCallPart("add", {"a": 1, "b": 2}, tool_call_id="c1"), ToolCallPart("boom", {"x": 1}, tool_call_id="c2")]
    )


Agent.instrument_all()
agent = Agent(FunctionModel(reply), name="calculator")


@agent.tool_plain
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@agent.tool_plain
def boom(x: int) -> int:
    """Fail."""
    raise ValueError(f"no good: {x}")


def test_a_run_that_fails_has_its_calls() -> None:
    """The exception of a tool ends the run of an agent."""
    with record_spans() as recorder:
        try:
            agent.run_sync("What is 1 + 2?")
        except ValueError as error:
            message = str(error)

    run = recorder.last_run
    assert message == "no good: 1"
    assert (run.input, run.status.value, run.error) == ("What is 1 + 2?", "error", "ValueError: no good: 1")
    calls = {call.name: call for call in run.tools_called}
    assert calls["add"].input_parameters == {"a": 1, "b": 2}
    assert (calls["boom"].execution and calls["boom"].execution.error) == "ValueError: no good: 1"
    assert [tool.name for tool in run.available_tools or []] == ["add", "boom"]


def test_goldens_are_asked() -> None:
    """Several at a time, each with its own calls."""
    only_add = Agent(FunctionModel(lambda messages, _: ask_for_add(messages)), tools=[add])
    goldens = [
        Golden(input=str(number), expected_tools=[ToolCall(name="add", input_parameters={"a": number, "b": 1})])
        for number in range(6)
    ]
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"])

    report = evaluate(goldens=goldens, agent=as_agent(lambda question: answer(only_add, question)), metrics=[metric])

    assert report.passed
    assert {case.case.actual_output for case in report.cases} == {"done"}
    assert not [text for _, result in report.results() for text in result.warnings]


def ask_for_add(messages: list[ModelMessage]) -> ModelResponse:
    """Ask for the sum of the user's number and 1."""
    if len(messages) > 1:
        return ModelResponse([TextPart("done")])
    return ModelResponse([ToolCallPart("add", {"a": int(str(messages[0].parts[-1].content)), "b": 1})])


async def answer(target: Agent[None, str], question: str) -> str:
    """Return the answer of an agent."""
    await asyncio.sleep(0)
    return (await target.run(question)).output


def test_the_example_is_scored(tmp_path: Path) -> None:
    """As a program."""
    assert REPORT in printed_by("live/with_pydantic_ai.py", tmp_path)
