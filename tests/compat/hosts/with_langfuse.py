"""toolgrade's metrics as evaluators of Langfuse, in experiments that Langfuse's client runs without a server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langfuse import Langfuse
from opentelemetry.sdk.trace import TracerProvider

from library_examples import printed_by
from processes import ROOT
from readme_code import run_page
from toolgrade import ConfigurationError, LLMTestCase, Run, ToolCall, ToolCorrectnessMetric, ToolSuccessRate
from toolgrade.compat.hosts.langfuse import evaluator

METRIC = ToolCorrectnessMetric(evaluation_params=["input_parameters"])
CALLED = {"tools_called": [{"name": "add", "args": {"a": 1}}]}
EXPECTED = {"expected_tools": [{"name": "add", "args": {"a": 1}}]}


def experiment(output: Any, *evaluators: Any, **item: Any) -> list[Any]:
    """Return the evaluations of the only item of an experiment, whose task returns this output."""

    async def task(**_: Any) -> Any:
        return output

    client = Langfuse(public_key="pk", secret_key="sk", tracing_enabled=False, tracer_provider=TracerProvider())
    done = client.run_experiment(
        name="sums", data=[{"input": "What is 1 + 1?", **item}], task=task, evaluators=list(evaluators)
    )
    assert done.format(include_item_results=True)
    return done.item_results[0].evaluations


@pytest.mark.parametrize("place", ["expected_output", "metadata"])
@pytest.mark.parametrize("output", [CALLED, Run(calls=[ToolCall(name="add", input_parameters={"a": 1})])])
def test_items_are_scored(place: str, output: Any) -> None:
    """The value is the score, and the comment the reason."""
    (evaluation,) = experiment(output, evaluator(METRIC), **{place: EXPECTED})

    assert (evaluation.name, evaluation.value) == (METRIC.label, 1)
    assert evaluation.comment == "1 matched / 1 expected = 1 (passed at 0.5)."
    assert evaluation.metadata == {"passed": True}


def test_items_without_a_score_are_not_zero() -> None:
    """They are categories, which count in no mean, and say why."""
    failed, skipped = experiment({"tools_called": []}, evaluator(METRIC, ToolSuccessRate()), metadata={})

    assert (failed.value, failed.data_type) == ("not measured", "CATEGORICAL")
    assert failed.comment.startswith("Not measured: MissingExpectationError")
    assert (skipped.value, skipped.data_type) == ("skipped", "CATEGORICAL")
    (unread,) = experiment({}, evaluator(METRIC), metadata={})
    assert unread.value == "not measured"
    assert "do not contain the called tools" in unread.comment


def test_a_case_of_ones_own() -> None:
    """`to_case` receives what Langfuse passes to evaluators."""

    def to_case(input: Any, output: Any, expected: Any, metadata: Any) -> LLMTestCase:
        assert (input, metadata) == ("What is 1 + 1?", {"a": "b"})
        return LLMTestCase(tools_called=[{"name": output}], expected_tools=[{"name": expected}])

    item = {"expected_output": "add", "metadata": {"a": "b"}}
    (evaluation,) = experiment("add", evaluator(METRIC, to_case=to_case), **item)

    assert evaluation.value == 1


def test_secrets_are_redacted() -> None:
    """In comments, which Langfuse sends."""
    expected = {"expected_tools": [{"name": "add", "args": {"password": "hunter2-secret"}}]}
    (evaluation,) = experiment(CALLED, evaluator(METRIC), expected_output=expected)

    assert evaluation.value == 0
    assert "hunter2-secret" not in evaluation.comment


def test_an_evaluator_needs_a_metric() -> None:
    """Where it is made, and not at the first item."""
    with pytest.raises(ConfigurationError, match="at least one metric"):
        evaluator()


def test_it_is_awaited() -> None:
    """Items are evaluated at the same time."""
    assert asyncio.iscoroutinefunction(evaluator(METRIC))


def test_the_example_is_scored(tmp_path: Path) -> None:
    """As a program."""
    printed = printed_by("runners/with_langfuse.py", tmp_path)

    assert printed == "tool_correctness(input_parameters): 1. 1 matched / 1 expected = 1 (passed at 0.5).\n"


def test_the_experiment_of_the_page_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the only client that there is; what its method returns is stored on the way."""
    results: list[Any] = []
    method = Langfuse.run_experiment
    monkeypatch.setattr(Langfuse, "run_experiment", lambda *args, **options: results.append(method(*args, **options)))
    Langfuse(public_key="pk", secret_key="sk", tracing_enabled=False, tracer_provider=TracerProvider())
    names: dict[str, Any] = {"ToolCorrectnessMetric": ToolCorrectnessMetric, "agent": lambda **_: CALLED}
    asyncio.run(run_page(ROOT / "docs" / "extend.md", names, "from langfuse"))

    (item,) = results[0].item_results
    assert [evaluation.value for evaluation in item.evaluations] == [1]
