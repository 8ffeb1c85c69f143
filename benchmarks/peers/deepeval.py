"""DeepEval's ToolCorrectnessMetric, without a judge: no available tools are given."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams

VERSION = f"deepeval {version('deepeval')}"


def make(case: dict[str, list[Any]], _mode: str) -> LLMTestCase:
    """Return the case as DeepEval's model."""
    return LLMTestCase(
        input="synthetic",
        actual_output="",
        tools_called=[ToolCall(name=name, input_parameters=arguments) for name, arguments in case["called"]],
        expected_tools=[ToolCall(name=name, input_parameters=arguments) for name, arguments in case["expected"]],
    )


def scorer(mode: str) -> Callable[[LLMTestCase], float]:
    """Return the leanest public call, synchronous and without a display; in the mode `default` the usual one."""
    metric = ToolCorrectnessMetric(
        evaluation_params=[] if mode.startswith("names") else [ToolCallParams.INPUT_PARAMETERS],
        should_consider_ordering=mode in {"ordered", "names in order"},
        async_mode=mode == "default",
    )

    def score(case: LLMTestCase) -> float:
        metric.measure(case, _show_indicator=False)
        return metric.score or 0.0

    def score_by_default(case: LLMTestCase) -> float:
        metric.measure(case)
        return metric.score or 0.0

    return score_by_default if mode == "default" else score
