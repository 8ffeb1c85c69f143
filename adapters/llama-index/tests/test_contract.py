"""The contract that every adapter passes, played on LlamaIndex's own agents with its own tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from feature_table import version_of
from li_agents import ScriptedLLM
from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool

from toolmark.cases import ConversationalTestCase, Run
from toolmark.testing import AdapterContract, AgentTool, NotSupportedError, Recorded, Scene, ToolDouble
from toolmark_llama_index import record


def as_tool(double: ToolDouble | AgentTool) -> FunctionTool:
    """LlamaIndex's tool for one of no framework."""
    if isinstance(double, ToolDouble):
        return FunctionTool.from_defaults(
            fn=double.function, async_fn=double.coroutine, name=double.name, description=double.description
        )
    inner = double

    async def ask(input: str) -> str:
        return str(await workflow(inner.scene).run(user_msg=input))

    return FunctionTool.from_defaults(async_fn=ask, name=inner.name, description=inner.description)


def member(scene: Scene) -> FunctionAgent:
    """The agent that plays a scene."""
    return FunctionAgent(
        name=scene.agent,
        description=f"plays {scene.agent}",
        tools=[as_tool(double) for double in scene.tools],
        llm=ScriptedLLM(script=scene.model()),
    )


def workflow(scene: Scene) -> Any:
    """Return a workflow for a scene; with hand-offs, a workflow of several agents."""
    if scene.tool_errors == "raised":
        raise NotSupportedError("every exception of a tool is shown to the model")
    if not scene.handoffs:
        return member(scene)
    return AgentWorkflow(agents=[member(scene), *map(member, scene.handoffs)], root_agent=scene.agent)


def as_raised(error: BaseException) -> BaseException:
    """The exception itself: the first releases of workflows wrap that of a step in one of their own."""
    wrapped = version_of("llama-index-workflows") < (2,) and str(error).startswith("Error in step")
    return error.__cause__ if wrapped and error.__cause__ is not None else error


class TestContract(AdapterContract):
    """LlamaIndex."""

    unsupported: ClassVar[Mapping[str, str]] = {
        "test_raising_tool_that_ends_the_run": "LlamaIndex shows the model every exception of a tool; none ends a run"
    }

    async def arun(self, scene: Scene) -> Recorded:
        """Play a scene."""
        played = workflow(scene)
        with record() as rec:
            handler = played.run(user_msg=scene.input)
            try:
                answer = str(await handler)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever ends the agent is returned
                await asyncio.sleep(0.05)
                return Recorded(rec.last_run, error=as_raised(error))
            return Recorded(rec.last_run, answer=answer)

    async def astream(self, scene: Scene) -> Recorded:
        """Play a scene, and read what its model says as it says it."""
        with record() as rec:
            handler = workflow(scene).run(user_msg=scene.input)
            text = "".join([event.delta async for event in handler.stream_events() if isinstance(event, AgentStream)])
            await handler
        return Recorded(rec.last_run, answer=text)

    def run_many(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Play all scenes in one event loop, with one recorder."""

        async def play() -> list[Run]:
            async with record() as rec:
                await asyncio.gather(*(workflow(scene).run(user_msg=scene.input) for scene in scenes))
            return rec.runs

        return asyncio.run(play())

    def converse(self, scenes: Sequence[Scene]) -> ConversationalTestCase:
        """Play the scenes as the runs of one conversation, with a memory that they share."""

        async def play() -> ConversationalTestCase:
            memory = ChatMemoryBuffer.from_defaults(token_limit=10_000)
            with record(conversation="one") as rec:
                for scene in scenes:
                    await workflow(scene).run(user_msg=scene.input, memory=memory)
            (conversation,) = rec.conversations()
            return conversation

        return asyncio.run(play())
