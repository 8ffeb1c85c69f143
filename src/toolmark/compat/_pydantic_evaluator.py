"""The class behind `toolmark.compat.pydantic_evals.evaluator`, built on first use since its base is pydantic-evals'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from toolmark._internal.text import printable
from toolmark.cases import AnyCase
from toolmark.compat._host_evaluators import Feedback, case_of, failed_feedback, feedback_of, has_expectation, names_of
from toolmark.errors import MissingPackageError, NotMeasuredError, ToolmarkError
from toolmark.evaluation.run import evaluate_async
from toolmark.metrics import MetricLike
from toolmark.redact import Redactor


@dataclass(frozen=True)
class Measuring:
    """A metric that measures the cases of pydantic-evals' contexts."""

    metric: MetricLike
    to_case: Callable[[Any], AnyCase] | None
    redactor: Redactor = field(repr=False)  # its patterns fill a page
    name: str

    async def output(self, context: Any, reason: Callable[..., Any]) -> dict[str, Any]:  # noqa: ANN401 - of pydantic-evals
        """Return the score and whether it passed, or the label `skipped`; `reason` is their `EvaluationReason`.

        Raises:
            NotMeasuredError: An error prevented the measurement.
        """
        feedback = await self._feedback(context)
        if feedback.failed:
            raise NotMeasuredError(printable(feedback.comment or ""))
        if feedback.score is None:
            return {self.name: reason("skipped", feedback.comment)}
        score = reason(float(feedback.score), feedback.comment)
        return {self.name: score, f"{self.name} passed": bool(feedback.passed)}

    async def _feedback(self, context: Any) -> Feedback:  # noqa: ANN401 - of pydantic-evals
        try:
            case = _case_of(context) if self.to_case is None else self.to_case(context)
        except ToolmarkError as error:
            return failed_feedback(error, [self.name], self.redactor)[0]
        report = await evaluate_async([case], [self.metric], show_progress=False)
        return feedback_of(report.cases[0].results[0], self.name, self.redactor)


def evaluator_of(metric: MetricLike, to_case: Callable[[Any], AnyCase] | None, redactor: Redactor) -> Any:  # noqa: ANN401
    """Return the evaluator of a metric; see `toolmark.compat.pydantic_evals.evaluator`."""
    (name,) = names_of([metric])
    return _evaluator_class()(Measuring(metric, to_case, redactor, name))


def _case_of(context: Any) -> AnyCase:  # noqa: ANN401 - of pydantic-evals
    """Return the case of a context; its expected output or else its metadata is the reference."""
    expected = context.expected_output
    return case_of(context.inputs, context.output, expected if has_expectation(expected) else context.metadata)


@cache
def _evaluator_class() -> type[Any]:
    """Return the class of these evaluators.

    Raises:
        MissingPackageError: pydantic-evals is not installed.
    """
    try:
        evaluators: Any = import_module("pydantic_evals.evaluators")
    except ModuleNotFoundError as error:
        message = "an evaluator of pydantic-evals needs the package 'pydantic-evals', which is not installed"
        raise MissingPackageError(f"{message}: pip install pydantic-evals", name="pydantic_evals") from error

    @dataclass(repr=False)
    class ToolmarkEvaluator(evaluators.Evaluator):  # type: ignore[misc]  # their package may be missing
        """One metric of toolmark."""

        measuring: Measuring

        async def evaluate(self, ctx: Any) -> dict[str, Any]:  # noqa: ANN401 - of pydantic-evals
            return await self.measuring.output(ctx, evaluators.EvaluationReason)

        def get_default_evaluation_name(self) -> str:
            return self.measuring.name

        def build_serialization_arguments(self) -> dict[str, Any]:
            return {"measuring": self.measuring.name}

    return ToolmarkEvaluator
