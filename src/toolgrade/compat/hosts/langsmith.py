"""toolgrade's metrics as evaluators for LangSmith's `evaluate` and `aevaluate`; its package is not needed here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from toolgrade._internal.model import drop_none
from toolgrade.cases import AnyCase
from toolgrade.compat.hosts._evaluators import Feedback, case_of, host_metrics
from toolgrade.metrics import MetricLike
from toolgrade.redact import DEFAULT, Redactor

__all__ = ["evaluator"]

_VALUES = {True: "pass", False: "fail", None: None}


class LangSmithEvaluator(Protocol):
    """A function that LangSmith calls with each example; it returns the feedback of every metric."""

    def __call__(
        self, inputs: dict[str, Any], outputs: dict[str, Any], reference_outputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the feedback on one example."""
        ...


def evaluator(
    *metrics: MetricLike,
    to_case: Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], AnyCase] | None = None,
    redactor: Redactor = DEFAULT,
) -> LangSmithEvaluator:
    """Return an evaluator for `langsmith.evaluate(..., evaluators=[...])`.

    It returns one entry per metric: `key`, `score` in [0, 1], `value` (`pass` or `fail`) and `comment`, the reason. If
    a metric was skipped or failed, or no case could be read, `score` is `None` and `comment` says why.

    Args:
        metrics: The metrics.
        to_case: Builds a case from `inputs`, `outputs` and `reference_outputs`. By default the outputs contain the
            called tools, under `tools_called`, `messages` or `agent_trajectory`, and the reference the expected ones,
            under `expected_tools`; docs/extend.md lists all keys. Its toolgrade errors become comments; others are
            raised to LangSmith.
        redactor: Redacts secrets in comments.

    Raises:
        ConfigurationError: There is no metric, or one of them is not a metric.

    Example:
        >>> from toolgrade import ToolCorrectnessMetric
        >>> from toolgrade.compat.hosts.langsmith import evaluator
        >>> tools = evaluator(ToolCorrectnessMetric())
        >>> called = [{"name": "get_weather", "args": {"city": "Paris"}}]
        >>> [feedback] = tools({}, {"tools_called": called}, {"expected_tools": called})
        >>> feedback["score"], feedback["value"]
        (1.0, 'pass')
    """
    host = host_metrics(metrics, case_of if to_case is None else to_case, redactor)

    def toolgrade_evaluator(
        inputs: dict[str, Any], outputs: dict[str, Any], reference_outputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        return list(map(_entry, host.feedback(inputs, outputs, reference_outputs)))

    return toolgrade_evaluator


def _entry(feedback: Feedback) -> dict[str, Any]:
    """Return feedback in LangSmith's form."""
    optional = drop_none({"value": _VALUES[feedback.passed], "comment": feedback.comment})
    return {"key": feedback.name, "score": feedback.score, **optional}
