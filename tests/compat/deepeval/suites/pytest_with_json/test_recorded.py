from pathlib import Path

import pytest

from deepeval import assert_test, evaluate
from deepeval.dataset import EvaluationDataset
from deepeval.evaluate import AsyncConfig, DisplayConfig
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase

dataset = EvaluationDataset()
dataset.add_test_cases_from_json_file(
    file_path=str(Path(__file__).parent / "data" / "recorded.json"),
    input_key_name="input",
    actual_output_key_name="actual_output",
    tools_called_key_name="tools_called",
    expected_tools_key_name="expected_tools",
)


@pytest.mark.parametrize("test_case", dataset.test_cases)
def test_at_least_half(test_case: LLMTestCase):
    assert_test(test_case, [ToolCorrectnessMetric(threshold=0.5)])


def test_the_refund_is_incomplete():
    with pytest.raises(AssertionError) as caught:
        assert_test(dataset.test_cases[1], [ToolCorrectnessMetric(threshold=0.6)])
    assert "score: 0.5" in str(caught.value)
    assert "threshold: 0.6" in str(caught.value)


@pytest.mark.parametrize("run_async", [0, 1])
def test_batch(run_async):
    result = evaluate(
        test_cases=dataset.test_cases,
        metrics=[ToolCorrectnessMetric(threshold=0.9)],
        async_config=AsyncConfig(run_async=run_async),
        display_config=DisplayConfig(print_results=False, show_indicator=False),
    )
    assert [r.success for r in sorted(result.test_results, key=lambda r: r.input)] == [True, False]


def test_catalogue(catalogue):
    assert [tool.name for tool in catalogue] == ["get_price", "find_order", "refund_order"]
    assert catalogue[0].input_parameters == {"item": "name"}
