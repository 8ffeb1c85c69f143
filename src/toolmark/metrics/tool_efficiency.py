"""Tool efficiency: a metric of redundant calls, and of budgets for calls and time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from toolmark._internal.text import number_text, printable
from toolmark.calls import ToolCall
from toolmark.cases import TestCase
from toolmark.errors import ConfigurationError
from toolmark.metrics.base import (
    CallMetric,
    Measurement,
    call_finding,
    error_text,
    has_failed,
    has_succeeded,
    identity_key,
    omission_warnings,
    share_of_calls,
    status_of,
)
from toolmark.metrics.name_patterns import matches, read_patterns
from toolmark.result import Finding

_FAILURES_BEFORE_REDUNDANT = 2
"""Failures with equal errors after which an identical call is redundant."""
_LEAST_REPETITIONS = 3
"""Repetitions that make a block of calls a loop."""
_MAX_NAMES = 5
"""Calls of a loop that its finding names."""


@dataclass(frozen=True, eq=False)
class ToolEfficiencyMetric(CallMetric):
    """Finds redundant calls, and compares the calls and the time with a budget.

    A call is redundant if an identical earlier one (equal name and arguments) succeeded, or if identical earlier ones
    failed at least twice with the same error; a first retry is not redundant. An earlier call without an `execution`
    counts as successful. Calls in between do not matter: list tools that poll on purpose, such as for the state of a
    job, in `repeatable`.

    The score is the lowest of: useful calls / calls; `max_calls` / calls; `max_seconds` / duration of the run, the
    latter two at most 1. A part without a budget is left out. Calls without recorded arguments, and an unrecorded
    duration, are left out with a warning. A case without calls is skipped, unless a budget gives it a score. A block
    of at least two calls that occurs three times or more in a row is a separate finding. See docs/metrics.md.

    Args:
        max_calls: The budget of calls; `None` for no budget.
        max_seconds: The budget of seconds for the run; `None` for no budget.
        threshold: The lowest score that passes, in [0, 1].
        repeatable: Names or patterns (`*`, `?`, `[...]`) of tools whose calls are never redundant.
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolmark import LLMTestCase, ToolCall, ToolEfficiencyMetric
        >>> case = LLMTestCase(tools_called=[ToolCall(name="look"), ToolCall(name="look")])
        >>> ToolEfficiencyMetric().measure(case).score
        0.5
    """

    _name: ClassVar[str] = "tool_efficiency"

    max_calls: int | None = None
    max_seconds: float | None = None
    threshold: float = 0.5
    repeatable: Sequence[str] = ()
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False

    def __post_init__(self) -> None:
        """Check the options and normalize them."""
        super().__post_init__()
        if self.max_calls is not None and (type(self.max_calls) is not int or self.max_calls < 0):
            raise ConfigurationError(f"max_calls must be a whole number from 0, or None, got {self.max_calls!r}")
        if self.max_seconds is not None and not _is_time_budget(self.max_seconds):
            raise ConfigurationError(f"max_seconds must be a finite number above 0, or None, got {self.max_seconds!r}")
        self._set(repeatable=read_patterns(self.repeatable, "repeatable"))

    @property
    def _options(self) -> Sequence[str]:
        budgets = {"max_calls": self.max_calls, "max_seconds": self.max_seconds}
        options = [f"{name}={budget:g}" for name, budget in budgets.items() if budget is not None]
        return [*options, "repeatable"] if self.repeatable else options

    def _score_calls(self, calls: Sequence[ToolCall], case: TestCase, /) -> Measurement:
        keys = [identity_key(call) for call in calls]  # `None` for unknown arguments
        comparable = len(keys) - keys.count(None)
        redundant = list(_redundant_calls(calls, keys, self.repeatable))
        warnings = omission_warnings(len(calls) - comparable, "their arguments were not recorded or are redacted")
        useful = share_of_calls(
            calls,
            "useful",
            comparable - len(redundant),
            comparable,
            "call",
            skip_reason="no call could be compared",
        )
        scores, sums = dict(useful.scores), dict(useful.sums)
        findings = [*redundant, *_loops(calls, keys)]
        duration = None if case.run is None else case.run.duration
        for name, budget, spent in (
            ("calls", self.max_calls, len(calls)),
            ("seconds", self.max_seconds, duration),
        ):
            if budget is None:
                continue
            if spent is None:  # only a duration can be unknown
                warnings.append(f"max_{name} was left out: the duration of the run was not recorded")
                continue
            unit = name.removesuffix("s") if spent == 1 else name
            amount = f"{spent:g} {unit}"
            if spent <= budget:
                scores[name], sums[name] = 1.0, f"{amount} within {budget:g} = 1"
                continue
            scores[name] = budget / spent
            sums[name] = f"{budget:g} / {amount} = {number_text(scores[name])}"
            findings.append(Finding("over_budget", f"Over budget: {amount}, the budget is {budget:g}.", ""))
        return replace(useful, scores=scores, sums=sums, findings=findings, warnings=warnings)


def _redundant_calls(
    calls: Sequence[ToolCall], keys: Sequence[Hashable], repeatable: Sequence[str]
) -> Iterator[Finding]:
    reasons: dict[Hashable, str] = {}  # why one more call with a key is redundant
    succeeded: set[Hashable] = set()
    failures: dict[Hashable, list[int]] = defaultdict(list)
    for index, (call, key) in enumerate(zip(calls, keys, strict=True)):
        if key is None or matches(call.name, repeatable):
            continue
        if key in reasons:
            yield call_finding("redundant", "Redundant", call, index, f", {reasons[key]}")
        if has_succeeded(call) and key not in succeeded:
            succeeded.add(key)
            reasons[key] = f"#{index + 1} was the same and succeeded"
        elif has_failed(call):
            # After different errors, a further attempt may succeed.
            error = call.execution and call.execution.error
            same_failures = failures[key, status_of(call), error]
            same_failures.append(index)
            if len(same_failures) == _FAILURES_BEFORE_REDUNDANT:
                positions = " and ".join(f"#{place + 1}" for place in same_failures)
                reasons.setdefault(key, f"{positions} were the same and failed ({error_text(calls[same_failures[0]])})")


def _loops(calls: Sequence[ToolCall], keys: Sequence[Hashable]) -> Iterator[Finding]:
    """Yield each block of at least two calls that occurs three times or more in a row, shortest blocks first.

    For each block size, each call from `start` is compared with the call one block later; `end` is the first that
    differs from it. The block at `start` repeats once for each whole block between `start` and `end`. The cost is
    quadratic in the number of calls.
    """
    ids_by_key: dict[Hashable, int] = {}
    # Calls with unknown arguments get negative ids, each a different one, so that they equal no other call.
    ids = [-index - 1 if key is None else ids_by_key.setdefault(key, len(ids_by_key)) for index, key in enumerate(keys)]
    for size in range(2, len(ids) // _LEAST_REPETITIONS + 1):
        start = 0
        while start + _LEAST_REPETITIONS * size <= len(ids):
            end = start
            while end + size < len(ids) and ids[end] == ids[end + size]:
                end += 1
            times = (end - start) // size + 1
            if times >= _LEAST_REPETITIONS and not _repeats_shorter(ids[start : start + size]):
                names = [printable(call.name) for call in calls[start : start + min(size, _MAX_NAMES)]]
                listed = ", ".join(map(repr, names)) + (", ..." if size > _MAX_NAMES else "")
                detail = f" to #{start + times * size}, {times} times the same {size} calls ({listed})"
                yield Finding("loop", f"Loop: called #{start + 1}{detail}.", calls[start].name, called=start)
            start = end + 1  # from any start in between, the repetition ends at the same call


def _repeats_shorter(block: Sequence[int]) -> bool:
    """Return whether a block is a repetition of a shorter one."""
    size = len(block)
    return any(size % period == 0 and block[period:] == block[:-period] for period in range(1, size // 2 + 1))


def _is_time_budget(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and 0 < value < float("inf")
