from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall

test_case = LLMTestCase(
    input="Where is parcel 4411 right now?",
    actual_output="It left the Lyon depot this morning.",
    tools_called=[ToolCall(name="track_parcel"), ToolCall(name="depot_hours")],
    expected_tools=[ToolCall(name="track_parcel")],
)
metric = ToolCorrectnessMetric()
metric.measure(test_case)

assert metric.score == 1.0
assert metric.threshold == 0.5
assert metric.success is True
assert metric.is_successful() is True
assert metric.error is None
assert isinstance(metric.reason, str) and metric.reason

half = LLMTestCase(
    input="Track parcel 4411 and book a new delivery slot",
    actual_output="Tracked it.",
    tools_called=[ToolCall(name="track_parcel")],
    expected_tools=[ToolCall(name="track_parcel"), ToolCall(name="book_slot")],
)
metric.measure(half)
assert metric.score == 0.5
assert metric.is_successful()

none = LLMTestCase(
    input="Cancel it",
    actual_output="I cannot.",
    tools_called=[ToolCall(name="depot_hours")],
    expected_tools=[ToolCall(name="cancel_parcel")],
)
metric.measure(none)
assert metric.score == 0.0
assert metric.success is False
print("OK")
