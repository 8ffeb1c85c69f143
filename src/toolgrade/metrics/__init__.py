"""The metrics, one module each. A metric is a frozen object that stores nothing."""

from toolgrade.metrics.argument_schema import ArgumentSchemaMetric
from toolgrade.metrics.base import Metric, MetricLike
from toolgrade.metrics.task_success import TaskSuccessMetric
from toolgrade.metrics.tool_correctness import ToolCorrectnessMetric
from toolgrade.metrics.tool_efficiency import ToolEfficiencyMetric
from toolgrade.metrics.tool_error_rate import ToolErrorRate
from toolgrade.metrics.tool_policy import ToolPolicyMetric
from toolgrade.metrics.tool_recovery import ToolRecoveryMetric
from toolgrade.metrics.tool_use import ToolUseMetric

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
