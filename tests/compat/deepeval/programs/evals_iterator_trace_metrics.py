import asyncio
import json
from pathlib import Path

from deepeval.dataset import EvaluationDataset, Golden
from deepeval.evaluate import AsyncConfig, DisplayConfig
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import ToolCall
from deepeval.tracing import observe, update_current_trace


def plan(question):
    return [ToolCall(name=word) for word in question.split() if word in {"search", "book", "pay"}]


@observe()
async def trip(question: str) -> str:
    update_current_trace(input=question, output="done", tools_called=plan(question), expected_tools=[ToolCall(name="search"), ToolCall(name="book")])
    return "done"


@observe()
def trip_sync(question: str) -> str:
    update_current_trace(input=question, output="done", tools_called=plan(question), expected_tools=[ToolCall(name="search"), ToolCall(name="book")])
    return "done"


dataset = EvaluationDataset(goldens=[Golden(input="search then book"), Golden(input="only search")])

for golden in dataset.evals_iterator(
    metrics=[ToolCorrectnessMetric(threshold=0.9)], display_config=DisplayConfig(results_folder="out_async", print_results=False)
):
    dataset.evaluate(asyncio.create_task(trip(golden.input)))

for golden in dataset.evals_iterator(
    metrics=[ToolCorrectnessMetric(threshold=0.9)],
    async_config=AsyncConfig(run_async=False),
    display_config=DisplayConfig(results_folder="out_sync", print_results=False, show_indicator=False),
    hyperparameters={"model": "planner"},
    identifier="nightly",
):
    trip_sync(golden.input)

for folder in ("out_async", "out_sync"):
    (file,) = Path(folder).glob("test_run_*.json")
    run = json.loads(file.read_text())
    scores = {case["input"]: case["metricsData"][0]["score"] for case in run["testCases"]}
    assert scores == {"search then book": 1.0, "only search": 0.5}, scores
    success = {case["input"]: case["success"] for case in run["testCases"]}
    assert success == {"search then book": True, "only search": False}
print("OK")
