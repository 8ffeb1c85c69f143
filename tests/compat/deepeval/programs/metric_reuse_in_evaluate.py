# one metric object, many cases and runs
from deepeval import evaluate
from deepeval.evaluate import AsyncConfig
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall


def case(share):
    expected = [ToolCall(name=f"t{i}") for i in range(4)]
    return LLMTestCase(input=f"share {share}", actual_output="o", tools_called=expected[:share], expected_tools=expected)


metric = ToolCorrectnessMetric(threshold=0.5)
cases = [case(share) for share in range(5)]
for run_async in (True, False, True):
    result = evaluate(cases, [metric], async_config=AsyncConfig(run_async=run_async))
    assert {r.input: r.metrics_data[0].score for r in result.test_results} == {f"share {n}": n / 4 for n in range(5)}
    assert sum(r.success for r in result.test_results) == 3
    # reasons belong to their own case
    assert len({r.metrics_data[0].reason for r in result.test_results}) >= 2
assert metric.threshold == 0.5
metric.measure(case(1))
assert metric.score == 0.25
print("OK")
