"""Tool efficiency: which calls were made for nothing, and was the budget kept?

Loops are found by comparing the calls with themselves, moved by each possible length of a block: where at least two
blocks' worth of calls in a row agree, the block stands there three times. Cost: calls squared over three.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count as counting

from toolmark._internal.text import number_text, plural, printable
from toolmark.calls import ToolCall
from toolmark.cases import TestCase
from toolmark.errors import ConfigurationError
from toolmark.metrics.call_metric import CallMetric, Found, failed, identity, left_out, one, status_of, went_well, why
from toolmark.metrics.name_patterns import matches, read_patterns
from toolmark.result import Finding

_FAILURES = 2
"""Equal failures after which an identical call is redundant."""
_TIMES = 3
"""Repetitions from which on a block is a loop."""
_NAMES = 5
"""Calls of a loop that its finding names."""


@dataclass(frozen=True, eq=False)
class ToolEfficiencyMetric(CallMetric):
    """Finds redundant calls, and compares the calls and the time with a budget.

    A call is redundant if an identical earlier one (equal name and arguments) succeeded, or if identical earlier ones
    failed at least twice with the same error: a first retry is not redundant. An earlier call without an `execution`
    succeeded, for all that is known. What happened in between plays no part: name in `repeatable` the tools that ask
    again on purpose, such as for the state of a job.

    The score is the lowest of: useful calls / calls; `max_calls` / calls; `max_seconds` / duration of the run, the
    latter two at most 1. A part without a budget is left out, and so are calls whose arguments were not recorded, or
    the duration where the case has no run that knows it; a warning says so. No call and no `max_calls`: skipped. A
    block of at least two calls that stands three times or more in a row is a finding of its own. See docs/metrics.md.

    Args:
        max_calls: Calls that would do; `None` for no budget.
        max_seconds: Seconds that the run may take; `None` for no budget.
        threshold: A score at or above it passes; in [0, 1].
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

    max_calls: int | None = None
    max_seconds: float | None = None
    threshold: float = 0.5
    repeatable: Sequence[str] = ()
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False

    def __post_init__(self) -> None:
        """Check the options, and bring them into one form."""
        self._set_threshold()
        if self.max_calls is not None and (type(self.max_calls) is not int or self.max_calls < 0):
            message = f"max_calls must be a whole number from 0, or None, got {self.max_calls!r}"
            raise ConfigurationError(message)
        if self.max_seconds is not None and not _is_time(self.max_seconds):
            message = f"max_seconds must be a finite number above 0, or None, got {self.max_seconds!r}"
            raise ConfigurationError(message)
        object.__setattr__(self, "repeatable", read_patterns(self.repeatable, "repeatable"))

    @property
    def _name(self) -> str:
        return "tool_efficiency"

    @property
    def _told(self) -> Sequence[str]:
        budgets = {"max_calls": self.max_calls, "max_seconds": self.max_seconds}
        told = [f"{name}={value:g}" for name, value in budgets.items() if value is not None]
        return [*told, *(["repeatable"] if self.repeatable else [])]

    def _found(self, calls: Sequence[ToolCall], case: TestCase) -> Found:
        keys = [identity(call) for call in calls]
        known = sum(key is not None for key in keys)
        redundant = list(_redundant(calls, keys, self.repeatable))
        scores: dict[str, float] = {}
        sums: dict[str, str] = {}
        findings = [*redundant, *_loops(calls, keys)]
        warnings = left_out(len(calls) - known, "not all of their arguments are known")
        if known:
            scores["useful"] = (known - len(redundant)) / known
            sums["useful"] = f"{known - len(redundant)} / {plural(known, 'call')} = {number_text(scores['useful'])}"
        for name, budget, spent, noun in (
            ("calls", self.max_calls, len(calls), "call"),
            ("seconds", self.max_seconds, case.run.duration if case.run is not None else None, "second"),
        ):
            if budget is None:
                continue
            if spent is None:
                warnings.append(f"max_{name} was left out: the recording does not say how long the run took")
                continue
            scores[name] = 1.0 if spent <= budget else budget / spent
            told = f"{spent:g} {noun}{'' if spent == 1 else 's'}"
            sums[name] = (
                f"{told} within {budget:g} = 1"
                if spent <= budget
                else f"{budget:g} / {told} = {number_text(scores[name])}"
            )
            if spent > budget:
                findings.append(Finding("over_budget", f"Over budget: {told}, at most {budget:g} would do.", ""))
        return Found(
            scores=scores,
            sums=sums,
            findings=findings,
            warnings=warnings,
            skipped="no call could be compared" if calls else "no call was made",
        )


@dataclass(slots=True)
class _Earlier:
    """The identical calls before this one."""

    well: int | None = None
    failures: dict[Hashable, list[int]] = field(default_factory=lambda: defaultdict(list))

    def reason(self, calls: Sequence[ToolCall]) -> str | None:
        """Return why one more is redundant, or `None` where it is not."""
        if self.well is not None:
            return f"#{self.well + 1} was the same and succeeded"
        for places in self.failures.values():
            if len(places) >= _FAILURES:
                told = " and ".join(f"#{place + 1}" for place in places[:_FAILURES])
                return f"{told} were the same and failed ({why(calls[places[0]])})"
        return None


def _redundant(calls: Sequence[ToolCall], keys: Sequence[Hashable], repeatable: Sequence[str]) -> Iterator[Finding]:
    before: dict[Hashable, _Earlier] = defaultdict(_Earlier)
    for index, (call, key) in enumerate(zip(calls, keys, strict=True)):
        if key is None or matches(call.name, repeatable):
            continue
        earlier = before[key]
        reason = earlier.reason(calls)
        if reason is not None:
            yield Finding("redundant", f"Redundant: {one(call, index)}, {reason}.", call.name, called=index)
        if earlier.well is None and went_well(call):
            earlier.well = index
        elif failed(call):
            error = call.execution.error if call.execution is not None else None
            earlier.failures[status_of(call), error].append(index)


def _loops(calls: Sequence[ToolCall], keys: Sequence[Hashable]) -> Iterator[Finding]:
    """Yield each block of at least two calls that stands three times or more in a row, shortest blocks first."""
    numbers: dict[Hashable, int] = {}
    unknown = counting(-1, -1)
    ids = [next(unknown) if key is None else numbers.setdefault(key, len(numbers)) for key in keys]
    for size in range(2, len(ids) // _TIMES + 1):
        start = 0
        while start + _TIMES * size <= len(ids):
            end = start
            while end + size < len(ids) and ids[end] == ids[end + size]:
                end += 1
            times = (end - start) // size + 1
            if times >= _TIMES and _is_primitive(ids[start : start + size]):
                names = [printable(call.name) for call in calls[start : start + min(size, _NAMES)]]
                told = ", ".join(map(repr, names)) + (", ..." if size > _NAMES else "")
                where = f"called #{start + 1} to #{start + times * size}"
                text = f"Loop: {where}, {times} times the same {size} calls ({told})."
                yield Finding("loop", text, calls[start].name, called=start)
            start = end + 1


def _is_primitive(block: Sequence[int]) -> bool:
    """Return whether a block is no repetition of a shorter one."""
    size = len(block)
    return not any(size % part == 0 and block[part:] == block[:-part] for part in range(1, size // 2 + 1))


def _is_time(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and 0 < value < float("inf")
