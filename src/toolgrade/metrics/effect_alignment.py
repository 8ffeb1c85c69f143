"""Alignments of what a run changed with what it should have changed, for the success of a task.

Writes are aligned in any order, with the leaves of their arguments; reads are aligned by name alone. A list of expected
calls gives one result. A plan gives one for each of its variants, so that no result mixes the writes of one variant
with the reads of another; the caller takes the one with the best score.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod

from toolgrade._internal.text import printable
from toolgrade.calls import ToolCall, ToolEffect, ToolSpec
from toolgrade.cases import TestCase
from toolgrade.errors import ConfigurationError
from toolgrade.expect.plan import MOST_WAYS, Expectation
from toolgrade.matching.alignment import Alignment, CallPattern, Pair
from toolgrade.matching.engine import Layout, LayoutEntry, align_list, forbidden_calls, places_of
from toolgrade.metrics.argument_leaves import by_leaves
from toolgrade.metrics.call_filter import CallFilter, ComparedCalls, EffectOf
from toolgrade.metrics.called_tools import Undone, called_item, expected_item, scored_turns
from toolgrade.metrics.plan_variants import Aligner, layout_by_meaning, variants_of
from toolgrade.metrics.tool_effects import list_names
from toolgrade.metrics.wording import alignment_findings, missing_findings
from toolgrade.result import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChanges:
    """Alignments of writes and of reads, in the positions of the case or of the places of a plan."""

    writes: Alignment
    reads: Alignment
    align_in_order: Callable[[], Alignment]
    """Aligns the writes again, in the expected order; called only for the result that is taken."""
    names: Sequence[str]
    """The expected names by position."""
    expected_turns: Sequence[int | None]
    """The turns of the user in which they must be called."""
    forbidden: Sequence[tuple[int, str]] = ()
    """Called positions that a plan forbids, with its words for the forbidden call."""
    warnings: Sequence[str] = ()

    @property
    def has_writes(self) -> bool:
        """Whether a write was expected or made."""
        return bool(self.writes.expected_count or self.writes.called_count)

    @property
    def right_tools(self) -> Alignment:
        """The alignment of the writes in which each pair counts fully, whatever its arguments."""
        pairs = [pair for pair in self.writes.pairs if all(one.kind != "wrong_type" for one in pair.differences)]
        return replace(self.writes, matched=Fraction(len(pairs)))

    def with_unexpected(self, number: int) -> TaskChanges:
        """Return these changes as if this many further calls had been unexpected writes."""
        return replace(self, writes=replace(self.writes, called_count=self.writes.called_count + number))

    def ordered_share(self, in_order: Alignment) -> Fraction | None:
        """Return the share of the matched weight in the expected order; `None` for fewer than two matched writes."""
        if len(self.writes.pairs) < 2 or not self.writes.matched:  # noqa: PLR2004 - one call has no order
            return None
        # The alignment in order may leave calls out, so it can break fewer rules of a plan than the free one and weigh
        # more.
        return min(in_order.matched / self.writes.matched, Fraction(1))

    def findings(self, out_of_order: Sequence[Pair], called: Sequence[str], undone: Sequence[Undone]) -> list[Finding]:
        """Return findings about the writes, those that the alignment in order left out of it, and missing reads.

        `called` are the names of the called tools, `undone` what became of those that did nothing.
        """
        findings = [*alignment_findings(self.writes, self.names, called, undone)]
        broken_rules = {pair.expected for pair in self.writes.out_of_order}
        # A pair that breaks a rule of a plan costs score, and already has a finding.
        misplaced = [pair for pair in out_of_order if pair.breaks is None]
        findings += [self._order_finding(pair) for pair in misplaced if pair.expected not in broken_rules]
        findings += missing_findings(self.reads.missing, self.names, undone, "Missing read")
        return [*findings, *alignment_findings(replace(self.reads, missing=(), unexpected=()), self.names, called)]

    def _order_finding(self, pair: Pair) -> Finding:
        name = self.names[pair.expected]
        where = f"expected #{pair.expected + 1} {printable(name)!r} was called as #{pair.called + 1}"
        return Finding("out_of_order", f"Out of order: {where}; it costs nothing.", name, pair.expected, pair.called)


def changes_of_list(calls: ComparedCalls, *, by_meaning: bool = False, tools: Sequence[ToolSpec] = ()) -> TaskChanges:
    """Return the alignments with a list of expected calls; `tools` say which arguments may be left out."""
    writes, reads = calls.with_effect(ToolEffect.WRITE), calls.with_effect(ToolEffect.READ)
    _, called = writes.items()
    entries = [LayoutEntry((CallPattern(expected_item(call)),), call.name) for call in writes.expected.values()]
    layout = Layout(tuple(entries))
    leaves = by_leaves(layout_by_meaning(layout, tools) if by_meaning else layout, called)
    expected = [entry.patterns[0].item for entry in leaves.entries]

    def align_writes(*, ordered: bool) -> Alignment:
        return writes.in_case(align_list(expected, called, ordered=ordered, arguments=True))

    return TaskChanges(
        writes=align_writes(ordered=False),
        reads=reads.in_case(align_list(*reads.items())),
        align_in_order=lambda: align_writes(ordered=True),
        names=tuple([call.name for call in calls.expected.values()]),
        expected_turns=tuple([call.turn for call in calls.expected.values()]),
    )


def changes_of_plan(
    expected: Expectation,
    calls: ComparedCalls,
    effect_of: EffectOf,
    *,
    by_meaning: bool = False,
    tools: Sequence[ToolSpec] = (),
) -> Iterator[TaskChanges]:
    """Yield the alignments with each variant of a plan, in written order; `tools` as for `changes_of_list`.

    Raises:
        ConfigurationError: Too many places of the plan leave the choice between a write and a read.
    """
    sides = {effect: _CalledSide(calls.with_effect(effect), effect) for effect in ToolEffect}
    places, items = list(calls.called), list(map(called_item, calls.called.values()))
    for variant in _variants_by_effect(expected, effect_of):
        forbidden = tuple((places[index], text) for index, text in forbidden_calls(variant, items))
        compared = layout_by_meaning(variant, tools) if by_meaning else variant
        yield _changes_of_variant(compared, effect_of, sides, forbidden)


class _CalledSide:
    """The called tools of one effect, ready to be aligned with variants of a plan."""

    def __init__(self, calls: ComparedCalls, effect: ToolEffect) -> None:
        self.effect = effect
        self.places = list(calls.called)
        self.aligner = Aligner(calls.called.values(), arguments=effect is ToolEffect.WRITE)

    def part_of(self, variant: Layout, effect_of: EffectOf) -> Layout:
        """Return the entries of a variant that have this effect; arguments of writes are compared leaf by leaf."""
        entries = tuple(entry for entry in variant.entries if effect_of(entry.patterns[0]) is self.effect)
        part = replace(variant, entries=entries, forbidden=())
        return by_leaves(part, self.aligner.items) if self.effect is ToolEffect.WRITE else part


def _changes_of_variant(
    variant: Layout,
    effect_of: EffectOf,
    sides: Mapping[ToolEffect, _CalledSide],
    forbidden: tuple[tuple[int, str], ...],
) -> TaskChanges:
    parts = {effect: side.part_of(variant, effect_of) for effect, side in sides.items()}
    sizes = {effect: iter(places_of(parts[effect], side.aligner.items)) for effect, side in sides.items()}
    # An entry takes several positions if it may be called several times; positions count over writes and reads.
    positions: dict[ToolEffect, list[int]] = {effect: [] for effect in sides}
    names: list[str] = []
    turns: list[int | None] = []
    for entry in variant.entries:
        effect = effect_of(entry.patterns[0])
        size = next(sizes[effect])
        positions[effect] += range(len(names), len(names) + size)
        names += [entry.text] * size
        turns += [entry.patterns[0].item.turn] * size

    def align_side(effect: ToolEffect, *, ordered: bool = False) -> Alignment:
        alignment = sides[effect].aligner.align(parts[effect], ordered=ordered)
        return replace(alignment.placed(positions[effect], sides[effect].places), labels=tuple(names))

    return TaskChanges(
        writes=align_side(ToolEffect.WRITE),
        reads=align_side(ToolEffect.READ),
        align_in_order=lambda: align_side(ToolEffect.WRITE, ordered=True),
        names=names,
        expected_turns=turns,
        forbidden=forbidden,
        warnings=_ignored_rule_warnings(variant, effect_of),
    )


def _variants_by_effect(expected: Expectation, effect_of: EffectOf) -> Iterator[Layout]:
    """Yield every variant of a plan; an entry that accepts writes and reads gives one variant for each effect."""
    most = MOST_WAYS * len(expected.plans)
    amount = 0
    for variant in variants_of(expected):
        options = [_entries_by_effect(entry, effect_of) for entry in variant.entries]
        amount += prod(map(len, options))
        if amount > most:
            message = (
                f"the alternatives of expected_tools have {amount} combinations or more, since a OneOf of writes and "
                f"reads is a choice here; the limit is {most}: split the plan into several cases"
            )
            raise ConfigurationError(message)
        for chosen in product(*options):
            entries, choices = zip(*chosen, strict=True) if chosen else ((), ())
            yield replace(variant, entries=entries, choices=(*variant.choices, *filter(None, choices)))


def _entries_by_effect(entry: LayoutEntry, effect_of: EffectOf) -> list[tuple[LayoutEntry, str]]:
    """Return an entry for each effect of its calls; with several effects, the choice in words."""
    by_effect: dict[ToolEffect, list[CallPattern]] = defaultdict(list)
    for pattern in entry.patterns:
        by_effect[effect_of(pattern)].append(pattern)
    if len(by_effect) == 1:
        return [(entry, "")]
    entries: list[tuple[LayoutEntry, str]] = []
    for patterns in by_effect.values():
        text = " or ".join(pattern.item.name for pattern in patterns)
        entries.append((entry._replace(patterns=tuple(patterns), text=text), f"{text!r} of {entry.text!r}"))
    return entries


def _ignored_rule_warnings(variant: Layout, effect_of: EffectOf) -> list[str]:
    """Return the warning that rules between a write and a read are not checked; empty without such rules."""
    entries = [(entry, effect_of(entry.patterns[0])) for entry in variant.entries]
    rules = [*_mixed_order_rules(entries), *_mixed_step_rules(entries)]
    return [f"not checked, since writes and reads are compared separately: {list_names(rules)}"] if rules else []


def _mixed_order_rules(entries: Sequence[tuple[LayoutEntry, ToolEffect]]) -> Iterator[str]:
    """Yield the rules by which an entry comes after one of another effect."""
    effects: dict[str, set[ToolEffect]] = defaultdict(set)  # of the entries of each label
    for entry, effect in entries:
        for label in entry.labels:
            effects[label].add(effect)
    for entry, effect in entries:
        yield from (f"{entry.text} after {label}" for label in sorted(entry.after) if effects[label] - {effect})


def _mixed_step_rules(entries: Sequence[tuple[LayoutEntry, ToolEffect]]) -> Iterator[str]:
    """Yield the rules by which entries of several effects are in one step."""
    groups: dict[int | None, dict[str, ToolEffect]] = defaultdict(dict)
    for entry, effect in entries:
        groups[entry.group][entry.text] = effect
    groups.pop(None, None)
    yield from (f"{', '.join(group)} in one step" for group in groups.values() if len(set(group.values())) > 1)


def changes_of_case(
    case: TestCase,
    expected: list[ToolCall] | Expectation,
    calls: Sequence[ToolCall],
    call_filter: CallFilter,
    *,
    by_meaning: bool,
) -> tuple[ComparedCalls, list[TaskChanges]]:
    """Return the calls of a case that did something, and their alignments with each variant of the expectation."""
    effects = call_filter.tool_effects(case.available_tools)
    tools = call_filter.all_tools(case.available_tools)
    turns = scored_turns(case)
    if isinstance(expected, list):
        compared = call_filter.by_effect(expected, calls, effects).in_turns(turns)
        return compared, [changes_of_list(compared, by_meaning=by_meaning, tools=tools)]
    compared, effect_of = call_filter.by_effect_of_plan(expected, calls, effects)
    compared = compared.in_turns(turns)
    return compared, list(changes_of_plan(expected, compared, effect_of, by_meaning=by_meaning, tools=tools))
