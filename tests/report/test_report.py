"""Reports as data: counts, means, and written fields."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import (
    CaseResult,
    Finding,
    LLMTestCase,
    MetricResult,
    MLLMTestCase,
    Report,
    ResultStatus,
    ToolCall,
    ToolCorrectnessMetric,
    evaluate,
)
from toolgrade.redact import REDACTED


def result(score: float | None = None, *, skipped: bool = False, threshold: float = 0.5, **more: Any) -> MetricResult:
    """A result of the metric `m`: scored, or else skipped or failed."""
    if score is None:
        status = ResultStatus.SKIPPED if skipped else ResultStatus.ERRORED
        return MetricResult(metric="m", status=status, threshold=threshold, **more)
    passed = score >= threshold
    return MetricResult(metric="m", status=ResultStatus.SCORED, threshold=threshold, score=score, passed=passed, **more)


def report(*results: MetricResult) -> Report:
    """A report of one metric, with a case for each result."""
    return Report(("m",), tuple(CaseResult(index, LLMTestCase(), (one,)) for index, one in enumerate(results)))


@pytest.mark.parametrize(
    ("case", "label"),
    [
        (LLMTestCase(id="a", name="b"), "a"),
        (LLMTestCase(name="b"), "b"),
        (LLMTestCase(id="", name="b"), "b"),
        (LLMTestCase(), "#3"),
        (MLLMTestCase(id=7), "7"),
    ],
    ids=["id", "name", "empty-id", "neither", "number"],
)
def test_a_case_is_called_by_its_id_or_name_or_place(case: LLMTestCase | MLLMTestCase, label: str) -> None:
    """So that the case can be located."""
    assert CaseResult(2, case, ()).label == label


def test_unmeasured_results_are_not_zero() -> None:
    """Skipped and failed results are excluded from the mean and counted separately."""
    (summary,) = report(result(1.0), result(0.25), result(skipped=True), result(), result()).summaries

    assert (summary.passed, summary.failed, summary.skipped, summary.errored) == (1, 1, 1, 2)
    assert summary.scored == 2
    assert summary.mean == 0.625


@pytest.mark.parametrize("unmeasured", [[], [result()], [result(skipped=True)]], ids=["none", "errored", "skipped"])
def test_without_scores_there_is_no_mean(unmeasured: list[MetricResult]) -> None:
    """`None`, and `null` in the file, rather than 0 or NaN."""
    (summary,) = report(*unmeasured).summaries

    assert summary.mean is None
    assert json.loads(report(*unmeasured).to_json())["metrics"][0]["mean"] is None


@pytest.mark.parametrize(
    ("results", "passed"),
    [
        ([result(1.0), result(0.5)], True),
        ([result(1.0), result(skipped=True)], False),
        ([result(1.0), result(0.4)], False),
        ([result(1.0), result()], False),
    ],
    ids=["all-passed", "one-skipped", "one-failed", "one-errored"],
)
def test_a_report_passes_if_nothing_failed(results: list[MetricResult], passed: bool) -> None:
    """A case that was not measured fails the report, whether a metric could not or does not apply."""
    assert report(*results).passed is passed


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_the_mean_does_not_depend_on_the_order(scores: list[float]) -> None:
    """Sums do not drift: whichever way the cases are listed, the mean is the same float."""
    there, back = (report(*map(result, order)).summaries[0].mean for order in (scores, scores[::-1]))

    assert there == back
    assert there is not None
    assert min(scores) <= there <= max(scores) or math.isclose(there, min(scores), rel_tol=1e-15)


def test_the_text_has_one_line_per_metric() -> None:
    """After the verdict: mean and counts, with singular and plural where they belong."""
    line = "m: mean 0.625 over 2 cases; 1 passed, 1 failed (at 0.5), 1 skipped, 1 errored"
    results = [result(1.0), result(0.25), result(skipped=True), result()]
    why = "Failed: 1 of 4 cases failed, 2 could not be measured"
    assert str(report(*results)) == f"{why}.\n{line}"
    results[-1] = replace(results[-1], error="ValueError: no \n key=sk-abcdefghijklmnopqrstuvwxyz0123456789")
    reason = f"ValueError: no \\n key={REDACTED}"
    assert str(report(*results)) == f"{why} (#4: ValueError: no).\n{line}: {reason}"
    assert str(report(result(1.0))).splitlines() == [
        "Passed: 1 case passed.",
        "m: mean 1 over 1 case; 1 passed, 0 failed (at 0.5), 0 skipped, 0 errored",
    ]
    assert str(report(result())).splitlines() == [
        "Failed: 1 of 1 case could not be measured.",
        "m: no score over 0 cases; 0 passed, 0 failed (at 0.5), 0 skipped, 1 errored",
    ]


def test_the_mean_is_never_rounded_to_perfect() -> None:
    """Only a true 1 reads as 1, and only a true 0 as 0."""
    assert "mean 0.999999 over" in str(report(result(0.999999)))
    assert "mean 1e-06 over" in str(report(result(0.000001)))


def test_the_json_form_holds_every_result() -> None:
    """Metrics with their counts; cases with id and name; results with findings, alignment and parts."""
    case = LLMTestCase(
        id="c",
        name="n",
        input="secret question",
        tools_called=[ToolCall(name="a", input_parameters={"x": 1}), ToolCall(name="b")],
        expected_tools=[ToolCall(name="a", input_parameters={"x": 2})],
    )
    whole = evaluate([case], [ToolCorrectnessMetric(evaluation_params=["input_parameters"])])

    plain = json.loads(whole.to_json())
    assert plain["metrics"] == [
        {
            "metric": "tool_correctness(input_parameters)",
            "threshold": 0.5,
            "mean": 0,
            "mean_interval": None,
            "rate": 0,
            "rate_interval": [0, pytest.approx(0.7935, abs=1e-4)],
            "passed": 0,
            "failed": 1,
            "skipped": 0,
            "errored": 0,
        }
    ]
    (entry,) = plain["cases"]
    assert entry.keys() == {"index", "id", "name", "tools", "outcome", "results"}
    assert entry["tools"] == {"called": ["a", "b"], "expected": ["a"]}
    (one,) = entry["results"]
    assert one["parts"] == {"calling": 0, "precision": 0, "recall": 0, "f1": 0}
    assert one["alignment"]["pairs"] == [{"expected": 0, "called": 0, "similarity": 0}]
    assert one["alignment"]["unexpected"] == [1]
    assert one["findings"][0] == {
        "kind": "wrong_argument",
        "message": "'a' (expected #1, called #1): $.input_parameters.x expected 2, called with 1.",
        "tool": "a",
        "expected": 0,
        "called": 0,
        "path": "$.input_parameters.x",
        "expected_value": 2,
        "called_value": 1,
    }
    assert "secret question" not in whole.to_json()


def test_the_json_form_is_json_for_every_reader() -> None:
    """NaN becomes text, lone surrogates are escaped, other letters stay readable, and indenting changes no value."""
    nan = Finding("wrong_argument", "é \ud800", "a", expected_value=math.nan, called_value=[{"x": -math.inf}])
    whole = report(result(0.5, findings=(nan,)))

    def refuse(constant: str) -> None:
        pytest.fail(f"bare {constant}")

    for text in (whole.to_json(), whole.to_json(indent=2)):
        plain = json.loads(text.encode(), parse_constant=refuse)
        assert plain == whole.to_dict()
        (finding,) = plain["cases"][0]["results"][0]["findings"]
        assert finding["expected_value"] == "NaN"
        assert finding["called_value"] == [{"x": "-Infinity"}]
        assert finding["message"] == "é \ud800"
    assert "é" in report(result(0.5, reason="é")).to_json()


def test_results_come_with_their_cases() -> None:
    """In the order of the cases, and within a case in the order of the metrics."""
    cases = [LLMTestCase(id=name, tools_called=[], expected_tools=[]) for name in "ab"]
    whole = evaluate(cases, [ToolCorrectnessMetric(), ToolCorrectnessMetric(strict_mode=True)])

    assert [(entry.label, one.metric) for entry, one in whole.results()] == [
        ("a", "tool_correctness"),
        ("a", "tool_correctness(strict)"),
        ("b", "tool_correctness"),
        ("b", "tool_correctness(strict)"),
    ]


def test_rows_have_every_result() -> None:
    """One row per result, in order, without secrets, and with `None` for what a result does not have."""
    secret = "sk-" + "a" * 40
    bad = ToolCall(name="f", input_parameters={"api_key": secret})
    cases = [
        LLMTestCase(name="good", tools_called=[], expected_tools=[], tags=["a"]),
        LLMTestCase(name="unknown"),
        LLMTestCase(name=f"bad {secret}", tools_called=[bad], expected_tools=[ToolCall(name="g")]),
    ]
    rows = evaluate(cases, [ToolCorrectnessMetric()]).to_rows()
    assert [row["case"] for row in rows] == ["good", "unknown", f"bad {REDACTED}"]
    assert [row["score"] for row in rows] == [1.0, None, 0.0]
    assert [row["passed"] for row in rows] == [True, None, False]
    assert [row["status"] for row in rows] == ["scored", "skipped", "scored"]
    assert rows[0]["tags"] == ["a"]
    assert "needs expected_tools" in rows[1]["reason"]
    assert {*map(tuple, rows)} == {tuple(rows[0])}


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    """The report is printed with its title."""
    report(result(1.0)).print("Nightly run")
    assert "Nightly run: 1 case\n Passed: 1 case passed." in capsys.readouterr().out
