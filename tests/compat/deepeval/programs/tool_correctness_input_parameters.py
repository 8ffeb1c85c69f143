from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams

called = [
    ToolCall(name="reserve_table", input_parameters={"guests": 4, "time": "19:00", "terrace": True}),
]
same = [ToolCall(name="reserve_table", input_parameters={"guests": 4, "time": "19:00", "terrace": True})]
other_time = [ToolCall(name="reserve_table", input_parameters={"guests": 4, "time": "20:30", "terrace": True, "smoking": False})]


def case(expected):
    return LLMTestCase(
        input="A table for four on the terrace at seven",
        actual_output="Reserved.",
        tools_called=called,
        expected_tools=expected,
    )


names_only = ToolCorrectnessMetric(threshold=0.7)
with_arguments = ToolCorrectnessMetric(
    threshold=0.7, evaluation_params=[ToolCallParams.INPUT_PARAMETERS], include_reason=True
)

names_only.measure(case(other_time))
assert names_only.score == 1.0

with_arguments.measure(case(same))
assert with_arguments.score == 1.0 and with_arguments.success

with_arguments.measure(case(other_time))
assert abs(with_arguments.score - 0.5) < 1e-9, with_arguments.score  # 2 of 4 keys
assert not with_arguments.is_successful()

nested = ToolCall(name="search", input_parameters={"filter": {"city": "Turin", "stars": 4}, "page": 1})
nested_expected = ToolCall(name="search", input_parameters={"filter": {"city": "Turin", "stars": 5}, "page": 1})
metric = ToolCorrectnessMetric(evaluation_params=[ToolCallParams.INPUT_PARAMETERS])
metric.measure(LLMTestCase(input="hotels in Turin", actual_output="...", tools_called=[nested], expected_tools=[nested_expected]))
assert abs(metric.score - 0.75) < 1e-9, metric.score
print("OK")
