"""Nightly run of the travel team: components, traces, a metric of our own."""

import asyncio
import json
from pathlib import Path

from agent import book, metrics_of_components, plan, plan_async
from own_metrics import NoRepeatedCalls

from deepeval.dataset import EvaluationDataset, Golden
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import ToolCall

GOLDENS = [
    Golden(
        input="weekend in Graz",
        expected_output="booked Graz",
        expected_tools=[ToolCall(name="find_train"), ToolCall(name="find_hotel")],
        additional_metadata={"budget": 300},
    ),
    Golden(
        input="weekend in Graz by train and by train",
        expected_tools=[ToolCall(name="find_train")],
    ),
    Golden(input="only a hotel in Bern", expected_tools=[ToolCall(name="find_hotel"), ToolCall(name="find_train")]),
]


def run_sync(folder):
    NoRepeatedCalls.history.clear()
    dataset = EvaluationDataset(goldens=GOLDENS)
    for golden in dataset.evals_iterator(
        metrics=[ToolCorrectnessMetric(threshold=0.8), NoRepeatedCalls()],
        async_config=AsyncConfig(run_async=False),
        display_config=DisplayConfig(results_folder=folder, print_results=False, show_indicator=False),
        cache_config=CacheConfig(write_cache=True, use_cache=False),
        error_config=ErrorConfig(ignore_errors=False, skip_on_missing_params=False),
        hyperparameters={"planner": "rules", "version": 3},
        identifier="sync",
    ):
        plan(golden.input)
    return dict(NoRepeatedCalls.history)


def run_async(folder):
    NoRepeatedCalls.history.clear()
    dataset = EvaluationDataset(goldens=GOLDENS)
    for golden in dataset.evals_iterator(
        metrics=[ToolCorrectnessMetric(threshold=0.8), NoRepeatedCalls()],
        async_config=AsyncConfig(run_async=True, max_concurrent=2),
        display_config=DisplayConfig(results_folder=folder, results_subfolder="runs", print_results=False),
        identifier="async",
    ):
        dataset.evaluate(asyncio.create_task(plan_async(golden.input)))
    return dict(NoRepeatedCalls.history)


def scores_of(pattern):
    (file,) = Path(".").glob(pattern)
    run = json.loads(file.read_text(encoding="utf-8"))
    return {
        case["input"]: {data["name"]: (data["score"], data["success"]) for data in case["metricsData"]} for case in run["testCases"]
    }, {case["input"]: case["success"] for case in run["testCases"]}


expected = {
    "weekend in Graz": {"Tool Correctness": (1.0, True), "No Repeated Calls": (1.0, True)},
    "weekend in Graz by train and by train": {"Tool Correctness": (1.0, True), "No Repeated Calls": (0.0, False)},
    "only a hotel in Bern": {"Tool Correctness": (0.5, False), "No Repeated Calls": (1.0, True)},
}
history = run_sync("nightly_sync")
assert history == {g.input: expected[g.input]["No Repeated Calls"][0] for g in GOLDENS}, history
saved, success = scores_of("nightly_sync/test_run_*.json")
assert saved == expected, saved
assert success == {"weekend in Graz": True, "weekend in Graz by train and by train": False, "only a hotel in Bern": False}

history = run_async("nightly_async")
assert history == {g.input: expected[g.input]["No Repeated Calls"][0] for g in GOLDENS}
saved, success = scores_of("nightly_async/runs/test_run_*.json")
assert saved == expected, saved

# the components: a metric on one span, the arguments of a tool
for golden in EvaluationDataset(goldens=[Golden(input="Graz")]).evals_iterator(async_config=AsyncConfig(run_async=False)):
    book(golden.input)
names, arguments = metrics_of_components
assert names.score == 1.0 and names.is_successful()
assert arguments.score == 0.75 and arguments.is_successful()

# outside of an evaluation, nothing is graded
names.score = None
assert book("Linz") == "Linz:T1"
assert names.score is None
print("OK")
