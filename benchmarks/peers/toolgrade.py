"""toolgrade, as its users call it: models are made, `measure` is called, and the reason or the score is read."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from toolgrade import LLMTestCase, ToolCall, ToolCallParams, ToolCorrectnessMetric

VERSION = f"toolgrade {version('toolgrade')}"


def scorer(mode: str) -> Callable[[dict[str, list[Any]]], float]:
    """Return what scores a case; the modes `all` and `expected` answer by 1 or 0."""
    metric = ToolCorrectnessMetric(
        evaluation_params=[] if mode == "names" else [ToolCallParams.INPUT_PARAMETERS],
        strict_mode=mode in {"all", "expected"},
        denominator="longest" if mode == "all" else "expected",
    )

    def score(case: dict[str, list[Any]]) -> float:
        result = metric.measure(
            LLMTestCase(
                input="synthetic",
                tools_called=[ToolCall(name=name, input_parameters=arguments) for name, arguments in case["called"]],
                expected_tools=[
                    ToolCall(name=name, input_parameters=arguments) for name, arguments in case["expected"]
                ],
            )
        )
        if mode == "reason" and not result.reason:
            raise ValueError(case)
        return float(result)

    return score
