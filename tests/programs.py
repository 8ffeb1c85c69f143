"""Random programs of many agents, and what a recorder must have recorded of them.

A program is a tree of agents: agents as tools, several at the same time; hand-overs; parallel branches; tools that
raise; tools that wait for a person; models that fail; structured answers; call ids that repeat in a message, in a run
and between agents. The truth comes from the script (which calls, in which order, inside which call) and from the tools,
which log what they received and returned. It never comes from an adapter.

Set `TOOLGRADE_PROGRAMS` to play another number of programs than 25.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from toolgrade.calls import CallStatus, ToolCall
from toolgrade.cases import Run, RunStatus
from toolgrade.matching.json_compare import ABSENT
from toolgrade.testing import AdapterContract, AgentTool, AskFor, HandOff, Recorded, Scene, ToolDouble
from toolgrade.testing.adapter_hooks import EITHER, SOME_TEXT, ExpectedCall, compare_calls, require
from toolgrade.testing.scripted_model import StepLike
from toolgrade.testing.tool_doubles import ADD, BOOM, PAY, SLOW

AMOUNT = int(os.environ.get("TOOLGRADE_PROGRAMS", "25"))

#: What a program may have; a framework that cannot do one of these leaves it out.
FEATURES = frozenset({"repeated ids", "unknown tools", "hand-offs", "branches", "approvals", "structured", "crashes"})

_DEPTH = 2
_DOWN = "the model is down"

Log: TypeAlias = list[tuple[str, str]]


@dataclass
class Program:
    """One program.

    Attributes:
        kind: `run`, `branches` (the scenes are branches of one run) or `approvals` (the scenes wait for a person).
        scenes: Its scenes.
        log: What the tools did: name and arguments, and what they returned or raised.
    """

    kind: str
    scenes: list[Scene]
    log: Log = field(default_factory=list)


class _Author:
    """Writes random programs."""

    def __init__(self, seed: int, features: frozenset[str]) -> None:
        self.random = random.Random(seed)
        self.features = features
        self.log: Log = []
        self.agents = 0
        self.calls = 0

    def may(self, feature: str, probability: float) -> bool:
        return feature in self.features and self.random.random() < probability

    def program(self) -> Program:
        if self.may("branches", 0.25):
            kind, amount, depth = "branches", self.random.randint(2, 4), 1
        elif self.may("approvals", 0.15):
            kind, amount, depth = "approvals", self.random.randint(2, 3), 1
        else:
            kind, amount, depth = "run", 1, 0
        return Program(kind, [self.scene(depth, kind) for _ in range(amount)], self.log)

    def scene(self, depth: int, kind: str = "run") -> Scene:
        """Return a random agent; the deeper it stands, the smaller it is."""
        name = f"agent {self.agents}"
        self.agents += 1
        tools = [self.logged(tool) for tool in (ADD, SLOW, BOOM)]
        steps: list[StepLike] = []
        for _ in range(self.random.randint(0 if depth else 1, 3)):
            message, inner = self.message(depth)
            tools += inner
            steps.append(message)
        handoffs = []
        if kind == "approvals":
            tools.append(self.logged(PAY))
            steps.append([AskFor("pay", {"amount": self.random.randint(1, 3)}, self.call_id([]))])
            if self.random.random() < 0.5:  # a round after the pause
                steps.append([self.plain_call([])])
        elif kind == "run" and not depth and self.may("hand-offs", 0.25):
            handoffs.append(self.scene(depth, "handed over"))
            steps.append([HandOff(handoffs[0].agent, self.call_id([]))])
        is_structured = not handoffs and kind in ("run", "handed over") and self.may("structured", 0.2)
        if not handoffs:
            steps.append(self.ending(is_structured, kind))
        return Scene(steps, tools, f"question of {name}", name, handoffs=handoffs, is_structured=is_structured)

    def ending(self, is_structured: bool, kind: str) -> StepLike:
        if is_structured:
            return f'{{"total": {self.random.randint(0, 9)}}}'
        if kind == "run" and self.may("crashes", 0.08):
            return RuntimeError(_DOWN)
        return f"answer {self.random.randint(0, 99)}"

    def message(self, depth: int) -> tuple[list[AskFor | HandOff], list[AgentTool]]:
        """Return a model's message with one to four calls, and the agents that it calls as tools."""
        calls: list[AskFor | HandOff] = []
        inner: list[AgentTool] = []
        for _ in range(self.random.choice((1, 1, 2, 3, 4))):
            if depth < _DEPTH and self.random.random() < 0.25:
                tool = AgentTool(f"ask_{self.agents}", self.scene(depth + 1))
                inner.append(tool)
                calls.append(AskFor(tool.name, {"input": "go"}, self.call_id(calls)))
            elif self.may("unknown tools", 0.05):
                calls.append(AskFor("nope", {"x": 1}, self.call_id(calls)))
            else:
                calls.append(self.plain_call(calls))
        return calls, inner

    def plain_call(self, others: Sequence[Any]) -> AskFor:
        name, argument, values = self.random.choice(
            (("add", "a", 5), ("add", "a", 5), ("slow", "x", 2), ("boom", "x", 2))
        )
        return AskFor(name, {argument: self.random.randint(0, values)}, self.call_id(others))

    def call_id(self, others: Sequence[AskFor | HandOff]) -> str:
        """Return an id: of its own, or one that agents and messages share, or now and then one of the same message."""
        if "repeated ids" in self.features and self.random.random() < 0.7:
            if others and self.random.random() < 0.1:
                return str(others[-1].id)
            return f"c{len(others)}"
        self.calls += 1
        return f"id-{self.calls}"

    def logged(self, tool: ToolDouble) -> ToolDouble:
        """Return a tool that logs what it does."""

        def function(**arguments: Any) -> Any:
            return self.note(tool.name, arguments, lambda: tool.function(**arguments))

        async def coroutine(**arguments: Any) -> Any:
            await asyncio.sleep(self.random.choice((0, 0, 0.001, 0.003)))
            return self.note(tool.name, arguments, lambda: tool.function(**arguments))

        function.__signature__ = coroutine.__signature__ = _signature(tool)  # type: ignore[attr-defined]
        function.__annotations__ = coroutine.__annotations__ = tool.function.__annotations__
        function.__doc__ = coroutine.__doc__ = tool.description
        function.__name__ = coroutine.__name__ = tool.name
        return replace(tool, function=function, coroutine=coroutine)

    def note(self, name: str, arguments: dict[str, Any], call: Callable[[], Any]) -> Any:
        own = {key: value for key, value in arguments.items() if key != "b"}  # frameworks may fill in the default
        try:
            output = call()
        except ValueError as error:
            self.log.append((f"{name} {own}", f"raised {error}"))
            raise
        self.log.append((f"{name} {own}", f"returned {output}"))
        return output


def random_program(seed: int, features: frozenset[str] = FEATURES) -> Program:
    """Return the program of a seed."""
    return _Author(seed, features).program()


# The truth


@dataclass
class _Truth:
    """What must be recorded of a scene: its calls, its answer, and whether its model failed."""

    calls: list[ExpectedCall] = field(default_factory=list)
    answer: str | None = None
    steps: int = 0
    crashed: bool = False


def truth_of(scene: Scene, contract: AdapterContract, truth: _Truth | None = None) -> _Truth:
    """Follow the script of a scene."""
    truth = truth or _Truth()
    tools = {tool.name: tool for tool in scene.tools}
    for step in scene.steps:
        assert not isinstance(step, (str, Exception))
        if step.error is not None:  # type: ignore[union-attr]
            truth.crashed = True
            return truth
        if not step.calls:  # type: ignore[union-attr]
            truth.answer = step.text  # type: ignore[union-attr]
            return truth
        for call in step.calls:  # type: ignore[union-attr]
            if isinstance(call, HandOff):
                truth.steps += 1
                (other,) = (one for one in scene.handoffs if one.agent == call.to)
                return truth_of(other, contract, truth)
            truth.calls.append(_call(call, tools.get(call.name), truth.steps, contract))
        truth.steps += 1
    raise AssertionError("the script has no end")


def _call(call: AskFor, tool: ToolDouble | AgentTool | None, step: int, contract: AdapterContract) -> ExpectedCall:
    assert isinstance(call.arguments, dict)
    expected = ExpectedCall(call.name, call.arguments, call.id, step=step)
    if tool is None:
        return replace(expected, status=CallStatus.UNKNOWN_TOOL, executed=False, error=EITHER)
    if isinstance(tool, AgentTool):
        inner = truth_of(tool.scene, contract)
        if inner.crashed:
            return replace(expected, status=CallStatus.ERROR, error=SOME_TEXT, children=inner.calls)
        # A structured answer reaches the outer agent in the framework's form.
        output = EITHER if tool.scene.is_structured else inner.answer
        return replace(expected, output=output, children=inner.calls)
    if call.name == "boom":
        error = contract.error_text(ValueError(f"boom {call.arguments['x']}"), handled=True)
        return replace(expected, status=CallStatus.ERROR, error=error)
    tool_double = {"add": ADD, "slow": SLOW, "pay": PAY}[call.name]
    attempts = EITHER if call.name == "pay" else 1
    return replace(expected, output=tool_double.function(**call.arguments), attempts=attempts)


# Playing


def check_programs(
    contract: AdapterContract, features: frozenset[str] = FEATURES, seeds: Sequence[int] = range(AMOUNT)
) -> None:
    """Play random programs and compare each record with the truth.

    Raises:
        AssertionError: A record differs; it names the seed, for `check_program`.
    """
    for seed in seeds:
        check_program(contract, seed, features)


def check_program(contract: AdapterContract, seed: int, features: frozenset[str] = FEATURES) -> None:
    """Play the program of a seed, in one of the framework's ways, and compare its record with the truth."""
    program = random_program(seed, features)
    where = f"program {seed} ({program.kind})"
    if program.kind == "branches":
        runs = [contract.fan_out(program.scenes)]
        _check_branches(where, runs[0], program, contract)
    elif program.kind == "approvals":
        runs = list(contract.resume_in_reverse(program.scenes))
        for number, (run, scene) in enumerate(zip(runs, program.scenes, strict=True)):
            _check_run(f"{where}, run {number}", run, scene, contract)
    else:
        (scene,) = program.scenes
        recorded = _play(contract, scene, seed)
        runs = [recorded.run]
        _check_run(where, recorded.run, scene, contract)
    recorded_log = Counter(entry for run in runs for call in run.tools_called for entry in _logged(call))
    missing, extra = Counter(program.log) - recorded_log, recorded_log - Counter(program.log)
    require([*(f"the tools did, and no call says: {one}" for one in missing)], where)
    require([*(f"a call says, and the tools did not: {one}" for one in extra)], where)


def _play(contract: AdapterContract, scene: Scene, seed: int) -> Recorded:
    """Play a scene as a coroutine, in threads, or as a stream."""
    has_crash = truth_of(scene, contract).crashed
    if seed % 3 == 1:
        return contract.run(scene)
    if seed % 3 == 2 and not has_crash:  # the hook of streams has no way to return what ended one
        return asyncio.run(contract.astream(scene))
    return asyncio.run(contract.arun(scene))


def _check_run(where: str, run: Run, scene: Scene, contract: AdapterContract) -> None:
    truth = truth_of(scene, contract)
    has_free_answer = not any(one.is_structured for one in (scene, *scene.handoffs))
    lines = compare_calls(truth.calls, run.tools_called, "tools_called")
    status = RunStatus.ERROR if truth.crashed else RunStatus.OK
    if run.status is not status:
        lines.append(f"status: expected {status.value!r}, got {run.status.value!r} ({run.error})")
    if run.warnings:
        lines.append(f"warnings: expected none, got {run.warnings}")
    if truth.answer is not None and has_free_answer and run.actual_output != truth.answer:
        lines.append(f"actual_output: expected {truth.answer!r}, got {run.actual_output!r}")
    require(lines, where)


def _check_branches(where: str, run: Run, program: Program, contract: AdapterContract) -> None:
    """Compare the calls of each branch, which its agent's name tells; numbers of steps are of the run, not of it."""
    calls = list(_all_calls(run.tools_called))
    for scene in program.scenes:
        branch = [call for call in calls if call.execution is not None and call.execution.agent == scene.agent]
        expected = [replace(call, step=EITHER) for call in truth_of(scene, contract).calls]
        require(compare_calls(expected, branch, "calls"), f"{where}, {scene.agent}")
    if run.warnings:
        require([f"warnings: expected none, got {run.warnings}"], where)


def _all_calls(calls: Sequence[ToolCall]) -> Iterator[ToolCall]:
    for call in calls:
        yield call
        yield from _all_calls(call.execution.children if call.execution is not None else ())


def _logged(call: ToolCall) -> Iterator[tuple[str, str]]:
    """Return what the tools must have logged of a call and the calls inside it."""
    for one in _all_calls([call]):
        if one.name not in ("add", "slow", "boom", "pay") or one.execution is None or not one.execution.executed:
            continue
        output = one.output if "output" in one.model_fields_set else ABSENT
        text = (one.execution.error or "").rpartition("ValueError: ")[2]
        yield f"{one.name} {one.arguments}", f"raised {text}" if output is ABSENT else f"returned {output}"


def _signature(tool: ToolDouble) -> Any:
    return inspect.signature(tool.function)
