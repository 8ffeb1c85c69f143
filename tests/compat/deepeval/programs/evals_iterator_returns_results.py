# the return value of the iterator, taken by `yield from`
import asyncio

from deepeval.dataset import EvaluationDataset, Golden
from deepeval.evaluate import AsyncConfig, DisplayConfig
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import ToolCall
from deepeval.tracing import observe, update_current_trace


@observe(type="agent")
def cook(dish: str):
    tools = {"soup": ["chop", "boil"], "salad": ["chop"]}[dish]
    update_current_trace(input=dish, output="served", tools_called=[ToolCall(name=t) for t in tools], expected_tools=[ToolCall(name="chop"), ToolCall(name="boil")])
    return "served"


@observe(type="agent")
async def acook(dish: str):
    return cook(dish)


dataset = EvaluationDataset(goldens=[Golden(input="soup"), Golden(input="salad")])
quiet = DisplayConfig(print_results=False)


def collected(into, **kwargs):
    into.append((yield from dataset.evals_iterator(metrics=[ToolCorrectnessMetric(threshold=1.0)], display_config=quiet, **kwargs)))


sync, concurrent = [], []
for golden in collected(sync, async_config=AsyncConfig(run_async=False)):
    cook(golden.input)
for golden in collected(concurrent):
    dataset.evaluate(asyncio.create_task(acook(golden.input)))

for (result,) in (sync, concurrent):
    by_input = {r.input: r for r in result.test_results}
    assert by_input["soup"].success is True
    assert by_input["salad"].success is False
    assert by_input["salad"].metrics_data[0].score == 0.5
    assert by_input["salad"].metrics_data[0].name == "Tool Correctness"
print("OK")
