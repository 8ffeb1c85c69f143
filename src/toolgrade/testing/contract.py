"""`AdapterContract`: the tests that every adapter passes, for any framework.

Each test is a rule, and its docstring says it. The tests know frameworks only through the hooks; expected runs are
spelt out, so that adapters which pass agree with each other. Nothing here needs pytest, which collects the tests of a
subclass whose name begins with `Test`.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from unittest import SkipTest

from toolgrade._internal.message_content import hash_images
from toolgrade.agents import AgentCallable, Conversation
from toolgrade.asking import run_golden
from toolgrade.calls import CallStatus
from toolgrade.capture import conversations
from toolgrade.cases import LLMTestCase, MLLMImage, Run, RunStatus
from toolgrade.dataset import Golden
from toolgrade.errors import ConfigurationError
from toolgrade.inputs import read_cases
from toolgrade.testing.adapter_hooks import (
    EITHER,
    SOME_TEXT,
    AdapterHooks,
    AgentTool,
    ExpectedCall,
    NotSupportedError,
    PlantedFaultError,
    Recorded,
    Scene,
    compare_calls,
    require,
)
from toolgrade.testing.replay_scenes import ReplayScenes
from toolgrade.testing.scripted_model import AskFor, HandOff, StepLike
from toolgrade.testing.tool_doubles import (
    ADD,
    BOOM,
    FILL,
    PAY,
    PICTURE,
    PICTURE_BYTES,
    SLOW,
    HangingTool,
    ToolDouble,
    flaky_tool,
)
from toolgrade.user_turns import Approve, Reject, UserInput

_MANY = 200
_LIMIT = 1.0
_OBSERVATIONS = (
    *("started", "offered", "instructed", "model_used", "model_asked", "result_shown", "ended"),
    *("tool_started", "tool_ended", "tool_failed"),
)

_Contract = TypeVar("_Contract", bound="AdapterContract")


def _checks_support(contract: type[_Contract]) -> type[_Contract]:
    """Make each test fail where something was left out silently, or is said to be left out and is not."""
    for name in _tests_of(contract):
        setattr(contract, name, _checked(getattr(contract, name)))
    return contract


def _tests_of(contract: type[AdapterHooks]) -> list[str]:
    return [name for name in dir(contract) if name.startswith("test_")]


def _checked(test: Callable[[AdapterContract], None]) -> Callable[[AdapterContract], None]:
    @functools.wraps(test)
    def checked(self: AdapterContract) -> None:
        reason = self.unsupported.get(test.__name__)
        try:
            test(self)
        except NotSupportedError as missing:
            if reason is not None:
                raise SkipTest(f"not supported: {reason}") from None
            message = f"{test.__name__!r} was left out ({missing}); give the reason in `unsupported`"
            raise AssertionError(message) from missing
        if reason is not None:
            raise AssertionError(f"{test.__name__!r} passes as it stands; take it out of `unsupported`")

    return checked


@_checks_support
class AdapterContract(ReplayScenes):
    """The rules of recording, and of replay. A subclass implements the hooks of its framework and inherits the tests.

    Only the hook `arun` is required. `unsupported` gives the reason for each test that the framework cannot pass.

    Example:
        >>> from toolgrade import observe
        >>> from toolgrade.capture import record
        >>> from toolgrade.testing import AdapterContract, Recorded, Scene
        >>> class TestMyAdapter(AdapterContract):  # pytest runs the inherited tests
        ...     async def arun(self, scene: Scene) -> Recorded:  # its agent only answers, and has no tools
        ...         model = scene.model()
        ...         with record() as recorder:
        ...             answer = observe(lambda question: model.next_step().text)(scene.input)
        ...         return Recorded(recorder.last_run, answer)
        >>> recorded = TestMyAdapter().run(Scene(["It is sunny."], input="What is the weather in Paris?"))
        >>> recorded.run.input, recorded.answer
        ('What is the weather in Paris?', 'It is sunny.')
    """

    def test_plain_run(self) -> None:
        """A run has question, answer and offered tools; its call is as the model requested it, without defaults."""
        for way, run in self._plays([_ADD_1, "final"], [ADD, SLOW], [_added("c1")]):
            _equal(way, ("available_tools", ["add", "slow"], sorted(_offered(run))), ("input", "hi", run.input))
            _equal(way, ("handoffs", [], run.handoffs))

    def test_run_without_calls(self) -> None:
        """A run without calls has an empty list of calls, not unknown calls."""
        self._plays(["final"], [ADD], [])

    def test_parallel_calls(self) -> None:
        """Parallel calls have one step and the model's order, in any order of finishing."""
        self._plays(_PARALLEL_STEPS, [SLOW, ADD], _PARALLEL)

    def test_steps(self) -> None:
        """A step is a model message that requests calls; a repeated request is another call."""
        steps: list[StepLike] = [_ADD_1, [AskFor("add", {"a": 1}, "c2"), AskFor("slow", {"x": 1}, "c3")], "final"]
        self._plays(steps, [ADD, SLOW], [_added("c1"), _added("c2", step=1), _slowed(1, "c3", step=1)])

    def test_changed_arguments(self) -> None:
        """Arguments are recorded as passed, also if the tool changes the object."""
        filled = ExpectedCall("fill", {"form": {"a": 1}}, "c1", "filled")
        self._plays([[AskFor("fill", {"form": {"a": 1}}, "c1")], "final"], [FILL], [filled])

    def test_raising_tool(self) -> None:
        """A tool's exception is the call's error; the text for the model is not an output, and the run continues."""
        steps: list[StepLike] = [[AskFor("boom", {"x": 1}, "c1"), AskFor("add", {"a": 1}, "c2")], "final"]
        expected = [self._failed("boom", ValueError("boom 1")), _added("c2")]
        for way, run in self._plays(steps, [BOOM, ADD], expected):
            execution = run.calls[0].execution
            if execution is None or execution.model_output is None:
                require(["calls[0].model_output: expected the text for the model"], way)

    def test_raising_tool_that_ends_the_run(self) -> None:
        """An unhandled exception of a tool ends the run; the record has it, and every call until then."""
        steps: list[StepLike] = [_ADD_1, [AskFor("boom", {"x": 1}, "c2")], "never said"]
        for way, recorded in self._played(lambda: Scene(steps, [ADD, BOOM], tool_errors="raised")):
            expected = [_added("c1"), self._failed("boom", ValueError("boom 1"), call_id="c2", step=1, handled=False)]
            self._check_ended(way, recorded, expected, RunStatus.ERROR)

    def test_failed_call_asked_again(self) -> None:
        """A new request after a failure is a new call; only a retry of the same request is another attempt."""
        steps: list[StepLike] = [[AskFor("flaky", {"x": 1}, "c1")], [AskFor("flaky", {"x": 1}, "c2")], "final"]
        for way, recorded in self._played(lambda: Scene(steps, [flaky_tool()])):
            again = ExpectedCall("flaky", {"x": 1}, "c2", "flaky 1", step=1)
            self._check(way, recorded, [self._failed("flaky", ValueError("not yet")), again])

    def test_unknown_tool(self) -> None:
        """A call of a tool that was not offered is recorded as unknown and not executed."""
        unknown = ExpectedCall("nope", {"x": 1}, "c1", status=CallStatus.UNKNOWN_TOOL, executed=False, error=EITHER)
        self._plays([[AskFor("nope", {"x": 1}, "c1")], "final"], [ADD], [unknown], answer=None)

    def test_arguments_that_are_no_object(self) -> None:
        """Argument text that is not a JSON object gives empty arguments, the raw text, and no output."""
        invalid = ExpectedCall("add", {}, "c1", status=CallStatus.INVALID_ARGUMENTS, executed=EITHER, error=EITHER)
        self._plays([[AskFor("add", "{a: ", "c1")], "final"], [ADD], [replace(invalid, requested="{a: ")], answer=None)

    def test_arguments_that_the_tool_rejects(self) -> None:
        """Well-formed arguments that a tool rejects are recorded, with an error."""
        error = ExpectedCall("add", {"a": "one"}, "c1", status=CallStatus.ERROR, executed=EITHER, error=SOME_TEXT)
        self._plays([[AskFor("add", {"a": "one"}, "c1")], "final"], [ADD], [error], answer=None)

    def test_empty_ids(self) -> None:
        """Empty ids count as none; name and arguments identify the calls, in any order of finishing."""
        calls = [AskFor("slow", {"x": 3}, ""), AskFor("slow", {"x": 1}, ""), AskFor("add", {"a": 1}, "")]
        self._plays([calls, "final"], [SLOW, ADD], [_slowed(3, None), _slowed(1, None), _added(None)])

    def test_id_repeated_in_one_message(self) -> None:
        """Calls of one message that share an id are two calls, each with its own arguments and output."""
        calls = [AskFor("slow", {"x": 3}, "dup"), AskFor("slow", {"x": 1}, "dup")]
        self._plays([calls, "final"], [SLOW], [_slowed(3, "dup"), _slowed(1, "dup")])

    def test_id_repeated_in_a_later_message(self) -> None:
        """An id repeated in a later message refers to the later call from then on."""
        calls = [AskFor("slow", {"x": 1}, "c0"), AskFor("slow", {"x": 2}, "c0"), AskFor("add", {"a": 1}, "c0")]
        expected = [_slowed(1, "c0"), _slowed(2, "c0", step=1), _added("c0", step=2)]
        self._plays([*([call] for call in calls), "final"], [SLOW, ADD], expected)

    def test_many_runs_at_once(self) -> None:
        """Two hundred simultaneous runs through one recorder are two hundred separate runs."""
        scenes: list[Scene] = []
        for n in range(_MANY):
            calls = [AskFor("add", {"a": n}, "c1"), AskFor("slow", {"x": n % 3}, "c2")]
            scenes.append(Scene([calls, f"answer {n}"], [ADD, SLOW], f"{n:03}"))
        runs = sorted(self.run_many(scenes), key=lambda run: run.input or "")
        _equal("run_many", ("inputs", [f"{n:03}" for n in range(_MANY)], [run.input for run in runs]))
        for n, run in enumerate(runs):
            expected = [ExpectedCall("add", {"a": n}, "c1", n + 2), _slowed(n % 3, "c2")]
            self._check(f"run {n} of many", Recorded(run, f"answer {n}"), expected, answer=f"answer {n}")

    def test_model_that_crashes(self) -> None:
        """If the model fails, the run is an error and has the calls until then."""
        for way, recorded in self._played(lambda: Scene([_ADD_1, RuntimeError("the model is down")], [ADD])):
            self._check_ended(way, recorded, [_added("c1")], RunStatus.ERROR)

    def test_cancelled_run(self) -> None:
        """A run that is cancelled while a tool runs is stopped, and the call is cancelled."""
        hanging = HangingTool()
        steps: list[StepLike] = [_ADD_1, [AskFor("hang", {"x": 1}, "c2")], "never said"]
        try:
            recorded = asyncio.run(self._cancelled(Scene(steps, [ADD, hanging.tool]), hanging))
        finally:
            hanging.release()
        cancelled = ExpectedCall("hang", {"x": 1}, "c2", status=CallStatus.CANCELLED, step=1, error=EITHER)
        self._check_ended("arun, cancelled", recorded, [_added("c1"), cancelled], RunStatus.STOPPED)

    def test_agent_that_breaks(self) -> None:
        """An agent whose model fails, at once or later, gives a run with that error and the calls until then."""
        down = RuntimeError("401 invalid api key")
        for scene, calls in ((Scene([down], [ADD]), []), (Scene([_ADD_1, down], [ADD]), [_added("c1")])):
            run = asyncio.run(self._asked(scene))
            require(compare_calls(calls, run.calls, "calls"), "as_agent")
            end = (RunStatus.ERROR, "RuntimeError: 401 invalid api key", None)
            _equal("as_agent", ("end", end, (run.status, run.error, run.actual_output)))

    def test_agent_that_is_late(self) -> None:
        """An agent that does not answer in time gives a run that says so, with the calls until then."""
        hanging = HangingTool()
        steps: list[StepLike] = [_ADD_1, [AskFor("hang", {"x": 1}, "c2")], "never said"]
        try:
            run = asyncio.run(self._asked(Scene(steps, [ADD, hanging.tool]), limit=_LIMIT))
            has_begun = hanging.started.is_set()
        finally:
            hanging.release()
        end = (RunStatus.STOPPED, f"TimeoutError: no answer within {_LIMIT:g} s", None)
        _equal("as_agent", ("end", end, (run.status, run.error, run.actual_output)))
        if has_begun:  # else the machine was too slow
            _equal("as_agent", ("calls", ["add", "hang"], [call.name for call in run.calls]))

    def test_approved_run(self) -> None:
        """A run that waits goes on with `Approve()`, in its turn, and its call is made once."""
        runs = self._answered(Approve())
        require(compare_calls([replace(_PAID, attempts=EITHER)], runs[2].calls, "calls"), "as_agent, approved")
        self._check_turns("as_agent, approved", runs)

    def test_rejected_run(self) -> None:
        """A run that waits goes on with `Reject(...)`, in its turn, and its call is not made."""
        runs = self._answered(Reject("too much"))
        refused = replace(_PAID, status=EITHER, output=EITHER, executed=EITHER, error=EITHER, attempts=EITHER)
        require(compare_calls([refused], runs[2].calls, "calls"), "as_agent, rejected")
        if runs[2].calls[0].output == _PAID.output:
            require([f"calls[0].output: expected none or a refusal, got {_PAID.output!r}"], "as_agent, rejected")
        self._check_turns("as_agent, rejected", runs)

    def test_run_answered_by_text(self) -> None:
        """A run that waits goes on with a text, or it needs a decision, and the error says so."""
        try:
            runs = self._answered("yes")
        except ConfigurationError as error:
            if "must be Approve() or Reject()" not in str(error):
                require([f"error: expected one that names Approve() and Reject(), got {error}"], "as_agent, text")
        else:
            self._check_turns("as_agent, text", runs)

    def test_answer_to_a_run_that_does_not_wait(self) -> None:
        """`Approve()` where nothing waits is an error, which says what to do."""
        try:
            asyncio.run(self._replies(Scene(["final"]), "hi", Approve()))
        except ConfigurationError:
            return
        require(["error: expected a ConfigurationError, got none"], "as_agent")

    def test_streamed_run(self) -> None:
        """A streamed run is recorded like any other."""
        self._check("astream", asyncio.run(self.astream(Scene(_PARALLEL_STEPS, [SLOW, ADD]))), _PARALLEL)
        scene = Scene([[AskFor("boom", {"x": 1}, "c1")], "a longer final answer"], [BOOM])
        expected = [self._failed("boom", ValueError("boom 1"))]
        self._check("astream", asyncio.run(self.astream(scene)), expected, answer="a longer final answer")

    def test_nested_agent(self) -> None:
        """Calls of an agent inside a tool are children of that tool's call, with separate ids."""
        inner = Scene([_ADD_1, "three"], [ADD], agent="mathematician")
        steps: list[StepLike] = [[AskFor("ask_math", {"input": "1+2"}, "c1")], "final"]
        outer = ExpectedCall("ask_math", {"input": "1+2"}, "c1", "three", children=[_added("c1")])
        for way, run in self._plays(steps, [AgentTool("ask_math", inner)], [outer]):
            nested = [call.name for call in run.select_calls(nested=True)]
            _equal(way, ("available_tools", ["ask_math"], _offered(run)))
            _equal(way, ("select_calls(nested=True)", ["ask_math", "add"], nested))

    def test_instructions(self) -> None:
        """A run has the system prompt of its agent, and not that of an agent inside a tool."""
        inner = Scene(["three"], agent="mathematician", instructions="Count.")
        steps: list[StepLike] = [[AskFor("ask_math", {"input": "1+2"}, "c1")], "final"]
        scene = Scene(steps, [AgentTool("ask_math", inner)], instructions="Be brief.")
        for way, recorded in self._played(lambda: scene):
            _equal(way, ("instructions", "Be brief.", recorded.run.instructions))

    def test_handoff(self) -> None:
        """A hand-off is not a tool call; calls of the other agent are."""
        bob = Scene([[AskFor("add", {"a": 1}, "b1")], "final"], [ADD], agent="bob")
        for way, recorded in self._played(lambda: Scene([[HandOff("bob", "h1")]], agent="alice", handoffs=[bob])):
            run = recorded.run
            require(compare_calls([_added("b1", step=1)], run.tools_called, "tools_called"), way)
            self._check_end(way, recorded)
            handoffs = [(handoff.call, handoff.from_agent, handoff.to_agent) for handoff in run.handoffs]
            agents = [call.execution.agent for call in run.calls if call.execution is not None]
            _equal(way, ("handoffs", [(0, "alice", "bob")], handoffs))
            _equal(way, ("agents of the calls", ["alice", "bob"], agents))

    def test_conversation(self) -> None:
        """A conversation has a turn of the user and a turn of the assistant for each run, each with its own calls."""
        first = Scene([_ADD_1, "three"], [ADD], "1+2?")
        second = Scene([[AskFor("add", {"a": 3}, "c1")], "five"], [ADD], "3+2?")
        turns = self.converse([first, second]).turns
        expected = [("user", "1+2?"), ("assistant", "three"), ("user", "3+2?"), ("assistant", "five")]
        _equal("converse", ("turns", expected, [(turn.role, turn.content) for turn in turns]))
        for place, call in ((1, _added("c1")), (3, ExpectedCall("add", {"a": 3}, "c1", 5))):
            require(compare_calls([call], turns[place].tools_called or [], f"turns[{place}]"), "converse")

    def test_conversation_of_processes(self) -> None:
        """Runs of one thread of the framework are one conversation, also if each is recorded by another process."""
        first = Scene([_ADD_1, "three"], [ADD], "1+2?")
        second = Scene([[AskFor("add", {"a": 3}, "c2")], "five"], [ADD], "3+2?")
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "runs.jsonl")
            self.converse_in_processes([first, second], path)
            runs = [case.run for case in read_cases(path) if isinstance(case, LLMTestCase) and case.run is not None]
        if not runs or runs[0].conversation_id is None:
            require([f"conversation_id: expected that of the framework in {len(runs)} runs, got none"], "processes")
        expected = [("user", "1+2?"), ("assistant", "three"), ("user", "3+2?"), ("assistant", "five")]
        turns = [[(turn.role, turn.content) for turn in case.turns] for case in conversations(runs)]
        _equal("converse_in_processes", ("turns", [expected], turns))
        for run, call in zip(runs, (_added("c1"), ExpectedCall("add", {"a": 3}, "c2", 5)), strict=True):
            require(compare_calls([call], run.tools_called, "tools_called"), f"the run of {run.input!r}")

    def test_agents_in_parallel(self) -> None:
        """Agents that run at the same time inside tools, with equal call ids, have their own calls."""
        names = ("ask_0", "ask_1", "ask_2")
        calls = [AskFor(name, {"input": "go"}, f"c{n}") for n, name in enumerate(names)]
        tools = [AgentTool(name, _branch(n)) for n, name in enumerate(names)]
        expected = [
            ExpectedCall(name, {"input": "go"}, f"c{n}", f"answer {n}", children=_branch_calls(n))
            for n, name in enumerate(names)
        ]
        self._plays([calls, "final"], tools, expected)

    def test_fan_out(self) -> None:
        """Parallel branches of one run, with equal call ids, have their own calls, results and attempts."""
        run = self.fan_out([_branch(n) for n in range(3)])
        calls = run.select_calls(nested=True)
        for n in range(3):
            branch = [call for call in calls if call.execution is not None and call.execution.agent == f"branch {n}"]
            expected = [replace(one, step=EITHER) for one in _branch_calls(n)]
            require(compare_calls(expected, branch, "calls"), f"fan_out, branch {n}")
        _equal("fan_out", ("warnings", [], run.warnings), ("status", RunStatus.OK, run.status))

    def test_resumed_runs_with_equal_questions(self) -> None:
        """Two runs that wait with equal questions are resumed each with its own calls, in any order."""
        scenes = [
            Scene([[AskFor("add", {"a": n}, "c1")], [AskFor("pay", {"amount": n}, "c2")], f"answer {n}"], [ADD, PAY])
            for n in range(2)
        ]
        runs = self.resume_in_reverse(scenes)
        _equal("resume_in_reverse", ("number of runs", 2, len(runs)))
        for n, run in enumerate(runs):
            expected = [
                ExpectedCall("add", {"a": n}, "c1", n + 2),
                ExpectedCall("pay", {"amount": n}, "c2", f"paid {n}", step=1, attempts=EITHER),
            ]
            self._check(f"resume_in_reverse, run {n}", Recorded(run, f"answer {n}"), expected, answer=f"answer {n}")

    def test_history_in_the_input(self) -> None:
        """Calls of messages that stand in the input are not calls of the run, also if an id repeats."""
        history = Scene([_ADD_1, "three"], [ADD], "1+2?")
        recorded = self.continue_from(history, Scene([[AskFor("add", {"a": 3}, "c1")], "final"], [ADD], "3+2?"))
        self._check("continue_from", recorded, [ExpectedCall("add", {"a": 3}, "c1", 5)])
        _equal("continue_from", ("input", "3+2?", recorded.run.input))

    def test_structured_answer(self) -> None:
        """A tool that only carries the answer is neither called nor offered, in an agent and in an agent inside it."""
        structured = Scene([_ADD_1, '{"total": 3}'], [ADD], is_structured=True)
        for way, recorded in self._played(lambda: structured):
            run = recorded.run
            require(compare_calls([_added("c1")], run.calls, "calls"), way)
            _equal(way, ("available_tools", ["add"], _offered(run)))
            _equal(way, ("warnings", [], run.warnings), ("status", RunStatus.OK, run.status))
        steps: list[StepLike] = [[AskFor("ask", {"input": "1+2"}, "c1")], '{"total": 3}']
        for way, recorded in self._played(lambda: Scene(steps, [AgentTool("ask", structured)], is_structured=True)):
            outer = [call.name for call in recorded.run.calls]
            every = [call.name for call in recorded.run.select_calls(nested=True)]
            _equal(f"{way}, nested", ("calls", ["ask"], outer), ("nested calls", ["ask", "add"], every))
            _equal(f"{way}, nested", ("offered", ["ask"], _offered(recorded.run)))

    def test_recorder_attached_twice(self) -> None:
        """A recorder that is attached twice records one run, which has ended."""
        runs = self.run_attached_twice(Scene([_ADD_1, "final"], [ADD]))
        _equal("run_attached_twice", ("number of runs", 1, len(runs)))
        self._check("run_attached_twice", Recorded(runs[0], "final"), [_added("c1")])

    def test_recorded_process(self) -> None:
        """A recorder of the process sees runs of other threads, which lack its context."""
        scenes = [Scene([[AskFor("add", {"a": n}, "c1")], f"answer {n}"], [ADD], f"{n:03}") for n in range(5)]
        runs = sorted(self.serve(scenes), key=lambda run: run.input or "")
        _equal("serve", ("inputs", [f"{n:03}" for n in range(5)], [run.input for run in runs]))
        for n, run in enumerate(runs):
            expected = [ExpectedCall("add", {"a": n}, "c1", n + 2)]
            self._check(f"serve, run {n}", Recorded(run, f"answer {n}"), expected, answer=f"answer {n}")

    def test_images(self) -> None:
        """Images of the input and of a tool's result are in the multimodal case, with their bytes."""
        image = MLLMImage(data=base64.b64encode(PICTURE_BYTES[::-1]).decode(), mime_type="image/png")
        steps: list[StepLike] = [[AskFor("picture", {}, "c1")], "final"]
        for way, recorded in self._played(lambda: Scene(steps, [PICTURE], images=[image])):
            case = recorded.run.to_mllm_test_case()
            parts = case.input if isinstance(case.input, list) else [case.input]
            texts = [part for part in parts if isinstance(part, str)]
            # The image may also be in a `data:` address.
            images = [part.data or str(part.url).partition(",")[2] for part in parts if isinstance(part, MLLMImage)]
            _equal(way, ("input", "hi", recorded.run.input), ("texts", ["hi"], texts), ("images", [image.data], images))
            digest = hashlib.sha256(PICTURE_BYTES).hexdigest()
            outputs = [str(hash_images(call.output)) for call in case.tools_called or ()]
            if len(outputs) != 1 or digest not in outputs[0]:
                require([f"tools_called: expected one call with the image {digest[:8]}, got {outputs}"], way)

    def test_recorder_fault(self) -> None:
        """A fault inside the recorder never reaches the agent, and the run warns that the record is incomplete."""
        calls = [AskFor("add", {"a": 1}, "c1"), AskFor("boom", {"x": 1}, "c2")]
        faults = 0
        for observation in _OBSERVATIONS:
            scene = Scene([calls, "final"], [ADD, BOOM], instructions="Be brief.")
            for way, recorded in self._played_with_fault(scene, observation):
                faults += 1
                where = f"{way}, with a fault in {observation!r}"
                _equal(where, ("answer", "final", recorded.answer), ("error", None, recorded.error))
                if not recorded.run.warnings:
                    require(["warnings: expected one about the fault, got none"], where)
        if not faults:
            require(["no planted fault was ever met; override `plant_fault`"], "plant_fault")

    def test_nothing_is_left_out_silently(self) -> None:
        """Every overridden test is listed with a reason."""
        check_contract(type(self))

    # Playing

    def _played(self, make: Callable[[], Scene]) -> Iterator[tuple[str, Recorded]]:
        """Play a scene in each way that the adapter has, with new tools each time."""
        yield "arun", asyncio.run(self.arun(make()))
        if type(self).run is not AdapterHooks.run:
            yield "run", self.run(make())

    def _plays(
        self,
        steps: Sequence[StepLike],
        tools: Sequence[ToolDouble | AgentTool],
        calls: Sequence[ExpectedCall],
        answer: str | None = "final",
    ) -> list[tuple[str, Run]]:
        """Play a scene in each way, check its calls, and its answer unless that is `None`, and return the runs."""
        runs: list[tuple[str, Run]] = []
        for way, recorded in self._played(lambda: Scene(steps, tools)):
            self._check(way, recorded, calls, answer=answer)
            runs.append((way, recorded.run))
        return runs

    async def _asked(self, scene: Scene, limit: float | None = None) -> Run:
        """Return the run of a scene as `evaluate` gets it."""
        run = (await run_golden(Golden(input=scene.input), self.as_agent(scene), limit)).run
        return run or Run()

    async def _replies(self, scene: Scene, *texts: UserInput) -> list[Run]:
        """Return the runs of the agent of a scene in one conversation."""
        if type(self).as_agent is AdapterHooks.as_agent:
            raise NotSupportedError("this adapter does not implement agents with a memory: override `as_agent`")
        agent, conversation = self.as_agent(scene), Conversation("asked")
        return [result for text in texts if isinstance(result := await _called(agent, text, conversation), Run)]

    def _answered(self, answer: UserInput) -> list[Run]:
        """Return the runs of three turns; that of the second one waits, and is there again after the answer."""
        steps: list[StepLike] = [_ADD_1, "three", [AskFor("pay", {"amount": 5}, "c2")], "final", "bye"]
        return asyncio.run(self._replies(Scene(steps, [ADD, PAY]), "1+2?", "pay 5", answer, "bye"))

    def _check_turns(self, way: str, runs: Sequence[Run]) -> None:
        """Check that each turn has its text, calls and answer."""
        turns = [(run.input, run.actual_output, [call.name for call in run.calls], run.status.value) for run in runs]
        waiting, final = ("pay 5", None, ["pay"], "interrupted"), ("pay 5", "final", ["pay"], "ok")
        expected = [("1+2?", "three", ["add"], "ok"), waiting, final, ("bye", "bye", [], "ok")]
        _equal(way, ("turns", expected, turns), ("warnings", [], [text for run in runs for text in run.warnings]))
        _equal(way, ("conversation", {"asked"}, {run.conversation_id for run in runs}))

    def _played_with_fault(self, scene: Scene, observation: str) -> Iterator[tuple[str, Recorded]]:
        played = self._played(lambda: scene)
        while True:
            with self.plant_fault(observation) as fault:
                try:
                    one = next(played, None)
                except PlantedFaultError as error:
                    raise AssertionError(f"a fault in {observation!r} reached the agent: {error}") from error
            if one is None:
                return
            if fault.raised:
                yield one

    async def _cancelled(self, scene: Scene, hanging: HangingTool) -> Recorded:
        playing = asyncio.ensure_future(self.arun(scene))
        begun = asyncio.ensure_future(hanging.begun())
        await asyncio.wait({playing, begun}, return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            begun.cancel()
            raise AssertionError(f"the run ended before the tool 'hang' had begun: {playing.result()}")
        await begun
        playing.cancel()
        try:
            return await playing
        except asyncio.CancelledError:
            raise AssertionError("`arun` must return what was recorded, with the cancellation as `error`") from None

    # Checking

    def _failed(
        self, name: str, error: Exception, *, call_id: str = "c1", step: int = 0, handled: bool = True
    ) -> ExpectedCall:
        text = self.error_text(error, handled=handled)
        return ExpectedCall(name, {"x": 1}, call_id, status=CallStatus.ERROR, step=step, error=text)

    def _check(
        self, way: str, recorded: Recorded, calls: Sequence[ExpectedCall], *, answer: str | None = "final"
    ) -> None:
        """Check the calls and the end of a run, and that it has an answer unless that is `None`."""
        if answer is not None:
            _equal(way, ("error", None, recorded.error), ("answer", answer, recorded.answer))
        require(compare_calls(calls, recorded.run.calls, "calls"), way)
        _equal(way, ("tools_called", recorded.run.calls, recorded.run.tools_called))
        self._check_end(way, recorded)

    def _check_end(self, way: str, recorded: Recorded) -> None:
        """Check that the recorded end is that which the caller observed."""
        run = recorded.run
        answer = recorded.answer if recorded.error is None else None
        _equal(way, ("warnings", [], run.warnings), ("actual_output", answer, run.actual_output))
        if recorded.error is None:
            _equal(way, ("status", RunStatus.OK, run.status), ("error", None, run.error))
        elif run.status not in (RunStatus.ERROR, RunStatus.STOPPED):
            require([f"status: got {run.status.value!r}"], way)

    def _check_ended(self, way: str, recorded: Recorded, calls: Sequence[ExpectedCall], status: RunStatus) -> None:
        """Check a run that an exception must have ended."""
        error = recorded.error
        if error is None:
            require(["error: expected the exception that ended the run, got none"], way)
        self._check(way, recorded, calls, answer=None)
        _equal(way, ("status", status, recorded.run.status))
        if status is RunStatus.ERROR:
            _equal(way, ("error", f"{type(error).__name__}: {error}", recorded.run.error))


async def _called(agent: AgentCallable, text: UserInput, conversation: Conversation) -> object:
    result = agent(text, conversation)
    return await result if isinstance(result, Awaitable) else result


def _offered(run: Run) -> list[str]:
    return [tool.name for tool in run.available_tools or ()]


def check_contract(contract: type[AdapterContract]) -> None:
    """Check that a contract's subclass left nothing out silently.

    Raises:
        AssertionError: It overrides a test without a reason in `unsupported`, gives a reason for what is no test or an
            empty one, or does not say how to run its agent.
    """
    tests = _tests_of(AdapterContract)
    overridden = {name for name in tests if getattr(contract, name) is not getattr(AdapterContract, name)}
    explained = contract.unsupported.keys()
    lines = [f"{name} is overridden; give the reason in `unsupported`" for name in sorted(overridden - explained)]
    lines += [f"{name}, in `unsupported`, is not a test of the contract" for name in sorted(explained - set(tests))]
    lines += [f"{name} has no reason in `unsupported`" for name, why in contract.unsupported.items() if not why.strip()]
    if contract.arun is AdapterHooks.arun:
        lines.append("arun is not implemented")
    require(lines, contract.__name__)


def _equal(where: str, *rows: tuple[str, object, object]) -> None:
    """Raise an `AssertionError` that lists the rows, each a name, what is expected and what is there, that differ."""
    require([f"{what}: expected {expected!r}, got {got!r}" for what, expected, got in rows if expected != got], where)


def _branch(n: int) -> Scene:
    """Return an agent that calls two tools, with ids that all branches share; later branches are faster."""
    calls = [AskFor("slow", {"x": 3 - n}, "c1"), AskFor("add", {"a": n}, "c2")]
    return Scene([calls, [AskFor("add", {"a": 10 + n}, "c3")], f"answer {n}"], [SLOW, ADD], agent=f"branch {n}")


def _branch_calls(n: int) -> list[ExpectedCall]:
    return [
        _slowed(3 - n, "c1"),
        ExpectedCall("add", {"a": n}, "c2", n + 2),
        ExpectedCall("add", {"a": 10 + n}, "c3", n + 12, step=1),
    ]


def _added(call_id: str | None, *, step: int = 0) -> ExpectedCall:
    return ExpectedCall("add", {"a": 1}, call_id, 3, step=step)


def _slowed(x: int, call_id: str | None, *, step: int = 0) -> ExpectedCall:
    return ExpectedCall("slow", {"x": x}, call_id, f"slow {x}", step=step)


_ADD_1 = [AskFor("add", {"a": 1}, "c1")]
_PAID = ExpectedCall("pay", {"amount": 5}, "c2", "paid 5")
_PARALLEL_STEPS: Sequence[StepLike] = (
    [AskFor("slow", {"x": 3}, "c1"), AskFor("slow", {"x": 1}, "c2"), AskFor("add", {"a": 1}, "c3")],
    "final",
)
_PARALLEL = (_slowed(3, "c1"), _slowed(1, "c2"), _added("c3"))
