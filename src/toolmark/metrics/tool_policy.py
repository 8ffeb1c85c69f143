"""Tool policy: a metric that checks the calls against rules for tools, approvals, order and arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolmark._internal.text import number_text, plural, printable
from toolmark.calls import CallStatus, ToolCall
from toolmark.cases import TestCase
from toolmark.errors import ConfigurationError, InvalidDataError
from toolmark.metrics.argument_rules import ArgumentRule, Path, read_argument_rules
from toolmark.metrics.base import (
    CallMetric,
    Measurement,
    call_text,
    case_label,
    has_succeeded,
    in_same_step,
    omission_warnings,
    status_of,
)
from toolmark.metrics.name_patterns import matches, read_patterns
from toolmark.result import Finding

APPROVED = "approved_calls"
"""The key of a case's `metadata`, or of its run's, that lists the approved calls."""


@dataclass(frozen=True, eq=False)
class ToolPolicyMetric(CallMetric):
    """Checks the calls against rules. A call that breaks a rule counts even if it failed, unless the rule exempts it.

    The score is 1 - violating calls / checked calls; at the default threshold any violation fails. A case without calls
    is skipped. Tools are exact names or patterns (`*`, `?`, `[...]` as in a shell; case counts). See docs/metrics.md.

    Args:
        allowed: The tools that may be called; `None` for all.
        denied: Tools that may not be called, even if allowed.
        needs_approval: Tools that may not run without approval. Calls that are pending, were rejected or never ran are
            fine. A recording does not show whether a person approved a call that ran, so the `metadata` of the case or
            of its run must list the approved calls under `approved_calls`, by id or by position from 0. A call that ran
            and is not listed is a violation; a call without an `execution` counts as one that ran.
        required_before: For each tool, the tools that must have succeeded before it: with `{"change_*": ["look_up"]}`,
            a call of `look_up` must have. All listed tools are required. A call in the same step is not earlier; a call
            without an `execution` counts as successful.
        argument_rules: For each tool and each place in its arguments, the values that are allowed or denied:
            `{"pay": {"currency": {"allowed": ["EUR"]}, "to.*.country": {"denied": ["X?"]}}}`. A place is keys joined by
            dots (`*` is every item of a list or object, a number is an item of a list), or a tuple of keys. A place
            that a call does not have breaks no rule. Values are compared as JSON values; texts may be patterns.
            Arguments that were not recorded or are redacted break no rule: unless the call breaks another rule, it is
            left out with a warning.
        threshold: The lowest score that passes, in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range, or no rule is set.

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
        """Check the options and normalize them."""
        self._set_threshold()
        set_field = object.__setattr__  # the dataclass is frozen from here on
        for name in ("allowed", "denied", "needs_approval"):
            if name != "allowed" or self.allowed is not None:
                set_field(self, name, read_patterns(getattr(self, name), name))
        if not isinstance(self.required_before, Mapping):
            message = f"required_before must map tools to those required before them, got {self.required_before!r:.60}"
            raise ConfigurationError(message)
        read_patterns(self.required_before, "required_before")
        required = {
            tool: read_patterns(patterns, f"required_before[{tool!r}]")
            for tool, patterns in self.required_before.items()
        }
        set_field(self, "required_before", required)
        set_field(self, "_rules", read_argument_rules(self.argument_rules))
        if not self._options:
            names = "allowed, denied, needs_approval, required_before, argument_rules"
            message = f"{type(self).__name__} must have at least one rule; set one of {names}"
            raise ConfigurationError(message)

    @property
    def _name(self) -> str:
        return "tool_policy"

    @property
    def _options(self) -> Sequence[str]:
        options = ["allowed"] if self.allowed is not None else []
        names = ("denied", "needs_approval", "required_before", "argument_rules")
        return [*options, *(name for name in names if getattr(self, name))]

    def _score_calls(self, calls: Sequence[ToolCall], case: TestCase) -> Measurement:
        approved = _approved_calls(case) if self.needs_approval else frozenset()
        first_success = self._first_successes(calls)
        findings: list[Finding] = []
        undecided: set[int] = set()
        for index, call in enumerate(calls):
            findings += self._name_findings(index, call)
            if matches(call.name, self.needs_approval) and _ran(call) and approved.isdisjoint((call.id, index)):
                text = f"Not approved: {call_text(call, index)} ran, and metadata[{APPROVED!r}] does not list it."
                findings.append(Finding("not_approved", text, call.name, called=index))
            findings += self._order_findings(index, calls, first_success)
            for rule in self._rules:
                if matches(call.name, [rule.tool]):
                    findings += _argument_findings(index, call, rule)
                    if rule.is_undecided(call):
                        undecided.add(index)
        violating = {finding.called for finding in findings}
        undecided -= violating
        warnings = omission_warnings(
            len(undecided), "the arguments in argument_rules were not recorded or are redacted"
        )
        checked = len(calls) - len(undecided)
        if not checked:
            reason = "no call could be checked" if calls else "no call was made"
            return Measurement(warnings=warnings, skip_reason=reason)
        score = (checked - len(violating)) / checked
        return Measurement(
            scores={"allowed": score},
            sums={"allowed": f"1 - {len(violating)} violating / {plural(checked, 'call')} = {number_text(score)}"},
            findings=findings,
            warnings=warnings,
        )

    def _name_findings(self, index: int, call: ToolCall) -> Iterator[Finding]:
        denied_by = next((pattern for pattern in self.denied if matches(call.name, [pattern])), None)
        if denied_by is not None:
            text = f"Forbidden: {call_text(call, index)}, denied by {printable(denied_by)!r}."
            yield Finding("forbidden", text, call.name, called=index)
        elif self.allowed is not None and not matches(call.name, self.allowed):
            text = f"Forbidden: {call_text(call, index)} is not allowed."
            yield Finding("forbidden", text, call.name, called=index)

    def _first_successes(self, calls: Sequence[ToolCall]) -> dict[str, int]:
        """Return the position of the first successful call of each tool that is required before another."""
        required = {pattern for patterns in self.required_before.values() for pattern in patterns}
        first: dict[str, int] = {}
        for index, call in enumerate(calls):
            if has_succeeded(call):
                for pattern in required:
                    if matches(call.name, [pattern]):
                        first.setdefault(pattern, index)
        return first

    def _order_findings(
        self, index: int, calls: Sequence[ToolCall], first_success: Mapping[str, int]
    ) -> Iterator[Finding]:
        call = calls[index]
        required: dict[str, None] = {}
        for tool, patterns in self.required_before.items():
            if matches(call.name, [tool]):
                required.update(dict.fromkeys(patterns))
        for pattern in required:
            first = first_success.get(pattern, index)
            # The model could not know of a success in the step in which it also asked for this call.
            if first >= index or in_same_step(calls[first], call):
                text = f"Too early: {call_text(call, index)}, before a call of {printable(pattern)!r} had succeeded."
                yield Finding("too_early", text, call.name, called=index)


def _argument_findings(index: int, call: ToolCall, rule: ArgumentRule) -> Iterator[Finding]:
    for path, problem, value in rule.violations(call):
        where = f"{call_text(call, index)}, {printable(path)} {problem}"
        text = f"Forbidden argument: {where}, by the rule for {printable(rule.tool)!r}."
        yield Finding("forbidden_argument", text, call.name, called=index, path=path, called_value=value)


def _ran(call: ToolCall) -> bool:
    status = status_of(call)
    if status in {None, CallStatus.OK, CallStatus.ERROR}:
        return True
    if status in {CallStatus.PENDING, CallStatus.REJECTED}:
        return False
    return call.execution is not None and call.execution.executed


def _approved_calls(case: TestCase) -> frozenset[str | int]:
    """Return the ids and positions of the approved calls, from the metadata of the case and of its run.

    Raises:
        InvalidDataError: An entry is not a list of ids or positions.
    """
    approved: set[str | int] = set()
    for owner in (case, case.run):
        calls: Any = owner.metadata.get(APPROVED, []) if owner is not None else []
        if not isinstance(calls, list) or not all(type(item) in {str, int} for item in calls):
            where = f"metadata[{APPROVED!r}]{case_label(case)}"
            message = f"{where} must be a list of ids or positions of calls, got {calls!r:.60}"
            raise InvalidDataError(message)
        approved.update(calls)
    return frozenset(approved)
