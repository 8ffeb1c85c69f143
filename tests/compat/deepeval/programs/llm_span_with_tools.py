from deepeval.dataset import EvaluationDataset, Golden
from deepeval.evaluate import AsyncConfig
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import ToolCall
from deepeval.tracing import observe, update_current_span, update_llm_span

metric = ToolCorrectnessMetric(threshold=0.8)


@observe(type="tool", name="unit_converter")
def convert(value, unit):
    return value * 2.54


@observe(type="llm", model="small", metrics=[metric])
def reason(messages: list, expected: list = None):
    convert(10, unit="inch")
    update_llm_span(input_token_count=40, output_token_count=8)
    if expected:
        update_current_span(expected_tools=expected)
    return "25.4"


@observe(type="agent")
def assistant(question):
    return reason([{"role": "user", "content": question}], expected=[ToolCall(name="unit_converter")])


dataset = EvaluationDataset([Golden(input="10 inches in cm")])
for golden in dataset.evals_iterator(async_config=AsyncConfig(run_async=False)):
    assert assistant(golden.input) == "25.4"
assert metric.score == 1.0
assert metric.success
print("OK")
