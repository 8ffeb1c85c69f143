"""The names of `deepeval.dataset`."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolgrade.cases import AnyCase
from toolgrade.dataset import Golden

__all__ = ["EvaluationDataset", "Golden"]


@dataclass
class EvaluationDataset:
    """Goldens and test cases of one evaluation; `evaluate` takes either list.

    Attributes:
        goldens: Questions to ask.
        test_cases: Answers to measure.

    Example:
        >>> from toolgrade.compat.deepeval import evaluate
        >>> from toolgrade.compat.deepeval.dataset import EvaluationDataset, Golden
        >>> from toolgrade.compat.deepeval.metrics import ToolCorrectnessMetric
        >>> from toolgrade.compat.deepeval.test_case import LLMTestCase, ToolCall
        >>> weather = ToolCall(name="get_weather")
        >>> dataset = EvaluationDataset([Golden(input="What is the weather in Paris?", expected_tools=[weather])])
        >>> for golden in dataset.goldens:
        ...     case = LLMTestCase(input=golden.input, tools_called=[], expected_tools=golden.expected_tools)
        ...     dataset.add_test_case(case)
        >>> evaluate(dataset.test_cases, [ToolCorrectnessMetric()]).summaries[0].mean
        0.0
    """

    goldens: list[Golden] = field(default_factory=list[Golden])
    test_cases: list[AnyCase] = field(default_factory=list[AnyCase])

    def add_golden(self, golden: Golden) -> None:
        """Add a question."""
        self.goldens.append(golden)

    def add_test_case(self, test_case: AnyCase) -> None:
        """Add an answer."""
        self.test_cases.append(test_case)
