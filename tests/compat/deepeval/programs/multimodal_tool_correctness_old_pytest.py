# real: older form
import pytest

from deepeval import assert_test, evaluate
from deepeval.metrics import MultimodalToolCorrectnessMetric
from deepeval.test_case import MLLMImage, MLLMTestCase, ToolCall, ToolCallParams


def make(called):
    return MLLMTestCase(
        input=["What is on this photo?", MLLMImage(url="https://images.example.org/bridge.png")],
        actual_output=["A bridge in fog."],
        tools_called=[ToolCall(name=name) for name in called],
        expected_tools=[ToolCall(name="describe_image"), ToolCall(name="detect_objects")],
    )


def test_standalone():
    metric = MultimodalToolCorrectnessMetric(threshold=0.6)
    metric.measure(make(["describe_image"]))
    assert metric.score == 0.5
    assert not metric.is_successful()


def test_evaluate():
    result = evaluate(test_cases=[make(["describe_image", "detect_objects"])], metrics=[MultimodalToolCorrectnessMetric()])
    assert result.test_results[0].success
    assert result.test_results[0].metrics_data[0].score == 1.0


def test_assert():
    metric = MultimodalToolCorrectnessMetric(should_exact_match=True, evaluation_params=[ToolCallParams.INPUT_PARAMETERS])
    assert_test(make(["describe_image", "detect_objects"]), [metric])
    with pytest.raises(AssertionError):
        assert_test(make(["detect_objects", "describe_image"]), [MultimodalToolCorrectnessMetric(should_exact_match=True)])
