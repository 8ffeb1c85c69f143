"""A minimal agent framework and its adapter, as a reference for `toolmark.testing.AdapterContract`.

The agent is a generator that says what it waits for; one driver waits in threads, one in an event loop. It announces
what happens to a listener and, like most frameworks, does not protect itself from it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from toolmark.capture import Outcome, Request, RunBuilder, conversation
from toolmark.cases import ConversationalTestCase, Run, RunStatus
from toolmark.testing import (
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

# The framework


@dataclass(frozen=True)
class Began:
    """A run began with this text."""

    text: str


@dataclass(frozen=True)
class Offered:
    """A model has these tools."""

    tools: Sequence[ToolDouble | AgentTool]
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
class Showed:
    """The model receives the result of a call."""

    call: AskFor
    text: str
    failed: bool
    scope: str | None


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


Event: TypeAlias = Began | Offered | Answered | Started | Returned | Raised | Showed | Passed | Ended
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


Task: TypeAlias = "Generator[Answer | Result | All, Any, Any]"

numbers = itertools.count()


def agent(scene: Scene, tell: Tell, scope: str | None = None) -> Task:
    """Ask the model and do what it asks for, until it only answers."""
    model = scene.model()
    tell(Offered(scene.tools, scope))
    while True:
        step = yield Answer(model)
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
            tell(Showed(call, text, failed, scope))


def call_tool(scene: Scene, call: AskFor, tell: Tell, scope: str | None) -> Task:
    """Run a tool; return the model output and whether it reports a failure."""
    tool = next((tool for tool in scene.tools if tool.name == call.name), None)
    arguments = read(call)
    if tool is None or arguments is None:
        return "there is no such tool" if tool is None else "the arguments are no JSON object", True
    key = f"{call.name} {next(numbers)}"
    tell(Started(key, call, arguments, scope, scene.agent))
    try:
        if isinstance(tool, AgentTool):
            output = yield from agent(tool.scene, tell, key)
        else:
            output = yield Result(tool, arguments)
    except (Exception, asyncio.CancelledError) as error:
        tell(Raised(key, error))
        if scene.tool_errors == "raised" or not isinstance(error, Exception):
            raise
        return f"the tool failed: {error}", True
    tell(Returned(key, output))
    return f"{output}", False


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
            else:
                with ThreadPoolExecutor() as pool:
                    value = list(pool.map(drive, request.tasks))
        except Exception as raised:  # noqa: BLE001 - the agent decides
            error = raised


async def adrive(task: Task, heard: Callable[[str], None] | None = None) -> Any:
    """Run a task in an event loop; `heard` receives the model's text in pieces."""
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
            else:
                value = await asyncio.gather(*map(adrive, request.tasks))
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - the agent decides
            error = raised


# The adapter


class Recorder:
    """Listens to agents and keeps their runs."""

    def __init__(self) -> None:
        """Start without runs."""
        self.builders: dict[str, RunBuilder] = {}
        self.lock = threading.RLock()

    def listen(self, run: str) -> Tell:
        """Return the listener for an agent's run."""

        def tell(event: Event) -> None:
            with self.lock:
                builder = self.builder(run)
                try:
                    getattr(self, type(event).__name__.lower())(builder, event)
                except Exception as error:  # noqa: BLE001 - a recorder never disturbs the agent
                    self.failed(builder, error)

        return tell

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
        builder.started(event.text)

    def offered(self, builder: RunBuilder, event: Offered) -> None:
        """Note the tools."""
        specs = [{"name": tool.name, "input_schema": tool.input_schema} for tool in event.tools]
        builder.offered(specs, scope=event.scope)

    def answered(self, builder: RunBuilder, event: Answered) -> None:
        """Note what the model asks for."""
        builder.model_used("scripted", {"output_tokens": 1})
        requests = [self.request(call) for call in event.step.calls]
        builder.model_asked(requests, scope=event.scope, agent=event.agent)

    def request(self, call: AskFor | HandOff) -> Request:
        """Return one call that a model requests."""
        if isinstance(call, HandOff):
            return Request(f"transfer_to_{call.to}", {}, call.id)
        arguments = read(call)
        return Request(call.name, call.arguments_text if arguments is None else arguments, call.id)

    def started(self, builder: RunBuilder, event: Started) -> None:
        """Record the arguments of a tool."""
        call = event.call
        builder.tool_started(
            event.key, call.name, event.arguments, call_id=call.id, scope=event.scope, agent=event.agent
        )

    def returned(self, builder: RunBuilder, event: Returned) -> None:
        """Note what it returned."""
        builder.tool_ended(event.key, event.output)

    def raised(self, builder: RunBuilder, event: Raised) -> None:
        """Note what it raised."""
        outcome = Outcome.CANCELLED if isinstance(event.error, asyncio.CancelledError) else Outcome.ERROR
        builder.tool_failed(event.key, named(event.error), outcome=outcome)

    def showed(self, builder: RunBuilder, event: Showed) -> None:
        """Note what the model sees of it."""
        call = event.call
        builder.result_shown(event.text, call_id=call.id, name=call.name, failed=event.failed, scope=event.scope)

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


def named(error: BaseException) -> str:
    """An exception as a record has it."""
    return f"{type(error).__name__}: {error}"


class PlainContract(AdapterContract):
    """The contract's hooks for the agent above."""

    recorder: ClassVar[type[Recorder]] = Recorder

    def run(self, scene: Scene) -> Recorded:
        """Play a scene in threads."""
        recorder, key = self.recorder(), "run"
        tell = recorder.listen(key)
        tell(Began(scene.input))
        answer: str | None = None
        error: BaseException | None = None
        try:
            answer = drive(agent(scene, tell))
        except Exception as raised:  # noqa: BLE001 - handed back
            error = raised
        tell(Ended(answer, error))
        return Recorded(recorder.run(key), answer, error)

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

    async def aplay(
        self, scene: Scene, recorder: Recorder, key: str, heard: Callable[[str], None] | None = None
    ) -> Recorded:
        """Play a scene in the event loop with this recorder."""
        tell = recorder.listen(key)
        tell(Began(scene.input))
        answer: str | None = None
        error: BaseException | None = None
        try:
            answer = await adrive(agent(scene, tell), heard)
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - handed back
            error = raised
        tell(Ended(answer, error))
        return Recorded(recorder.run(key), answer, error)
