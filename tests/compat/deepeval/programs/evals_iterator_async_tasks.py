import asyncio

from deepeval.dataset import EvaluationDataset, Golden
from deepeval.evaluate import AsyncConfig
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase, ToolCall
from deepeval.tracing import observe, update_current_span, update_current_trace

graded = {}


class Names(BaseMetric):
    """Remembers what it was asked about."""

    def __init__(self, threshold: float = 0.5):
        self.threshold = threshold

    def measure(self, test_case: LLMTestCase, *args, **kwargs):
        called = [call.name for call in test_case.tools_called or []]
        expected = [call.name for call in test_case.expected_tools or []]
        self.score = 1.0 if called == expected else 0.0
        self.success = self.score >= self.threshold
        graded[test_case.input] = (called, expected, test_case.actual_output, self.score)
        return self.score

    async def a_measure(self, test_case: LLMTestCase, *args, **kwargs):
        return self.measure(test_case)

    def is_successful(self):
        return self.success

    @property
    def __name__(self):
        return "Names"


@observe(type="tool")
async def fetch(url: str):
    await asyncio.sleep(0.01)
    return f"page of {url}"


@observe(type="agent", metrics=[Names()])
async def browse(task: str):
    pages = await asyncio.gather(fetch(url="a.example"), fetch(url="b.example"))
    update_current_span(
        input=task, output=" + ".join(pages), tools_called=[ToolCall(name="fetch"), ToolCall(name="fetch")],
        expected_tools=[ToolCall(name="fetch")] * (2 if "two" in task else 1),
    )
    update_current_trace(input=task, output="browsed")
    return "browsed"


dataset = EvaluationDataset(goldens=[Golden(input=f"read {n} pages") for n in ("two", "one")])
for golden in dataset.evals_iterator(async_config=AsyncConfig(max_concurrent=2)):
    task = asyncio.create_task(browse(golden.input))
    dataset.evaluate(task)

assert graded["read two pages"] == (["fetch", "fetch"], ["fetch", "fetch"], "page of a.example + page of b.example", 1.0)
assert graded["read one pages"][3] == 0.0
assert len(graded) == 2
print("OK")
