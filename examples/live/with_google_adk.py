"""Score an agent of Google's ADK, which traces itself: the numbered lines. The rest has a scripted model.

From a checkout of toolgrade: `pip install google-adk opentelemetry-sdk .`
"""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, FunctionCall, Part

from toolgrade import ToolCorrectnessMetric, evaluate  # 1
from toolgrade.live.otel import as_agent  # 2

os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "true"  # 3: else arguments and answers are hidden


class Scripted(BaseLlm):
    """A model that asks for sums and then answers."""

    calls: int = 1

    async def generate_content_async(self, llm_request: Any, **_: Any) -> AsyncGenerator[LlmResponse, None]:  # noqa: ANN401
        """Yield one reply; like Gemini's, its calls have no ids."""
        parts = [Part(text="It is 3.")]
        if not llm_request.contents[-1].parts[-1].function_response:
            parts = [Part(function_call=FunctionCall(name="add", args={"a": 1, "b": 2})) for _ in range(self.calls)]
        yield LlmResponse(content=Content(role="model", parts=parts))


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def make_agent(model: BaseLlm) -> Callable[[str], Awaitable[str]]:
    """Return an agent that asks a model, each question in a session of its own."""
    runner = InMemoryRunner(agent=LlmAgent(name="calculator", model=model, tools=[add]), app_name="sums")

    async def answer(question: str) -> str:
        session = await runner.session_service.create_session(app_name="sums", user_id="u")
        message = Content(role="user", parts=[Part(text=question)])
        text = ""
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            if event.is_final_response():
                text = event.content.parts[0].text
        return text

    return answer


if __name__ == "__main__":
    agent = make_agent(Scripted(model="m-1"))
    evaluate(goldens="goldens.jsonl", agent=as_agent(agent), metrics=[ToolCorrectnessMetric()]).print()  # 4
