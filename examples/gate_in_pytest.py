"""How do I stop a release when the agent calls the wrong tools? `assert_test` in an ordinary pytest file."""

from toolmark import LLMTestCase, ToolCall, ToolCorrectnessMetric, assert_test


def answer(question: str) -> LLMTestCase:
    """Stand in for your agent: answer, and say which tools were called."""
    calls = [ToolCall(name="search_orders", input_parameters={"customer": "ada"}), ToolCall(name="refund")]
    return LLMTestCase(input=question, actual_output="Refunded.", tools_called=calls)


def test_refund() -> None:
    """The agent looks the order up before it refunds."""
    case = answer("Refund my last order, please.").model_copy(
        update={"expected_tools": [ToolCall(name="search_orders"), ToolCall(name="refund")]}
    )
    assert_test(case, [ToolCorrectnessMetric(should_consider_ordering=True, threshold=1)])


if __name__ == "__main__":
    test_refund()
    print("passed")
