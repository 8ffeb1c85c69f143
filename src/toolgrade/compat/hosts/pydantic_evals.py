"""toolgrade's metrics as evaluators of pydantic-evals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.text import printable
from toolgrade.cases import AnyCase
from toolgrade.compat.hosts._evaluators import HostMetrics, case_of_item, host_metrics
from toolgrade.errors import NotMeasuredError
from toolgrade.metrics import MetricLike
from toolgrade.redact import DEFAULT, Redactor

__all__ = ["evaluator"]


def evaluator(
    metric: MetricLike, *, to_case: Callable[[Any], AnyCase] | None = None, redactor: Redactor = DEFAULT
) -> Any:  # noqa: ANN401 - a class of pydantic-evals, whose package may be missing
    """Return a metric of toolgrade as an evaluator for `pydantic_evals.Dataset(..., evaluators=[...])`.

    It returns the score with its reason under the name of the metric, and the assertion `<name> passed`. If the metric
    was skipped, it returns the label `skipped` with the reason, and no score. If the metric failed or no case could be
    read, it raises, which pydantic-evals reports as an evaluator's failure.

    Args:
        metric: The metric.
        to_case: Builds a case from an `EvaluatorContext`. By default the output contains the called tools, under
            `tools_called`, `messages` or `agent_trajectory`, or is a `Run`; and the expected output, or the metadata,
            contains the expected ones, under `expected_tools`; docs/extend.md lists all keys.
        redactor: Redacts secrets in reasons and errors.

    Raises:
        MissingPackageError: pydantic-evals is not installed.
        ConfigurationError: `metric` is not a metric.

    Example:
        >>> import asyncio
        >>> from pydantic_evals import Case, Dataset
        >>> from toolgrade import ToolCorrectnessMetric
        >>> from toolgrade.compat.hosts.pydantic_evals import evaluator
        >>> async def agent(question: str) -> dict:
        ...     return {"tools_called": [{"name": "get_weather", "args": {"city": "Paris"}}]}
        >>> expected = {"expected_tools": [{"name": "get_weather"}]}
        >>> case = Case(inputs="What is the weather in Paris?", expected_output=expected)
        >>> dataset = Dataset(name="weather", cases=[case], evaluators=[evaluator(ToolCorrectnessMetric())])
        >>> report = asyncio.run(dataset.evaluate(agent, progress=False))
        >>> {name: score.value for name, score in report.cases[0].scores.items()}
        {'tool_correctness': 1.0}
    """
    return _evaluator_class()(host_metrics([metric], _case_of if to_case is None else to_case, redactor))


def _case_of(context: Any) -> AnyCase:  # noqa: ANN401 - of pydantic-evals
    """Return the case of a context; its expected output or else its metadata is the reference."""
    return case_of_item(context.inputs, context.output, context.expected_output, context.metadata)


@cache
def _evaluator_class() -> type[Any]:
    """Return the class of these evaluators, built on first use since its base is pydantic-evals'.

    Raises:
        MissingPackageError: pydantic-evals is not installed.
    """
    evaluators: Any = import_extra("pydantic_evals.evaluators", "pydantic-evals", "an evaluator of pydantic-evals")

    @dataclass(repr=False)
    class ToolgradeEvaluator(evaluators.Evaluator):  # type: ignore[misc]  # their package may be missing
        """One metric of toolgrade."""

        measuring: HostMetrics

        async def evaluate(self, ctx: Any) -> dict[str, Any]:  # noqa: ANN401 - of pydantic-evals
            (feedback,) = await self.measuring.feedback_async(ctx)
            name = feedback.name
            if feedback.failed:
                raise NotMeasuredError(printable(feedback.comment or ""))
            if feedback.score is None:
                return {name: evaluators.EvaluationReason("skipped", feedback.comment)}
            score = evaluators.EvaluationReason(float(feedback.score), feedback.comment)
            return {name: score, f"{name} passed": bool(feedback.passed)}

        def get_default_evaluation_name(self) -> str:
            return self.measuring.names[0]

        def build_serialization_arguments(self) -> dict[str, Any]:
            return {"measuring": self.measuring.names[0]}

    return ToolgradeEvaluator
