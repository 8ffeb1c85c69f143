"""pydantic-evals' TrajectoryMatch in any order: names only, F1.

It reads the calls from the spans of a run, so the input of a case is a tree of spans, one per call, as Pydantic AI's
instrumentation writes them (without the arguments, which nobody looks at). The expected names belong to the evaluator,
so that is part of the input too.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from importlib.metadata import version
from typing import Any

from pydantic_evals.evaluators import EvaluatorContext, TrajectoryMatch
from pydantic_evals.otel import SpanNode, SpanTree

VERSION = f"pydantic-evals {version('pydantic-evals')}"

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
TICK = timedelta(milliseconds=1)


def scorer(_mode: str) -> Callable[[dict[str, list[Any]]], float]:
    """Return what scores a case."""

    def score(case: dict[str, list[Any]]) -> float:
        tree = SpanTree()
        tree.add_spans([_span(number, name) for number, (name, _) in enumerate(case["called"])])
        context: EvaluatorContext[Any, Any, Any] = EvaluatorContext(
            name=None,
            inputs="synthetic",
            metadata=None,
            expected_output=None,
            output="",
            duration=0.0,
            _span_tree=tree,
            attributes={},
            metrics={},
        )
        evaluator = TrajectoryMatch(expected_trajectory=[name for name, _ in case["expected"]], order="any_order")
        return float(evaluator.evaluate(context).value)

    return score


def _span(number: int, name: str) -> SpanNode:
    return SpanNode(
        name=f"execute_tool {name}",
        trace_id=1,
        span_id=number + 1,
        parent_span_id=None,
        start_timestamp=START + number * TICK,
        end_timestamp=START + (number + 1) * TICK,
        attributes={"gen_ai.tool.name": name},
    )
