from deepeval import evaluate
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall

cases = [
    LLMTestCase(
        name="good",
        input="How long is the queue?",
        actual_output="Ten minutes.",
        expected_output="10 min",
        context=["queue system"],
        retrieval_context=["sensor 4"],
        tools_called=[ToolCall(name="queue_length")],
        expected_tools=[ToolCall(name="queue_length")],
    ),
    LLMTestCase(
        input="Put me in line",
        actual_output="No.",
        tools_called=[],
        expected_tools=[ToolCall(name="join_queue"), ToolCall(name="queue_length")],
    ),
]
result = evaluate(test_cases=cases, metrics=[ToolCorrectnessMetric(threshold=0.7), ToolCorrectnessMetric(should_exact_match=True)])

assert len(result.test_results) == 2
by_input = {r.input: r for r in result.test_results}
good, bad = by_input["How long is the queue?"], by_input["Put me in line"]
assert good.name == "good"
assert good.success is True and bad.success is False
assert good.actual_output == "Ten minutes." and good.expected_output == "10 min"
assert good.context == ["queue system"] and good.retrieval_context == ["sensor 4"]
assert good.conversational is False
assert len(good.metrics_data) == 2
for data in good.metrics_data:
    assert data.name == "Tool Correctness"
    assert data.score == 1.0
    assert data.success is True
    assert data.error is None
    assert isinstance(data.reason, str)
    assert {"name", "score", "threshold", "success", "reason", "error"} <= set(data.model_dump())
assert sorted(d.threshold for d in good.metrics_data) == [0.5, 0.7]
assert [d.score for d in bad.metrics_data] == [0.0, 0.0]
assert all(not d.success for d in bad.metrics_data)

# the usual summary of a team
rate = sum(r.success for r in result.test_results) / len(result.test_results)
assert rate == 0.5
mean = sum(d.score for r in result.test_results for d in r.metrics_data) / 4
assert mean == 0.5
print("OK")
