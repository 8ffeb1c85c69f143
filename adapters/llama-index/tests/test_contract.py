"""The contract that every adapter passes, played on LlamaIndex's own agents with its own tools."""

from __future__ import annotations

import asyncio
import base64
import contextvars
import inspect
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from feature_table import version_of
from li_agents import ScriptedLLM, session_memory
from li_versions import KEEPS_EXCEPTIONS, WORKFLOWS_2
from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, TextBlock
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    JsonPickleSerializer,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from pydantic import BaseModel

from programs import FEATURES, check_programs
from recorder_blocks import RecorderBlocks
from toolgrade.agents import AgentCallable
from toolgrade.capture import JsonlSink
from toolgrade.cases import ConversationalTestCase, MLLMImage, Run
from toolgrade.testing import (
    AdapterContract,
    AgentTool,
    AskFor,
    NotSupportedError,
    Recorded,
    Scene,
    ScriptedModel,
    ToolDouble,
)
from toolgrade_llama_index import ToolCallRecorder, as_agent, record, runs_from_events

_WAITING = (
    *("test_resumed_runs_with_equal_questions", "test_approved_run", "test_rejected_run", "test_run_answered_by_text"),
)
_RAISED = ("test_raising_tool_that_ends_the_run", "test_replayed_failure_that_ends_the_run")
_NO_SUSPENSION = "before workflows 2, a tool that waits is not suspended"


class Total(BaseModel):
    """The form of a structured answer."""

    total: int


def as_tool(double: ToolDouble | AgentTool) -> FunctionTool:
    """LlamaIndex's tool for one of no framework."""
    if isinstance(double, AgentTool):
        return _agent_tool(double)
    if double.needs_approval:
        return _approved_tool(double)
    if double.name == "picture":
        return FunctionTool.from_defaults(fn=lambda: as_block(double.function()), name="picture", description="Draw.")
    return FunctionTool.from_defaults(
        fn=double.function, async_fn=double.coroutine, name=double.name, description=double.description
    )


def _agent_tool(inner: AgentTool) -> FunctionTool:
    async def ask(input: str) -> str:
        return str(await workflow(inner.scene).run(user_msg=input))

    return FunctionTool.from_defaults(async_fn=ask, name=inner.name, description=inner.description)


def _approved_tool(double: ToolDouble) -> FunctionTool:
    if not WORKFLOWS_2:
        raise NotSupportedError(_NO_SUSPENSION)

    async def approved(ctx: Context, **arguments: Any) -> Any:
        answer = await ctx.wait_for_event(
            HumanResponseEvent, waiter_id=double.name, waiter_event=InputRequiredEvent(prefix=double.name)
        )
        return await double.coroutine(**arguments) if answer.response == "yes" else "refused"

    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Context)
    parameters = inspect.signature(double.function, eval_str=True).parameters.values()
    approved.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    return FunctionTool.from_defaults(async_fn=approved, name=double.name, description=double.description)


def as_block(image: MLLMImage) -> ImageBlock:
    """LlamaIndex's block for an image."""
    return ImageBlock(image=base64.b64decode(image.data or ""), image_mimetype=image.mime_type)


def question(scene: Scene) -> str | ChatMessage:
    """What the user says."""
    if not scene.images:
        return scene.input
    blocks = [TextBlock(text=scene.input), *map(as_block, scene.images)]
    return ChatMessage(role=MessageRole.USER, blocks=blocks)


def member(scene: Scene, *, answers: bool = True) -> FunctionAgent:
    """The agent that plays a scene; in a workflow of agents, the workflow asks for a structured answer."""
    model, form = scene.model(), {}
    if scene.is_structured:
        # The model is asked again, by a tool that only carries the answer.
        total = Total.model_validate_json(scene.steps[-1].text or "")
        model = ScriptedModel(*scene.steps, [AskFor("Total", total.model_dump(), "s1")])
        form = {"output_cls": Total} if answers else {}
    return FunctionAgent(
        name=scene.agent,
        description=f"plays {scene.agent}",
        system_prompt=scene.instructions,
        tools=[as_tool(double) for double in scene.tools],
        llm=ScriptedLLM(script=model),
        **form,
    )


def workflow(scene: Scene) -> Any:
    """Return a workflow for a scene; with hand-offs, a workflow of several agents."""
    if scene.tool_errors == "raised":
        raise NotSupportedError("every exception of a tool is shown to the model")
    if not scene.handoffs:
        return member(scene)
    agents = [member(one, answers=False) for one in (scene, *scene.handoffs)]
    is_structured = any(one.is_structured for one in (scene, *scene.handoffs))
    return AgentWorkflow(agents=agents, root_agent=scene.agent, output_cls=Total if is_structured else None)


class Branch(Event):
    """A branch that begins."""

    scene: Any


class Answered(Event):
    """A branch that has ended."""


class FanOut(Workflow):
    """Plays scenes at the same time, in a step with several workers."""

    def __init__(self, scenes: Sequence[Scene]) -> None:
        """Take the scenes."""
        super().__init__(timeout=20)
        self.scenes = scenes

    @step
    async def divide(self, ctx: Context, ev: StartEvent) -> Branch | None:  # noqa: ARG002 - it only begins
        """Start the branches."""
        for scene in self.scenes:
            ctx.send_event(Branch(scene=scene))
        return None

    @step(num_workers=8)
    async def play(self, ev: Branch) -> Answered:
        """Play one."""
        await workflow(ev.scene).run(user_msg=ev.scene.input)
        return Answered()

    @step
    async def join(self, ctx: Context, ev: Answered) -> StopEvent | None:
        """Wait for all."""
        return None if ctx.collect_events(ev, [Answered] * len(self.scenes)) is None else StopEvent(result="done")


async def until_it_waits(played: Any, scene: Scene) -> dict[str, Any]:
    """Run a scene until it waits for a person; return the saved state."""
    handler = played.run(user_msg=question(scene))
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            break
    state: dict[str, Any] = handler.ctx.to_dict(serializer=JsonPickleSerializer())
    await handler.cancel_run()
    await asyncio.gather(handler, return_exceptions=True)
    return state


async def allow(played: Any, state: dict[str, Any]) -> None:
    """Continue a saved state, and allow what it waits for."""
    handler = played.run(ctx=Context.from_dict(played, state, serializer=JsonPickleSerializer()))
    handler.ctx.send_event(HumanResponseEvent(response="yes"))
    await asyncio.wait_for(handler, 10)


def as_raised(error: BaseException) -> BaseException:
    """The exception itself: the first releases of workflows wrap that of a step in one of their own."""
    wrapped = version_of("llama-index-workflows") < (2,) and str(error).startswith("Error in step")
    return error.__cause__ if wrapped and error.__cause__ is not None else error


class TestContract(AdapterContract):
    """LlamaIndex."""

    unsupported: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(_RAISED, "LlamaIndex shows the model every exception of a tool; none ends a run"),
        **({} if WORKFLOWS_2 else dict.fromkeys(_WAITING, _NO_SUSPENSION)),
    }

    async def arun(self, scene: Scene) -> Recorded:
        """Play a scene."""
        played = workflow(scene)
        with record() as rec:
            handler = played.run(user_msg=question(scene))
            try:
                answer = str(await handler)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever ends the agent is returned
                await asyncio.sleep(0.05)
                return Recorded(rec.last_run, error=as_raised(error))
            return Recorded(rec.last_run, answer=answer)

    def as_agent(self, scene: Scene) -> AgentCallable:
        """The agent for `evaluate`."""
        return as_agent(workflow(scene))

    async def astream(self, scene: Scene) -> Recorded:
        """Play a scene, and read what its model says as it says it."""
        with record() as rec:
            handler = workflow(scene).run(user_msg=question(scene))
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

    def converse_in_processes(self, scenes: Sequence[Scene], path: str) -> None:
        """Play each scene with a memory of its own, of one session in one database, as processes would."""

        async def play(scene: Scene) -> None:
            database = str(Path(path).with_suffix(".db"))
            async with session_memory("customer 7", database) as memory:
                with record(sink=JsonlSink(path)):
                    await workflow(scene).run(user_msg=scene.input, memory=memory)

        for scene in scenes:
            asyncio.run(play(scene))

    def fan_out(self, scenes: Sequence[Scene]) -> Run:
        """Play the scenes in a step of a workflow that has several workers."""

        async def play() -> Run:
            with record() as rec:
                await FanOut(scenes).run(query="all")
            (run,) = rec.runs
            return run

        return asyncio.run(play())

    def resume_in_reverse(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Leave each scene with its saved state, and continue the states."""

        async def play() -> Sequence[Run]:
            with record() as rec:
                workflows = [workflow(scene) for scene in scenes]
                states = [await until_it_waits(*each) for each in zip(workflows, scenes, strict=True)]
                for played, state in reversed(list(zip(workflows, states, strict=True))):
                    await allow(played, state)
            return rec.runs

        return asyncio.run(play())

    def continue_from(self, history: Scene, scene: Scene) -> Recorded:
        """Pass the messages of a memory as `chat_history`, the user's text last."""

        async def play() -> Recorded:
            memory = ChatMemoryBuffer.from_defaults(token_limit=10_000)
            await workflow(history).run(user_msg=history.input, memory=memory)
            messages = [*memory.get_all(), ChatMessage(role=MessageRole.USER, content=scene.input)]
            with record() as rec:
                answer = str(await workflow(scene).run(chat_history=messages))
            return Recorded(rec.last_run, answer=answer)

        return asyncio.run(play())

    def run_attached_twice(self, scene: Scene) -> Sequence[Run]:
        """Enter one recorder twice, once for the process."""

        async def play() -> Sequence[Run]:
            with record(process_wide=True) as rec, rec:
                await workflow(scene).run(user_msg=scene.input)
            return rec.runs

        return asyncio.run(play())

    def serve(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Enter a recorder in the task of a startup, and play each scene in a thread with an empty context."""
        rec: ToolCallRecorder = record(process_wide=True)

        def play(scene: Scene) -> None:
            contextvars.Context().run(asyncio.run, request(scene))

        async def request(scene: Scene) -> None:
            await workflow(scene).run(user_msg=scene.input)

        async def lifespan() -> None:
            async with rec:
                threads = [threading.Thread(target=play, args=(scene,)) for scene in scenes]
                for thread in threads:
                    thread.start()
                await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in threads))

        asyncio.run(lifespan())
        return rec.runs


class EventsContract(TestContract):
    """The same agents, of which only the events are read."""

    async def arun(self, scene: Scene) -> Recorded:
        """Play a scene, and read its run from what the stream showed."""
        handler = workflow(scene).run(user_msg=scene.input)
        events: list[Event] = []

        async def read() -> None:
            async for event in handler.stream_events():
                events.append(event)  # noqa: PERF401 - what came before the end counts, if it ends at all

        reading = asyncio.ensure_future(read())
        result, error = None, None
        try:
            result = await handler
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - whatever ends the agent is returned
            error = as_raised(raised)
        await asyncio.wait({reading}, timeout=0.3)
        reading.cancel()
        (run,) = runs_from_events(events, result, error, scene.input)
        return Recorded(run, None if error else str(result), error)

    def error_text(self, error: Exception, *, handled: bool) -> str:
        """Events of old versions do not have the exception of a tool, only its text."""
        return super().error_text(error, handled=handled) if KEEPS_EXCEPTIONS or not handled else str(error)


@pytest.mark.parametrize(
    "rule",
    [
        *("run_without_calls", "parallel_calls", "steps", "raising_tool", "failed_call_asked_again", "unknown_tool"),
        *("arguments_that_are_no_object", "arguments_that_the_tool_rejects", "empty_ids"),
        *("id_repeated_in_one_message", "id_repeated_in_a_later_message", "model_that_crashes", "cancelled_run"),
        "handoff",
    ],
)
def test_rules_of_events(rule: str) -> None:
    """What does not need a recorder is read from events alike; they lack offered tools, and agents inside tools."""
    getattr(EventsContract(), f"test_{rule}")()


class TestBlocks(RecorderBlocks):
    """`record()` of the adapter."""

    def block(self, **options: Any) -> Any:
        """Return a block."""
        return record(**options)

    async def play(self, scene: Scene) -> Any:
        """Run LlamaIndex's agent."""
        return await workflow(scene).run(user_msg=scene.input)


def test_random_programs() -> None:
    """What was recorded of random programs is what their scripts and their tools say."""
    check_programs(TestContract(), FEATURES if WORKFLOWS_2 else FEATURES - {"approvals"})
