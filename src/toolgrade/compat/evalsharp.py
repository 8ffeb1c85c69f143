"""EvalSharp's evaluator by its names, for code that migrates from C#: in Python's spelling, or as C# writes them.

Cases, calls and metrics are toolgrade's own. EvalSharp asks its chat client only in metrics that toolgrade does not
have; here it judges the selection of tools if a case has `available_tools`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from pydantic import ConfigDict, Field, model_validator
from pydantic.alias_generators import to_snake

from toolgrade import calls, cases
from toolgrade._internal.json import parse_json
from toolgrade._internal.model import Model
from toolgrade.calls import ToolCallParams as ToolCallParamsEnum
from toolgrade.cases import AnyCase
from toolgrade.errors import ConfigurationError, InvalidDataError
from toolgrade.evaluation.measuring import checked_metrics
from toolgrade.evaluation.run import evaluate, evaluate_async
from toolgrade.judge import Judge
from toolgrade.judge.judge import JudgeLike
from toolgrade.judge.models import OneTextModel
from toolgrade.metrics import MetricLike, ToolCorrectnessMetric
from toolgrade.report import Report

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Evaluator", "EvaluatorTestData", "ToolCall", "ToolCallParamsEnum", "ToolCorrectnessMetricConfiguration"]

T = TypeVar("T")

_SYNONYMS = {"initialinput": "input", "userinput": "input", "llmoutput": "actual_output"}
"""EvalSharp's names of fields, and those of its example, without underscores and in lower case."""


def _python_fields(fields: Mapping[str, Any], model: type[Model]) -> dict[str, Any]:
    """Return fields by the names of a model: C#'s spelling differs in underscores and case, as `ToolsCalled` does.

    Raises:
        InvalidDataError: A field is given twice, in two spellings.
    """
    names = {**_SYNONYMS, **{name.replace("_", ""): name for name in model.model_fields}}
    found: dict[str, Any] = {}
    for key, value in fields.items():
        name = names.get(key.replace("_", "").lower(), key)
        if name in found:
            raise InvalidDataError(f"{model.__name__}: {key!r} repeats {name!r} in another spelling; give it once")
        found[name] = value
        if name in ("tools_called", "expected_tools") and isinstance(value, (list, tuple)):
            found[name] = [_python_fields(one, calls.ToolCall) if isinstance(one, Mapping) else one for one in value]
    return found


class _EitherSpelling(Model):
    """Reads fields in either spelling."""

    @model_validator(mode="before")
    @classmethod
    def _in_python(cls, value: Any) -> Any:  # noqa: ANN401 - anything can be validated
        return _python_fields(value, cls) if isinstance(value, Mapping) else value


class ToolCall(calls.ToolCall, _EitherSpelling):
    """A call whose fields may be in either spelling; `from_json` reads both, too.

    Example:
        >>> from toolgrade.compat.evalsharp import ToolCall
        >>> print(ToolCall(Name="product_lookup", InputParameters={"product_id": 101}).to_json())
        {"name": "product_lookup", "input_parameters": {"product_id": 101}}
    """


class EvaluatorTestData(cases.LLMTestCase, _EitherSpelling):
    """A case whose fields may be in either spelling; `from_json` reads both, too.

    `InitialInput` and the example's `UserInput` are its `input`, `LLMOutput` is its `actual_output`.

    Example:
        >>> from toolgrade.compat.evalsharp import EvaluatorTestData
        >>> case = EvaluatorTestData.from_json('{"UserInput": "Hi", "ToolsCalled": [{"Name": "greet"}]}')
        >>> print(case.input, case.tools_called[0].name)
        Hi greet
    """


class ToolCorrectnessMetricConfiguration(_EitherSpelling):
    """The options of the metric, in either spelling.

    Attributes:
        should_consider_ordering: Only calls in the expected order count.
        evaluation_params: Fields compared besides the name.
        should_exact_match: 1 if called and expected tools are equal one by one, else 0; the ordering is then ignored.
        threshold: A score at or above it passes.
        include_reason: Give a reason for the score.
        strict_mode: Threshold 1, and any score below 1 becomes 0.

    Example:
        >>> from toolgrade.compat.evalsharp import ToolCorrectnessMetricConfiguration
        >>> config = ToolCorrectnessMetricConfiguration(ShouldExactMatch=True)
        >>> print(config.should_exact_match, config.threshold)
        True 0.5
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=False)

    should_consider_ordering: bool = False
    evaluation_params: Sequence[ToolCallParamsEnum | str] = Field(default_factory=lambda: [ToolCallParamsEnum.TOOL])
    should_exact_match: bool = False
    threshold: float = 0.5
    include_reason: bool = True
    strict_mode: bool = False


def _csharp(method: Callable[..., T]) -> Callable[..., T]:
    """Return a method that takes the keywords of C#, such as `shouldConsiderOrdering`."""

    @wraps(method)
    def call(*args: Any, **options: Any) -> T:  # noqa: ANN401 - those of the method
        return method(*args, **{to_snake(name): value for name, value in options.items()})

    return call


class Evaluator(Generic[T]):
    """EvalSharp's evaluator: data of any shape, metrics added one by one, then `run()` or `await run_async()`.

    C#'s names of its methods, `FromData`, `AddToolCorrectness`, `AddToolCorrectnessExactMatch` and `RunAsync`, do the
    same.

    Example:
        >>> from toolgrade.compat.evalsharp import Evaluator, EvaluatorTestData, ToolCall
        >>> rows = [{"called": ["get_weather"], "expected": ["get_weather", "book_flight"]}]
        >>> evaluator = Evaluator.from_data(
        ...     None,
        ...     rows,
        ...     lambda row: EvaluatorTestData(
        ...         tools_called=[ToolCall(name=name) for name in row["called"]],
        ...         expected_tools=[ToolCall(name=name) for name in row["expected"]],
        ...     ),
        ... )
        >>> evaluator.add_tool_correctness(should_consider_ordering=True).run().cases[0].results[0].score
        0.5
    """

    def __init__(
        self,
        chat_client: object,
        data: Iterable[T] | str,
        map: Callable[[T], AnyCase] | None = None,
    ) -> None:
        """See `from_data`."""
        self._data: Iterable[T] = parse_json(data) if isinstance(data, str) else data
        self._map = map
        self._judge = None if chat_client is None else _judge_of(chat_client)
        self._metrics: list[MetricLike] = []

    @classmethod
    def from_data(
        cls,
        chat_client: object,
        data: Iterable[T] | str,
        map: Callable[[T], AnyCase] | None = None,
    ) -> Self:
        """Return an evaluator of `data`, each item of which `map` turns into a case.

        Args:
            chat_client: The judge of all `ToolCorrectnessMetric` without one, for cases with available tools: an object
                with `get_response`, such as a chat client of Microsoft's Agent Framework; what `judge=` takes; or
                `None` for no judge.
            data: Items of any type, or the JSON text of a list.
            map: Returns the case of an item: an `EvaluatorTestData`, or an object or its JSON text in either spelling.
                By default the items are such cases themselves.

        Raises:
            ConfigurationError: The chat client cannot judge.
            InvalidDataError: The text is not JSON.
        """
        return cls(chat_client, data, map)

    def add(self, metric: MetricLike) -> Self:
        """Add a metric, and return this evaluator."""
        self._metrics.extend(checked_metrics([metric]))
        return self

    def add_tool_correctness(
        self,
        should_consider_ordering: bool | ToolCorrectnessMetricConfiguration = False,
        threshold: float = 0.5,
        evaluation_params: Sequence[ToolCallParamsEnum | str] | None = None,
        *,
        config: ToolCorrectnessMetricConfiguration | None = None,
        **options: Any,  # noqa: ANN401 - those of the metric
    ) -> Self:
        """Add a `ToolCorrectnessMetric` with these options, or a configuration given as the only argument.

        Returns:
            This evaluator.

        Raises:
            ConfigurationError: An option is invalid, or there are options beside a configuration.
        """
        if config is not None and should_consider_ordering is not False:
            raise ConfigurationError("config must be the only argument; put the options into it")
        first = should_consider_ordering if config is None else config
        if isinstance(first, ToolCorrectnessMetricConfiguration):
            if (threshold, evaluation_params, options) != (0.5, None, {}):
                raise ConfigurationError("a configuration must be the only argument; put the options into it")
            return self.add(ToolCorrectnessMetric(**dict(first)))
        params = (ToolCallParamsEnum.TOOL,) if evaluation_params is None else evaluation_params
        metric = ToolCorrectnessMetric(
            threshold=threshold, evaluation_params=params, should_consider_ordering=first, **options
        )
        return self.add(metric)

    def add_tool_correctness_exact_match(
        self, threshold: float = 0.5, evaluation_params: Sequence[ToolCallParamsEnum | str] | None = None
    ) -> Self:
        """Add a `ToolCorrectnessMetric` that scores 1 only if the calls equal the expected ones by position."""
        return self.add_tool_correctness(False, threshold, evaluation_params, should_exact_match=True)

    def run(self) -> Report:
        """Evaluate.

        Raises:
            ConfigurationError: There is no data, or no metric was added.
            InvalidDataError: `map` raised; the message names the item.
        """
        return evaluate(*self._cases_and_metrics())

    async def run_async(self) -> Report:
        """Do what `run` does, inside a running event loop."""
        return await evaluate_async(*self._cases_and_metrics())

    def _cases_and_metrics(self) -> tuple[list[AnyCase], list[MetricLike]]:
        """Return what to evaluate; metrics get the judge only if there is something to judge."""
        listed = [self._case(index, item) for index, item in enumerate(self._data)]
        metrics = list(self._metrics)
        has_tools = any(getattr(case, "available_tools", None) is not None for case in listed)
        for index, metric in enumerate(metrics if self._judge is not None else ()):
            if isinstance(metric, ToolCorrectnessMetric) and metric.judge is None:
                judge = self._judge if has_tools or metric.available_tools is not None else None
                metrics[index] = replace(metric, judge=judge)
        return listed, metrics

    def _case(self, index: int, item: T) -> AnyCase:
        """Return the case that an object or a JSON text describes, and any other value as it is: metrics check it."""
        try:
            value: Any = item if self._map is None else self._map(item)
            if isinstance(value, str):
                return EvaluatorTestData.from_json(value)
            return EvaluatorTestData.model_validate(value) if isinstance(value, Mapping) else value
        except Exception as error:
            message = f"map raised {type(error).__name__} on item {index} of the data: {error}"
            raise InvalidDataError(message) from error

    FromData: ClassVar[Callable[..., Any]] = classmethod(_csharp(from_data.__func__))  # type: ignore[attr-defined, assignment] # of a classmethod
    AddToolCorrectness: ClassVar[Callable[..., Any]] = _csharp(add_tool_correctness)
    AddToolCorrectnessExactMatch: ClassVar[Callable[..., Any]] = _csharp(add_tool_correctness_exact_match)
    RunAsync = run_async


def _judge_of(chat_client: object) -> Judge:
    get_response = getattr(chat_client, "get_response", None)
    if not callable(get_response):
        return Judge.of(cast("JudgeLike", chat_client))  # which checks it
    name = getattr(chat_client, "model", None)
    identity = {"model": name} if isinstance(name, str) else None
    return Judge(OneTextModel(get_response, "a chat client", identity))
