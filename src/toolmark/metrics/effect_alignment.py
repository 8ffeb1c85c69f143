"""What a run changed, beside what it should have: the alignments off which the effect of a task is read.

The writes are aligned whatever their order, with the leaves of their arguments, the reads by name alone. A list of
expected calls gives one answer. A plan gives one for each way in which it can be followed, so that no answer has the
writes of one way and the reads of another; whoever knows the score takes the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod

from toolmark._internal.text import number_text, printable
from toolmark.calls import ToolEffect
from toolmark.errors import ConfigurationError
from toolmark.expect import Expectation
from toolmark.expect.plan import MOST_WAYS
from toolmark.matching.align_calls import align
from toolmark.matching.alignment import Alignment, Item
from toolmark.matching.plan import Entry, Layout, forbidden_calls, places_of
from toolmark.matching.plan_slots import Want
from toolmark.metrics.argument_leaves import by_leaves, flattened, unfolded
from toolmark.metrics.call_filter import Prepared
from toolmark.metrics.comparable_calls import called_item, expected_item
from toolmark.metrics.plan_variants import Aligner, aligner, layouts_of
from toolmark.metrics.tool_effects import Split, listed
from toolmark.metrics.wording import arithmetic, findings_of
from toolmark.result import Finding

EffectOf = Callable[[Want], ToolEffect]
"""Knows what an expected call does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Alignments in the positions of the case, or in those of the places of a plan.

    Attributes:
        writes: Of the writes, whatever their order.
        reads: Of the reads, by name.
        in_order: Aligns the writes again, in the expected order.
        names: What is expected, by position.
        forbidden: Called positions that a plan forbids, with its words for what.
        notes: What was not looked at.
    """

    writes: Alignment
    reads: Alignment
    in_order: Callable[[], Alignment]
    names: Sequence[str]
    forbidden: Sequence[tuple[int, str]] = ()
    notes: Sequence[str] = ()

    def f1_with(self, unknown: int) -> float:
        """Return F1 of the writes if so many further calls had been writes that nobody expected."""
        return replace(self.writes, called_count=self.writes.called_count + unknown).f1

    def ordered(self) -> Ordered:
        """Return this with what there is to say of the order."""
        return Ordered(self, self.in_order())


@dataclass(frozen=True, slots=True)
class Ordered:
    """All there is to say of a task's effect.

    Attributes:
        changes: What was changed.
        writes: The alignment of the writes in the expected order.
    """

    changes: Changes
    writes: Alignment

    @property
    def share(self) -> Fraction | None:
        """The share of the matched weight that is in the expected order; `None` where there is no order to speak of."""
        free = self.changes.writes
        if len(free.pairs) < 2 or not free.matched:  # noqa: PLR2004 - one call has no order
            return None
        # In order, calls may be left over; so rules of a plan can cost less there than where all of them are placed.
        return min(self.writes.matched / free.matched, Fraction(1))

    def parts(self) -> dict[str, float]:
        """Return the parts that apply."""
        writes, reads, order = self.changes.writes, self.changes.reads, self.share
        parts: dict[str, float] = {}
        if writes.expected_count or writes.called_count:
            parts["write_f1"] = writes.f1
        if writes.expected_count:
            parts["write_recall"] = writes.recall
        if writes.called_count:
            parts["write_precision"] = writes.precision
        if reads.expected_count:
            parts["read_recall"] = reads.recall
        if order is not None:
            parts["write_order"] = float(order)
        return parts

    def steps(self) -> list[str]:
        """Return the sums of the parts."""
        free, reads, order = self.changes.writes, self.changes.reads, self.share
        lines = [f"Writes: {arithmetic(free, 'f1', exact=False)}."]
        if reads.expected_count:
            made = number_text(float(reads.matched))
            lines.append(f"Reads: {made} of {reads.expected_count} expected = {number_text(reads.recall)}.")
        if order is not None:
            terms = [number_text(float(weight)) for weight in (order * free.matched, free.matched)]
            lines.append(f"Order: {terms[0]} of {terms[1]} matched in order = {number_text(float(order))}.")
        return lines

    def findings(self, called: Sequence[str]) -> list[Finding]:
        """Return what is wrong with the writes, writes that are out of order, and reads that are missing.

        Args:
            called: Names of the called tools of the case.
        """
        names, reads = self.changes.names, self.changes.reads
        missing = [
            Finding(
                "missing",
                f"Missing read: expected #{index + 1} {printable(names[index])!r} was not called.",
                names[index],
                expected=index,
            )
            for index in reads.missing
        ]
        return [
            *findings_of(self.changes.writes, names, called),
            *self._moved(),
            *missing,
            *findings_of(replace(reads, missing=(), unexpected=()), names, called),
        ]

    def _moved(self) -> Iterator[Finding]:
        """Yield writes that are out of order, but for those that break a rule of a plan: these cost, and are told."""
        names = self.changes.names
        told = {pair.expected for pair in self.changes.writes.out_of_order}
        for pair in self.writes.out_of_order:
            if pair.breaks is None and pair.expected not in told:
                text = f"Out of order: expected #{pair.expected + 1} {printable(names[pair.expected])!r} was called as "
                text += f"#{pair.called + 1}; it costs nothing."
                yield Finding("out_of_order", text, names[pair.expected], pair.expected, pair.called)


def changes_of_list(done: Prepared, split: Split) -> Changes:
    """Return what was changed, beside a list of expected calls.

    Args:
        done: The expected calls, and the called ones that count.
        split: What each of them does.
    """
    writes, reads = (
        done.kept(
            [index for index, found in enumerate(split.expected) if found is effect],
            [index for index, found in enumerate(split.called) if found is effect],
        )
        for effect in (ToolEffect.WRITE, ToolEffect.READ)
    )
    (expected, called), paths = flattened(
        [expected_item(call) for call in writes.expected], [called_item(call) for call in writes.called]
    )
    by_name = align([expected_item(call) for call in reads.expected], [called_item(call) for call in reads.called])

    def aligned(*, ordered: bool) -> Alignment:
        return writes.placed(unfolded(align(expected, called, ordered=ordered, arguments=True), paths))

    return Changes(
        writes=aligned(ordered=False),
        reads=reads.placed(by_name),
        in_order=lambda: aligned(ordered=True),
        names=[call.name for call in done.expected],
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """The called tools of one effect, ready to be aligned with ways of a plan.

    Attributes:
        effect: What they do.
        called_at: The position of each in the case.
        items: The calls as the algorithms see them.
        align: Aligns them.
    """

    effect: ToolEffect
    called_at: Sequence[int]
    items: Sequence[Item]
    align: Aligner

    @classmethod
    def of(cls, effect: ToolEffect, done: Prepared, split: Split) -> _Side:
        """Return the calls of one effect."""
        side = done.kept((), [index for index, found in enumerate(split.called) if found is effect])
        items = [called_item(call) for call in side.called]
        return cls(effect, side.called_at, items, aligner(side.called, arguments=effect is ToolEffect.WRITE))

    def part(self, layout: Layout, effect: EffectOf) -> Layout:
        """Return the entries of a layout that have this effect; arguments of writes are compared leaf by leaf."""
        entries = tuple(entry for entry in layout.entries if effect(entry.wants[0]) is self.effect)
        part = replace(layout, entries=entries, forbidden=())
        return by_leaves(part, self.items) if self.effect is ToolEffect.WRITE else part


def changes_of_plan(expected: Expectation, done: Prepared, split: Split, effect: EffectOf) -> Iterator[Changes]:
    """Yield what was changed, beside each way in which a plan can be followed, in the order in which it is written.

    Args:
        expected: The plan.
        done: The called tools that count.
        split: What each of them does.
        effect: Knows what each expected call does.

    Raises:
        ConfigurationError: Too many places of the plan leave the choice between a write and a read.
    """
    sides = {one: _Side.of(one, done, split) for one in ToolEffect}
    called = [called_item(call) for call in done.called]
    for layout in _decided(expected, effect):
        forbidden = tuple((done.called_at[at], text) for at, text in forbidden_calls(layout, called))
        yield replace(_way(layout, effect, sides), forbidden=forbidden)


def _way(layout: Layout, effect: EffectOf, sides: Mapping[ToolEffect, _Side]) -> Changes:
    """Return what was changed, beside one way of a plan."""
    parts = {one: side.part(layout, effect) for one, side in sides.items()}
    sizes = {one: iter(places_of(parts[one], side.items)) for one, side in sides.items()}
    at: dict[ToolEffect, list[int]] = {one: [] for one in sides}
    names: list[str] = []
    for entry in layout.entries:
        own = effect(entry.wants[0])
        size = next(sizes[own])
        at[own] += range(len(names), len(names) + size)
        names += [entry.text] * size

    def aligned(one: ToolEffect, *, ordered: bool = False) -> Alignment:
        found = sides[one].align(parts[one], ordered=ordered)
        return replace(found.placed(at[one], sides[one].called_at), wanted=tuple(names))

    return Changes(
        writes=aligned(ToolEffect.WRITE),
        reads=aligned(ToolEffect.READ),
        in_order=lambda: aligned(ToolEffect.WRITE, ordered=True),
        names=names,
        notes=_not_looked_at(layout, effect),
    )


def _decided(expected: Expectation, effect: EffectOf) -> Iterator[Layout]:
    """Yield every way of a plan; a place that a write or a read may take is two ways, in the order of its calls."""
    most = MOST_WAYS * len(expected.plans)
    amount = 0
    for layout in layouts_of(expected):
        options = [list(_options(entry, effect)) for entry in layout.entries]
        amount += prod(map(len, options))
        if amount > most:
            message = (
                f"the alternatives of expected_tools can be combined in {amount} ways or more, since a OneOf of writes "
                f"and reads is a choice here; at most {most} are tried: split the plan into several cases"
            )
            raise ConfigurationError(message)
        for chosen in product(*options):
            entries = tuple(entry for entry, _ in chosen)
            choices = (*layout.choices, *(choice for _, choice in chosen if choice))
            yield replace(layout, entries=entries, choices=choices)


def _options(entry: Entry, effect: EffectOf) -> Iterator[tuple[Entry, str]]:
    """Yield an entry with those of its calls that have one effect, and that in words where there are others."""
    effects = dict.fromkeys(map(effect, entry.wants))
    if len(effects) == 1:
        yield entry, ""
        return
    for own in effects:
        wants = tuple(want for want in entry.wants if effect(want) is own)
        text = " or ".join(want.item.name for want in wants)
        yield entry._replace(wants=wants, text=text), f"{text!r} of {entry.text!r}"


def _not_looked_at(layout: Layout, effect: EffectOf) -> list[str]:
    """Return the warning that rules between a write and a read play no part; none where there is no such rule."""
    own = [effect(entry.wants[0]) for entry in layout.entries]
    rules = [
        f"{entry.text} after {label}"
        for entry, mine in zip(layout.entries, own, strict=True)
        for label in sorted(entry.after)
        if any(label in other.labels and theirs is not mine for other, theirs in zip(layout.entries, own, strict=True))
    ]
    groups: dict[int, list[int]] = {}
    for index, entry in enumerate(layout.entries):
        if entry.group is not None:
            groups.setdefault(entry.group, []).append(index)
    rules += [
        f"{', '.join(layout.entries[index].text for index in members)} in one step"
        for members in groups.values()
        if len({own[index] for index in members}) > 1
    ]
    return [f"not looked at, since writes and reads are compared apart: {listed(rules)}"] if rules else []
