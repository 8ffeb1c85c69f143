"""Tool efficiency: a metric of redundant calls, and of budgets for calls and time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from toolmark._internal.text import number_text, plural, printable
from toolmark.calls import ToolCall
from toolmark.cases import TestCase
from toolmark.errors import ConfigurationError
from toolmark.metrics.base import (
    CallMetric,
    Measurement,
    call_text,
    error_text,
    has_failed,
    has_succeeded,
    identity_key,
    omission_warnings,
    status_of,
)
from toolmark.metrics.name_patterns import matches, read_patterns
from toolmark.result import Finding

_FAILURES = 2
"""Failures with equal errors after which an identical call is redundant."""
_TIMES = 3
"""Repetitions that make a block of calls a loop."""
_NAMES = 5
"""Calls of a loop that its finding names."""


@dataclass(frozen=True, eq=False)
class ToolEfficiencyMetric(CallMetric):
    """Finds redundant calls, and compares the calls and the time with a budget.

    A call is redundant if an identical earlier one (equal name and arguments) succeeded, or if identical earlier ones
    failed at least twice with the same error; a first retry is not redundant. An earlier call without an `execution`
    counts as successful. Calls in between do not matter: list tools that poll on purpose, such as for the state of a
    job, in `repeatable`.

    The score is the lowest of: useful calls / calls; `max_calls` / calls; `max_seconds` / duration of the run, the
    latter two at most 1. A part without a budget is left out. Calls whose arguments were not recorded, and a duration
    that was not, are left out with a warning. A case without calls is skipped, unless there is a `max_calls`. A block
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

    max_calls: int | None = None
    max_seconds: float | None = None
    threshold: float = 0.5
    repeatable: Sequence[str] = ()
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False

    def __post_init__(self) -> None:
        """Check the options and normalize them."""
        self._set_threshold()
        if self.max_calls is not None and (type(self.max_calls) is not int or self.max_calls < 0):
            message = f"max_calls must be a whole number from 0, or None, got {self.max_calls!r}"
            raise ConfigurationError(message)
        if self.max_seconds is not None and not _is_duration(self.max_seconds):
            message = f"max_seconds must be a finite number above 0, or None, got {self.max_seconds!r}"
            raise ConfigurationError(message)
        object.__setattr__(self, "repeatable", read_patterns(self.repeatable, "repeatable"))

    @property
    def _name(self) -> str:
        return "tool_efficiency"

    @property
    def _options(self) -> Sequence[str]:
        budgets = {"max_calls": self.max_calls, "max_seconds": self.max_seconds}
        options = [f"{name}={budget:g}" for name, budget in budgets.items() if budget is not None]
        return [*options, "repeatable"] if self.repeatable else options

    def _score_calls(self, calls: Sequence[ToolCall], case: TestCase) -> Measurement:
        keys = [identity_key(call) for call in calls]
        comparable = len(keys) - keys.count(None)
        redundant = list(_redundant_calls(calls, keys, self.repeatable))
        scores: dict[str, float] = {}
        sums: dict[str, str] = {}
        findings = [*redundant, *_loops(calls, keys)]
        warnings = omission_warnings(len(calls) - comparable, "their arguments were not recorded or are redacted")
        if comparable:
            useful = comparable - len(redundant)
            scores["useful"] = useful / comparable
            sums["useful"] = f"{useful} / {plural(comparable, 'call')} = {number_text(scores['useful'])}"
        duration = case.run.duration if case.run is not None else None
        for name, budget, spent, noun in (
            ("calls", self.max_calls, len(calls), "call"),
            ("seconds", self.max_seconds, duration, "second"),
        ):
            if budget is None:
                continue
            if spent is None:
                warnings.append(f"max_{name} was left out: the duration of the run was not recorded")
                continue
            amount = f"{spent:g} {noun}{'' if spent == 1 else 's'}"
            if spent <= budget:
                scores[name], sums[name] = 1.0, f"{amount} within {budget:g} = 1"
                continue
            scores[name] = budget / spent
            sums[name] = f"{budget:g} / {amount} = {number_text(scores[name])}"
            findings.append(Finding("over_budget", f"Over budget: {amount}, the budget is {budget:g}.", ""))
        return Measurement(
            scores=scores,
            sums=sums,
            findings=findings,
            warnings=warnings,
            skip_reason="no call could be compared" if calls else "no call was made",
        )


@dataclass(slots=True)
class _Earlier:
    """The earlier calls that are identical to one call."""

    success: int | None = None
    failures: dict[Hashable, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Positions by status and error: two failures with the same error predict a third."""

    def reason(self, calls: Sequence[ToolCall]) -> str | None:
        """Return why one more call is redundant; `None` if it is not."""
        if self.success is not None:
            return f"#{self.success + 1} was the same and succeeded"
        for places in self.failures.values():
            if len(places) >= _FAILURES:
                positions = " and ".join(f"#{place + 1}" for place in places[:_FAILURES])
                return f"{positions} were the same and failed ({error_text(calls[places[0]])})"
        return None


def _redundant_calls(
    calls: Sequence[ToolCall], keys: Sequence[Hashable], repeatable: Sequence[str]
) -> Iterator[Finding]:
    identical: dict[Hashable, _Earlier] = defaultdict(_Earlier)
    for index, (call, key) in enumerate(zip(calls, keys, strict=True)):
        if key is None or matches(call.name, repeatable):
            continue
        earlier = identical[key]
        reason = earlier.reason(calls)
        if reason is not None:
            text = f"Redundant: {call_text(call, index)}, {reason}."
            yield Finding("redundant", text, call.name, called=index)
        if earlier.success is None and has_succeeded(call):
            earlier.success = index
        elif has_failed(call):
            error = call.execution.error if call.execution is not None else None
            earlier.failures[status_of(call), error].append(index)


def _loops(calls: Sequence[ToolCall], keys: Sequence[Hashable]) -> Iterator[Finding]:
    """Yield each block of at least two calls that occurs three times or more in a row, shortest blocks first.

    The calls are compared with themselves shifted by each block size; where at least two blocks in a row agree, the
    block occurs three times. The cost is quadratic in the number of calls.
    """
    numbers: dict[Hashable, int] = {}
    # Calls with unknown arguments get numbers of their own, so that they equal no other call.
    ids = [-index - 1 if key is None else numbers.setdefault(key, len(numbers)) for index, key in enumerate(keys)]
    for size in range(2, len(ids) // _TIMES + 1):
        start = 0
        while start + _TIMES * size <= len(ids):
            end = start
            while end + size < len(ids) and ids[end] == ids[end + size]:
                end += 1
            times = (end - start) // size + 1
            if times >= _TIMES and not _repeats_shorter(ids[start : start + size]):
                names = [printable(call.name) for call in calls[start : start + min(size, _NAMES)]]
                listed = ", ".join(map(repr, names)) + (", ..." if size > _NAMES else "")
                where = f"called #{start + 1} to #{start + times * size}"
                text = f"Loop: {where}, {times} times the same {size} calls ({listed})."
                yield Finding("loop", text, calls[start].name, called=start)
            start = end + 1


def _repeats_shorter(block: Sequence[int]) -> bool:
    """Return whether a block is a repetition of a shorter one."""
    size = len(block)
    return any(size % part == 0 and block[part:] == block[:-part] for part in range(1, size // 2 + 1))


def _is_duration(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and 0 < value < float("inf")
