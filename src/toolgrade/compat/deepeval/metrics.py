"""The names of `deepeval.metrics`, as far as they are about tool calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from toolgrade.calls import ToolCallParams
from toolgrade.metrics import ToolCorrectnessMetric, ToolUseMetric

__all__ = ["MultimodalToolCorrectnessMetric", "ToolCorrectnessMetric", "ToolUseMetric"]


class MultimodalToolCorrectnessMetric(ToolCorrectnessMetric):
    """`ToolCorrectnessMetric` without a judge, under a name of its own.

    The images of a case do not affect its score. Args, errors and edge cases are those of `ToolCorrectnessMetric`.

    Example:
        >>> from toolgrade.compat.deepeval.metrics import MultimodalToolCorrectnessMetric
        >>> from toolgrade.compat.deepeval.test_case import MLLMImage, MLLMTestCase, ToolCall
        >>> case = MLLMTestCase(
        ...     input=["What is the weather in this city?", MLLMImage(url="https://example.com/paris.png")],
        ...     tools_called=[ToolCall(name="get_weather")],
        ...     expected_tools=[ToolCall(name="get_weather"), ToolCall(name="book_flight")],
        ... )
        >>> MultimodalToolCorrectnessMetric().measure(case).score
        0.5
    """

    _name: ClassVar[str] = "multimodal_tool_correctness"

    def __init__(
        self,
        threshold: float = 0.5,
        evaluation_params: Sequence[ToolCallParams | str] = (ToolCallParams.TOOL,),
        include_reason: bool = True,
        strict_mode: bool = False,
        verbose_mode: bool = False,
        should_consider_ordering: bool = False,
        should_exact_match: bool = False,
    ) -> None:
        """Check the options."""
        super().__init__(
            threshold=threshold,
            evaluation_params=evaluation_params,
            should_exact_match=should_exact_match,
            should_consider_ordering=should_consider_ordering,
            strict_mode=strict_mode,
            include_reason=include_reason,
            verbose_mode=verbose_mode,
        )
