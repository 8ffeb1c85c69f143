"""Google ADK's TrajectoryEvaluator: yes or no; a case is one invocation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.adk.evaluation.eval_case import Invocation
from google.adk.evaluation.eval_metrics import ToolTrajectoryCriterion
from validity.peers.google_adk import VERSION, evaluator, invocation

__all__ = ["VERSION", "make", "scorer"]

Invocations = tuple[Invocation, Invocation]


def make(case: dict[str, list[Any]], _mode: str) -> Invocations:
    """Return the called and the expected invocation."""
    return invocation(case["called"]), invocation(case["expected"])


def scorer(mode: str) -> Callable[[Invocations], float]:
    """Return the evaluator: `EXACT` where order counts, `ANY_ORDER` otherwise, which lets more calls be made."""
    match = ToolTrajectoryCriterion.MatchType
    score = evaluator(match.EXACT if mode == "ordered" else match.ANY_ORDER, ignored=mode == "names")
    return lambda case: score(*case)
