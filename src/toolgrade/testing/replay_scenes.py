"""The scenes of `AdapterContract` in which a recorded run is replayed: equal calls and answers, and no tool runs."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

from toolgrade._internal.message_content import hash_images
from toolgrade.agents import AgentCallable
from toolgrade.asking import run_golden
from toolgrade.calls import CallStatus, ToolCall, ToolEffect, ToolSpec
from toolgrade.capture.doubles import is_replaying
from toolgrade.cases import Run, RunStatus
from toolgrade.dataset import Golden
from toolgrade.matching.json_compare import outputs_equal
from toolgrade.replay import Fault, replay
from toolgrade.testing.adapter_hooks import AdapterHooks, AgentTool, Recorded, Scene, require
from toolgrade.testing.scripted_model import AskFor, HandOff, StepLike
from toolgrade.testing.tool_doubles import ADD, BOOM, PAY, PICTURE, SLOW, ToolDouble, flaky_tool

_TRIALS = 8
_ADD_1 = [AskFor("add", {"a": 1}, "c1")]
_PAY: ToolDouble = replace(PAY, needs_approval=False)


_Function = TypeVar("_Function", bound=Callable[..., Any])


class PaidError(AssertionError):
    """A tool ran although a recording answers."""


class _Payments:
    """Tools that fail the test if they run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def of(self, tool: ToolDouble | AgentTool) -> ToolDouble | AgentTool:
        """Return a tool with the same name and arguments that notes when it runs; of an agent, its tools do."""
        if isinstance(tool, AgentTool):
            return replace(tool, scene=self.scene(tool.scene))

        def pay(*_: object, **__: object) -> str:
            self.ran.append(tool.name)
            raise PaidError(f"{tool.name} ran")

        async def apay(*_: object, **__: object) -> str:
            return pay()

        return replace(tool, function=_named(pay, tool), coroutine=_named(apay, tool))

    def scene(self, scene: Scene) -> Scene:
        """Return a scene with such tools."""
        inner = [self.scene(one) for one in scene.handoffs]
        return replace(scene, tools=[self.of(one) for one in scene.tools], handoffs=inner)


def _named(function: _Function, tool: ToolDouble) -> _Function:
    """Return a function that frameworks take for that of a tool: they read its name and its arguments."""
    function.__name__, function.__doc__ = tool.function.__name__, tool.function.__doc__
    function.__annotations__ = dict(getattr(tool.function, "__annotations__", {}))
    function.__wrapped__ = tool.function  # type: ignore[attr-defined]
    return function


class ReplayScenes(AdapterHooks):
    """The rules of replay, for any framework."""

    def test_replayed_run(self) -> None:
        """Equal calls with equal answers, marked as replayed, without a run of the tool."""
        for way, run in self._replays(Scene([_ADD_1, [AskFor("pay", {"amount": 5}, "c2")], "final"], [ADD, _PAY])):
            _check(way, ("outputs", [3, "paid 5"], [call.output for call in run.calls]))

    def test_replayed_parallel_calls(self) -> None:
        """Parallel calls have their own answers, in any order of finishing."""
        calls = [AskFor("slow", {"x": 3}, "c1"), AskFor("slow", {"x": 1}, "c2"), AskFor("add", {"a": 1}, "c3")]
        self._replays(Scene([calls, "final"], [SLOW, ADD]))

    def test_replayed_equal_calls(self) -> None:
        """The k-th equal call gets the k-th recorded answer."""
        numbers = count(1)

        def ticket() -> str:
            """Draw a number."""
            return f"number {next(numbers)}"

        steps: list[StepLike] = [*([AskFor("ticket", {}, f"c{n}")] for n in range(3)), "final"]
        for way, run in self._replays(Scene(steps, [ToolDouble.of(ticket)])):
            _check(way, ("outputs", [f"number {n}" for n in (1, 2, 3)], [call.output for call in run.calls]))

    def test_replayed_failure(self) -> None:
        """A recorded failure is one again, and what came after it is answered."""
        steps: list[StepLike] = [[AskFor("flaky", {"x": 1}, "c1")], [AskFor("flaky", {"x": 1}, "c2")], "final"]
        for way, run in self._replays(Scene(steps, [flaky_tool()])):
            _check(way, ("error", True, "not yet" in str(run.calls[0].execution and run.calls[0].execution.error)))
            _check(way, ("output", "flaky 1", run.calls[1].output))

    def test_replayed_failure_that_ends_the_run(self) -> None:
        """A recorded failure that nobody handles ends the run, with its type."""
        scene = Scene([_ADD_1, [AskFor("boom", {"x": 1}, "c2")], "never said"], [ADD, BOOM], tool_errors="raised")
        recorded = asyncio.run(self.arun(scene))
        run, payments = self._replayed(recorded.run, scene)
        _check("arun", ("status", recorded.run.status, run.status), ("error", recorded.run.error, run.error))
        _check("arun", ("ran", [], payments.ran))

    def test_replayed_sub_agent(self) -> None:
        """An agent inside a tool gives its recorded answer, and no tool inside it runs."""
        inner = Scene([_ADD_1, "three"], [ADD], agent="mathematician")
        steps: list[StepLike] = [[AskFor("ask_math", {"input": "1+2"}, "c1")], "final"]
        for way, run in self._replays(Scene(steps, [AgentTool("ask_math", inner)])):
            names = [call.name for call in run.select_calls(nested=True)]
            _check(way, ("calls", ["ask_math", "add"], names))

    def test_replayed_handoff(self) -> None:
        """The tools of the agent that takes over are answered, too."""
        bob = Scene([[AskFor("add", {"a": 1}, "b1")], "final"], [ADD], agent="bob")
        scene = Scene([[HandOff("bob", "h1")]], agent="alice", handoffs=[bob])
        recorded = asyncio.run(self.arun(scene))
        run, payments = self._replayed(recorded.run, scene)
        outputs = [call.output for call in run.tools_called]
        _check("arun", ("outputs", [3], outputs), ("ran", [], payments.ran))
        _check("arun", ("answer", recorded.run.actual_output, run.actual_output))

    def test_replayed_stream(self) -> None:
        """A streamed run is replayed like any other."""
        scene = Scene([_ADD_1, "a longer final answer"], [ADD])
        recorded, payments = asyncio.run(self.astream(scene)), _Payments()
        with replay([recorded.run]):
            again = asyncio.run(self.astream(payments.scene(scene)))
        _check("astream", ("answer", "a longer final answer", again.answer), ("ran", [], payments.ran))
        self._compare("astream", recorded.run, again.run)

    def test_replayed_images(self) -> None:
        """An image that a tool returned is there again, with its bytes."""
        scene = Scene([[AskFor("picture", {}, "c1")], "final"], [PICTURE])
        recorded = asyncio.run(self.arun(scene))
        run, payments = self._replayed(recorded.run, scene)
        images = [str(hash_images(one.calls[0].output)) for one in (recorded.run, run)]
        _check("arun", ("image", images[0], images[1]), ("ran", [], payments.ran))

    def test_replayed_trials(self) -> None:
        """Runs of one golden at the same time each have the whole recording."""
        scene = Scene([_ADD_1, [AskFor("add", {"a": 1}, "c2")], "final"], [ADD])
        recorded, payments = asyncio.run(self.arun(scene)), _Payments()
        agents = [self.as_agent(payments.scene(scene)) for _ in range(_TRIALS)]
        with replay([recorded.run]) as tape:
            runs = asyncio.run(_asked_at_once(agents, scene.input))
        _check("as_agent", ("ran", [], payments.ran), ("left", 0, tape.left))
        for run in runs:
            self._compare("as_agent", recorded.run, run)

    def test_call_outside_the_recording(self) -> None:
        """A call that is not recorded does not run, the run goes on or ends, and the call says what differs."""
        recorded = asyncio.run(self.arun(Scene([_ADD_1, "final"], [ADD])))
        run, payments = self._replayed(recorded.run, Scene([[AskFor("add", {"a": 7}, "c1")], "final"], [ADD]))
        call = run.calls[0].execution
        left = "" if call is None else call.left_recording or ""
        expected = 'left the recording at call 1: add {"a": 7}; the closest recorded call is add {"a": 1}'
        _check("arun", ("left_recording", f"{expected}: input_parameters.a is 7, recorded 1", left))
        _check("arun", ("status", CallStatus.ERROR, call and call.status), ("ran", [], payments.ran))
        _check("arun", ("executed", False, call and call.executed), ("answer", "final", run.actual_output))

    def test_planted_failure(self) -> None:
        """A fault fails a call, and leaves the recorded answer for the next one."""
        recorded = asyncio.run(self.arun(Scene([_ADD_1, "final"], [ADD])))
        steps: list[StepLike] = [_ADD_1, [AskFor("add", {"a": 1}, "c2")], "final"]
        fault = Fault("add", error="TimeoutError: no answer", times=1)
        run, payments = self._replayed(recorded.run, Scene(steps, [ADD]), [fault])
        statuses = [call.execution and call.execution.status for call in run.calls]
        _check("arun", ("statuses", [CallStatus.ERROR, CallStatus.OK], statuses), ("ran", [], payments.ran))
        errors = [call.execution and call.execution.error for call in run.calls]
        _check("arun", ("errors", ["TimeoutError: no answer", None], errors), ("output", 3, run.calls[1].output))

    def test_planted_output(self) -> None:
        """A fault gives another output."""
        recorded = asyncio.run(self.arun(Scene([[AskFor("slow", {"x": 1}, "c1")], "final"], [SLOW])))
        scene = Scene([[AskFor("slow", {"x": 1}, "c1")], "final"], [SLOW])
        run, payments = self._replayed(recorded.run, scene, [Fault("slow", output="nothing found")])
        _check("arun", ("output", "nothing found", run.calls[0].output), ("ran", [], payments.ran))

    def test_tool_in_a_plain_thread(self) -> None:
        """A tool that is called where no tape is visible does not run."""
        payments = _Payments()
        scene = payments.scene(Scene([[AskFor("pay", {"amount": 5}, "c1")], "final"], [_PAY]))
        with replay([]):
            thread = threading.Thread(target=lambda: asyncio.run(_quietly(self, scene)))
            thread.start()
            thread.join()
        _check("thread", ("ran", [], payments.ran))

    def test_recorded_tape(self) -> None:
        """With the mode `all` the tools run, and what they answer is a tape."""
        steps: list[StepLike] = [_ADD_1, [AskFor("boom", {"x": 1}, "c2")], "final"]
        scene = Scene(steps, [ADD, BOOM])
        with replay([], record_mode="all") as tape:
            recorded = asyncio.run(self.arun(scene))
        replayed = [call.execution and call.execution.replayed for call in recorded.run.calls]
        _check("arun", ("replayed", [False, False], replayed), ("recorded", "0 replayed, 2 recorded", str(tape)[:22]))
        payments = _Payments()
        with replay(tape):
            again = asyncio.run(self.arun(payments.scene(scene)))
        _check("arun", ("ran", [], payments.ran))
        self._compare("arun", recorded.run, again.run)

    def test_new_episodes(self) -> None:
        """With the mode `new_episodes` a tool that is declared to read runs, and one that may write does not."""
        spec = ToolSpec(name="add", effect=ToolEffect.READ)
        payments = _Payments()
        scene = Scene([_ADD_1, [AskFor("pay", {"amount": 5}, "c2")], "final"], [ADD, payments.of(_PAY)])
        with replay([Run(input="hi", available_tools=[spec])], record_mode="new_episodes") as tape:
            run = asyncio.run(self.arun(scene)).run
        _check("arun", ("output", 3, run.calls[0].output), ("ran", [], payments.ran), ("left", 1, tape.left))

    def test_tools_run_again_after_a_replay(self) -> None:
        """After the last tape is closed, also by an exception, the tools run as before."""
        scene = Scene([_ADD_1, "final"], [ADD])
        recorded = asyncio.run(self.arun(scene))
        with suppress(ZeroDivisionError), replay([recorded.run]), replay([recorded.run]):
            _ = 1 / 0
        again = asyncio.run(self.arun(scene)).run
        how = again.calls[0].execution
        _check("arun", ("is_replaying", False, is_replaying()), ("replayed", False, how and how.replayed))
        _check("arun", ("output", 3, again.calls[0].output), ("status", RunStatus.OK, again.status))

    # Playing

    def _replayed(self, recorded: Run, scene: Scene, faults: Sequence[Fault] = ()) -> tuple[Run, _Payments]:
        payments = _Payments()
        with warnings.catch_warnings(), replay([recorded], faults=faults):
            warnings.simplefilter("ignore")  # of a fault that no call met
            again = asyncio.run(self.arun(payments.scene(scene)))
        return again.run, payments

    def _replays(self, scene: Scene) -> list[tuple[str, Run]]:
        """Record a scene and replay it in each way that the adapter has; return the replayed runs."""
        recorded = asyncio.run(self.arun(scene))
        runs: list[tuple[str, Run]] = []
        for way, play in self._ways():
            payments = _Payments()
            with replay([recorded.run]):
                again = play(payments.scene(scene))
            _check(way, ("ran", [], payments.ran), ("answer", recorded.answer, again.answer))
            self._compare(way, recorded.run, again.run)
            runs.append((way, again.run))
        return runs

    def _ways(self) -> Iterator[tuple[str, Callable[[Scene], Recorded]]]:
        yield "arun", lambda scene: asyncio.run(self.arun(scene))
        if type(self).run is not AdapterHooks.run:
            yield "run", self.run

    def _compare(self, way: str, recorded: Run, again: Run) -> None:
        """Check that a replayed run has the recorded calls, as replayed ones, and the recorded answer."""
        pairs = (("calls", [_essence(one) for one in recorded.calls], [_essence(one) for one in again.calls]),)
        # A tool that is an agent may run, on recorded calls.
        ran = [call.name for call in again.select_calls(nested=True) if not _is_replayed(call)]
        _check(way, *pairs, ("not replayed", [], ran), ("warnings", [], again.warnings))
        _check(way, ("status", recorded.status, again.status), ("answer", recorded.actual_output, again.actual_output))


def _essence(call: ToolCall) -> tuple[object, ...]:
    """Return what a replay must repeat of a call."""
    how = call.execution
    inside = None if how is None else (how.status, how.error, how.step, how.model_output, how.artifact)
    return call.name, call.arguments, call.id, call.output, inside


def _is_replayed(call: ToolCall) -> bool:
    return call.execution is not None and (call.execution.replayed or bool(call.execution.children))


async def _asked_at_once(agents: Sequence[AgentCallable], text: str) -> list[Run]:
    cases = await asyncio.gather(*(run_golden(Golden(input=text), agent) for agent in agents))
    return [case.run or Run() for case in cases]


async def _quietly(hooks: AdapterHooks, scene: Scene) -> None:
    with suppress(Exception):  # the hook may raise what ends its run
        await hooks.arun(scene)


def _check(where: str, *rows: tuple[str, object, object]) -> None:
    different = [row for row in rows if row[1] != row[2] and not _are_equal_outputs(*row)]
    require([f"{what}: expected {expected!r}, got {got!r}" for what, expected, got in different], where)


def _are_equal_outputs(what: str, expected: object, got: object) -> bool:
    """Return whether rows of outputs are equal: frameworks keep what a tool returned, or the text of that."""
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(
            _are_equal_outputs(what, *pair) for pair in zip(expected, got, strict=True)
        )
    return what.startswith("output") and outputs_equal(expected, got)
