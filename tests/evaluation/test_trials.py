"""Several trials of each golden: pass@k and pass^k, flaky goldens, clusters, and unmeasured trials."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import combinations
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import few
from toolgrade import (
    ConfigurationError,
    Golden,
    LLMTestCase,
    MetricResult,
    Report,
    ResultStatus,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    compare,
    evaluate,
    evaluate_async,
    observe,
)
from toolgrade._pytest.fixtures import Checks
from toolgrade.agents import Conversation
from toolgrade.compat.deepeval.tracing import update_current_span
from toolgrade.report import MetricSummary
from toolgrade.report.report import Flaky
from toolgrade.result import QuestionResult, UnitResult
from toolgrade.stats import mean_interval, rate_interval

METRIC = ToolCorrectnessMetric()
CALL = ToolCall(name="a")

Plan = list[list[bool | None]]
"""Of each golden, whether its trials pass; `None` for one that cannot be measured."""


def awaited(**options: Any) -> Report:
    """Return the report of `evaluate_async` from a new event loop."""
    return asyncio.run(evaluate_async(**options))


@pytest.fixture(params=[evaluate, awaited], ids=["evaluate", "evaluate_async"])
def driver(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """Parametrize both ways to evaluate."""
    value: Callable[..., Report] = request.param
    return value


def goldens(amount: int) -> list[Golden]:
    """Goldens whose question is their position."""
    return [Golden(input=f"{number}", id=f"g{number}", expected_tools=[CALL]) for number in range(amount)]


def agent_of(plan: Plan) -> Callable[[str, Conversation], Any]:
    """Return an agent whose trials go as planned, in the order of calls."""
    counts = [0] * len(plan)

    async def agent(question: str, conversation: Conversation) -> Run:
        place = int(question)
        outcome = plan[place][counts[place]]
        counts[place] += 1
        await asyncio.sleep(0)
        if outcome is None:
            raise RuntimeError("the line is dead")
        return Run(input=question, calls=[CALL] * outcome, conversation_id=conversation.id)

    return agent


def tried(plan: Plan, driver: Callable[..., Report] = evaluate, **more: Any) -> Report:
    """The report of trials that go as planned."""
    options = {"goldens": goldens(len(plan)), "metrics": [METRIC], "trials": len(plan[0]), **more}
    return driver(agent=agent_of(plan), **options)


def test_each_golden_is_run_this_often(driver: Callable[..., Report]) -> None:
    """Each time in a new conversation; rows are grouped by golden, with the trial number."""
    report = tried([[True, False, True], [True, True, True]], driver)
    ids = {case.case.run.conversation_id for case in report.cases}  # type: ignore[union-attr]

    assert [(case.index, case.golden, case.trial, case.name) for case in report.cases] == [
        *((place, 0, place + 1, "g0") for place in range(3)),
        *((place + 3, 1, place + 1, "g1") for place in range(3)),
    ]
    assert [case.label for case in report.cases][:2] == ["g0 (trial 1)", "g0 (trial 2)"]
    assert [case.results[0].passed for case in report.cases] == [True, False, True, True, True, True]
    assert len(ids) == 6
    assert report.trials == 3


@settings(few)
@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1)))
def test_k_trials_are_all_ways_to_choose_them(plan: Any) -> None:
    """pass@k and pass^k are the shares of choices of k trials with one pass and with all passes, averaged."""
    (summary,) = tried(plan).trial_summaries

    for k in range(1, len(plan[0]) + 1):
        some = [fmean(any(chosen) for chosen in combinations(trials, k)) for trials in plan]
        every = [fmean(all(chosen) for chosen in combinations(trials, k)) for trials in plan]
        assert summary.pass_at[k] == pytest.approx(fmean(some))
        assert summary.pass_hat[k] == pytest.approx(fmean(every))
        assert summary.counted[k] == len(plan)
    assert summary.pass_at[1] == pytest.approx(summary.pass_hat[1])
    assert [one.name for one in summary.flaky] == [
        f"g{place}" for place, trials in enumerate(plan) if len(set(trials)) > 1
    ]


def test_trials_that_were_not_measured_are_not_failed() -> None:
    """They are not counted; a golden with too few trials has no number, rather than 0."""
    report = tried([[True, None, None], [False, True, None], [None, None, None]])
    (summary,) = report.trial_summaries
    (totals,) = report.summaries

    assert (totals.passed, totals.failed, totals.errored) == (2, 1, 6)
    assert summary.goldens == 3
    assert summary.counted == {1: 2, 2: 1, 3: 0}
    assert summary.pass_at == {1: 0.75, 2: 1, 3: None}
    assert summary.pass_hat == {1: 0.75, 2: 0, 3: None}
    assert summary.flaky == (Flaky(name="g1", passed=1, scored=2),)
    assert summary.to_dict() == report.to_dict()["trial_summaries"][0]
    assert summary.to_dict()["pass_at"] == {"1": 0.75, "2": 1, "3": None}


def test_trials_of_a_golden_are_one_cluster() -> None:
    """In the intervals of a report, and in a comparison."""
    plan: Plan = [[True] * 3, [False] * 3, [True, True, False]]
    report = tried(plan)
    (summary,) = report.summaries
    scores = [float(bool(one)) for trials in plan for one in trials]
    clusters = [place for place in range(3) for _ in range(3)]

    assert summary.mean_interval == mean_interval(scores, clusters)
    assert summary.rate_interval == rate_interval([bool(one) for one in scores], clusters)
    assert summary.rate == summary.mean == pytest.approx(5 / 9)
    assert report.to_dict()["metrics"][0]["rate_interval"] == list(summary.rate_interval or ())


def test_trials_are_compared_by_number() -> None:
    """The second with the second, though the first is missing; goldens are the clusters."""
    before, after = tried([[True, True], [True, True]]), tried([[False, False], [True, False]])
    half = Report(after.metrics, tuple(case for case in after.cases if case.trial == 2), after.trials)
    (whole,), (part,) = compare(before, after).metrics, compare(before, half).metrics

    assert [change.label for change in whole.regressions] == ["g0", "g0 (2)", "g1 (2)"]
    assert [change.label for change in part.regressions] == ["g0 (2)", "g1 (2)"]
    assert whole.interval is not None
    assert whole.interval.clusters == 2
    assert compare(before, half).only_a == ("g0", "g1")
    assert compare(before, after).to_dict() == compare(before.to_dict(), after.to_dict()).to_dict()


def test_components_have_trials() -> None:
    """A trial of a component passes if it did each time; components of a golden are one cluster."""
    count = [0]

    @observe(metrics=[METRIC])
    def part(passes: bool) -> None:
        update_current_span(tools_called=[CALL] * passes, expected_tools=[CALL])

    @observe
    def app(_question: str) -> str:
        count[0] += 1
        part(True)
        part(count[0] != 2)
        return ""

    report = evaluate(goldens=goldens(2), observed_callback=app, trials=2, max_concurrency=1)
    (summary,) = report.trial_summaries

    assert [case.label for case in report.cases][:3] == [
        "g0 > part (trial 1)",
        "g0 > part #2 (trial 1)",
        "g0 > part (trial 2)",
    ]
    assert (summary.goldens, summary.pass_hat[2], summary.counted[2]) == (2, 0.5, 2)
    assert summary.flaky == (Flaky(name="g1 > part", passed=1, scored=2),)
    assert [case.cluster for case in report.cases] == [0] * 4 + [1] * 4


def test_one_trial_is_one(driver: Callable[..., Report]) -> None:
    """Asked once and reported as one; there is no summary of trials."""
    (summary,) = tried([[True], [False]], driver).trial_summaries

    assert (summary.trials, summary.pass_at, summary.flaky) == (1, {1: 0.5}, ())
    assert tried([[True]], driver, trials=None).trial_summaries == ()
    assert tried([[True]], driver, trials=None).cases[0].trial is None


@pytest.mark.parametrize("trials", [0, -1, 1.5, True, "3"])
def test_invalid_numbers_of_trials(driver: Callable[..., Report], trials: Any) -> None:
    """Before the agent is called."""
    with pytest.raises(ConfigurationError, match="trials must be a whole number of at least 1"):
        tried([[True]], driver, trials=trials)


def test_cases_have_no_trials(driver: Callable[..., Report]) -> None:
    """They are answers already."""
    with pytest.raises(ConfigurationError, match="trials needs goldens and an agent: test_cases are answers already"):
        driver(test_cases=[LLMTestCase()], metrics=[METRIC], trials=2)


@pytest.mark.parametrize(
    ("status", "score", "passed"),
    [
        ("scored", None, None),
        ("scored", 0.5, None),
        ("skipped", 0.5, None),
        ("errored", None, False),
        ("scored", float("nan"), True),
    ],
)
def test_a_result_that_contradicts_itself_is_none(status: str, score: float | None, passed: bool | None) -> None:
    """A third-party metric cannot put a wrong number into a mean or an unreadable line into a file."""

    class Own(ToolCorrectnessMetric):
        def measure(self, _case: Any, /) -> MetricResult:
            return MetricResult(metric="own", status=ResultStatus(status), threshold=0.5, score=score, passed=passed)

    (case,) = evaluate([LLMTestCase()], [Own()]).cases

    assert case.results[0].status is ResultStatus.ERRORED
    assert "the metric returned" in str(case.results[0].error)


def test_trials_in_a_test_are_noted_one_by_one(driver: Callable[..., Report]) -> None:
    """For the summary of a test run with goldens of several tests."""
    notes: list[dict[str, Any]] = []
    checks = Checks(notes.append)
    options: dict[str, Any] = {
        "goldens": goldens(1),
        "agent": agent_of([[True, False]]),
        "metrics": [METRIC],
        "trials": 2,
    }
    report = checks.evaluate(**options) if driver is evaluate else asyncio.run(checks.a_evaluate(**options))

    assert [note["case"]["label"] for note in notes] == ["g0 (trial 1)", "g0 (trial 2)"]
    assert [(note["case"]["trial"], "golden" in note["case"]) for note in notes] == [(1, False), (2, False)]
    assert report.trials == 2


def test_custom_metric_is_measured_next_to_the_agent() -> None:
    """When the agent has answered; it may run its own event loop and is never called concurrently."""
    inside: list[int] = []

    class Own:
        label, threshold = "own", 0.5

        def measure(self, case: LLMTestCase) -> MetricResult:
            inside.append(1)
            assert len(inside) == 1
            asyncio.run(asyncio.sleep(0.001))
            inside.pop()
            status = ResultStatus.SCORED
            return MetricResult(metric="own", status=status, threshold=0.5, score=float(bool(case.input)), passed=True)

    (summary,) = tried([[True] * 4] * 3, metrics=[Own()]).summaries

    assert (summary.passed, summary.errored) == (12, 0)


def test_judge_costs_are_summed() -> None:
    """Decided questions, usage, and the known part of the cost."""

    def result(*decisions: str | None, by: Any = "judge", **more: Any) -> MetricResult:
        questions = tuple(QuestionResult(criterion="arguments", decided_by=by, decision=one) for one in decisions)  # type: ignore[arg-type]
        unit = UnitResult(index=0, questions=questions)
        status = ResultStatus.SKIPPED
        return MetricResult(metric="m", status=status, threshold=0.5, units=(unit,), judge={"model": "x"}, **more)

    yes, no = (
        result("yes", usage={"requests": 2}, cost=0.5),
        result("no", None, "cannot_tell", usage={"requests": 1, "a": 3}),
    )
    paid, cached = result("yes", usage={"requests": 1}, cost=0.25), result("yes")

    summary = MetricSummary.of("m", [yes, no, result("yes", "no", by="code")])
    assert (summary.coverage, summary.usage, summary.cost) == (0.5, {"requests": 3, "a": 3}, None)
    assert MetricSummary.of("m", [yes, paid, cached]).cost == 0.75
    assert MetricSummary.of("m", [cached]).cost is None
    assert MetricSummary.of("m", [result("yes", by="code")]).coverage is None
    assert summary.to_dict()["coverage"] == 0.5
    assert "cost" not in MetricSummary.of("m", []).to_dict()


def test_a_score_out_of_range_has_no_interval() -> None:
    """A third-party metric may return one; the other parts of the report are complete."""
    results = [
        MetricResult(metric="m", status=ResultStatus.SCORED, threshold=0.5, score=score, passed=True)
        for score in (2, 1)
    ]
    summary = MetricSummary.of("m", results)

    assert (summary.mean, summary.mean_interval) == (1.5, None)
    assert summary.rate_interval == rate_interval([True, True])
