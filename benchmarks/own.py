"""toolgrade as the benchmark runs it: models are made, `measure` is called, the reason is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from toolgrade import LLMTestCase, ToolCall, ToolCallParams, ToolCorrectnessMetric, case_from_record

try:
    VERSION = f"toolgrade {version('toolgrade')}"
except PackageNotFoundError:  # run from the source tree
    VERSION = "toolgrade (from source)"


def make(case: dict[str, list[Any]], _mode: str) -> LLMTestCase:
    """Return the case as `measure` takes it."""
    return LLMTestCase(
        input="synthetic",
        tools_called=[ToolCall(name=name, input_parameters=arguments) for name, arguments in case["called"]],
        expected_tools=[ToolCall(name=name, input_parameters=arguments) for name, arguments in case["expected"]],
    )


def scorer(mode: str) -> Callable[[LLMTestCase], float]:
    """Return a function that measures a case and reads the reason."""
    metric = _metric(mode)

    def score(case: LLMTestCase) -> float:
        result = metric.measure(case)
        if result.reason is None:
            raise ValueError(case)
        return float(result)

    return score


def _metric(mode: str) -> ToolCorrectnessMetric:
    return ToolCorrectnessMetric(
        evaluation_params=[] if "names" in mode else [ToolCallParams.INPUT_PARAMETERS],
        should_consider_ordering=mode in {"ordered", "names in order"},
        should_exact_match=mode == "all in order",
        strict_mode=mode.startswith("all"),
        denominator="longest" if mode in {"all", "all names"} else "expected",
    )


def message_scorer() -> Callable[[dict[str, Any]], float]:
    """Return a function that scores a record of messages and reads the reason."""
    score = scorer("unordered")
    return lambda record: score(case_from_record(record))


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
