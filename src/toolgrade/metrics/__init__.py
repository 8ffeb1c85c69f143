"""The metrics, one module each. A metric is a frozen object that stores nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgrade._internal.lazy_imports import lazy_package

if TYPE_CHECKING:
    from toolgrade.metrics.argument_schema import ArgumentSchemaMetric
    from toolgrade.metrics.base import Metric, MetricLike
    from toolgrade.metrics.task_success import TaskSuccessMetric
    from toolgrade.metrics.tool_correctness import ToolCorrectnessMetric
    from toolgrade.metrics.tool_efficiency import ToolEfficiencyMetric
    from toolgrade.metrics.tool_error_rate import ToolErrorRate
    from toolgrade.metrics.tool_policy import ToolPolicyMetric
    from toolgrade.metrics.tool_recovery import ToolRecoveryMetric
    from toolgrade.metrics.tool_use import ToolUseMetric

_NAMES = {
    "argument_schema": "ArgumentSchemaMetric",
    "base": "Metric MetricLike",
    "task_success": "TaskSuccessMetric",
    "tool_correctness": "ToolCorrectnessMetric",
    "tool_efficiency": "ToolEfficiencyMetric",
    "tool_error_rate": "ToolErrorRate",
    "tool_policy": "ToolPolicyMetric",
    "tool_recovery": "ToolRecoveryMetric",
    "tool_use": "ToolUseMetric",
}
"""The public names by the module that holds them."""

__all__ = [
    "ArgumentSchemaMetric",
    "Metric",
    "MetricLike",
    "TaskSuccessMetric",
    "ToolCorrectnessMetric",
    "ToolEfficiencyMetric",
    "ToolErrorRate",
    "ToolPolicyMetric",
    "ToolRecoveryMetric",
    "ToolUseMetric",
]

__getattr__, __dir__ = lazy_package(__name__, _NAMES)
