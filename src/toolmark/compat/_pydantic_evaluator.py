"""The class behind `toolmark.compat.pydantic_evals.evaluator`, made when it is first asked for: its base is theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import new_class
from typing import Any

from toolmark._internal.text import printable
from toolmark.cases import AnyCase
from toolmark.compat._host_evaluators import Told, case_of, names_of, says_what_is_wanted, told, unread
from toolmark.errors import MissingPackageError, NotMeasuredError, ToolmarkError
from toolmark.evaluation.run import evaluate_async
from toolmark.metrics import MetricLike
from toolmark.redact import Redactor


@dataclass(frozen=True)
class Measuring:
    """Measures what a context of pydantic-evals tells."""

    metric: MetricLike
    to_case: Callable[[Any], AnyCase] | None
    redactor: Redactor = field(repr=False)  # its patterns fill a page
    name: str

    async def output(self, context: Any, reason: Callable[..., Any]) -> dict[str, Any]:  # noqa: ANN401 - theirs
        """Return the score and whether it passed, or `skipped` as a label; `reason` is their `EvaluationReason`.

        Raises:
            NotMeasuredError: There is no score because of an error.
        """
        one = await self._told(context)
        if one.failed:
            raise NotMeasuredError(printable(one.comment or ""))
        if one.score is None:
            return {self.name: reason("skipped", one.comment)}
        return {self.name: reason(float(one.score), one.comment), f"{self.name} passed": bool(one.passed)}

    async def _told(self, context: Any) -> Told:  # noqa: ANN401 - as above
        try:
            case = _case_of(context) if self.to_case is None else self.to_case(context)
        except ToolmarkError as error:
            return unread(error, [self.name], self.redactor)[0]
        report = await evaluate_async([case], [self.metric], show_progress=False)
        return told(report.cases[0].results[0], self.name, self.redactor)


def evaluator_of(metric: MetricLike, to_case: Callable[[Any], AnyCase] | None, redactor: Redactor) -> Any:  # noqa: ANN401
    """Return the evaluator of a metric; see `toolmark.compat.pydantic_evals.evaluator`."""
    (name,) = names_of([metric])
    return _evaluator_class()(Measuring(metric, to_case, redactor, name))


def _case_of(context: Any) -> AnyCase:  # noqa: ANN401 - as above
    """Return the case of a context; what was expected stands in its expected output or else in its metadata."""
    expected = context.expected_output
    return case_of(context.inputs, context.output, expected if says_what_is_wanted(expected) else context.metadata)


@cache
def _evaluator_class() -> type[Any]:
    """Return the class of these evaluators.

    Raises:
        MissingPackageError: pydantic-evals is not installed.
    """
    try:
        theirs = import_module("pydantic_evals.evaluators")
    except ModuleNotFoundError as error:
        message = "an evaluator of pydantic-evals needs the package 'pydantic-evals', which is not installed"
        raise MissingPackageError(f"{message}: pip install pydantic-evals", name="pydantic_evals") from error

    class Filled:
        """One metric of toolmark."""

        measuring: Measuring

        async def evaluate(self, ctx: Any) -> dict[str, Any]:  # noqa: ANN401 - theirs
            return await self.measuring.output(ctx, theirs.EvaluationReason)

        def get_default_evaluation_name(self) -> str:
            return self.measuring.name

        def build_serialization_arguments(self) -> dict[str, Any]:
            return {"measuring": self.measuring.name}

    def fill(namespace: dict[str, Any]) -> None:
        own = ("evaluate", "get_default_evaluation_name", "build_serialization_arguments", "__doc__", "__module__")
        namespace.update({name: vars(Filled)[name] for name in own})
        namespace["__annotations__"] = {"measuring": Measuring}

    made = new_class("ToolmarkEvaluator", (theirs.Evaluator,), exec_body=fill)
    return dataclass(repr=False)(made)
