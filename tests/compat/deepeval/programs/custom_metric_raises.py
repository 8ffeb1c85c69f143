from deepeval import assert_test, evaluate
from deepeval.evaluate import AsyncConfig, ErrorConfig
from deepeval.metrics import BaseMetric, ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall


class Broken(BaseMetric):
    def __init__(self, threshold: float = 0.5):
        self.threshold = threshold

    def measure(self, test_case, *args, **kwargs):
        raise KeyError("no such entry")

    async def a_measure(self, test_case, *args, **kwargs):
        return self.measure(test_case)

    def is_successful(self):
        if self.error is not None:
            return False
        return bool(self.success)

    @property
    def __name__(self):
        return "Broken"


case = LLMTestCase(input="i", actual_output="o", tools_called=[ToolCall(name="t")], expected_tools=[ToolCall(name="t")])
for run_async in (True, False):
    config = AsyncConfig(run_async=run_async)
    for function in (
        lambda: evaluate([case], [Broken()], async_config=config),
        lambda: assert_test(case, [Broken()], run_async=run_async),
    ):
        try:
            function()
        except KeyError:
            pass
        else:
            raise AssertionError("the error must come through")
    result = evaluate([case], [Broken(), ToolCorrectnessMetric()], async_config=config, error_config=ErrorConfig(ignore_errors=True))
    broken, fine = result.test_results[0].metrics_data
    assert "no such entry" in broken.error and broken.success is False and broken.score is None
    assert fine.success and fine.error is None
    assert result.test_results[0].success is False
print("OK")
