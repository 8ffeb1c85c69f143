"""The metrics, one module each. A metric is a frozen object that stores nothing."""

from toolmark.metrics.argument_schema import ArgumentSchemaMetric
from toolmark.metrics.base import Metric, MetricLike
from toolmark.metrics.call_filter import ERROR_TEXTS
from toolmark.metrics.multimodal import MultimodalToolCorrectnessMetric
from toolmark.metrics.task_effect import TaskEffectMetric
from toolmark.metrics.task_success import TaskSuccessMetric
from toolmark.metrics.tool_correctness import ToolCorrectnessMetric
from toolmark.metrics.tool_efficiency import ToolEfficiencyMetric
from toolmark.metrics.tool_error_rate import ToolErrorRate
from toolmark.metrics.tool_policy import ToolPolicyMetric
from toolmark.metrics.tool_recovery import ToolRecoveryMetric
from toolmark.metrics.tool_use import ToolUseMetric

__all__ = [
    "ERROR_TEXTS",
    "ArgumentSchemaMetric",
    "Metric",
    "MetricLike",
    "MultimodalToolCorrectnessMetric",
    "TaskEffectMetric",
    "TaskSuccessMetric",
    "ToolCorrectnessMetric",
    "ToolEfficiencyMetric",
    "ToolErrorRate",
    "ToolPolicyMetric",
    "ToolRecoveryMetric",
    "ToolUseMetric",
]
