"""Tool success rate: a metric of how many calls did not fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from toolgrade.calls import ToolCall
from toolgrade.cases import TestCase
from toolgrade.failed_calls import FAILED, has_succeeded, is_unrecorded, looks_failed
from toolgrade.metrics.base import CallMetric, Measurement, share_of_calls
from toolgrade.metrics.called_tools import (
    call_finding,
    error_text,
    error_text_finding,
    inferred_success_warnings,
    omission_warnings,
    status_of,
)
from toolgrade.result import Finding


@dataclass(frozen=True, eq=False)
class ToolSuccessRate(CallMetric):
    """Counts the calls that did not fail; 1 means that none failed.

    A call failed by its status (`error`, `invalid_arguments`, `unknown_tool`) or, whatever tool or framework it is
    recorded from, by an answer that is an error, such as `Error: 500`; see `error_texts` of `toolgrade.evaluate`.

    The score is the share of successful calls among those that succeeded or failed. Other calls are left out with a
    warning: those that were rejected or cancelled, are pending or never ran, and those with neither an `execution` nor
    an answer. If none remains, the case is skipped. See docs/metrics.md.

    Args:
        threshold: The lowest score that passes, in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolSuccessRate
        >>> calls = [
        ...     {"name": "book_flight", "output": "Error: the flight is full", "execution": {"status": "ok"}},
        ...     {"name": "book_flight", "output": "booked", "execution": {"status": "ok"}},
        ... ]
        >>> ToolSuccessRate(threshold=0.5).measure(LLMTestCase(tools_called=calls)).score
        0.5
    """

    _name: ClassVar[str] = "tool_success_rate"

    threshold: float = 1.0
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False

    def _score_calls(self, calls: Sequence[ToolCall], _: TestCase, /) -> Measurement:
        unrecorded = sum(map(is_unrecorded, calls))
        failed = sum(map(looks_failed, calls))
        succeeded = sum(map(has_succeeded, calls)) - unrecorded
        others = Counter(
            status.value
            for call in calls
            if (status := status_of(call)) and not has_succeeded(call) and not looks_failed(call)
        )
        return share_of_calls(
            calls,
            "succeeded",
            succeeded,
            succeeded + failed,
            "call",
            findings=[_finding(call, index) for index, call in enumerate(calls) if looks_failed(call)],
            warnings=[
                *omission_warnings(others.total(), ", ".join(f"{amount} {name}" for name, amount in others.items())),
                *omission_warnings(unrecorded, "their outcome was not recorded"),
                *inferred_success_warnings(calls),
            ],
            skip_reason="no call is known to have succeeded or failed",
        )


def _finding(call: ToolCall, index: int) -> Finding:
    if status_of(call) in FAILED:
        return call_finding("failed_call", "Failed", call, index, f", {error_text(call)}")
    return error_text_finding(call, index)
