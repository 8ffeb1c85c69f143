"""toolgrade's metrics as evaluators of Arize Phoenix, in experiments that its clients run without a server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from phoenix.client import AsyncClient, Client
from phoenix.client.resources.experiments.types import AnnotatorKind

from library_examples import load, printed_by
from toolgrade import LLMTestCase, ToolCorrectnessMetric, ToolSuccessRate, ToolUseMetric
from toolgrade.compat.hosts.phoenix import evaluator

METRIC = ToolCorrectnessMetric(evaluation_params=["input_parameters"])
CALLED = {"tools_called": [{"name": "add", "args": {"a": 1}}]}
EXPECTED = {"expected_tools": [{"name": "add", "args": {"a": 1}}]}
EXAMPLE = load("runners/with_phoenix.py")


def experiment(returned: Any, *evaluators: Any, **fields: Any) -> list[Any]:
    """Return the evaluation runs of a task that returns this; both clients give the same."""
    options: Any = {"task": lambda _: returned, "evaluators": list(evaluators), "print_summary": False, "retries": 0}

    async def run() -> Any:
        return await AsyncClient(base_url=url).experiments.run_experiment(dataset=dataset, dry_run=True, **options)

    with EXAMPLE.served(**{"input": {"question": "1 + 1?"}, **fields}) as (url, dataset):
        sync = Client(base_url=url).experiments.run_experiment(dataset=dataset, dry_run=True, **options)
        runs = [sync["evaluation_runs"], asyncio.run(run())["evaluation_runs"]]
    assert [run.result for run in runs[0]] == [run.result for run in runs[1]]
    assert not [run.error for run in runs[0] + runs[1] if run.error]
    return list(runs[0])


@pytest.mark.parametrize("place", ["output", "metadata"])
def test_examples_are_scored(place: str) -> None:
    """With a label and the reason."""
    (run,) = experiment(CALLED, evaluator(METRIC), **{place: EXPECTED})

    assert (run.name, run.annotator_kind) == (METRIC.label, AnnotatorKind.CODE.value)
    explanation = "1 matched / 1 expected = 1 (passed at 0.5)."
    assert run.result == {"name": METRIC.label, "score": 1.0, "label": "pass", "explanation": explanation}


def test_examples_without_a_score_are_not_zero() -> None:
    """They have a label, and no score."""
    failed, skipped = experiment({"tools_called": []}, evaluator(METRIC, ToolSuccessRate()))

    assert (failed.name, skipped.name) == (METRIC.label, ToolSuccessRate().label)
    assert "score" not in failed.result
    assert "score" not in skipped.result
    assert (failed.result["label"], skipped.result["label"]) == ("not measured", "skipped")
    assert failed.result["explanation"].startswith("Not measured: MissingExpectationError")
    (unread,) = experiment({}, evaluator(METRIC))
    assert "do not contain the called tools" in unread.result["explanation"]


def test_a_case_of_ones_own() -> None:
    """`to_case` receives what Phoenix passes to evaluators."""

    def to_case(input: Any, output: Any, expected: Any, metadata: Any) -> LLMTestCase:
        assert (input, metadata) == ({"question": "1 + 1?"}, {"a": "b"})
        return LLMTestCase(tools_called=[{"name": output}], expected_tools=[{"name": expected["answer"]}])

    example: Any = {"output": {"answer": "add"}, "metadata": {"a": "b"}}
    (run,) = experiment("add", evaluator(METRIC, to_case=to_case), **example)

    assert run.result["score"] == 1


def test_a_judge_is_another_kind() -> None:
    """Phoenix shows who measured."""
    assert evaluator(ToolUseMetric(model=lambda _: "")).kind == AnnotatorKind.LLM.value


def test_the_example_is_scored(tmp_path: Path) -> None:
    """As a program, which also says what it does."""
    lines = printed_by("runners/with_phoenix.py", tmp_path).splitlines()

    assert lines[-1] == "tool_correctness(input_parameters): 1. 1 matched / 1 expected = 1 (passed at 0.5)."
