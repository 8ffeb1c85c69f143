"""Scenes of the parity table on Google's ADK."""

from __future__ import annotations

import os

os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "true"

from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.genai.types import Content, FunctionCall, Part

from live.libraries.scenes import plays_scenes
from toolgrade.testing import AgentTool, Scene, ScriptedModel, ToolDouble


class Scripted(BaseLlm):
    """A model that answers from a script."""

    script: Any

    async def generate_content_async(self, llm_request: Any, **_: Any) -> AsyncGenerator[LlmResponse, None]:  # noqa: ARG002
        """Yield the next step."""
        step = self.script.next_step()
        parts = [] if step.text is None else [Part(text=step.text)]
        for call in step.calls:
            arguments = call.arguments if isinstance(call.arguments, dict) else {}
            parts.append(Part(function_call=FunctionCall(id=call.id, name=call.name, args=arguments)))
        yield LlmResponse(content=Content(role="model", parts=parts))


def _function(tool: ToolDouble | AgentTool) -> Callable[..., Any]:
    """Return the function of a tool; ADK calls it in the event loop, so one that asks an agent must wait there."""
    if isinstance(tool, ToolDouble):
        return tool.function
    inner = play(tool.scene)

    async def ask(input: str) -> str:
        """Ask another agent."""
        return str(await inner(input))

    ask.__name__ = tool.name
    return ask


def play(scene: Scene) -> Callable[[str], Any]:
    """Return what asks an agent of ADK."""

    async def answer(question: str) -> str:
        agent = LlmAgent(
            name=scene.agent.replace(" ", "_"),
            model=Scripted(model="m-1", script=ScriptedModel(*scene.steps)),
            tools=[FunctionTool(_function(tool)) for tool in scene.tools],
            on_tool_error_callback=lambda tool, args, tool_context, error: {"error": str(error)},  # noqa: ARG005
        )
        runner = InMemoryRunner(agent=agent, app_name="test")
        session = await runner.session_service.create_session(app_name="test", user_id="u")
        message = Content(role="user", parts=[Part(text=question)])
        text = ""
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            if event.is_final_response() and event.content and event.content.parts:
                text = event.content.parts[0].text or ""
        return text

    return answer


test_scene = plays_scenes("Google ADK", play)
