"""toolmark's metrics as evaluators of LangSmith's `evaluate` and `aevaluate`; its package is not needed here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from toolmark.cases import AnyCase
from toolmark.compat._host_evaluators import Told, case_of, names_of, told, unread
from toolmark.errors import ToolmarkError
from toolmark.evaluation.run import evaluate
from toolmark.metrics import MetricLike
from toolmark.redact import DEFAULT, Redactor

__all__ = ["LangSmithEvaluator", "evaluator"]


class LangSmithEvaluator(Protocol):
    """What LangSmith calls with each example: feedback of every metric comes back."""

    def __call__(
        self, inputs: dict[str, Any], outputs: dict[str, Any], reference_outputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the feedback of one example."""
        ...


def evaluator(
    *metrics: MetricLike,
    to_case: Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], AnyCase] | None = None,
    redactor: Redactor = DEFAULT,
) -> LangSmithEvaluator:
    """Return an evaluator for `langsmith.evaluate(..., evaluators=[...])`.

    It gives one entry a metric: `key`, `score` in [0, 1], `value` (`pass` or `fail`) and `comment`, the reason. Where a
    metric was skipped, could not be measured, or no case could be read, `score` is `None` and `comment` says why.

    Args:
        metrics: What measures each example.
        to_case: Makes a case of `inputs`, `outputs` and `reference_outputs`. By default the outputs say what was
            called, under `tools_called`, `messages` or `agent_trajectory`, and the reference what was expected, under
            `expected_tools`; docs/traces.md has all keys. Of its errors, toolmark's own are comments; others are
            LangSmith's to tell.
        redactor: Takes secrets out of comments.

    Raises:
        ConfigurationError: There is no metric, or something is none.

    Example:
        >>> from toolmark import ToolCorrectnessMetric
        >>> from toolmark.compat.langsmith import evaluator
        >>> tools = evaluator(ToolCorrectnessMetric())
        >>> [feedback] = tools({}, {"tools_called": [{"name": "add"}]}, {"expected_tools": [{"name": "add"}]})
        >>> feedback["score"], feedback["value"]
        (1.0, 'pass')
    """
    names = names_of(metrics)
    read_case = case_of if to_case is None else to_case

    def toolmark_evaluator(
        inputs: dict[str, Any], outputs: dict[str, Any], reference_outputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        try:
            case = read_case(inputs, outputs, reference_outputs)
        except ToolmarkError as error:
            return [_feedback(one) for one in unread(error, names, redactor)]
        (measured,) = evaluate([case], metrics, show_progress=False).cases
        pairs = zip(measured.results, names, strict=True)
        return [_feedback(told(result, name, redactor)) for result, name in pairs]

    return toolmark_evaluator


def _feedback(one: Told) -> dict[str, Any]:
    """Return what is said as LangSmith reads it."""
    value = {} if one.passed is None else {"value": "pass" if one.passed else "fail"}
    comment = {} if one.comment is None else {"comment": one.comment}
    return {"key": one.name, "score": one.score, **value, **comment}
