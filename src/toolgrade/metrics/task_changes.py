"""What a run changed and should have changed, by each variant of the expectation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from toolgrade._internal.text import number_text
from toolgrade.calls import ToolCall
from toolgrade.cases import TestCase
from toolgrade.expect.plan import Expectation
from toolgrade.metrics.call_filter import CallFilter, ComparedCalls
from toolgrade.metrics.called_tools import call_finding
from toolgrade.metrics.effect_alignment import TaskChanges, changes_of_list, changes_of_plan
from toolgrade.metrics.name_patterns import matches
from toolgrade.metrics.plan_variants import has_forbidden_calls, plan_warnings
from toolgrade.result import Finding


@dataclass(frozen=True, slots=True)
class CaseChanges:
    """The changes of one case, by each variant of its expectation; a list of calls has only one.

    Attributes:
        expected: The expected calls.
        calls: All called tools.
        compared: Those that did something, with their effects.
        variants: The alignments with each variant, in written order.
    """

    expected: list[ToolCall] | Expectation
    calls: Sequence[ToolCall]
    compared: ComparedCalls
    variants: Sequence[TaskChanges]

    @classmethod
    def of(
        cls,
        case: TestCase,
        expected: list[ToolCall] | Expectation,
        calls: Sequence[ToolCall],
        call_filter: CallFilter,
        *,
        by_meaning: bool,
    ) -> CaseChanges:
        """Align the calls of a case."""
        effects = call_filter.tool_effects(case.available_tools)
        if isinstance(expected, list):
            compared = call_filter.by_effect(expected, calls, effects)
            return cls(expected, calls, compared, [changes_of_list(compared, by_meaning=by_meaning)])
        compared, effect_of = call_filter.by_effect_of_plan(expected, calls, effects)
        variants = list(changes_of_plan(expected, compared, effect_of, by_meaning=by_meaning))
        return cls(expected, calls, compared, variants)

    def forbids(self, patterns: Sequence[str]) -> bool:
        """Return whether a metric with these patterns of forbidden tools, or the plan, forbids calls."""
        plans = () if isinstance(self.expected, list) else self.expected.plans
        return bool(patterns) or any(map(has_forbidden_calls, plans))

    def broken_rules(self, changes: TaskChanges, patterns: Sequence[str]) -> dict[int, str]:
        """Return the positions of forbidden calls that were made, with the rule in words if it is one of the plan."""
        rules = {index: f", by {text!r}" for index, text in changes.forbidden}
        return rules | {index: "" for index, call in self.compared.called.items() if matches(call.name, patterns)}

    def rule_findings(self, rules: Mapping[int, str]) -> list[Finding]:
        """Return the findings about forbidden calls, by their positions and the rules."""
        return [call_finding("forbidden", "Forbidden", self.calls[at], at, rules[at]) for at in sorted(rules)]

    def lower_bound_warnings(self, total: Callable[[TaskChanges], float], score: float) -> list[str]:
        """Return the warning how low the score would be if the calls of unknown effect were writes."""
        unknown = len(self.compared.findings)
        if not unknown or not score:
            return []
        lowest = max(total(variant.with_unexpected(unknown)) for variant in self.variants)
        return [f"if those calls changed something, the score is {number_text(lowest)}"]

    def plan_warnings(self, changes: TaskChanges) -> list[str]:
        """Return the warnings about the chosen variant of a plan; empty for a list."""
        if isinstance(self.expected, list):
            return []
        gap = changes.writes.gap + changes.reads.gap
        warnings = plan_warnings(self.expected, replace(changes.writes, gap=gap), arguments=True)
        return [*warnings, *changes.warnings]
