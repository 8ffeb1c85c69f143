"""Evaluation: one report out of cases and metrics, whichever way it was asked for."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from math import fsum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import case_fields
from toolgrade import (
    BudgetMetric,
    ConfigurationError,
    LLMTestCase,
    MetricResult,
    Report,
    ResultStatus,
    ToolCall,
    ToolCorrectnessMetric,
    evaluate,
    evaluate_async,
)
from toolgrade.errors import MissingExpectationError, MissingFieldError
from toolgrade.report.terminal import print_report
from toolgrade.report.terminal.console import make_console

Driver = Callable[..., Report]


def awaited(*arguments: Any, **options: Any) -> Report:
    """Return the report of `evaluate_async` from a new event loop."""
    return asyncio.run(evaluate_async(*arguments, **options))


@pytest.fixture(params=[evaluate, awaited], ids=["evaluate", "evaluate_async"])
def driver(request: pytest.FixtureRequest) -> Driver:
    """Parametrize both ways to evaluate, which must behave the same."""
    value: Driver = request.param
    return value


def case(called: str | None, expected: str | None, **fields: Any) -> LLMTestCase:
    """A case whose tools are named by the letters of a text; `None` leaves them out."""
    for name, text in (("tools_called", called), ("expected_tools", expected)):
        if text is not None:
            fields[name] = [ToolCall(name=letter) for letter in text]
    return LLMTestCase(**fields)


def scored(metric: str, score: float, threshold: float = 0.5) -> MetricResult:
    """A result as a metric of one's own would make it."""
    passed = score >= threshold
    return MetricResult(metric=metric, status=ResultStatus.SCORED, threshold=threshold, score=score, passed=passed)


@dataclass
class OwnMetric:
    """A metric of a user's own, that knows nothing of toolgrade but the result."""

    answer: Callable[[Any], Any]
    label: str = "own"
    threshold: float = 0.5
    heard: list[str] = field(default_factory=list)

    def measure(self, case: Any) -> Any:
        """Return a result immediately."""
        self.heard.append("measure")
        return self.answer(case)

    async def a_measure(self, case: Any) -> Any:
        """Answers after others had their turn."""
        self.heard.append("a_measure")
        await asyncio.sleep(0)
        return self.answer(case)


def raise_an_error(_case: Any) -> MetricResult:
    """What a broken metric does."""
    raise RuntimeError("the tape is torn")


def skip(_case: Any) -> MetricResult:
    """What a metric answers to a question that does not apply."""
    return MetricResult(metric="own", status=ResultStatus.SKIPPED, threshold=0.5, reason="No call to look at.")


def test_every_case_is_measured_by_every_metric(driver: Driver) -> None:
    """Results keep the order of cases and, within a case, of metrics."""
    metrics = [
        ToolCorrectnessMetric(),
        ToolCorrectnessMetric(denominator="called"),
        ToolCorrectnessMetric(denominator="longest"),
    ]
    report = driver([case("a", "a"), case("ab", "a"), case("b", "a")], metrics)

    scores = [[result.score for result in entry.results] for entry in report.cases]
    assert scores == [[1, 1, 1], [1, 0.5, 0.5], [0, 0, 0]]
    assert [entry.index for entry in report.cases] == [0, 1, 2]
    assert report.metrics == (
        "tool_correctness",
        "tool_correctness(denominator=called)",
        "tool_correctness(denominator=longest)",
    )


def test_a_case_that_cannot_be_measured_does_not_lose_the_others(driver: Driver) -> None:
    """It becomes a result that names the field, without a score."""
    report = driver([case("a", "a"), case(None, "a", id="seven"), case("a", "a")], [ToolCorrectnessMetric()])

    first, second, third = (entry.results[0] for entry in report.cases)
    assert first.passed
    assert third.passed
    assert second.status is ResultStatus.ERRORED
    assert second.score is None
    assert second.passed is None
    assert second.reason == (
        "Not measured: ToolCorrectnessMetric needs tools_called of case 'seven'; give the calls, or [] for none"
    )
    assert second.error is not None
    assert second.error.startswith("MissingFieldError: ")


def test_a_case_that_states_no_expectation_is_skipped(driver: Driver) -> None:
    """It is not measured, unless another metric applies."""
    cases = [case("a", "a"), case("a", None, id="seven")]
    alone, beside = (driver(cases, [ToolCorrectnessMetric(), *more]) for more in ([], [BudgetMetric(max_calls=1)]))

    result = alone.cases[1].results[0]
    assert (result.status, result.error) == (ResultStatus.SKIPPED, None)
    assert result.reason == (
        "Skipped: ToolCorrectnessMetric needs expected_tools of case 'seven'; give the calls, or [] for none"
    )
    assert ([one.outcome for one in alone.cases], alone.passed) == (["passed", "not_measured"], False)
    assert ([one.outcome for one in beside.cases], beside.passed) == (["passed", "passed"], True)


@pytest.mark.parametrize("stranger", [None, 42, "text", {"tools_called": []}, object()], ids=type)
def test_item_that_is_not_a_case_is_a_errored_result(driver: Driver, stranger: Any) -> None:
    """It is reported, and the report can still be written and shown."""
    report = driver([stranger, case("a", "a")], [ToolCorrectnessMetric()])

    assert [entry.results[0].status for entry in report.cases] == [ResultStatus.ERRORED, ResultStatus.SCORED]
    assert type(stranger).__name__ in str(report.cases[0].results[0].error)
    assert report.cases[0].label == "#1"
    json.loads(report.to_json())
    print_report(report, title="strangers", console=make_console())


def test_a_metric_that_raises_is_a_errored_result(driver: Driver) -> None:
    """A broken metric affects only its own results."""
    report = driver([case("a", "a"), case("a", "a")], [OwnMetric(raise_an_error), ToolCorrectnessMetric()])

    assert [entry.results[0].error for entry in report.cases] == ["RuntimeError: the tape is torn"] * 2
    assert report.summaries[0].errored == 2
    assert report.summaries[1].passed == 2


def test_a_metric_of_ones_own_takes_part(driver: Driver) -> None:
    """Whatever has a label, a threshold and the right method is a metric; each driver asks for its own method."""
    metric = OwnMetric(lambda case: scored("own", 1.0 if case.tools_called else 0.0))
    report = driver([case("a", ""), case("", "")], [metric])

    assert [entry.results[0].score for entry in report.cases] == [1, 0]
    assert metric.heard == ["measure" if driver is evaluate else "a_measure"] * 2


@pytest.mark.parametrize("answer", [None, 0.5, True, {"score": 1}], ids=repr)
def test_metric_without_a_result_is_reported(driver: Driver, answer: object) -> None:
    """A bare number is not a result; the case fails with an explanation."""
    report = driver([case("a", "a")], [OwnMetric(lambda _: answer), ToolCorrectnessMetric()])

    failed, fine = report.cases[0].results
    assert failed.status is ResultStatus.ERRORED
    assert f"must return a MetricResult, got {type(answer).__name__} {answer!r}" in str(failed.reason)
    assert fine.passed


def test_equal_metrics_are_numbered(driver: Driver) -> None:
    """Two metrics of one name do not hide each other's results."""
    report = driver([case("a", "a")], [ToolCorrectnessMetric(), ToolCorrectnessMetric(), ToolCorrectnessMetric()])

    assert report.metrics == ("tool_correctness", "tool_correctness #2", "tool_correctness #3")
    assert tuple(result.metric for result in report.cases[0].results) == report.metrics
    assert [plain["metric"] for plain in report.to_dict()["metrics"]] == list(report.metrics)


def test_cases_may_come_one_by_one(driver: Driver) -> None:
    """Any iterable of cases will do, and metrics may be a tuple."""
    report = driver((case(name, "a") for name in "ab"), (ToolCorrectnessMetric(),))

    assert [entry.results[0].score for entry in report.cases] == [1, 0]


@pytest.mark.parametrize(
    ("cases", "metrics", "message"),
    [
        ([], [ToolCorrectnessMetric()], "test_cases must have at least one case, got none"),
        (case("a", "a"), [ToolCorrectnessMetric()], "test_cases must be a list of cases, or files, got LLMTestCase"),
        (b"cases", [ToolCorrectnessMetric()], "test_cases must be a list of cases, or files, got bytes"),
        ({"tools_called": []}, [ToolCorrectnessMetric()], "test_cases must be a list of cases, or files, got dict"),
        (None, [ToolCorrectnessMetric()], "test_cases must be a list of cases, or files, got NoneType"),
        ([case("a", "a")], [], "metrics must be a list of at least one metric"),
        ([case("a", "a")], ToolCorrectnessMetric(), "metrics must be a list of at least one metric"),
        ([case("a", "a")], [ToolCorrectnessMetric], r"did you mean ToolCorrectnessMetric\(\)\?"),
        (
            [case("a", "a")],
            ["tool_correctness"],
            "'tool_correctness' is not a metric: missing attribute\\(s\\) label, threshold, ",
        ),
    ],
    ids=["no-case", "one-case", "text", "dict", "nothing", "no-metric", "one-metric", "class", "name"],
)
def test_invalid_arguments_are_refused(driver: Driver, cases: Any, metrics: Any, message: str) -> None:
    """Obvious mistakes raise before anything is measured."""
    with pytest.raises(ConfigurationError, match=message):
        driver(cases, metrics)


def test_evaluate_works_inside_a_running_loop() -> None:
    """The synchronous form needs no loop, so one that runs does not disturb it (think of notebooks)."""

    async def inside() -> Report:
        return evaluate([case("a", "a")], [ToolCorrectnessMetric()])

    assert asyncio.run(inside()).passed


def test_concurrent_tasks_keep_their_results() -> None:
    """One metric object can serve many tasks; each report has its own cases."""
    slow = OwnMetric(lambda case: scored("own", len(case.tools_called) / 8))
    metric = ToolCorrectnessMetric()

    async def one(size: int) -> Report:
        return await evaluate_async([case("a" * size, "a" * 8)] * 5, [metric, slow])

    async def many() -> list[Report]:
        return await asyncio.gather(*(one(size) for size in range(1, 9)))

    for size, report in enumerate(asyncio.run(many()), start=1):
        assert {result.score for _, result in report.results()} == {size / 8}


def test_a_cancelled_evaluation_stops() -> None:
    """Cancelling the task cancels the measurement it waits for."""
    ended: list[str] = []

    class Endless(OwnMetric):
        async def a_measure(self, case: Any) -> Any:
            """Wait until released."""
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(case.id)

    async def cancel() -> None:
        task = asyncio.create_task(evaluate_async([case("a", "a", id="first")], [Endless(skip)]))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert ended == ["first"]


@given(st.lists(case_fields.map(lambda fields: LLMTestCase(**fields)), min_size=1, max_size=4))
def test_a_report_is_the_sum_of_its_measurements(cases: list[LLMTestCase]) -> None:
    """Whatever the cases: both drivers agree, the counts add up, and the mean is that of the single scores."""
    metrics = [ToolCorrectnessMetric(evaluation_params=["input_parameters"], denominator="f1")]
    report = evaluate(cases, metrics)

    assert report == awaited(cases, metrics)
    summary = report.summaries[0]
    assert summary.passed + summary.failed + summary.skipped + summary.errored == len(cases)
    alone = [measured_alone(metrics[0], one) for one in cases]
    scores = [one for one in alone if not isinstance(one, str)]
    assert summary.mean == (fsum(scores) / len(scores) if scores else None)
    assert [entry["results"][0]["status"] for entry in json.loads(report.to_json())["cases"]] == [
        one if isinstance(one, str) else "scored" for one in alone
    ]


def measured_alone(metric: ToolCorrectnessMetric, case: LLMTestCase) -> float | str:
    """The score of a case, or the status that it has without one."""
    try:
        return float(metric.measure(case))
    except MissingExpectationError:
        return "skipped"
    except MissingFieldError:  # there are no calls, or they have no turns where the expected ones have some
        return "errored"
