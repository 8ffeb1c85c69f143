"""Tool efficiency: a metric of redundant calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from toolgrade._internal.text import join_first, printable
from toolgrade._internal.tool_names import matches, read_patterns
from toolgrade.calls import ToolCall
from toolgrade.cases import TestCase
from toolgrade.failed_calls import FAILED, has_succeeded, looks_failed
from toolgrade.matching.json_compare import frozen
from toolgrade.metrics.base import CallMetric, Measurement, share_of_calls
from toolgrade.metrics.called_tools import call_finding, error_text, identity_key, omission_warnings
from toolgrade.result import Finding

_FAILURES_BEFORE_REDUNDANT = 2
"""Failures with equal errors after which an identical call is redundant."""
_LEAST_REPETITIONS = 3
"""Repetitions that make a block of calls a loop."""
_MAX_NAMES = 5
"""Calls of a loop that its finding names."""


@dataclass(frozen=True, eq=False)
class ToolEfficiencyMetric(CallMetric):
    """Finds redundant calls; `BudgetMetric` limits calls, time, tokens and cost.

    A call is redundant if an identical earlier one (equal name and arguments) succeeded, or if identical earlier ones
    failed at least twice with the same error; a first retry is not redundant. An earlier call without an `execution`
    counts as successful, unless its answer is an error. Calls in between do not matter: list tools that poll on
    purpose, such as for the state of a job, in `repeatable`.

    The score is useful calls / calls. Calls without recorded arguments are left out with a warning. A case without
    calls is skipped. A block of at least two calls that occurs three times or more in a row is a separate finding. See
    docs/metrics.md.

    Args:
        threshold: The lowest score that passes, in [0, 1].
        repeatable: Names or patterns (`*`, `?`, `[...]`) of tools whose calls are never redundant.
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolEfficiencyMetric
        >>> case = LLMTestCase(tools_called=[ToolCall(name="get_weather"), ToolCall(name="get_weather")])
        >>> result = ToolEfficiencyMetric().measure(case)
        >>> print(result.score, result.findings[0].kind)
        0.5 redundant
    """

    _name: ClassVar[str] = "tool_efficiency"

    threshold: float = 0.5
    repeatable: Sequence[str] = ()
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False

    def __post_init__(self) -> None:
        """Check the options and normalize them."""
        super().__post_init__()
        self._set(repeatable=read_patterns(self.repeatable, "repeatable"))

    @property
    def _options(self) -> Sequence[str]:
        return ["repeatable"] if self.repeatable else []

    def _score_calls(self, calls: Sequence[ToolCall], _: TestCase, /) -> Measurement:
        keys = [identity_key(call) for call in calls]  # `None` for unknown arguments
        comparable = len(keys) - keys.count(None)
        redundant = list(_redundant_calls(calls, keys, self.repeatable))
        warnings = omission_warnings(len(calls) - comparable, "their arguments were not recorded or are redacted")
        return share_of_calls(
            calls,
            "useful",
            comparable - len(redundant),
            comparable,
            "call",
            findings=[*redundant, *_loops(calls, keys)],
            warnings=warnings,
            skip_reason="no call could be compared",
        )


def _redundant_calls(
    calls: Sequence[ToolCall], keys: Sequence[Hashable], repeatable: Sequence[str]
) -> Iterator[Finding]:
    attempts: dict[Hashable, _IdenticalCalls] = defaultdict(_IdenticalCalls)
    for index, (call, key) in enumerate(zip(calls, keys, strict=True)):
        if key is not None and not matches(call.name, repeatable):
            earlier = attempts[key]
            if earlier.reason:
                yield call_finding("redundant", "Redundant", call, index, f", {earlier.reason}")
            earlier.add(call, index)


@dataclass(slots=True)
class _IdenticalCalls:
    """Identical calls so far, and why one more is redundant; empty if it is not."""

    reason: str = ""
    has_success: bool = False
    failures: dict[Hashable, list[int]] = field(default_factory=dict[Hashable, list[int]])
    """The positions of calls that failed with the same error."""

    def add(self, call: ToolCall, index: int) -> None:
        """Add one more call."""
        if has_succeeded(call) and not self.has_success:
            self.has_success = True
            self.reason = f"#{index + 1} was the same and succeeded"
        elif looks_failed(call):
            self._add_failure(call, index)

    def _add_failure(self, call: ToolCall, index: int) -> None:
        # After different errors, a further attempt may succeed.
        same_failures = self.failures.setdefault(outcome_key(call), [])
        same_failures.append(index)
        if len(same_failures) == _FAILURES_BEFORE_REDUNDANT:
            positions = " and ".join(f"#{place + 1}" for place in same_failures)
            self.reason = self.reason or f"{positions} were the same and failed ({error_text(call)})"


def outcome_key(call: ToolCall) -> Hashable:
    """Return what calls with the same outcome share: the status and the error of a failure, or else the answer."""
    if call.execution is not None and call.execution.status in FAILED:
        return call.execution.status, call.execution.error
    return frozen(call.output)


def _loops(calls: Sequence[ToolCall], keys: Sequence[Hashable]) -> Iterator[Finding]:
    """Yield each block of at least two calls that occurs three times or more in a row, shortest blocks first.

    For each block size, each call from `start` is compared with the call one block later; `end` is the first that
    differs from it. The block at `start` repeats once for each whole block between `start` and `end`. The cost is
    quadratic in the number of calls.
    """
    ids = _call_ids(keys)
    for size in range(2, len(ids) // _LEAST_REPETITIONS + 1):
        start = 0
        while start + _LEAST_REPETITIONS * size <= len(ids):
            end = _repetition_end(ids, start, size)
            times = (end - start) // size + 1
            if times >= _LEAST_REPETITIONS and not _repeats_shorter(ids[start : start + size]):
                yield _loop_finding(calls, start, size, times)
            start = end + 1  # from any start in between, the repetition ends at the same call


def _call_ids(keys: Sequence[Hashable]) -> list[int]:
    """Return a number for each call: equal ones for identical calls."""
    ids: dict[Hashable, int] = {}
    # Calls with unknown arguments get negative numbers, each a different one, so that they equal no other call.
    return [-index - 1 if key is None else ids.setdefault(key, len(ids)) for index, key in enumerate(keys)]


def _repetition_end(ids: Sequence[int], start: int, size: int) -> int:
    """Return the first position from `start` whose call differs from the one a block of `size` calls later."""
    end = start
    while end + size < len(ids) and ids[end] == ids[end + size]:
        end += 1
    return end


def _loop_finding(calls: Sequence[ToolCall], start: int, size: int, times: int) -> Finding:
    names = [repr(printable(call.name)) for call in calls[start : start + size]]
    detail = f" to #{start + times * size}, {times} times the same {size} calls ({join_first(names, _MAX_NAMES)})"
    return Finding("loop", f"Loop: called #{start + 1}{detail}.", calls[start].name, called=start)


def _repeats_shorter(block: Sequence[int]) -> bool:
    """Return whether a block is a repetition of a shorter one."""
    size = len(block)
    return any(size % period == 0 and block[period:] == block[:-period] for period in range(1, size // 2 + 1))
