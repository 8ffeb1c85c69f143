"""Calls in Python: build a case, measure it, read the reason."""

from toolgrade import LLMTestCase, ToolCall, ToolCallParams, ToolCorrectnessMetric, evaluate

case = LLMTestCase(
    input="What if these shoes don't fit?",
    actual_output="We offer a 30-day full refund at no extra cost.",
    tools_called=[
        ToolCall(name="WebSearch", input_parameters={"query": "refund policy", "pages": 3}),
        ToolCall(name="ToolQuery"),
    ],
    expected_tools=[ToolCall(name="WebSearch", input_parameters={"query": "refund policy", "pages": 1})],
)

# Names only: the expected tool was called.
metric = ToolCorrectnessMetric()
metric.measure(case)
print(metric.score, metric.reason)

# Arguments too: half of them match. F1 also penalizes the unexpected call.
strict_about_arguments = ToolCorrectnessMetric(
    evaluation_params=[ToolCallParams.INPUT_PARAMETERS], denominator="f1", threshold=0.8
)
print(evaluate(test_cases=[case], metrics=[metric, strict_about_arguments]))
print(strict_about_arguments.measure(case).reason)
