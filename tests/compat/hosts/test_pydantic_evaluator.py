"""toolgrade's metrics as evaluators of pydantic-evals, in a dataset of pydantic-evals."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from toolgrade import LLMTestCase, Run, ToolCall, ToolCorrectnessMetric, ToolRecoveryMetric
from toolgrade.compat.hosts import pydantic_evals
from toolgrade.compat.hosts.pydantic_evals import evaluator
from toolgrade.errors import MissingPackageError

ADD = [{"name": "add", "args": {"a": 1}}]
METRIC = ToolCorrectnessMetric(evaluation_params=["input_parameters"])


@pytest.fixture(name="right")
def _peer() -> Any:
    return pytest.importorskip("pydantic_evals", reason="pydantic-evals is not installed")


def evaluated(right: Any, output: Any, *evaluators: Any, **case: Any) -> Any:
    """The only case of the report that pydantic-evals makes of a task with this output."""
    dataset = right.Dataset(name="d", cases=[right.Case(inputs="?", **case)], evaluators=list(evaluators))
    # `evaluate_sync` leaves an event loop open, and the warning about it fails a later test.
    report = asyncio.run(dataset.evaluate(lambda _: output, progress=False))
    report.render(include_reasons=True)
    return report.cases[0]


@pytest.mark.parametrize("place", ["expected_output", "metadata"])
def test_a_score_and_whether_it_passed(right: Any, place: str) -> None:
    """The expectation comes from the expected output or the metadata."""
    good, bad = (
        evaluated(right, {"tools_called": calls}, evaluator(METRIC), **{place: {"expected_tools": ADD}})
        for calls in (ADD, [])
    )

    assert (good.scores[METRIC.label].value, bad.scores[METRIC.label].value) == (1.0, 0.0)
    assert good.assertions[f"{METRIC.label} passed"].value is True
    assert bad.assertions[f"{METRIC.label} passed"].value is False
    assert "add" in bad.scores[METRIC.label].reason
    assert good.scores[METRIC.label].source.arguments == (METRIC.label,)


def test_an_expected_output_of_another_kind_leaves_the_metadata_to_say(right: Any) -> None:
    """An answer that is expected does not hide the calls that are."""
    expected_values = {"expected_output": {"answer": "3"}, "metadata": {"expected_tools": ADD}}
    assert (
        evaluated(
            right, Run(calls=[ToolCall(name="add", input_parameters={"a": 1})]), evaluator(METRIC), **expected_values
        )
        .scores[METRIC.label]
        .value
        == 1
    )


def test_skipped_case_has_a_label(right: Any) -> None:
    """No score, so that it does not enter a mean."""
    metric = ToolRecoveryMetric()
    result = evaluated(right, {"tools_called": ADD}, evaluator(metric), expected_output={"expected_tools": ADD})

    label = result.labels[metric.label]
    assert label.value == "skipped"
    assert "the outcome of the calls was not recorded" in label.reason
    assert (result.scores, result.assertions, result.evaluator_failures) == ({}, {}, [])


def test_unmeasurable_case_is_a_failure(right: Any) -> None:
    """Of this evaluator, with the redacted reason; other evaluators continue."""
    secret = "sk-proj-" + "a1B2" * 10
    for output, says in (
        ({}, "do not contain the called tools"),
        ({"tools_called": secret}, "expected a list of tools"),
    ):
        result = evaluated(right, output, evaluator(METRIC), expected_output={"expected_tools": ADD})
        (failure,) = result.evaluator_failures
        assert (result.scores, result.assertions) == ({}, {})
        assert says in failure.error_message
        assert secret not in failure.error_message + failure.error_stacktrace
    assert (
        evaluated(right, {"tools_called": ADD}, evaluator(METRIC))
        .evaluator_failures[0]
        .error_message.count("expected_tools")
    )


def test_to_case_builds_the_case(right: Any) -> None:
    """`to_case` receives the context."""
    calls_made = evaluator(
        METRIC,
        to_case=lambda context: LLMTestCase(
            input=context.inputs, tools_called=[ToolCall(name=context.output)], expected_tools=[ToolCall(name="add")]
        ),
    )
    assert evaluated(right, "add", calls_made).scores[METRIC.label].value == 1


def test_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the evaluator needs it."""
    pydantic_evals._evaluator_class.cache_clear()
    monkeypatch.setitem(sys.modules, "pydantic_evals.evaluators", None)
    monkeypatch.setitem(sys.modules, "pydantic_evals", None)
    with pytest.raises(MissingPackageError, match="pip install pydantic-evals"):
        evaluator(METRIC)
    pydantic_evals._evaluator_class.cache_clear()
