"""DeepEval's ToolCorrectnessMetric, without a judge: no available tools are given."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams

VERSION = f"deepeval {version('deepeval')}"


def scorers() -> dict[str, Callable[[dict[str, list[Any]]], float]]:
    """Return what scores a case, by what the table calls it."""
    arguments = [ToolCallParams.INPUT_PARAMETERS]
    return {
        "ToolCorrectnessMetric(), names": _scorer(),
        "with arguments": _scorer(evaluation_params=arguments),
        "names, in order": _scorer(should_consider_ordering=True),
        "with arguments, in order": _scorer(evaluation_params=arguments, should_consider_ordering=True),
        "names, exact": _scorer(should_exact_match=True),
        "with arguments, exact": _scorer(evaluation_params=arguments, should_exact_match=True),
    }


def _scorer(**options: Any) -> Callable[[dict[str, list[Any]]], float]:  # noqa: ANN401 - its options
    metric = ToolCorrectnessMetric(async_mode=False, include_reason=False, **{"evaluation_params": [], **options})

    def score(case: dict[str, list[Any]]) -> float:
        tools = {
            side: [ToolCall(name=name, input_parameters=arguments) for name, arguments in case[key]]
            for side, key in (("tools_called", "called"), ("expected_tools", "expected"))
        }
        metric.measure(LLMTestCase(input="recorded", actual_output="", **tools), _show_indicator=False)
        return float(metric.score)

    return score
