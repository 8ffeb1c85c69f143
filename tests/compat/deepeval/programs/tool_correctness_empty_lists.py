from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall


def score(called, expected, **kwargs):
    return ToolCorrectnessMetric(async_mode=False, **kwargs).measure(
        LLMTestCase(input="hello there", actual_output="Hello!", tools_called=called, expected_tools=expected)
    )


assert score([], []) == 1.0
assert score([ToolCall(name="greet")], []) == 0.0
assert score([], [ToolCall(name="greet")]) == 0.0
assert score([], [], should_exact_match=True) == 1.0
assert score([], [], should_consider_ordering=True) == 1.0
assert score([ToolCall(name="greet")], [], should_consider_ordering=True) == 0.0
print("OK")
