"""Both directions beside DeepEval: its metrics in toolgrade's `evaluate`, toolgrade's metrics in DeepEval's."""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn

from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.model import Model
from toolgrade.compat.deepeval._conversion import from_case, to_case
from toolgrade.compat.deepeval.metrics import Measuring, ToolgradeMetric, as_metric
from toolgrade.errors import MissingFieldError
from toolgrade.metrics import MetricLike


def from_deepeval(value: Any) -> Any:  # noqa: ANN401 - by what it is given
    """Return toolgrade's form of something of DeepEval's.

    Args:
        value: A metric (a `BaseMetric` or `BaseConversationalMetric` of DeepEval, or of this package): then the metric
            for toolgrade's `evaluate`, which measures with a copy of it for each case. Or a test case, a conversation,
            a golden or a call of DeepEval: then the one of `toolgrade.compat.deepeval`. What `to_deepeval` made comes
            back as it was, unless it was changed.

    Raises:
        ConfigurationError: It is none of these.

    Example:
        >>> from toolgrade import LLMTestCase, evaluate
        >>> from toolgrade.compat.deepeval import from_deepeval
        >>> from toolgrade.compat.deepeval.metrics import BaseMetric
        >>> class Short(BaseMetric):
        ...     threshold = 1.0
        ...     __name__ = "Short"
        ...
        ...     def measure(self, test_case):
        ...         self.score = float(len(test_case.actual_output) < 20)
        ...         return self.score
        >>> report = evaluate([LLMTestCase(input="Paris?", actual_output="Sunny.")], [from_deepeval(Short())])
        >>> print(report.summaries[0])
        Short: mean 1 over 1 case; 1 passed, 0 failed (at 1), 0 skipped, 0 errored
    """
    if hasattr(value, "measure"):
        return as_metric(value)
    return from_case(value)


def to_deepeval(value: Any, *, conversational: bool | None = None) -> Any:  # noqa: ANN401 - by what it is given
    """Return DeepEval's form of something of toolgrade's.

    Args:
        value: A metric of toolgrade or of this package: then a `BaseMetric` for DeepEval's `evaluate`, `assert_test`
            and `deepeval test run`. Or a case, a conversation or a call: then DeepEval's. What its cases have no field
            for stands in their metadata, under `toolgrade.case`.
        conversational: Whether the metric is for conversations, a `BaseConversationalMetric`; by default only
            `ToolUseMetric` is.

    Raises:
        MissingPackageError: deepeval is not installed.
        InvalidDataError: The expected tools are a plan, which DeepEval has no form for.

    Example:
        >>> from deepeval.metrics import BaseMetric
        >>> from toolgrade import ToolCorrectnessMetric
        >>> from toolgrade.compat.deepeval import to_deepeval
        >>> isinstance(to_deepeval(ToolCorrectnessMetric(threshold=1)), BaseMetric)
        True
    """
    if isinstance(value, Model):
        return to_case(value)
    metric = as_metric(value)
    if conversational is None:
        measured = value.as_metric() if isinstance(value, ToolgradeMetric) else value
        conversational = getattr(measured, "measures_conversations", False)
    return _metric_class("BaseConversationalMetric" if conversational else "BaseMetric")(metric, value.threshold)


@cache
def _metric_class(base: str) -> type[Any]:
    """Return the class of toolgrade's metrics in DeepEval, built on first use since its base is DeepEval's.

    Raises:
        MissingPackageError: deepeval is not installed.
    """
    metrics: Any = import_extra("deepeval.metrics", "deepeval", "a metric of DeepEval")
    errors: Any = import_extra("deepeval.errors", "deepeval", "a metric of DeepEval")

    class Metric(Measuring, getattr(metrics, base)):  # type: ignore[misc]  # their package may be missing
        """One metric of toolgrade; DeepEval makes a copy of it for each case."""

        verbose_mode = False
        include_reason = True

        def __init__(self, toolgrade_metric: MetricLike, threshold: float | None = None) -> None:
            self.toolgrade_metric = toolgrade_metric
            self.threshold = threshold
            self.evaluation_model = getattr(getattr(toolgrade_metric, "judge", None), "name", None)

        @property
        def __name__(self) -> str:
            return self.toolgrade_metric.label

        def as_metric(self) -> MetricLike:
            return self.toolgrade_metric

        def is_successful(self) -> bool | None:
            """Return whether the last case passed at the threshold, which may have been set anew."""
            result = self.result
            if self.error is None and result is not None and self.threshold == result.threshold:
                self.success = bool(result.passed)
                return self.success
            return super().is_successful()

        def _fail(self, error: Exception) -> NoReturn:
            missing = isinstance(error, MissingFieldError)
            super()._fail(errors.MissingTestCaseParamsError(str(error)) if missing else error)

    return Metric
