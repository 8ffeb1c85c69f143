"""toolgrade's metrics as evaluators for the experiments of Langfuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolgrade._internal.lazy_imports import import_extra
from toolgrade.cases import AnyCase
from toolgrade.compat.hosts._evaluators import Feedback, case_of_item, host_metrics
from toolgrade.metrics import MetricLike
from toolgrade.redact import DEFAULT, Redactor

__all__ = ["evaluator"]


def evaluator(
    *metrics: MetricLike, to_case: Callable[[Any, Any, Any, Any], AnyCase] | None = None, redactor: Redactor = DEFAULT
) -> Any:  # noqa: ANN401 - returns classes of Langfuse, whose package may be missing
    """Return an evaluator for `run_experiment(..., evaluators=[...])` of Langfuse's client and datasets.

    It returns an `Evaluation` per metric: the score in [0, 1] with the reason as comment, and `passed` in the metadata.
    If a metric was skipped or failed, or no case could be read, the evaluation is categorical, with the value `skipped`
    or `not measured`, so that it does not count in the mean; the comment says why.

    Args:
        metrics: The metrics.
        to_case: Builds a case from `input`, `output`, `expected_output` and `metadata`. By default the output contains
            the called tools, under `tools_called`, `messages` or `agent_trajectory`, or is a `Run`; and the expected
            output, or the metadata, contains the expected ones, under `expected_tools`; docs/extend.md lists all keys.
        redactor: Redacts secrets in comments.

    Raises:
        MissingPackageError: langfuse is not installed.
        ConfigurationError: There is no metric, or one of them is not a metric.

    Example:
        >>> import asyncio
        >>> from langfuse import Evaluation
        >>> from toolgrade import ToolCorrectnessMetric
        >>> from toolgrade.compat.hosts.langfuse import evaluator
        >>> evaluate_tools = evaluator(ToolCorrectnessMetric())
        >>> output, expected = {"tools_called": [{"name": "add"}]}, {"expected_tools": [{"name": "add"}]}
        >>> [evaluation] = asyncio.run(evaluate_tools(input={}, output=output, expected_output=expected))
        >>> isinstance(evaluation, Evaluation), evaluation.value
        (True, 1.0)
    """
    host = host_metrics(metrics, case_of_item if to_case is None else to_case, redactor)
    evaluation_class = import_extra("langfuse", "langfuse", "an evaluator of Langfuse").Evaluation

    async def toolgrade_evaluator(
        *, input: object, output: object, expected_output: object = None, metadata: object = None, **_: object
    ) -> list[Any]:
        feedback = await host.feedback_async(input, output, expected_output, metadata)
        return [evaluation_class(**_fields(entry)) for entry in feedback]

    return toolgrade_evaluator


def _fields(feedback: Feedback) -> dict[str, Any]:
    """Return feedback as fields of Langfuse's `Evaluation`."""
    fields: dict[str, Any] = {"name": feedback.name, "comment": feedback.comment}
    if feedback.score is None:
        return {**fields, "value": "not measured" if feedback.failed else "skipped", "data_type": "CATEGORICAL"}
    return {**fields, "value": float(feedback.score), "metadata": {"passed": feedback.passed}}
