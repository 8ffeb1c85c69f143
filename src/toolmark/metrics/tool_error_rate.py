"""Tool error rate: a metric of how many calls failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from toolmark._internal.text import number_text
from toolmark.calls import CallStatus, ToolCall
from toolmark.cases import TestCase
from toolmark.errors import ConfigurationError
from toolmark.metrics.base import (
    FAILED,
    CallMetric,
    Measurement,
    call_text,
    error_text,
    has_failed,
    inferred_success_warnings,
    is_share,
    omission_warnings,
    status_of,
)
from toolmark.result import Finding


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
        >>> from toolmark import LLMTestCase, ToolCall, ToolErrorRate
        >>> calls = [
        ...     {"name": "book", "execution": {"status": "error", "error": "Full"}},
        ...     {"name": "book", "execution": {"status": "ok"}},
        ... ]
        >>> ToolErrorRate(max_rate=0.5).measure(LLMTestCase(tools_called=calls)).score
        0.5
    """

    max_rate: float = 0.0
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False
    threshold: float = field(init=False, default=1.0)

    def __post_init__(self) -> None:
        """Check the options."""
        if not is_share(self.max_rate):
            message = f"max_rate must be a number from 0 to 1, got {self.max_rate!r}"
            raise ConfigurationError(message)
        object.__setattr__(self, "threshold", 1.0 - self.max_rate)
        self._set_threshold()

    @property
    def _name(self) -> str:
        return "tool_error_rate"

    def _score_calls(self, calls: Sequence[ToolCall], case: TestCase) -> Measurement:
        del case
        if not calls:
            return Measurement()
        statuses = Counter(map(status_of, calls))
        unrecorded = statuses.pop(None, 0)
        succeeded = statuses.pop(CallStatus.OK, 0)
        failed = sum(statuses.pop(status, 0) for status in FAILED)
        others = [f"{amount} {status.value}" for status, amount in statuses.items() if status]
        warnings = [
            *omission_warnings(statuses.total(), ", ".join(others)),
            *omission_warnings(unrecorded, "their outcome was not recorded"),
            *inferred_success_warnings(calls),
        ]
        decided = succeeded + failed
        if not decided:
            return Measurement(warnings=warnings, skip_reason="no call is known to have succeeded or failed")
        findings: list[Finding] = []
        for index, call in enumerate(calls):
            if has_failed(call):
                text = f"Failed: {call_text(call, index)}, {error_text(call)}."
                findings.append(Finding("failed_call", text, call.name, called=index))
        score = succeeded / decided
        return Measurement(
            scores={"succeeded": score},
            sums={"succeeded": f"{succeeded} / {decided} calls = {number_text(score)}"},
            findings=findings,
            warnings=warnings,
        )
