"""Tool errors: how many of the calls failed?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from toolmark._internal.text import number_text
from toolmark.calls import CallStatus, ToolCall
from toolmark.cases import TestCase
from toolmark.errors import ConfigurationError
from toolmark.metrics.base import is_share
from toolmark.metrics.call_metric import FAILED, CallMetric, Found, left_out, one, seen_by_answers, status_of, why
from toolmark.result import Finding


@dataclass(frozen=True, eq=False)
class ToolErrorRate(CallMetric):
    """Counts the calls that failed: `error`, `invalid_arguments`, `unknown_tool`.

    The score is the share of calls that succeeded, among those that succeeded or failed. Calls that were rejected,
    wait, were cancelled or never ran did neither, and of a call without an `execution` nobody knows: they are left out,
    with a warning. Where nothing is left the case is skipped. A recording of messages alone sees few failures: an
    answer that no flag marks as an error counts as success, with a warning. See docs/metrics.md.

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

    def _found(self, calls: Sequence[ToolCall], case: TestCase) -> Found:
        del case
        statuses = Counter(map(status_of, calls))
        ok, bad = statuses[CallStatus.OK], sum(statuses[status] for status in FAILED)
        others = [f"{amount} {status.value}" for status, amount in statuses.items() if status and _neither(status)]
        warnings = [
            *left_out(sum(statuses[status] for status in CallStatus if _neither(status)), ", ".join(others)),
            *left_out(statuses[None], "what became of them was not recorded"),
            *seen_by_answers(calls),
        ]
        findings = [
            Finding("failed_call", f"Failed: {one(call, index)}, {why(call)}.", call.name, called=index)
            for index, call in enumerate(calls)
            if status_of(call) in FAILED
        ]
        if not calls:
            return Found()
        if not ok + bad:
            return Found(warnings=warnings, skipped="no call is known to have succeeded or failed")
        score = ok / (ok + bad)
        told = {"succeeded": f"{ok} / {ok + bad} calls = {number_text(score)}"}
        return Found(scores={"succeeded": score}, sums=told, findings=findings, warnings=warnings)


def _neither(status: CallStatus) -> bool:
    return status is not CallStatus.OK and status not in FAILED
