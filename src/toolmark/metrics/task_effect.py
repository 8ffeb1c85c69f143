"""Task effect: a metric that compares what a run changed with what it should have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from toolmark._internal.text import number_text
from toolmark.calls import ToolCall, ToolEffect, ToolSpec
from toolmark.cases import TestCase
from toolmark.expect.plan import Expectation
from toolmark.metrics.base import (
    CallMetric,
    Measurement,
    call_finding,
    enabled,
    expectation_of,
    read_share,
    read_tools,
)
from toolmark.metrics.call_filter import CallFilter
from toolmark.metrics.comparable_calls import partial_comparison_warnings
from toolmark.metrics.effect_alignment import TaskChanges, changes_of_list, changes_of_plan
from toolmark.metrics.name_patterns import matches, read_patterns
from toolmark.metrics.plan_variants import choice_lines, has_forbidden_calls, plan_warnings


@dataclass(frozen=True, eq=False)
class TaskEffectMetric(CallMetric):
    """Compares what a run changed with what it should have changed; reads cost nothing.

    Calls that failed are left out. Expected and called writes are aligned one to one with the greatest sum w of
    similarities; the similarity of two calls is the share of leaves of their arguments that are equal. With m expected
    and n called writes

        score = 2 w / (m + n) x (1 - read_weight + read_weight x share of the expected reads that were made)

    The first factor is 1 if no write was expected and none was made, and 0 if exactly one of these holds; the second
    factor is 1 if no read was expected. A forbidden call makes the score 0. The result's `parts` hold those numbers
    that apply: `write_f1`, `write_recall` (w / m), `write_precision` (w / n), `read_recall` (by name), `write_order`
    (the share of w in the expected order; it does not affect the score) and `allowed` (0 after a forbidden call).

    The effect of a tool comes from `effects`, then from the `effect` of the metric's `available_tools`, then from those
    of the case. An expected call of unknown effect counts as a write, and so do the calls of its tool; other calls of
    unknown effect are reported and not scored. See docs/metrics.md.

    A `Plan` or `Alternatives` is scored by its best variant, writes and reads together; docs/expectations.md defines m
    and n, and a matcher is one leaf. Rules between a write and a read (`after`, `Parallel`) are not checked, and a
    warning says so. A call that the plan forbids makes the score 0, unless it failed.

    Args:
        effects: `"read"` or `"write"` by name or pattern: `{"get_*": "read", "book": "write"}`. An exact name wins over
            patterns, and of several patterns the first that matches wins.
        available_tools: Tools with their `effect`, in any form that `ToolSpec` reads.
        guess_effects: If nothing else decides, guess from the verb in the tool's name; a warning lists the guesses.
        ignore_failed: Leave out calls that did nothing: `error`, `invalid_arguments`, `unknown_tool`, `rejected`,
            `cancelled`, `not_executed`. A `pending` call counts.
        error_pattern: A regular expression, such as `^Error`. A call has failed, too, if it matches anywhere in its
            answer; answers that are not text are searched as JSON text.
        forbidden: Names or patterns of tools whose calls must not succeed.
        read_weight: The weight of the expected reads, in [0, 1].
        threshold: The lowest score that passes, in [0, 1]. At 0.9 all writes must be right, and no read.
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolmark import LLMTestCase, TaskEffectMetric, ToolCall
        >>> case = LLMTestCase(
        ...     expected_tools=[ToolCall(name="book", input_parameters={"seats": [1, 2]})],
        ...     tools_called=[ToolCall(name="look"), ToolCall(name="book", input_parameters={"seats": [1, 3]})],
        ... )
        >>> TaskEffectMetric(effects={"look": "read", "book": "write"}).measure(case).score
        0.5
    """

    _name: ClassVar[str] = "task_effect"

    effects: Mapping[str, ToolEffect | str] = field(default_factory=dict[str, "ToolEffect | str"])
    available_tools: Sequence[ToolSpec | ToolCall | dict[str, Any]] | None = None
    guess_effects: bool = False
    ignore_failed: bool = True
    error_pattern: str | None = None
    forbidden: Sequence[str] = ()
    read_weight: float = 0.1
    threshold: float = 0.9
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False
    _filter: CallFilter = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the options and normalize them."""
        super().__post_init__()
        read_share(self.read_weight, "read_weight")
        tools = read_tools(self.available_tools)
        call_filter = CallFilter(
            ignore_failed=self.ignore_failed,
            effects=self.effects,
            guess_effects=self.guess_effects,
            error_pattern=self.error_pattern,
            tools=tools,
        )
        self._set(available_tools=tools, forbidden=read_patterns(self.forbidden, "forbidden"), _filter=call_filter)

    @property
    def _options(self) -> Sequence[str]:
        options = {
            "guessed": self.guess_effects,
            "with failed calls": not self.ignore_failed,
            "forbidden": self.forbidden,
            f"read_weight={self.read_weight:g}": self.read_weight != 0.1,  # noqa: PLR2004 - the default
        }
        return enabled(options)

    def _score_calls(self, calls: Sequence[ToolCall], case: TestCase, /) -> Measurement:
        expected = expectation_of(case, type(self).__name__)
        effects = self._filter.tool_effects(case.available_tools)
        if isinstance(expected, list):
            compared = self._filter.by_effect(expected, calls, effects)
            variants = [changes_of_list(compared)]
        else:
            compared, effect_of = self._filter.by_effect_of_plan(expected, calls, effects)
            variants = list(changes_of_plan(expected, compared, effect_of))
        changes = max(variants, key=self._total)
        rules = {index: f", by {text!r}" for index, text in changes.forbidden}
        rules |= {index: "" for index, call in compared.called.items() if matches(call.name, self.forbidden)}
        score = 0.0 if rules else self._total(changes)
        in_order = changes.align_in_order()
        share = changes.ordered_share(in_order)
        parts = changes.parts(share)
        if self.forbidden or _forbids_calls(expected):
            parts["allowed"] = float(not rules)
        return Measurement(
            scores={"total": score},
            sums={"total": "a forbidden call was made = 0" if rules else self._sum(changes, score)},
            steps=[*choice_lines(changes.writes), *changes.steps(share)],
            parts=parts,
            findings=[
                *(call_finding("forbidden", "Forbidden", calls[at], at, rules[at]) for at in sorted(rules)),
                *changes.findings(in_order, [call.name for call in calls]),
                *compared.findings,
            ],
            warnings=[
                *_plan_warnings(expected, changes),
                *changes.warnings,
                *compared.warnings,
                *self._lower_bound(variants, len(compared.findings), score),
                *partial_comparison_warnings(changes.writes),
            ],
            alignment=changes.writes,
        )

    def _total(self, changes: TaskChanges) -> float:
        return 0.0 if changes.forbidden else self._weighted(changes.writes.f1, changes)

    def _weighted(self, write_f1: float, changes: TaskChanges) -> float:
        recall = changes.reads.recall if changes.reads.expected_count else 1.0
        return write_f1 * (1 - self.read_weight * (1 - recall))

    def _sum(self, changes: TaskChanges, score: float) -> str:
        writes = f"F1 of the writes {number_text(changes.writes.f1)}"
        if not changes.reads.expected_count:
            return f"{writes}, no read expected = {number_text(score)}"
        recall = number_text(changes.reads.recall)
        base, weight = number_text(1 - self.read_weight), number_text(self.read_weight)
        return f"{writes} x ({base} + {weight} x {recall} of the reads) = {number_text(score)}"

    def _lower_bound(self, variants: Sequence[TaskChanges], unknown: int, score: float) -> list[str]:
        """Return the warning how low the score would be if the calls of unknown effect were writes."""
        if not unknown or not score:
            return []
        lowest = max(self._weighted(one.f1_with(unknown), one) for one in variants if not one.forbidden)
        return [f"if those calls changed something, the score is {number_text(lowest)}"]


def _plan_warnings(expected: list[ToolCall] | Expectation, changes: TaskChanges) -> list[str]:
    if isinstance(expected, list):
        return []
    gap = changes.writes.gap + changes.reads.gap
    return plan_warnings(expected, replace(changes.writes, gap=gap), arguments=True)


def _forbids_calls(expected: list[ToolCall] | Expectation) -> bool:
    return not isinstance(expected, list) and any(map(has_forbidden_calls, expected.plans))
