"""An agent without a framework, written by hand over `@observe`, passes the suite that every adapter passes."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, ClassVar

from programs import check_programs
from recorder_blocks import RecorderBlocks
from toolgrade import ConversationalTestCase, Run, observe
from toolgrade.capture import Request, conversation, current_run, record
from toolgrade.capture.observation.spans import ObserveRecorder
from toolgrade.testing import AdapterContract, AgentTool, AskFor, HandOff, Recorded, Scene, Step, ToolDouble
from toy_framework import Door


def read(call: AskFor) -> Any:
    """What the model wrote, as JSON where it is some."""
    try:
        return json.loads(call.arguments_text)
    except ValueError:
        return call.arguments_text


def request(call: AskFor | HandOff) -> Request:
    """Return one requested call."""
    if isinstance(call, HandOff):
        return Request(f"transfer_to_{call.to}", {}, call.id)
    return Request(call.name, read(call), call.id)


def offered_calls(scene: Scene, step: Step) -> None:
    """Tell what a model answered."""
    run = current_run()
    run.model_used("scripted", {"output_tokens": 1})
    run.model_asked([request(call) for call in step.calls], agent=scene.agent)


def next_scene(scene: Scene, step: Step) -> Scene | None:
    """Return the scene of the next agent if this step hands over."""
    for call in step.calls:
        if isinstance(call, HandOff):
            current_run().handed_off(to=call.to, call_id=call.id)
            return next(other for other in scene.handoffs if other.agent == call.to)
    return None


def refusal(scene: Scene, call: AskFor) -> str | None:
    """Return the model's message for a request that cannot be executed."""
    if call.name not in {tool.name for tool in scene.tools}:
        return "there is no such tool"
    return None if isinstance(read(call), dict) else "the arguments are no JSON object"


def offered(scene: Scene) -> None:
    """Tell what the model is told and can choose from."""
    current_run().instructed(scene.instructions)
    current_run().offered([{"name": tool.name, "input_schema": tool.input_schema} for tool in scene.tools])


def named(scene: Scene, name: str) -> ToolDouble | AgentTool:
    """The tool of this name."""
    return next(tool for tool in scene.tools if tool.name == name)


def answer(scene: Scene) -> str:
    """The agent, in threads."""
    model = scene.model()
    offered(scene)
    while True:
        step = model.next_step()
        offered_calls(scene, step)
        if not step.calls:
            return str(step.text)
        if (other := next_scene(scene, step)) is not None:
            return answer(other)
        calls = [call for call in step.calls if isinstance(call, AskFor)]
        with ThreadPoolExecutor() as pool:
            going = [pool.submit(contextvars.copy_context().run, called, scene, call) for call in calls]
        show(calls, [result.result() for result in going])


def called(scene: Scene, call: AskFor) -> tuple[str, bool]:
    """Call a tool; return the model output and whether it reports a failure."""
    if (text := refusal(scene, call)) is not None:
        return text, True
    tool = named(scene, call.name)

    def ask(input: str) -> str:  # noqa: ARG001 - the inner scene knows
        assert isinstance(tool, AgentTool)
        return answer(tool.scene)

    inner = ask if isinstance(tool, AgentTool) else tool.function
    try:
        return f"{observe(name=tool.name, tool=True)(inner)(**read(call))}", False
    except Exception as error:
        if scene.tool_errors == "raised":
            raise
        return f"the tool failed: {error}", True


def show(calls: Sequence[AskFor], results: Sequence[tuple[str, bool]]) -> None:
    """Record what the model receives."""
    for call, (text, failed) in zip(calls, results, strict=True):
        current_run().result_shown(text, call_id=call.id, name=call.name, failed=failed)


async def aanswer(scene: Scene, heard: Callable[[str], None] | None = None) -> str:
    """Run the agent in an event loop; `heard` receives the model's text in pieces."""
    model = scene.model()
    offered(scene)
    while True:
        step = model.next_step()
        offered_calls(scene, step)
        for chunk in step.chunks() if heard is not None else ():
            heard(chunk)
        if not step.calls:
            return str(step.text)
        if (other := next_scene(scene, step)) is not None:
            return await aanswer(other, heard)
        calls = [call for call in step.calls if isinstance(call, AskFor)]
        show(calls, await asyncio.gather(*(acalled(scene, call) for call in calls)))


async def acalled(scene: Scene, call: AskFor) -> tuple[str, bool]:
    """Do what `called` does, in an event loop."""
    if (text := refusal(scene, call)) is not None:
        return text, True
    tool = named(scene, call.name)

    async def ask(input: str) -> str:  # noqa: ARG001 - the inner scene knows
        assert isinstance(tool, AgentTool)
        return await aanswer(tool.scene)

    inner = ask if isinstance(tool, AgentTool) else tool.coroutine
    try:
        return f"{await observe(name=tool.name, tool=True)(inner)(**read(call))}", False
    except Exception as error:
        if scene.tool_errors == "raised":
            raise
        return f"the tool failed: {error}", True


def question(scene: Scene) -> object:
    """Return what the user says, as text or as text and images."""
    return [scene.input, *scene.images] if scene.images else scene.input


def waiting(tool: ToolDouble | AgentTool, door: Door) -> ToolDouble | AgentTool:
    """Return a tool that waits at a door, if a person must allow it."""
    if isinstance(tool, AgentTool) or not tool.needs_approval:
        return tool
    function = tool.coroutine

    @functools.wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        await door.passed()
        return await function(*args, **kwargs)

    return replace(tool, coroutine=coroutine)


class TestPlainPython(AdapterContract):
    """The contract's hooks for the agent above."""

    unsupported: ClassVar[Mapping[str, str]] = {
        "test_conversation_of_processes": "plain Python has no thread to name; record(conversation=...) names one",
        **dict.fromkeys(
            (
                *("test_approved_run", "test_rejected_run", "test_run_answered_by_text"),
                "test_answer_to_a_run_that_does_not_wait",
            ),
            "an agent of plain Python is a function that takes the answers itself",
        ),
    }

    def run(self, scene: Scene) -> Recorded:
        """Play a scene in threads."""

        @observe
        def agent(_question: object) -> str:
            return answer(scene)

        reply: str | None = None
        raised: BaseException | None = None
        with record() as recorder:
            try:
                reply = agent(question(scene))
            except Exception as error:  # noqa: BLE001 - handed back
                raised = error
        return Recorded(recorder.last_run, reply, raised)

    async def arun(self, scene: Scene) -> Recorded:
        """Play a scene in the event loop."""
        with record() as recorder:
            return await self.aplay(scene, recorder)

    async def aplay(self, scene: Scene, recorder: ObserveRecorder) -> Recorded:
        """Play a scene inside a recorder's block."""

        @observe
        async def agent(_question: object) -> str:
            return await aanswer(scene)

        reply: str | None = None
        raised: BaseException | None = None
        try:
            reply = await agent(question(scene))
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - handed back
            raised = error
        return Recorded(recorder.last_run, reply, raised)

    async def astream(self, scene: Scene) -> Recorded:
        """Play a scene as an async generator of pieces, and put them together."""

        @observe
        async def agent(_question: str) -> Any:
            pieces: list[str] = []
            await aanswer(scene, pieces.append)
            for piece in pieces:
                yield piece

        with record() as recorder:
            heard = [piece async for piece in agent(scene.input)]
        return Recorded(recorder.last_run, "".join(heard))

    def run_many(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Play all scenes in one event loop, with one recorder."""

        async def play() -> list[Run]:
            with record() as recorder:
                await asyncio.gather(*(self.aplay(scene, recorder) for scene in scenes))
            return recorder.runs

        return asyncio.run(play())

    def converse(self, scenes: Sequence[Scene]) -> ConversationalTestCase:
        """Play the scenes one after the other."""
        return conversation([self.run(scene).run for scene in scenes])

    def fan_out(self, scenes: Sequence[Scene]) -> Run:
        """Play the scenes as components of one run, at the same time."""

        @observe
        async def branch(scene: Scene) -> str:
            return await aanswer(scene)

        @observe
        async def agent(_question: str) -> str:
            return ", ".join(await asyncio.gather(*map(branch, scenes)))

        with record() as recorder:
            asyncio.run(agent("go"))
        return recorder.last_run

    def resume_in_reverse(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Let all runs wait for a person, and let the last one go on first."""

        async def play() -> list[Run]:
            with record() as recorder:
                doors = [Door() for _ in scenes]
                tasks = []
                for scene, door in zip(scenes, doors, strict=True):
                    paused = replace(scene, tools=[waiting(tool, door) for tool in scene.tools])
                    tasks.append(asyncio.ensure_future(self.aplay(paused, recorder)))
                    await door.reached.wait()
                for door, task in reversed(list(zip(doors, tasks, strict=True))):
                    door.opened.set()
                    await task
            return recorder.runs

        return asyncio.run(play())

    def continue_from(self, history: Scene, scene: Scene) -> Recorded:
        """Play a scene; what was said before is an argument."""

        @observe
        def agent(_question: str, _history: Sequence[object]) -> str:
            return answer(scene)

        with record() as recorder:
            reply = agent(scene.input, history.steps)
        return Recorded(recorder.last_run, reply)

    def run_attached_twice(self, scene: Scene) -> Sequence[Run]:
        """Play a scene inside two blocks of one recorder."""

        @observe
        def agent(_question: str) -> str:
            return answer(scene)

        with record() as recorder, recorder.listening():
            agent(scene.input)
        return recorder.runs

    def serve(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Play each scene in a thread with an empty context."""

        @observe
        def agent(_question: str, scene: Scene) -> str:
            return answer(scene)

        with record(process_wide=True) as recorder, ThreadPoolExecutor() as pool:
            for scene in scenes:
                pool.submit(contextvars.Context().run, agent, scene.input, scene)
        return recorder.runs


class TestBlocks(RecorderBlocks):
    """`record()` of the core."""

    hint: ClassVar[str] = "copy_context"
    test_agent_in_the_background_of_a_sink = None  # type: ignore[assignment]  # a recorder of functions does not know

    def block(self, **options: Any) -> Any:
        """Return a block."""
        return record(**options)

    async def play(self, scene: Scene) -> str:
        """Run an agent of plain Python."""

        @observe
        async def agent(_question: str) -> str:
            return await aanswer(scene)

        return await agent(scene.input)


def test_the_contract_is_played() -> None:
    """The contract is not vacuous: a run has the requested calls with their ids."""
    run = TestPlainPython().run(Scene([[AskFor("nope", {"x": 1}, "c1")], "final"])).run

    assert [(call.name, call.id) for call in run.tools_called] == [("nope", "c1")]


def test_random_programs() -> None:
    """Whatever a random program of many agents does is in its record."""
    check_programs(TestPlainPython())
