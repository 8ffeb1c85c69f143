"""Tool success: the share of calls that succeeded, among those that succeeded or failed."""

from __future__ import annotations

from typing import Any

import pytest

from shorthand import calls_from
from toolgrade import (
    CallStatus,
    Finding,
    LLMTestCase,
    MetricAssertionError,
    MissingFieldError,
    ResultStatus,
    ToolCall,
    ToolRecoveryMetric,
    ToolSuccessRate,
    assert_test,
    evaluate,
)


def measured(calls: str, **options: Any) -> Any:
    """The result of one case."""
    return ToolSuccessRate(**options).measure(LLMTestCase(tools_called=calls_from(calls)))


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
    result = measured("a:ok b:error=full c:pending d", threshold=0.5)

    assert result.reason.split("\n") == [
        "succeeded: 1 / 2 calls = 0.5 (passed at 0.5).",
        "Failed: called #2 'b', error: full.",
        "Note: 1 call left out: 1 pending.",
        "Note: 1 call left out: their outcome was not recorded.",
    ]
    assert [(finding.kind, finding.tool) for finding in result.findings] == [("failed_call", "b")]


def test_calls_recorded_by_answer_only() -> None:
    """If the execution was not visible, the result warns that failures in words of their own are not detected."""
    answered = {"name": "a", "output": "no such flight", "execution": {"status": "ok"}}
    executed = {**answered, "execution": {"status": "ok", "executed": True}}
    warning = "2 calls recorded by the answer alone: a failure in words of its own is not detected"

    for metric in (ToolSuccessRate(), ToolRecoveryMetric()):
        assert metric.measure(LLMTestCase(tools_called=[answered, answered, executed])).warnings == (warning,)
        assert metric.measure(LLMTestCase(tools_called=[executed])).warnings == ()


@pytest.mark.parametrize("execution", [None, {"status": "ok"}, {"status": "ok", "executed": True}])
def test_an_answer_that_is_an_error_is_a_failure_from_any_source(execution: Any) -> None:
    """A tool that is down is red, whether messages, a person or an adapter recorded it."""
    fields = {} if execution is None else {"execution": execution}
    down, up = ({"name": "a", "output": output, **fields} for output in ("Error: 500", "done"))
    result = ToolSuccessRate().measure(LLMTestCase(tools_called=[down, up]))

    assert (result.score, result.passed) == (0.5, False)
    message = "Error text: called #1 'a' answered 'Error: 500'."
    assert result.findings == (Finding("error_text", message, "a", called=0),)


def test_secrets_in_errors_stay_out_of_reasons() -> None:
    """The text of an error may contain secrets."""
    token = "ghp_" + "a1B2" * 9
    case = LLMTestCase(tools_called=[{"name": "a", "execution": {"status": "error", "error": f"401 for {token}"}}])
    result = ToolSuccessRate().measure(case)

    assert "401" in str(result.reason)
    assert token not in str(result.reason) + str(result.findings)


def test_standard_metric_interfaces_work() -> None:
    """`evaluate` and `assert_test`; missing calls are an error."""
    cases = [LLMTestCase(tools_called=calls_from("a:ok")), LLMTestCase(tools_called=[]), LLMTestCase()]
    report = evaluate(cases, [ToolSuccessRate()])

    assert [case.results[0].status.value for case in report.cases] == ["scored", "skipped", "errored"]
    with pytest.raises(MetricAssertionError, match="no call was made"):
        assert_test(cases[1], [ToolSuccessRate()])
    with pytest.raises(MetricAssertionError, match=r"tool_success_rate: succeeded: 0 / 1 call = 0 \(failed at 1\)"):
        assert_test(LLMTestCase(tools_called=calls_from("a:error")), [ToolSuccessRate()])
    with pytest.raises(MissingFieldError, match="ToolSuccessRate needs tools_called"):
        ToolSuccessRate().measure(LLMTestCase())


def test_calls_inside_of_calls_do_not_count() -> None:
    """What a tool called is the tool's affair."""
    inner = ToolCall(name="b", execution={"status": "error"})
    outer = ToolCall(name="a", execution={"status": "ok", "children": [inner]})

    assert ToolSuccessRate().measure(LLMTestCase(tools_called=[outer])).score == 1
