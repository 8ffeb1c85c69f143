import pytest

import deepeval
from deepeval import assert_test
from deepeval.dataset import EvaluationDataset, Golden
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams

dataset = EvaluationDataset(
    goldens=[
        Golden(input="2 + 2", expected_tools=[ToolCall(name="add", input_parameters={"a": 2, "b": 2})], additional_metadata={"kind": "easy"}),
        Golden(input="7 + 5", expected_tools=[ToolCall(name="add", input_parameters={"a": 7, "b": 5})]),
    ]
)


def calculator(text):
    a, b = (int(part) for part in text.split(" + "))
    return str(a + b), [ToolCall(name="add", input_parameters={"a": a, "b": b}, output=a + b)]


@pytest.mark.parametrize("golden", dataset.goldens)
def test_calculator(golden: Golden):
    answer, tools = calculator(golden.input)
    test_case = LLMTestCase(input=golden.input, actual_output=answer, tools_called=tools, expected_tools=golden.expected_tools)
    metric = ToolCorrectnessMetric(threshold=1, evaluation_params=[ToolCallParams.INPUT_PARAMETERS])
    assert_test(test_case, [metric])


@deepeval.log_hyperparameters
def hyperparameters():
    return {"model": "adder", "system prompt": "Only add."}


@deepeval.on_test_run_end
def at_the_end():
    print("finished")
