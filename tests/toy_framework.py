"""A minimal agent framework and its adapter, as a reference for `toolgrade.testing.AdapterContract`.

The agent is a generator that says what it waits for; one driver waits in threads, one in an event loop. It announces
what happens to a listener and, like most frameworks, does not protect itself from it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import Context, copy_context
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, ClassVar, TypeAlias

from toolgrade.agents import AgentCallable, Conversation
from toolgrade.capture import Branch, JsonlSink, Outcome, Request, RunBuilder, conversation
from toolgrade.capture.doubles import Answer as Replayed
from toolgrade.capture.doubles import answer_to, ask_tape
from toolgrade.cases import ConversationalTestCase, MLLMImage, Run, RunStatus
from toolgrade.errors import ConfigurationError
from toolgrade.testing import (
    AdapterContract,
    AgentTool,
    AskFor,
    HandOff,
    Recorded,
    Scene,
    ScriptedModel,
    Step,
    ToolDouble,
)
from toolgrade.testing.scripted_model import StepLike
from toolgrade.user_turns import Reject, UserInput

# The framework


@dataclass(frozen=True)
class Began:
    """A run began with this text and these images, after these answers of a model, on this thread of the framework."""

    text: str
    images: Sequence[MLLMImage] = ()
    history: Sequence[Step] = ()
    thread: str | None = None


@dataclass(frozen=True)
class Offered:
    """A model has these tools."""

    tools: Sequence[ToolDouble | AgentTool]
    scope: str | None


@dataclass(frozen=True)
class Instructed:
    """A model has this system prompt."""

    text: str | None
    scope: str | None


@dataclass(frozen=True)
class Answered:
    """A model answered."""

    step: Step
    scope: str | None
    agent: str


@dataclass(frozen=True)
class Started:
    """A tool started."""

    key: str
    call: AskFor
    arguments: dict[str, Any]
    scope: str | None
    agent: str


@dataclass(frozen=True)
class Returned:
    """A tool returned."""

    key: str
    output: object


@dataclass(frozen=True)
class Raised:
    """A tool raised, or was cancelled."""

    key: str
    error: BaseException


@dataclass(frozen=True)
class Structured:
    """A call carried the answer as an object."""

    call: AskFor
    scope: str | None
    agent: str


@dataclass(frozen=True)
class Paused:
    """A tool waits for a person, and the run with it."""


@dataclass(frozen=True)
class Resumed:
    """A person allowed what a run waited for."""


@dataclass(frozen=True)
class Showed:
    """The model receives the result of a call."""

    call: AskFor
    text: str
    failed: bool
    scope: str | None
    agent: str


@dataclass(frozen=True)
class Passed:
    """Control passed to another agent."""

    call: HandOff
    scope: str | None


@dataclass(frozen=True)
class Ended:
    """A run ended."""

    answer: str | None
    error: BaseException | None


Event: TypeAlias = (
    Began
    | Offered
    | Instructed
    | Answered
    | Structured
    | Started
    | Paused
    | Resumed
    | Returned
    | Raised
    | Showed
    | Passed
    | Ended
)
Tell: TypeAlias = Callable[[Event], None]


@dataclass(frozen=True)
class Answer:
    """The agent waits for its model."""

    model: ScriptedModel


@dataclass(frozen=True)
class Result:
    """The agent waits for a tool."""

    tool: ToolDouble
    arguments: dict[str, Any]


@dataclass(frozen=True)
class All:
    """The agent waits for several concurrent tasks."""

    tasks: list[Task]


@dataclass(frozen=True)
class Approval:
    """The agent waits for a person."""


Task: TypeAlias = "Generator[Answer | Result | All | Approval, Any, Any]"
Allow: TypeAlias = Callable[[], Coroutine[Any, Any, object]]

numbers = itertools.count()
process_listeners: list[Callable[[str], Tell]] = []
"""Called for each run of the process, whoever started it."""


def agent(scene: Scene, tell: Tell, scope: str | None = None) -> Task:
    """Ask the model and do what it asks for, until it only answers."""
    model = scene.model()
    tell(Offered([*scene.tools, ANSWER] if scene.is_structured else scene.tools, scope))
    tell(Instructed(scene.instructions, scope))
    while True:
        step = yield Answer(model)
        if scene.is_structured and not step.calls:
            call = AskFor("answer", json.loads(step.text), "answer")
            tell(Answered(Step(calls=(call,)), scope, scene.agent))
            tell(Structured(call, scope, scene.agent))
            return step.text
        tell(Answered(step, scope, scene.agent))
        if not step.calls:
            return step.text
        handoff = next((call for call in step.calls if isinstance(call, HandOff)), None)
        if handoff is not None:
            tell(Passed(handoff, scope))
            other = next(other for other in scene.handoffs if other.agent == handoff.to)
            return (yield from agent(other, tell, scope))
        calls = [call for call in step.calls if isinstance(call, AskFor)]
        results = yield All([call_tool(scene, call, tell, scope) for call in calls])
        for call, (text, failed) in zip(calls, results, strict=True):
            tell(Showed(call, text, failed, scope, scene.agent))


def branches(scenes: Sequence[Scene], tell: Tell) -> Task:
    """Run agents at the same time, in one run."""
    return ", ".join((yield All([agent(scene, tell) for scene in scenes])))


def answer(total: int) -> int:
    """Answer."""
    return total


ANSWER = ToolDouble.of(answer, total="integer")
"""The tool that carries a structured answer."""


def call_tool(scene: Scene, call: AskFor, tell: Tell, scope: str | None) -> Task:
    """Run a tool; return the model output and whether it reports a failure."""
    tool = next((tool for tool in scene.tools if tool.name == call.name), None)
    arguments = read(call)
    if tool is None or arguments is None:
        return "there is no such tool" if tool is None else "the arguments are no JSON object", True
    if isinstance(tool, ToolDouble) and tool.needs_approval:
        tell(Paused())
        yield Approval()
        tell(Resumed())
    key = f"{call.name} {next(numbers)}"
    tell(Started(key, call, arguments, scope, scene.agent))
    try:
        double = ask_tape(call.name, arguments, key=key, runs_agent=isinstance(tool, AgentTool))
        if isinstance(double, Replayed):
            output = given(double)
        else:
            with nullcontext() if double is None else double.running():
                if isinstance(tool, AgentTool):
                    output = yield from agent(tool.scene, tell, key)
                else:
                    output = yield Result(tool, arguments)
                if double is not None:
                    double.returned(output)
    except (Exception, asyncio.CancelledError) as error:
        tell(Raised(key, error))
        if scene.tool_errors == "raised" or not isinstance(error, Exception):
            raise
        return f"the tool failed: {error}", True
    tell(Returned(key, output))
    return f"{output}", False


def given(answer: Replayed) -> Any:
    """What a recording answers in the place of a tool."""
    error = answer.exception()
    if error is not None:
        raise error
    return answer.output


def read(call: AskFor) -> dict[str, Any] | None:
    """Return the arguments that the model wrote, or None if they are not an object."""
    try:
        value = json.loads(call.arguments_text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def drive(task: Task) -> Any:
    """Do what a task waits for, in threads."""
    value: Any = None
    error: BaseException | None = None
    while True:
        try:
            request = task.send(value) if error is None else task.throw(error)
        except StopIteration as end:
            return end.value
        value, error = None, None
        try:
            if isinstance(request, Answer):
                value = request.model.next_step()
            elif isinstance(request, Result):
                value = request.tool.function(**request.arguments)
            elif isinstance(request, Approval):
                error = TypeError("a person is asked in an event loop only")
            else:
                contexts = [copy_context() for _ in request.tasks]
                with ThreadPoolExecutor() as pool:
                    value = list(pool.map(Context.run, contexts, repeat(drive), request.tasks))
        except Exception as raised:  # noqa: BLE001 - the agent decides
            error = raised


async def adrive(task: Task, heard: Callable[[str], None] | None = None, allow: Allow | None = None) -> Any:
    """Run a task in an event loop; `heard` receives the model's text in pieces, `allow` waits for a person."""
    value: Any = None
    error: BaseException | None = None
    while True:
        try:
            request = task.send(value) if error is None else task.throw(error)
        except StopIteration as end:
            return end.value
        value, error = None, None
        try:
            if isinstance(request, Answer):
                value = request.model.next_step()
                if heard is not None:
                    for chunk in value.chunks():
                        heard(chunk)
            elif isinstance(request, Result):
                value = await request.tool.coroutine(**request.arguments)
            elif isinstance(request, Approval):
                assert allow is not None
                value = await allow()
            else:
                value = await asyncio.gather(*(adrive(inner, allow=allow) for inner in request.tasks))
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - the agent decides
            error = raised


# The adapter


class Recorder:
    """Listens to agents and keeps their runs."""

    def __init__(self) -> None:
        """Start without runs."""
        self.builders: dict[str, RunBuilder] = {}
        self.requests: dict[object, Request] = {}
        self.lock = threading.RLock()

    def listen(self, run: str) -> Tell:
        """Return the listener for an agent's run; a second one for the same run hears nothing."""
        if run in self.builders:
            return _hear_nothing
        self.builder(run)

        def tell(event: Event) -> None:
            with self.lock:
                builder = self.builder(run)
                try:
                    getattr(self, type(event).__name__.lower())(builder, event)
                except Exception as error:  # noqa: BLE001 - a recorder never disturbs the agent
                    self.failed(builder, error)

        return tell

    def listen_to_process(self) -> None:
        """Listen to all runs of the process."""
        process_listeners.append(self.listen)

    def builder(self, run: str) -> RunBuilder:
        """The record of this run."""
        return self.builders.setdefault(run, RunBuilder(run_id=run))

    def run(self, run: str) -> Run:
        """What was recorded of this run."""
        with self.lock:
            return self.builder(run).build()

    def failed(self, builder: RunBuilder, error: Exception) -> None:
        """The recorder itself failed."""
        builder.warn(f"something was not recorded: {type(error).__name__}: {error}")

    def began(self, builder: RunBuilder, event: Began) -> None:
        """Note the question."""
        builder.conversation_id = event.thread
        builder.started(event.text, parts=[event.text, *event.images] if event.images else None)

    def offered(self, builder: RunBuilder, event: Offered) -> None:
        """Note the tools."""
        specs = [{"name": tool.name, "input_schema": tool.input_schema} for tool in event.tools]
        builder.offered(specs, scope=event.scope)

    def instructed(self, builder: RunBuilder, event: Instructed) -> None:
        """Note the system prompt."""
        builder.instructed(event.text, scope=event.scope)

    def answered(self, builder: RunBuilder, event: Answered) -> None:
        """Note what the model asks for."""
        builder.model_used("scripted", {"output_tokens": 1})
        requests = [self.request(call) for call in event.step.calls]
        builder.model_asked(requests, scope=Branch(event.scope, event.agent), agent=event.agent)
        self.requests |= {(builder.run_id, event.scope, request.id): request for request in requests}

    def structured(self, builder: RunBuilder, event: Structured) -> None:
        """Leave out the call that carried the answer."""
        builder.structured_answer([self.requests[builder.run_id, event.scope, event.call.id]])

    def request(self, call: AskFor | HandOff) -> Request:
        """Return one call that a model requests."""
        if isinstance(call, HandOff):
            return Request(f"transfer_to_{call.to}", {}, call.id)
        arguments = read(call)
        return Request(call.name, call.arguments_text if arguments is None else arguments, call.id)

    def started(self, builder: RunBuilder, event: Started) -> None:
        """Record the arguments of a tool."""
        call = event.call
        scope = Branch(event.scope, event.agent)
        builder.tool_started(event.key, call.name, event.arguments, call_id=call.id, scope=scope, agent=event.agent)

    def paused(self, builder: RunBuilder, event: Paused) -> None:  # noqa: ARG002 - as the others
        """Note that the run waits."""
        builder.ended(may_wait=True)

    def resumed(self, builder: RunBuilder, event: Resumed) -> None:  # noqa: ARG002 - as the others
        """Note that the run goes on."""
        builder.resumed()

    def returned(self, builder: RunBuilder, event: Returned) -> None:
        """Note what it returned."""
        output = event.output.to_dict() if isinstance(event.output, MLLMImage) else event.output
        builder.tool_ended(event.key, output)
        builder.tool_replayed(event.key, answer_to(event.key))

    def raised(self, builder: RunBuilder, event: Raised) -> None:
        """Note what it raised."""
        outcome = Outcome.CANCELLED if isinstance(event.error, asyncio.CancelledError) else Outcome.ERROR
        builder.tool_failed(event.key, named(event.error), outcome=outcome)
        builder.tool_replayed(event.key, answer_to(event.key))

    def showed(self, builder: RunBuilder, event: Showed) -> None:
        """Note what the model sees of it."""
        call = event.call
        scope = Branch(event.scope, event.agent)
        builder.result_shown(event.text, call_id=call.id, name=call.name, failed=event.failed, scope=scope)

    def passed(self, builder: RunBuilder, event: Passed) -> None:
        """Record the next agent."""
        builder.handed_off(to=event.call.to, call_id=event.call.id, scope=event.scope)

    def ended(self, builder: RunBuilder, event: Ended) -> None:
        """Note how the run ended."""
        if event.error is None:
            builder.ended(event.answer)
        else:
            is_stop = isinstance(event.error, asyncio.CancelledError)
            builder.ended(status=RunStatus.STOPPED if is_stop else RunStatus.ERROR, error=named(event.error))


def _hear_nothing(event: Event) -> None:
    """Ignore an event, which another listener hears."""


def named(error: BaseException) -> str:
    """An exception as a record has it."""
    return f"{type(error).__name__}: {error}"


def play(task: Task, tell: Tell, began: Began) -> tuple[str | None, BaseException | None]:
    """Run an agent in threads, and return its answer or its error."""
    tell(began)
    answer: str | None = None
    error: BaseException | None = None
    try:
        answer = drive(task)
    except Exception as raised:  # noqa: BLE001 - handed back
        error = raised
    tell(Ended(answer, error))
    return answer, error


class PlainContract(AdapterContract):
    """The contract's hooks for the agent above."""

    recorder: ClassVar[type[Recorder]] = Recorder

    def run(self, scene: Scene) -> Recorded:
        """Play a scene in threads."""
        recorder = self.recorder()
        tell = recorder.listen("run")
        answer, error = play(agent(scene, tell), tell, Began(scene.input, scene.images))
        return Recorded(recorder.run("run"), answer, error)

    async def arun(self, scene: Scene) -> Recorded:
        """Play a scene in the event loop."""
        return await self.aplay(scene, self.recorder(), "run")

    async def astream(self, scene: Scene) -> Recorded:
        """Play a scene and join the answer from its streamed pieces."""
        chunks: list[str] = []
        recorded = await self.aplay(scene, self.recorder(), "run", chunks.append)
        return Recorded(recorded.run, "".join(chunks), recorded.error)

    def run_many(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Play all scenes in one event loop."""
        recorder = self.recorder()

        async def play() -> list[Recorded]:
            return await asyncio.gather(*(self.aplay(scene, recorder, f"{n}") for n, scene in enumerate(scenes)))

        return [recorded.run for recorded in asyncio.run(play())]

    def converse(self, scenes: Sequence[Scene]) -> ConversationalTestCase:
        """Play the scenes one after the other."""
        recorder = self.recorder()
        runs = [asyncio.run(self.aplay(scene, recorder, f"{n}")).run for n, scene in enumerate(scenes)]
        return conversation(runs)

    def converse_in_processes(self, scenes: Sequence[Scene], path: str) -> None:
        """Play the scenes one after the other, each with a recorder and a file of its own."""
        for scene in scenes:
            recorder = self.recorder()
            tell = recorder.listen("run")
            play(agent(scene, tell), tell, Began(scene.input, thread="thread"))
            with JsonlSink(path) as sink:
                sink.write(recorder.run("run"))

    def fan_out(self, scenes: Sequence[Scene]) -> Run:
        """Play the scenes in threads, in one run."""
        recorder = self.recorder()
        tell = recorder.listen("run")
        play(branches(scenes, tell), tell, Began("go"))
        return recorder.run("run")

    def resume_in_reverse(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Play all scenes until they wait, then let the last one go on first."""
        recorder = self.recorder()

        async def play_all() -> list[Recorded]:
            doors = [Door() for _ in scenes]
            tasks = []
            for number, (scene, door) in enumerate(zip(scenes, doors, strict=True)):
                playing = self.aplay(scene, recorder, f"{number}", allow=door.passed)
                tasks.append(asyncio.ensure_future(playing))
                await door.reached.wait()
            for door, task in reversed(list(zip(doors, tasks, strict=True))):
                door.opened.set()
                await task
            return [task.result() for task in tasks]

        return [recorded.run for recorded in asyncio.run(play_all())]

    def continue_from(self, history: Scene, scene: Scene) -> Recorded:
        """Play a scene after the answers of another."""
        recorder = self.recorder()
        tell = recorder.listen("run")
        steps = [step for step in history.steps if isinstance(step, Step)]
        answer, error = play(agent(scene, tell), tell, Began(scene.input, history=steps))
        return Recorded(recorder.run("run"), answer, error)

    def as_agent(self, scene: Scene) -> AgentCallable:
        """Play the steps up to the next answer for each text; a run that waits goes on in its task."""
        steps, recorder = iter(scene.steps), self.recorder()

        async def ask(said: UserInput, talk: Conversation) -> Run:
            if "waiting" in talk.memory:
                key, task, door = talk.memory.pop("waiting")
                door.answer = said
            elif isinstance(said, str):
                key, door = f"turn {len(recorder.builders)}", Door()
                turn = replace(scene, steps=turn_of(steps), tools=[*map(door.guard, scene.tools)], input=said)
                task = asyncio.ensure_future(self.aplay(turn, recorder, key, allow=door.passed))
            else:
                raise ConfigurationError("Approve() must answer a run that waits; ask first")
            reached = asyncio.ensure_future(door.reached.wait())
            if door.answer is not None:
                door.opened.set()
            else:
                try:
                    await asyncio.wait({task, reached}, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError:
                    task.cancel()
            reached.cancel()
            if door.reached.is_set() and door.answer is None:
                talk.memory["waiting"] = key, task, door
                run = recorder.run(key)
            else:
                run = (await task).run
            return run.model_copy(update={"conversation_id": talk.id})

        return ask

    def run_attached_twice(self, scene: Scene) -> Sequence[Run]:
        """Play a scene that two listeners of one recorder hear."""
        recorder = self.recorder()
        listeners = [recorder.listen("run"), recorder.listen("run")]

        def tell(event: Event) -> None:
            for listener in listeners:
                listener(event)

        play(agent(scene, tell), tell, Began(scene.input))
        return [recorder.run(key) for key in recorder.builders]

    def serve(self, scenes: Sequence[Scene]) -> Sequence[Run]:
        """Play each scene in a thread, with the listeners of the process."""
        recorder = self.recorder()
        recorder.listen_to_process()

        def serve_one(number: int) -> None:
            listeners = [listen(f"{number}") for listen in process_listeners]

            def tell(event: Event) -> None:
                for listener in listeners:
                    listener(event)

            play(agent(scenes[number], tell), tell, Began(scenes[number].input))

        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(serve_one, range(len(scenes))))
        finally:
            process_listeners.clear()
        return [recorder.run(key) for key in recorder.builders]

    async def aplay(
        self,
        scene: Scene,
        recorder: Recorder,
        key: str,
        heard: Callable[[str], None] | None = None,
        allow: Allow | None = None,
    ) -> Recorded:
        """Play a scene in the event loop with this recorder."""
        tell = recorder.listen(key)
        tell(Began(scene.input, scene.images))
        answer: str | None = None
        error: BaseException | None = None
        try:
            answer = await adrive(agent(scene, tell), heard, allow)
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - handed back
            error = raised
        tell(Ended(answer, error))
        return Recorded(recorder.run(key), answer, error)


def turn_of(steps: Iterator[StepLike]) -> list[StepLike]:
    """Return the steps up to the next one without calls."""
    turn: list[StepLike] = []
    for step in steps:
        turn.append(step)
        if not getattr(step, "calls", ()):
            break
    return turn


class Door:
    """Where a run waits for a person; `reached` when it does."""

    def __init__(self) -> None:
        """Start closed."""
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.answer: UserInput | None = None

    def guard(self, tool: ToolDouble | AgentTool) -> ToolDouble | AgentTool:
        """Return a tool that refuses to run if the person said no."""
        if isinstance(tool, AgentTool) or not tool.needs_approval:
            return tool

        async def guarded(**arguments: Any) -> Any:
            return "refused" if isinstance(self.answer, Reject) else await tool.coroutine(**arguments)

        return replace(tool, coroutine=guarded)

    async def passed(self) -> None:
        """Return when the door is open."""
        self.reached.set()
        await self.opened.wait()
