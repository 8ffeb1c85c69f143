"""Calls that failed and were expected: the reason says so, and tables count each call once."""

from __future__ import annotations

from typing import Any

import pytest

from toolgrade import (
    LLMTestCase,
    TaskSuccessMetric,
    ToolCall,
    ToolCorrectnessMetric,
    ToolPolicyMetric,
    ToolSuccessRate,
    evaluate,
)
from toolgrade.expect import Expect, Forbid, Plan
from toolgrade.report.text.breakdown import problem_rows

TIMEOUT: Any = {"status": "error", "error": "TimeoutError: 30 s"}
FAILED = ToolCall(name="refund", input_parameters={"order": 7}, execution=TIMEOUT)
EXPECTED = [ToolCall(name="refund", input_parameters={"order": 7})]


def test_a_failed_call_counts_as_made_and_the_reason_says_that_it_failed() -> None:
    """Without `ignore_failed`; a call that nothing expects needs no such note."""
    case = LLMTestCase(tools_called=[FAILED, FAILED.model_copy(update={"name": "other"})], expected_tools=EXPECTED)
    result = ToolCorrectnessMetric().measure(case)

    text = "called #1 'refund', which was expected, failed (error: TimeoutError: 30 s)"
    assert (result.score, result.warnings) == (1, (text,))
    assert f"Note: {text}." in (result.reason or "")


@pytest.mark.parametrize(
    "metric",
    [ToolCorrectnessMetric(ignore_failed=True), TaskSuccessMetric(effects={"refund": "write"})],
    ids=["tool_correctness", "task_success"],
)
@pytest.mark.parametrize("expected", [EXPECTED, Plan(EXPECTED), Plan([Expect("refund", {"order": 7})])], ids=repr)
def test_a_failed_call_that_is_left_out_is_not_called_missing(metric: Any, expected: Any) -> None:
    """It was made; the second expected call was not."""
    twice = [*expected, *expected] if isinstance(expected, list) else Plan([*expected.calls, *expected.calls])
    result = metric.measure(LLMTestCase(tools_called=[FAILED], expected_tools=twice))

    assert [(finding.kind, finding.called) for finding in result.findings] == [("failed_call", 0), ("missing", None)]
    assert [finding.message for finding in result.findings] == [
        "Missing: expected #1 'refund' was called as #1, which failed (error: TimeoutError: 30 s).",
        "Missing: expected #2 'refund' was not called.",
    ]


def test_a_read_that_failed_and_a_call_that_was_refused() -> None:
    """What a person or a policy refused did not fail."""
    refused: Any = {"status": "rejected", "error": "too much"}
    calls = [ToolCall(name="look", execution=TIMEOUT), ToolCall(name="refund", execution=refused)]
    metric = TaskSuccessMetric(effects={"refund": "write", "look": "read"})
    expected = [ToolCall(name="look"), ToolCall(name="refund")]
    result = metric.measure(LLMTestCase(tools_called=calls, expected_tools=expected))

    assert [(finding.kind, finding.message) for finding in result.findings] == [
        ("missing", "Missing: expected #2 'refund' was called as #2, which was not done (rejected: too much)."),
        (
            "failed_call",
            "Missing read: expected #1 'look' was called as #1, which failed (error: TimeoutError: 30 s).",
        ),
    ]


def test_a_call_counts_once_in_a_table_whatever_is_wrong_with_it() -> None:
    """Not allowed before failed before unexpected, in the findings of all metrics together."""
    metrics = [
        ToolCorrectnessMetric(),
        TaskSuccessMetric(effects={"*": "write"}),
        ToolSuccessRate(),
        ToolPolicyMetric(denied=["pay"]),
    ]
    names = ["pay", "refund", "other", "mail"]
    called = [ToolCall(name=name, execution=None if name == "other" else TIMEOUT) for name in names]
    plan = Plan([*EXPECTED, Forbid("pay"), Forbid("mail")])
    report = evaluate([LLMTestCase(tools_called=called, expected_tools=plan)], metrics, show_progress=False)

    assert sorted(problem_rows(report)) == [
        ("mail", 1, "1 not allowed"),
        ("other", 1, "1 unexpected"),
        ("pay", 1, "1 not allowed"),
        ("refund", 1, "1 failed"),
    ]
