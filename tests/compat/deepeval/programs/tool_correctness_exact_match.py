from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams

EXPECTED = [
    ToolCall(name="open_ticket", input_parameters={"priority": "high"}),
    ToolCall(name="notify", input_parameters={"channel": "ops"}),
]


def run(called, **kwargs):
    metric = ToolCorrectnessMetric(should_exact_match=True, **kwargs)
    metric.measure(LLMTestCase(input="server down", actual_output="ticket opened", tools_called=called, expected_tools=EXPECTED))
    return metric


same = [
    ToolCall(name="open_ticket", input_parameters={"priority": "high"}),
    ToolCall(name="notify", input_parameters={"channel": "ops"}),
]
other_args = [
    ToolCall(name="open_ticket", input_parameters={"priority": "low"}),
    ToolCall(name="notify", input_parameters={"channel": "ops"}),
]
assert run(same).score == 1.0
assert run(list(reversed(same))).score == 0.0
assert run(same[:1]).score == 0.0
assert run(same + [ToolCall(name="notify")]).score == 0.0
assert run(other_args).score == 1.0
assert run(other_args, evaluation_params=[ToolCallParams.INPUT_PARAMETERS]).score == 0.0
assert run(same, evaluation_params=[ToolCallParams.INPUT_PARAMETERS]).success is True
print("OK")
