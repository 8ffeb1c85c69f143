from deepeval import assert_test
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams


def case(called):
    return LLMTestCase(input="i", actual_output="o", tools_called=[ToolCall(name=c) for c in called], expected_tools=[ToolCall(name="a"), ToolCall(name="b")])


assert assert_test(case("ab"), [ToolCorrectnessMetric()]) is None
assert_test(test_case=case("a"), metrics=[ToolCorrectnessMetric(threshold=0.5)])
assert_test(case("ba"), [ToolCorrectnessMetric(), ToolCorrectnessMetric(evaluation_params=[ToolCallParams.INPUT_PARAMETERS])], run_async=False)

for run_async in (True, False):
    try:
        assert_test(case("a"), [ToolCorrectnessMetric(threshold=0.75)], run_async=run_async)
    except AssertionError as error:
        assert "Tool Correctness" in str(error)
        assert "0.5" in str(error)
        assert "0.75" in str(error)
    else:
        raise AssertionError("must fail")

try:
    assert_test(case("ba"), [ToolCorrectnessMetric(), ToolCorrectnessMetric(should_exact_match=True)])
except AssertionError as error:
    assert "Tool Correctness" in str(error)
else:
    raise AssertionError("one of two metrics fails")
print("OK")
