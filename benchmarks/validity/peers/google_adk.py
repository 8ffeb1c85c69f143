"""Google ADK's TrajectoryEvaluator: 1 or 0; a run is one invocation."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from google.adk.evaluation.eval_case import IntermediateData, Invocation
from google.adk.evaluation.eval_metrics import EvalMetric, ToolTrajectoryCriterion
from google.adk.evaluation.trajectory_evaluator import TrajectoryEvaluator
from google.genai import types

VERSION = f"google-adk {version('google-adk')}"


def scorers() -> dict[str, Callable[[dict[str, list[Any]]], float]]:
    """Return what scores a case, by what the table calls it."""
    match = ToolTrajectoryCriterion.MatchType
    return {
        f"{kind.name}{', arguments ignored' if ignored else ''}": _scorer(kind, ignored)
        for ignored in (False, True)
        for kind in (match.EXACT, match.IN_ORDER, match.ANY_ORDER)
    }


def _scorer(kind: ToolTrajectoryCriterion.MatchType, ignored: bool) -> Callable[[dict[str, list[Any]]], float]:
    evaluate = evaluator(kind, ignored)
    return lambda case: evaluate(invocation(case["called"]), invocation(case["expected"]))


def evaluator(kind: ToolTrajectoryCriterion.MatchType, ignored: bool) -> Callable[[Invocation, Invocation], float]:
    """Return what scores a called and an expected invocation."""
    criterion = ToolTrajectoryCriterion(threshold=0.5, match_type=kind, ignore_args=ignored)
    metric = TrajectoryEvaluator(
        eval_metric=EvalMetric(metric_name="tool_trajectory_avg_score", threshold=0.5, criterion=criterion)
    )

    def score(actual: Invocation, expected: Invocation) -> float:
        return float(metric.evaluate_invocations([actual], [expected]).overall_score)

    return score


def invocation(calls: list[Any]) -> Invocation:
    """Return an invocation that made these calls."""
    uses = [types.FunctionCall(name=name, args=arguments) for name, arguments in calls]
    question = types.Content(role="user", parts=[types.Part(text="recorded")])
    return Invocation(user_content=question, intermediate_data=IntermediateData(tool_uses=uses))
