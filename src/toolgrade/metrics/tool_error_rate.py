"""Tool error rate: a metric of how many calls failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from toolgrade._internal.options import read_share
from toolgrade.calls import CallStatus, ToolCall
from toolgrade.cases import TestCase
from toolgrade.metrics.base import CallMetric, Measurement, share_of_calls
from toolgrade.metrics.called_tools import (
    FAILED,
    call_finding,
    error_text,
    has_failed,
    inferred_success_warnings,
    omission_warnings,
    status_of,
)


@dataclass(frozen=True, eq=False)
class ToolErrorRate(CallMetric):
    """Counts the calls that failed: `error`, `invalid_arguments`, `unknown_tool`.

    The score is the share of successful calls among those that succeeded or failed. Other calls are left out with a
    warning: those that were rejected or cancelled, are pending or never ran, and those without an `execution`. If none
    remains, the case is skipped. A recording of messages alone shows few failures: an answer that is not marked as an
    error counts as success, with a warning. See docs/metrics.md.

    Args:
        max_rate: The share of calls that may fail, in [0, 1].
        strict_mode: No call may fail, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Attributes:
        threshold: 1 - `max_rate`.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolErrorRate
        >>> calls = [
        ...     {"name": "book_flight", "execution": {"status": "error", "error": "the flight is full"}},
        ...     {"name": "book_flight", "execution": {"status": "ok"}},
        ... ]
        >>> ToolErrorRate(max_rate=0.5).measure(LLMTestCase(tools_called=calls)).score
        0.5
    """

    _name: ClassVar[str] = "tool_error_rate"

    max_rate: float = 0.0
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False
    threshold: float = field(init=False, default=1.0)

    def __post_init__(self) -> None:
        """Check the options."""
        self._set(threshold=1.0 - read_share(self.max_rate, "max_rate"))
        super().__post_init__()

    def _score_calls(self, calls: Sequence[ToolCall], _: TestCase, /) -> Measurement:
        statuses = Counter(map(status_of, calls))
        unrecorded, succeeded = statuses.pop(None, 0), statuses.pop(CallStatus.OK, 0)
        failed = sum(statuses.pop(status, 0) for status in FAILED)
        others = ", ".join(f"{amount} {status.value}" for status, amount in statuses.items() if status)
        return share_of_calls(
            calls,
            "succeeded",
            succeeded,
            succeeded + failed,
            "call",
            findings=[
                call_finding("failed_call", "Failed", call, index, f", {error_text(call)}")
                for index, call in enumerate(calls)
                if has_failed(call)
            ],
            warnings=[
                *omission_warnings(statuses.total(), others),
                *omission_warnings(unrecorded, "their outcome was not recorded"),
                *inferred_success_warnings(calls),
            ],
            skip_reason="no call is known to have succeeded or failed",
        )
