"""Google's ADK, with the instrumentation of its own, which writes messages into log records."""

from __future__ import annotations

import os

os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "true"  # else arguments and answers are hidden

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, FunctionCall, Part

from toolmark import Golden, ToolCall, ToolCorrectnessMetric, evaluate
from toolmark.live.otel import as_agent


class Scripted(BaseLlm):
    """A model that asks for a sum and then answers."""

    async def generate_content_async(self, llm_request: Any, **_: Any) -> AsyncGenerator[LlmResponse, None]:
        """Yield one reply; like Gemini's, its calls have no ids."""
        parts = [Part(text="It is 3.")]
        if not llm_request.contents[-1].parts[-1].function_response:
            parts = [Part(function_call=FunctionCall(name="add", args={"a": number, "b": 2})) for number in (1, 1)]
        yield LlmResponse(content=Content(role="model", parts=parts))


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


agent = LlmAgent(name="calculator", model=Scripted(model="m-1"), tools=[add])
runner = InMemoryRunner(agent=agent, app_name="test")


async def answer(question: str) -> str:
    """Return the answer of the agent."""
    session = await runner.session_service.create_session(app_name="test", user_id="u")
    message = Content(role="user", parts=[Part(text=question)])
    text = ""
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        if event.is_final_response():
            text = event.content.parts[0].text
    return text


def test_goldens_are_asked() -> None:
    """Each call counts once, though its messages and its span name it by different ids."""
    expected = [ToolCall(name="add", input_parameters={"a": 1, "b": 2}, output={"result": 3})] * 2
    goldens = [Golden(input=f"What is 1 + 2, {number}?", expected_tools=expected) for number in range(4)]
    metric = ToolCorrectnessMetric(evaluation_params=["input_parameters", "output"], should_exact_match=True)

    report = evaluate(goldens=goldens, agent=as_agent(answer), metrics=[metric])

    assert report.passed
    run = report.cases[0].case.run
    assert run is not None
    assert (run.input, run.actual_output, run.warnings) == ("What is 1 + 2, 0?", "It is 3.", [])
    assert [call.execution.agent for call in run.calls if call.execution] == ["calculator"] * 2
