"""The contract that every adapter passes, played on the SDK's own runner with its own tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from agents import Agent, Runner, SQLiteSession, function_tool
from oa_models import Scripted, own_loop
from oa_versions import ENFORCES_IDS, TELLS_EXCEPTIONS

from toolmark.cases import ConversationalTestCase, Run
from toolmark.testing import AdapterContract, AgentTool, NotSupportedError, Recorded, Scene, ToolDouble
from toolmark_openai_agents import record


def as_tool(double: ToolDouble | AgentTool, **options: Any) -> Any:
    """The SDK's tool for one of no framework."""
    if isinstance(double, AgentTool):
        return agent(double.scene).as_tool(double.name, double.description)
    make = function_tool(
        name_override=double.name, description_override=double.description, strict_mode=False, **options
    )
    return make(double.coroutine)


def agent(scene: Scene) -> Agent[Any]:
    """The SDK's agent that plays a scene."""
    options: dict[str, Any] = {"failure_error_function": None} if scene.tool_errors == "raised" else {}
    return Agent(
        name=scene.agent,
        model=Scripted(scene.model()),
        tools=[as_tool(double, **options) for double in scene.tools],
        handoffs=[agent(other) for other in scene.handoffs],
    )


class TestContract(AdapterContract):
    """OpenAI Agents."""

    unsupported: ClassVar[Mapping[str, str]] = (
        {
            "test_empty_ids": "this release ends a run in which a call has no id, before any hook is called",
            "test_id_repeated_in_one_message": "this release ends a run in which two calls share an id",
            "test_id_repeated_in_a_later_message": "this release ends a run in which two calls share an id",
        }
        if ENFORCES_IDS
        else {}
    )

    async def arun(self, scene: Scene) -> Recorded:
        """Play a scene with `Runner.run`."""
        self._refuse(scene)
        with record() as recorder:
            try:
                result = await Runner.run(agent(scene), scene.input)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever ends the agent is returned
                return Recorded(recorder.last_run, error=error)
            return Recorded(recorder.last_run, answer=result.final_output)

    def run(self, scene: Scene) -> Recorded:
        """Play a scene with `Runner.run_sync`."""
        self._refuse(scene)
        with own_loop(), record() as recorder:
            try:
                result = Runner.run_sync(agent(scene), scene.input)
            except Exception as error:  # noqa: BLE001 - whatever ends the agent is returned
                return Recorded(recorder.last_run, error=error)
            return Recorded(recorder.last_run, answer=result.final_output)

    async def astream(self, scene: Scene) -> Recorded:
        """Play a scene with `Runner.run_streamed`, event by event."""
        async with record() as recorder:
            result = Runner.run_streamed(agent(scene), scene.input)
            async for _ in result.stream_events():
                pass
            return Recorded(recorder.last_run, answer=result.final_output)

    def run_many(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Play all scenes in one event loop, with one recorder."""

        async def play() -> list[Run]:
            with record() as recorder:
                await asyncio.gather(*(Runner.run(agent(scene), scene.input) for scene in scenes))
            return recorder.runs

        return asyncio.run(play())

    def converse(self, scenes: Sequence[Scene]) -> ConversationalTestCase:
        """Play the scenes as the runs of one session."""

        async def play() -> list[ConversationalTestCase]:
            session = SQLiteSession("one")
            with record() as recorder:
                for scene in scenes:
                    await Runner.run(agent(scene), scene.input, session=session)
            session.close()
            return recorder.conversations()

        (conversation,) = asyncio.run(play())
        return conversation

    def error_text(self, error: Exception, *, handled: bool) -> str:
        """Releases without exceptions in a formatter show only the exception's text in a span, not its type."""
        return str(error) if handled and not TELLS_EXCEPTIONS else super().error_text(error, handled=handled)

    def _refuse(self, scene: Scene) -> None:
        """Say which scenes the SDK does not play, and see that it does not."""
        ids = [call.id for step in scene.steps for call in getattr(step, "calls", ())]
        if ENFORCES_IDS and (len(ids) != len(set(ids)) or not all(ids)):
            raise NotSupportedError("calls need ids of their own")
