"""Scenes, runs described without a framework, and the hooks by which an adapter plays them on its framework.

`ExpectedCall` is a call as the recording of a scene must contain it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from toolgrade._internal.json import JsonObject, short_repr
from toolgrade.agents import AgentCallable, Conversation
from toolgrade.calls import CallOrigin, CallStatus, ToolCall
from toolgrade.capture import RunBuilder
from toolgrade.cases import ConversationalTestCase, MLLMImage, Run
from toolgrade.errors import ToolgradeError
from toolgrade.matching.json_compare import ABSENT, json_equal, outputs_equal
from toolgrade.testing.scripted_model import ScriptedModel, Step, StepLike
from toolgrade.testing.tool_doubles import ToolDouble


@dataclass(frozen=True)
class AgentTool:
    """A tool that is an agent: called with `{"input": ...}`, it plays its scene and returns the answer.

    Attributes:
        name: Name of the tool.
        scene: What the inner agent does.
        description: What it does, for the outer agent's model.

    Example:
        >>> from toolgrade.testing import AgentTool, AskFor, Scene, ToolDouble
        >>> def add(a: int, b: int = 2) -> int:
        ...     return a + b
        >>> steps, tools = (
        ...     [[AskFor("add", {"a": 1, "b": 2})], "It is 3."],
        ...     [ToolDouble.of(add, a="integer", b="integer?")],
        ... )
        >>> mathematician = Scene(steps, tools=tools, agent="mathematician")
        >>> scene = Scene([[AskFor("ask", {"input": "1 + 2?"})], "Three."], tools=[AgentTool("ask", mathematician)])
        >>> inner = scene.tools[0].scene.model()  # what an adapter plays when the tool is called
        >>> inner.next_step().calls[0].arguments, inner.next_step().text
        ({'a': 1, 'b': 2}, 'It is 3.')
    """

    name: str
    scene: Scene
    description: str = "Ask another agent."

    @property
    def input_schema(self) -> JsonObject:
        """JSON Schema of its arguments."""
        return {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


@dataclass(frozen=True)
class Scene:
    """One run of an agent.

    Attributes:
        steps: What its model answers; kept as `Step`s.
        tools: The tools it has.
        input: What the user says.
        agent: Name of the agent.
        tool_errors: A tool's exception goes to the model, or ends the run.
        handoffs: Agents that it can hand over to; each goes on with its own steps and tools.
        images: Images that the user sends after the text.
        is_structured: The last step is the JSON text of an object `{"total": int}`, which the agent must answer with:
            the framework asks the model for it in its own way, by a tool if it has one for that.
        instructions: The system prompt of the agent; `None` if it has none.

    Example:
        >>> from toolgrade.testing import AskFor, Scene, ToolDouble
        >>> def add(a: int, b: int = 2) -> int:
        ...     return a + b
        >>> tools = [ToolDouble.of(add, a="integer", b="integer?")]
        >>> scene = Scene([[AskFor("add", {"a": 1}, "c1")], "It is 3."], tools=tools, input="What is 1 + 2?")
        >>> model = scene.model()
        >>> call = model.next_step().calls[0]
        >>> scene.tools[0].function(**call.arguments), model.next_step().text
        (3, 'It is 3.')
    """

    steps: Sequence[StepLike]
    tools: Sequence[ToolDouble | AgentTool] = ()
    input: str = "hi"
    agent: str = "agent"
    tool_errors: Literal["shown", "raised"] = "shown"
    handoffs: Sequence[Scene] = ()
    images: Sequence[MLLMImage] = ()
    is_structured: bool = False
    instructions: str | None = None

    def __post_init__(self) -> None:
        """Convert the short forms of the steps."""
        object.__setattr__(self, "steps", tuple(Step.of(step) for step in self.steps))

    def model(self) -> ScriptedModel:
        """Return a new model that starts with the first step; use one for each run."""
        return ScriptedModel(*self.steps)


class NotSupportedError(ToolgradeError):
    """The framework does not support something; a hook raises it with the reason."""


class PlantedFaultError(RuntimeError):
    """The exception that a recorder with a planted fault raises."""


@dataclass(frozen=True)
class Recorded:
    """Result of playing a scene.

    Attributes:
        run: What the adapter recorded.
        answer: What the caller of the agent got.
        error: What the caller had to catch instead, cancellation included.

    Example:
        >>> import asyncio
        >>> from toolgrade import observe
        >>> from toolgrade.capture import record
        >>> from toolgrade.testing import Recorded, Scene
        >>> async def arun(scene: Scene) -> Recorded:  # the hook of an adapter, here for `@observe`
        ...     model = scene.model()
        ...     with record() as recorder:
        ...         answer = observe(lambda question: model.next_step().text)(scene.input)
        ...     return Recorded(recorder.last_run, answer)
        >>> recorded = asyncio.run(arun(Scene(["It is sunny."], input="What is the weather in Paris?")))
        >>> recorded.run.input, recorded.answer
        ('What is the weather in Paris?', 'It is sunny.')
    """

    run: Run
    answer: str | None = None
    error: BaseException | None = None


@dataclass
class PlantedFault:
    """A planted fault; `raised` counts how often it was raised."""

    raised: int = 0


class AdapterHooks:
    """Hooks for what differs between adapters. Only `arun` is required; other hooks give a reason if unsupported.

    Attributes:
        unsupported: For each test of the contract that the framework cannot pass as it stands, the reason. Its hooks
            raise `NotSupportedError`, or the test is overridden with what holds instead.
    """

    unsupported: ClassVar[Mapping[str, str]] = {}

    async def arun(self, scene: Scene) -> Recorded:
        """Play a scene on an agent of the framework, with the recorder attached.

        Whatever ends the agent is returned as `error`, not raised; also `asyncio.CancelledError`.
        """
        raise NotImplementedError

    def run(self, scene: Scene) -> Recorded:
        """Play a scene through the framework's synchronous API; by default `arun` in a new event loop."""
        return asyncio.run(self.arun(scene))

    async def astream(self, scene: Scene) -> Recorded:  # noqa: ARG002 - for those who override it
        """Play a scene through the framework's stream, read to its end; the answer is what was streamed."""
        raise NotSupportedError("this adapter does not implement how to stream: override `astream`")

    def run_many(self, scenes: Sequence[Scene]) -> Sequence[Run]:  # noqa: ARG002 - for those who override it
        """Play all scenes at the same time through one recorder, and return their runs, in any order."""
        raise NotSupportedError("this adapter does not implement how to run many at once: override `run_many`")

    def converse(self, scenes: Sequence[Scene]) -> ConversationalTestCase:  # noqa: ARG002 - for those who override it
        """Play the scenes one after the other as one conversation with a memory."""
        raise NotSupportedError("this adapter does not implement how to converse: override `converse`")

    def converse_in_processes(self, scenes: Sequence[Scene], path: str) -> None:  # noqa: ARG002 - as above
        """Play the scenes one after the other on one thread of the framework, as processes that share it would.

        Each scene has a recorder of its own with a `JsonlSink` of `path`, and no recorder is told a conversation: it
        is the framework's own name of the thread (its session, context or memory).
        """
        raise NotSupportedError("this adapter does not implement processes: override `converse_in_processes`")

    def fan_out(self, scenes: Sequence[Scene]) -> Run:  # noqa: ARG002 - as above
        """Play the scenes as parallel branches of one run, and return it.

        A branch is what the framework runs at the same time inside a run without a request of its own for each: nodes
        of a graph, workers of a step, runs gathered inside one tool.
        """
        raise NotSupportedError("this adapter does not implement parallel branches: override `fan_out`")

    def resume_in_reverse(self, scenes: Sequence[Scene]) -> Sequence[Run]:  # noqa: ARG002 - as above
        """Play the scenes through one recorder until each waits for a person, then allow what they wait for.

        Tools with `needs_approval` wait. The last scene is resumed first. The runs have the order of the scenes.
        """
        raise NotSupportedError("this adapter does not implement approvals: override `resume_in_reverse`")

    def continue_from(self, history: Scene, scene: Scene) -> Recorded:  # noqa: ARG002 - as above
        """Play `history` without a recorder, then `scene` with one, on the messages of both.

        The input of the second run holds all messages of the first, its calls and results included, and then the
        user's text of `scene`, as programs do that store the messages themselves.
        """
        raise NotSupportedError("this adapter does not implement an input of messages: override `continue_from`")

    def run_attached_twice(self, scene: Scene) -> Sequence[Run]:  # noqa: ARG002 - as above
        """Play a scene with one recorder that is attached in two ways, or entered twice, and return its runs."""
        raise NotSupportedError("this adapter does not implement a second entry: override `run_attached_twice`")

    def serve(self, scenes: Sequence[Scene]) -> Sequence[Run]:  # noqa: ARG002 - as above
        """Record the whole process, play each scene in a thread without the recorder's context, and return the runs.

        As in a server, where the recorder is entered at the start and requests run in contexts of their own.
        """
        raise NotSupportedError("this adapter does not implement recording of a process: override `serve`")

    def as_agent(self, scene: Scene) -> AgentCallable:
        """Return the agent that plays a scene, as `evaluate` asks it; by default it returns the run of `arun`.

        In a conversation, it remembers the turns before, and plays the steps of the scene one after the other.
        """

        async def ask(input: str, conversation: Conversation) -> Run:  # noqa: ARG001 - the scene has the input
            return (await self.arun(scene)).run

        return ask

    def error_text(self, error: Exception, *, handled: bool) -> str:  # noqa: ARG002 - for those who override it
        """Return a tool's exception as `execution.error` has it; the text alone if the framework hides the exception.

        Args:
            error: The exception.
            handled: The model was shown it, and the run went on; otherwise it ended the run.
        """
        return f"{type(error).__name__}: {error}"

    @contextmanager
    def plant_fault(self, observation: str) -> Generator[PlantedFault, None, None]:
        """Make the recorder raise: by default whenever it reports this event to its `RunBuilder`.

        Args:
            observation: Name of a method of `RunBuilder`.
        """
        fault = PlantedFault()
        whole = getattr(RunBuilder, observation)

        def broken(*_args: object, **_kwargs: object) -> None:
            fault.raised += 1
            raise PlantedFaultError(f"a fault was planted in {observation!r}")

        setattr(RunBuilder, observation, broken)
        try:
            yield fault
        finally:
            setattr(RunBuilder, observation, whole)


SOME_TEXT: Final = object()
"""Matches any error text."""

EITHER: Final = object()
"""Matches any value, for what differs between frameworks."""


@dataclass(frozen=True)
class ExpectedCall:
    """A call as it must be recorded. The defaults are those of a call that ran once and succeeded.

    Attributes:
        name: Name of the tool.
        arguments: As passed to the tool, before defaults.
        id: Its id; `None` if the model sent none.
        output: Its output, or the text form of that; `ABSENT` if it has none, or `EITHER`.
        status: Its status, or `EITHER`.
        step: Number of the model message that requested it, or `EITHER`.
        executed: Whether an execution was observed, or `EITHER`.
        error: The error, `SOME_TEXT`, or `None`.
        requested: The requested arguments, if they differ.
        attempts: How often its tool was started, or `EITHER`: some frameworks start a tool that waits once more.
        children: Calls inside it.
    """

    name: str
    arguments: dict[str, Any]
    id: str | None
    output: object = ABSENT
    status: object = CallStatus.OK
    step: object = 0
    executed: object = True
    error: object = None
    requested: object = None
    attempts: object = 1
    children: Sequence[ExpectedCall] = ()

    def differences(self, call: ToolCall) -> list[str]:
        """Return the differences of a recorded call, each as one line."""
        execution = call.execution
        if execution is None:
            return ["execution: expected one, got none"]
        fields: list[tuple[str, object, object]] = [
            ("name", self.name, call.name),
            ("input_parameters", self.arguments, call.arguments),
            ("id", self.id, call.id),
            ("status", getattr(self.status, "value", self.status), execution.status.value),
            ("step", self.step, execution.step),
            ("executed", self.executed, execution.executed),
            ("attempts", self.attempts, execution.attempts),
            ("origin", CallOrigin.MODEL.value, execution.origin.value),
            ("error", self.error, execution.error),
            ("requested_parameters", self.requested, execution.requested_parameters),
        ]
        rows = [row for row in fields if not _agree(row[1], row[2])]
        output = call.output if "output" in call.model_fields_set else ABSENT
        if not self._accepts_output(output):
            rows.append(("output", self.output, output))
        lines: list[str] = []
        for name, expected, got in rows:
            text = "some text" if expected is SOME_TEXT else short_repr(expected, 120)
            lines.append(f"{name}: expected {text}, got {short_repr(got, 120)}")
        return lines + compare_calls(self.children, execution.children, "children")

    def _accepts_output(self, output: object) -> bool:
        if self.output is EITHER or output is self.output:
            return True
        return ABSENT not in (output, self.output) and outputs_equal(self.output, output)


def compare_calls(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], what: str) -> list[str]:
    """Return how recorded calls differ from the expected ones, each difference as one line with its place."""
    lines: list[str] = []
    if len(expected) != len(calls):
        names, got = [one.name for one in expected], [call.name for call in calls]
        lines.append(f"{what}: expected {len(expected)} calls {names}, got {len(calls)} {got}")
    for index, (one, call) in enumerate(zip(expected, calls, strict=False)):
        lines += [f"{what}[{index}].{line}" for line in one.differences(call)]
    return lines


def require(lines: Sequence[str], where: str) -> None:
    """Raise an `AssertionError` that lists the differences, if there are any."""
    if lines:
        raise AssertionError("\n  ".join([f"{where}:", *lines]))


def _agree(expected: object, got: object) -> bool:
    if expected is SOME_TEXT:
        return isinstance(got, str) and bool(got)
    return expected is EITHER or json_equal(expected, got)
