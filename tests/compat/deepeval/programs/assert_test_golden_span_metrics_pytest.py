# real: deepeval test run
import pytest

from deepeval import assert_test
from deepeval.dataset import Golden, get_current_golden
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall
from deepeval.tracing import observe, update_current_span

WANTED = [ToolCall(name="quote")]


@observe(type="tool", description="The price of a share")
def quote(symbol: str):
    return 101.5


@observe(type="llm", model="tiny", metrics=[ToolCorrectnessMetric(threshold=1.0)])
def decide(question: str, use_tool: bool):
    called = []
    if use_tool:
        quote(symbol="ACME")
        called = [ToolCall(name="quote", input_parameters={"symbol": "ACME"})]
    update_current_span(test_case=LLMTestCase(input=question, actual_output="101.5", tools_called=called, expected_tools=WANTED))
    return "101.5"


@observe()
def broker(question: str, use_tool: bool = True):
    return decide(question, use_tool)


def test_component_passes():
    golden = Golden(input="What does ACME cost?")
    broker(golden.input)
    assert_test(golden=golden)


def test_component_fails():
    golden = Golden(input="What does ACME cost?")
    broker(golden.input, use_tool=False)
    with pytest.raises(AssertionError):
        assert_test(golden=golden)


def test_no_golden_outside():
    assert get_current_golden() is None
