"""Task effect: a metric that compares what a run changed with what it should have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, get_args

from toolgrade._internal.options import require_one_of
from toolgrade._internal.text import number_text
from toolgrade.calls import ToolCall, ToolEffect, ToolSpec
from toolgrade.cases import TestCase
from toolgrade.metrics.base import (
    CallMetric,
    Measurement,
    enabled,
    expectation_of,
    read_share,
    read_tools,
)
from toolgrade.metrics.call_filter import CallFilter
from toolgrade.metrics.comparable_calls import Compare, partial_comparison_warnings
from toolgrade.metrics.effect_alignment import TaskChanges
from toolgrade.metrics.name_patterns import read_patterns
from toolgrade.metrics.plan_variants import choice_lines
from toolgrade.metrics.task_changes import CaseChanges


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
            answer; answers that are not text are searched as JSON text. `"default"` is `toolgrade.metrics.ERROR_TEXTS`,
            which matches answers that begin as usual error texts do.
        forbidden: Names or patterns of tools whose calls must not succeed.
        read_weight: The weight of the expected reads, in [0, 1].
        compare: `"exact"`, or `"meaning"` to compare every expected argument without a matcher as
            `toolgrade.expect.SameMeaning`; findings list what counted as equal.
        threshold: The lowest score that passes, in [0, 1]. At 0.9 all writes must be right, and no read.
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, TaskEffectMetric, ToolCall
        >>> case = LLMTestCase(
        ...     expected_tools=[ToolCall(name="book_flight", input_parameters={"to": "Paris", "seats": 2})],
        ...     tools_called=[
        ...         ToolCall(name="get_weather"),
        ...         ToolCall(name="book_flight", input_parameters={"to": "Paris", "seats": 1}),
        ...     ],
        ... )
        >>> TaskEffectMetric(effects={"get_weather": "read", "book_flight": "write"}).measure(case).score
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
    compare: Compare = "exact"
    threshold: float = 0.9
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False
    _filter: CallFilter = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the options and normalize them."""
        super().__post_init__()
        read_share(self.read_weight, "read_weight")
        require_one_of("compare", self.compare, get_args(Compare))
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
            "by meaning": self.compare == "meaning",
            f"read_weight={self.read_weight:g}": self.read_weight != 0.1,  # noqa: PLR2004 - the default
        }
        return enabled(options)

    def _score_calls(self, calls: Sequence[ToolCall], case: TestCase, /) -> Measurement:
        expected = expectation_of(case, type(self).__name__)
        case_changes = CaseChanges.of(case, expected, calls, self._filter, by_meaning=self.compare == "meaning")
        changes = max(case_changes.variants, key=self._total)
        rules = case_changes.broken_rules(changes, self.forbidden)
        score = 0.0 if rules else self._total(changes)
        in_order = changes.align_in_order()
        share = changes.ordered_share(in_order)
        parts = changes.parts(share)
        if case_changes.forbids(self.forbidden):
            parts["allowed"] = float(not rules)
        return Measurement(
            scores={"total": score},
            sums={"total": "a forbidden call was made = 0" if rules else self._sum(changes, score)},
            steps=[*choice_lines(changes.writes), *changes.steps(share)],
            parts=parts,
            findings=case_changes.findings(changes, in_order, rules),
            warnings=[
                *case_changes.plan_warnings(changes),
                *case_changes.compared.warnings,
                *case_changes.lower_bound_warnings(self._total, score),
                *partial_comparison_warnings(changes.writes),
            ],
            alignment=changes.writes,
        )

    def _total(self, changes: TaskChanges) -> float:
        if changes.forbidden:
            return 0.0
        recall = changes.reads.recall if changes.reads.expected_count else 1.0
        return changes.writes.f1 * (1 - self.read_weight * (1 - recall))

    def _sum(self, changes: TaskChanges, score: float) -> str:
        writes = f"F1 of the writes {number_text(changes.writes.f1)}"
        if not changes.reads.expected_count:
            return f"{writes}, no read expected = {number_text(score)}"
        recall = number_text(changes.reads.recall)
        base, weight = number_text(1 - self.read_weight), number_text(self.read_weight)
        return f"{writes} x ({base} + {weight} x {recall} of the reads) = {number_text(score)}"
