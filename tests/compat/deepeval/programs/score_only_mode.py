from deepeval import evaluate
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall

case = LLMTestCase(input="x", actual_output="y", tools_called=[ToolCall(name="a")], expected_tools=[ToolCall(name="a"), ToolCall(name="b")])

scoring = ToolCorrectnessMetric(threshold=None)
scoring.measure(case)
assert scoring.score == 0.5
assert scoring.is_successful() is None

# one metric must give a verdict
try:
    evaluate(test_cases=[case], metrics=[ToolCorrectnessMetric(threshold=None)])
except ValueError:
    pass
else:
    raise AssertionError("no metric has a threshold")

result = evaluate(test_cases=[case], metrics=[ToolCorrectnessMetric(threshold=None), ToolCorrectnessMetric(threshold=0.5, should_consider_ordering=True)])
only_score, with_verdict = result.test_results[0].metrics_data
assert only_score.score == 0.5 and only_score.threshold is None and only_score.success is None
assert with_verdict.score == 0.5 and with_verdict.success is True
assert result.test_results[0].success is True
print("OK")
