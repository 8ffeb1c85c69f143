from deepeval.metrics import ArgumentCorrectnessMetric, BaseConversationalMetric, BaseMetric, ToolCorrectnessMetric, ToolUseMetric
from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import LLMTestCase, ToolCall


class Silent(DeepEvalBaseLLM):
    def load_model(self):
        return "engine"

    def generate(self, prompt, schema=None):
        return "{}"

    async def a_generate(self, prompt, schema=None):
        return "{}"

    def get_model_name(self):
        return "silent"


silent = Silent()
assert ToolCorrectnessMetric().__name__ == "Tool Correctness"
assert ArgumentCorrectnessMetric(model=silent).__name__ == "Argument Correctness"
assert ToolUseMetric(available_tools=[], model=silent).__name__ == "Tool Use"
assert isinstance(ToolCorrectnessMetric(), BaseMetric)
assert isinstance(ToolUseMetric(available_tools=[], model=silent), BaseConversationalMetric)

metric = ToolCorrectnessMetric(threshold=0.4)
metric.measure(
    LLMTestCase(input="x", actual_output="y", tools_called=[ToolCall(name="a")], expected_tools=[ToolCall(name="a"), ToolCall(name="b")])
)
assert metric.success is True
metric.threshold = 0.6
assert metric.is_successful() is False
assert metric.success is False
metric.threshold = 0.5
assert metric.is_successful() is True

fresh = ToolCorrectnessMetric(threshold=0.9, strict_mode=False, include_reason=False)
assert fresh.threshold == 0.9 and fresh.strict_mode is False and fresh.include_reason is False
assert fresh.score is None and fresh.error is None
print("OK")
