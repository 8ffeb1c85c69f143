from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams

# the same tool, twice, with other arguments
called = [
    ToolCall(name="read_page", input_parameters={"page": 1}),
    ToolCall(name="read_page", input_parameters={"page": 2}),
]
expected = [
    ToolCall(name="read_page", input_parameters={"page": 2}),
    ToolCall(name="read_page", input_parameters={"page": 1}),
]
case = LLMTestCase(input="read both pages", actual_output="read", tools_called=called, expected_tools=expected)

# with async_mode=False, measure() returns the score
metric = ToolCorrectnessMetric(evaluation_params=[ToolCallParams.INPUT_PARAMETERS], async_mode=False)
assert metric.measure(case) == 1.0

once = LLMTestCase(input="read both pages", actual_output="read", tools_called=called[:1], expected_tools=expected)
assert metric.measure(once) == 0.5

by_name = ToolCorrectnessMetric(async_mode=False)
assert by_name.measure(case) == 1.0
assert by_name.measure(once) == 0.5
print("OK")
