"""The contract that every adapter passes, played on the SDK's own runner with its own tools."""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import json
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextvars import Context
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool
from oa_models import Scripted, own_loop
from oa_versions import ENFORCES_IDS, FEATURES, TELLS_EXCEPTIONS
from pydantic import BaseModel

import programs
from programs import Program, check_programs, random_program
from recorder_blocks import RecorderBlocks
from toolgrade.agents import AgentCallable
from toolgrade.capture import JsonlSink
from toolgrade.cases import ConversationalTestCase, MLLMImage, Run
from toolgrade.testing import AdapterContract, AgentTool, AskFor, NotSupportedError, Recorded, Scene, ToolDouble
from toolgrade.testing.tool_doubles import PICTURE
from toolgrade_openai_agents import as_agent, record, run_from_result


class Total(BaseModel):
    """What an agent with a structured answer answers."""

    total: int


def as_tool(double: ToolDouble | AgentTool, **options: Any) -> Any:
    """The SDK's tool for one of no framework."""
    if isinstance(double, AgentTool):
        return agent(double.scene).as_tool(double.name, double.description)
    if double.needs_approval:
        _need("approvals")
        options["needs_approval"] = True
    make = function_tool(
        name_override=double.name, description_override=double.description, strict_mode=False, **options
    )
    return make(_with_images if double.name == "picture" else _with_named_arguments(double))


def _with_named_arguments(double: ToolDouble) -> Any:
    """The coroutine of a tool, called by the names of its arguments; the SDK passes them in their order."""
    signature = inspect.signature(double.coroutine)

    @functools.wraps(double.coroutine)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return await double.coroutine(**signature.bind(*args, **kwargs).arguments)

    return coroutine


async def _with_images() -> Any:
    """The tool `picture`, with what it returns in the SDK's form."""
    from agents import ToolOutputImage

    image = PICTURE.function()
    return ToolOutputImage(image_url=_address_of(image))


def agent(scene: Scene) -> Agent[Any]:
    """The SDK's agent that plays a scene."""
    ids = [call.id for step in scene.steps for call in getattr(step, "calls", ())]
    if ENFORCES_IDS and (len(ids) != len(set(ids)) or not all(ids)):
        raise NotSupportedError("calls need ids of their own")
    options: dict[str, Any] = {"failure_error_function": None} if scene.tool_errors == "raised" else {}
    return Agent(
        name=scene.agent,
        instructions=scene.instructions,
        model=Scripted(scene.model()),
        tools=[as_tool(double, **options) for double in scene.tools],
        handoffs=[agent(other) for other in scene.handoffs],
        output_type=Total if scene.is_structured else None,
    )


def question(scene: Scene) -> Any:
    """What the user says: text, or with images a message."""
    if not scene.images:
        return scene.input
    _need("images")
    images = [{"type": "input_image", "image_url": _address_of(image), "detail": "auto"} for image in scene.images]
    return [{"role": "user", "content": [{"type": "input_text", "text": scene.input}, *images]}]


def _address_of(image: MLLMImage) -> str:
    return f"data:{image.mime_type};base64,{image.data}"


def _need(feature: str) -> None:
    if not FEATURES[feature].is_due():
        raise NotSupportedError(FEATURES[feature].why)


def answer_of(result: Any) -> str | None:
    """What the caller got, as text."""
    output = result.final_output
    return output.model_dump_json() if isinstance(output, Total) else output


def reasons() -> dict[str, str]:
    """What the installed release cannot do."""
    missing: dict[str, str] = {}
    if ENFORCES_IDS:
        shared = "this release ends a run in which two calls share an id"
        missing = {
            "test_empty_ids": "this release ends a run in which a call has no id, before any hook is called",
            **dict.fromkeys(("test_id_repeated_in_one_message", "test_id_repeated_in_a_later_message"), shared),
        }
    waiting = ("resumed_runs_with_equal_questions", "approved_run", "rejected_run", "run_answered_by_text")
    for test, feature in (*((f"test_{test}", "approvals") for test in waiting), ("test_images", "images")):
        if not FEATURES[feature].is_due():
            missing[test] = FEATURES[feature].why
    return missing


class TestContract(AdapterContract):
    """OpenAI Agents."""

    unsupported: ClassVar[Mapping[str, str]] = reasons()
    run_config: ClassVar[Any] = None

    async def arun(self, scene: Scene) -> Recorded:
        """Play a scene with `Runner.run`."""
        starting, user_input = agent(scene), question(scene)
        with record() as recorder:
            try:
                result = await Runner.run(starting, user_input, run_config=self.run_config)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever ends the agent is returned
                return Recorded(recorder.last_run, error=error)
            return Recorded(recorder.last_run, answer=answer_of(result))

    def as_agent(self, scene: Scene) -> AgentCallable:
        """The agent for `evaluate`."""
        return as_agent(agent(scene), run_config=self.run_config)

    def run(self, scene: Scene) -> Recorded:
        """Play a scene with `Runner.run_sync`."""
        starting, user_input = agent(scene), question(scene)
        with own_loop(), record() as recorder:
            try:
                result = Runner.run_sync(starting, user_input, run_config=self.run_config)
            except Exception as error:  # noqa: BLE001 - whatever ends the agent is returned
                return Recorded(recorder.last_run, error=error)
            return Recorded(recorder.last_run, answer=answer_of(result))

    async def astream(self, scene: Scene) -> Recorded:
        """Play a scene with `Runner.run_streamed`, event by event."""
        starting, user_input = agent(scene), question(scene)
        async with record() as recorder:
            result = Runner.run_streamed(starting, user_input, run_config=self.run_config)
            async for _ in result.stream_events():
                pass
            return Recorded(recorder.last_run, answer=answer_of(result))

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

    def converse_in_processes(self, scenes: Sequence[Scene], path: str) -> None:
        """Play each scene with a recorder and a session of its own, on one stored session."""

        async def play(scene: Scene) -> None:
            session = SQLiteSession("one", f"{path}.db")
            with JsonlSink(path) as sink, record(sink=sink):
                await Runner.run(agent(scene), scene.input, session=session)
            session.close()

        for scene in scenes:
            asyncio.run(play(scene))

    def fan_out(self, scenes: Sequence[Scene]) -> Run:
        """Play the scenes as runs that one tool begins at the same time."""
        agents = [agent(scene) for scene in scenes]

        @function_tool
        async def fan_out() -> str:
            """Ask all agents."""
            runs = [
                Runner.run(one, scene.input, run_config=self.run_config)
                for one, scene in zip(agents, scenes, strict=True)
            ]
            return ", ".join([str(result.final_output) for result in await asyncio.gather(*runs)])

        outer = Agent(name="outer", model=Scripted([AskFor("fan_out", {}, "f1")], "done"), tools=[fan_out])

        async def play() -> Run:
            with record() as recorder:
                await Runner.run(outer, "hi", run_config=self.run_config)
            return recorder.last_run

        return asyncio.run(play())

    def resume_in_reverse(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Resume the runs from their states; every other state was stored as JSON meanwhile."""
        _need("approvals")
        from agents import RunState

        async def play() -> list[Run]:
            agents = [agent(scene) for scene in scenes]
            with record() as recorder:
                waiting = [
                    await Runner.run(one, scene.input, run_config=self.run_config)
                    for one, scene in zip(agents, scenes, strict=True)
                ]
                for number in reversed(range(len(agents))):
                    state = waiting[number].to_state()
                    if number % 2:
                        state = await RunState.from_json(agents[number], json.loads(json.dumps(state.to_json())))
                    for item in state.get_interruptions():
                        state.approve(item)
                    await Runner.run(agents[number], state, run_config=self.run_config)
            return recorder.runs

        return asyncio.run(play())

    def continue_from(self, history: Scene, scene: Scene) -> Recorded:
        """Pass the items of the first run to the second."""

        async def play() -> Recorded:
            before = (await Runner.run(agent(history), history.input)).to_input_list()
            with record() as recorder:
                result = await Runner.run(agent(scene), [*before, {"role": "user", "content": scene.input}])
            return Recorded(recorder.last_run, answer=result.final_output)

        return asyncio.run(play())

    def run_attached_twice(self, scene: Scene) -> Sequence[Run]:
        """Begin the run with the recorder, in a block of the process that was entered twice."""

        async def play() -> list[Run]:
            block = record(process_wide=True)
            with block, block as recorder:
                await recorder.run(agent(scene), scene.input)
            return recorder.runs

        return asyncio.run(play())

    def serve(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Play each scene in a thread with an empty context."""

        def play(scene: Scene) -> None:
            request: Coroutine[Any, Any, Any] = Runner.run(agent(scene), scene.input)
            asyncio.run(request)

        with record(process_wide=True) as recorder:
            threads = [threading.Thread(target=Context().run, args=(play, scene)) for scene in scenes]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return recorder.runs

    def error_text(self, error: Exception, *, handled: bool) -> str:
        """Releases without exceptions in a formatter show only the exception's text in a span, not its type."""
        return str(error) if handled and not TELLS_EXCEPTIONS else super().error_text(error, handled=handled)


class ResultsContract(TestContract):
    """The same agents, of which only the results are read; `warnings` say what these lack."""

    async def arun(self, scene: Scene) -> Recorded:
        """Play a scene, and read its run from the result."""
        result = await Runner.run(agent(scene), question(scene))
        run = run_from_result(result)
        assert bool(run.warnings) == bool(run.calls)
        return Recorded(run.model_copy(update={"warnings": []}), answer=answer_of(result))

    run = AdapterContract.run


@pytest.mark.parametrize(
    "rule",
    [
        *("run_without_calls", "parallel_calls", "steps", "changed_arguments"),
        *("arguments_that_are_no_object", "arguments_that_the_tool_rejects", "handoff"),
    ],
)
def test_rules_of_results(rule: str) -> None:
    """What a result shows is read as it is recorded."""
    getattr(ResultsContract(), f"test_{rule}")()


class TestBlocks(RecorderBlocks):
    """`record()` of the adapter."""

    def block(self, **options: Any) -> Any:
        """Return a block."""
        return record(**options)

    run_config: ClassVar[Any] = None

    async def play(self, scene: Scene) -> Any:
        """Run the SDK's agent."""
        return (await Runner.run(agent(scene), scene.input, run_config=self.run_config)).final_output


class TestUntracedBlocks(TestBlocks):
    """The same without tracing, whose spans say which agent is inside which tool."""

    run_config: ClassVar[Any] = RunConfig(tracing_disabled=True)


class TestStreamedBlocks(TestBlocks):
    """The same as streams."""

    async def play(self, scene: Scene) -> Any:
        """Stream the SDK's agent."""
        result = Runner.run_streamed(agent(scene), scene.input)
        async for _ in result.stream_events():
            pass
        return result.final_output


MISSING = {
    "repeated ids": ENFORCES_IDS,
    "unknown tools": not FEATURES["not_found"].is_due(),
    "approvals": not FEATURES["approvals"].is_due(),
}
"""What a program may have, and whether the installed release cannot do it."""

PLAYED = programs.FEATURES - {feature for feature, is_missing in MISSING.items() if is_missing}


class Continuing(TestContract):
    """Plays scenes in which a call of an unknown tool does not end the run."""

    run_config: ClassVar[Any] = (
        None if MISSING["unknown tools"] else RunConfig(tool_not_found_behavior="return_error_to_model")
    )


def program_with_equal_ids(seed: int, features: frozenset[str]) -> Program:
    """A program in which the ids of a run are unique, as the SDK wants them, and those of other runs are the same."""
    program = random_program(seed, features)
    return replace(program, scenes=[_numbered(scene, itertools.count()) for scene in program.scenes])


def _numbered(scene: Scene, numbers: Iterator[int]) -> Scene:
    """The scene with numbers as ids; an agent that takes over goes on in the same run."""
    steps = [
        replace(step, calls=tuple(replace(call, id=f"c{next(numbers)}") for call in step.calls)) for step in scene.steps
    ]
    tools = [
        replace(tool, scene=_numbered(tool.scene, itertools.count())) if isinstance(tool, AgentTool) else tool
        for tool in scene.tools
    ]
    return replace(scene, steps=steps, tools=tools, handoffs=[_numbered(other, numbers) for other in scene.handoffs])


def test_random_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded of a program is what its script and its tools say."""
    if MISSING["repeated ids"]:
        monkeypatch.setattr(programs, "random_program", program_with_equal_ids)
    check_programs(Continuing(), PLAYED)
