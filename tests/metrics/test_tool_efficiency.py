"""Tool efficiency: redundant calls and loops."""

from __future__ import annotations

from typing import Any

import pytest

from shorthand import calls_from
from toolgrade import (
    ConfigurationError,
    LLMTestCase,
    MetricAssertionError,
    ResultStatus,
    ToolCall,
    ToolEfficiencyMetric,
    assert_test,
    evaluate,
)
from toolgrade.redact import REDACTED


def measured(calls: str, **options: Any) -> Any:
    """The result of one case."""
    return ToolEfficiencyMetric(**options).measure(LLMTestCase(tools_called=calls_from(calls)))


def redundant(result: Any) -> list[int]:
    """Positions of the redundant calls."""
    return [finding.called for finding in result.findings if finding.kind == "redundant"]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param("a:ok a:ok", [1], id="the same again"),
        pytest.param("a:ok a:ok a:ok", [1, 2], id="each time again"),
        pytest.param("a a", [1], id="nothing known of what became of it"),
        pytest.param("a:error=x a:error=x a:error=x", [2], id="a retry after two equal failures"),
        pytest.param("a:error=x a:error=y a:error=z", [], id="failures that differ"),
        pytest.param("a:error=x a:error=y a:error=x a:ok", [3], id="two equal ones among others"),
        pytest.param("a:error=x a:invalid_arguments=x a:ok", [], id="failures of another kind"),
        pytest.param("a:error a:ok a:ok", [2], id="recovered, and then once more"),
        pytest.param("a:pending a:rejected a:cancelled a:not_executed a:ok", [], id="neither done nor failed before"),
        pytest.param("a(?):ok a(?):ok", [], id="arguments that were not recorded"),
    ],
)
def test_which_calls_are_redundant(calls: str, expected: list[int]) -> None:
    """A call is redundant if an identical one succeeded before, or failed twice alike."""
    assert redundant(measured(calls)) == expected


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param("a:ok a:ok b:ok", 2 / 3, id="useful over calls"),
        pytest.param("a(?):ok b:ok b:ok", 1 / 2, id="what cannot be compared is left out"),
        pytest.param("a(?):ok", None, id="nothing to compare"),
        pytest.param("", None, id="no call"),
    ],
)
def test_edges(calls: str, expected: float | None) -> None:
    """The score is the share of useful calls."""
    result = measured(calls)

    assert result.score == (None if expected is None else pytest.approx(expected))
    assert (result.status is ResultStatus.SKIPPED) == (expected is None)


def test_equal_answers_that_are_errors_are_failures() -> None:
    """As those with a status are: a retry is redundant after two equal ones."""
    calls = [ToolCall(name="a", output=f"Error: {text}", execution={"status": "ok"}) for text in "xyxx"]
    (finding,) = ToolEfficiencyMetric().measure(LLMTestCase(tools_called=calls)).findings

    assert (finding.called, "#1 and #3 were the same and failed (answered 'Error: x')" in finding.message) == (3, True)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param("a b " * 3, [(0, "3 times the same 2 calls")], id="three times two"),
        pytest.param("a b " * 6, [(0, "6 times the same 2 calls")], id="six times two is not three times four"),
        pytest.param("a(1) b a(2) b a(3) b", [], id="other arguments each time"),
        pytest.param("a(?) b a(?) b a(?) b", [], id="arguments that were not recorded"),
        pytest.param("a b " * 3 + "c d e " * 3, [(0, "3 times the same 2"), (6, "3 times the same 3")], id="two loops"),
    ],
)
def test_loops(calls: str, expected: list[tuple[int, str]]) -> None:
    """A block of at least two calls that stands three times in a row is a finding."""
    loops = [finding for finding in measured(calls).findings if finding.kind == "loop"]

    assert [finding.called for finding in loops] == [place for place, _ in expected]
    assert all(text in finding.message for finding, (_, text) in zip(loops, expected, strict=True))


def test_tools_that_ask_again_on_purpose() -> None:
    """Calls of repeatable tools are never redundant; a pattern names several; case counts."""
    calls = "status:ok status:ok get_x:ok get_x:ok book:ok book:ok"

    assert redundant(measured(calls)) == [1, 3, 5]
    assert redundant(measured(calls, repeatable=["status", "get_*"])) == [5]
    assert redundant(measured(calls, repeatable=["STATUS"])) == [1, 3, 5]


def test_redacted_arguments_may_be_any() -> None:
    """Two hidden values may be two values."""
    call = ToolCall(name="a", input_parameters={"api_key": REDACTED})
    result = ToolEfficiencyMetric().measure(LLMTestCase(tools_called=[call, call]))

    assert (result.status, result.warnings) == (
        ResultStatus.SKIPPED,
        ("2 calls left out: their arguments were not recorded or are redacted",),
    )


def test_findings_and_reason() -> None:
    """The reason has the calculation, and why each redundant call is redundant."""
    calls = "a:ok b:error=full a:ok b:error=full b:error=full"
    result = measured(calls)

    assert result.reason.split("\n") == [
        "useful: 3 / 5 calls = 0.6 (passed at 0.5).",
        "Redundant: called #3 'a', #1 was the same and succeeded.",
        "Redundant: called #5 'b', #2 and #4 were the same and failed (error: full).",
    ]
    assert result.parts == {"useful": 0.6}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repeatable": "status"}, "repeatable must be a list"),
        ({"repeatable": [""]}, "repeatable must be a list"),
        ({"threshold": 2}, "threshold"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    """The error names the option."""
    with pytest.raises(ConfigurationError, match=message):
        ToolEfficiencyMetric(**options)


def test_standard_metric_interfaces_work() -> None:
    """`evaluate` and `assert_test`; options appear in the label."""
    bad = LLMTestCase(tools_called=calls_from("a:ok a:ok a:ok"))
    report = evaluate([bad, LLMTestCase(tools_called=[]), LLMTestCase()], [ToolEfficiencyMetric()])

    assert [case.results[0].status.value for case in report.cases] == ["scored", "skipped", "errored"]
    with pytest.raises(MetricAssertionError, match=r"tool_efficiency: useful: 1 / 3 calls = 0.3333 \(failed at 0.5\)"):
        assert_test(bad, [ToolEfficiencyMetric()])
    assert ToolEfficiencyMetric(repeatable=["a"], strict_mode=True).label == "tool_efficiency(repeatable, strict)"


def test_long_and_deep_recordings() -> None:
    """Arguments may be as deep as they can be."""
    deep: Any = 1
    for _ in range(199):
        deep = {"k": deep}
    calls = [
        ToolCall(name=f"t{index % 100}", input_parameters={"v": deep} if index < 9 else {}) for index in range(300)
    ]
    result = ToolEfficiencyMetric().measure(LLMTestCase(tools_called=calls))

    assert result.score is not None
    assert result.score == pytest.approx((100 + 9) / 300)
