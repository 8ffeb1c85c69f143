"""Tool policy: a metric that checks the calls against rules for tools, approvals, order and arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, TypeAlias

from toolgrade._internal.json import json_items, json_path, short_repr, to_json_value
from toolgrade._internal.options import require
from toolgrade._internal.text import printable, short_json
from toolgrade._internal.tool_names import first_match, matches, read_patterns
from toolgrade.calls import CallStatus, ToolCall, in_same_step
from toolgrade.cases import TestCase
from toolgrade.errors import ConfigurationError, InvalidDataError
from toolgrade.failed_calls import has_succeeded
from toolgrade.matching.json_compare import has_mark, json_equal
from toolgrade.metrics.base import NO_CALLS, CallMetric, Details, Measurement, refuse_unknown, share_of_calls
from toolgrade.metrics.called_tools import call_finding, case_label, omission_warnings, status_of
from toolgrade.result import Finding, redact_at_path

APPROVED = "approved_calls"
"""The key of a case's `metadata`, or of its run's, that lists the approved calls."""


Path: TypeAlias = "str | tuple[str | int, ...]"
"""A place in the arguments: keys joined by dots, or a tuple of them; `*` is every item."""


@dataclass(frozen=True, eq=False)
class ToolPolicyMetric(CallMetric):
    """Checks the calls against rules. A failed call that breaks a rule counts as well.

    The score is 1 - violating calls / checked calls; at the default threshold any violation fails. A case without calls
    scores 1: there is nothing to check. Tools are exact names or patterns (`*`, `?`, `[...]` as in a shell; case
    counts). See docs/metrics.md.

    Args:
        allowed: The tools that may be called; `None` for all.
        denied: Tools that may not be called, even if allowed.
        needs_approval: Tools that may not run without approval. Calls that are pending, were rejected or never ran do
            not break this rule. A recording does not show whether a person approved a call that ran, so the `metadata`
            of the case or of its run must list the approved calls under `approved_calls`, by id or by position from 0.
            A call that ran and is not listed is a violation; a call without an `execution` counts as one that ran.
        required_before: For each tool, the tools that must succeed before it: `{"change_*": ["look_up"]}` requires a
            successful call of `look_up` before each call of a `change_*` tool. All listed tools are required. A call in
            the same step is not earlier; a call without an `execution` counts as successful.
        argument_rules: For each tool and each place in its arguments, the values that are allowed or denied:
            `{"pay": {"currency": {"allowed": ["EUR"]}, "to.*.country": {"denied": ["X?"]}}}`. A place is keys joined by
            dots (`*` is every item of a list or object, a number is an item of a list), or a tuple of keys. A place
            that a call does not have breaks no rule. Values are compared as JSON values; texts may be patterns.
            Where such an argument was not recorded or is redacted, the case cannot be measured, unless other calls
            fail it.
        threshold: The lowest score that passes, in [0, 1].
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range, or no rule is set.

    Example:
        >>> from toolgrade import LLMTestCase, ToolCall, ToolPolicyMetric
        >>> case = LLMTestCase(tools_called=[ToolCall(name="book_flight"), ToolCall(name="get_weather")])
        >>> ToolPolicyMetric(required_before={"book_flight": ["get_weather"]}).measure(case).score
        0.5
    """

    _name: ClassVar[str] = "tool_policy"

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
        super().__post_init__()
        if not isinstance(self.required_before, Mapping):
            expected = "required_before must map tools to those required before them"
            raise ConfigurationError(f"{expected}, got {self.required_before!r:.60}")
        read_patterns(self.required_before, "required_before")  # the keys are patterns too
        self._set(
            allowed=None if self.allowed is None else read_patterns(self.allowed, "allowed"),
            denied=read_patterns(self.denied, "denied"),
            needs_approval=read_patterns(self.needs_approval, "needs_approval"),
            required_before={
                tool: read_patterns(patterns, f"required_before[{tool!r}]")
                for tool, patterns in self.required_before.items()
            },
            _rules=read_argument_rules(self.argument_rules),
        )
        if not self._options:
            names = "allowed, denied, needs_approval, required_before, argument_rules"
            raise ConfigurationError(f"{type(self).__name__} must have at least one rule; set one of {names}")

    @property
    def _options(self) -> Sequence[str]:
        names = ("denied", "needs_approval", "required_before", "argument_rules")
        allowed = [] if self.allowed is None else ["allowed"]  # an empty list allows no tool
        return [*allowed, *(name for name in names if getattr(self, name))]

    def _score_calls(self, calls: Sequence[ToolCall], case: TestCase, /) -> Measurement:
        approved = _approved_calls(case) if self.needs_approval else frozenset()
        patterns = chain.from_iterable(self.required_before.values())
        first_success = {pattern: _first_success(calls, pattern) for pattern in patterns}
        findings: list[Finding] = []
        undecided: set[int] = set()
        for index, call in enumerate(calls):
            findings += self._name_findings(index, call)
            findings += self._approval_findings(index, call, approved)
            findings += self._order_findings(index, calls, first_success)
            findings += self._argument_findings(index, call, undecided)
        violating = {finding.called for finding in findings}
        undecided -= violating
        reason = "the arguments in argument_rules were not recorded or are redacted"
        refuse_unknown(self, case, len(undecided), len(violating) / max(len(calls), 1), reason)
        checked = len(calls) - len(undecided)
        warnings = omission_warnings(len(undecided), reason)
        good = checked - len(violating)
        if not calls:
            nothing = Details(arithmetic={"allowed": f"{NO_CALLS}, nothing to check = 1"})
            return Measurement({"allowed": 1.0}, nothing)
        return share_of_calls(calls, "allowed", good, checked, "checked call", findings=findings, warnings=warnings)

    def _name_findings(self, index: int, call: ToolCall) -> Iterator[Finding]:
        denied_by = first_match(call.name, self.denied)
        if denied_by is not None:
            yield call_finding("forbidden", "Forbidden", call, index, f", denied by {printable(denied_by)!r}")
        elif self.allowed is not None and not matches(call.name, self.allowed):
            yield call_finding("forbidden", "Forbidden", call, index, " is not allowed")

    def _approval_findings(self, index: int, call: ToolCall, approved: Collection[str | int]) -> Iterator[Finding]:
        is_approved = call.id in approved or index in approved
        if matches(call.name, self.needs_approval) and _ran(call) and not is_approved:
            detail = f" ran, and metadata[{APPROVED!r}] does not list it"
            yield call_finding("not_approved", "Not approved", call, index, detail)

    def _order_findings(
        self, index: int, calls: Sequence[ToolCall], first_success: Mapping[str, int]
    ) -> Iterator[Finding]:
        call = calls[index]
        required: dict[str, None] = {}  # a set in the order of the rules
        for tool, patterns in self.required_before.items():
            if matches(call.name, [tool]):
                required.update(dict.fromkeys(patterns))
        for pattern in required:
            first = first_success[pattern]
            # The model could not know of a success in the step in which it also asked for this call.
            if first >= index or in_same_step(calls[first], call):
                detail = f", before a call of {printable(pattern)!r} had succeeded"
                yield call_finding("too_early", "Too early", call, index, detail)

    def _argument_findings(self, index: int, call: ToolCall, undecided: set[int]) -> Iterator[Finding]:
        """Yield the broken rules for arguments; add the call to `undecided` if one of them is not known."""
        for rule in self._rules:
            broken, is_hidden = rule.check(call, index)
            if is_hidden:
                undecided.add(index)
            yield from broken


def _first_success(calls: Sequence[ToolCall], pattern: str) -> int:
    """Return the position of the first success of a required tool; the number of calls if there is none."""
    successes = (index for index, call in enumerate(calls) if matches(call.name, [pattern]) and has_succeeded(call))
    return next(successes, len(calls))


def _ran(call: ToolCall) -> bool:
    """Return whether a call ran; a call without an `execution` counts as one that ran."""
    status = status_of(call)
    # A result shows that the tool ran, even if the recording does not have its execution.
    if call.execution is None or status in {CallStatus.OK, CallStatus.ERROR}:
        return True
    return call.execution.executed and status not in {CallStatus.PENDING, CallStatus.REJECTED}


def _approved_calls(case: TestCase) -> frozenset[str | int]:
    """Return the ids and positions of the approved calls, from the metadata of the case and of its run.

    Raises:
        InvalidDataError: An entry is not a list of ids or positions.
    """
    approved: set[str | int] = set()
    for metadata in (case.metadata, case.run.metadata if case.run else {}):
        entries: Any = metadata.get(APPROVED, [])
        if not isinstance(entries, list) or not {*map(type, entries)} <= {str, int}:
            where = f"metadata[{APPROVED!r}]{case_label(case)}"
            raise InvalidDataError(f"{where} must be a list of ids or positions of calls, got {entries!r:.60}")
        approved.update(entries)
    return frozenset(approved)


_KINDS = frozenset({"allowed", "denied"})


@dataclass(frozen=True, slots=True)
class ArgumentRule:
    """One rule for one place in the arguments of the tools that match a name or pattern."""

    tool: str
    keys: tuple[str | int, ...]
    allowed: tuple[Any, ...] | None
    """The values that may be there; `None` for any value."""
    denied: tuple[Any, ...]

    def check(self, call: ToolCall, index: int) -> tuple[list[Finding], bool]:
        """Return findings for the broken places, and whether a value was not recorded or is redacted."""
        if not matches(call.name, [self.tool]):
            return [], False
        if not call.captured("input_parameters"):
            return [], True
        values = list(_values_at(call.arguments, self.keys))
        findings = [self._finding(call, index, path, value) for path, value in values if self._problem(value)]
        return findings, any(has_mark(value) for _, value in values)

    def _problem(self, value: Any) -> str:  # noqa: ANN401 - a JSON value
        """Return how a value breaks the rule; empty if it does not, or if it is redacted."""
        if has_mark(value):
            return ""
        if _is_one_of(value, self.denied):
            return "denied"
        return "" if self.allowed is None or _is_one_of(value, self.allowed) else "not allowed"

    def _finding(self, call: ToolCall, index: int, place: tuple[str | int, ...], value: object) -> Finding:
        path = json_path(("input_parameters", *place))
        text = f"{printable(path)} is {short_json(redact_at_path(value, path))}, which is {self._problem(value)}"
        detail = f", {text}, by the rule for {printable(self.tool)!r}"
        value = to_json_value(value)  # a copy: the case may change
        return call_finding(
            "forbidden_argument", "Forbidden argument", call, index, detail, path=path, called_value=value
        )


def _is_one_of(value: Any, options: Sequence[Any]) -> bool:  # noqa: ANN401 - JSON values
    """Return whether a value equals an option; texts may also match an option as a pattern."""
    if isinstance(value, str):
        return matches(value, [option for option in options if isinstance(option, str)])
    return any(json_equal(value, option) for option in options)


def _values_at(
    value: Any,  # noqa: ANN401 - a JSON value
    keys: Sequence[str | int],
    path: tuple[str | int, ...] = (),
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield every place that the keys lead to, with its value; a redacted text on the way hides what is inside it."""
    if not keys or (isinstance(value, str) and has_mark(value)):
        yield path, value
        return
    key, *rest = keys
    for step, item in json_items(value):
        if str(key) in ("*", str(step)):
            yield from _values_at(item, rest, (*path, step))


def read_argument_rules(option: object) -> tuple[ArgumentRule, ...]:
    """Return the rules of an option.

    Raises:
        ConfigurationError: The option does not map tools to places to allowed or denied values.
    """
    rules: list[ArgumentRule] = []
    for tool, places in _mapping(option, "argument_rules").items():
        read_patterns([tool], "argument_rules")
        for path, rule in _mapping(places, f"argument_rules[{tool!r}]").items():
            where = f"argument_rules[{tool!r}][{path!r}]"
            values = _read_values(rule, where)
            rules.append(ArgumentRule(tool, _read_keys(path, where), values.get("allowed"), values.get("denied", ())))
    return tuple(rules)


def _read_values(rule: object, where: str) -> dict[str, tuple[Any, ...]]:
    values = _mapping(rule, where)
    are_lists = all(isinstance(each, (list, tuple)) for each in values.values())
    is_valid = values and _KINDS.issuperset(values) and are_lists
    require(is_valid, f"{where} must contain 'allowed' or 'denied' with a list of values", rule)
    return {kind: tuple(map(to_json_value, each)) for kind, each in values.items()}


def _mapping(value: object, where: str) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    expected = "must be a mapping, as in {'tool': {'place': {'denied': [...]}}}"
    raise ConfigurationError(f"{where} {expected}, got {short_repr(value)}")


def _read_keys(path: object, where: str) -> tuple[str | int, ...]:
    keys = tuple(path.split(".")) if isinstance(path, str) else path
    if not isinstance(keys, tuple) or not keys or not all(isinstance(key, (str, int)) and key != "" for key in keys):
        raise ConfigurationError(f"{where}: a place must be keys joined by dots, or a tuple of keys, got {path!r}")
    return keys
