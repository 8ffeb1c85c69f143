"""Scenes of the parity table on Pydantic AI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent, ModelRetry, Tool
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from live.libraries.scenes import function_of, plays_scenes, shown_errors
from toolgrade.testing import FakeOpenAI, Scene

Agent.instrument_all()


def play(scene: Scene) -> Callable[[str], Any]:
    """Return what asks an agent of Pydantic AI."""

    async def answer(question: str) -> str:
        with FakeOpenAI(*scene.steps) as server:
            provider = OpenAIProvider(base_url=server.base_url, api_key="none")
            tools = [
                Tool(shown_errors(function_of(tool, play), ModelRetry), name=tool.name, takes_ctx=False, max_retries=9)
                for tool in scene.tools
            ]
            agent = Agent(OpenAIChatModel("m-1", provider=provider), name=scene.agent, tools=tools)
            return (await agent.run(question)).output

    return answer


test_scene = plays_scenes("Pydantic AI", play)
