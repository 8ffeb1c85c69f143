"""The names of `deepeval.metrics`: the metrics about tool calls, and the bases for metrics of a suite's own.

These metrics keep the result of their last case, as DeepEval's do; each measures with the metric of toolgrade that its
`as_metric` returns. Metrics about other things can be imported and say so when they are made.
"""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.options import require, require_one_name
from toolgrade._internal.sync_bridge import run_sync
from toolgrade._internal.text import error_text
from toolgrade.calls import ToolCallParams
from toolgrade.cases import ConversationalTestCase
from toolgrade.compat.deepeval import _absent, _rules
from toolgrade.compat.deepeval._conversion import is_of_deepeval, own_case_of, to_case
from toolgrade.compat.deepeval.test_case import changeable_case
from toolgrade.errors import ConfigurationError, MissingExpectationError, MissingFieldError, NotMeasuredError
from toolgrade.judge import Judge
from toolgrade.judge.judge import JudgeLike
from toolgrade.metrics import MetricLike
from toolgrade.metrics import ToolCorrectnessMetric as _ToolCorrectness
from toolgrade.metrics import ToolUseMetric as _ToolUse
from toolgrade.result import TOLERANCE, MetricResult, ResultStatus

__all__ = [
    "ArgumentCorrectnessMetric",
    "BaseConversationalMetric",
    "BaseMetric",
    "MultimodalToolCorrectnessMetric",
    "ToolCorrectnessMetric",
    "ToolUseMetric",
]

_DEFAULT_MODEL = "gpt-4o"
"""The model of DeepEval's pages, asked unless the `TOOLGRADE_JUDGE_*` variables name another."""

_FLAGS = ("include_reason", "strict_mode", "verbose_mode")
_ORDER = ("should_exact_match", "should_consider_ordering")


class BaseMetric:
    """Base of a metric of your own for cases of one question, with DeepEval's attributes and methods.

    `measure` sets `score`, `reason` and `success`, and returns the score. `evaluate`, `assert_test` and
    `@observe(metrics=[...])` call it with a copy of the metric for each case, so that cases do not mix.

    Example:
        >>> from toolgrade.compat.deepeval import evaluate
        >>> from toolgrade.compat.deepeval.metrics import BaseMetric
        >>> from toolgrade.compat.deepeval.test_case import LLMTestCase, ToolCall
        >>> class FewCalls(BaseMetric):
        ...     def __init__(self, threshold=0.5):
        ...         self.threshold = threshold
        ...
        ...     def measure(self, test_case):
        ...         self.score = 1 / max(1, len(test_case.tools_called))
        ...         self.success = self.score >= self.threshold
        ...         return self.score
        ...
        ...     async def a_measure(self, test_case):
        ...         return self.measure(test_case)
        ...
        ...     def is_successful(self):
        ...         return self.success
        ...
        ...     @property
        ...     def __name__(self):
        ...         return "Few calls"
        >>> case = LLMTestCase(input="Weather in Paris?", tools_called=[ToolCall(name="get_weather")])
        >>> FewCalls().measure(case)
        1.0
    """

    threshold: float | None = None
    score: float | None = None
    score_breakdown: Any = None
    reason: str | None = None
    success: bool | None = None
    error: str | None = None
    evaluation_model: str | None = None
    evaluation_cost: float | None = None
    verbose_logs: str | None = None
    strict_mode: bool = False
    async_mode: bool = True
    verbose_mode: bool = True
    include_reason: bool = False
    skipped: bool = False
    flaky: bool = False
    model: Any = None

    def measure(self, test_case: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as DeepEval's
        """Measure one case, and return the score."""
        raise NotImplementedError(f"{type(self).__name__} has no measure")

    async def a_measure(self, test_case: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as DeepEval's
        """Measure one case without blocking; in place of one that is not implemented, `measure` runs in a thread."""
        raise NotImplementedError(f"{type(self).__name__} has no a_measure")

    def is_successful(self) -> bool | None:
        """Return whether the last case passed; `None` without a threshold."""
        if self.threshold is None or self.error is not None or self.score is None:
            self.success = None if self.threshold is None else False
        else:
            self.success = self.score >= self.threshold - TOLERANCE
        return self.success

    @property
    def __name__(self) -> str:
        """Name of the metric in reports."""
        return "Base Metric"


class BaseConversationalMetric(BaseMetric):
    """Base of a metric of your own for conversations; otherwise as `BaseMetric`."""

    @property
    def __name__(self) -> str:
        """Name of the metric in reports."""
        return "Base Conversational Metric"


class Score(float):
    """The score that `measure` returns; its other attributes are those of the `MetricResult`."""

    result: MetricResult

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - an attribute of the result
        """Return an attribute of the result."""
        if name.startswith("__") or "result" not in vars(self):  # as of a copy that is being made
            raise AttributeError(name)
        return getattr(self.result, name)


class Measuring(BaseMetric):
    """A metric with DeepEval's methods that measures by one of toolgrade."""

    result: MetricResult | None = None
    """The result of the last case."""

    def as_metric(self) -> MetricLike:
        """Return the metric of toolgrade."""
        raise NotImplementedError

    def measure(self, test_case: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401, ARG002 - as DeepEval's
        """Measure one case, store the result, and return the score.

        Raises:
            ToolgradeError: The case cannot be measured; `error` has the text, too.
        """
        try:
            return self._keep(self.as_metric().measure(own_case_of(test_case)))
        except Exception as error:  # noqa: BLE001 - raised again
            self._fail(error)

    async def a_measure(self, test_case: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401, ARG002 - as above
        """Do what `measure` does, without blocking."""
        try:
            return self._keep(await self.as_metric().a_measure(own_case_of(test_case)))
        except Exception as error:  # noqa: BLE001 - raised again
            self._fail(error)

    def _keep(self, result: MetricResult) -> Score | None:
        self.result, self.error, self.score = result, None, result.score
        self.reason: str | None = result.reason
        self.score_breakdown: Any = dict(result.parts)
        self.evaluation_cost: float | None = result.cost
        self.skipped: bool = result.status is ResultStatus.SKIPPED
        if result.status is ResultStatus.ERRORED:
            raise NotMeasuredError(result.error or "it could not be measured")
        self.is_successful()
        if result.score is None:
            return None
        score = Score(result.score)
        score.result = result
        return score

    def _fail(self, error: Exception) -> NoReturn:
        if not isinstance(error, NotMeasuredError):
            self.result = None
        self.error, self.score = error_text(error), None
        self.success: bool | None = False
        raise error


class ToolgradeMetric(Measuring):
    """Base of the metrics of this module; their options are attributes, and may be set between two cases."""

    _name: ClassVar[str]

    def __post_init__(self) -> None:
        """Check the options; flags may be 0 and 1."""
        for name in vars(self).keys() & {*_FLAGS, "async_mode", *_ORDER}:
            value = getattr(self, name)
            require(value in (0, 1), f"{name} must be True or False", value)
            setattr(self, name, bool(value))
        self.threshold: float | None = 1.0 if self.strict_mode else self.threshold
        self.as_metric()  # which checks the options

    @property
    def __name__(self) -> str:
        """Name of the metric in reports."""
        return self._name

    @property
    def label(self) -> str:
        """Its name in reports of toolgrade: that of the metric there, unless a subclass has one of its own."""
        return self.as_metric().label if self.__name__ == self._name else self.__name__

    def _options(self, *names: str) -> dict[str, Any]:
        options: dict[str, Any] = {name: getattr(self, name) for name in (*_FLAGS, *names)}
        if "evaluation_params" in options:  # also those of DeepEval's own class
            options["evaluation_params"] = [getattr(one, "value", one) for one in options["evaluation_params"]]
        return {"threshold": self.threshold or 0.0, **options}


class JudgedMetric(ToolgradeMetric):
    """Base of the metrics that ask a model; each has its options in DeepEval's order, in which they may be given."""

    model: JudgeLike | None = None
    judge: Any = None
    """Another name of `model`; afterwards the `Judge`, `None` if no model is asked."""

    def __post_init__(self) -> None:
        """Find the judge."""
        names = ("flaky", "system_one_model", "eval_mode", "evaluation_template")
        _absent.warn_of({name: getattr(self, name) for name in names}, f"a {self._name} metric")
        require_one_name("judge", self.judge, "model", self.model)
        model = self.model if self.judge is None else self.judge
        if model is None and not os.environ.get("TOOLGRADE_JUDGE_MODEL"):
            model = _DEFAULT_MODEL
        judge = Judge.of(model)  # which checks it, also where it is not asked
        self.judge = judge if self._is_judged() else None
        self.evaluation_model: str | None = None if self.judge is None else self.judge.name
        super().__post_init__()

    def _is_judged(self) -> bool:
        """Return whether a model is asked."""
        return True


@dataclass(eq=False)
class ToolCorrectnessMetric(JudgedMetric):
    """DeepEval's metric of this name: `toolgrade.ToolCorrectnessMetric`, which also keeps the result of the last case.

    With `available_tools` a model judges whether the right tools were called: `model`, by default `"gpt-4o"`, whose key
    is read from the environment when the first case is measured. The score is then the lower of both.

    Example:
        >>> from toolgrade.compat.deepeval.metrics import ToolCorrectnessMetric
        >>> from toolgrade.compat.deepeval.test_case import LLMTestCase, ToolCall
        >>> weather, flight = ToolCall(name="get_weather"), ToolCall(name="book_flight")
        >>> metric = ToolCorrectnessMetric(threshold=0.7)
        >>> metric.measure(LLMTestCase(input="Paris?", tools_called=[weather], expected_tools=[weather, flight]))
        0.5
        >>> metric.is_successful()
        False
    """

    _name: ClassVar[str] = "Tool Correctness"

    available_tools: Sequence[Any] | None = None
    threshold: float | None = 0.5
    evaluation_params: Sequence[ToolCallParams | str] = ()
    model: JudgeLike | None = None
    system_one_model: object = None
    eval_mode: object = None
    include_reason: bool = True
    async_mode: bool = True
    strict_mode: bool = False
    verbose_mode: bool = False
    should_exact_match: bool = False
    should_consider_ordering: bool = False
    flaky: bool = False
    evaluation_template: object = None
    judge: Any = None

    def _is_judged(self) -> bool:
        return bool(self.available_tools)

    def as_metric(self) -> _ToolCorrectness:
        """Return the metric of toolgrade with these options."""
        options = self._options("evaluation_params", "async_mode", "judge", *_ORDER)
        return _ToolCorrectness(available_tools=self.available_tools or None, **options)


@dataclass(eq=False)
class MultimodalToolCorrectnessMetric(ToolgradeMetric):
    """Tool correctness of cases with images, which affect no score; no model is asked.

    With `should_consider_ordering` calls out of order fail the case with 0, as the page of this metric says, where
    `ToolCorrectnessMetric` scores the share that is in order.

    Example:
        >>> from toolgrade.compat.deepeval.metrics import MultimodalToolCorrectnessMetric
        >>> from toolgrade.compat.deepeval.test_case import MLLMImage, MLLMTestCase, ToolCall
        >>> case = MLLMTestCase(
        ...     input=["What is the weather in this city?", MLLMImage(url="https://example.com/paris.png")],
        ...     tools_called=[ToolCall(name="get_weather")],
        ...     expected_tools=[ToolCall(name="get_weather"), ToolCall(name="book_flight")],
        ... )
        >>> MultimodalToolCorrectnessMetric().measure(case)
        0.5
    """

    _name: ClassVar[str] = "Multimodal Tool Correctness"

    threshold: float | None = 0.5
    evaluation_params: Sequence[ToolCallParams | str] = ()
    include_reason: bool = True
    strict_mode: bool = False
    verbose_mode: bool = False
    should_consider_ordering: bool = False
    should_exact_match: bool = False

    def as_metric(self) -> _ToolCorrectness:
        """Return the metric of toolgrade with these options."""
        return _rules.MultimodalToolCorrectnessMetric(**self._options("evaluation_params", *_ORDER))


@dataclass(eq=False)
class ToolUseMetric(JudgedMetric, BaseConversationalMetric):
    """DeepEval's metric of this name: `toolgrade.ToolUseMetric`, which also keeps the result of the last case.

    `model` is `"gpt-4o"` by default; its key is read from the environment when the first case is measured. Without
    `available_tools` the called tools stand for them, and a warning says so: the page calls them mandatory, and its
    example leaves them out.

    Example:
        >>> from toolgrade.compat.deepeval.metrics import ToolUseMetric
        >>> metric = ToolUseMetric(threshold=0.7)
        >>> print(metric.__name__, metric.threshold, metric.evaluation_model)
        Tool Use 0.7 gpt-4o
    """

    _name: ClassVar[str] = "Tool Use"

    available_tools: Sequence[Any] | None = None
    threshold: float | None = 0.5
    model: JudgeLike | None = None
    system_one_model: object = None
    eval_mode: object = None
    include_reason: bool = True
    async_mode: bool = True
    strict_mode: bool = False
    verbose_mode: bool = False
    flaky: bool = False
    evaluation_template: object = None
    judge: Any = None

    def as_metric(self) -> _ToolUse:
        """Return the metric of toolgrade with these options."""
        return _rules.ToolUseMetric(**self._options("available_tools", "judge", "async_mode"))


@dataclass(eq=False)
class ArgumentCorrectnessMetric(JudgedMetric):
    """The share of calls whose arguments a model finds right for the input; without calls it is 1.

    The tools of the case (`available_tools`), where it has them, are shown to the model, and arguments that do not
    match their schema are wrong without asking.

    Example:
        >>> from toolgrade.compat.deepeval.metrics import ArgumentCorrectnessMetric
        >>> from toolgrade.compat.deepeval.test_case import LLMTestCase, ToolCall
        >>> def model(messages):
        ...     return '{"evidence": ["m1"], "reasoning": "The user said Paris.", "verdict": "no"}'
        >>> called = ToolCall(name="get_weather", input_parameters={"city": "Rome"})
        >>> ArgumentCorrectnessMetric(model=model).measure(LLMTestCase(input="Paris?", tools_called=[called]))
        0.0
    """

    _name: ClassVar[str] = "Argument Correctness"

    threshold: float | None = 0.5
    model: JudgeLike | None = None
    system_one_model: object = None
    eval_mode: object = None
    include_reason: bool = True
    async_mode: bool = True
    strict_mode: bool = False
    verbose_mode: bool = False
    flaky: bool = False
    evaluation_template: object = None
    judge: Any = None

    def as_metric(self) -> _ToolUse:
        """Return the metric of toolgrade with these options."""
        return _rules.ArgumentCorrectnessMetric(**self._options("judge", "async_mode"))


class SuiteMetric:
    """A metric with DeepEval's methods as one of toolgrade's: each case is measured by a copy of it.

    Args:
        metric: A metric of this module, one with its base `BaseMetric`, or one of DeepEval.
        waits: Measure with `a_measure`.
        skips: Skip a case that lacks a field, in place of an error.
    """

    def __init__(self, metric: Any, *, waits: bool = True, skips: bool = False) -> None:  # noqa: ANN401 - as above
        """Read its name; its threshold is read when a case is measured."""
        self.metric, self.skips = metric, skips
        is_own = isinstance(metric, ToolgradeMetric)
        self.judge = metric.judge if isinstance(metric, JudgedMetric) else None
        self.waits = waits and bool(getattr(metric, "async_mode", True)) and not (is_own and self.judge is None)
        self.label = metric.label if isinstance(metric, ToolgradeMetric) else str(metric.__name__)
        self.first_error: Exception | None = None

    @property
    def threshold(self) -> float:
        """The lowest score that passes, unless the metric decides otherwise; 0 if it has none."""
        return float(self.metric.threshold or 0.0)

    @property
    def is_open_ended(self) -> bool:
        """Whether the metric has no threshold."""
        return self.metric.threshold is None

    def measure(self, case: Any, /) -> MetricResult:  # noqa: ANN401 - any case
        """Measure one case, also with a metric that can only wait."""
        metric = _without_result(self.metric)
        try:
            return self._result(metric, metric.measure(self._case(case)))
        except NotImplementedError:
            return run_sync(self.a_measure(case))
        except Exception as error:  # noqa: BLE001 - raised again unless it is a result
            return self._failure(metric, error)

    async def a_measure(self, case: Any, /) -> MetricResult:  # noqa: ANN401 - any case
        """Measure one case, in a thread if the metric cannot wait."""
        metric = _without_result(self.metric)
        try:
            try:
                returned = await metric.a_measure(self._case(case))
            except NotImplementedError:
                metric = _without_result(self.metric)
                returned = await asyncio.to_thread(metric.measure, self._case(case))
            return self._result(metric, returned)
        except Exception as error:  # noqa: BLE001 - as above
            return self._failure(metric, error)

    def _case(self, case: Any) -> Any:  # noqa: ANN401 - any case
        if isinstance(self.metric, ToolgradeMetric):
            return case
        kinds = {one.__name__ for one in type(self.metric).mro()} & {"BaseMetric", "BaseConversationalMetric"}
        is_conversation = isinstance(case, ConversationalTestCase)
        if kinds and is_conversation is not ("BaseConversationalMetric" in kinds):
            wanted, got = ("one question", "a conversation") if is_conversation else ("conversations", "one question")
            raise ConfigurationError(f"{self.label} measures cases of {wanted}, got {got}")
        if not is_of_deepeval(self.metric):
            return changeable_case(case)
        return to_case(case)

    def _result(self, metric: Any, returned: Any) -> MetricResult:  # noqa: ANN401 - as above
        """Return the result in the attributes of a metric that measured; without a threshold it fails nothing."""
        score = returned if metric.score is None else metric.score
        passed = True
        if score is not None:
            verdict = metric.is_successful()
            if verdict is None and metric.threshold is not None:  # a forgotten `return`
                verdict = score >= metric.threshold - TOLERANCE
            passed = verdict is None or bool(verdict == 1)  # also a number, or numpy's own True
        for name in _RESULT & vars(metric).keys():  # the original keeps the result of the last case
            setattr(self.metric, name, getattr(metric, name))
        own = metric.result if isinstance(metric, ToolgradeMetric) else None
        if isinstance(own, MetricResult):
            if score is None:
                return replace(own, metric=self.label)
            return replace(own, metric=self.label, score=float(score), passed=passed, reason=metric.reason)
        return self._result_of_attributes(metric, score, passed=passed)

    def _result_of_attributes(self, metric: Any, score: Any, *, passed: bool) -> MetricResult:  # noqa: ANN401 - as above
        """Return the result of a metric that is not based on toolgrade."""
        fields: dict[str, Any] = {"metric": self.label, "threshold": self.threshold, "reason": metric.reason}
        if getattr(metric, "skipped", False) and score is None:
            return MetricResult(status=ResultStatus.SKIPPED, **fields)
        if metric.error is not None or score is None or isinstance(score, str):
            problem = metric.error or f"it returned {type(score).__name__} and set no score"
            raise NotMeasuredError(f"{self.label} did not measure: {problem}")
        model = getattr(metric, "evaluation_model", None)
        fields |= {"cost": getattr(metric, "evaluation_cost", None), "judge": {"model": model} if model else None}
        return MetricResult(status=ResultStatus.SCORED, score=float(score), passed=passed, **fields)

    def _failure(self, metric: Any, error: Exception) -> MetricResult:  # noqa: ANN401 - as above
        """Return the result of a case that was not measured, or raise the error again, and remember it."""
        is_missing = isinstance(error, MissingFieldError) or type(error).__name__ == "MissingTestCaseParamsError"
        if self.skips and is_missing:
            reason, status = f"Skipped: {error}", ResultStatus.SKIPPED
            return MetricResult(metric=self.label, status=status, threshold=self.threshold, reason=reason)
        self.first_error = self.first_error or error
        result = getattr(metric, "result", None)
        if isinstance(result, MetricResult) and result.status is ResultStatus.ERRORED:
            return replace(result, metric=self.label)
        # A case that does not state what is compared is no case to skip, as it is for toolgrade's own metrics.
        raise MissingFieldError(str(error)) if isinstance(error, MissingExpectationError) else error


_RESULT = {"score", "score_breakdown", "reason", "success", "error", "evaluation_cost", "result"}


def _without_result(metric: Any) -> Any:  # noqa: ANN401 - a metric of any kind
    """Return a copy of a metric without the result of an earlier case, which must not pass for that of this one.

    Lists and the like are copied, too, so that cases do not share what a metric collects; its model is the same.
    """
    fresh = copy.copy(metric)
    for name, value in vars(metric).items():
        if type(value) in (list, dict, set):
            setattr(fresh, name, copy.copy(value))
    for name in _RESULT:
        with suppress(AttributeError):  # a property of a suite's metric
            setattr(fresh, name, None)
    params = getattr(fresh, "evaluation_params", None)
    if isinstance(params, list) and is_of_deepeval(metric):  # DeepEval ignores members of another enumeration
        enumeration = import_extra("deepeval.test_case", "deepeval", "a metric of DeepEval").ToolCallParams
        names = [one.name if isinstance(one, ToolCallParams) else "" for one in params]
        fresh.evaluation_params = [getattr(enumeration, name, one) for name, one in zip(names, params, strict=True)]
    return fresh


def as_metric(metric: Any, *, waits: bool = True, skips: bool = False) -> MetricLike:  # noqa: ANN401 - of any kind
    """Return what toolgrade's `evaluate` takes for a metric of toolgrade, of this module, of a suite or of DeepEval.

    `waits` and `skips` are those of `SuiteMetric`.

    Raises:
        ConfigurationError: It is not a metric.
    """
    is_theirs = isinstance(metric, BaseMetric) or is_of_deepeval(metric)
    if (not is_theirs and hasattr(metric, "label") and hasattr(metric, "threshold")) or isinstance(metric, type):
        return metric  # type: ignore[no-any-return] # which `evaluate` checks
    is_metric = all(hasattr(metric, name) for name in ("measure", "is_successful"))
    require(is_metric, "metrics must be metrics of toolgrade or of DeepEval", metric)
    return SuiteMetric(metric, waits=waits, skips=skips)


_NAMES = ("tool_correctness", "multimodal_tool_correctness", "tool_use", "argument_correctness")


def suite_name(label: str) -> str:
    """Return DeepEval's name of the metric that toolgrade reports under a label."""
    name = label.partition("(")[0].partition(" #")[0]  # of several with one label
    return name.replace("_", " ").title() if name in _NAMES else label


__getattr__: _absent.Getter = _absent.getter(__name__)
