"""Tool policy: did the agent keep to the rules about which tools it may call, when, and with what?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolmark._internal.text import number_text, plural, printable
from toolmark.calls import CallStatus, ToolCall
from toolmark.cases import TestCase
from toolmark.errors import ConfigurationError, InvalidDataError
from toolmark.metrics.argument_rules import ArgumentRule, Path, read_argument_rules
from toolmark.metrics.call_metric import CallMetric, Found, left_out, named, one, status_of, together, went_well
from toolmark.metrics.name_patterns import matches, read_patterns
from toolmark.result import Finding

APPROVED = "approved_calls"
"""The key of a case's `metadata`, or of its run's, that lists the approved calls."""


@dataclass(frozen=True, eq=False)
class ToolPolicyMetric(CallMetric):
    """Checks the calls against rules. A call that breaks one counts whatever became of it, unless said otherwise.

    The score is 1 - violating calls / checked calls; at the default threshold any violation fails. No call: skipped.
    Tools are given as exact names or as patterns (`*`, `?`, `[...]` as in a shell; case counts). See docs/metrics.md.

    Args:
        allowed: The tools that may be called; `None` for all.
        denied: Tools that may not, even if allowed.
        needs_approval: Tools that may not run without approval. Calls that wait, were rejected or never ran are fine.
            A recording does not show whether somebody approved of a call that ran, so the case must say it: its
            `metadata`, or its run's, lists under `approved_calls` the ids of the approved calls, or their positions
            from 0. A call that ran and is not listed is a violation. A call without an `execution` ran.
        required_before: For tools, those of which a call must have succeeded earlier: `{"change_*": ["look_up"]}`
            wants one of each that is listed. A call that the model asked for at the same time is not earlier; a call
            without an `execution` succeeded.
        argument_rules: For tools, and for places in their arguments, the values that are allowed or denied:
            `{"pay": {"currency": {"allowed": ["EUR"]}, "to.*.country": {"denied": ["X?"]}}}`. A place is keys joined by
            dots (`*` is every item of a list or object, a number an item of a list), or a tuple of keys; one that a
            call does not have breaks no rule. Values are equal as JSON values, and texts may be patterns. Arguments
            that were not recorded, or are redacted, break no rule; unless the call breaks another, it is left out,
            with a warning.
        threshold: A score at or above it passes; in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range, or there is no rule.

    Example:
        >>> from toolmark import LLMTestCase, ToolCall, ToolPolicyMetric
        >>> case = LLMTestCase(tools_called=[ToolCall(name="change"), ToolCall(name="look_up")])
        >>> ToolPolicyMetric(required_before={"change": ["look_up"]}).measure(case).score
        0.5
    """

    allowed: Sequence[str] | None = None
    denied: Sequence[str] = ()
    needs_approval: Sequence[str] = ()
    required_before: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    argument_rules: Mapping[str, Mapping[Path, Mapping[str, Sequence[Any]]]] = field(
        default_factory=dict[str, Mapping[Path, Mapping[str, Sequence[Any]]]]
    )
    threshold: float = 1.0
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False
    _rules: tuple[ArgumentRule, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        """Check the options, and bring them into one form."""
        self._set_threshold()
        set_field = object.__setattr__  # the dataclass is frozen from here on
        for name in ("allowed", "denied", "needs_approval"):
            if name != "allowed" or self.allowed is not None:
                set_field(self, name, read_patterns(getattr(self, name), name))
        if not isinstance(self.required_before, Mapping):
            message = f"required_before must map tools to those required before them, got {self.required_before!r:.60}"
            raise ConfigurationError(message)
        read_patterns(self.required_before, "required_before")
        before = {
            tool: read_patterns(wanted, f"required_before[{tool!r}]") for tool, wanted in self.required_before.items()
        }
        set_field(self, "required_before", before)
        set_field(self, "_rules", read_argument_rules(self.argument_rules))
        if not self._told:
            names = "allowed, denied, needs_approval, required_before, argument_rules"
            message = f"there is no rule; give at least one of {names}"
            raise ConfigurationError(message)

    @property
    def _name(self) -> str:
        return "tool_policy"

    @property
    def _told(self) -> Sequence[str]:
        told = ["allowed"] if self.allowed is not None else []
        names = ("denied", "needs_approval", "required_before", "argument_rules")
        return [*told, *(name for name in names if getattr(self, name))]

    def _found(self, calls: Sequence[ToolCall], case: TestCase) -> Found:
        approved = _approved(case) if self.needs_approval else frozenset()
        findings: list[Finding] = []
        unchecked: set[int] = set()
        first_well = self._first_well(calls)
        for index, call in enumerate(calls):
            findings.extend(self._of_name(index, call))
            findings.extend(self._of_approval(index, call, approved))
            findings.extend(self._of_order(index, calls, first_well))
            rules = [rule for rule in self._rules if matches(call.name, [rule.tool])]
            findings.extend(_of_argument(index, call, rule, place) for rule in rules for place in rule.broken(call))
            if any(rule.hidden(call) for rule in rules):
                unchecked.add(index)
        violating = {finding.called for finding in findings}
        undecided = len(unchecked - violating)
        warnings = left_out(undecided, "what argument_rules ask about is not known")
        decided, bad = len(calls) - undecided, len(violating)
        if not decided:
            return Found(warnings=warnings, skipped="no call could be checked" if calls else "no call was made")
        score = (decided - bad) / decided
        return Found(
            scores={"allowed": score},
            sums={"allowed": f"1 - {bad} violating / {plural(decided, 'call')} = {number_text(score)}"},
            findings=findings,
            warnings=warnings,
        )

    def _of_name(self, index: int, call: ToolCall) -> Iterator[Finding]:
        fitting = next((pattern for pattern in self.denied if matches(call.name, [pattern])), None)
        if fitting is not None:
            text = f"Forbidden: {one(call, index)}, denied by {printable(fitting)!r}."
            yield Finding("forbidden", text, call.name, called=index)
        elif self.allowed is not None and not matches(call.name, self.allowed):
            yield Finding("forbidden", f"Forbidden: {one(call, index)} is not allowed.", call.name, called=index)

    def _of_approval(self, index: int, call: ToolCall, approved: frozenset[str | int]) -> Iterator[Finding]:
        if matches(call.name, self.needs_approval) and _ran(call) and approved.isdisjoint((call.id, index)):
            text = f"Not approved: {one(call, index)} ran, and metadata[{APPROVED!r}] does not list it."
            yield Finding("not_approved", text, call.name, called=index)

    def _first_well(self, calls: Sequence[ToolCall]) -> dict[str, int]:
        """Return for each tool that is required before another the first call that succeeded."""
        wanted = {pattern for patterns in self.required_before.values() for pattern in patterns}
        found: dict[str, int] = {}
        for index, call in enumerate(calls):
            if went_well(call):
                for pattern in wanted:
                    if pattern not in found and matches(call.name, [pattern]):
                        found[pattern] = index
        return found

    def _of_order(self, index: int, calls: Sequence[ToolCall], first_well: Mapping[str, int]) -> Iterator[Finding]:
        call = calls[index]
        rules = (wanted for tool, wanted in self.required_before.items() if matches(call.name, [tool]))
        for pattern in dict.fromkeys(pattern for wanted in rules for pattern in wanted):
            first = first_well.get(pattern, index)
            if first >= index or together(calls[first], call):
                text = f"Too early: {one(call, index)}, before a call of {printable(pattern)!r} had succeeded."
                yield Finding("too_early", text, call.name, called=index)


def _of_argument(index: int, call: ToolCall, rule: ArgumentRule, broken: tuple[str, str, Any]) -> Finding:
    path, told, value = broken
    text = (
        f"Forbidden argument: {one(call, index)}, {printable(path)} {told}, by the rule for {printable(rule.tool)!r}."
    )
    return Finding("forbidden_argument", text, call.name, called=index, path=path, called_value=value)


def _ran(call: ToolCall) -> bool:
    status = status_of(call)
    if status in {None, CallStatus.OK, CallStatus.ERROR}:
        return True
    if status in {CallStatus.PENDING, CallStatus.REJECTED}:
        return False
    return call.execution is not None and call.execution.executed


def _approved(case: TestCase) -> frozenset[str | int]:
    """Return the ids and positions of the approved calls.

    Raises:
        InvalidDataError: What stands there is no list of them.
    """
    listed: set[str | int] = set()
    for place in (case, case.run):
        found = place.metadata.get(APPROVED, []) if place is not None else []
        if not isinstance(found, list) or not all(type(item) in {str, int} for item in found):
            message = (
                f"metadata[{APPROVED!r}]{named(case)} must be a list of ids or positions of calls, got {found!r:.60}"
            )
            raise InvalidDataError(message)
        listed.update(item for item in found if isinstance(item, (str, int)))
    return frozenset(listed)
