"""toolgrade's metrics as scorers of Inspect AI, in evaluations that Inspect runs with scripted models."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai import eval as run_tasks
from inspect_ai._util.content import ContentToolUse
from inspect_ai.approval import Approval, ApprovalPolicy, Approver, approver
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ContentImage,
    ContentText,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.solver import Solver, TaskState, generate, solver, use_tools
from inspect_ai.tool import Tool, ToolCall, ToolError, tool

from library_examples import load, printed_by
from processes import ROOT
from readme_code import run_page
from toolgrade import ToolCorrectnessMetric, ToolSuccessRate
from toolgrade.calls import CallStatus, ToolCallType
from toolgrade.cases import LLMTestCase
from toolgrade.compat.hosts.inspect import scorer
from toolgrade.result import MetricResult, ResultStatus

METRIC = ToolCorrectnessMetric(evaluation_params=["input_parameters"])
NAME = METRIC.label
EXPECTED = {"expected_tools": [{"name": "add", "args": {"a": 1, "b": 2}}]}


add = load("runners/with_inspect.py").add
"""The tool of the example, which adds."""


@tool
def boom() -> Tool:
    """A tool that fails."""

    async def execute(x: int) -> int:
        """Fail.

        Args:
            x: Any number.
        """
        raise ToolError(f"no good: {x}")

    return execute


def asks(*calls: ToolCall, text: str = "") -> ModelOutput:
    """Return a reply of the model."""
    output = ModelOutput.from_message(ChatMessageAssistant(content=text, tool_calls=list(calls) or None))
    output.usage = ModelUsage()  # else Inspect counts tokens, by a file from the network
    return output


def call(name: str, number: int = 1, **arguments: Any) -> ToolCall:
    """Return a call that the model asks for."""
    return ToolCall(id=f"c{number}", function=name, arguments=arguments)


ADD = call("add", a=1, b=2)


def log_of(task: Task, *replies: ModelOutput, **options: Any) -> Any:
    """Return the log of an evaluation, in which the model gives these replies to every sample."""

    def reply(messages: list[ChatMessage], *_: Any) -> ModelOutput:
        replied = sum(isinstance(message, ChatMessageAssistant) and message.source != "input" for message in messages)
        return replies[replied]

    model = get_model("mockllm/model", custom_outputs=reply)
    (log,) = run_tasks(task, model=model, display="none", log_dir=os.environ["INSPECT_LOG_DIR"], **options)
    assert log.error is None, log.error.message
    return log


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inspect writes a log of each evaluation."""
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path))


def task(*samples: Sample, by: Any = None, solvers: list[Solver] | None = None) -> Task:
    """Return a task with two tools."""
    return Task(
        dataset=list(samples),
        solver=solvers or [use_tools(add(), boom()), generate()],
        scorer=scorer(METRIC) if by is None else by,
    )


def cases_of(*replies: ModelOutput, sample: Sample | None = None, **options: Any) -> LLMTestCase:
    """Return the case that is made of the only sample."""
    cases: list[LLMTestCase] = []

    class Taking(ToolSuccessRate):
        def measure(self, test_case: Any) -> MetricResult:
            cases.append(test_case)
            return super().measure(test_case)

    log_of(task(sample or Sample(input="Go.", metadata=EXPECTED), by=scorer(Taking()), **options), *replies)
    (case,) = cases
    return case


def test_samples_are_scored() -> None:
    """The value is the score, the explanation the reason, and the metadata has the findings and the alignment."""
    wrong = {"expected_tools": [{"name": "add", "args": {"a": 1, "b": 3}}, {"name": "boom"}]}
    samples = [Sample(input="What is 1 + 2?", metadata=metadata) for metadata in (EXPECTED, wrong)]

    log = log_of(task(*samples), asks(ADD), asks(text="It is 3."))
    good, bad = (sample.scores[NAME] for sample in log.samples)

    assert (good.value, good.answer) == (1, "It is 3.")
    assert good.explanation == "1 matched / 1 expected = 1 (passed at 0.5)."
    assert good.metadata["passed"] is True
    assert good.metadata["alignment"]["pairs"] == [{"expected": 0, "called": 0, "similarity": 1.0}]
    assert bad.value == 0.25
    assert bad.metadata["passed"] is False
    assert [finding["kind"] for finding in bad.metadata["findings"]] == ["wrong_argument", "missing"]
    (scores,) = log.results.scores
    assert (scores.name, scores.metrics["mean"].value) == (NAME, 0.625)


def test_a_sample_without_a_score_is_unscored() -> None:
    """It is not zero: Inspect leaves it out of the mean, and the explanation says why there is none."""
    samples = [Sample(input="What is 1 + 2?", metadata=metadata) for metadata in (EXPECTED, {})]

    log = log_of(task(*samples), asks(ADD), asks(text="It is 3."))
    unscored = log.samples[1].scores[NAME]

    assert math.isnan(unscored.value)
    assert unscored.reason == "scoring_failed"
    assert unscored.explanation.startswith("Not measured: MissingExpectationError")
    assert log.results.scores[0].metrics["mean"].value == 1
    assert (log.results.scores[0].scored_samples, log.results.scores[0].unscored_samples) == (1, 1)


def test_a_skipped_sample_is_unscored() -> None:
    """The metric does not apply."""
    log = log_of(task(Sample(input="Hello."), by=scorer(ToolSuccessRate())), asks(text="Hello."))
    (score,) = log.samples[0].scores.values()

    assert math.isnan(score.value)
    assert (score.reason, score.metadata["status"]) == ("skipped", "skipped")


def test_wrong_metadata_is_unscored() -> None:
    """Nothing that a dataset has ends the evaluation; Inspect would."""
    log = log_of(task(Sample(input="Add.", metadata={"expected_tools": [{"args": {}}]})), asks(ADD), asks(text="3"))
    score = log.samples[0].scores[NAME]

    assert math.isnan(score.value)
    assert "$.expected_tools[0].name" in score.explanation


def test_calls_have_the_status_that_inspect_gives_them() -> None:
    """A result, a failure, an unknown tool, and arguments that are not JSON."""
    broken = ToolCall(id="c4", function="add", arguments={}, parse_error="not JSON")
    case = cases_of(asks(ADD, call("boom", 2, x=1), call("nosuch", 3), broken), asks(text="Done."))
    rows = [
        (one.name, one.input_parameters, one.output, one.execution.status, one.execution.error)
        for one in case.tools_called or []
        if one.execution
    ]

    assert rows[:2] == [
        ("add", {"a": 1, "b": 2}, "3", CallStatus.OK, None),
        ("boom", {"x": 1}, None, CallStatus.ERROR, "no good: 1"),
    ]
    assert rows[2][3:] == (CallStatus.UNKNOWN_TOOL, "Tool nosuch not found")
    assert rows[3][1:] == ({}, None, CallStatus.INVALID_ARGUMENTS, "not JSON")
    assert (case.input, case.actual_output) == ("Go.", "Done.")
    assert [spec.name for spec in case.available_tools or []] == ["add", "boom"]
    assert (case.available_tools or [])[0].input_schema["required"] == ["a", "b"]  # type: ignore[index]


def test_a_call_that_was_not_approved_is_rejected() -> None:
    """Inspect asks approvers before it runs a tool."""

    @approver(name="refuses")
    def refuses() -> Approver:
        async def approve(*_: Any) -> Approval:
            return Approval(decision="reject", explanation="not today")

        return approve

    cases: list[Any] = []
    by = scorer(METRIC, to_case=lambda state, target: cases.append(read(state, target)) or cases[0])
    log_of(task(Sample(input="Go."), by=by), asks(ADD), asks(text="No."), approval=[ApprovalPolicy(refuses(), "*")])
    (one,) = cases[0].tools_called

    assert (one.execution.status, one.execution.error) == (CallStatus.REJECTED, "not today")


def read(state: Any, target: Any) -> LLMTestCase:
    """Return the case that is read by default."""
    from toolgrade.compat.hosts.inspect import _case_of

    return _case_of(state, target)


@solver
def adds(messages: list[ChatMessage]) -> Solver:
    """Add messages to a sample."""

    async def solve(state: TaskState, _: Any) -> TaskState:
        state.messages += messages
        return state

    return solve


def test_calls_of_the_input_are_not_the_agents() -> None:
    """A dataset may have conversations with calls of their own."""
    messages: list[ChatMessage] = [
        ChatMessageUser(content="What is 2 + 2?"),
        ChatMessageAssistant(content="", tool_calls=[call("add", 9, a=2, b=2)]),
        ChatMessageTool(content="4", tool_call_id="c9", function="add"),
        ChatMessageAssistant(content="4"),
        ChatMessageUser(content="And 1 + 2?"),
    ]
    case = cases_of(asks(ADD), asks(text="3"), sample=Sample(input=messages, metadata=EXPECTED))

    assert [one.input_parameters for one in case.tools_called or []] == [{"a": 1, "b": 2}]
    assert case.input == "And 1 + 2?"


def test_calls_that_the_provider_ran_are_recorded() -> None:
    """They stand in the content of the message."""
    search = ContentToolUse(
        tool_type="web_search", id="w1", name="web_search", arguments="rain in Oslo", result="sunny"
    )
    lookup = ContentToolUse(
        tool_type="mcp_call", id="m1", name="look", context="maps", arguments='{"x": 1}', result="", error="down"
    )
    message = ChatMessageAssistant(content=[search, lookup, ContentText(text="It is sunny.")])
    case = cases_of(solvers=[adds([message])])
    first, second = case.tools_called or []

    assert (first.type, first.input_parameters, first.output) == (
        ToolCallType.HOSTED,
        {"input": "rain in Oslo"},
        "sunny",
    )
    assert first.execution is not None
    assert second.execution is not None
    assert (second.type, second.input_parameters, second.execution.server) == (ToolCallType.MCP, {"x": 1}, "maps")
    assert (second.execution.status, second.execution.error, second.output) == (CallStatus.ERROR, "down", None)
    assert case.actual_output == "It is sunny."


def test_parts_are_read() -> None:
    """The texts of messages, and a result that is not a text."""
    image = "data:image/png;base64,iVBORw0KGgo="
    messages: list[ChatMessage] = [
        ChatMessageAssistant(content=[ContentText(text="Let me see. ")], tool_calls=[call("look")]),
        ChatMessageTool(content=[ContentText(text="Here:"), ContentImage(image=image)], tool_call_id="c1"),
        ChatMessageAssistant(content="A dot."),
    ]
    question: list[ChatMessage] = [ChatMessageUser(content=[ContentText(text="What?"), ContentImage(image=image)])]
    case = cases_of(solvers=[adds(messages)], sample=Sample(input=question))
    (one,) = case.tools_called or []

    assert case.input == "What?"
    assert case.run is not None
    assert (case.run.agent_texts, case.run.warnings) == (["Let me see. ", "A dot."], [])
    assert one.output == ["Here:", {"type": "image_url", "image_url": {"url": image}}]
    assert len(case.run.input_parts or []) == 2


@pytest.mark.parametrize(
    ("target", "metadata", "expected"),
    [
        ("It is 3.", {}, "It is 3."),
        ("", {}, None),
        ("It is 3.", {"expected_output": "Three."}, "Three."),
    ],
)
def test_the_target_is_the_expected_output(target: str, metadata: dict[str, Any], expected: str | None) -> None:
    """Unless the metadata has one."""
    sample = Sample(input="Go.", target=target, metadata=metadata)

    assert cases_of(asks(text="It is 3."), sample=sample).expected_output == expected


def test_one_of_several_targets_is_expected() -> None:
    """As Inspect's own scorers compare them."""
    case = cases_of(asks(text="3"), sample=Sample(input="Go.", target=["3", "three"]))

    assert case.expected_output.describe() == '"3" or "three"'  # type: ignore[union-attr]


def test_a_case_of_ones_own() -> None:
    """`to_case` receives the state and the target; its toolgrade errors leave the sample unscored."""

    def to_case(state: Any, target: Any) -> LLMTestCase:
        return LLMTestCase(tools_called=[{"name": target.text}], expected_tools=[{"name": state.input_text}])

    log = log_of(task(Sample(input="add", target="add"), by=scorer(METRIC, to_case=to_case)), asks(text="."))

    assert log.samples[0].scores[NAME].value == 1


def test_secrets_are_redacted() -> None:
    """In the explanation and the metadata."""
    metadata = {"expected_tools": [{"name": "add", "args": {"password": "hunter2-secret"}}]}
    log = log_of(task(Sample(input="Add.", metadata=metadata)), asks(call("add", password="x1")), asks(text="."))

    assert "hunter2-secret" not in log.samples[0].scores[NAME].model_dump_json()


def result() -> MetricResult:
    """Return the result of the metrics below."""
    return MetricResult(metric="m", status=ResultStatus.SCORED, threshold=0.5, score=1.0, passed=True)


class InThreads:
    """A metric that ends only if two samples are measured at the same time, each in a thread."""

    label, threshold = "m", 0.5

    def __init__(self) -> None:
        self._barrier = threading.Barrier(2)

    def measure(self, _: Any) -> MetricResult:
        """Wait for the other sample."""
        self._barrier.wait(30)
        return result()

    a_measure: Any = None


class InLoop:
    """A metric that waits, and ends only if so many samples are measured at the same time."""

    label, threshold, waits = "m", 0.5, True

    def __init__(self, samples: int = 2) -> None:
        self.loops: list[int] = []
        self._samples = samples
        self._has_all = asyncio.Event()

    async def a_measure(self, _: Any) -> MetricResult:
        """Wait for the other samples."""
        self.loops.append(threading.get_ident())
        if len(self.loops) == self._samples:
            self._has_all.set()
        await asyncio.wait_for(self._has_all.wait(), 30)
        return result()

    def measure(self, _: Any) -> MetricResult:
        """Never called."""
        raise NotImplementedError


def two_samples(metric: Any) -> list[Any]:
    """Return the values of two samples."""
    samples = [Sample(input="Go.", metadata=EXPECTED) for _ in range(2)]
    log = log_of(task(*samples, by=scorer(metric)), asks(ADD), asks(text="3"))
    return [sample.scores["m"].value for sample in log.samples]


def test_no_sample_waits_for_another() -> None:
    """A metric that keeps the processor busy is measured outside of the event loop."""
    assert two_samples(InThreads()) == [1, 1]


def test_a_judge_waits_in_the_event_loop() -> None:
    """So that it may use clients that belong to the loop, and samples are judged at the same time."""
    metric = InLoop()

    assert two_samples(metric) == [1, 1]
    assert len(set(metric.loops)) == 1


PROGRAM = """
from with_inspect import ADD, EXPECTED, METRIC, InLoop, Sample, asks, log_of, scorer, task

if __name__ == "__main__":
    for metric in (METRIC, InLoop(1)):
        log = log_of(task(Sample(input="Go.", metadata=EXPECTED), by=scorer(metric)), asks(ADD), asks(text="3"))
        print(*[score.value for score in log.samples[0].scores.values()])
"""


def test_trio_is_an_event_loop_too(tmp_path: Path) -> None:
    """Inspect runs in either."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    environment = {**os.environ, "INSPECT_ASYNC_BACKEND": "trio", "PYTHONPATH": os.pathsep.join(folders)}
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, check=False)

    assert done.stdout == "1.0\n1.0\n", done.stderr[-2000:]


def test_the_example_is_scored(tmp_path: Path) -> None:
    """As a program."""
    printed = printed_by("runners/with_inspect.py", tmp_path)

    assert printed == "tool_correctness(input_parameters): 1. 1 matched / 1 expected = 1 (passed at 0.5).\n"


def test_the_task_of_the_page_is_scored() -> None:
    """With the tool that the page leaves to its reader."""
    names: dict[str, Any] = {"add": add}
    asyncio.run(run_page(ROOT / "docs" / "extend.md", names, "inspect_ai"))
    replies = [ModelOutput.for_tool_call("mockllm", "add", {"a": 1, "b": 2}), ModelOutput.from_content("mockllm", "3")]
    for reply in replies:
        reply.usage = ModelUsage()  # else Inspect counts tokens, by a file from the network
    (log,) = run_tasks(names["task"], model=get_model("mockllm/model", custom_outputs=replies), display="none")

    assert log.samples is not None
    assert log.samples[0].scores is not None
    assert log.samples[0].scores[NAME].value == 1
