"""Task effect: did the calls that change something, and succeeded, change what they should?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolmark._internal.text import number_text
from toolmark.calls import ToolCall, ToolEffect, ToolSpec, read_tool_spec
from toolmark.cases import TestCase
from toolmark.errors import ConfigurationError
from toolmark.expect import Alternatives, Expectation, Forbid, Plan, walk
from toolmark.metrics.base import is_share
from toolmark.metrics.call_filter import Preparation, Prepared, effects_of_plan, unknown_effects, unscored
from toolmark.metrics.call_metric import Found, PlainMetric, expected_of, one
from toolmark.metrics.comparable_calls import compared_in_part
from toolmark.metrics.effect_alignment import Changes, changes_of_list, changes_of_plan
from toolmark.metrics.name_patterns import matches, read_patterns
from toolmark.metrics.plan_variants import notes_of, taken, wants_of
from toolmark.metrics.tool_effects import Split, assumed
from toolmark.result import Finding


@dataclass(frozen=True, eq=False)
class TaskEffectMetric(PlainMetric):
    """Compares what a run changed with what it should have changed; looking things up is free.

    Calls that failed are left out. Expected and called writes are aligned one to one, at the greatest sum w of
    similarities: the share of leaves of the arguments that are equal. With m expected and n made

        score = 2 w / (m + n) x (1 - read_weight + read_weight x share of the expected reads that were made)

    The first factor is 1 if no write was expected and none made, 0 if exactly one of these; the second is 1 if no read
    was expected. A forbidden call makes it 0. The parts stand in the result's `parts`, those that do not apply
    are left out: `write_f1`, `write_recall` (w / m), `write_precision` (w / n), `read_recall` (by name), `write_order`
    (the share of w that is in the expected order; it costs nothing) and `allowed` (0 after a forbidden call).

    What a tool does is said by `effects`, then by the `effect` of the tools in the metric's `available_tools`, then by
    those of the case. A tool of which nobody knows counts as a write where it is expected, and its calls are writes
    then; other calls of such tools are reported and not scored. See docs/metrics.md.

    Of a `Plan` or `Alternatives` the way with the best score counts, its writes and its reads together; m and n are
    those of docs/expectations.md, and a matcher is one leaf. Rules between a write and a read (`after`, `Parallel`) are
    not looked at, which a warning says. A call that the plan forbids makes the score 0, unless it failed.

    Args:
        effects: `"read"` or `"write"` by name or pattern: `{"get_*": "read", "book": "write"}`. An exact name wins over
            patterns, the first pattern that fits over later ones.
        available_tools: Tools with their `effect`, in any form that `ToolSpec` reads.
        guess_effects: Where nothing else decides, guess from the verb in the tool's name; a warning says what.
        ignore_failed: Leave out calls that did nothing: `error`, `invalid_arguments`, `unknown_tool`, `rejected`,
            `cancelled`, `not_executed`. One that waits (`pending`) counts.
        error_pattern: A regular expression; a call whose answer it fits somewhere failed too, such as `^Error`. Answers
            that are no text are searched as JSON text.
        forbidden: Names or patterns of tools of which no call may succeed.
        read_weight: What the expected reads are worth, in [0, 1].
        threshold: A score at or above it passes; in [0, 1]. At 0.9 all writes have to be right, and no read.
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
    _preparation: Preparation = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the options, and bring them into one form."""
        if not is_share(self.read_weight):
            message = f"read_weight must be a number from 0 to 1, got {self.read_weight!r}"
            raise ConfigurationError(message)
        self._set_threshold()
        set_field = object.__setattr__  # the dataclass is frozen from here on
        if self.available_tools is not None:
            set_field(self, "available_tools", tuple(read_tool_spec(tool) for tool in self.available_tools))
        set_field(self, "forbidden", read_patterns(self.forbidden, "forbidden"))
        preparation = Preparation.read(
            only=None,
            ignore_failed=self.ignore_failed,
            effects=self.effects,
            guess_effects=self.guess_effects,
            error_pattern=self.error_pattern,
            tools=tuple(map(read_tool_spec, self.available_tools or ())),
        )
        set_field(self, "_preparation", preparation)

    @property
    def _name(self) -> str:
        return "task_effect"

    @property
    def _told(self) -> Sequence[str]:
        told = ["guessed"] if self.guess_effects else []
        told += [] if self.ignore_failed else ["with failed calls"]
        told += ["forbidden"] if self.forbidden else []
        return [*told, f"read_weight={self.read_weight:g}"] if self.read_weight != 0.1 else told  # noqa: PLR2004 - default

    def _found(self, calls: Sequence[ToolCall], case: TestCase) -> Found:
        expected = expected_of(case, type(self).__name__)
        effects = self._preparation.of_case(case.available_tools)
        wants = [] if isinstance(expected, list) else wants_of(expected)
        effect, fitting = effects_of_plan(wants, calls, effects)
        named = expected if isinstance(expected, list) else fitting
        done = self._preparation.done(Prepared.all(named, calls))
        split = Split.of(named, done.called, effects)
        if isinstance(expected, list):
            ways = [changes_of_list(done, split)]
            changes = ways[0]
            notes: list[str] = []
        else:
            ways = list(changes_of_plan(expected, done, split, effect))
            changes = max(ways, key=self._total)
            gap = changes.writes.gap + changes.reads.gap
            notes = [*notes_of(expected, replace(changes.writes, gap=gap), arguments=True), *changes.notes]
        unknown = [done.called_at[index] for index, found in enumerate(split.called) if found is None]
        hits = {at: f", by {text!r}" for at, text in changes.forbidden}
        hits |= {at: "" for at in done.called_at if matches(calls[at].name, self.forbidden)}
        score = 0.0 if hits else self._total(changes)
        compared = changes.ordered()
        names = [call.name for call in calls]
        return Found(
            scores={"total": score},
            sums={"total": "a forbidden call was made = 0" if hits else self._sum(changes, score)},
            steps=[*taken(changes.writes), *compared.steps()],
            parts=compared.parts() | ({"allowed": float(not hits)} if self.forbidden or _forbids(expected) else {}),
            findings=[
                *(_of_forbidden(calls[at], at, hits[at]) for at in sorted(hits)),
                *compared.findings(names),
                *unknown_effects(calls, unknown),
            ],
            warnings=[
                *notes,
                *done.warnings,
                *effects.guessed(call.name for call in (*named, *calls)),
                *assumed(named, effects),
                *unscored(calls, unknown),
                *self._bound(ways, len(unknown), score),
                *compared_in_part(changes.writes),
            ],
            alignment=changes.writes,
        )

    def _total(self, changes: Changes) -> float:
        if changes.forbidden:
            return 0.0
        return self._weighted(changes.writes.f1, changes)

    def _weighted(self, write_f1: float, changes: Changes) -> float:
        recall = changes.reads.recall if changes.reads.expected_count else 1.0
        return write_f1 * (1 - self.read_weight * (1 - recall))

    def _sum(self, changes: Changes, score: float) -> str:
        writes = f"F1 of the writes {number_text(changes.writes.f1)}"
        if not changes.reads.expected_count:
            return f"{writes}, no read expected = {number_text(score)}"
        recall = number_text(changes.reads.recall)
        base, weight = number_text(1 - self.read_weight), number_text(self.read_weight)
        return f"{writes} x ({base} + {weight} x {recall} of the reads) = {number_text(score)}"

    def _bound(self, ways: Sequence[Changes], unknown: int, score: float) -> list[str]:
        """Return the warning how low the score would be if the calls of unknown effect had changed something."""
        if not unknown or not score:
            return []
        lowest = max(self._weighted(way.f1_with(unknown), way) for way in ways if not way.forbidden)
        return [f"if those calls changed something, the score is {number_text(lowest)}"]


def _forbids(expected: Sequence[ToolCall] | Expectation) -> bool:
    """Return whether an expectation forbids calls."""
    plans = expected.plans if isinstance(expected, (Plan, Alternatives)) else ()
    return any(isinstance(item, Forbid) for plan in plans for item in walk(plan.calls))


def _of_forbidden(call: ToolCall, index: int, rule: str) -> Finding:
    return Finding("forbidden", f"Forbidden: {one(call, index)}{rule}.", call.name, called=index)
