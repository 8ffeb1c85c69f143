"""The form of an evaluation that fails a test."""

import asyncio
import warnings
from dataclasses import dataclass
from typing import Any

import pytest

from toolgrade import (
    ArgumentSchemaMetric,
    ConfigurationError,
    LLMTestCase,
    MetricAssertionError,
    MetricResult,
    ResultStatus,
    ToolCall,
    ToolCorrectnessMetric,
    ToolgradeError,
    assert_test,
)


def to_case(row: tuple[str, str]) -> LLMTestCase:
    """Return a case of called and expected tools, one letter each."""
    called, expected = row
    return LLMTestCase(
        tools_called=[ToolCall(name=name) for name in called], expected_tools=[ToolCall(name=name) for name in expected]
    )


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
