# flags written as 0 and 1, thresholds as integers
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams

case = LLMTestCase(
    input="turn the lights off and lock the door",
    actual_output="done",
    tools_called=[ToolCall(name="lights", input_parameters={"on": False}), ToolCall(name="door", input_parameters={"lock": 1})],
    expected_tools=[ToolCall(name="lights", input_parameters={"on": False}), ToolCall(name="door", input_parameters={"lock": 1}), ToolCall(name="alarm")],
)

strict = ToolCorrectnessMetric(threshold=0.3, strict_mode=1, include_reason=1, async_mode=0, verbose_mode=0)
strict.measure(case)
assert strict.threshold == 1
assert strict.score == 0
assert not strict.is_successful()

relaxed = ToolCorrectnessMetric(threshold=0, strict_mode=0, async_mode=1, should_exact_match=0, should_consider_ordering=1)
relaxed.measure(case)
assert abs(relaxed.score - 2 / 3) < 1e-9
assert relaxed.success

exact = ToolCorrectnessMetric(threshold=1, should_exact_match=1, evaluation_params=[ToolCallParams.INPUT_PARAMETERS])
exact.measure(case)
assert exact.score == 0.0 and exact.success is False

complete = case.model_copy(update={"tools_called": case.tools_called + [ToolCall(name="alarm")]})
strict.measure(complete)
assert strict.score == 1 and strict.success
print("OK")
