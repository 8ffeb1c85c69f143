"""A release gate: `assert_test` in an ordinary pytest file fails when the agent calls the wrong tools."""

from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, assert_test


def answer(question: str) -> LLMTestCase:
    """Return an answer and its tool calls, in place of your agent."""
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
