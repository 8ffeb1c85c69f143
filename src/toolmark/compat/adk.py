"""The tool trajectory criterion of Google's ADK, `tool_trajectory_avg_score`, over toolmark's alignment.

A case is an invocation, and the average over invocations is the mean of a report. docs/compat.md has the differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from toolmark.calls import ToolCall
from toolmark.compat._matching_presets import Side, View, called_items, no_objects, one_of, verdict
from toolmark.matching.align_calls import align
from toolmark.metrics.base import Measurement
from toolmark.metrics.comparable_calls import expected_item

MatchType: TypeAlias = Literal["EXACT", "IN_ORDER", "ANY_ORDER"]
"""How the called tools relate to the expected ones; see `TrajectoryMatch`."""

_BOTH: Final[tuple[Side, ...]] = ("expected", "called")


@dataclass(frozen=True, eq=False)
class TrajectoryMatch(View):
    """1 if the tools that were called are the expected ones, else 0.

    `EXACT`: the same calls in the same order and no other. `IN_ORDER`: every expected call was made, in this order, and
    others may stand between. `ANY_ORDER`: every expected call was made, and others may have been. Where no call is
    expected, `EXACT` asks that none was made, and the other two pass whatever was called, as in ADK.

    Values are compared by toolmark's rules, not by Python's `==`: `1 == 1.0`, but `True != 1`; and no arguments equal
    `{}`. An expected call that does not say which arguments it expects matches any.

    Args:
        match_type: `"EXACT"`, `"IN_ORDER"` or `"ANY_ORDER"`.
        ignore_args: Compare the names alone.
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolmark import LLMTestCase, ToolCall
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="look_up"), ToolCall(name="book")],
        ...     expected_tools=[ToolCall(name="book")],
        ... )
        >>> TrajectoryMatch("IN_ORDER").measure(case).score
        1.0
    """

    match_type: MatchType = "EXACT"
    ignore_args: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        one_of("match_type", self.match_type, MatchType)
        super().__post_init__()

    @property
    def _name(self) -> str:
        return "adk.trajectory_match"

    @property
    def _options(self) -> Sequence[str]:
        return [
            *([self.match_type] if self.match_type != "EXACT" else []),
            *(["ignore_args"] if self.ignore_args else []),
        ]

    def _compared(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> Measurement:
        alignment = align(
            [expected_item(call) for call in expected],
            called_items(called),
            ordered=self.match_type != "ANY_ORDER",
            arguments=not self.ignore_args,
        )
        whole = _BOTH if self.match_type == "EXACT" else ("expected",)
        found = verdict(alignment, expected, called, mode=self.match_type, whole=whole)
        return found if self.ignore_args else replace(found, warnings=no_objects(called))
