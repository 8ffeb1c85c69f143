"""Score a dataset of pydantic-evals: the numbered lines.

From a checkout of toolgrade: `pip install pydantic-evals .`
"""

from typing import Any

from pydantic_evals import Case, Dataset

from toolgrade import ToolCorrectnessMetric  # 1
from toolgrade.compat.hosts.pydantic_evals import evaluator  # 2


def agent(inputs: dict[str, Any]) -> dict[str, Any]:
    """Answer a question; this agent asks no model."""
    a, b = inputs["numbers"]
    return {"tools_called": [{"name": "add", "args": {"a": a, "b": b}}], "actual_output": f"It is {a + b}."}


EXPECTED = {"expected_tools": [{"name": "add", "args": {"a": 1, "b": 2}}]}  # 3

dataset: Dataset[Any, Any, Any] = Dataset(
    name="sums",
    cases=[Case(inputs={"numbers": [1, 2]}, metadata=EXPECTED)],
    evaluators=[evaluator(ToolCorrectnessMetric(evaluation_params=["input_parameters"]))],  # 4
)

if __name__ == "__main__":
    for case in dataset.evaluate_sync(agent, progress=False).cases:
        for name, score in case.scores.items():
            print(f"{name}: {score.value:g}. {score.reason}")
