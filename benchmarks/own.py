"""toolmark, as the benchmark's worker calls it."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from toolmark import LLMTestCase, ToolCall, ToolCallParams, ToolCorrectnessMetric, case_from_record

try:
    VERSION = f"toolmark {version('toolmark')}"
except PackageNotFoundError:  # run from the source tree
    VERSION = "toolmark (from source)"


def make(case: dict[str, list[Any]], _mode: str) -> LLMTestCase:
    """Return the case as toolmark's model."""
    return LLMTestCase(
        input="synthetic",
        tools_called=[ToolCall(name=name, input_parameters=arguments) for name, arguments in case["called"]],
        expected_tools=[ToolCall(name=name, input_parameters=arguments) for name, arguments in case["expected"]],
    )


def scorer(mode: str) -> Callable[[LLMTestCase], float]:
    """Return the metric's `measure`, with the reason in words unless the mode is `without reason`."""
    metric = ToolCorrectnessMetric(
        evaluation_params=[] if mode.startswith("names") else [ToolCallParams.INPUT_PARAMETERS],
        should_consider_ordering=mode in {"ordered", "names in order"},
        include_reason=mode != "without reason",
    )

    def score(case: LLMTestCase) -> float:
        return float(metric.measure(case))

    return score


def parser(record: bool) -> Callable[[bytes], LLMTestCase]:
    """Return what reads a line: a record of messages, or a case."""
    if record:
        return lambda line: case_from_record(json.loads(line))
    return LLMTestCase.model_validate_json


def plain(case: LLMTestCase) -> dict[str, list[Any]]:
    """Return the calls of a case as the workloads hold them, to compare."""
    return {
        kind: [[call.name, call.input_parameters or {}] for call in calls or []]
        for kind, calls in (("expected", case.expected_tools), ("called", case.tools_called))
    }
