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
    criterion = ToolTrajectoryCriterion(threshold=0.5, match_type=kind, ignore_args=ignored)
    evaluator = TrajectoryEvaluator(
        eval_metric=EvalMetric(metric_name="tool_trajectory_avg_score", threshold=0.5, criterion=criterion)
    )

    def score(case: dict[str, list[Any]]) -> float:
        actual, expected = _invocation(case["called"]), _invocation(case["expected"])
        return float(evaluator.evaluate_invocations([actual], [expected]).overall_score)

    return score


def _invocation(calls: list[Any]) -> Invocation:
    uses = [types.FunctionCall(name=name, args=arguments) for name, arguments in calls]
    asked = types.Content(role="user", parts=[types.Part(text="recorded")])
    return Invocation(user_content=asked, intermediate_data=IntermediateData(tool_uses=uses))
