"""The fluent form of an evaluation, and the one that fails a test."""

import asyncio
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from toolgrade import (
    ArgumentSchemaMetric,
    ConfigurationError,
    Evaluator,
    InvalidDataError,
    LLMTestCase,
    MetricAssertionError,
    MetricResult,
    Report,
    ResultStatus,
    ToolCall,
    ToolCallParams,
    ToolCorrectnessMetric,
    ToolgradeError,
    assert_test,
    evaluate,
)

Runner = Callable[[Evaluator[Any]], Report]
ROWS = [("ab", "ab"), ("ba", "ab"), ("a", "ab"), ("", "ab")]


def to_case(row: tuple[str, str]) -> LLMTestCase:
    """Return a case of called and expected tools, one letter each."""
    called, expected = row
    return LLMTestCase(
        tools_called=[ToolCall(name=name) for name in called], expected_tools=[ToolCall(name=name) for name in expected]
    )


@pytest.fixture(params=["run", "run_async"])
def runner(request: pytest.FixtureRequest) -> Runner:
    """Parametrize both ways to run an evaluator."""
    if request.param == "run":
        return lambda evaluator: evaluator.run()
    return lambda evaluator: asyncio.run(evaluator.run_async())


@dataclass
class Fixed:
    """A metric that always answers the same."""

    result: MetricResult
    label: str = "fixed"
    threshold: float = 0.5

    def measure(self, _case: object) -> MetricResult:
        """Answers."""
        return self.result

    async def a_measure(self, _case: object) -> MetricResult:
        """Answers."""
        return self.result


SKIPPED = MetricResult(metric="fixed", status=ResultStatus.SKIPPED, threshold=0.5, reason="Nothing to look at.")


def test_data_of_any_shape_is_evaluated(runner: Runner) -> None:
    """What `to_case` makes of the data is measured in its order."""
    report = runner(Evaluator.from_data(ROWS, to_case).add_tool_correctness(should_consider_ordering=True))

    assert [entry.results[0].score for entry in report.cases] == [1, 0.5, 0.5, 0]
    assert report == evaluate([to_case(row) for row in ROWS], [ToolCorrectnessMetric(should_consider_ordering=True)])


def test_metrics_are_added_one_by_one(runner: Runner) -> None:
    """Every `add` gives the evaluator back, and the metrics keep their order."""
    evaluator = Evaluator.from_data(ROWS, to_case)

    assert evaluator.add_tool_correctness() is evaluator
    assert evaluator.add_tool_correctness_exact_match() is evaluator
    assert evaluator.add(Fixed(SKIPPED)) is evaluator
    report = runner(evaluator)
    assert report.metrics == ("tool_correctness", "tool_correctness(exact)", "fixed")
    assert [entry.results[1].score for entry in report.cases] == [1, 0, 0, 0]
    assert report.summaries[2].skipped == 4


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({"should_consider_ordering": True}, ToolCorrectnessMetric(should_consider_ordering=True)),
        ({"threshold": 0.9}, ToolCorrectnessMetric(threshold=0.9)),
        ({"evaluation_params": ["output"]}, ToolCorrectnessMetric(evaluation_params=[ToolCallParams.OUTPUT])),
        ({"evaluation_params": []}, ToolCorrectnessMetric(evaluation_params=[])),
        ({"should_exact_match": True}, ToolCorrectnessMetric(should_exact_match=True)),
        ({"denominator": "longest"}, ToolCorrectnessMetric(denominator="longest")),
        ({"include_reason": False}, ToolCorrectnessMetric(include_reason=False)),
        ({"strict_mode": True}, ToolCorrectnessMetric(strict_mode=True)),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_every_option_reaches_the_metric(options: dict[str, Any], same: ToolCorrectnessMetric) -> None:
    """An option of `add_tool_correctness` does what the metric's option of that name does."""
    report = Evaluator.from_data(ROWS, to_case).add_tool_correctness(**options).run()

    assert report == evaluate([to_case(row) for row in ROWS], [same])


def test_options_may_be_positional() -> None:
    """In the order of the library that defines this interface."""
    data = Evaluator.from_data(ROWS, to_case)
    report = data.add_tool_correctness(True, 0.75, ["tool"]).add_tool_correctness_exact_match(0.25, []).run()

    assert report.metrics == ("tool_correctness(ordered)", "tool_correctness(exact)")
    assert [summary.threshold for summary in report.summaries] == [0.75, 0.25]


def test_the_data_may_come_from_a_generator(runner: Runner) -> None:
    """Items are drawn when it runs, once each."""
    drawn: list[str] = []

    def rows() -> Any:
        for row in ROWS:
            drawn.append(row[0])
            yield row

    evaluator = Evaluator.from_data(rows(), to_case).add_tool_correctness()
    assert drawn == []
    assert len(runner(evaluator).cases) == 4
    assert drawn == ["ab", "ba", "a", ""]


def test_an_evaluator_runs_again(runner: Runner) -> None:
    """Running changes nothing, so a second run gives an equal report."""
    evaluator = Evaluator.from_data(ROWS, to_case).add_tool_correctness()

    assert runner(evaluator) == runner(evaluator)


def test_a_broken_to_case_names_the_item(runner: Runner) -> None:
    """The user function's exception is the cause of an error that names the item."""
    evaluator = Evaluator.from_data([*ROWS, ("x",)], to_case).add_tool_correctness()  # type: ignore[list-item]

    with pytest.raises(InvalidDataError, match="to_case raised ValueError on item 4 of the data: not enough") as raised:
        runner(evaluator)
    assert isinstance(raised.value.__cause__, ValueError)


def test_metrics_and_data_are_required(runner: Runner) -> None:
    """Both are named."""
    with pytest.raises(ConfigurationError, match="at least one metric"):
        runner(Evaluator.from_data(ROWS, to_case))
    with pytest.raises(ConfigurationError, match="at least one case"):
        runner(Evaluator.from_data([], to_case).add_tool_correctness())


def test_invalid_metric_is_refused_when_added() -> None:
    """Before the run."""
    with pytest.raises(ConfigurationError, match="is not a metric"):
        Evaluator.from_data(ROWS, to_case).add("tool_correctness")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="threshold must be a number from 0 to 1"):
        Evaluator.from_data(ROWS, to_case).add_tool_correctness(threshold=1.5)


def test_a_passing_test_returns_its_results() -> None:
    """In the order of the metrics."""
    metrics = [ToolCorrectnessMetric(), ToolCorrectnessMetric(denominator="f1"), Fixed(SKIPPED)]
    results = assert_test(to_case(("a", "a")), metrics)

    assert [result.score for result in results] == [1, 1, None]


def test_a_failing_test_raises_with_the_reasons() -> None:
    """A line with the calculation and one for each finding, for each failed metric only."""
    metrics = [
        ToolCorrectnessMetric(),
        ToolCorrectnessMetric(denominator="called", threshold=1),
        ToolCorrectnessMetric(should_exact_match=True),
    ]
    with pytest.raises(MetricAssertionError) as raised:
        assert_test(to_case(("ab", "a")), metrics)

    assert str(raised.value) == (
        "tool_correctness(denominator=called): 1 matched / 2 called = 0.5 (failed at 1).\n"
        "Unexpected: called #2 'b'.\n"
        "tool_correctness(exact): 1 expected and 2 called, not the same call by call = 0 (in order, 1 matched) "
        "(failed at 0.5).\n"
        "Unexpected: called #2 'b'."
    )


def test_a_failed_test_is_an_assertion_error() -> None:
    """Test runners show it as a failure, and `except ToolgradeError` catches it as well."""
    with pytest.raises(AssertionError) as raised:
        assert_test(to_case(("b", "a")), [ToolCorrectnessMetric()])

    assert isinstance(raised.value, ToolgradeError)


def test_without_reasons_the_score_is_reported() -> None:
    """A failure without a reason still shows its score."""
    with pytest.raises(MetricAssertionError, match=r"^tool_correctness: score 0\.3333 is below the threshold 0\.5$"):
        assert_test(to_case(("a", "abc")), [ToolCorrectnessMetric(include_reason=False)])


def test_a_case_that_cannot_be_measured_fails_the_test() -> None:
    """A gate that could not look does not let through."""
    with pytest.raises(MetricAssertionError, match="Not measured: ToolCorrectnessMetric needs tools_called"):
        assert_test(LLMTestCase(expected_tools=[]), [ToolCorrectnessMetric()])
    with pytest.raises(MetricAssertionError, match="Skipped: ToolCorrectnessMetric needs expected_tools"):
        assert_test(LLMTestCase(tools_called=[]), [ToolCorrectnessMetric()])


def test_a_test_needs_a_metric() -> None:
    """A gate without a metric would let everything through."""
    with pytest.raises(ConfigurationError, match="at least one metric"):
        assert_test(to_case(("a", "a")), [])


def test_a_test_may_run_inside_a_loop() -> None:
    """Asynchronous tests use the same function."""

    async def inside() -> float | None:
        return assert_test(to_case(("a", "a")), [ToolCorrectnessMetric()])[0].score

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asyncio.run(inside()) == 1


@pytest.mark.parametrize("value", ["false", "ordered", 1, None, ToolCorrectnessMetric])
def test_flags_are_true_or_false(value: Any) -> None:
    """A truthy value of another type is a mistake, such as a text from a configuration file."""
    with pytest.raises(ConfigurationError, match=r"strict_mode must be True or False, got"):
        ToolCorrectnessMetric(strict_mode=value)
    with pytest.raises(ConfigurationError, match=r"verbose_mode must be True or False, got"):
        ToolCorrectnessMetric(verbose_mode=value)
    with pytest.raises(ConfigurationError, match=r"formats must be True or False, got"):
        ArgumentSchemaMetric(formats=value)
    with pytest.raises(ConfigurationError):
        Evaluator.from_data(ROWS, to_case).add_tool_correctness(value)
