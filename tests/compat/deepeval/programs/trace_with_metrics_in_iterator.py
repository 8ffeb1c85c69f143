from deepeval.dataset import EvaluationDataset, Golden
from deepeval.evaluate import AsyncConfig
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import ToolCall
from deepeval.tracing import observe, trace, update_current_trace

metric = ToolCorrectnessMetric(threshold=0.5)


@observe(type="tool")
def lookup(word):
    return word[::-1]


@observe()
def app(word):
    update_current_trace(tools_called=[ToolCall(name="lookup")], output=lookup(word))
    return "ok"


dataset = EvaluationDataset(goldens=[Golden(input="drawer", expected_tools=[ToolCall(name="lookup"), ToolCall(name="spell")])])
for golden in dataset.evals_iterator(async_config=AsyncConfig(run_async=False)):
    with trace(name="words", input=golden.input, expected_tools=golden.expected_tools, metrics=[metric]):
        app(golden.input)
assert metric.score == 0.5
assert metric.is_successful()
print("OK")
