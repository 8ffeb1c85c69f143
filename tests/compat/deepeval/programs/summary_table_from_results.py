# a team prints its own table
from collections import defaultdict

from deepeval import evaluate
from deepeval.evaluate import DisplayConfig
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams


class ByArguments(ToolCorrectnessMetric):
    @property
    def __name__(self):
        return "By Arguments"


cases = [
    LLMTestCase(input="1", actual_output="o", tools_called=[ToolCall(name="t", input_parameters={"a": 1})], expected_tools=[ToolCall(name="t", input_parameters={"a": 1})]),
    LLMTestCase(input="2", actual_output="o", tools_called=[ToolCall(name="t", input_parameters={"a": 1})], expected_tools=[ToolCall(name="t", input_parameters={"a": 2})]),
    LLMTestCase(input="3", actual_output="o", tools_called=[], expected_tools=[ToolCall(name="t", input_parameters={"a": 2})]),
]
result = evaluate(cases, [ToolCorrectnessMetric(), ByArguments(evaluation_params=[ToolCallParams.INPUT_PARAMETERS])], display_config=DisplayConfig(print_results=False))
table = defaultdict(list)
failed = []
for test_result in result.test_results:
    for data in test_result.metrics_data:
        table[data.name].append(data.score)
        if not data.success:
            failed.append((test_result.input, data.name))
    dump = [data.model_dump() for data in test_result.metrics_data]
    assert {"name", "score", "threshold", "success", "reason", "error"} <= set(dump[0])
assert sum(table["Tool Correctness"]) == 2.0
assert sum(table["By Arguments"]) == 1.0
assert sorted(failed) == [("2", "By Arguments"), ("3", "By Arguments"), ("3", "Tool Correctness")]
print("OK")
