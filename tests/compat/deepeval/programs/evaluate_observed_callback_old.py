# real: older form
from deepeval import evaluate
from deepeval.dataset import Golden
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall
from deepeval.tracing import observe, update_current_span

metric = ToolCorrectnessMetric(threshold=0.5)


@observe(metrics=[metric])
def pick_tools(question: str):
    called = [ToolCall(name="stock_level")] if "stock" in question else []
    update_current_span(
        test_case=LLMTestCase(
            input=question, actual_output="...", tools_called=called, expected_tools=[ToolCall(name="stock_level")]
        )
    )
    return called


@observe
def shop_bot(input: str):
    pick_tools(input)
    return "answered"


result = evaluate(
    observed_callback=shop_bot,
    goldens=[Golden(input="Is the red lamp in stock?"), Golden(input="Hi!")],
)
assert len(result.test_results) >= 2
passed = [r.success for r in result.test_results]
assert True in passed and False in passed
print("OK")
