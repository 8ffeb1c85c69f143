"""Tool errors: the share of calls that succeeded, among those that succeeded or failed."""

from __future__ import annotations

from typing import Any

import pytest

from shorthand import calls_from
from toolgrade import (
    CallStatus,
    ConfigurationError,
    LLMTestCase,
    MetricAssertionError,
    MissingFieldError,
    ResultStatus,
    ToolCall,
    ToolErrorRate,
    ToolRecoveryMetric,
    assert_test,
    evaluate,
)


def measured(calls: str, **options: Any) -> Any:
    """The result of one case."""
    return ToolErrorRate(**options).measure(LLMTestCase(tools_called=calls_from(calls)))


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param("a:ok", 1, id="one, fine"),
        pytest.param("a:error", 0, id="one, failed"),
        pytest.param("a:ok b:error c:invalid_arguments d:unknown_tool", 1 / 4, id="three kinds of failures"),
        pytest.param("a:ok a:error a:ok", 2 / 3, id="of one tool"),
        pytest.param("a:ok b:rejected c:pending d:cancelled e:not_executed", 1, id="neither fine nor failed"),
        pytest.param("a:error b:rejected c:pending", 0, id="neither, beside a failure"),
        pytest.param("a:ok b", 1, id="one of which nothing is known"),
        pytest.param("a:rejected b:pending", None, id="none that succeeded or failed"),
        pytest.param("a b", None, id="nothing known at all"),
        pytest.param("", None, id="no call"),
    ],
)
def test_edges(calls: str, expected: float | None) -> None:
    """The score is succeeded / (succeeded + failed); where both are 0 there is none."""
    result = measured(calls)

    assert result.score == (None if expected is None else pytest.approx(expected))
    assert (result.status is ResultStatus.SKIPPED) == (expected is None)


@pytest.mark.parametrize("status", CallStatus)
def test_every_status_has_its_place(status: CallStatus) -> None:
    """A call succeeded, failed (with a finding), or is left out with a warning: exactly one of the three."""
    result = measured(f"a:{status.value} b:ok")

    failed = [finding.called for finding in result.findings] == [0]
    left_out = any(status.value in text for text in result.warnings)
    assert [status is CallStatus.OK, failed, left_out].count(True) == 1
    assert result.score == (0.5 if failed else 1)


def test_findings_and_reason() -> None:
    """Each failure has its status and error; omitted calls are listed."""
    result = measured("a:ok b:error=full c:pending d", max_rate=0.5)

    assert result.reason.split("\n") == [
        "succeeded: 1 / 2 calls = 0.5 (passed at 0.5).",
        "Failed: called #2 'b', error: full.",
        "Note: 1 call left out: 1 pending.",
        "Note: 1 call left out: their outcome was not recorded.",
    ]
    assert [(finding.kind, finding.tool) for finding in result.findings] == [("failed_call", "b")]


def test_calls_recorded_by_answer_only() -> None:
    """If the execution was not visible, the result warns that failures in text are not detected."""
    answered = {"name": "a", "output": "Error: no such flight", "execution": {"status": "ok"}}
    executed = {**answered, "execution": {"status": "ok", "executed": True}}
    warning = "2 calls recorded by the answer alone: a failure that only its text reports is not detected"

    for metric in (ToolErrorRate(), ToolRecoveryMetric()):
        assert metric.measure(LLMTestCase(tools_called=[answered, answered, executed])).warnings == (warning,)
        assert metric.measure(LLMTestCase(tools_called=[executed])).warnings == ()


def test_secrets_in_errors_stay_out_of_reasons() -> None:
    """The text of an error may contain secrets."""
    token = "ghp_" + "a1B2" * 9
    case = LLMTestCase(tools_called=[{"name": "a", "execution": {"status": "error", "error": f"401 for {token}"}}])
    result = ToolErrorRate().measure(case)

    assert "401" in str(result.reason)
    assert token not in str(result.reason) + str(result.findings)


@pytest.mark.parametrize(
    ("rate", "calls", "passed"),
    [
        (0, "a:ok", True),
        (0, "a:ok " * 99 + "a:error", False),
        (0.1, "a:ok " * 9 + "a:error", True),
        (0.1, "a:ok " * 8 + "a:error", False),
        (1, "a:error", True),
    ],
)
def test_the_rate_that_is_allowed(rate: float, calls: str, *, passed: bool) -> None:
    """It passes if at most this share of the calls failed."""
    result = measured(calls, max_rate=rate)

    assert (result.passed, result.threshold) == (passed, 1 - rate)
    assert measured(calls, max_rate=rate, strict_mode=True).passed == ("error" not in calls)


@pytest.mark.parametrize("rate", [-0.1, 1.1, "0", True, None, float("nan")])
def test_options_out_of_range(rate: Any) -> None:
    """A rate is a number from 0 to 1."""
    with pytest.raises(ConfigurationError, match="max_rate must be a number from 0 to 1"):
        ToolErrorRate(max_rate=rate)


def test_standard_metric_interfaces_work() -> None:
    """`evaluate` and `assert_test`; missing calls are an error."""
    cases = [LLMTestCase(tools_called=calls_from("a:ok")), LLMTestCase(tools_called=[]), LLMTestCase()]
    report = evaluate(cases, [ToolErrorRate()])

    assert [case.results[0].status.value for case in report.cases] == ["scored", "skipped", "errored"]
    assert_test(cases[1], [ToolErrorRate()])
    with pytest.raises(MetricAssertionError, match=r"tool_error_rate: succeeded: 0 / 1 call = 0 \(failed at 1\)"):
        assert_test(LLMTestCase(tools_called=calls_from("a:error")), [ToolErrorRate()])
    with pytest.raises(MissingFieldError, match="ToolErrorRate needs tools_called"):
        ToolErrorRate().measure(LLMTestCase())


def test_calls_inside_of_calls_do_not_count() -> None:
    """What a tool called is the tool's affair."""
    inner = ToolCall(name="b", execution={"status": "error"})
    outer = ToolCall(name="a", execution={"status": "ok", "children": [inner]})

    assert ToolErrorRate().measure(LLMTestCase(tools_called=[outer])).score == 1
