"""Google ADK's TrajectoryEvaluator in any order: yes or no, and more calls than the expected ones are no harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.adk.evaluation.eval_metrics import ToolTrajectoryCriterion
from validity.peers.google_adk import VERSION, evaluator, invocation

__all__ = ["VERSION", "scorer"]


def scorer(_mode: str) -> Callable[[dict[str, list[Any]]], float]:
    """Return what scores a case, which is one invocation."""
    score = evaluator(ToolTrajectoryCriterion.MatchType.ANY_ORDER, ignored=False)
    return lambda case: score(invocation(case["called"]), invocation(case["expected"]))
