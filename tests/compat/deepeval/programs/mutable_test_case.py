from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall

test_case = LLMTestCase(input="Send the report to Ada", tools_called=[], expected_tools=[ToolCall(name="find_contact"), ToolCall(name="send_mail")])
assert test_case.actual_output is None


def agent(case):
    case.tools_called.append(ToolCall(name="find_contact", output="ada@example.org"))
    case.actual_output = "Found her address."


metric = ToolCorrectnessMetric(threshold=0.8)
agent(test_case)
metric.measure(test_case)
assert metric.score == 0.5
assert metric.success is False

test_case.tools_called.append(ToolCall(name="send_mail"))
test_case.actual_output = "Sent."
metric.measure(test_case)
assert metric.score == 1.0
assert metric.success is True
assert test_case.actual_output == "Sent."

test_case.expected_tools = [ToolCall(name="send_mail"), ToolCall(name="log"), ToolCall(name="archive"), ToolCall(name="close")]
metric.measure(test_case)
assert metric.score == 0.25
test_case.tools_called.clear()
metric.measure(test_case)
assert metric.score == 0.0
print("OK")
