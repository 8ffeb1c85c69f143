# the default (asynchronous) iterator with a plain function called in the loop
from deepeval.dataset import EvaluationDataset, Golden
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import ToolCall
from deepeval.tracing import observe, update_current_span, update_current_trace

metric = ToolCorrectnessMetric(threshold=0.6)


@observe(type="tool")
def thermostat(degrees: int):
    return degrees


@observe(type="agent", metrics=[metric])
def house(wish: str):
    thermostat(21)
    update_current_span(input=wish, output="21", expected_tools=[ToolCall(name="thermostat"), ToolCall(name="window")])
    update_current_trace(input=wish, output="21")
    return "21"


dataset = EvaluationDataset(goldens=[Golden(input="warmer"), Golden(input="cooler")])
count = 0
for golden in dataset.evals_iterator():
    assert house(golden.input) == "21"
    count += 1
assert count == 2
assert metric.score == 0.5
assert metric.is_successful() is False
print("OK")
