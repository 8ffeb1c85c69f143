"""The tool trajectory criterion of Google's ADK, `tool_trajectory_avg_score`, computed from the alignment of toolgrade.

A case is an invocation, and the average over invocations is the mean of a report.
docs/coming-from/adk.md lists the differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, TypeAlias

from toolgrade.compat._matching_presets import Preset, PresetMetric

__all__ = ["TrajectoryMatch"]

MatchType: TypeAlias = Literal["EXACT", "IN_ORDER", "ANY_ORDER"]
"""Relation of the called tools to the expected ones; see `TrajectoryMatch`."""

_PRESETS: Final[Mapping[MatchType, Preset]] = {
    "EXACT": Preset("EXACT", ordered=True),
    "IN_ORDER": Preset("IN_ORDER", allowed="unexpected", ordered=True),
    "ANY_ORDER": Preset("ANY_ORDER", allowed="unexpected"),
}


@dataclass(frozen=True, eq=False)
class TrajectoryMatch(PresetMetric):
    """1 if the called tools are the expected ones, else 0.

    `EXACT`: the same calls in the same order and no others. `IN_ORDER`: every expected call in this order, possibly
    with others between them. `ANY_ORDER`: every expected call, possibly among others. If no call is expected, `EXACT`
    requires that none was made, and the other two pass with any calls, as in ADK.

    Values are compared by toolgrade's rules, not by Python's `==`: `1 == 1.0`, but `True != 1`; missing arguments equal
    `{}`. An expected call without specified arguments matches any.

    Args:
        match_type: `"EXACT"`, `"IN_ORDER"` or `"ANY_ORDER"`.
        ignore_args: Compare only the names.
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1.
        include_reason: Write a reason with the arithmetic and the findings.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall
        >>> from toolgrade.compat.adk import TrajectoryMatch
        >>> case = LLMTestCase(
        ...     tools_called=[ToolCall(name="get_weather"), ToolCall(name="book_flight")],
        ...     expected_tools=[ToolCall(name="book_flight")],
        ... )
        >>> TrajectoryMatch("IN_ORDER").measure(case).score
        1.0
    """

    _name: ClassVar[str] = "adk.trajectory_match"
    _choices: ClassVar[Mapping[str, object]] = {"match_type": MatchType}
    _labels: ClassVar[Mapping[str, str]] = {"match_type": "{}", "ignore_args": "ignore_args"}

    match_type: MatchType = "EXACT"
    ignore_args: bool = False

    @property
    def _preset(self) -> Preset:
        return replace(_PRESETS[self.match_type], arguments=not self.ignore_args)
