# subclasses of the ready metrics
from deepeval import assert_test, evaluate
from deepeval.evaluate import AsyncConfig
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams


class ArgumentsToo(ToolCorrectnessMetric):
    def __init__(self, threshold: float = 0.8, **kwargs):
        kwargs["evaluation_params"] = [ToolCallParams.INPUT_PARAMETERS]
        super().__init__(threshold=threshold, **kwargs)

    @property
    def __name__(self):
        return "Tools (with arguments)"


class Lenient(ToolCorrectnessMetric):
    """One missing tool is no failure."""

    def is_successful(self):
        self.success = self.score is not None and self.score > 0
        return self.success


case = LLMTestCase(
    input="i", actual_output="o",
    tools_called=[ToolCall(name="a", input_parameters={"x": 1, "y": 2})],
    expected_tools=[ToolCall(name="a", input_parameters={"x": 1, "y": 3})],
)
metric = ArgumentsToo()
metric.measure(case)
assert metric.score == 0.5 and not metric.is_successful()
assert metric.__name__ == "Tools (with arguments)"

half = LLMTestCase(input="i", actual_output="o", tools_called=[ToolCall(name="a")], expected_tools=[ToolCall(name="a"), ToolCall(name="b")])
lenient = Lenient(threshold=0.9)
lenient.measure(half)
assert lenient.score == 0.5 and lenient.is_successful()

for run_async in (True, False):
    result = evaluate([case], [ArgumentsToo(threshold=0.4)], async_config=AsyncConfig(run_async=run_async))
    data = result.test_results[0].metrics_data[0]
    assert data.name == "Tools (with arguments)"
    assert data.score == 0.5 and data.threshold == 0.4 and data.success
    assert_test(half, [Lenient(threshold=0.9)], run_async=run_async)
    try:
        assert_test(case, [ArgumentsToo()], run_async=run_async)
    except AssertionError as error:
        assert "Tools (with arguments)" in str(error)
    else:
        raise AssertionError("must fail")
print("OK")
