"""Scenes of the parity table on Strands, Agent Framework and smolagents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import agent_framework
import agent_framework.openai
import smolagents
import strands
import strands.models.openai
from agent_framework.observability import enable_instrumentation
from openinference.instrumentation.smolagents import SmolagentsInstrumentor

from live.libraries.scenes import function_of, plays_scenes
from toolgrade.testing import AgentTool, AskFor, FakeOpenAI, Scene, ToolDouble
from toolgrade.testing.scripted_model import Step

SmolagentsInstrumentor().instrument()
enable_instrumentation(enable_sensitive_data=True)


def play_strands(scene: Scene) -> Callable[[str], Any]:
    """Return what asks an agent of Strands."""

    def answer(question: str) -> str:
        with FakeOpenAI(*scene.steps) as server:
            model = strands.models.openai.OpenAIModel(
                client_args={"base_url": server.base_url, "api_key": "none", "max_retries": 0}, model_id="m-1"
            )
            tools = [
                strands.tool(function_of(tool, play_strands), name=tool.name, inputSchema={"json": tool.input_schema})
                for tool in scene.tools
            ]
            agent = strands.Agent(
                model=model, name=scene.agent, tools=tools, callback_handler=None, retry_strategy=None
            )
            return str(agent(question)).strip()

    return answer


def play_agent_framework(scene: Scene) -> Callable[[str], Any]:
    """Return what asks an agent of Agent Framework."""

    async def answer(question: str) -> str:
        with FakeOpenAI(*scene.steps) as server:
            client = agent_framework.openai.OpenAIChatClient(model="m-1", base_url=server.base_url, api_key="none")
            tools = [
                agent_framework.tool(
                    function_of(tool, play_agent_framework), name=tool.name, approval_mode="never_require"
                )
                for tool in scene.tools
            ]
            return (await client.as_agent(name=scene.agent, tools=tools).run(question)).text

    return answer


class _Tool(smolagents.Tool):
    """A tool of smolagents, whose signature is that of its schema."""

    skip_forward_signature_validation = True
    output_type = "any"

    def __init__(self, tool: ToolDouble | AgentTool) -> None:
        self.name, self.description = tool.name, tool.description
        required = tool.input_schema.get("required", ())
        self.inputs = {
            name: {**schema, "description": name, "nullable": name not in required}
            for name, schema in tool.input_schema["properties"].items()
        }
        self._function = function_of(tool, play_smolagents)
        super().__init__()

    def forward(self, **arguments: Any) -> Any:
        """Call the tool."""
        return self._function(**arguments)


def play_smolagents(scene: Scene) -> Callable[[str], Any]:
    """Return what asks an agent of smolagents, whose model answers by a tool."""
    steps = [
        step if step.text is None else replace(step, text=None, calls=(AskFor("final_answer", {"answer": step.text}),))
        for step in map(Step.of, scene.steps)
    ]

    def answer(question: str) -> str:
        with FakeOpenAI(*steps) as server:
            model = smolagents.OpenAIServerModel(
                "m-1", api_base=server.base_url, api_key="none", client_kwargs={"max_retries": 0}
            )
            agent = smolagents.ToolCallingAgent(
                tools=[_Tool(tool) for tool in scene.tools],
                model=model,
                name=scene.agent.replace(" ", "_"),
                verbosity_level=0,
            )
            return str(agent.run(question))

    return answer


test_strands = plays_scenes("Strands", play_strands)
test_agent_framework = plays_scenes("Agent Framework", play_agent_framework)
test_smolagents = plays_scenes("smolagents", play_smolagents)
