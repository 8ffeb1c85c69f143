"""Tool recovery: what followed each failure."""

from __future__ import annotations

from typing import Any

import pytest

from shorthand import calls_from
from toolgrade import (
    LLMTestCase,
    MetricAssertionError,
    ResultStatus,
    ToolCall,
    ToolRecoveryMetric,
    assert_test,
    evaluate,
)


def measured(calls: str, **options: Any) -> Any:
    """The result of one case."""
    return ToolRecoveryMetric(**options).measure(LLMTestCase(tools_called=calls_from(calls)))


@pytest.mark.parametrize(
    ("calls", "expected", "kinds"),
    [
        pytest.param("a:error a:ok", 1, "", id="an unchanged retry that succeeded"),
        pytest.param("a:error b:ok a:ok", 1, "", id="something else in between"),
        pytest.param("a:error", 0, "abandoned", id="never tried again"),
        pytest.param("a:error b:ok", 0, "abandoned", id="another tool is no recovery"),
        pytest.param("a(1):error a(1):error", 0, "repeated", id="the same once more"),
        pytest.param(
            "a(1):error a(1):invalid_arguments a(1):error", 0, "abandoned", id="text that is no JSON is other"
        ),
        pytest.param("a(?):error a(?):error", 0, "abandoned", id="arguments that were not recorded may be others"),
        pytest.param("a:error a:ok a:error", 1 / 2, "abandoned", id="two episodes"),
        pytest.param("b:error a:error", 0, "abandoned abandoned", id="told in the order of the calls"),
        pytest.param("x:unknown_tool a:ok", 1, "", id="an unknown tool, and then one that exists"),
        pytest.param("x:unknown_tool a:error", 0, "abandoned abandoned", id="an unknown tool, and another failure"),
        pytest.param("x:unknown_tool x:unknown_tool", 0, "repeated", id="an unknown tool, twice"),
        pytest.param("a:error a:cancelled a:not_executed", 0, "abandoned", id="a retry that never ran"),
        pytest.param("a:error b:error a:pending", 0, "abandoned", id="a retry that waits is left out"),
        pytest.param("a:error a:pending a:ok", 1, "", id="a retry that waited, and another that succeeded"),
        pytest.param("a:error a", 0, "abandoned", id="a call of which nothing is known is no success"),
        pytest.param("a:error a:pending", None, "", id="only a retry that waits"),
        pytest.param("a:ok b:ok", None, "", id="no failure"),
        pytest.param("a:rejected", None, "", id="rejected is no failure"),
        pytest.param("", None, "", id="no call"),
    ],
)
def test_edges(calls: str, expected: float | None, kinds: str) -> None:
    """The score is recovered episodes over episodes; each of the others has a finding at its last failure."""
    result = measured(calls)

    assert result.score == (None if expected is None else pytest.approx(expected))
    assert (result.status is ResultStatus.SKIPPED) == (expected is None)
    assert [finding.kind for finding in result.findings] == kinds.split()


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param("a(1):error@0 a(2):ok@0", 0, id="asked together: no answer to the failure"),
        pytest.param("a(1):error@0 a(2):ok@1", 1, id="asked after it"),
        pytest.param("a(1):error@0 a(2):ok@0 a(3):error@0 a(3):ok@1", 1, id="a success between does not part them"),
        pytest.param("x:unknown_tool@0 a:ok@0", 0, id="an unknown tool beside one that exists"),
    ],
)
def test_calls_of_one_message(calls: str, expected: float) -> None:
    """Calls that the model requested in parallel do not recover from each other."""
    assert measured(calls).score == expected


def test_findings_and_reason() -> None:
    """Each unrecovered failure is named with its last call and error."""
    result = measured("a(1):error=full b:error=late a(1):error=full c:error c:ok d:error d:pending", threshold=1 / 3)

    assert result.reason.split("\n") == [
        "recovered: 1 / 3 failures = 0.3333 (passed at 0.333333).",
        "Repeated: called #3 'a' is the last of 2 identical calls that failed (error: full).",
        "Abandoned: called #2 'b', error: late.",
        "Note: 1 failure left out: a call that tries again is pending.",
    ]
    assert [(finding.tool, finding.called) for finding in result.findings] == [("a", 2), ("b", 1)]
    assert "after 2 failures, the last error: late" in measured("a(1):error a(2):error=late").reason


def test_what_was_not_counted_is_said() -> None:
    """A failure whose only retry is pending is skipped with that reason; calls without a status are a warning."""
    pending = measured("a:error a:pending")
    assert pending.status is ResultStatus.SKIPPED
    assert str(pending.reason).startswith("Skipped: the only retries are pending.\n")

    recovered = LLMTestCase(tools_called=[*calls_from("a:error a:ok"), ToolCall(name="b")])
    warnings = ToolRecoveryMetric().measure(recovered).warnings
    assert [text for text in warnings if "outcome was not recorded" in text] == [
        "1 call left out: their outcome was not recorded"
    ]


def test_standard_metric_interfaces_work() -> None:
    """`evaluate` and `assert_test`; strict mode requires recovery from every failure."""
    half = LLMTestCase(tools_called=calls_from("a:error a:ok b:error"))
    report = evaluate([half, LLMTestCase(tools_called=calls_from("a:ok")), LLMTestCase()], [ToolRecoveryMetric()])

    assert [case.results[0].status.value for case in report.cases] == ["scored", "skipped", "errored"]
    assert report.cases[0].results[0].passed
    with pytest.raises(
        MetricAssertionError, match=r"tool_recovery\(strict\): recovered: 1 / 2 failures = 0.5, strict: 0"
    ):
        assert_test(half, [ToolRecoveryMetric(strict_mode=True)])
