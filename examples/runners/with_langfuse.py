"""Score an experiment of Langfuse: the numbered lines. Nothing is sent: tracing is off.

From a checkout of toolgrade: `pip install langfuse .`
"""

from typing import Any

from langfuse import Langfuse

from toolgrade import ToolCorrectnessMetric  # 1
from toolgrade.compat.hosts.langfuse import evaluator  # 2


def agent(*, item: Any, **_: Any) -> dict[str, Any]:  # noqa: ANN401
    """Answer a question; this agent asks no model."""
    a, b = item["input"]["numbers"]
    return {"tools_called": [{"name": "add", "args": {"a": a, "b": b}}], "actual_output": f"It is {a + b}."}


EXPECTED = {"expected_tools": [{"name": "add", "args": {"a": 1, "b": 2}}]}  # 3

if __name__ == "__main__":
    client = Langfuse(public_key="none", secret_key="none", tracing_enabled=False)  # noqa: S106 - not a secret
    experiment = client.run_experiment(
        name="sums",
        data=[{"input": {"numbers": [1, 2]}, "expected_output": EXPECTED}],
        task=agent,
        evaluators=[evaluator(ToolCorrectnessMetric(evaluation_params=["input_parameters"]))],  # 4
    )
    for row in experiment.item_results:
        for evaluation in row.evaluations:
            print(f"{evaluation.name}: {evaluation.value:g}. {evaluation.comment}")
