"""ToolCallAccuracy and ToolCallF1 of ragas, as documented there, over toolgrade's alignment.

docs/coming-from/ragas.md lists where ragas differs from its documentation or from itself, and what toolgrade does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from toolgrade._internal.text import number_text, plural
from toolgrade.calls import ToolCall
from toolgrade.compat._matching_presets import (
    Preset,
    PresetMetric,
    align_slices,
    called_items,
    key_differences,
    ruled_item,
)
from toolgrade.matching.alignment import Alignment, Item
from toolgrade.metrics.wording import arithmetic
from toolgrade.result import Finding

__all__ = ["ToolCallAccuracy", "ToolCallF1"]

_PRESET: Final = Preset("in any order", binary=False)


@dataclass(frozen=True, eq=False)
class ToolCallAccuracy(PresetMetric):
    """Share of the expected arguments that were called, if the tools are the expected ones in sequence; else 0.

    Sequences of different lengths score 0, as in ragas itself. Those of equal length are aligned if their names are
    equal one by one; with `strict_order=False`, if all calls can be paired by name, and the pairing with the most equal
    arguments counts. The score is the mean argument accuracy of the pairs. Nothing expected and nothing called scores
    1.

    The argument accuracy of a pair is the share of expected arguments that were called with an equal value (by
    toolgrade's rules: `1 != "1"`). Further arguments cost nothing, unless none are expected: then it is 1 without any
    argument, and 0 with some.

    Args:
        strict_order: The order of the calls counts.
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Write a reason with the arithmetic and the findings.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall
        >>> from toolgrade.compat.ragas import ToolCallAccuracy
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="get_weather", input_parameters={"city": "Paris", "unit": "F"})],
        ...     expected_tools=[ToolCall(name="get_weather", input_parameters={"city": "Paris", "unit": "C"})],
        ... )
        >>> ToolCallAccuracy().measure(case).score  # one of the two expected arguments is right
        0.5
    """

    _name: ClassVar[str] = "ragas.tool_call_accuracy"
    _labels: ClassVar[Mapping[str, str]] = {"strict_order": "strict_order=False"}

    strict_order: bool = True

    @property
    def _preset(self) -> Preset:
        return _PRESET

    def _expected_item(self, call: ToolCall) -> Item:
        # ragas: without expected arguments, there must be none.
        rule = partial(key_differences, mode="superset" if call.arguments else "exact")
        return ruled_item(call, rule, by_argument=True)

    def _align(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Alignment:
        if not self.strict_order:
            return super()._align(expected, called)
        shared = min(len(expected), len(called))
        # The first calls are paired one by one; those that only one side has are the last slice.
        slices = [min(index, shared) for index in range(max(len(expected), len(called)))]
        return align_slices([self._expected_item(call) for call in expected], called_items(called), slices)

    def _score(self, alignment: Alignment, _extra_findings: Sequence[Finding], /) -> tuple[str, float, str]:
        m, n = alignment.expected_count, alignment.called_count
        score = alignment.score("longest")
        if not m or not n:
            return "accuracy", score, arithmetic(alignment, "longest", exact=False)
        if m != n:
            return "accuracy", 0.0, f"sequences of {m} expected and {n} called, of different lengths, do not align = 0"
        if len(alignment.pairs) < m:
            pairs = f"{len(alignment.pairs)} of {plural(m, 'pair')}"
            return "accuracy", 0.0, f"sequences of {m} expected and {n} called do not align ({pairs} of equal name) = 0"
        return "accuracy", score, f"mean argument accuracy of {plural(m, 'pair')} = {number_text(score)}"


@dataclass(frozen=True, eq=False)
class ToolCallF1(PresetMetric):
    """F1 of the calls that match in name and all arguments, in any order.

    With w matching pairs, m expected and n called tools, the score is 2w / (m + n). Each call counts: a call that is
    expected twice must be made twice. Nothing expected and nothing called scores 1; exactly one of the two scores 0.

    Args:
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Write a reason with the arithmetic and the findings.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall
        >>> from toolgrade.compat.ragas import ToolCallF1
        >>> weather = ToolCall(name="get_weather", input_parameters={"city": "Paris"})
        >>> flight = ToolCall(name="book_flight", input_parameters={"city": "Paris"})
        >>> case = LLMTestCase(tools_called=[weather, flight, flight], expected_tools=[weather])
        >>> ToolCallF1().measure(case).score  # 2 * 1 / (1 + 3)
        0.5
    """

    _name: ClassVar[str] = "ragas.tool_call_f1"

    @property
    def _preset(self) -> Preset:
        return _PRESET

    def _expected_item(self, call: ToolCall) -> Item:
        # An all-or-nothing rule: with partial credit the best sum need not have the most equal pairs.
        return ruled_item(call, partial(key_differences, mode="exact"))
