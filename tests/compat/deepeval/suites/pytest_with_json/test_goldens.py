from pathlib import Path

import pytest

import deepeval
from deepeval import assert_test
from deepeval.dataset import EvaluationDataset, Golden
from deepeval.metrics import ArgumentCorrectnessMetric, ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCallParams

DATA = Path(__file__).parent / "data"

dataset = EvaluationDataset()
dataset.add_goldens_from_json_file(file_path=str(DATA / "goldens.json"))


def build(agent, golden):
    answer, calls = agent.run(golden.input)
    return LLMTestCase(
        input=golden.input,
        actual_output=answer,
        expected_output=golden.expected_output,
        tools_called=calls,
        expected_tools=golden.expected_tools,
        additional_metadata=golden.additional_metadata,
    )


@pytest.mark.parametrize("golden", dataset.goldens, ids=lambda g: g.additional_metadata["topic"])
def test_tools(agent, golden: Golden):
    assert_test(
        build(agent, golden),
        [
            ToolCorrectnessMetric(threshold=1.0),
            ToolCorrectnessMetric(threshold=1.0, evaluation_params=[ToolCallParams.INPUT_PARAMETERS, ToolCallParams.OUTPUT]),
            ToolCorrectnessMetric(threshold=1.0, should_exact_match=True),
        ],
    )


@pytest.mark.parametrize("golden", dataset.goldens)
def test_order(agent, golden: Golden):
    metric = ToolCorrectnessMetric(should_consider_ordering=True)
    assert_test(test_case=build(agent, golden), metrics=[metric], run_async=False)
    assert metric.score == 1.0


@pytest.mark.parametrize("golden", dataset.goldens[:2])
def test_arguments(agent, judge, golden: Golden):
    assert_test(build(agent, golden), [ArgumentCorrectnessMetric(threshold=0.7, model=judge)])
    assert judge.count >= 1


def test_bad_arguments_fail(agent, harsh_judge):
    with pytest.raises(AssertionError, match="Argument Correctness"):
        assert_test(build(agent, dataset.goldens[0]), [ArgumentCorrectnessMetric(model=harsh_judge)])


def test_greeting_needs_no_judge(agent, harsh_judge):
    assert_test(build(agent, dataset.goldens[2]), [ArgumentCorrectnessMetric(model=harsh_judge)])
    assert harsh_judge.count == 0


def test_choice_of_tools(agent, judge, catalogue):
    metric = ToolCorrectnessMetric(available_tools=catalogue, model=judge, threshold=0.9)
    metric.measure(build(agent, dataset.goldens[1]))
    assert metric.score == 1.0
    assert judge.count >= 1


@deepeval.log_hyperparameters
def hyperparameters():
    return {"model": "rules", "prices": 2}
