"""Score an evaluation of LangSmith: the numbered lines. Nothing is sent: the dataset stands here.

From a checkout of toolgrade: `pip install langsmith .`
"""

from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from langsmith import Client, evaluate
from langsmith.schemas import Example

from toolgrade import ToolCorrectnessMetric  # 1
from toolgrade.compat.hosts.langsmith import evaluator  # 2


def agent(inputs: dict[str, Any]) -> dict[str, Any]:
    """Answer a question; this agent asks no model."""
    a, b = inputs["numbers"]
    return {"tools_called": [{"name": "add", "args": {"a": a, "b": b}}], "actual_output": f"It is {a + b}."}


EXPECTED = {"expected_tools": [{"name": "add", "args": {"a": 1, "b": 2}}]}  # 3

if __name__ == "__main__":
    example = Example(
        id=uuid4(),
        dataset_id=uuid4(),
        created_at=datetime.now(timezone.utc),
        inputs={"numbers": [1, 2]},
        outputs=EXPECTED,
    )
    rows = evaluate(
        agent,
        data=[example],
        evaluators=[evaluator(ToolCorrectnessMetric(evaluation_params=["input_parameters"]))],  # 4
        client=Client(api_url="http://127.0.0.1:9", api_key="none", auto_batch_tracing=False),
        upload_results=False,
    )
    for row in rows:
        for result in row["evaluation_results"]["results"]:
            print(f"{result.key}: {result.score:g}. {result.comment}")
