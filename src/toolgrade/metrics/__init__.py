"""The metrics, one module each. A metric is a frozen object that stores nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgrade._internal.lazy_imports import lazy_package

if TYPE_CHECKING:
    from toolgrade.metrics.argument_schema import ArgumentSchemaMetric
    from toolgrade.metrics.base import Metric, MetricLike
    from toolgrade.metrics.budget import BudgetMetric
    from toolgrade.metrics.run_health import RunHealthMetric
    from toolgrade.metrics.task_success import TaskSuccessMetric
    from toolgrade.metrics.tool_correctness import ToolCorrectnessMetric
    from toolgrade.metrics.tool_efficiency import ToolEfficiencyMetric
    from toolgrade.metrics.tool_grounding import ToolGroundingMetric
    from toolgrade.metrics.tool_policy import ToolPolicyMetric
    from toolgrade.metrics.tool_recovery import ToolRecoveryMetric
    from toolgrade.metrics.tool_success_rate import ToolSuccessRate
    from toolgrade.metrics.tool_use import ToolUseMetric

_NAMES = {
    "argument_schema": "ArgumentSchemaMetric",
    "base": "Metric MetricLike",
    "budget": "BudgetMetric",
    "run_health": "RunHealthMetric",
    "task_success": "TaskSuccessMetric",
    "tool_correctness": "ToolCorrectnessMetric",
    "tool_efficiency": "ToolEfficiencyMetric",
    "tool_grounding": "ToolGroundingMetric",
    "tool_policy": "ToolPolicyMetric",
    "tool_recovery": "ToolRecoveryMetric",
    "tool_success_rate": "ToolSuccessRate",
    "tool_use": "ToolUseMetric",
}
"""The public names by the module that holds them."""

__all__ = [
    "ArgumentSchemaMetric",
    "BudgetMetric",
    "Metric",
    "MetricLike",
    "RunHealthMetric",
    "TaskSuccessMetric",
    "ToolCorrectnessMetric",
    "ToolEfficiencyMetric",
    "ToolGroundingMetric",
    "ToolPolicyMetric",
    "ToolRecoveryMetric",
    "ToolSuccessRate",
    "ToolUseMetric",
]

__getattr__, __dir__ = lazy_package(__name__, _NAMES)
