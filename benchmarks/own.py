"""toolmark, as the benchmark's worker calls it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from toolmark import LLMTestCase, ToolCall, ToolCallParams, ToolCorrectnessMetric, case_from_record

try:
    VERSION = f"toolmark {version('toolmark')}"
except PackageNotFoundError:  # run from the source tree
    VERSION = "toolmark (from source)"


MODELS = frozenset({"from models", "measure", "with reason"})
"""The modes that begin with models; the others with the plain objects that `score_batch` takes."""


def make(case: dict[str, list[Any]], mode: str) -> LLMTestCase | dict[str, Any]:
    """Return the case as `score_batch` or `measure` takes it."""
    if mode not in MODELS:
        return {
            "input": "synthetic",
            "tools_called": [{"name": name, "input_parameters": arguments} for name, arguments in case["called"]],
            "expected_tools": [{"name": name, "input_parameters": arguments} for name, arguments in case["expected"]],
        }
    return LLMTestCase(
        input="synthetic",
        tools_called=[ToolCall(name=name, input_parameters=arguments) for name, arguments in case["called"]],
        expected_tools=[ToolCall(name=name, input_parameters=arguments) for name, arguments in case["expected"]],
    )


def batch_scorer(mode: str) -> Callable[[Sequence[Any]], list[float | None]] | None:
    """Return what scores many cases at once; `None` for the modes in which each is measured."""
    return None if mode in {"measure", "with reason"} else _metric(mode).score_batch


def scorer(mode: str) -> Callable[[Any], float]:
    """Return the metric's `measure`, and in the mode `with reason` read what it says."""
    metric = _metric(mode)

    def score(case: LLMTestCase) -> float:
        return float(metric.measure(case))

    def score_with_reason(case: LLMTestCase) -> float:
        result = metric.measure(case)
        if result.reason is None:
            raise ValueError(case)
        return float(result)

    return score_with_reason if mode == "with reason" else score


def _metric(mode: str) -> ToolCorrectnessMetric:
    return ToolCorrectnessMetric(
        evaluation_params=[] if "names" in mode else [ToolCallParams.INPUT_PARAMETERS],
        should_consider_ordering=mode in {"ordered", "names in order"},
        should_exact_match=mode == "all in order",
        strict_mode=mode.startswith("all"),
        denominator="longest" if mode in {"all", "all names"} else "expected",
    )


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
