from concurrent.futures import ThreadPoolExecutor

from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall


def grade(number):
    metric = ToolCorrectnessMetric(threshold=1.0)
    called = [ToolCall(name=f"step_{i}") for i in range(number)]
    expected = [ToolCall(name=f"step_{i}") for i in range(4)]
    metric.measure(LLMTestCase(input=str(number), actual_output="x", tools_called=called, expected_tools=expected))
    return metric.score, metric.is_successful()


with ThreadPoolExecutor(4) as pool:
    results = list(pool.map(grade, [0, 1, 2, 3, 4, 5] * 3))

assert [score for score, _ in results[:6]] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
assert [passed for _, passed in results[:6]] == [False, False, False, False, True, True]
assert results[:6] == results[6:12] == results[12:]
print("OK")
