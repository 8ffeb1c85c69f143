from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall
from deepeval.test_case import ToolCallParams

expected = ToolCall(name="convert_currency", input_parameters={"amount": 20, "to": "CHF"}, output={"amount": 18.8})
right = ToolCall(name="convert_currency", input_parameters={"amount": 20, "to": "CHF"}, output={"amount": 18.8})
wrong_output = ToolCall(name="convert_currency", input_parameters={"amount": 20, "to": "CHF"}, output={"amount": 22.1})
wrong_input = ToolCall(name="convert_currency", input_parameters={"amount": 21, "to": "CHF"}, output={"amount": 18.8})


def score(call, params):
    metric = ToolCorrectnessMetric(evaluation_params=params)
    metric.measure(
        LLMTestCase(input="20 euros in francs", actual_output="18.80", tools_called=[call], expected_tools=[expected])
    )
    return metric.score


OUT, INP = ToolCallParams.OUTPUT, ToolCallParams.INPUT_PARAMETERS
assert score(right, [OUT]) == 1.0
assert score(wrong_output, [OUT]) == 0.0
assert score(wrong_output, [INP]) == 1.0
assert score(wrong_input, [OUT]) == 1.0
assert score(wrong_input, [INP]) == 0.5
assert score(right, [INP, OUT]) == 1.0
assert score(wrong_output, [INP, OUT]) == 0.0
print("OK")
