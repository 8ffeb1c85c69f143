"""Results are written as they arrive, and an interrupted evaluation can be resumed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from judging import RuleJudge
from processes import HEEDS_INTERRUPTS, environment, toolgrade_score
from scale_files import body, write_lines
from strategies import few
from toolgrade import (
    ConfigurationError,
    DataFileError,
    Golden,
    LLMTestCase,
    MetricResult,
    Report,
    ResultStatus,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    ToolEfficiencyMetric,
    ToolSuccessRate,
    compare,
    evaluate,
    evaluate_async,
    observe,
)
from toolgrade.agents import Conversation
from toolgrade.compat.deepeval.tracing import update_current_span
from toolgrade.errors import BadLineWarning, ToolgradeWarning
from toolgrade.evaluation import files, partial_report, read_results
from toolgrade.expect import Expect, Plan, Predicate
from toolgrade.report.report import CaseResult
from victims import EVALUATION, SCORE, processes_with, times_written

METRICS = [ToolCorrectnessMetric(), ToolEfficiencyMetric()]
LOOKUP = ToolCall(name="lookup")
GOLDENS = [Golden(input=f"q{number}", id=f"g{number}", expected_tools=[LOOKUP]) for number in range(3)]


class Agent:
    """Calls what its question says; keeps what it was asked."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    async def __call__(self, question: str, _conversation: Conversation) -> Run:
        """Return the same run for the same question; q1 fails."""
        self.questions.append(question)
        await asyncio.sleep(0)
        calls = [] if question == "q1" else [LOOKUP]
        return Run(input=question, calls=calls, actual_output="an answer")


def ask(agent: Any, path: Path | None = None, **more: Any) -> Report:
    """An evaluation of two trials."""
    options: dict[str, Any] = {"goldens": GOLDENS, "metrics": METRICS, "trials": 2, **more}
    return evaluate(agent=agent, results=path, **options)


def plain(report: Report) -> dict[str, Any]:
    """A report as JSON values, without the times and the ids of runs, which are new in each run."""
    fields = report.to_dict()
    assert fields.pop("about").keys() <= {"toolgrade", "python", "started_at", "seconds"}
    for case in fields["cases"]:
        case.pop("run_id", None)
    return fields


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Report]:
    """A file of results that is whole, and its report."""
    path = tmp_path_factory.mktemp("whole") / "r.jsonl"
    report = ask(Agent(), path)
    return path.read_bytes(), report


def test_the_file_is_the_report(whole: tuple[bytes, Report], tmp_path: Path) -> None:
    """A header, one line with content for each trial of each golden, and an end."""
    data, report = whole
    (tmp_path / "r.jsonl").write_bytes(data)
    head, *entries, end = [json.loads(line) for line in data.splitlines()]

    assert plain(read_results(tmp_path / "r.jsonl")) == plain(report) == plain(ask(Agent()))
    assert (head["toolgrade_results"], head["kind"], head["cases"], head["trials"]) == (2, "goldens", 3, 2)
    assert sorted((entry["case"], entry["trial"]) for entry in entries) == [(p, t) for p in range(3) for t in (1, 2)]
    assert {entry["content"]["actual_output"] for entry in entries} == {"an answer"}
    assert (end["complete"], end["cases"]) == (True, 3)
    assert read_results(tmp_path / "r.jsonl") == report
    assert not report.interrupted


@settings(few)
@given(share=st.floats(0, 1), zeros=st.booleans())
def test_any_part_of_the_file_can_be_resumed(
    whole: tuple[bytes, Report], tmp_path_factory: pytest.TempPathFactory, share: float, zeros: bool
) -> None:
    """Cut anywhere, also filled with zeros: the report is complete, and only unfinished trials run again."""
    data, report = whole
    prefix = data[: round(share * len(data))]
    folder = tmp_path_factory.mktemp("cut")
    path = folder / "r.jsonl"
    path.write_bytes(prefix + bytes(100 * (zeros and prefix.count(b"\n") > 0 and not prefix.endswith(b"\n"))))
    agent = Agent()
    done = sum("case" in json.loads(line) for line in prefix.splitlines() if _is_json(line))
    if zeros and prefix and not prefix.endswith(b"\n") and _is_json(prefix.splitlines()[-1]):
        done -= "case" in json.loads(prefix.splitlines()[-1])
    resumed = ask(agent, path, resume=True)

    assert plain(resumed) == plain(report)
    assert len(agent.questions) == 6 - done
    assert plain(read_results(path)) == plain(report)
    assert plain(ask(forbidden, path, resume=True)) == plain(report)
    shutil.rmtree(folder)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


async def forbidden(_question: str, _conversation: Conversation) -> Run:
    """An agent that must not be asked."""
    raise AssertionError


def test_lines_come_while_it_runs(tmp_path: Path) -> None:
    """After each measured case, not at the end."""
    path = tmp_path / "r.jsonl"
    counts: list[int] = []

    async def looks(question: str, conversation: Conversation) -> Run:
        counts.append(path.read_bytes().count(b"\n"))
        return await Agent()(question, conversation)

    ask(looks, path, max_concurrency=1)

    assert counts == [1, 2, 3, 4, 5, 6]


def test_a_golden_with_a_predicate_is_asked_again(tmp_path: Path) -> None:
    """The code of a predicate has no text, so that a change cannot be seen."""
    path = tmp_path / "r.jsonl"
    questions: list[str] = []

    async def pays(question: str, _: Conversation) -> Run:
        questions.append(question)
        return Run(input=question, calls=[ToolCall(name="pay", input_parameters={"n": 5})])

    for limit in (1, 100):
        plan = Plan([Expect("pay", {"n": Predicate(lambda value, limit=limit: value > limit)})])
        goldens = [Golden(id="a", input="q", expected_tools=plan)]
        metrics = [ToolCorrectnessMetric(evaluation_params=["input_parameters"])]
        report = evaluate(goldens=goldens, agent=pays, metrics=metrics, results=path, resume=True)

    assert questions == ["q", "q"]
    assert report.summaries[0].mean == 0


@pytest.mark.parametrize("answers", [0, 2])
def test_results_of_changed_goldens_do_not_count_in_an_unfinished_session(tmp_path: Path, answers: int) -> None:
    """Also if it is stopped before its first result: what an earlier session measured says nothing of them."""
    path = tmp_path / "r.jsonl"
    questions: list[str] = []

    async def agent(question: str, _: Conversation) -> Run:
        questions.append(question)
        if len(questions) == 4 + answers + 1:
            raise KeyboardInterrupt
        return Run(input=question, calls=[ToolCall(name="a")])

    def run(tool: str) -> Report:
        goldens = [Golden(id=key, input=key, expected_tools=[ToolCall(name=tool)]) for key in "abcd"]
        options: dict[str, Any] = {"results": path, "resume": True, "max_concurrency": 1}
        return evaluate(goldens=goldens, agent=agent, metrics=[ToolCorrectnessMetric()], **options)

    assert run("a").passed
    with pytest.raises(KeyboardInterrupt):
        run("b")
    report = read_results(path)

    assert (report.interrupted, report.passed, len(report.cases)) == (True, False, answers)
    assert not any(summary.passed for summary in report.summaries)
    assert run("a").passed  # nothing of the first session is lost
    assert len(questions) == 4 + answers + 1


class Stopping(ToolCorrectnessMetric):
    """A metric that a user stops before it measures anything, if `is_on`."""

    is_on: ClassVar[bool] = False

    def measure(self, case: Any) -> MetricResult:
        """Measure, or be interrupted."""
        if type(self).is_on:
            raise KeyboardInterrupt
        return super().measure(case)


def test_results_of_another_file_do_not_count_in_an_unfinished_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it is stopped before its first part."""
    path, results = tmp_path / "runs.jsonl", tmp_path / "r.jsonl"
    path.write_text('{"tools_called": [], "expected_tools": []}\n')
    assert evaluate(path, [Stopping()], results=results).passed
    path.write_text('{"tools_called": [], "expected_tools": [{"name": "pay"}]}\n')
    monkeypatch.setattr(Stopping, "is_on", True)

    with pytest.raises(KeyboardInterrupt):
        evaluate(path, [Stopping()], results=results, resume=True)
    report = read_results(results)

    assert (report.cases, report.interrupted, report.passed) == ((), True, False)


class Unsure:
    """An agent that succeeds, fails or breaks as it is told, in the order in which it is asked."""

    def __init__(self, outcomes: Sequence[str], answer: str) -> None:
        """Without outcomes it succeeds."""
        self.outcomes = itertools.cycle(outcomes or ["passed"])
        self.answer = answer
        self.questions: Counter[str] = Counter()

    async def __call__(self, question: str, _conversation: Conversation) -> Run:
        """Answer."""
        self.questions[question] += 1
        outcome = next(self.outcomes)
        if outcome == "errored":
            raise ConnectionError(question)
        return Run(input=question, calls=[LOOKUP] * (outcome == "passed"), actual_output=self.answer)


POOL = [
    *(Golden(input=question, id=f"g-{question}", expected_tools=[LOOKUP]) for question in "abc"),
    *(Golden(input=question, expected_tools=[LOOKUP]) for question in "ad"),
    Golden(input="a", id="g-a", expected_tools=[LOOKUP], expected_output="changed"),
]
"""Goldens with and without ids, and some that an edit makes of others."""
_goldens = st.lists(st.sampled_from(POOL), min_size=1, max_size=6)
_trials = st.sampled_from([None, 1, 2, 3])
REUSED = {"missing": {"passed", "failed", "errored"}, "errored": {"passed", "failed"}, "failed": {"passed"}}


def status_of(case: CaseResult) -> str:
    """How a case went."""
    if any(result.status is ResultStatus.ERRORED for result in case.results) or case.case.run.error:  # type: ignore[union-attr]
        return "errored"
    return "passed" if all(result.passed for result in case.results) else "failed"


@given(
    before=_goldens,
    now=_goldens,
    trials=st.tuples(_trials, _trials),
    outcomes=st.lists(st.sampled_from(["passed", "failed", "errored"]), max_size=6),
    share=st.floats(0.2, 1.5),
    mode=st.sampled_from(["missing", "errored", "failed"]),
)
def test_what_is_asked_again(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[Golden],
    now: list[Golden],
    trials: tuple[int | None, int | None],
    outcomes: list[str],
    share: float,
    mode: Any,
) -> None:
    """Each line stands for one trial of an equal golden, wherever it is in the list; nothing else is asked."""
    path = tmp_path_factory.mktemp("again") / "r.jsonl"
    options: dict[str, Any] = {"metrics": METRICS, "max_concurrency": 1, "results": path}
    first = evaluate(goldens=before, agent=Unsure(outcomes, "first"), trials=trials[0], **options)
    by_unit = {(case.index // (trials[0] or 1), case.trial): status_of(case) for case in first.cases}
    data = path.read_bytes()
    path.write_bytes(data[: max(data.index(b"\n") + 1, round(share * len(data)))])

    # The obvious way: a multiset of what is there, from which each trial takes its own.
    written = [json.loads(line) for line in path.read_bytes().splitlines() if _is_json(line)]
    left = [
        (before[line["case"]], line.get("trial") or 1)
        for line in written
        if "case" in line and by_unit[line["case"], line.get("trial")] in REUSED[mode]
    ]
    expected: Counter[str] = Counter()
    reused = 0
    for trial, golden in itertools.product(range(1, (trials[1] or 1) + 1), now):
        if (golden, trial) in left:
            left.remove((golden, trial))
            reused += 1
        else:
            expected[golden.input] += 1

    agent = Unsure([], "second")
    report = evaluate(goldens=now, agent=agent, trials=trials[1], resume=mode, **options)

    assert agent.questions == expected
    answers = [case.case.run.actual_output for case in report.cases]  # type: ignore[union-attr]
    assert answers.count("second") == len(answers) - reused
    assert [case.case.id for case in report.cases] == [golden.id for golden in now for _ in range(trials[1] or 1)]
    assert plain(read_results(path)) == plain(report)
    if share > 1:
        assert plain(evaluate(goldens=now, agent=forbidden, trials=trials[1], resume=True, **options)) == plain(report)


@pytest.mark.parametrize("names", [["one"], ["two", "one"], ["one", "two", "three"]])
def test_agents_are_added_and_removed(tmp_path: Path, names: list[str]) -> None:
    """Each agent has its own lines; only a new one is asked."""
    agents: dict[str, Any] = {name: Unsure([], name) for name in ("one", "two")}
    options: dict[str, Any] = {"goldens": GOLDENS, "metrics": METRICS, "trials": 2, "results": tmp_path / "r"}
    evaluate(agents=agents, **options)
    now = {name: Unsure([], name) for name in names}

    report = evaluate(agents=now, resume=True, **options)

    assert [name for name, agent in now.items() if agent.questions] == [name for name in names if name == "three"]
    assert list(dict.fromkeys(case.agent for case in report.cases)) == names
    assert plain(read_results(tmp_path / "r")) == plain(report)


def worst_status(results: list[dict[str, Any]]) -> str:
    """How the case of a line went."""
    statuses = {result["status"] for result in results}
    if "errored" in statuses or "scored" not in statuses:  # also what no metric applies to
        return "errored"
    return "failed" if any(result.get("passed") is False for result in results) else "passed"


WITHOUT_CALLS = '{"expected_tools": []}'
WITHOUT_EXPECTATION = '{"tools_called": []}'
FILE_LINES = [
    json.dumps(
        {
            "tools_called": [{"name": name}],
            "expected_tools": [{"name": "a"}],
            "metadata": {"task": task},
            "input": "?",
            **more,
        }
    )
    for name, task, more in [("a", 1, {}), ("b", 1, {}), ("a", 2, {"id": "x"}), ("c", 2, {"name": "n"}), ("d", 3, {})]
] + [WITHOUT_CALLS, WITHOUT_EXPECTATION, "", "nonsense", '{"torn": ']


@settings(few)
@given(
    before=st.lists(st.sampled_from(FILE_LINES), max_size=6),
    now=st.lists(st.sampled_from(FILE_LINES), max_size=6),
    clusters=st.tuples(*[st.sampled_from([None, "metadata.task"])] * 2),
    part_bytes=st.sampled_from([1, 150, 1 << 20]),
    share=st.floats(0.3, 1.5),
    is_judged=st.booleans(),
    mode=st.sampled_from(["missing", "errored", "failed"]),
)
@example(  # what is skipped was measured, and its reason names its case
    before=[WITHOUT_EXPECTATION],
    now=[WITHOUT_EXPECTATION] * 2,
    clusters=(None, None),
    part_bytes=1 << 20,
    share=1.5,
    is_judged=False,
    mode="errored",
)
@example(  # the error of an equal case names that one
    before=[WITHOUT_CALLS],
    now=[WITHOUT_CALLS] * 2,
    clusters=(None, None),
    part_bytes=1 << 20,
    share=1.5,
    is_judged=False,
    mode="missing",
)
def test_files_that_have_changed_are_resumed(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[str],
    now: list[str],
    clusters: tuple[str | None, str | None],
    part_bytes: int,
    share: float,
    is_judged: bool,
    mode: Any,
) -> None:
    """The report and the file are those of the new file, and the judge is asked about new cases alone."""
    folder = tmp_path_factory.mktemp("files")
    path, results = folder / "f.jsonl", folder / "r.jsonl"
    judge = RuleJudge("yes")

    def run(lines: Sequence[str], cluster: str | None, **options: Any) -> Report:
        path.write_text("\n".join([FILE_LINES[0], *lines]), encoding="utf-8")
        judged = ToolCorrectnessMetric(judge=judge, available_tools=[{"name": "a"}], threshold=0.01)
        metrics: list[Any] = [METRICS[0], *([judged] if is_judged else [])]
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore", BadLineWarning)
            patch.setattr(files, "PART_BYTES", part_bytes)
            patch.setattr(files, "WORTH_A_PROCESS", 1)
            return evaluate(path, metrics, processes=1, cluster=cluster, max_concurrency=1, **options)

    run(before, clusters[0], results=results)
    data = results.read_bytes()
    results.write_bytes(data[: max(data.index(b"\n") + 1, round(share * len(data)))])
    stored = [json.loads(line) for line in results.read_bytes().splitlines() if _is_json(line)]
    is_enough = {"passed": True, "failed": mode != "failed", "errored": False}  # bad lines are never asked about
    measured = {
        json.dumps(line["content"], sort_keys=True)
        for line in stored
        if "case" in line and is_enough[worst_status(line["results"])]
    }
    contents = [json.dumps(json.loads(line), sort_keys=True) for line in [*now, FILE_LINES[0]] if line.endswith("}")]
    judge.questions.clear()

    report = run(now, clusters[1], results=results, resume=mode)
    count = len(judge.questions)

    assert [case.case for case in read_results(results).cases] == [case.case for case in report.cases]
    assert plain(read_results(results)) == plain(report)
    whole = run(now, clusters[1])
    # The usage of a judge is that of whoever asked first.
    one, other = (
        [
            (case.case, case.trial, case.golden, [(it.status, it.score, it.reason) for it in case.results])
            for case in each
        ]
        for each in (report.cases, whole.cases)
    )
    assert one == other
    judge.questions.clear()
    new = [LLMTestCase.from_json(content) for content in contents if content not in measured]
    if new and is_judged:
        evaluate(new, [ToolCorrectnessMetric(judge=judge, available_tools=[{"name": "a"}])], max_concurrency=1)
    assert count == len(judge.questions)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metrics": METRICS[:1]}, "tool_efficiency.* in the file, others now"),
        (
            {"metrics": [ToolCorrectnessMetric(threshold=0.7), METRICS[1]]},
            r"threshold 0.5.* in the file, .*threshold 0.7.* now",
        ),
        ({"metrics": [ToolCorrectnessMetric(include_reason=False), METRICS[1]]}, "'include_reason': False.* now"),
    ],
    ids=["metrics", "threshold", "options"],
)
def test_other_metrics_do_not_go_on(
    whole: tuple[bytes, Report], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    """The difference is named, and the file stays unchanged."""
    path = tmp_path / "r.jsonl"
    path.write_bytes(whole[0])
    with pytest.raises(ConfigurationError, match="(?s)r.jsonl has results of other metrics.*" + message):
        ask(Agent(), path, resume=True, **change)
    cases = [LLMTestCase(tools_called=[], expected_tools=[])] * 3
    with pytest.raises(ConfigurationError, match=r"r\.jsonl has results of goldens, not of test cases"):
        evaluate(cases, METRICS, results=path, resume=True)

    assert path.read_bytes() == whole[0]


def test_another_version_is_a_warning(whole: tuple[bytes, Report], tmp_path: Path) -> None:
    """Its results are reused."""
    path = tmp_path / "r.jsonl"
    head, _, rest = whole[0].partition(b"\n")
    path.write_bytes(json.dumps({**json.loads(head), "toolgrade": "0.9"}).encode() + b"\n" + rest)

    with pytest.warns(ToolgradeWarning, match=r"r\.jsonl was written by toolgrade 0\.9, and this is"):
        assert plain(ask(forbidden, path, resume=True)) == plain(whole[1])


def test_results_of_other_facts_are_a_warning(tmp_path: Path) -> None:
    """They are reused, as those of another version."""
    path = tmp_path / "r.jsonl"
    before = ask(Agent(), path, about={"model": "a", "team": "x"})

    with pytest.warns(ToolgradeWarning, match=r"are kept: model a before, b now; part \(none\) before, 2 now$"):
        again = ask(forbidden, path, resume=True, about={"model": "b", "team": "x", "part": "2"})
    assert again.cases == before.cases


def test_options_hold_no_secrets(tmp_path: Path) -> None:
    """The header of the file has the options of a user's metric without its key."""

    @dataclass(frozen=True, eq=False)
    class WithKey(ToolSuccessRate):
        api_key: str = "of-no-known-form"
        level: int = 3

    path = tmp_path / "results.jsonl"
    evaluate([LLMTestCase(tools_called=[LOOKUP])], [WithKey()], results=path)
    assert '"level": 3' in path.read_text(encoding="utf-8")
    assert "of-no-known-form" not in path.read_text(encoding="utf-8")


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    """The error has a remedy."""
    path = tmp_path / "r.jsonl"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"r.jsonl already exists: resume it or choose another path"):
        ask(Agent(), path)
    with pytest.raises(DataFileError, match=r"r\.jsonl: the first line must be the header"):
        ask(Agent(), path, resume=True)
    with pytest.raises(ConfigurationError, match="resume needs results"):
        ask(Agent(), None, resume=True)
    with pytest.raises(FileNotFoundError):
        ask(Agent(), tmp_path / "no" / "r.jsonl")

    assert path.read_text(encoding="utf-8") == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_two_do_not_write_into_one_file(tmp_path: Path) -> None:
    """The second one is refused."""
    path = tmp_path / "r.jsonl"

    async def again(question: str, conversation: Conversation) -> Run:
        with pytest.raises(ConfigurationError, match=r"another program is writing to .*r.jsonl"):
            await evaluate_async(goldens=GOLDENS, agent=Agent(), metrics=METRICS, trials=2, results=path, resume=True)
        return await Agent()(question, conversation)

    assert not ask(again, path).interrupted


def test_evaluation_of_cases_can_be_resumed(tmp_path: Path) -> None:
    """Sync and async."""
    cases = [LLMTestCase(id=key, tools_called=[], expected_tools=[]) for key in "abc"]
    path = tmp_path / "r.jsonl"
    report = evaluate(cases, METRICS, results=path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))

    again = asyncio.run(evaluate_async(cases, METRICS, results=path, resume=True))

    assert again == report
    assert again.about == read_results(path).about
    assert (
        path.read_bytes().count(b"\n") == 7
    )  # with the header of the second session, the case that it keeps, and the end
    assert compare(path, report).in_both == 3


# components


@observe(tool=True)
def lookup() -> str:
    """Find."""
    return "found"


@observe(metrics=[ToolCorrectnessMetric(threshold=0.8)])
def part(question: str) -> None:
    """A component that is right about some questions."""
    update_current_span(tools_called=[LOOKUP] * (question != "q1"), expected_tools=[LOOKUP])


@observe
def app(question: str) -> str:
    """Runs its part as often as the question says."""
    lookup()
    for _ in range(int(question[1])):
        part(question)
    if question == "q0":
        raise ValueError(question)
    return "an answer"


@pytest.mark.parametrize("metrics", [METRICS, []], ids=["both", "components"])
def test_evaluation_of_components_can_be_resumed(tmp_path: Path, metrics: list[Any]) -> None:
    """Cut anywhere, also between the rows of one golden."""
    options: dict[str, Any] = {"goldens": GOLDENS, "metrics": metrics, "trials": 2, "max_concurrency": 1}
    path = tmp_path / "r.jsonl"
    report = evaluate(observed_callback=app, results=path, **options)
    lines = path.read_bytes().splitlines(keepends=True)

    assert plain(read_results(path)) == plain(report)
    assert {case.golden for case in report.cases} == {0, 1, 2}
    for end in range(len(lines) + 1):
        path.write_bytes(b"".join(lines[:end]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BadLineWarning)
            assert not end or read_results(path).interrupted == (end < len(lines))
        resumed = evaluate(observed_callback=app, results=path, resume=True, **options)
        assert plain(resumed) == plain(report) == plain(read_results(path))


# stopped by force


def start(folder: Path, program: str = EVALUATION) -> subprocess.Popen[str]:
    """A program that evaluates."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-W", "error", "program.py"]
    return subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_until(met: Callable[[], bool], program: subprocess.Popen[str] | None = None) -> None:
    """Wait for something that a program does, or for its end."""
    until = time.monotonic() + 100
    while not met() and (program is None or program.poll() is None):
        assert time.monotonic() < until
        time.sleep(0.002)


def lines_in(path: Path) -> int:
    """How many lines a file has."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_killed_again_and_again(tmp_path: Path) -> None:
    """Every trial stands there once, and what stands there was asked once; the report is the whole one."""
    path = tmp_path / "r.jsonl"
    for stop_at in (1, 7, 16):
        program = start(tmp_path)
        wait_until(lambda at=stop_at: lines_in(path) >= at, program)  # type: ignore[misc]
        program.kill()
        program.communicate()
    last = start(tmp_path)
    out, err = last.communicate(timeout=100)
    assert (last.returncode, out, err) == (0, "", "")

    whole = tmp_path / "whole"
    whole.mkdir()
    assert start(whole).communicate(timeout=100) == ("", "")
    done = times_written(path)
    times_asked = Counter((tmp_path / "asked.txt").read_text(encoding="utf-8").split())

    assert set(done.values()) == {1}
    assert len(done) == 20
    assert all(times >= 2 for times in times_asked.values())
    assert sum(times_asked.values()) <= 20 + 3 * 3  # trials that were running when it was killed run again
    assert (tmp_path / "report.json").read_text() == (whole / "report.json").read_text()
    assert read_results(path).about["seconds"] > 0


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="which processes live is read from the system")
def test_scoring_is_killed_again_and_again(tmp_path: Path) -> None:
    """Every case stands there once, and no process lives on."""
    paths = [write_lines(tmp_path / name, 100, seed) for seed, name in enumerate("ab")]
    command = [sys.executable, "-c", SCORE, "score", *map(str, paths), "--processes", "2", "--resume", "--results"]
    settings = environment(KILLED_IN=str(tmp_path))

    def score(name: str, stop_at: float = math.inf) -> int:
        path = tmp_path / name
        program = subprocess.Popen([*command, str(path)], env=settings, stdout=subprocess.DEVNULL)
        wait_until(lambda: program.poll() is not None or lines_in(path) >= stop_at)
        program.kill()
        return program.wait()

    assert score("whole") == 1
    for stop_at in (1, 80, 200):
        score("r", stop_at)
    assert score("r") == 1

    report = read_results(tmp_path / "r")
    assert report == read_results(tmp_path / "whole")
    assert not report.interrupted
    assert body(tmp_path / "r") == body(tmp_path / "whole")
    wait_until(lambda: not processes_with(f"KILLED_IN={tmp_path}"))


# stopped by Ctrl-C


def interrupted(folder: Path, program: str, signals: int = 1, questions: int = 7) -> tuple[int, str, str]:
    """Run a program that is interrupted after this many questions, and again after each stopped agent."""
    running = start(folder, program)
    wait_until(lambda: lines_in(folder / "asked.txt") >= questions, running)
    running.send_signal(signal.SIGINT)
    for _ in range(signals - 1):
        wait_until((folder / "cancelled").exists, running)
        running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=100)
    return running.returncode, out, err


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_ctrl_c_reports_finished_results(tmp_path: Path) -> None:
    """The report, how to resume, and the exit status of an interrupt."""
    code, out, err = interrupted(tmp_path, EVALUATION)
    done = lines_in(tmp_path / "r.jsonl") - 1

    assert code == -signal.SIGINT
    assert out == ""
    assert f"completed before the interrupt: {done} cases" in err
    assert f"interrupted: {done} of 20 trials done; resume r.jsonl to complete it" in err
    assert read_results(tmp_path / "r.jsonl").interrupted
    assert not (tmp_path / "report.json").exists()
    again = start(tmp_path)
    assert again.communicate(timeout=100) == ("", "")
    assert not read_results(tmp_path / "r.jsonl").interrupted


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="which processes live is read from the system")
def test_ctrl_c_while_files_are_scored(tmp_path: Path) -> None:
    """All processes of the command get it, as from a terminal; what it has done is reported and resumed."""
    cases, path = write_lines(tmp_path / "cases", 300), tmp_path / "r"
    command = [sys.executable, "-c", f"{HEEDS_INTERRUPTS}\n{SCORE}", "score", str(cases), "--results", str(path)]
    running = subprocess.Popen(
        [*command, "--processes", "2"],
        env=environment(KILLED_IN=str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: lines_in(path) >= 10, running)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=100)

    assert (running.returncode, out) == (130, "")
    assert "completed before the interrupt" in err
    assert re.search(r"interrupted: \d+ cases done; resume .*r to complete it", err)
    assert "Traceback" not in err
    wait_until(lambda: not processes_with(f"KILLED_IN={tmp_path}"))
    partial = read_results(path)
    assert partial.interrupted
    assert 0 < len(partial.cases) < 300
    assert evaluate(cases, [ToolCorrectnessMetric()], results=path, resume=True).cases[: len(partial.cases)]
    assert len(body(path)) == 300


STUBBORN = EVALUATION.replace(
    "    await asyncio.sleep(0.02)\n",
    """    await asyncio.sleep(0.02)
    while int(question) > 4:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            Path("cancelled").touch()
""",
)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_a_second_ctrl_c_waits_for_nothing(tmp_path: Path) -> None:
    """Not for an agent that does not let itself be cancelled."""
    code, _, err = interrupted(tmp_path, STUBBORN, signals=2, questions=8)

    assert code == -signal.SIGINT
    assert "interrupted: 5 of 20 trials done" in err
    assert "Task was destroyed" not in err


def test_a_cancelled_evaluation_gives_its_report(tmp_path: Path) -> None:
    """Finished results are in the file and the report; an answer after the stop is ignored."""
    path = tmp_path / "r.jsonl"
    ended: list[str] = []
    measured: list[str | None] = []

    class Counts(ToolEfficiencyMetric):
        async def a_measure(self, case: LLMTestCase, /) -> Any:
            measured.append(case.id)
            return await super().a_measure(case)

    async def says_it_was_stopped(question: str, conversation: Conversation) -> Run:
        if question == "q0":
            return await Agent()(question, conversation)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append(question)
        return Run(input=question, calls=[])

    async def go() -> BaseException:
        metrics = [METRICS[0], Counts()]
        evaluation = evaluate_async(goldens=GOLDENS, agent=says_it_was_stopped, metrics=metrics, results=path)
        task = asyncio.create_task(evaluation)
        await asyncio.to_thread(wait_until, lambda: lines_in(path) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return caught.value

    in_its_place = KeyboardInterrupt()  # as asyncio.run raises
    in_its_place.__context__ = asyncio.run(go())
    report = partial_report(in_its_place)

    assert sorted(ended) == ["q1", "q2"]
    assert measured == ["g0"]
    assert report is not None
    assert ([case.label for case in report.cases], report.interrupted) == (["g0"], True)
    assert read_results(path) == report
    assert partial_report(ValueError()) is None


def test_an_interrupt_between_two_cases() -> None:
    """For cases in the caller's thread: whole cases are stored, with all their metrics."""
    cases = [LLMTestCase(id=key, tools_called=[], expected_tools=[]) for key in "abc"]

    class Stops(ToolEfficiencyMetric):
        def measure(self, case: LLMTestCase, /) -> Any:
            if case.id == "c":
                raise KeyboardInterrupt
            return super().measure(case)

    with pytest.raises(KeyboardInterrupt) as caught:
        evaluate(cases, [METRICS[0], Stops()])
    report = partial_report(caught.value)

    assert report is not None
    assert [(case.label, len(case.results)) for case in report.cases] == [("a", 2), ("b", 2)]


# from the command line


def test_score_writes_and_resumes_results(tmp_path: Path) -> None:
    """With contents; the report equals that of an uninterrupted run, and errors name the file."""
    cases = [LLMTestCase(id=key, input="what?", tools_called=[], expected_tools=[]) for key in "abc"]
    (tmp_path / "cases.jsonl").write_text("".join(case.to_json() + "\n" for case in cases), encoding="utf-8")
    first = toolgrade_score("cases.jsonl", "--results", "r.jsonl", folder=tmp_path)
    report = read_results(tmp_path / "r.jsonl")
    lines = (tmp_path / "r.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "r.jsonl").write_bytes(b"".join(lines[:2]) + lines[2][:30])
    again = toolgrade_score("cases.jsonl", "--results", "r.jsonl", "--resume", folder=tmp_path)
    refused = toolgrade_score("cases.jsonl", "--results", "r.jsonl", folder=tmp_path)
    nowhere = toolgrade_score("cases.jsonl", "--results", "no/r.jsonl", folder=tmp_path)
    other = toolgrade_score("cases.jsonl", "--results", "r.jsonl", "--resume", "--exact", folder=tmp_path)

    assert first == again
    assert first.code == 0
    assert [case.case.input for case in report.cases] == ["what?"] * 3  # type: ignore[union-attr]
    assert read_results(tmp_path / "r.jsonl") == report
    assert (refused.code, nowhere.code, other.code) == (2, 2, 2)
    assert "r.jsonl already exists: resume it" in refused.err
    assert nowhere.err == "error: cannot write no/r.jsonl: there is no folder no\n"
    assert "has results of other metrics" in other.err


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
def test_an_interrupted_command_says_so_by_its_code(tmp_path: Path) -> None:
    """As shells have it, and not as if scores were not good enough."""
    path = tmp_path / "cases.jsonl"
    os.mkfifo(path)
    command = [
        sys.executable,
        "-c",
        f"{HEEDS_INTERRUPTS}; from toolgrade.cli.main import main; main()",
        "score",
        str(path),
    ]
    running = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE)
    with path.open("wb"):  # waits until it is read
        for _ in range(5):
            running.send_signal(signal.SIGINT)
            # Python drops an interrupt that arrives inside of a weak reference's callback, and says so.
            with contextlib.suppress(subprocess.TimeoutExpired):
                _, err = running.communicate(timeout=20)
                break

    assert running.returncode == 130
    assert err.decode().splitlines()[-1] == "interrupted: 0 cases done; to be able to resume, name a file of results"


def test_the_reason_of_a_reused_result_names_its_own_case(tmp_path: Path) -> None:
    """An equal case under another id is measured again if a metric was skipped, since the reason has the id."""
    results, cases = str(tmp_path / "results.jsonl"), tmp_path / "cases.jsonl"
    metrics = [ToolCorrectnessMetric(), ToolSuccessRate()]
    for name in ("before", "after"):
        case = LLMTestCase(id=name, tools_called=[ToolCall(name="lookup", output="found")])
        cases.write_text(case.to_json() + "\n", encoding="utf-8")
        report = evaluate(str(cases), metrics, results=results, resume=True, processes=1)

        skipped, scored = report.cases[0].results
        assert (skipped.status, scored.score) == (ResultStatus.SKIPPED, 1)
        assert f"of case {name!r}" in (skipped.reason or "")
