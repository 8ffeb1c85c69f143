"""EvalSharp's evaluator by its names, for code that migrates from C#: names in Python's spelling, the same arguments.

Cases and metrics are toolgrade's own. EvalSharp asks its chat client only in metrics that toolgrade does not have; here
it judges the selection of tools of cases that have `available_tools`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from toolgrade.calls import ToolCallParams as ToolCallParamsEnum
from toolgrade.cases import AnyCase
from toolgrade.cases import LLMTestCase as EvaluatorTestData
from toolgrade.evaluation.run import Evaluator as _Evaluator
from toolgrade.judge import Judge
from toolgrade.judge.judge import JudgeLike
from toolgrade.judge.models import OneTextModel
from toolgrade.metrics import MetricLike, ToolCorrectnessMetric

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Evaluator", "EvaluatorTestData", "ToolCallParamsEnum"]

T = TypeVar("T")


class Evaluator(_Evaluator[T]):
    """`toolgrade.Evaluator`, whose `from_data` takes a chat client first.

    Example:
        >>> from toolgrade import ToolCall
        >>> from toolgrade.compat.evalsharp import Evaluator, EvaluatorTestData
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

    def __init__(self, chat_client: object, data: Iterable[T], to_case: Callable[[T], AnyCase]) -> None:
        """See `from_data`."""
        super().__init__(data, to_case)
        self._judge = None if chat_client is None else _judge_of(chat_client)

    @classmethod
    def from_data(  # type: ignore[override] # the chat client comes first, as in EvalSharp
        cls, chat_client: object, data: Iterable[T], to_case: Callable[[T], AnyCase]
    ) -> Self:
        """Return an evaluator of `data`, each item of which `to_case` turns into a case.

        Args:
            chat_client: The judge of all `ToolCorrectnessMetric` without one: an object with `get_response`, such as a
                chat client of Microsoft's Agent Framework; what `judge=` takes; or `None` for no judge.
            data: Items of any type.
            to_case: Returns the case of an item, an `EvaluatorTestData`.

        Raises:
            ConfigurationError: The chat client cannot judge.
        """
        return cls(chat_client, data, to_case)

    def add(self, metric: MetricLike) -> Self:
        """Add a metric, and return this evaluator."""
        if self._judge is not None and isinstance(metric, ToolCorrectnessMetric) and metric.judge is None:
            metric = replace(metric, judge=self._judge)
        return super().add(metric)


def _judge_of(chat_client: object) -> Judge:
    get_response = getattr(chat_client, "get_response", None)
    if not callable(get_response):
        return Judge.of(cast("JudgeLike", chat_client))  # which checks it
    name = getattr(chat_client, "model", None)
    identity = {"model": name} if isinstance(name, str) else None
    return Judge(OneTextModel(get_response, "a chat client", identity))
