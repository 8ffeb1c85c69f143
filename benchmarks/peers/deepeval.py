"""DeepEval's ToolCorrectnessMetric by its usual call, without a judge: no available tools are given."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams

VERSION = f"deepeval {version('deepeval')}"


def scorer(_mode: str) -> Callable[[dict[str, list[Any]]], float]:
    """Return what scores a case, and makes the reason."""
    metric = ToolCorrectnessMetric(evaluation_params=[ToolCallParams.INPUT_PARAMETERS])

    def score(case: dict[str, list[Any]]) -> float:
        metric.measure(
            LLMTestCase(
                input="synthetic",
                actual_output="",
                tools_called=[ToolCall(name=name, input_parameters=arguments) for name, arguments in case["called"]],
                expected_tools=[
                    ToolCall(name=name, input_parameters=arguments) for name, arguments in case["expected"]
                ],
            )
        )
        return metric.score or 0.0

    return score
